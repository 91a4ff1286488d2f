/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_report.c - counts, scan, remove. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "depot/depot.h"
#include "admin/volume_tool.h"
#include "verify/verify.h"

int volume_tool_open(struct verdict *v, const char *dir, char path[PATH_MAX],
		     struct stub_volume **out)
{
	int r;

	if (!realpath(dir, path))
		return verdict_fail(v, FAIL_NOT_VOLUME, "%s: %s", dir, strerror(errno));
	r = stub_volume_open(path, 0, verdict_log, NULL, out);
	if (r == -EXDEV)
		return verdict_fail(v, FAIL_ELSEWHERE,
				    "%s is a copy of a volume, or its file system has another UUID "
				    "than when it was made (\"Moving a volume\" in postcopy(8))", dir);
	if (r == -ENOLCK)
		return verdict_fail(v, FAIL_NOT_ACTIVE,
				    "this node does not hold the lease of %s: run this on the active one "
				    "(postcopy-active(8))", dir);
	if (r == -ENOENT)
		return verdict_fail(
			v, FAIL_NOT_VOLUME,
			"%s is not a volume: it was never made one, or its migration is "
			"finished",
			dir);
	if (r == -ECANCELED)
		return verdict_fail(v, FAIL_ABORT_BEGUN,
				    "the migration of %s is being given up: 'postcopy abort' ends that",
				    dir);
	if (r == -EBUSY)
		return verdict_fail(v, FAIL_IN_USE, "%s is held alone by 'postcopy abort'", dir);
	if (r < 0)
		return verdict_fail(v, FAIL_VOLUME_DAMAGED, "cannot open the volume %s: %s", dir,
				    r == -EPROTONOSUPPORT ? "it was made by a newer release of postcopy: "
							    "install that one, or a later one" :
							    strerror(-r));
	return 0;
}

int opened_volume(struct verdict *v, int argc, char **argv, struct opened *o)
{
	memset(o, 0, sizeof(*o));
	if (argc != 2 || argv[1][0] == '\0')
		return verdict_fail(v, FAIL_USAGE, "%s: want exactly one DIR", argv[0]);
	return volume_tool_open(v, argv[1], o->path, &o->volume);
}

int opened_journal(struct verdict *v, struct opened *o)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" STUB_DIR "/journal",
		 stub_volume_fd(o->volume));
	r = stub_journal_open(path, STUB_JOURNAL_READONLY, verdict_log, NULL, &o->journal);
	if (r < 0)
		return verdict_fail(v, FAIL_JOURNAL, "cannot read the pending journal of %s: %s",
				    o->path,
				    r == -EPROTONOSUPPORT ? "it is of a newer release of postcopy" :
							    strerror(-r));
	return 0;
}

void opened_close(struct opened *o)
{
	stub_journal_close(o->journal);
	stub_volume_close(o->volume);
}

/* ---- counts ----------------------------------------------------------------- */

static void print_counts(struct json *j, const struct stub_journal_counts *c)
{
	uint64_t parked = c->errors + c->conflicts;

	json_u64(j, "total", c->total);
	json_u64(j, "pending", c->total - parked);
	json_u64(j, "dirs", c->dirs);
	json_u64(j, "files", c->files);
	json_u64(j, "links", c->links);
	json_u64(j, "errors", c->errors);
	json_u64(j, "conflicts", c->conflicts);
}

/* Without a word if they cannot be read: that is for 'window' to tell. */
static void print_windows(struct json *j, const struct stub_volume *volume)
{
	struct windows w;

	if (windows_load(stub_volume_fd(volume), &w) == 0)
		volume_tool_windows(j, &w);
}

/* The one in force: if it cannot be read the crawler works in the usual one. */
static void print_order(struct json *j, const struct stub_volume *volume)
{
	struct order order;
	int r = order_load(stub_volume_fd(volume), &order);

	volume_tool_order(j, &order);
	if (r < 0)
		json_bool(j, "order_damaged", true);
}

/* As the retriever's status has it; nothing where nothing was counted. */
static void print_totals(struct json *j, struct stub_journal *journal)
{
	struct stub_journal_totals t;

	if (stub_journal_totals(journal, &t) < 0)
		return;
	json_object(j, "totals");
	json_u64(j, "found", t.found);
	json_u64(j, "found_bytes", t.found_bytes);
	json_u64(j, "done", t.done);
	json_u64(j, "done_bytes", t.done_bytes);
	json_u64(j, "left", t.left);
	json_u64(j, "left_bytes", t.left_bytes);
	json_u64(j, "parked", t.parked);
	json_u64(j, "parked_bytes", t.parked_bytes);
	json_u64(j, "directories_left", t.dirs);
	json_u64(j, "directories_parked", t.parked_dirs);
	json_bool(j, "whole", t.whole);
	json_object_end(j);
}

static void print_node(struct json *j, const struct stub_volume_info *info)
{
	struct stub_active a;

	if (!info->lease[0])
		return;
	json_str(j, "lease", info->lease);
	if (stub_active_get(info->lease, &a) < 0) /* lost since the volume was opened */
		return;
	json_str(j, "node", a.node);
	json_u64(j, "node_since", a.since);
}

int volume_counts(struct verdict *v, int argc, char **argv)
{
	const struct stub_volume_info *info;
	struct stub_journal_counts c;
	struct opened o;
	struct json j;
	int r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = opened_journal(v, &o);
	if (r == 0) {
		r = stub_journal_counts(o.journal, &c);
		if (r < 0)
			r = verdict_fail(v, FAIL_JOURNAL,
					 "cannot read the pending journal of %s: %s", o.path,
					 strerror(-r));
	}
	if (r == 0) {
		info = stub_volume_info(o.volume);
		json_begin(&j, stdout);
		json_bool(&j, "ok", true);
		json_str(&j, "volume", o.path);
		json_str(&j, "uuid", info->uuid);
		json_str(&j, "source", info->source);
		if (info->join[0])
			json_str(&j, "join", info->join);
		if (info->depot[0])
			json_str(&j, "depot", info->depot);
		json_str(&j, "socket", info->socket);
		json_str(&j, "control", info->control);
		json_u64(&j, "created", info->created);
		print_node(&j, info);
		json_bool(&j, "complete", c.total == 0 && stub_volume_complete(o.volume));
		json_bool(&j, "crawler", stub_crawler_runs(o.volume));
		print_counts(&j, &c);
		print_windows(&j, o.volume);
		print_order(&j, o.volume);
		print_totals(&j, o.journal);
		r = json_end(&j) < 0 ? 1 : 0;
	}
	opened_close(&o);
	return r;
}

/* ---- scan ----------------------------------------------------------------------- */

#define FOUND_MAX 100 /* paths that are printed */

struct scanning {
	const struct opened *o;
	bool said;
	unsigned int n;
	struct {
		bool copy;
		char *path;
	} found[FOUND_MAX];
};

static void scan_found(void *arg, int fd, const struct stub_handle *h, bool foreign)
{
	struct scanning *c = arg;
	size_t root = strlen(c->o->path);
	char link[64], path[PATH_MAX];
	const char *p = path;
	ssize_t n;

	(void)h;
	if (c->n == FOUND_MAX)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	if (!strncmp(path, c->o->path, root) && path[root] == '/')
		p = path + root + 1;
	c->found[c->n].copy = foreign;
	c->found[c->n].path = strdup(p);
	c->n += c->found[c->n].path != NULL;
}

static bool scan_progress(void *arg, const struct stub_scan *s)
{
	struct scanning *c = arg;

	fprintf(stderr, "%spostcopy-volume: %llu objects, %llu stubs, %llu unlisted directories%s",
		isatty(STDERR_FILENO) ? "\r" : "", (unsigned long long)s->objects,
		(unsigned long long)s->stubs, (unsigned long long)s->unlisted,
		isatty(STDERR_FILENO) ? "" : "\n");
	c->said = true;
	return true;
}

static int scan(struct verdict *v, struct opened *o, struct scanning *c, struct stub_scan *s)
{
	struct stub_scan_calls calls = { .progress = scan_progress, .found = scan_found, .arg = c };
	int r;

	*c = (struct scanning){ .o = o };
	r = stub_scan_calling(o->volume, &calls, s);
	if (c->said && isatty(STDERR_FILENO))
		fputc('\n', stderr);
	if (r < 0)
		return verdict_fail(v, FAIL_SCAN, "the scan of %s broke off: %s", o->path,
				    strerror(-r));
	return 0;
}

static bool scan_finished(const struct stub_scan *s)
{
	return stub_scan_whole(s) && !s->journal && !s->leftovers;
}

static void print_found(struct json *j, struct scanning *c)
{
	json_array(j, "found");
	for (unsigned int i = 0; i < c->n; i++) {
		json_object(j, NULL);
		json_str(j, "path", c->found[i].path);
		json_str(j, "why", c->found[i].copy ? "copy of a stub" : "damaged record");
		json_object_end(j);
		free(c->found[i].path);
	}
	json_array_end(j);
	c->n = 0;
}

static int print_scan(const struct opened *o, struct scanning *c, const struct stub_scan *s)
{
	bool clean = !s->uncovered && !s->corrupt && !s->foreign && !s->miscounted;
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", o->path);
	json_bool(&j, "clean", clean);
	json_bool(&j, "finished", scan_finished(s));
	json_u64(&j, "objects", s->objects);
	json_u64(&j, "files", s->files);
	json_u64(&j, "dirs", s->dirs);
	json_u64(&j, "others", s->others);
	json_u64(&j, "stubs", s->stubs);
	json_u64(&j, "dummies", s->dummies);
	json_u64(&j, "partials", s->partials);
	json_u64(&j, "unlisted", s->unlisted);
	json_u64(&j, "refused", s->refused);
	json_u64(&j, "covered", s->covered);
	json_u64(&j, "in_unlisted", s->in_unlisted);
	json_u64(&j, "uncovered", s->uncovered);
	json_u64(&j, "corrupt", s->corrupt);
	json_u64(&j, "foreign", s->foreign);
	json_u64(&j, "leftovers", s->leftovers);
	json_u64(&j, "provisional", s->provisional);
	json_u64(&j, "journal", s->journal);
	json_u64(&j, "parked", s->parked);
	json_u64(&j, "stale", s->stale);
	json_u64(&j, "missing_bytes", s->missing_bytes);
	json_u64(&j, "journal_bytes", s->journal_bytes);
	json_bool(&j, "miscounted", s->miscounted);
	print_found(&j, c);
	if (json_end(&j) < 0)
		return 1;
	return clean ? 0 : STATUS_DIRTY;
}

int volume_scan(struct verdict *v, int argc, char **argv)
{
	struct scanning c;
	struct stub_scan s;
	struct opened o;
	int r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = scan(v, &o, &c, &s);
	if (r == 0)
		r = print_scan(&o, &c, &s);
	opened_close(&o);
	return r;
}

/* ---- remove ------------------------------------------------------------------------ */

/* What is kept then, @mirror's; NULL: nothing is. */
static int leave(struct opened *o, struct stub_mirror_conf *mirror)
{
	const struct stub_volume_info *info = stub_volume_info(o->volume);

	if (mirror) {
		mirror->alone = true;
		return stub_mirror_conf_write(o->volume, mirror);
	}
	if (info->depot[0])
		depot_leave(info); /* on failure an empty directory stays */
	return stub_volume_remove(o->volume);
}

static int remove_checked(struct verdict *v, struct opened *o, struct stub_mirror_conf *mirror, struct stub_scan *s)
{
	struct scanning c;
	struct stub_link *link;
	int r;

	if (stub_link_create(o->volume, &link) == 0) {
		stub_link_destroy(link);
		return verdict_fail(v, FAIL_BUSY,
				    "a retriever is still serving %s: stop it first, or use "
				    "'postcopy finish'",
				    o->path);
	}
	if (scan(v, o, &c, s) < 0)
		return -1;
	r = scan_finished(s) ? leave(o, mirror) : -EBUSY;
	if (r == -EBUSY)
		return verdict_fail(
			v, FAIL_INCOMPLETE,
			"%s is not complete: %llu stubs, %llu unlisted directories, %llu "
			"journal entries (%llu parked), %llu damaged records, %llu copies of stubs, "
			"%llu leftovers",
			o->path, (unsigned long long)s->stubs, (unsigned long long)s->unlisted,
			(unsigned long long)s->journal, (unsigned long long)s->parked,
			(unsigned long long)s->corrupt, (unsigned long long)s->foreign,
			(unsigned long long)s->leftovers);
	if (r < 0)
		return verdict_fail(v, FAIL_TARGET, "cannot %s %s/" STUB_DIR ": %s", mirror ? "write" : "remove", o->path,
				    strerror(-r));
	return 0;
}

/* The backup that is kept, in *@c; or there must be none. */
static int check_mirror(struct verdict *v, const struct opened *o, bool keep, struct stub_mirror_conf *c)
{
	int r;

	if (!keep)
		return volume_tool_mirrored(v, o->path, o->volume, false);
	r = volume_tool_mirror_conf(v, o, c);
	if (r < 0 || (r == 0 && c->kind == STUB_MIRROR_BACKUP))
		return r;
	return verdict_fail(v, FAIL_MIRRORED, "%s has no mirror that could be kept", o->path);
}

static int print_removed(const char *path, const struct stub_scan *s)
{
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", path);
	json_bool(&j, "repeated", !s);
	if (s)
		json_u64(&j, "objects", s->objects);
	return json_end(&j) < 0 ? 1 : 0;
}

/* remove [--keep-mirror]: 1 if it is there, taken out. */
static int take_keep(int *argc, char **argv)
{
	if (*argc < 3 || strcmp(argv[1], "--keep-mirror") != 0)
		return 0;
	argv[1] = argv[0];
	*argc -= 1;
	return 1;
}

/* ... [--unverified | --require all|sample] DIR: the same, how many. */
static int take_policy(struct verdict *v, int *argc, char **argv, bool *unverified,
		       const char **require)
{
	int n = 0;

	*unverified = *argc > 2 && !strcmp(argv[1], "--unverified");
	*require = *argc > 3 && !strcmp(argv[1], "--require") ? argv[2] : NULL;
	if (*require && strcmp(*require, "all") && strcmp(*require, "sample"))
		return verdict_fail(v, FAIL_USAGE, "remove: --require '%s': want all or sample",
				    *require);
	n = *require ? 2 : *unverified;
	argv[n] = argv[0];
	*argc -= n;
	return n;
}

/* Was it compared with the source, as far as somebody wanted that? */
static int check_verified(struct verdict *v, const struct opened *o, bool unverified,
			  const char *require)
{
	struct verify_state s;
	int r = verify_state_load(stub_volume_fd(o->volume), &s);

	if (unverified || (r == 0 && s.result == VERIFY_NEVER && !require))
		return 0;
	if (r == 0 && s.result == VERIFY_RIGHT && (!require || !strcmp(require, "sample") || !s.sample))
		return 0;
	return verdict_fail(v, FAIL_UNVERIFIED,
			    "%s is not verified (the last comparison: %s, %s): 'postcopy verify' compares "
			    "it with the source, --unverified ends the migration all the same",
			    o->path, r < 0 ? strerror(-r) : verify_results[s.result],
			    s.sample ? "of a sample" : "of all");
}

int volume_remove(struct verdict *v, int argc, char **argv)
{
	struct stub_scan s;
	struct opened o;
	struct stub_mirror_conf mirror;
	const char *require;
	bool unverified, keep;
	int r = take_keep(&argc, argv);

	keep = r;
	argv += r;
	r = take_policy(v, &argc, argv, &unverified, &require);
	if (r < 0)
		return -1;
	argv += r;
	/* an earlier remove was killed in its very last step */
	if (argc == 2 && realpath(argv[1], o.path) && stub_volume_remove_rest(o.path) == 0)
		return print_removed(o.path, NULL);
	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = check_mirror(v, &o, keep, &mirror);
	if (r == 0)
		r = check_verified(v, &o, unverified, require);
	if (r == 0)
		r = remove_checked(v, &o, keep ? &mirror : NULL, &s);
	if (r == 0)
		r = print_removed(o.path, &s);
	opened_close(&o);
	return r;
}
