/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_verify.c - is the volume what the source is?  The walk itself is in verify/. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "admin/volume_tool.h"
#include "check/check.h"
#include "depot/depot.h"
#include "preflight/preflight.h"
#include "settings.h"
#include "source/limiter.h"
#include "source/posix_acl.h"
#include "verify/verify.h"
#include "windows/smb_meta.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

#define LIMIT_DEFAULT	1000
#define WORKERS_DEFAULT 8
#define GIVE_UP_DEFAULT 120
#define SAMPLE_MOST	10000000
#define INFLIGHT_LEAST	16

struct verifying {
	const char *dir, *config_file;
	bool all, digests, again, resumed;
	uint64_t sample, limit, workers, give_up, shown;
	struct config config;
	char path[PATH_MAX];
	struct stub_volume *volume;
	struct limiter *limiter; /* the source's */
	struct source *source;
	int lock;
	struct verify_state state;
	struct verify verify;
	struct json j;
	bool said;
	const char *manifest;
	FILE *lines;
};

/* ---- the command line ---- */

static int take_option(struct verdict *v, struct verifying *c, int option, const char *was)
{
	switch (option) {
	case 'a':
		c->all = true;
		return 0;
	case 'd':
		c->digests = true;
		return 0;
	case 's':
		return option_number(v, "verify", "sample", optarg, 1, SAMPLE_MOST, &c->sample);
	case 'n':
		c->again = true;
		return 0;
	case 'l':
		return option_number(v, "verify", "limit", optarg, 0, INT64_MAX, &c->limit);
	case 'w':
		return option_number(v, "verify", "workers", optarg, 1, VERIFY_WORKERS_MOST,
				     &c->workers);
	case 'g':
		return option_number(v, "verify", "give-up", optarg, 1, 86400, &c->give_up);
	case 'f':
		c->config_file = optarg;
		return 0;
	case 'm':
		c->manifest = optarg;
		c->again = true; /* digests are of bytes that are read now */
		return 0;
	}
	return option_bad(v, "verify", was);
}

static int parse(struct verdict *v, int argc, char **argv, struct verifying *c)
{
	static const struct option longs[] = {
		{ "all", no_argument, NULL, 'a' },	{ "sample", required_argument, NULL, 's' },
		{ "digests", no_argument, NULL, 'd' },
		{ "again", no_argument, NULL, 'n' },	{ "limit", required_argument, NULL, 'l' },
		{ "workers", required_argument, NULL, 'w' },
		{ "give-up", required_argument, NULL, 'g' },
		{ "config", required_argument, NULL, 'f' },
		{ "manifest", required_argument, NULL, 'm' },
		{ NULL, 0, NULL, 0 },
	};
	int o, r = 0;

	c->limit = LIMIT_DEFAULT;
	c->workers = WORKERS_DEFAULT;
	c->give_up = GIVE_UP_DEFAULT;
	opterr = 0;
	while (r == 0 && (o = getopt_long(argc, argv, "", longs, NULL)) != -1)
		r = take_option(v, c, o, argv[optind - 1]);
	if (r < 0)
		return r;
	if (c->all + (c->sample != 0) + c->digests != 1)
		return verdict_fail(v, FAIL_USAGE,
				    "verify: say --all to read everything, or --sample N to read N "
				    "files (names and attributes are compared in either case), or "
				    "--digests to read the volume alone");
	if (c->manifest && c->sample)
		return verdict_fail(v, FAIL_USAGE,
				    "verify: --manifest goes with --all and --digests only");
	if (argc - optind != 1)
		return verdict_fail(v, FAIL_USAGE, "verify: want exactly one DIR");
	c->dir = argv[optind];
	return 0;
}

/* ---- both sides ---- */

/* How much do extended attributes hold?  As the retriever asks it: what was left out because it
 * does not fit is not missed now. */
static void find_limits(struct verifying *c, struct source_smb *out)
{
	int fd = openat(stub_volume_fd(c->volume), STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct smb_limits limits = { 0 };

	if (fd >= 0 && smb_limits_probe(fd, &limits) == 0) {
		out->xattr_value = (uint32_t)limits.value;
		out->xattr_all = (uint32_t)limits.all;
	}
	if (fd >= 0)
		close(fd);
}

static int open_source(struct verdict *v, struct verifying *c)
{
	const struct stub_volume_info *info = stub_volume_info(c->volume);
	struct settings settings;
	struct source_config sc;
	char aside[STUB_ASIDE_NAME];
	int r;

	config_source(&c->config, &sc);
	stub_aside_name(stub_volume_info(c->volume)->uuid, aside);
	sc.hides = aside;
	sc.uri = info->source;
	sc.join = info->join;
	sc.log = verdict_log;
	sc.root_known = info->root_known;
	sc.root = (struct source_id){ info->root_fsid, info->root_fileid };
	sc.smb.root_fileid = *sc.join ? info->join_root : sc.root_known ? sc.root.fileid : 0;
	sc.give_up_ms = (unsigned int)c->give_up * 1000;
	sc.inflight = sc.inflight < INFLIGHT_LEAST ? INFLIGHT_LEAST : sc.inflight;
	sc.jukebox_ms = sc.give_up_ms;
	sc.smb.depot = info->depot[0];
	if (*sc.join || source_uri_kind(sc.uri) != SOURCE_NFS || source_uri_nfs4(sc.uri))
		find_limits(c, &sc.smb);
	sc.no_acl = !posix_acl_kept(stub_volume_fd(c->volume));
	settings_load(stub_volume_fd(c->volume), &settings); /* what cannot be read is not set */
	sc.connections = setting_value(&settings.connections, sc.connections);
	r = limiter_create(true, &c->limiter);
	sc.limiter = c->limiter;
	if (r == 0)
		r = source_create(&sc, &c->source);
	return r < 0 ? verdict_fail(v, FAIL_SOURCE, "source %s: %s", info->source, strerror(-r)) : 0;
}

/* Times that the file system cannot express were told by `init --check`. */
static void find_times(struct verifying *c)
{
	int fd = stub_volume_fd(c->volume);
	struct target_limits limits;
	const char *name = "";
	struct statfs fs;
	struct stat st;

	c->verify.time_min = INT64_MIN;
	c->verify.time_max = INT64_MAX;
	if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return;
	if (fs.f_type == XFS_SUPER_MAGIC)
		name = "xfs";
	else if (fs.f_type == EXT4_SUPER_MAGIC)
		name = "ext4";
	target_limits(fd, name, st.st_dev, &limits);
	if (!limits.times_known)
		return;
	c->verify.time_min = limits.time_min;
	c->verify.time_max = limits.time_max;
	c->verify.time_unit = limits.time_unit;
}

static int open_depot(struct verdict *v, struct verifying *c)
{
	const struct stub_volume_info *info = stub_volume_info(c->volume);
	uint64_t id = 0;

	c->verify.depot = info->depot;
	if (!info->depot[0])
		return 0;
	if (depot_fsname(stub_volume_fd(c->volume), &id) < 0 || id != info->depot_id ||
	    access(info->depot, R_OK | X_OK) < 0)
		return verdict_fail(v, FAIL_TARGET,
				    "the streams of %s are not found in %s: is it mounted, and the volume "
				    "from a device of the same name as when it was made?",
				    c->path, info->depot);
	return 0;
}

static void on_proven(void *arg, const struct verify_proven *p)
{
	struct verifying *c = arg;

	verify_manifest_line(c->lines, p);
}

/* A file that is there is not written over: it may be somebody's proof. */
static int open_manifest(struct verdict *v, struct verifying *c)
{
	int fd = open(c->manifest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	c->lines = fd < 0 ? NULL : fdopen(fd, "w");
	if (!c->lines)
		return verdict_fail(v, FAIL_USAGE, "verify: --manifest %s: %s", c->manifest,
				    strerror(errno));
	c->verify.proven = on_proven;
	return 0;
}

/* Whole and on the disk, or none. */
static int close_manifest(struct verifying *c, int r)
{
	if (!c->lines)
		return r;
	if (r == 0 && (fflush(c->lines) || ferror(c->lines) || fsync(fileno(c->lines)) < 0))
		r = -EIO;
	fclose(c->lines);
	c->lines = NULL;
	if (r < 0)
		unlink(c->manifest);
	return r;
}

static int open_both(struct verdict *v, struct verifying *c)
{
	int root, r;

	if (config_read(c->config_file, &c->config) < 0)
		return verdict_fail(v, FAIL_USAGE, "verify: the configuration cannot be used");
	if (volume_tool_open(v, c->dir, c->path, &c->volume) < 0)
		return -1;
	root = stub_volume_fd(c->volume);
	c->lock = verify_state_lock(root);
	if (c->lock == -EBUSY)
		return verdict_fail(v, FAIL_IN_USE, "another 'postcopy verify' of %s is running",
				    c->path);
	if (c->lock < 0)
		return verdict_fail(v, FAIL_TARGET, "%s/" STUB_DIR ": %s", c->path,
				    strerror(-c->lock));
	r = c->digests ? 0 : verify_state_load(root, &c->state);
	if (r < 0 && !c->again)
		return verdict_fail(v, FAIL_VOLUME_DAMAGED,
				    "%s/" STUB_DIR "/" VERIFY_STATE ": %s; --again begins anew", c->path,
				    strerror(-r));
	find_times(c);
	if (!c->digests && (open_depot(v, c) < 0 || open_source(v, c) < 0))
		return -1;
	if (c->manifest && open_manifest(v, c) < 0)
		return -1;
	r = verify_pace_create(root, &c->config, c->limiter, &c->verify.pace);
	return r < 0 ? verdict_fail(v, FAIL_INTERNAL, "%s", strerror(-r)) : 0;
}

/* ---- what is told ---- */

static void on_found(void *arg, const struct verify_found *f)
{
	struct verifying *c = arg;

	if (c->limit && c->shown >= c->limit)
		return;
	c->shown++;
	json_object(&c->j, NULL);
	json_str(&c->j, "class", verify_class[f->class]);
	json_array(&c->j, "what");
	for (unsigned int bit = 0; bit < VERIFY_WHATS; bit++)
		if (f->what & 1u << bit)
			json_str(&c->j, NULL, verify_what[bit]);
	json_array_end(&c->j);
	json_str(&c->j, "path", f->path);
	if (f->now)
		json_str(&c->j, "now", f->now);
	if (f->why)
		json_str(&c->j, "why", f->why);
	json_bool(&c->j, "source_newer", f->source_newer);
	json_object_end(&c->j);
}

static void close_both(struct verifying *c)
{
	if (c->source)
		source_stop(c->source);
	source_destroy(c->source);
	limiter_destroy(c->limiter);
	verify_pace_destroy(c->verify.pace);
	if (c->lock >= 0)
		close(c->lock);
	if (c->lines)
		close_manifest(c, -ECANCELED);
	stub_volume_close(c->volume);
}

static void on_progress(void *arg, const struct verify *w)
{
	struct verifying *c = arg;
	const char *waits = verify_pace_waits(w->pace);

	fprintf(stderr,
		"%spostcopy-volume: %llu names compared, %llu files read (%llu MiB), %llu different, "
		"%llu unclear%s%s%s",
		isatty(STDERR_FILENO) ? "\r" : "", (unsigned long long)w->n.objects,
		(unsigned long long)w->n.read, (unsigned long long)(w->n.bytes >> 20),
		(unsigned long long)w->n.found[VERIFY_DIFFERENT],
		(unsigned long long)w->n.found[VERIFY_UNCLEAR], waits ? "; waits: " : "",
		waits ? waits : "", isatty(STDERR_FILENO) ? "" : "\n");
	c->said = true;
}

static void print_state(struct json *j, const struct verify_state *s, bool digests)
{
	const struct verify_counts *n = &s->n;

	json_u64(j, "number", s->number);
	json_str(j, "result", verify_results[s->result]);
	json_str(j, "mode", digests ? "digests" : s->sample ? "sample" : "all");
	json_u64(j, "sample", s->sample);
	json_u64(j, "began", s->began);
	json_u64(j, "ended", s->ended);
	json_u64(j, "names", n->objects);
	json_u64(j, "right", n->right);
	json_u64(j, "listed_only", n->listed);
	json_u64(j, "files_read", n->read);
	json_u64(j, "bytes_read", n->bytes);
	json_u64(j, "files_read_earlier", n->earlier);
	json_u64(j, "pending", n->pending);
	for (unsigned int i = 0; i < VERIFY_CLASSES; i++)
		json_u64(j, verify_class[i], n->found[i]);
	json_u64(j, "unproven", n->unproven);
	json_u64(j, "made_by_clients", n->made);
	json_u64(j, "removed_by_clients", n->gone);
	json_u64(j, "moved_by_clients", n->moved);
}

static bool right(const struct verify_counts *n)
{
	return !n->found[VERIFY_DIFFERENT] && !n->found[VERIFY_UNCLEAR] && !n->pending &&
	       !n->unproven;
}

/* ---- the comparison ---- */

static int begin(struct verdict *v, struct verifying *c)
{
	struct verify_state *s = &c->state;
	int r;

	if (c->digests) { /* none with the source: nothing is kept of it */
		s->began = (uint64_t)time(NULL);
		return 0;
	}
	c->resumed = !c->again && (s->result == VERIFY_RUNNING || s->result == VERIFY_BROKEN) &&
		     s->sample == c->sample;
	if (!c->resumed) {
		uint32_t number = s->number + 1;

		*s = (struct verify_state){ .number = number ? number : 1, .sample = c->sample,
					    .began = (uint64_t)time(NULL) };
	}
	s->result = VERIFY_RUNNING;
	s->ended = 0;
	s->n = (struct verify_counts){ 0 };
	r = verify_state_store(stub_volume_fd(c->volume), s);
	return r < 0 ? verdict_fail(v, FAIL_TARGET, "%s/" STUB_DIR ": %s", c->path, strerror(-r)) : 0;
}

static void compare(struct verifying *c, int *r)
{
	struct verify *w = &c->verify;

	w->volume = c->volume;
	w->source = c->source;
	w->workers = (unsigned int)c->workers;
	w->digests = c->config.digests;
	w->sample = c->sample;
	w->number = c->state.number;
	w->found = on_found;
	w->progress = on_progress;
	w->arg = c;
	*r = verify_run(w);
	if (c->said && isatty(STDERR_FILENO))
		fputc('\n', stderr);
	c->state.n = w->n;
	c->state.ended = (uint64_t)time(NULL);
	c->state.result = *r < 0 ? VERIFY_BROKEN : right(&w->n) ? VERIFY_RIGHT : VERIFY_WRONG;
}

static const char *reason(const struct verifying *c, int r)
{
	if (r == -ETIMEDOUT || r == -ENOMEDIUM)
		return "the source is lost";
	if (r == -EBADMSG && c->digests)
		return STUB_DIR "/digests is damaged; take it away, and 'postcopy verify --all' makes "
		       "digests anew while the source is there";
	return strerror(-r);
}

static void print_failure(struct verifying *c, int r)
{
	bool lost = r == -ETIMEDOUT || r == -ENOMEDIUM;
	char why[512];

	snprintf(why, sizeof(why),
		 "the comparison broke off after %llu names, %llu different so far: %s%s",
		 (unsigned long long)c->verify.n.objects,
		 (unsigned long long)c->verify.n.found[VERIFY_DIFFERENT], reason(c, r),
		 c->digests ? "" : "; the same command goes on with it");
	json_str(&c->j, "error", lost ? "source-failed" : "verify-failed");
	json_str(&c->j, "message", why);
	fprintf(stderr, "postcopy-volume: %s\n", why);
}

static int answer(struct verifying *c)
{
	int r, stored;

	json_begin(&c->j, stdout);
	json_str(&c->j, "volume", c->path);
	json_str(&c->j, "source", stub_volume_info(c->volume)->source);
	json_bool(&c->j, "resumed", c->resumed);
	json_array(&c->j, "found");
	compare(c, &r);
	json_array_end(&c->j);
	r = close_manifest(c, r);
	stored = c->digests ? 0 : verify_state_store(stub_volume_fd(c->volume), &c->state);
	if (r == 0 && stored < 0)
		r = stored;
	print_state(&c->j, &c->state, c->digests);
	json_u64(&c->j, "shown", c->shown);
	json_bool(&c->j, "stopped", c->verify.stopped);
	json_bool(&c->j, "ok", r == 0 || c->verify.stopped);
	if (r < 0 && !c->verify.stopped)
		print_failure(c, r);
	if (json_end(&c->j) < 0)
		return 1;
	return c->verify.stopped		 ? STATUS_INTERRUPTED :
	       r < 0				 ? 1 :
	       c->state.result == VERIFY_RIGHT ? 0 :
						   STATUS_DIRTY;
}

int volume_verify(struct verdict *v, int argc, char **argv)
{
	static struct verifying c;
	int r;

	c.lock = -1;
	r = parse(v, argc, argv, &c);
	if (r == 0)
		r = open_both(v, &c);
	if (r == 0)
		r = begin(v, &c);
	if (r == 0)
		r = answer(&c);
	close_both(&c);
	return r;
}

int volume_verified(struct verdict *v, int argc, char **argv)
{
	struct stub_volume *volume;
	struct verify_state s;
	char path[PATH_MAX];
	struct json j;
	int r;

	if (argc != 2)
		return verdict_fail(v, FAIL_USAGE, "verified: want exactly one DIR");
	if (volume_tool_open(v, argv[1], path, &volume) < 0)
		return -1;
	r = verify_state_load(stub_volume_fd(volume), &s);
	stub_volume_close(volume);
	if (r < 0)
		return verdict_fail(v, FAIL_VOLUME_DAMAGED, "%s/" STUB_DIR "/" VERIFY_STATE ": %s", path,
				    strerror(-r));
	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", path);
	print_state(&j, &s, false);
	return json_end(&j) < 0 ? 1 : 0;
}
