/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * json_out.h - one JSON object per line, written member by member.
 *
 *     struct json j;
 *     json_begin(&j, stdout);
 *     json_bool(&j, "ok", true);
 *     json_end(&j);
 *
 * Strings are bytes. What is not UTF-8 is written as \udc80..\udcff, which is
 * what Python's surrogateescape makes of it, so that no name gets lost.
 */
#ifndef JSON_OUT_H
#define JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *f;
	bool comma; /* the next member needs one */
};

void json_begin(struct json *j, FILE *f);
int json_end(struct json *j); /* newline and flush; -EIO if something could not be written */

/* @key is NULL inside an array. */
void json_str(struct json *j, const char *key, const char *value);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_real(struct json *j, const char *key, double value); /* one digit behind the point */
void json_bool(struct json *j, const char *key, bool value);

void json_array(struct json *j, const char *key);
void json_array_end(struct json *j);
void json_object(struct json *j, const char *key);
void json_object_end(struct json *j);

#endif
