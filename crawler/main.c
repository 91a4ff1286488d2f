/* SPDX-License-Identifier: GPL-3.0-or-later */
/* main.c - postcopy-crawler: options, signals, what is said. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "crawler.h"
#include "journald.h"
#include "notify.h"
#include "report/json_out.h"

#define WORKERS_LEAST 16
#define WORKERS_MOST  256
#define EXIT_ELSEWHERE	4 /* no volume of this place or release: trying again does not help */

struct options {
	unsigned int workers, workers_min;
	bool once, leave_parked, progress, json, debug;
	const char *volume;
};

struct reporter {
	const struct options *o;
	uint64_t start_ms;
	bool terminal; /* stderr is one */
	unsigned int ticks;
};

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: postcopy-crawler [--workers N] [--once] [--leave-parked] [--progress] "
		"[--json] [--debug] VOLUME\n"
		"\n"
		"Asks the retriever for everything in VOLUME that is not migrated yet, until\n"
		"nothing is left.\n"
		"\n"
		"  -w, --workers N  asks in flight, 1 to %d (default: as many as bring\n"
		"                   something, %d to %d)\n"
		"  -1, --once       go through the pending journal once, then end\n"
		"  -l, --leave-parked  end also when only parked objects are left, instead of\n"
		"                   waiting until they are tried again\n"
		"  -p, --progress   a line of progress on stderr\n"
		"  -j, --json       progress as JSON, one line a second, on stdout\n"
		"  -d, --debug      each ask and its answer, on stderr\n"
		"  -V, --version    print the version\n"
		"  -h, --help       print this text\n",
		CRAWL_WORKERS_MAX, WORKERS_LEAST, WORKERS_MOST);
}

/* 0 to go on, or the exit status + 1. */
static int options_parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "workers", required_argument, NULL, 'w' },
		{ "once", no_argument, NULL, '1' },
		{ "leave-parked", no_argument, NULL, 'l' },
		{ "progress", no_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "debug", no_argument, NULL, 'd' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	char *end;
	long n;
	int c;

	*o = (struct options){ .workers = WORKERS_MOST, .workers_min = WORKERS_LEAST };
	while ((c = getopt_long(argc, argv, "w:1lpjdVh", longs, NULL)) != -1) {
		switch (c) {
		case 'w':
			errno = 0;
			n = strtol(optarg, &end, 10);
			if (errno || end == optarg || *end || n < 1 || n > CRAWL_WORKERS_MAX) {
				fprintf(stderr,
					"postcopy-crawler: --workers wants a number from 1 to %d, "
					"not '%s'\n",
					CRAWL_WORKERS_MAX, optarg);
				return 3;
			}
			o->workers = o->workers_min = (unsigned int)n;
			break;
		case '1':
			o->once = true;
			break;
		case 'l':
			o->leave_parked = true;
			break;
		case 'p':
			o->progress = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 'd':
			o->debug = true;
			break;
		case 'V':
			printf("postcopy-crawler %s\n", POSTCOPY_VERSION);
			return 1;
		case 'h':
			usage(stdout);
			return 1;
		default:
			fprintf(stderr, "Try 'postcopy-crawler --help'.\n");
			return 3;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "postcopy-crawler: %s (see --help)\n",
			optind == argc ? "no VOLUME given" : "more than one VOLUME given");
		return 3;
	}
	o->volume = argv[optind];
	return 0;
}

static void log_line(void *arg, enum stub_log_level level, const char *msg)
{
	static const char *const names[] = { "error: ", "warning: ", "", "debug: " };

	if (level == STUB_LOG_DEBUG && !(arg && *(const bool *)arg))
		return;
	if (!journald_line(level, msg))
		fprintf(stderr, "postcopy-crawler: %s%s\n", names[level], msg);
}

static double seconds_since(const struct reporter *r)
{
	return (double)(stub_now_ms() - r->start_ms) / 1e3;
}

static void report_json(const struct reporter *r, const struct crawl_stats *s, const char *state)
{
	uint64_t parked = s->left.errors + s->left.conflicts;
	struct json j;

	json_begin(&j, stdout);
	json_str(&j, "state", state);
	json_u64(&j, "pending", s->left.total - parked);
	json_u64(&j, "errors", s->left.errors);
	json_u64(&j, "conflicts", s->left.conflicts);
	json_u64(&j, "asked", s->asked);
	json_u64(&j, "done", s->done);
	json_u64(&j, "again", s->again);
	json_u64(&j, "trouble", s->trouble);
	json_u64(&j, "full", s->full);
	json_u64(&j, "stale", s->stale);
	json_u64(&j, "inflight", s->inflight);
	json_u64(&j, "passes", s->passes);
	json_u64(&j, "lost", s->lost);
	json_bool(&j, "connected", s->connected);
	json_bool(&j, "closed", s->closed);
	json_real(&j, "seconds", seconds_since(r));
	json_end(&j);
}

static void report_text(const struct reporter *r, const struct crawl_stats *s, bool last)
{
	uint64_t parked = s->left.errors + s->left.conflicts;

	fprintf(stderr,
		"%spostcopy-crawler: %" PRIu64 " pending, %" PRIu64 " done, %" PRIu64
		" parked, %u in flight, %.0f s%s%s",
		r->terminal ? "\r" : "", s->left.total - parked, s->done, parked, s->inflight,
		seconds_since(r),
		s->closed		   ? ", outside of the windows" :
		s->connected || last ? "" :
					     ", waiting for the retriever",
		r->terminal && !last ? "\033[K" : "\n");
}

static void report(void *arg, const struct crawl_stats *s)
{
	struct reporter *r = arg;

	if (r->o->json)
		report_json(r, s, s->connected ? "crawling" : "waiting");
	/* once a second on a terminal, every ten seconds into a log */
	if (r->o->progress && (r->terminal || r->ticks++ % 10 == 0))
		report_text(r, s, false);
}

/* A descriptor that becomes readable with the first SIGTERM or SIGINT. */
static int stop_fd_create(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN); /* there is nothing to read again */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int volume_open(const char *path, struct stub_volume **out)
{
	int r = stub_volume_open(path, 0, log_line, NULL, out);

	if (r == -ENOENT)
		fprintf(stderr,
			"postcopy-crawler: %s is not a volume: it was never made one, its "
			"migration is finished, or its file system is not mounted\n",
			path);
	else if (r == -EXDEV)
		fprintf(stderr, "postcopy-crawler: %s is not where it was made, see above\n", path);
	else if (r == -ENOLCK)
		fprintf(stderr, "postcopy-crawler: another node may have %s, see above\n", path);
	else if (r == -EPROTONOSUPPORT)
		fprintf(stderr,
			"postcopy-crawler: %s was made by a newer release of postcopy: install that "
			"one, or a later one (here is " POSTCOPY_VERSION ")\n",
			path);
	else if (r < 0)
		fprintf(stderr, "postcopy-crawler: cannot open the volume %s: %s\n", path,
			strerror(-r));
	return r;
}

static int finish(const struct reporter *r, const struct crawl_stats *s, int end)
{
	static const char *const states[] = { "complete", "once", "stopped", "removed" };
	uint64_t parked = s->left.errors + s->left.conflicts;
	const char *state = end < 0 ? "failed" : states[end];

	if (end == CRAWL_NOTHING_LEFT && parked > 0)
		state = "parked";
	if (r->o->json)
		report_json(r, s, state);
	if (r->o->progress)
		report_text(r, s, true);
	if (end < 0)
		fprintf(stderr, "postcopy-crawler: cannot read the pending journal: %s\n",
			strerror(-end));
	else if (end == CRAWL_REMOVED)
		fprintf(stderr, "postcopy-crawler: the volume is finished, or was removed\n");
	else if (end == CRAWL_NOTHING_LEFT && parked > 0)
		fprintf(stderr,
			"postcopy-crawler: nothing left to ask for, but %" PRIu64
			" objects are parked: see 'postcopy parked'\n",
			parked);
	else if (end == CRAWL_NOTHING_LEFT)
		fprintf(stderr, "postcopy-crawler: complete\n");
	return end < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o;
	struct reporter r = { .o = &o, .terminal = isatty(STDERR_FILENO) };
	struct crawl_stats stats;
	struct stub_volume *volume;
	char journal[PATH_MAX], real[PATH_MAX];
	int n, stop_fd;

	n = options_parse(argc, argv, &o);
	if (n)
		return n - 1;
	if (geteuid() != 0) {
		fprintf(stderr, "postcopy-crawler: must be run as root\n");
		return EXIT_FAILURE;
	}
	notify_begin();
	journald_begin("postcopy-crawler", realpath(o.volume, real) ? real : o.volume);
	r.start_ms = stub_now_ms();
	stop_fd = stop_fd_create();
	n = stop_fd < 0 ? -errno : volume_open(o.volume, &volume);
	if (n < 0)
		return n == -ENOENT || n == -EXDEV || n == -ENOLCK || n == -EPROTONOSUPPORT ? EXIT_ELSEWHERE :
									      EXIT_FAILURE;
	if (stub_crawler_enter(volume) < 0)
		log_line(NULL, STUB_LOG_WARN, "'postcopy status' will not show that a crawler runs");
	notify("READY=1");
	/* by descriptor: what is mounted over the path later does not matter */
	snprintf(journal, sizeof(journal), "/proc/self/fd/%d/" STUB_DIR "/journal",
		 stub_volume_fd(volume));
	n = crawl(&(struct crawl_config){ .volume = volume,
					  .journal = journal,
					  .workers = o.workers,
					  .workers_min = o.workers_min,
					  .once = o.once,
					  .leave_parked = o.leave_parked,
					  .stop_fd = stop_fd,
					  .report_ms = o.progress || o.json ? 1000 : 0,
					  .report = report,
					  .report_arg = &r,
					  .debug = o.debug,
					  .log = log_line,
					  .log_arg = &o.debug },
		  &stats);
	notify("STOPPING=1");
	n = finish(&r, &stats, n);
	stub_volume_close(volume);
	close(stop_fd);
	return n;
}
