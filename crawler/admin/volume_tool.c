/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_tool.c - postcopy-volume: what is done to a volume without a retriever. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "admin/volume_tool.h"
#include "source/trace.h"

static const struct command {
	const char *name;
	int (*run)(struct verdict *v, int argc, char **argv);
	const char *usage;
	const char *does;
} commands[] = {
	{ "init", volume_init,
	  "init --source URI [--join URI] [--socket PATH] [--control PATH] [--config FILE] "
	  "[--streams xattr|depot:DIR] [--way-back] DIR",
	  "check everything, then make DIR a volume" },
	{ "check", volume_check,
	  "check --source URI [--names] [--read] [--protocols nfs,smb] [--accept LIST] [--limit N] "
	  "[--workers N] [--config FILE] [--streams xattr|depot:DIR] [--way-back] [DIR]",
	  "say what init would keep and what lose, and change nothing" },
	{ "rehearse", volume_rehearse,
	  "rehearse --source URI [--join URI] [--seconds N] [--config FILE] "
	  "[--streams xattr|depot:DIR] [DIR]",
	  "list and read from the source for a while, and say what was seen; into nothing, or "
	  "unnamed files of DIR's file system" },
	{ "counts", volume_counts, "counts DIR", "what the pending journal holds" },
	{ "parked", volume_parked, "parked DIR", "the objects that were given up, and why" },
	{ "errors", volume_errors, "errors [--first N] DIR",
	  "the same by reason: how many, what to do, and the first N of each" },
	{ "reasons", volume_reasons, "reasons", "all reasons, and what to do about each" },
	{ "history", volume_history, "history DIR",
	  "how it went so far: samples of what was found and done" },
	{ "scan", volume_scan, "scan DIR", "walk the whole volume and count stubs" },
	{ "window", volume_window, "window DIR [none | WINDOW...]",
	  "when the crawler may crawl, such as 'Mon..Fri 20:00-06:00': show it, or set it" },
	{ "order", volume_order,
	  "order DIR [default | {recent | small | large | ahead=N | first=PATTERN | "
	  "last=PATTERN}...]",
	  "what the crawler asks for first: show it, or set it" },
	{ "mirror", volume_mirror, "mirror DIR", "which mirror it has" },
	{ "mirror-add", volume_mirror_add, "mirror-add [--config FILE] [--smb URI] URI DIR",
	  "try the empty export nfs://host/path, and make it the volume's mirror" },
	{ "mirror-remove", volume_mirror_remove, "mirror-remove DIR", "it has none any more" },
	{ "mirror-mode", volume_mirror_mode, "mirror-mode [--gone RULE] [--lag SECONDS] [--mode MODE] DIR",
	  "what is acknowledged when" },
	{ "mirror-thaw", volume_mirror_thaw, "mirror-thaw DIR", "a rollback did not take place" },
	{ "moved", volume_moved, "moved [--one-machine] DIR",
	  "the file system was copied block by block or has another UUID: this is the volume now; "
	  "--one-machine: and no other machine can reach its disk" },
	{ "verify", volume_verify,
	  "verify {--all | --sample N} [--again] [--limit N] [--workers N] [--give-up SECONDS] "
	  "[--config FILE] [--manifest FILE] DIR",
	  "compare the volume with the source; what clients have changed is told apart" },
	{ "verified", volume_verified, "verified DIR", "how the last such comparison went" },
	{ "abort", volume_abort, "abort --list FILE [--dry-run] DIR",
	  "give the migration up: list what is missing in FILE, and leave what is there" },
	{ "remove", volume_remove, "remove [--keep-mirror] [--unverified | --require {all|sample}] DIR",
	  "end the migration: scan, then remove .postcopy/, or keep what its backup needs" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *f)
{
	fprintf(f, "Usage: postcopy-volume [--debug] COMMAND ...\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(f, "  %s\n        %s\n", commands[i].usage, commands[i].does);
	fprintf(f, "\n--debug: each call to the old server, on stderr.\n"
		   "Prints JSON. Exit statuses are listed in postcopy-volume(8).\n");
}

static void say(void *arg, enum stub_log_level level, const char *msg)
{
	fprintf(stderr, "postcopy-volume: %s\n", msg);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; name && i < COMMANDS; i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct verdict v; /* 14 KiB */
	const struct command *c;
	int r;

	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && !strcmp(argv[1], "--debug")) {
		trace_to(say, NULL);
		trace_set(true);
		argc--;
		argv++;
	}
	c = command_find(argv[1]);
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		usage(stdout);
		return 0;
	}
	if (argc == 2 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		printf("postcopy-volume %s\n", POSTCOPY_VERSION);
		return 0;
	}
	if (!c)
		verdict_fail(&v, FAIL_USAGE,
			     argc < 2 ? "no command given (see --help)" :
					"unknown command '%s' (see --help)",
			     argv[1]);
	else if (geteuid() != 0 && c->run != volume_rehearse) /* there the source decides */
		verdict_fail(&v, FAIL_NOT_ROOT, "must be run as root");
	else {
		r = c->run(&v, argc - 1, argv + 1);
		if (r >= 0)
			return r;
	}
	return verdict_print_failure(&v);
}
