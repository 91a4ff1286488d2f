/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * postcopy-retriever - talks to the old server and does all filling of one volume.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "config_json.h"
#include "control.h"
#include "jobs/jobs.h"
#include "journald.h"
#include "notify.h"
#include "source/posix_acl.h"
#include "source/trace.h"
#include "source/uri.h"
#include "stubmirror.h"
#include "windows/smb_meta.h"

#ifndef POSTCOPY_VERSION
#define POSTCOPY_VERSION "0.1.0"
#endif

#define EXIT_TOLD      3 /* ended by command: 'postcopy finish' wants to remove the volume */
#define EXIT_ELSEWHERE 4 /* no volume of this place or release: trying again does not help */
#define BEATS	       4 /* within the time that the watchdog waits */
#define KEPT_LARGEST   (4 << 20) /* bytes of one piece of memory that is kept ... */
#define KEPT_FREE      (32 << 20) /* ... and of all that is free, in each of malloc's arenas */

struct retriever {
	struct config config;
	bool debug_option;
	struct stub_volume *volume;
	struct stub_journal *journal;
	struct stub_finisher *finisher;
	struct stub_syncer *syncer;
	struct limiter *limiter;
	struct source *source;
	struct depot *depot;
	struct jobs *jobs;
	struct stub_server *server;
	struct control *control;
	atomic_bool gone; /* the volume was removed while we served it */
	atomic_bool told; /* to end, by command */
	/* the main thread's, of the watchdog */
	uint64_t beat_ms; /* when the next one is due */
	uint64_t turns; /* of the thread that reads asks, at the last one */
};

static _Atomic enum stub_log_level log_limit = STUB_LOG_INFO;

static void log_line(void *arg, enum stub_log_level level, const char *msg)
{
	if (level <= log_limit)
		journald_say(level, msg);
}

/* Level debug, or what the configuration says otherwise. */
static void set_debug(void *arg, bool on)
{
	enum stub_log_level usual = ((struct retriever *)arg)->config.log_level;

	if (usual == STUB_LOG_DEBUG)
		usual = STUB_LOG_INFO;
	trace_set(on);
	log_limit = on ? STUB_LOG_DEBUG : usual;
}

static int complain(const char *what, int error)
{
	fprintf(stderr, "postcopy-retriever: %s: %s\n", what, strerror(-error));
	return 1;
}

static void serve(void *arg, struct stub_request *r)
{
	jobs_submit(((struct retriever *)arg)->jobs, r);
}

static void stop_process(void *arg, bool gone)
{
	struct retriever *r = arg;

	atomic_store(gone ? &r->gone : &r->told, true);
	kill(getpid(), SIGTERM);
}

/* Settings made by command count more than the configuration. */
static void take_settings(struct retriever *r, struct settings *s)
{
	int e = settings_load(stub_volume_fd(r->volume), s);
	struct limiter_rules rules;

	if (e < 0)
		log_line(NULL, STUB_LOG_WARN,
			 "what 'postcopy pause' and 'throttle' said is not known, or not all of it: " STUB_DIR
			 "/limits or " STUB_DIR "/settings cannot be read or is damaged");
	rules = settings_rules(s, &r->config);
	limiter_set(r->limiter, &rules);
	if (s->paused)
		log_line(NULL, STUB_LOG_INFO, "paused, as before: 'postcopy resume' goes on");
}

static void set_jobs(struct retriever *r, const struct settings *s)
{
	jobs_throttle(r->jobs, settings_rate(s, &r->config));
	jobs_pause(r->jobs, s->paused);
}

static void raise_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* A volume of an early release does not say where its home is: now it does. */
static int settle(struct retriever *r, const char *dir)
{
	int e = stub_volume_settle(r->volume, r->journal);

	if (e == -EXDEV) {
		fprintf(stderr, "postcopy-retriever: %s is the copy of a volume; use the volume itself\n",
			dir);
		return EXIT_ELSEWHERE;
	}
	return e < 0 ? complain("volume.conf", e) : 0;
}

static int of_newer(const char *dir)
{
	fprintf(stderr, "postcopy-retriever: %s was made by a newer release of postcopy: install that "
			"one, or a later one (here is " POSTCOPY_VERSION ")\n", dir);
	return EXIT_ELSEWHERE;
}

static int open_volume(struct retriever *r, const char *dir)
{
	struct stub_mirror_conf mirror;
	char path[4200];
	int e = stub_volume_open(dir, STUB_OPEN_KEEP | STUB_OPEN_NEWS, log_line, NULL, &r->volume);

	if (e == -ENOENT) {
		fprintf(stderr, "postcopy-retriever: %s is no volume; make it one with: "
				"postcopy init --source URI %s (or is its file system not mounted?)\n",
			dir, dir);
		return EXIT_ELSEWHERE;
	}
	if (e == -EXDEV) {
		fprintf(stderr, "postcopy-retriever: %s is not where it was made, see above\n", dir);
		return EXIT_ELSEWHERE;
	}
	if (e == -ENOLCK) {
		fprintf(stderr, "postcopy-retriever: another node may have %s, see above\n", dir);
		return EXIT_ELSEWHERE;
	}
	if (e == -EPROTONOSUPPORT)
		return of_newer(dir);
	if (e < 0)
		return complain(dir, e);
	if (stub_mirror_conf_read(r->volume, &mirror) == 0 && mirror.alone) {
		fprintf(stderr, "postcopy-retriever: the migration of %s is finished, only its mirror goes on: disable "
				"this service\n", dir);
		return EXIT_ELSEWHERE;
	}
	snprintf(path, sizeof(path), "%s/" STUB_DIR "/journal", dir);
	e = stub_journal_open(path, STUB_JOURNAL_EXISTING, log_line, NULL, &r->journal);
	if (e == -EBUSY) {
		fprintf(stderr, "postcopy-retriever: another retriever is serving %s\n", dir);
		return 1;
	}
	if (e == -EPROTONOSUPPORT)
		return of_newer(path);
	if (e == -EBADMSG || e == -ENOENT) {
		fprintf(stderr, "postcopy-retriever: %s is damaged or missing; see \"Damaged journal\" in "
				"postcopy-retriever(8)\n", path);
		return 1;
	}
	if (e < 0)
		return complain(path, e);
	e = settle(r, dir);
	if (e)
		return e;
	e = stub_staging_clean(r->volume);
	return e < 0 ? complain("cleaning " STUB_DIR "/staging", e) : 0;
}

/* The file id of the source's root, from the record of the volume's root; 0: that is normal now. */
static uint64_t root_fileid(struct stub_volume *v)
{
	struct stub_object o;
	uint64_t id;

	if (stub_object_open(v, stub_volume_root(v), &o) < 0)
		return 0;
	id = o.fileid;
	stub_object_close(&o);
	return id;
}

/* How much do extended attributes hold?  What an SMB server, or a file system, knows of an object goes there. */
static void find_limits(struct retriever *r, struct source_smb *out)
{
	int fd = openat(stub_volume_fd(r->volume), STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct smb_limits limits = { 0 };
	int e = fd < 0 ? -errno : smb_limits_probe(fd, &limits);

	if (e < 0)
		log_line(NULL, STUB_LOG_WARN, "how much the volume keeps in extended attributes is not known");
	out->xattr_value = (uint32_t)limits.value;
	out->xattr_all = (uint32_t)limits.all;
	if (fd >= 0)
		close(fd);
}

/*
 * Streams must be where smbd looks for them: under the name that the file system's device
 * had when the volume was made.
 */
static int open_depot(struct retriever *r)
{
	const struct stub_volume_info *info = stub_volume_info(r->volume);
	uint64_t id = 0;
	int e;

	if (!info->depot[0])
		return 0;
	e = depot_fsname(stub_volume_fd(r->volume), &id);
	if (e < 0 && e != -ENOENT)
		return complain("/etc/mtab", e);
	if (e < 0 || id != info->depot_id) {
		fprintf(stderr, "postcopy-retriever: the volume's file system is mounted from a device of "
				"another name than when it was made: smbd does not find its streams in %s; "
				"see \"Streams\" in postcopy-retriever(8)\n", info->depot);
		return 1;
	}
	e = depot_open(info, &r->depot);
	return e < 0 ? complain(info->depot, e) : 0;
}

static int start(struct retriever *r)
{
	const struct config *c = &r->config;
	struct source_config sc;
	struct jobs_config jc = {
		.volume = r->volume,
		.journal = r->journal,
		.demand_workers = c->demand_workers,
		.fill_workers = c->fill_workers,
		.block_bytes = c->block_size,
		.small_file = c->small_file,
		.digests = c->digests,
		.patience_ms = c->call_timeout / 10,
		.buffer_bytes = c->buffer,
		.max_tries = c->max_tries,
		.recall_files_per_minute = c->recall_files_per_minute,
		.recall_burst = c->recall_burst,
		.log = log_line,
	};
	struct control_config cc;
	struct settings settings;
	char aside[STUB_ASIDE_NAME];
	int e;

	e = limiter_create(false, &r->limiter);
	if (e < 0)
		return complain("limiter", e);
	take_settings(r, &settings);
	config_source(c, &sc);
	sc.connections = setting_value(&settings.connections, c->connections);
	sc.limiter = r->limiter;
	stub_aside_name(stub_volume_info(r->volume)->uuid, aside);
	sc.hides = aside;
	sc.uri = stub_volume_info(r->volume)->source;
	sc.log = log_line;
	sc.join = stub_volume_info(r->volume)->join;
	sc.root_known = stub_volume_info(r->volume)->root_known;
	sc.root = (struct source_id){ stub_volume_info(r->volume)->root_fsid,
				      stub_volume_info(r->volume)->root_fileid };
	sc.smb.root_fileid = *sc.join ? stub_volume_info(r->volume)->join_root :
			     sc.root_known ? sc.root.fileid :
					     root_fileid(r->volume);
	if (*sc.join || source_uri_kind(sc.uri) != SOURCE_NFS || source_uri_nfs4(sc.uri))
		find_limits(r, &sc.smb);
	sc.no_acl = !posix_acl_kept(stub_volume_fd(r->volume));
	e = open_depot(r);
	if (e != 0)
		return e;
	jc.depot = r->depot;
	sc.smb.depot = r->depot;
	e = source_create(&sc, &r->source);
	if (e < 0)
		return complain(sc.uri, e);
	e = stub_finisher_create(r->volume, r->journal, log_line, NULL, &r->finisher);
	if (e < 0)
		return complain("finisher", e);
	stub_finisher_set_delay(r->finisher, c->finish_delay);
	jc.source = r->source;
	jc.limiter = r->limiter;
	jc.finisher = r->finisher;
	e = stub_syncer_create(r->volume, &r->syncer);
	if (e < 0)
		return complain("syncer", e);
	jc.syncer = r->syncer;
	e = jobs_create(&jc, &r->jobs);
	if (e < 0)
		return complain("workers", e);
	set_jobs(r, &settings);
	e = stub_server_create(r->volume, serve, r, log_line, NULL, &r->server);
	if (e < 0)
		return complain(stub_volume_info(r->volume)->socket, e);
	cc = (struct control_config){
		.volume = r->volume,
		.journal = r->journal,
		.finisher = r->finisher,
		.source = r->source,
		.limiter = r->limiter,
		.jobs = r->jobs,
		.config = c,
		.debug_option = r->debug_option,
		.stop = stop_process,
		.stop_arg = r,
		.debug = set_debug,
		.debug_arg = r,
		.settings = settings,
		.log = log_line,
	};
	e = control_create(&cc, &r->control);
	return e < 0 ? complain(stub_volume_info(r->volume)->control, e) : 0;
}

/* In this order: commands, the source (which ends all waiting), jobs, asks, then the journal. */
static void stop(struct retriever *r)
{
	control_destroy(r->control);
	if (r->source)
		source_stop(r->source);
	jobs_stop(r->jobs);
	stub_server_destroy(r->server);
	jobs_destroy(r->jobs);
	stub_syncer_destroy(r->syncer);
	stub_finisher_destroy(r->finisher);
	source_destroy(r->source);
	limiter_destroy(r->limiter);
	depot_close(r->depot);
	stub_journal_close(r->journal);
	stub_volume_close(r->volume);
}

/*
 * The watchdog wants to know whether asks are taken: by the thread that reads them, and by the
 * workers. That the old server or the disk keeps all workers waiting is no reason to begin anew,
 * so neither is asked here, and nothing here waits for one.
 */
static void beat(struct retriever *r)
{
	uint64_t turns = stub_server_turns(r->server);

	if (turns == r->turns)
		log_line(NULL, STUB_LOG_ERROR, "the thread that reads asks stands still");
	else if (!jobs_move(r->jobs))
		log_line(NULL, STUB_LOG_WARN, "no worker takes up what is asked for");
	else
		notify("WATCHDOG=1");
	r->turns = turns;
}

/* Until a signal, or the watchdog's next beat: 0. */
static int wait_signal(struct retriever *r, const sigset_t *set)
{
	uint64_t every = notify_watchdog_ms() / BEATS, now = stub_now_ms(), left;
	struct timespec t;
	int sig;

	if (!every)
		return sigwaitinfo(set, NULL);
	if (now >= r->beat_ms) {
		beat(r);
		r->beat_ms = now + every;
	}
	left = r->beat_ms - now;
	t = (struct timespec){ (time_t)(left / 1000), (long)(left % 1000) * 1000000 };
	sig = sigtimedwait(set, NULL, &t);
	return sig < 0 && errno == EAGAIN ? 0 : sig;
}

static void wait_for_end(struct retriever *r, const sigset_t *set)
{
	int sig;

	do {
		sig = wait_signal(r, set);
		if (sig == SIGHUP) {
			notify_reloading();
			log_line(NULL, STUB_LOG_INFO, "reading credentials again");
			source_reload(r->source);
			notify("READY=1");
		}
	} while (sig == SIGHUP || sig == 0 || (sig < 0 && errno == EINTR));
}

static void usage(FILE *f)
{
	fputs("usage: postcopy-retriever [--config FILE] [--debug] VOLUME\n"
	      "       postcopy-retriever --check-config [--config FILE] [VOLUME]\n"
	      "\n"
	      "Serves the volume at directory VOLUME: brings names, attributes and data over\n"
	      "from the old server when the file servers and the crawler ask for them.\n"
	      "\n"
	      "  -c, --config FILE  settings (default " CONFIG_DEFAULT_PATH ", may be absent)\n"
	      "  -d, --debug        log at level debug: each ask, and what is done for it\n"
	      "                     ('postcopy debug' does so while it runs)\n"
	      "      --check-config only say what is wrong in FILE and in the volume's own\n"
	      "                     settings, as JSON; 'postcopy config check' tells it to people\n"
	      "  -h, --help         this text\n"
	      "  -V, --version      version\n"
	      "\n"
	      "Runs in the foreground and logs to stderr.  See postcopy-retriever(8).\n",
	      f);
}

static int parse(int argc, char **argv, struct retriever *r, const char **dir)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "debug", no_argument, NULL, 'd' },
		{ "verbose", no_argument, NULL, 'd' }, /* as earlier releases call it, and -v */
		{ "check-config", no_argument, NULL, 'C' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char *file = NULL;
	bool check = false;
	int c;

	while ((c = getopt_long(argc, argv, "c:dvhV", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			file = optarg;
			break;
		case 'd':
		case 'v':
			r->debug_option = true;
			break;
		case 'C':
			check = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			puts("postcopy-retriever " POSTCOPY_VERSION);
			exit(0);
		default:
			usage(stderr);
			return 2;
		}
	}
	if (check && argc - optind < 2)
		exit(config_check(file, argv[optind]));
	if (argc - optind != 1) {
		usage(stderr);
		return 2;
	}
	*dir = argv[optind];
	if (config_read(file, &r->config) < 0)
		return 2;
	trace_to(log_line, NULL);
	set_debug(r, r->debug_option || r->config.log_level == STUB_LOG_DEBUG);
	return 0;
}

/*
 * Answers of a MiB come and go all the time: each would be memory that the kernel has to give, fill with
 * zeros and take back, which costs more than to copy what is in it.  A little is kept instead.
 */
static void keep_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, KEPT_LARGEST);
	mallopt(M_TRIM_THRESHOLD, KEPT_FREE);
}

int main(int argc, char **argv)
{
	struct retriever r = { .turns = UINT64_MAX };
	char real[PATH_MAX];
	const char *dir;
	sigset_t set;
	int e = parse(argc, argv, &r, &dir);

	if (e)
		return e;
	if (geteuid() != 0) {
		fputs("postcopy-retriever: must be run as root\n", stderr);
		return 1;
	}
	keep_memory();
	notify_begin();
	journald_begin("postcopy-retriever", realpath(dir, real) ? real : dir);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL); /* inherited by all threads */
	umask(077);
	raise_descriptors();
	e = open_volume(&r, dir);
	if (e == 0)
		e = start(&r);
	if (e == 0) {
		log_line(NULL, STUB_LOG_INFO, "serving");
		notify("READY=1\nSTATUS=serving");
		wait_for_end(&r, &set);
		notify("STOPPING=1");
		log_line(NULL, STUB_LOG_INFO, "stopping");
	}
	stop(&r);
	if (e == 0 && atomic_load(&r.told))
		e = EXIT_TOLD;
	return e == 0 && atomic_load(&r.gone) ? 1 : e;
}
