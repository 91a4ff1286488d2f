/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_check.c - what will a migration keep? Asked before anything is changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "admin/volume_tool.h"

/* The walk is patient: a big directory on cold disks takes its time. */
#define WALK_CALL_MS	30000
#define WALK_GIVE_UP_MS 120000

struct check {
	struct check_options o;
	struct source_facts facts;
	struct source_traits traits, join_traits;
	struct target target;
	struct check_sides sides;
	struct check_walk walk;
	struct json j;
	uint64_t shown[CHECK_KINDS];
	bool said; /* progress was printed */
};

/* ---- both sides ---- */

static int ask_traits(struct verdict *v, struct check *c, const char *uri,
		      struct source_traits *out)
{
	struct source_config config;
	char why[256] = "";
	int r;

	config_source(&c->facts.config, &config);
	config.uri = uri;
	config.log = verdict_log;
	r = source_traits(&config, PREFLIGHT_TIMEOUT_MS, out, why, sizeof(why));
	if (r < 0)
		return verdict_fail(v, r == -ETIMEDOUT ? FAIL_UNREACHABLE : FAIL_SOURCE,
				    "source %s: %s", uri, why[0] ? why : strerror(-r));
	return 0;
}

static int ask_source(struct verdict *v, struct check *c)
{
	struct source *s;
	int r;

	if (preflight_source(v, &c->facts, &s) < 0)
		return -1;
	r = c->o.dir ? preflight_overlap(v, &c->target, s, &c->facts) : 0;
	if (r == 0)
		r = c->facts.smb || c->facts.file ? 0 : preflight_root(v, s, &c->facts);
	if (r == 0)
		r = ask_traits(v, c, c->facts.uri, &c->traits);
	if (r == 0)
		preflight_exports(v, s, &c->facts, c->traits.below);
	source_stop(s);
	source_destroy(s);
	if (r == 0 && c->facts.join)
		r = preflight_join(v, &c->facts);
	if (r == 0 && c->facts.join)
		r = ask_traits(v, c, c->facts.join, &c->join_traits);
	return r;
}

/* What init would refuse is worth a warning already. */
static void warn_not_empty(struct verdict *v, const struct target *t)
{
	struct verdict init = { 0 };

	if (preflight_target_empty(&init, t) < 0)
		verdict_warn(v, "target-not-empty", "%.700s", init.message);
}

static void warn_space(struct verdict *v, const struct check *c)
{
	const struct source_traits *t = &c->traits;
	uint64_t used = t->bytes_total - t->bytes_free;

	if (c->o.dir && t->have_space && t->bytes_total > t->bytes_free &&
	    used > c->target.free_bytes)
		verdict_warn(v, "space-short",
			     "the old file system holds %.1f GiB (maybe more than the export "
			     "shows), %.1f GiB are free at %s",
			     (double)used / (1u << 30), (double)c->target.free_bytes / (1u << 30),
			     c->target.path);
}

static void warn_ids(struct verdict *v, const struct check *c)
{
	if (!c->facts.smb && !c->facts.file && c->facts.attr.fileid == 256)
		verdict_warn(v, "repeated-file-ids",
			     "the export's root has file id 256, as the root of a btrfs "
			     "subvolume: subvolumes and snapshots below it are migrated like "
			     "directories (--names finds them)");
}

/* ---- the answer ---- */

static void print_source(struct json *j, const struct source_traits *t)
{
	json_object(j, "source_says");
	if (t->security)
		json_str(j, "security", t->security);
	if (t->have_info) {
		json_u64(j, "max_file_size", t->max_file_size);
		json_u64(j, "time_delta_ns",
			 (uint64_t)t->time_delta.tv_sec * 1000000000 +
				 (uint64_t)t->time_delta.tv_nsec);
		json_bool(j, "hard_links", t->hard_links);
		json_bool(j, "symlinks", t->symlinks);
	}
	if (t->have_names) {
		json_u64(j, "link_max", t->link_max);
		json_u64(j, "name_max", t->name_max);
		json_bool(j, "case_insensitive", t->case_insensitive);
		json_bool(j, "case_preserving", t->case_preserving);
		json_bool(j, "chown_restricted", t->chown_restricted);
	}
	if (t->have_space) {
		json_u64(j, "bytes_total", t->bytes_total);
		json_u64(j, "bytes_free", t->bytes_free);
		json_u64(j, "files_total", t->files_total);
		json_u64(j, "files_free", t->files_free);
	}
	if (t->have_acl)
		json_bool(j, t->nfs4 ? "nfs4_acl" : "posix_acl", t->acl);
	if (t->nfs4) {
		json_u64(j, "nfs4_minor", t->minor);
		json_bool(j, "creation_times", t->born);
		json_bool(j, "user_xattrs", t->xattrs);
	}
	json_object_end(j);
}

static void print_target(struct json *j, const struct target *t)
{
	const struct target_limits *l = &t->limits;

	json_str(j, "target", t->path);
	json_object(j, "target_has");
	json_str(j, "filesystem", t->fstype);
	json_u64(j, "free_bytes", t->free_bytes);
	json_u64(j, "free_inodes", t->free_inodes);
	json_u64(j, "name_max", l->name_max);
	json_u64(j, "symlink_max", l->symlink_max);
	json_u64(j, "max_file_size", l->file_max);
	json_u64(j, "link_max", l->link_max);
	json_u64(j, "device_major_max", l->major_max);
	json_u64(j, "device_minor_max", l->minor_max);
	if (l->times_known) {
		json_i64(j, "time_min", l->time_min);
		json_i64(j, "time_max", l->time_max);
		json_u64(j, "time_unit_ns", l->time_unit);
	}
	json_bool(j, "posix_acl", l->acl);
	json_bool(j, "user_xattrs", l->user_xattrs);
	json_u64(j, "xattrs_max", l->xattrs_max);
	json_bool(j, "folds_case", l->folds);
	json_object_end(j);
}

/* Returns whether something is lost that was not accepted. */
static bool print_properties(struct check *c)
{
	bool lost = false;

	json_array(&c->j, "properties");
	for (unsigned int i = 0; i < check_properties(); i++) {
		struct check_property p;
		bool known;

		check_property(&c->sides, i, &p);
		known = check_accepted(&c->o, p.code);
		lost = lost || (p.fate == FATE_LOST && !known);
		json_object(&c->j, NULL);
		json_str(&c->j, "property", p.code);
		json_str(&c->j, "title", p.title);
		json_str(&c->j, "source", check_seen_name(p.seen));
		json_str(&c->j, "volume", check_fate_name(p.fate));
		if (c->facts.join)
			json_str(&c->j, "from", p.from);
		json_str(&c->j, "why", p.why);
		json_bool(&c->j, "accepted", known);
		json_object_end(&c->j);
	}
	json_array_end(&c->j);
	return lost;
}

static void print_backs(struct check *c)
{
	json_array(&c->j, "way_back");
	for (unsigned int i = 0; i < check_backs(); i++) {
		struct check_property p;

		check_back(&c->sides, i, &p);
		json_object(&c->j, NULL);
		json_str(&c->j, "property", p.code);
		json_str(&c->j, "title", p.title);
		json_str(&c->j, "old_server", check_fate_name(p.fate));
		json_str(&c->j, "why", p.why);
		json_object_end(&c->j);
	}
	json_array_end(&c->j);
}

static void begin(const struct verdict *v, struct check *c, bool *lost)
{
	json_begin(&c->j, stdout);
	json_str(&c->j, "source", c->facts.uri);
	if (c->facts.join)
		json_str(&c->j, "join", c->facts.join);
	json_str(&c->j, "protocol", c->sides.protocol);
	json_array(&c->j, "protocols");
	if (c->sides.exports & EXPORT_NFS)
		json_str(&c->j, NULL, "nfs");
	if (c->sides.exports & EXPORT_SMB)
		json_str(&c->j, NULL, "smb");
	json_array_end(&c->j);
	print_source(&c->j, &c->traits);
	if (c->o.dir)
		print_target(&c->j, &c->target);
	verdict_warnings_json(v, &c->j);
	*lost = print_properties(c);
	if (c->o.way_back)
		print_backs(c);
}

/* ---- names ---- */

static void on_found(void *arg, const struct check_found *f)
{
	struct check *c = arg;

	if (c->o.limit && c->shown[f->kind] >= c->o.limit)
		return;
	c->shown[f->kind]++;
	json_object(&c->j, NULL);
	json_str(&c->j, "kind", check_kinds[f->kind].code);
	json_str(&c->j, "path", f->path);
	if (f->twin)
		json_str(&c->j, "twin", f->twin);
	if (f->why[0])
		json_str(&c->j, "why", f->why);
	json_object_end(&c->j);
}

static void on_progress(void *arg, const struct check_walk *w)
{
	struct check *c = arg;
	uint64_t found = 0;

	for (unsigned int i = 0; i < CHECK_KINDS; i++)
		found += w->count[i];
	fprintf(stderr, "%spostcopy-volume: %llu names in %llu directories, %llu to look at%s",
		isatty(STDERR_FILENO) ? "\r" : "", (unsigned long long)w->objects,
		(unsigned long long)w->dirs, (unsigned long long)found,
		isatty(STDERR_FILENO) ? "" : "\n");
	c->said = true;
}

/* Counts of the kinds that can have been found. Returns whether one means a loss. */
static bool print_counts(struct check *c)
{
	const struct check_walk *w = &c->walk;
	bool lost = false;

	json_object(&c->j, "walked");
	json_u64(&c->j, "names", w->objects);
	json_u64(&c->j, "directories", w->dirs);
	if (c->o.read)
		json_u64(&c->j, "files_read", w->read);
	json_bool(&c->j, "stopped", w->stopped);
	if (w->sparse) {
		json_u64(&c->j, "sparse_files", w->sparse);
		json_u64(&c->j, "sparse_bytes", w->sparse_bytes);
	}
	json_object_end(&c->j);
	json_array(&c->j, "kinds");
	for (unsigned int i = 0; i < CHECK_KINDS; i++) {
		bool known = check_accepted(&c->o, check_kinds[i].code);

		lost = lost || (w->count[i] && check_kinds[i].fate == FATE_LOST && !known);
		json_object(&c->j, NULL);
		json_str(&c->j, "kind", check_kinds[i].code);
		json_str(&c->j, "what", check_kinds[i].what);
		json_str(&c->j, "volume", check_fate_name(check_kinds[i].fate));
		json_u64(&c->j, "count", w->count[i]);
		json_u64(&c->j, "shown", c->shown[i]);
		json_bool(&c->j, "accepted", known);
		json_object_end(&c->j);
	}
	json_array_end(&c->j);
	return lost;
}

/* 0, or -errno; the answer goes on in either case. */
static int walk(struct check *c, bool *lost)
{
	struct source_config config;
	struct source *s;
	int r;

	config_source(&c->facts.config, &config);
	config.uri = c->facts.uri;
	config.join = c->facts.join;
	config.connections = 2;
	config.readdir_bytes = 256 * 1024;
	config.read_bytes = 65536;
	config.call_timeout_ms = WALK_CALL_MS;
	config.give_up_ms = WALK_GIVE_UP_MS;
	config.inflight = 64;
	config.log = verdict_log;
	config.no_acl = c->facts.no_acl;
	r = source_create(&config, &s);
	if (r < 0)
		return r;
	c->walk = (struct check_walk){ .sides = &c->sides,
				       .workers = c->o.workers,
				       .reads = c->o.read,
				       .found = on_found,
				       .progress = on_progress,
				       .arg = c };
	json_array(&c->j, "names");
	r = check_walk(&c->walk, s, &c->facts);
	json_array_end(&c->j);
	source_stop(s);
	source_destroy(s);
	if (c->said && isatty(STDERR_FILENO))
		fputc('\n', stderr);
	*lost = print_counts(c) || *lost;
	return r;
}

static int answer(const struct verdict *v, struct check *c)
{
	bool lost;
	int r = 0;

	begin(v, c, &lost);
	if (c->o.names)
		r = walk(c, &lost);
	json_bool(&c->j, "lost", lost);
	json_bool(&c->j, "ok", r == 0);
	if (r < 0) { /* all else is printed already */
		json_str(&c->j, "error", "source-failed");
		json_str(&c->j, "message", strerror(-r));
		fprintf(stderr, "postcopy-volume: source %s: the walk broke off: %s\n",
			c->facts.uri, strerror(-r));
	}
	if (json_end(&c->j) < 0 || r < 0)
		return 1;
	if (c->walk.stopped)
		return STATUS_INTERRUPTED;
	return lost ? STATUS_DIRTY : 0;
}

int volume_check(struct verdict *v, int argc, char **argv)
{
	static struct check c;
	int r;

	c.target.fd = -1;
	if (check_options_parse(v, argc, argv, &c.o) < 0)
		return -1;
	c.facts.join = c.o.join;
	if (config_read(c.o.config, &c.facts.config) < 0)
		return verdict_fail(v, FAIL_USAGE, "check: the configuration cannot be used");
	if (preflight_uri(v, c.o.source, &c.facts) < 0 ||
	    (c.o.dir && preflight_target_look(v, c.o.dir, &c.target) < 0))
		return -1;
	c.facts.no_acl = c.o.dir && !c.target.limits.acl;
	r = ask_source(v, &c);
	if (r == 0) {
		c.sides = (struct check_sides){
			.protocol = source_facts_protocol(&c.facts),
			.traits = &c.traits,
			.join = c.facts.join ? &c.join_traits : NULL,
			.limits = c.o.dir ? &c.target.limits : NULL,
			.exports = c.o.exports,
			.depot = c.o.depot,
			.born = c.facts.config.creation_times,
		};
		if (!c.sides.exports)
			c.sides.exports = c.facts.join ? EXPORT_NFS | EXPORT_SMB :
					  c.facts.smb  ? EXPORT_SMB :
							 EXPORT_NFS;
		if (c.o.dir)
			warn_not_empty(v, &c.target);
		warn_space(v, &c);
		warn_ids(v, &c);
		r = answer(v, &c);
	}
	target_close(&c.target);
	return r;
}
