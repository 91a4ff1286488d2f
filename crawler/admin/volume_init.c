/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_init.c - an empty directory becomes a volume. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "admin/volume_tool.h"
#include "check/check.h"
#include "depot/depot.h"
#include "preflight/preflight_mirror.h"
#include "source/target.h"
#include "source/uri.h"
#include "stubmirror.h"

#define RUN_DIR "/run/postcopy"

struct init_options {
	const char *source, *join, *socket, *control, *config, *dir;
	const char *depot; /* of --streams; NULL: xattr */
	bool way_back;
};

static int options_parse(struct verdict *v, int argc, char **argv, struct init_options *o)
{
	static const struct option longs[] = {
		{ "source", required_argument, NULL, 's' },
		{ "join", required_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, 'a' },
		{ "control", required_argument, NULL, 'c' },
		{ "config", required_argument, NULL, 'f' },
		{ "streams", required_argument, NULL, 't' },
		{ "way-back", no_argument, NULL, 'b' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	memset(o, 0, sizeof(*o));
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			o->source = optarg;
			break;
		case 'j':
			o->join = optarg;
			break;
		case 'a':
			o->socket = optarg;
			break;
		case 'c':
			o->control = optarg;
			break;
		case 'f':
			o->config = optarg;
			break;
		case 'b':
			o->way_back = true;
			break;
		case 't':
			if (streams_parse(v, "init", optarg, &o->depot) < 0)
				return -1;
			break;
		default:
			return option_bad(v, "init", argv[optind - 1]);
		}
	}
	if (!o->source)
		return verdict_fail(v, FAIL_USAGE, "init: --source URI is missing");
	if (join_check(v, "init", o->source, o->join) < 0)
		return -1;
	if (way_back_check(v, "init", o->source, o->join, o->way_back) < 0)
		return -1;
	if (o->depot && !o->join && source_uri_kind(o->source) != SOURCE_SMB)
		return verdict_fail(v, FAIL_USAGE, "init: --streams: only an SMB source has them");
	if (o->join && strlen(o->join) > STUB_URI_MAX)
		return verdict_fail(v, FAIL_USAGE, "init: --join: longer than %d bytes",
				    STUB_URI_MAX);
	if (optind + 1 != argc)
		return verdict_fail(v, FAIL_USAGE, "init: want exactly one DIR");
	o->dir = argv[optind];
	return 0;
}

static int make_uuid(char out[37])
{
	int fd = open("/proc/sys/kernel/random/uuid", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, out, 36);
	close(fd);
	out[36] = '\0';
	return n == 36 ? 0 : -EIO;
}

/* The volume's directory in letters that fit a file name, and a bit of its uuid. */
static void default_path(char *out, size_t size, const char *dir, const char *uuid,
			 const char *suffix)
{
	const char *base = strrchr(dir, '/');
	char name[33];
	size_t n;

	base = base ? base + 1 : dir;
	for (n = 0; base[n] && n < sizeof(name) - 1; n++)
		name[n] = isalnum((unsigned char)base[n]) || strchr("_-", base[n]) ? base[n] : '_';
	name[n] = '\0';
	snprintf(out, size, RUN_DIR "/%s-%.8s.%s", n ? name : "volume", uuid, suffix);
}

static int take_path(struct verdict *v, const char *option, const char *path,
		     char out[STUB_PATH_MAX + 1])
{
	if (path[0] != '/' || strlen(path) > STUB_PATH_MAX || strchr(path, '\n'))
		return verdict_fail(v, FAIL_SOCKET_PATH,
				    "--%s '%s': want an absolute path of at most %d bytes", option,
				    path, STUB_PATH_MAX);
	strcpy(out, path);
	return 0;
}

static int make_info(struct verdict *v, const struct init_options *o, const struct target *t,
		     struct stub_volume_info *info)
{
	memset(info, 0, sizeof(*info));
	info->source_id = 1;
	info->created = (uint64_t)time(NULL);
	snprintf(info->source, sizeof(info->source), "%s", o->source);
	snprintf(info->join, sizeof(info->join), "%s", o->join ? o->join : "");
	if (make_uuid(info->uuid) < 0)
		return verdict_fail(v, FAIL_INTERNAL, "cannot read /proc/sys/kernel/random/uuid");
	default_path(info->socket, sizeof(info->socket), t->path, info->uuid, "sock");
	default_path(info->control, sizeof(info->control), t->path, info->uuid, "control");
	if (o->socket && take_path(v, "socket", o->socket, info->socket) < 0)
		return -1;
	if (o->control && take_path(v, "control", o->control, info->control) < 0)
		return -1;
	if (!strcmp(info->socket, info->control))
		return verdict_fail(v, FAIL_SOCKET_PATH,
				    "--socket and --control are the same path");
	return o->way_back ? volume_tool_mirror_socket(v, info) : 0;
}

/* Does the root get more than its attributes? */
static bool has_meta(const struct source_facts *facts)
{
	return facts->smb || facts->join || facts->file || facts->attr.more;
}

/* Ask one server what it says of itself; what it does not say counts as lost, where it matters. */
static void ask_traits(const struct source_facts *facts, const char *uri,
		       struct source_traits *traits)
{
	struct source_config c;
	char why[256];

	config_source(&facts->config, &c);
	c.uri = uri;
	if (source_traits(&c, PREFLIGHT_TIMEOUT_MS, traits, why, sizeof(why)) < 0)
		memset(traits, 0, sizeof(*traits));
}

/* Can it take back what clients will write here?  It is written to, the first time of all. */
static int preflight_way_back(struct verdict *v, const struct target *t, struct source *s,
			      const struct source_facts *facts, const struct source_traits *traits,
			      const char *uuid)
{
	char aside[STUB_ASIDE_NAME];
	const struct mirror_trial trial = { .who = "way back to", .uri = facts->uri, .target = s,
					    .root = &facts->root, .attr = &facts->attr, .name = aside,
					    .volume_fd = -1 };

	if (!target_able(s))
		return verdict_fail(v, FAIL_MIRROR, "source %s: --way-back needs a server that is read and "
						    "written by NFSv3", facts->uri);
	if (traits->have_acl && traits->acl && !t->limits.acl)
		return verdict_fail(v, FAIL_MIRROR, "source %s has POSIX ACLs and %s has none: modes that are "
						    "narrowed for that would be taken back; use a file system "
						    "with ACLs, or no --way-back", facts->uri, t->path);
	stub_aside_name(uuid, aside);
	return mirror_trial(v, &trial);
}

/* All checks, first those that are cheap and local. */
static int preflight(struct verdict *v, const struct init_options *o, struct target *t,
		     struct source_facts *facts, const char *uuid)
{
	struct source_traits traits = { 0 };
	struct source *s;
	int r;

	/* a non-empty target may be non-empty because the source is in it: say that then */
	if (!facts->local && preflight_target_empty(v, t) < 0)
		return -1;
	if (preflight_source(v, facts, &s) < 0)
		return -1;
	r = preflight_overlap(v, t, s, facts);
	if (r == 0)
		r = preflight_target_empty(v, t);
	if (r == 0)
		r = preflight_target_case(v, t);
	if (r == 0 && !facts->smb && !facts->file)
		r = preflight_root(v, s, facts);
	if (r == 0) {
		ask_traits(facts, facts->uri, &traits);
		preflight_exports(v, s, facts, traits.below);
	}
	if (r == 0 && o->way_back)
		r = preflight_way_back(v, t, s, facts, &traits, uuid);
	if (r == 0 && facts->join)
		r = preflight_join(v, facts);
	if (r == 0 && has_meta(facts)) {
		r = source_meta(s, SOURCE_DEMAND, &facts->root, &facts->meta);
		if (r < 0)
			r = verdict_fail(v, FAIL_SOURCE,
					 "source %s: cannot read what belongs to its root: %s",
					 facts->uri, strerror(-r));
	}
	source_stop(s);
	source_destroy(s);
	return r;
}

/* Fetch the root's streams into the depot's staging. */
static int fetch_streams(const struct source_facts *facts, struct stub_volume *volume,
			 const struct stub_object *o, struct depot **d, struct depot_item **item)
{
	struct source_config c;
	struct depot_job job = { .p = SOURCE_DEMAND, .o = o, .m = &facts->meta };
	struct source *s;
	int r = depot_open(stub_volume_info(volume), d);

	if (r < 0)
		return r;
	config_source(&facts->config, &c);
	c.uri = facts->uri;
	c.join = facts->join;
	c.log = verdict_log;
	c.give_up_ms = PREFLIGHT_LOST_MS;
	c.smb.depot = true;
	r = source_create(&c, &s);
	if (r < 0)
		return r;
	job.source = s;
	r = depot_fetch(*d, &job, item);
	source_stop(s);
	source_destroy(s);
	return r;
}

/* The root gets its attributes at once, so that a server can export it without the source. */
static int fill_root(const struct target *t, const struct source_facts *facts)
{
	const struct source_meta *m = &facts->meta;
	struct depot_item *item = NULL;
	struct depot *depot = NULL;
	struct stub_volume *volume;
	struct stub_object o;
	int r = stub_volume_open(t->path, 0, verdict_log, NULL, &volume);

	if (r < 0)
		return r;
	r = stub_object_open(volume, stub_volume_root(volume), &o);
	if (r == 0) {
		if (m->n_streams)
			r = fetch_streams(facts, volume, &o, &depot, &item);
		if (r == 0)
			r = stub_fill_attr_and(volume, &o, &m->attr, source_meta_times(m), m->xattrs,
					       m->n, NULL, depot_place, item);
		stub_object_close(&o);
	}
	depot_item_free(item);
	depot_close(depot);
	stub_volume_close(volume);
	return r;
}

static int create(struct verdict *v, const struct target *t, const struct stub_volume_info *info,
		  const struct source_facts *facts, bool way_back)
{
	struct stub_mirror_conf c = {
		.kind = STUB_MIRROR_WAY_BACK, .mode = STUB_MIRROR_ASYNC, .gone = STUB_MIRROR_CONTINUE
	};
	bool dummy = has_meta(facts);
	int r;

	snprintf(c.uri, sizeof(c.uri), "%s", info->source);
	r = stub_volume_create(t->path, info, &facts->root, &facts->attr, dummy, way_back ? &c : NULL,
			       verdict_log, NULL);

	if (r == 0 && dummy)
		r = fill_root(t, facts);
	switch (r) {
	case 0:
		return 0;
	case -EEXIST:
		return verdict_fail(v, FAIL_TARGET_VOLUME, "target %s is a volume already",
				    t->path);
	case -ENOTEMPTY:
		return verdict_fail(v, FAIL_TARGET_NOT_EMPTY, "target %s is not empty", t->path);
	case -EOPNOTSUPP:
		return verdict_fail(
			v, FAIL_TARGET_XATTR,
			"target %s is on %s, which cannot hold a volume: use XFS or ext4", t->path,
			t->fstype);
	case -ENOSPC:
	case -EDQUOT:
		return verdict_fail(v, FAIL_TARGET_FULL, "target %s: no space left", t->path);
	case -EROFS:
		return verdict_fail(v, FAIL_TARGET_READONLY, "target %s is mounted read-only",
				    t->path);
	default:
		return verdict_fail(v, FAIL_TARGET, "cannot make %s a volume: %s", t->path,
				    strerror(-r));
	}
}

/* Invariant 7 (docs/design.md): what cannot be kept is told before the switch.  Of two joined
 * sources only what is lost by both. */
static void print_not_migrated(struct json *j, const struct target *t,
			       const struct source_facts *facts)
{
	struct source_traits traits = { 0 }, join_traits = { 0 };
	const struct check_sides sides = { .protocol = source_facts_protocol(facts),
					   .traits = &traits,
					   .join = facts->join ? &join_traits : NULL,
					   .limits = &t->limits,
					   .exports = facts->smb ? EXPORT_SMB : EXPORT_NFS,
					   .depot = facts->depot,
					   .born = facts->config.creation_times };
	struct check_property p;

	ask_traits(facts, facts->uri, &traits);
	if (facts->join)
		ask_traits(facts, facts->join, &join_traits);
	json_array(j, "not_migrated");
	for (unsigned int i = 0; i < check_properties(); i++) {
		check_property(&sides, i, &p);
		if (p.fate == FATE_LOST)
			json_str(j, NULL, p.title);
	}
	json_array_end(j);
	json_str(j, "not_migrated_reason", "'postcopy init --check' says why");
}

static int print(const struct verdict *v, const struct target *t,
		 const struct stub_volume_info *info, const struct source_facts *facts, bool way_back)
{
	struct stub_active a;
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", t->path);
	json_str(&j, "uuid", info->uuid);
	json_str(&j, "source", info->source);
	if (info->join[0])
		json_str(&j, "join", info->join);
	json_bool(&j, "way_back", way_back);
	json_str(&j, "socket", info->socket);
	json_str(&j, "control", info->control);
	if (info->depot[0])
		json_str(&j, "depot", info->depot);
	if (stub_active_of(t->st.st_dev, &a) == 0)
		json_str(&j, "lease", a.lease);
	json_str(&j, "filesystem", t->fstype);
	json_u64(&j, "inode_size", t->limits.inode_size);
	json_u64(&j, "free_bytes", t->free_bytes);
	json_u64(&j, "free_inodes", t->free_inodes);
	json_bool(&j, "root_proven", facts->root_proven);
	json_u64(&j, "sampled", facts->sampled);
	print_not_migrated(&j, t, facts);
	verdict_warnings_json(v, &j);
	return json_end(&j) < 0 ? 1 : 0;
}

int volume_init(struct verdict *v, int argc, char **argv)
{
	struct source_facts facts;
	struct stub_volume_info info;
	struct init_options o;
	struct target t;
	int r;

	memset(&facts, 0, sizeof(facts));
	if (options_parse(v, argc, argv, &o) < 0)
		return -1;
	facts.join = o.join;
	if (config_read(o.config, &facts.config) < 0)
		return verdict_fail(v, FAIL_USAGE, "init: the configuration cannot be used");
	facts.depot = o.depot;
	if (preflight_uri(v, o.source, &facts) < 0 ||
	    preflight_target(v, o.dir, &t) < 0)
		return -1;
	facts.no_acl = !t.limits.acl;
	r = make_info(v, &o, &t, &info);
	if (r == 0)
		r = preflight(v, &o, &t, &facts, info.uuid);
	snprintf(info.source, sizeof(info.source), "%s", facts.uri);
	info.join_root = facts.join_root;
	if (r == 0)
		r = preflight_depot(v, &t, o.depot, &info);
	if (r == 0)
		verdict_warn(
			v, "space-unchecked",
			"%.1f GiB and %llu inodes are free at %s: compare with what the source "
			"uses ('df' over there)",
			(double)t.free_bytes / (1u << 30), (unsigned long long)t.free_inodes,
			t.path);
	if (r == 0)
		r = create(v, &t, &info, &facts, o.way_back);
	if (r == 0)
		r = print(v, &t, &info, &facts, o.way_back);
	source_meta_free(&facts.meta);
	target_close(&t);
	return r;
}
