/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verdict.h - why postcopy-volume failed, and what it warns of.
 *
 * Each failure has a code for programs, an exit status of its own, and a line
 * for people that says what is wrong and what to do. All three are documented in
 * postcopy-volume(8).
 */
#ifndef VERDICT_H
#define VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report/json_out.h"
#include "stubcore.h"

enum fail {
	FAIL_NONE = 0,
	FAIL_INTERNAL,
	FAIL_USAGE,
	FAIL_NOT_ROOT,
	FAIL_URI,
	FAIL_UNKNOWN_HOST,
	FAIL_REFUSED,
	FAIL_NOT_EXPORT,
	FAIL_UNREACHABLE,
	FAIL_PROTOCOL,
	FAIL_DENIED,
	FAIL_SQUASHED,
	FAIL_RESERVED_NAME,
	FAIL_SOURCE,
	FAIL_TARGET_MISSING,
	FAIL_TARGET_NOT_DIR,
	FAIL_TARGET_NOT_EMPTY,
	FAIL_TARGET_VOLUME,
	FAIL_TARGET_XATTR,
	FAIL_TARGET_HANDLES,
	FAIL_TARGET_TMPFILE,
	FAIL_TARGET_TMPFS,
	FAIL_TARGET_READONLY,
	FAIL_TARGET_INSIDE,
	FAIL_TARGET_FULL,
	FAIL_TARGET,
	FAIL_TARGET_FOLDS,
	FAIL_SOCKET_PATH,
	FAIL_NOT_VOLUME,
	FAIL_VOLUME_DAMAGED,
	FAIL_JOURNAL,
	FAIL_INCOMPLETE,
	FAIL_BUSY,
	FAIL_SCAN,
	FAIL_ELSEWHERE,
	FAIL_ABORT_BEGUN,
	FAIL_IN_USE,
	FAIL_NOT_ACTIVE,
	FAIL_UNVERIFIED,
	FAIL_MIRROR,
	FAIL_MIRRORED,
};

#define WARNINGS_MAX 16

struct verdict {
	enum fail fail;
	char message[1536];
	struct {
		const char *code;
		char message[768];
	} warning[WARNINGS_MAX];
	unsigned int warnings;
};

/* Set the failure (the first one stays). Returns -1, so that callers can return it. */
int verdict_fail(struct verdict *v, enum fail fail, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void verdict_warn(struct verdict *v, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* {"ok":false,"error":...,"message":...} on stdout, the message on stderr too.
 * Returns the exit status. */
int verdict_print_failure(const struct verdict *v);
void verdict_warnings_json(const struct verdict *v, struct json *j);

/* The library's log: errors and warnings go to stderr. */
void verdict_log(void *arg, enum stub_log_level level, const char *msg);

#endif
