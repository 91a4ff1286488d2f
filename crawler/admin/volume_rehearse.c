/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_rehearse.c - how fast does the old server give its objects?  Before anything is made. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "admin/volume_tool.h"
#include "check/check.h"
#include "rehearse/rehearse.h"

#define SECONDS_MOST   (7 * 86400)
#define GIVE_UP_MS     60000 /* an old server that is away for so long is away */
#define SECONDS_DEFAULT 300

struct options {
	const char *source, *join, *config, *depot;
	const char *dir; /* of the new file system, or NULL */
	uint64_t seconds;
};

static int parse(struct verdict *v, int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "source", required_argument, NULL, 's' },
		{ "join", required_argument, NULL, 'j' },
		{ "config", required_argument, NULL, 'f' },
		{ "streams", required_argument, NULL, 't' },
		{ "seconds", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	int c, r = 0;

	*o = (struct options){ .seconds = SECONDS_DEFAULT };
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			o->source = optarg;
		else if (c == 'j')
			o->join = optarg;
		else if (c == 'f')
			o->config = optarg;
		else if (c == 't')
			r = streams_parse(v, "rehearse", optarg, &o->depot);
		else if (c == 'n')
			r = option_number(v, "rehearse", "seconds", optarg, 1, SECONDS_MOST,
					  &o->seconds);
		else
			r = option_bad(v, "rehearse", argv[optind - 1]);
	}
	if (r < 0)
		return r;
	if (!o->source)
		return verdict_fail(v, FAIL_USAGE, "rehearse: --source URI is missing");
	if (argc - optind > 1)
		return verdict_fail(v, FAIL_USAGE, "rehearse: want at most one DIR");
	o->dir = argv[optind];
	return join_check(v, "rehearse", o->source, o->join);
}

/* ---- the new file system ---- */

static const struct {
	int error;
	enum fail fail;
	const char *advice;
} dir_errors[] = {
	{ ENOENT, FAIL_TARGET_MISSING, "make the directory first" },
	{ ENOTDIR, FAIL_TARGET_NOT_DIR, "take a directory" },
	{ EROFS, FAIL_TARGET_READONLY, "mount it for writing" },
	{ EOPNOTSUPP, FAIL_TARGET_TMPFILE, "take XFS or ext4" },
	{ ENOSPC, FAIL_TARGET_FULL, "make room" },
};

static int dir_failed(struct verdict *v, const char *dir, int error)
{
	for (size_t i = 0; i < sizeof(dir_errors) / sizeof(dir_errors[0]); i++) {
		if (dir_errors[i].error == error)
			return verdict_fail(v, dir_errors[i].fail, "%s: %s: %s", dir,
					    strerror(error), dir_errors[i].advice);
	}
	return verdict_fail(v, FAIL_TARGET, "%s: %s", dir, strerror(error));
}

/* *out: -1 without DIR.  An unnamed file can be made there. */
static int dir_open(struct verdict *v, const char *dir, int *out)
{
	int fd, file;

	*out = -1;
	if (!dir)
		return 0;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return dir_failed(v, dir, errno);
	file = openat(fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (file < 0) {
		dir_failed(v, dir, errno);
		close(fd);
		return -1;
	}
	close(file);
	*out = fd;
	return 0;
}

/* ---- the answer ---- */

static void print_sample(struct json *j, const struct rehearse_sample *s)
{
	json_array(j, NULL);
	json_real(j, NULL, (double)s->active_us / 1e6);
	json_real(j, NULL, s->found);
	json_real(j, NULL, s->found_bytes);
	json_real(j, NULL, s->done);
	json_real(j, NULL, s->done_bytes);
	json_array_end(j);
}

static void print_tree(struct json *j, const struct treestat *t)
{
	unsigned int depths = TREE_DEPTHS;

	while (depths && !t->at[depths - 1].listed)
		depths--;
	json_array(j, "tree");
	for (unsigned int i = 0; i < depths; i++) {
		const struct tree_depth *d = &t->at[i];

		json_array(j, NULL);
		json_u64(j, NULL, d->listed);
		json_real(j, NULL, d->dirs);
		json_real(j, NULL, d->dirs2);
		json_real(j, NULL, d->files);
		json_real(j, NULL, d->files2);
		json_real(j, NULL, d->bytes);
		json_real(j, NULL, d->bytes2);
		json_array_end(j);
	}
	json_array_end(j);
}

static void print_phases(struct json *j, const struct rehearse *r)
{
	json_object(j, "phases");
	for (unsigned int i = 0; i < REHEARSE_WORKS; i++) {
		const struct rehearse_phase *p = &r->phase[i];

		if (!p->us)
			continue;
		json_object(j, rehearse_work_names[i]);
		json_u64(j, "us", p->us);
		json_u64(j, "operations", p->ops);
		json_real(j, "objects", p->objects);
		json_u64(j, "bytes", p->bytes);
		json_u64(j, "calls", p->calls);
		json_u64(j, "inflight_sum", p->inflight);
		json_u64(j, "inflight_looks", p->looks);
		json_u64(j, "cpu_busy", p->cpu_busy);
		json_u64(j, "cpu_all", p->cpu_all);
		json_u64(j, "own_cpu_us", p->own_us);
		json_u64(j, "busy_us", p->busy_us);
		json_u64(j, "here_us", p->here_us);
		if (p->window)
			json_u64(j, "window", p->window);
		json_object_end(j);
	}
	json_object_end(j);
}

static void print_seen(struct json *j, const struct rehearse *r)
{
	json_object(j, "seen");
	json_real(j, "objects", r->found);
	json_real(j, "bytes", r->found_bytes);
	json_u64(j, "directories", r->directories);
	json_u64(j, "directories_listed", r->listed);
	json_u64(j, "directories_failed", r->unlistable);
	json_real(j, "small_files", r->small);
	json_real(j, "small_bytes", r->small_bytes);
	json_real(j, "large_files", r->large);
	json_real(j, "large_bytes", r->large_bytes);
	json_u64(j, "files_failed", r->unreadable);
	json_u64(j, "files_denied", r->denied);
	json_u64(j, "bad_names", r->bad_names);
	json_u64(j, "forgotten", r->dropped);
	json_u64(j, "bytes_read", r->bytes);
	json_object_end(j);
}

static int answer(const struct verdict *v, const struct source_facts *facts, const char *dir,
		  const struct rehearse *r, int error)
{
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", error == 0);
	if (error) {
		json_str(&j, "error", r->here ? "target-failed" : "source-failed");
		json_str(&j, "message", strerror(r->here ? -r->here : -error));
	}
	if (dir)
		json_str(&j, "target", dir);
	json_str(&j, "source", facts->uri);
	if (facts->join)
		json_str(&j, "join", facts->join);
	json_str(&j, "protocol", source_facts_protocol(facts));
	json_str(&j, "host", facts->host);
	json_u64(&j, "connections", facts->config.connections);
	json_u64(&j, "inflight", facts->config.inflight);
	json_u64(&j, "workers", r->workers);
	json_u64(&j, "asked_ms", r->ms);
	json_u64(&j, "took_ms", r->took_ms);
	json_u64(&j, "lost_ms", r->lost_ms);
	json_bool(&j, "complete", r->complete);
	json_bool(&j, "stopped", r->stopped);
	print_seen(&j, r);
	print_phases(&j, r);
	print_tree(&j, &r->tree);
	json_array(&j, "samples");
	for (unsigned int i = 0; i < r->samples; i++)
		print_sample(&j, &r->sample[i]);
	print_sample(&j, &r->now);
	json_array_end(&j);
	verdict_warnings_json(v, &j);
	if (error)
		fprintf(stderr, "postcopy-volume: %s%s: the rehearsal broke off: %s\n",
			r->here ? "" : "source ", r->here ? dir : facts->uri,
			strerror(r->here ? -r->here : -error));
	if (json_end(&j) < 0 || error)
		return 1;
	return r->stopped ? STATUS_INTERRUPTED : 0;
}

static void on_progress(void *arg, const struct rehearse *r)
{
	bool *said = arg;
	bool tty = isatty(STDERR_FILENO);

	fprintf(stderr, "%spostcopy-volume: %llu s of %llu s: %.0f objects in %llu directories, "
			"%.1f MiB read%s", tty ? "\r" : "", (unsigned long long)r->took_ms / 1000,
		(unsigned long long)r->ms / 1000, r->found, (unsigned long long)r->listed,
		(double)r->bytes / (1 << 20), tty ? "" : "\n");
	*said = tty;
}

static int run(const struct verdict *v, struct source_facts *facts, const struct options *o,
	       int dir)
{
	static struct rehearse r; /* 50 KiB */
	struct source_config c;
	struct source *s;
	bool said = false;
	int error;

	config_source(&facts->config, &c);
	c.uri = facts->uri;
	c.join = facts->join;
	c.smb.depot = facts->depot;
	if (!c.give_up_ms)
		c.give_up_ms = GIVE_UP_MS;
	c.log = verdict_log;
	r.ms = o->seconds * 1000;
	r.dir = dir;
	r.workers = facts->config.fill_workers;
	r.buffer = facts->config.buffer;
	r.progress = on_progress;
	r.arg = &said;
	error = source_create(&c, &s);
	if (error == 0) {
		error = rehearse(&r, s);
		source_stop(s);
		source_destroy(s);
	}
	if (said)
		fputc('\n', stderr);
	return answer(v, facts, o->dir, &r, error);
}

int volume_rehearse(struct verdict *v, int argc, char **argv)
{
	struct source_facts facts = { 0 };
	struct source *s = NULL;
	struct options o;
	int r, dir;

	if (parse(v, argc, argv, &o) < 0)
		return -1;
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody would read the answer */
	facts.join = o.join;
	facts.depot = o.depot;
	if (config_read(o.config, &facts.config) < 0)
		return verdict_fail(v, FAIL_USAGE, "rehearse: the configuration cannot be used");
	if (preflight_uri(v, o.source, &facts) < 0)
		return -1;
	if (facts.file && geteuid() != 0)
		return verdict_fail(v, FAIL_NOT_ROOT,
				    "rehearse: a file:// source must be read as root");
	if (dir_open(v, o.dir, &dir) < 0)
		return -1;
	r = preflight_source(v, &facts, &s);
	if (r == 0) {
		source_stop(s);
		source_destroy(s);
	}
	if (r == 0 && facts.join)
		r = preflight_join(v, &facts);
	if (r == 0)
		r = run(v, &facts, &o, dir);
	source_meta_free(&facts.meta);
	if (dir >= 0)
		close(dir);
	return r;
}
