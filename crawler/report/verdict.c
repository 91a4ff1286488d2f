/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/verdict.h"

#include <stdarg.h>

static const struct {
	const char *code;
	int status;
} fails[] = {
	[FAIL_NONE] = { "none", 0 },
	[FAIL_INTERNAL] = { "internal", 1 },
	[FAIL_USAGE] = { "usage", 2 },
	[FAIL_NOT_ROOT] = { "not-root", 10 },
	[FAIL_URI] = { "uri-bad", 11 },
	[FAIL_UNKNOWN_HOST] = { "unknown-host", 12 },
	[FAIL_REFUSED] = { "connection-refused", 13 },
	[FAIL_NOT_EXPORT] = { "not-an-export", 14 },
	[FAIL_UNREACHABLE] = { "source-unreachable", 15 },
	[FAIL_PROTOCOL] = { "source-protocol", 16 },
	[FAIL_DENIED] = { "source-denied", 17 },
	[FAIL_SQUASHED] = { "root-squashed", 18 },
	[FAIL_RESERVED_NAME] = { "source-reserved-name", 19 },
	[FAIL_SOURCE] = { "source-failed", 20 },
	[FAIL_TARGET_MISSING] = { "target-missing", 30 },
	[FAIL_TARGET_NOT_DIR] = { "target-not-directory", 31 },
	[FAIL_TARGET_NOT_EMPTY] = { "target-not-empty", 32 },
	[FAIL_TARGET_VOLUME] = { "target-is-volume", 33 },
	[FAIL_TARGET_XATTR] = { "target-no-xattrs", 34 },
	[FAIL_TARGET_HANDLES] = { "target-no-handles", 35 },
	[FAIL_TARGET_TMPFILE] = { "target-no-tmpfile", 36 },
	[FAIL_TARGET_TMPFS] = { "target-tmpfs", 37 },
	[FAIL_TARGET_READONLY] = { "target-read-only", 38 },
	[FAIL_TARGET_INSIDE] = { "target-source-overlap", 39 },
	[FAIL_TARGET_FULL] = { "target-no-space", 40 },
	[FAIL_TARGET] = { "target-failed", 41 },
	[FAIL_TARGET_FOLDS] = { "target-folds-case", 43 },
	[FAIL_SOCKET_PATH] = { "socket-path", 42 },
	[FAIL_NOT_VOLUME] = { "not-a-volume", 50 },
	[FAIL_VOLUME_DAMAGED] = { "volume-damaged", 51 },
	[FAIL_JOURNAL] = { "journal-damaged", 52 },
	[FAIL_INCOMPLETE] = { "not-complete", 53 },
	[FAIL_BUSY] = { "retriever-running", 54 },
	[FAIL_SCAN] = { "scan-failed", 55 },
	[FAIL_ELSEWHERE] = { "volume-elsewhere", 56 },
	[FAIL_ABORT_BEGUN] = { "abort-begun", 57 },
	[FAIL_IN_USE] = { "in-use", 58 },
	[FAIL_NOT_ACTIVE] = { "not-active", 59 },
	[FAIL_UNVERIFIED] = { "not-verified", 60 },
	[FAIL_MIRROR] = { "mirror", 61 },
	[FAIL_MIRRORED] = { "mirrored", 62 },
};

int verdict_fail(struct verdict *v, enum fail fail, const char *fmt, ...)
{
	va_list ap;

	if (v->fail != FAIL_NONE)
		return -1;
	v->fail = fail;
	va_start(ap, fmt);
	vsnprintf(v->message, sizeof(v->message), fmt, ap);
	va_end(ap);
	return -1;
}

void verdict_warn(struct verdict *v, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (v->warnings == WARNINGS_MAX)
		return;
	v->warning[v->warnings].code = code;
	va_start(ap, fmt);
	vsnprintf(v->warning[v->warnings].message, sizeof(v->warning[0].message), fmt, ap);
	va_end(ap);
	v->warnings++;
}

int verdict_print_failure(const struct verdict *v)
{
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", false);
	json_str(&j, "error", fails[v->fail].code);
	json_str(&j, "message", v->message);
	json_end(&j);
	fprintf(stderr, "postcopy-volume: %s\n", v->message);
	return fails[v->fail].status;
}

void verdict_warnings_json(const struct verdict *v, struct json *j)
{
	json_array(j, "warnings");
	for (unsigned int i = 0; i < v->warnings; i++) {
		json_object(j, NULL);
		json_str(j, "code", v->warning[i].code);
		json_str(j, "message", v->warning[i].message);
		json_object_end(j);
	}
	json_array_end(j);
}

void verdict_log(void *arg, enum stub_log_level level, const char *msg)
{
	if (level == STUB_LOG_ERROR || level == STUB_LOG_WARN)
		fprintf(stderr, "postcopy-volume: %s%s\n",
			level == STUB_LOG_WARN ? "warning: " : "", msg);
}
