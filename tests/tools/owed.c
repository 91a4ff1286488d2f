/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * owed: a volume's ledger of what a mirror is owed, for the test suites only.
 *
 *   owed make VOLUME     it has one from now on; nothing else has the volume open
 *   owed list VOLUME     a JSON line for each object that is owed: {"path", "ino", "what"}, or
 *                        {"handle", "what"} where it is gone
 *   owed strike VOLUME   as a replicator that finds everything equal; what stays owed is listed
 *   owed freeze|thaw VOLUME
 *
 * Exit status: 0, 1 failed (the message says the errno), 2 wrong usage.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "internal.h"
#include "stubledger.h"
#include "stubmirror.h"

#define MANY 64

static void print_string(const char *s)
{
	putchar('"');
	for (; *s; s++)
		printf(strchr("\"\\", *s) || (unsigned char)*s < ' ' ? "\\u%04x" : "%c",
		       (unsigned char)*s);
	putchar('"');
}

/* The path below the volume by which the kernel has @fd. */
static void print_path(const struct stub_volume *v, int fd)
{
	char link[2][32], path[2][PATH_MAX];
	const int fds[2] = { stub_volume_fd(v), fd };
	size_t top;
	ssize_t n;

	for (int i = 0; i < 2; i++) {
		snprintf(link[i], sizeof(link[i]), "/proc/self/fd/%d", fds[i]);
		n = readlink(link[i], path[i], sizeof(path[i]) - 1);
		path[i][n < 0 ? 0 : n] = '\0';
	}
	top = strlen(path[0]);
	print_string(strncmp(path[0], path[1], top) ? path[1] :
						     path[1] + top + (path[1][top] == '/'));
}

static void print(const struct stub_volume *v, const struct stub_owed *o)
{
	int fd CLEANUP_CLOSE = stub_handle_open_at(stub_volume_fd(v), &o->h, O_PATH | O_CLOEXEC);
	struct stat st;

	printf("{");
	if (fd >= 0 && fstatat(fd, "", &st, AT_EMPTY_PATH) == 0) {
		printf("\"ino\": %ju, \"path\": ", (uintmax_t)st.st_ino);
		print_path(v, fd);
	} else {
		printf("\"handle\": \"");
		for (unsigned int i = 0; i < o->h.len; i++)
			printf("%02x", o->h.bytes[i]);
		printf("\"");
	}
	printf(", \"what\": \"%s%s%s\"}\n", o->what & STUB_OWED_DATA ? "D" : "",
	       o->what & STUB_OWED_ATTRS ? "A" : "", o->what & STUB_OWED_NAMES ? "N" : "");
}

static int each(struct stub_volume *v, bool strike)
{
	struct stub_ledger *l;
	struct stub_owed o[MANY];
	uint64_t after = 0;
	int n, r = stub_ledger_open(v, &l);

	if (r < 0)
		return r;
	while (r >= 0 && (n = r = stub_ledger_next(l, after, o, MANY)) > 0) {
		for (int i = 0; i < n && r >= 0; i++) {
			after = o[i].turn;
			r = strike ? stub_ledger_begin(l, &o[i]) : 0;
			if (r == 0 && strike)
				r = stub_ledger_strike(l, &o[i]);
			if (r == 1 || !strike)
				print(v, &o[i]);
		}
	}
	if (r >= 0 && stub_ledger_unknown(l))
		r = -EBADMSG;
	stub_ledger_close(l);
	return r < 0 ? r : 0;
}

static int cmd_list(struct stub_volume *v)
{
	return each(v, false);
}

static int cmd_strike(struct stub_volume *v)
{
	return each(v, true);
}

static int cmd_freeze(struct stub_volume *v)
{
	return stub_ledger_freeze(v, true);
}

static int cmd_thaw(struct stub_volume *v)
{
	return stub_ledger_freeze(v, false);
}

static const struct {
	const char *name;
	int (*run)(struct stub_volume *v);
} commands[] = {
	{ "make", stub_ledger_make }, { "list", cmd_list }, { "strike", cmd_strike },
	{ "freeze", cmd_freeze },     { "thaw", cmd_thaw },
};

static void log_stderr(void *arg, enum stub_log_level level, const char *msg)
{
	(void)arg;
	if (level <= STUB_LOG_WARN)
		fprintf(stderr, "owed: %s\n", msg);
}

int main(int argc, char **argv)
{
	struct stub_volume *v;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(commands) && argc == 3; i++) {
		if (strcmp(commands[i].name, argv[1]))
			continue;
		r = stub_volume_open(argv[2], 0, log_stderr, NULL, &v);
		if (r == 0) {
			r = commands[i].run(v);
			stub_volume_close(v);
		}
		if (r < 0)
			fprintf(stderr, "owed: %s %s: %s\n", argv[1], argv[2], strerror(-r));
		return r < 0;
	}
	fprintf(stderr, "usage: owed make|list|strike|freeze|thaw VOLUME\n");
	return 2;
}
