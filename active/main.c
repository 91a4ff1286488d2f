/* SPDX-License-Identifier: GPL-3.0-or-later */
/* postcopy-active - makes this node the active one of a disk that several nodes can reach. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hold.h"
#include "journald.h"
#include "notify.h"
#include "show.h"

#define EXIT_USAGE	2
#define EXIT_NOT_THERE 4

struct options {
	const char *config, *command, *dir;
	unsigned int io_timeout; /* s */
};

static void log_line(void *arg, enum stub_log_level level, const char *msg)
{
	if (level <= STUB_LOG_INFO)
		journald_say(level, msg);
}

static void usage(FILE *f)
{
	fputs("usage: postcopy-active [--config FILE] COMMAND DIR\n"
	      "\n"
	      "Makes this node the active one of the disk at DIR, or above, which several nodes can reach.\n"
	      "\n"
	      "  make DIR           make the lease, once, on one node: its device must be all zeros\n"
	      "  hold DIR           take the lease, mount the disk, and keep both until a signal\n"
	      "  show DIR           who has the lease: a JSON object\n"
	      "\n"
	      "  -c, --config FILE  the nodes (default " NODES_DEFAULT_PATH ")\n"
	      "  -t, --io-timeout S of make: seconds that one access to the lease's device may take,\n"
	      "                     1 to 60 (10); a dead node's lease is free after 8 S + 60 seconds\n"
	      "  -h, --help         this text\n"
	      "  -V, --version      version\n"
	      "\n"
	      "See postcopy-active(8).\n",
	      f);
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "io-timeout", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	char *rest;
	int c;

	while ((c = getopt_long(argc, argv, "c:t:hV", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			o->config = optarg;
			break;
		case 't':
			o->io_timeout = (unsigned int)strtoul(optarg, &rest, 10);
			if (*rest || !*optarg || o->io_timeout < 1 || o->io_timeout > LEASE_TIMEOUT_MAX) {
				fprintf(stderr, "postcopy-active: --io-timeout wants 1 to %d seconds\n",
					LEASE_TIMEOUT_MAX);
				return EXIT_USAGE;
			}
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			puts("postcopy-active " POSTCOPY_VERSION);
			exit(0);
		default:
			usage(stderr);
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	o->command = argv[optind];
	o->dir = argv[optind + 1];
	return 0;
}

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "postcopy-active: %s: %s\n", what, why);
	return HOLD_FAILED;
}

static int make(const struct nodes *n, const struct options *o)
{
	char name[STUB_LEASE_MAX + 1];
	int r = lease_make(n->lease, o->io_timeout, name);

	if (r == -EEXIST) {
		fprintf(stderr, "postcopy-active: %s has a lease already, %s: nothing was changed\n", n->lease, name);
		return HOLD_FAILED;
	}
	if (r < 0)
		return complain(n->lease, r == -ENOTEMPTY ? "it is not empty: give the lease a device of its own, "
							    "whose first 2 MiB are zeros" :
					  r == -EBUSY	  ? "it is in use" :
					  r == -EFBIG	  ? "the lease wants 2 MiB" : lease_strerror(r));
	printf("%s\n", name);
	return fflush(stdout) == 0 ? 0 : HOLD_FAILED;
}

static int run(const struct nodes *n, const struct options *o)
{
	sigset_t set;
	int r;

	if (!strcmp(o->command, "make"))
		return make(n, o);
	if (!strcmp(o->command, "show")) {
		r = show(n);
		return r < 0 ? complain(n->lease, lease_strerror(r)) : 0;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return hold(n, log_line);
}

int main(int argc, char **argv)
{
	static struct nodes nodes;
	struct options o = { .io_timeout = LEASE_TIMEOUT };
	struct nodes_problem why;
	int r = parse(argc, argv, &o);

	if (r)
		return r;
	if (strcmp(o.command, "make") && strcmp(o.command, "hold") && strcmp(o.command, "show")) {
		fprintf(stderr, "postcopy-active: unknown command '%s' (see --help)\n", o.command);
		return EXIT_USAGE;
	}
	if (geteuid() != 0)
		return complain(o.command, "must be run as root");
	notify_begin();
	journald_begin("postcopy-active", o.dir);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	r = nodes_read(o.config, o.dir, &nodes, &why);
	if (r < 0) {
		fprintf(stderr, "postcopy-active: %s\n", why.text);
		return r == -ENOENT ? EXIT_NOT_THERE : EXIT_USAGE;
	}
	if (!nodes.here) {
		fprintf(stderr, "postcopy-active: this machine is none of the nodes of %s: is its host name among them?\n",
			nodes.mount);
		return EXIT_USAGE;
	}
	return run(&nodes, &o);
}
