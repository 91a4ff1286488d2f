// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfstree: write a manifest of an NFSv3 export, or compare two.
 *
 *   nfstree [options] nfs://HOST/EXPORT[?nfsport=N&mountport=N&uid=N&gid=N]
 *   nfstree --diff [--ignore FIELD,...] [--atime] A B
 *
 * Only reads.  Exit status: 0 done or equal, 1 different, 2 some objects could
 * not be read (their lines say why), 3 server lost, 64 wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nfstree.h"

static const char usage_text[] =
	"usage: nfstree [options] nfs://HOST/EXPORT[?nfsport=N&mountport=N]\n"
	"       nfstree --diff [--ignore FIELD,...] [--atime] [--show N] A B\n"
	"  -o, --output FILE      write the manifest there (default: stdout)\n"
	"      --no-hash          do not read files\n"
	"      --no-atime         do not record access times\n"
	"      --jobs N           calls in flight per connection (default 16)\n"
	"      --connections N    default 4, at most 16\n"
	"      --retry-seconds N  bear a server that is away, or answers only\n"
	"                         \"try again later\", this long (default 120)\n"
	"      --timeout N        reconnect after N seconds of silence (default 30)\n"
	"      --progress         report every second on stderr\n"
	"      --quiet            no summary on stderr\n"
	"      --atime            with --diff: compare access times too\n"
	"      --show N           with --diff: print N differences (default 100)\n";

enum {
	O_NO_HASH = 256,
	O_NO_ATIME,
	O_JOBS,
	O_CONNECTIONS,
	O_RETRY,
	O_TIMEOUT,
	O_PROGRESS,
	O_QUIET,
	O_DIFF,
	O_IGNORE,
	O_ATIME,
	O_SHOW
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "no-hash", no_argument, NULL, O_NO_HASH },
	{ "no-atime", no_argument, NULL, O_NO_ATIME },
	{ "jobs", required_argument, NULL, O_JOBS },
	{ "connections", required_argument, NULL, O_CONNECTIONS },
	{ "retry-seconds", required_argument, NULL, O_RETRY },
	{ "timeout", required_argument, NULL, O_TIMEOUT },
	{ "progress", no_argument, NULL, O_PROGRESS },
	{ "quiet", no_argument, NULL, O_QUIET },
	{ "diff", no_argument, NULL, O_DIFF },
	{ "ignore", required_argument, NULL, O_IGNORE },
	{ "atime", no_argument, NULL, O_ATIME },
	{ "show", required_argument, NULL, O_SHOW },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

struct command {
	struct nt_options opt;
	const char *output;
	const char *ignore;
	bool diff, compare_atime, quiet;
	unsigned long show;
};

static void usage(void)
{
	fputs(usage_text, stderr);
	exit(NT_USAGE);
}

static long number(const char *text, long min, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max) {
		fprintf(stderr, "nfstree: %s: not a number from %ld to %ld\n", text, min, max);
		exit(NT_USAGE);
	}
	return value;
}

static void parse_argument(struct nt_options *opt, char *arg)
{
	char *value = strchr(arg, '=');

	if (!value)
		return;
	*value++ = '\0';
	if (!strcmp(arg, "nfsport"))
		opt->nfs_port = number(value, 1, 65535);
	else if (!strcmp(arg, "mountport"))
		opt->mount_port = number(value, 1, 65535);
	else if (!strcmp(arg, "uid"))
		opt->uid = number(value, 0, INT_MAX);
	else if (!strcmp(arg, "gid"))
		opt->gid = number(value, 0, INT_MAX);
	else if (!strcmp(arg, "version") && strcmp(value, "3") != 0)
		usage();
	/* Other arguments of libnfs URLs do not matter here. */
}

static void percent_decode(char *s)
{
	char *to = s;
	unsigned int c;

	for (; *s; s++) {
		if (s[0] == '%' && sscanf(s + 1, "%2x", &c) == 1 && c) {
			*to++ = c;
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

static void parse_url(struct nt_options *opt, const char *url)
{
	char *copy, *path, *args, *word;

	if (strncmp(url, "nfs://", 6) != 0)
		usage();
	copy = strdup(url + 6);
	if (!copy)
		exit(NT_SERVER_LOST);
	args = strchr(copy, '?');
	if (args)
		*args++ = '\0';
	path = strchr(copy, '/');
	if (!path || path == copy)
		usage();
	opt->export = strdup(path);
	*path = '\0';
	opt->server = strdup(copy);
	percent_decode(opt->export);
	while (args && (word = strsep(&args, "&")))
		parse_argument(opt, word);
	free(copy);
}

static void parse_options(struct command *cmd, int argc, char **argv)
{
	struct nt_options *opt = &cmd->opt;
	int c;

	while ((c = getopt_long(argc, argv, "o:h", long_options, NULL)) != -1) {
		switch (c) {
		case 'o':
			cmd->output = optarg;
			break;
		case O_NO_HASH:
			opt->hash = false;
			break;
		case O_NO_ATIME:
			opt->atime = false;
			break;
		case O_JOBS:
			opt->jobs = number(optarg, 1, 1024);
			break;
		case O_CONNECTIONS:
			opt->connections = number(optarg, 1, NT_MAX_LINKS);
			break;
		case O_RETRY:
			opt->retry_seconds = number(optarg, 0, 1000000);
			break;
		case O_TIMEOUT:
			opt->timeout_seconds = number(optarg, 1, 1000000);
			break;
		case O_PROGRESS:
			opt->progress = true;
			break;
		case O_QUIET:
			cmd->quiet = true;
			break;
		case O_DIFF:
			cmd->diff = true;
			break;
		case O_IGNORE:
			cmd->ignore = optarg;
			break;
		case O_ATIME:
			cmd->compare_atime = true;
			break;
		case O_SHOW:
			cmd->show = number(optarg, 0, LONG_MAX);
			break;
		default:
			usage();
		}
	}
}

static void report(const char *what, double seconds)
{
	const struct nt_stats *s = &nt_stats;

	if (seconds < 1e-6)
		seconds = 1e-6;
	fprintf(stderr,
		"%s: %llu objects (%llu directories, %llu files), %.1f MiB in %.2f s: "
		"%.0f objects/s, %.1f MiB/s; %llu calls, %llu delays, %llu reconnects, "
		"%llu errors\n",
		what, (unsigned long long)s->objects, (unsigned long long)s->directories,
		(unsigned long long)s->files, s->bytes / 1048576.0, seconds, s->objects / seconds,
		s->bytes / 1048576.0 / seconds, (unsigned long long)s->calls,
		(unsigned long long)s->delays, (unsigned long long)s->reconnects,
		(unsigned long long)s->errors);
}

static int walk(const struct nt_options *opt)
{
	uint8_t fh[NT_MAX_FH];
	uint32_t fh_len;
	double start = nt_now(), next_report = start + 1;

	if (nt_pool_start(opt) != 0 || nt_pool_mount(fh, &fh_len) != 0) {
		fprintf(stderr, "nfstree: cannot mount %s of %s\n", opt->export, opt->server);
		return NT_SERVER_LOST;
	}
	nt_walk_start(opt, fh, fh_len);
	while (!nt_walk_done()) {
		nt_walk_pump();
		if (nt_pool_turn(200) != 0) {
			fprintf(stderr, "nfstree: no answer for %d s, giving up\n",
				opt->retry_seconds);
			return NT_SERVER_LOST;
		}
		if (opt->progress && nt_now() > next_report) {
			report("nfstree", nt_now() - start);
			next_report += 1;
		}
	}
	return NT_OK;
}

/* Written beside its name and renamed, so that no half manifest is ever used. */
static int write_out(const struct command *cmd)
{
	size_t count;
	struct nt_node **nodes = nt_walk_nodes(&count);
	char part[PATH_MAX];
	FILE *out = stdout;
	int rc;

	if (cmd->output) {
		snprintf(part, sizeof(part), "%s.part", cmd->output);
		out = fopen(part, "w");
		if (!out) {
			perror(part);
			free(nodes);
			return NT_SERVER_LOST;
		}
	}
	rc = nt_manifest_write(out, nodes, count, &cmd->opt);
	free(nodes);
	if (cmd->output && (fclose(out) != 0 || rc != 0 || rename(part, cmd->output) != 0)) {
		perror(cmd->output);
		return NT_SERVER_LOST;
	}
	return rc == 0 ? NT_OK : NT_SERVER_LOST;
}

int main(int argc, char **argv)
{
	struct command cmd = { .opt = { .connections = 4,
					.jobs = 16,
					.retry_seconds = 120,
					.timeout_seconds = 30,
					.hash = true,
					.atime = true },
			       .show = 100 };
	double start = nt_now();
	int rc;

	parse_options(&cmd, argc, argv);
	if (cmd.diff) {
		if (argc - optind != 2)
			usage();
		return nt_manifest_diff(argv[optind], argv[optind + 1], cmd.ignore,
					cmd.compare_atime, cmd.show);
	}
	if (argc - optind != 1)
		usage();
	parse_url(&cmd.opt, argv[optind]);
	rc = walk(&cmd.opt);
	if (rc == NT_OK)
		rc = write_out(&cmd);
	nt_pool_stop();
	if (!cmd.quiet)
		report(rc == NT_OK ? "nfstree: done" : "nfstree: failed", nt_now() - start);
	nt_walk_finish();
	free(cmd.opt.server);
	free(cmd.opt.export);
	return rc == NT_OK && nt_stats.errors ? NT_OBJECT_ERRORS : rc;
}
