/* SPDX-License-Identifier: GPL-3.0-or-later */
/* answer.h - how an answer on the control socket is put together. */
#ifndef SERVICE_ANSWER_H
#define SERVICE_ANSWER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static inline struct json_object *answer_ok(void)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "ok", json_object_new_boolean(1));
	return o;
}

static inline struct json_object *answer_error(const char *text)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "ok", json_object_new_boolean(0));
	json_object_object_add(o, "error", json_object_new_string(text));
	return o;
}

static inline void add_u(struct json_object *o, const char *key, uint64_t x)
{
	json_object_object_add(o, key, json_object_new_uint64(x));
}

static inline void add_b(struct json_object *o, const char *key, bool x)
{
	json_object_object_add(o, key, json_object_new_boolean(x));
}

static inline void add_s(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_object_new_string(s));
}

static inline void add_f(struct json_object *o, const char *key, double x)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f", x);
	json_object_object_add(o, key, json_object_new_double_s(x, text));
}

#endif
