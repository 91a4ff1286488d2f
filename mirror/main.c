/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * postcopy-mirror - makes a volume's mirror equal to it, and keeps it so.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aside.h"
#include "config.h"
#include "control.h"
#include "desk.h"
#include "express.h"
#include "fills.h"
#include "kept.h"
#include "journald.h"
#include "notify.h"
#include "paused.h"
#include "recent.h"
#include "rounds.h"
#include "share.h"
#include "source/posix_acl.h"
#include "source/trace.h"
#include "verify.h"
#include "walk.h"

#define EXIT_ELSEWHERE 4 /* no volume here, or none with a mirror: trying again does not help */
#define BEATS	       4 /* within the time that the watchdog waits */
#define WORKERS_MAX    32

struct program {
	struct config config;
	bool debug;
	struct mirror m;
	struct replicator *replicator;
	struct control *control;
	uint64_t beat_ms, turns;
};

static _Atomic enum stub_log_level log_limit = STUB_LOG_INFO;

static void log_line(void *arg, enum stub_log_level level, const char *msg)
{
	if (level <= log_limit)
		journald_say(level, msg);
}

static int complain(const char *what, int error)
{
	fprintf(stderr, "postcopy-mirror: %s: %s\n", what, strerror(-error));
	return 1;
}

static void raise_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* ---- the volume and its mirror ---- */

static int open_journal(struct mirror *m)
{
	char path[64];

	if (m->conf.kind == STUB_MIRROR_BACKUP)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/" STUB_DIR "/journal",
		 stub_volume_fd(m->volume));
	return stub_journal_open(path, STUB_JOURNAL_READONLY, log_line, NULL, &m->journal);
}

static int open_volume(struct program *p, const char *dir)
{
	struct mirror *m = &p->m;
	struct stat st;
	int e = stub_volume_open(dir, STUB_OPEN_FOLD, log_line, NULL, &m->volume);

	if (e == -ENOENT || e == -EXDEV || e == -ENOLCK || e == -EPROTONOSUPPORT) {
		fprintf(stderr, "postcopy-mirror: %s is no volume of this place and release (or is its file "
				"system not mounted?)\n", dir);
		return EXIT_ELSEWHERE;
	}
	if (e < 0)
		return complain(dir, e);
	e = stub_mirror_conf_read(m->volume, &m->conf);
	if (e == 0)
		e = stub_ledger_open(m->volume, &m->ledger);
	if (e == -ENOENT) {
		fprintf(stderr, "postcopy-mirror: %s has no mirror; see postcopy(8), mirror\n", dir);
		return EXIT_ELSEWHERE;
	}
	if (e == -EBUSY) {
		fprintf(stderr, "postcopy-mirror: another one carries the changes of %s\n", dir);
		return 1;
	}
	if (e < 0)
		return complain("the mirror's configuration, or ledger", e);
	if (stub_ledger_frozen(m->volume) == STUB_FROZEN_FOR_GOOD) {
		fprintf(stderr, "postcopy-mirror: %s was rolled back: clients are at the old server, where nothing "
				"is written any more; see postcopy(8), rollback\n", dir);
		return EXIT_ELSEWHERE;
	}
	e = open_journal(m);
	if (e < 0)
		return complain("the pending journal", e);
	if (fstat(stub_volume_fd(m->volume), &st) < 0)
		return complain(dir, -errno);
	m->dev = st.st_dev;
	m->acls = posix_acl_kept(stub_volume_fd(m->volume));
	return 0;
}

static int open_target(struct program *p)
{
	const struct stub_volume_info *info = stub_volume_info(p->m.volume);
	struct source_config sc;
	int e;

	config_source(&p->config, &sc);
	if (p->m.conf.kind == STUB_MIRROR_WAY_BACK) {
		snprintf(p->m.conf.uri, sizeof(p->m.conf.uri), "%s", info->source);
		sc.root_known = info->root_known;
		sc.root = (struct source_id){ info->root_fsid, info->root_fileid };
	}
	sc.uri = p->m.conf.uri;
	sc.root_anew = true; /* mirror_root() compares it */
	sc.give_up_ms = 0; /* it is waited for */
	sc.no_acl = !p->m.acls;
	sc.log = log_line;
	e = source_create(&sc, &p->m.target);
	if (e < 0)
		return complain(sc.uri, e);
	if (!target_able(p->m.target)) {
		fprintf(stderr, "postcopy-mirror: %s is not read and written by NFSv3\n", sc.uri);
		return EXIT_ELSEWHERE;
	}
	return 0;
}

static int open_share(struct program *p)
{
	struct mirror *m = &p->m;
	struct source_config sc;
	int e;

	if (!m->conf.smb[0])
		return 0;
	config_source(&p->config, &sc);
	sc.uri = m->conf.smb;
	sc.give_up_ms = 0;
	sc.log = log_line;
	e = share_create(m, &sc, &m->share);
	return e < 0 ? complain(sc.uri, e) : 0;
}

static int start(struct program *p)
{
	struct mirror *m = &p->m;
	int e = open_target(p);

	if (e == 0)
		e = open_share(p);
	if (e != 0)
		return e;
	m->workers = p->config.fill_workers < WORKERS_MAX ? p->config.fill_workers : WORKERS_MAX;
	m->log = log_line;
	pthread_mutex_init(&m->places_lock, NULL);
	pthread_mutex_init(&m->root_lock, NULL);
	for (int i = 0; i < MIRROR_INO_LOCKS; i++)
		pthread_mutex_init(&m->ino_lock[i], NULL);
	atomic_store(&m->paused, paused_load(m->volume));
	if (atomic_load(&m->paused))
		log_line(NULL, STUB_LOG_INFO, "paused, as before: 'postcopy mirror resume' goes on");
	e = rounds_create(&m->rounds);
	if (e == 0)
		e = desk_create(&m->desk);
	if (e == 0)
		e = aside_create(m, &m->aside);
	if (e == 0)
		e = fills_create(m, &m->fills);
	if (e == 0)
		e = kept_create(&m->kept);
	if (e == 0)
		e = recent_create(&m->recent);
	if (e == 0)
		e = walker_create(m, &m->walker);
	if (e == 0)
		e = verifier_create(m, &m->verifier);
	if (e == 0)
		e = replicator_create(m, &p->replicator);
	if (e == 0)
		e = express_create(m, &m->express);
	if (e < 0)
		return complain("workers", e);
	e = control_create(m, p->replicator, &p->control);
	return e < 0 ? complain("the control socket", e) : 0;
}

/* In this order: what waits for the target ends first, then who might call it. */
static void stop(struct program *p)
{
	struct mirror *m = &p->m;

	atomic_store(&m->stopping, true);
	control_destroy(p->control);
	if (m->target)
		source_stop(m->target);
	share_stop(m->share);
	verifier_destroy(m->verifier);
	express_destroy(m->express);
	replicator_destroy(p->replicator);
	walker_destroy(m->walker);
	fills_destroy(m->fills);
	recent_destroy(m->recent);
	kept_destroy(m->kept);
	aside_destroy(m->aside);
	desk_destroy(m->desk);
	rounds_destroy(m->rounds);
	share_destroy(m->share);
	source_destroy(m->target);
	stub_ledger_close(m->ledger);
	stub_journal_close(m->journal);
	stub_volume_close(m->volume);
}

/* ---- the main thread ---- */

/* Does the thread that reads the ledger go round?  A mirror that is away keeps it waiting for long, and
 * that is no reason to begin anew. */
static void beat(struct program *p)
{
	uint64_t turns = replicator_turns(p->replicator);
	struct source_state s;

	share_state(&p->m, &s);
	if (turns == p->turns && s.connected)
		log_line(NULL, STUB_LOG_WARN, "the ledger is not read: all workers are busy");
	notify("WATCHDOG=1");
	p->turns = turns;
}

/* Until a signal, or the watchdog's next beat: 0. */
static int wait_signal(struct program *p, const sigset_t *set)
{
	uint64_t every = notify_watchdog_ms() / BEATS, now = stub_now_ms(), left;
	struct timespec t;
	int sig;

	if (!every)
		return sigwaitinfo(set, NULL);
	if (now >= p->beat_ms) {
		beat(p);
		p->beat_ms = now + every;
	}
	left = p->beat_ms - now;
	t = (struct timespec){ (time_t)(left / 1000), (long)(left % 1000) * 1000000 };
	sig = sigtimedwait(set, NULL, &t);
	return sig < 0 && errno == EAGAIN ? 0 : sig;
}

static void wait_for_end(struct program *p, const sigset_t *set)
{
	int sig;

	do {
		sig = wait_signal(p, set);
		if (sig == SIGHUP) {
			notify_reloading();
			source_reload(p->m.target);
			if (p->m.share)
				share_reload(p->m.share);
			notify("READY=1");
		}
	} while (sig == SIGHUP || sig == 0 || (sig < 0 && errno == EINTR));
}

static void usage(FILE *f)
{
	fputs("usage: postcopy-mirror [--config FILE] [--debug] VOLUME\n"
	      "\n"
	      "Carries what changes in the volume at directory VOLUME over to its mirror, a second\n"
	      "NFS server.\n"
	      "\n"
	      "  -c, --config FILE  settings (default " CONFIG_DEFAULT_PATH ", may be absent)\n"
	      "  -d, --debug        log at level debug\n"
	      "  -h, --help         this text\n"
	      "  -V, --version      version\n"
	      "\n"
	      "Runs in the foreground and logs to stderr.  See postcopy-mirror(8).\n",
	      f);
}

static int parse(int argc, char **argv, struct program *p, const char **dir)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "debug", no_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char *file = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "c:dhV", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			file = optarg;
			break;
		case 'd':
			p->debug = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			puts("postcopy-mirror " POSTCOPY_VERSION);
			exit(0);
		default:
			usage(stderr);
			return 2;
		}
	}
	if (argc - optind != 1) {
		usage(stderr);
		return 2;
	}
	*dir = argv[optind];
	if (config_read(file, &p->config) < 0)
		return 2;
	log_limit = p->debug ? STUB_LOG_DEBUG : p->config.log_level;
	trace_to(log_line, NULL);
	trace_set(log_limit == STUB_LOG_DEBUG);
	return 0;
}

int main(int argc, char **argv)
{
	static struct program p;
	char real[PATH_MAX];
	const char *dir;
	sigset_t set;
	int e = parse(argc, argv, &p, &dir);

	if (e)
		return e;
	if (geteuid() != 0) {
		fputs("postcopy-mirror: must be run as root\n", stderr);
		return 1;
	}
	notify_begin();
	journald_begin("postcopy-mirror", realpath(dir, real) ? real : dir);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL); /* inherited by all threads */
	umask(077);
	raise_descriptors();
	e = open_volume(&p, dir);
	if (e == 0)
		e = start(&p);
	if (e == 0) {
		log_line(NULL, STUB_LOG_INFO, "following");
		notify("READY=1\nSTATUS=following");
		wait_for_end(&p, &set);
		notify("STOPPING=1");
		log_line(NULL, STUB_LOG_INFO, "stopping");
	}
	stop(&p);
	return e;
}
