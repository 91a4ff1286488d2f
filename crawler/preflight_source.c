/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preflight_source.c - can everything be read from there, and is it not here? */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "preflight.h"

#define ACCESS_MODIFY 0x04 /* RFC 1813 section 3.3.4 */
#define ACCESS_EXTEND 0x08
#define NOBODY	      65534

static const struct {
	int error;
	enum fail fail;
	const char *advice;
} probe_errors[] = {
	{ -EHOSTUNREACH, FAIL_UNREACHABLE, "check the network and the server" },
	{ -ECONNREFUSED, FAIL_REFUSED, "is the NFS server running, with NFSv3 over TCP?" },
	{ -ENOENT, FAIL_NOT_EXPORT, "check the path with 'showmount -e'" },
	{ -EACCES, FAIL_DENIED, "allow this machine in the export's access list" },
	{ -ETIMEDOUT, FAIL_UNREACHABLE, "check the network, firewalls and the server" },
	{ -EPROTO, FAIL_PROTOCOL, "the server must speak NFSv3 over TCP" },
};

static int probe_failed(struct verdict *v, const struct source_facts *facts, int error,
			const char *why)
{
	for (size_t i = 0; i < sizeof(probe_errors) / sizeof(probe_errors[0]); i++) {
		if (probe_errors[i].error == error)
			return verdict_fail(v, probe_errors[i].fail, "source %s: %s; %s",
					    facts->uri, why[0] ? why : strerror(-error),
					    probe_errors[i].advice);
	}
	return verdict_fail(v, FAIL_SOURCE, "source %s: %s", facts->uri,
			    why[0] ? why : strerror(-error));
}

static int check_root(struct verdict *v, struct source *s, struct source_facts *facts)
{
	struct stub_origin o;
	struct stub_attr a;
	uint32_t granted;
	int r;

	r = source_root(s, &facts->root, &facts->attr);
	if (r < 0)
		return verdict_fail(v, r == -EACCES ? FAIL_DENIED : FAIL_SOURCE,
				    "source %s: cannot read the export's root: %s", facts->uri,
				    strerror(-r));
	if (!S_ISDIR(facts->attr.mode))
		return verdict_fail(v, FAIL_NOT_EXPORT, "source %s: the export is not a directory",
				    facts->uri);
	r = source_lookup(s, SOURCE_DEMAND, &facts->root, STUB_DIR, strlen(STUB_DIR), &o, &a);
	if (r == 0)
		return verdict_fail(v, FAIL_RESERVED_NAME,
				    "source %s has an entry '" STUB_DIR
				    "' at its root, a name that "
				    "postcopy needs for itself: rename it there",
				    facts->uri);
	if (r != -ENOENT && r != -EACCES)
		return verdict_fail(v, FAIL_SOURCE, "source %s: LOOKUP fails: %s", facts->uri,
				    strerror(-r));
	if (source_access(s, &facts->root, NOBODY, ACCESS_MODIFY | ACCESS_EXTEND, &granted) == 0 &&
	    granted & (ACCESS_MODIFY | ACCESS_EXTEND))
		verdict_warn(v, "source-not-frozen",
			     "uid %d may write at the root of %s: whatever changes there from now "
			     "on is not migrated but parked as a conflict; make the export "
			     "read-only before the switch",
			     NOBODY, facts->uri);
	return 0;
}

int preflight_source(struct verdict *v, struct source_facts *facts, struct source **out)
{
	const struct source_config c = {
		.uri = facts->uri,
		.connections = 1,
		.readdir_bytes = 65536,
		.read_bytes = 65536,
		.call_timeout_ms = PREFLIGHT_TIMEOUT_MS / 3,
		.give_up_ms = PREFLIGHT_TIMEOUT_MS,
		.inflight = 16,
		.log = verdict_log,
	};
	char why[256] = "";
	int r;

	r = source_probe(&c, PREFLIGHT_TIMEOUT_MS, why, sizeof(why));
	if (r < 0)
		return probe_failed(v, facts, r, why);
	r = source_create(&c, out);
	if (r < 0)
		return verdict_fail(v, FAIL_SOURCE, "source %s: %s", facts->uri, strerror(-r));
	if (check_root(v, *out, facts) < 0) {
		source_stop(*out);
		source_destroy(*out);
		*out = NULL;
		return -1;
	}
	return 0;
}

/* ---- overlap ---------------------------------------------------------------- */

/*
 * Is directory @ancestor, of which the target is @below ("a/b", or ""), the root
 * of the export? Inode numbers alone prove little (the root of every XFS has the
 * same one), so the way down to the target is looked up over there as well.
 */
static bool is_source_root(struct source *s, const struct source_facts *facts,
			   const struct stat *ancestor, const struct target *t, const char *below)
{
	struct stub_origin dir = facts->root;
	struct stub_attr a = facts->attr;
	uint64_t seen;

	if (a.fileid != ancestor->st_ino)
		return false;
	if (!*below)
		return a.mtime.tv_sec == ancestor->st_mtim.tv_sec &&
		       a.mtime.tv_nsec == ancestor->st_mtim.tv_nsec &&
		       a.ctime.tv_sec == ancestor->st_ctim.tv_sec &&
		       a.ctime.tv_nsec == ancestor->st_ctim.tv_nsec;
	seen = a.fileid;
	while (*below) {
		size_t n = strcspn(below, "/");

		if (source_lookup(s, SOURCE_DEMAND, &dir, below, n, &dir, &a) < 0)
			return false;
		seen = a.fileid;
		below += n + strspn(below + n, "/");
	}
	return seen == t->st.st_ino;
}

/* Is @path (a real path) @inside, or below it? */
static bool is_below(const char *path, const char *inside)
{
	size_t n = strlen(inside);

	while (n > 1 && inside[n - 1] == '/')
		n--;
	return !strncmp(path, inside, n) && (path[n] == '\0' || path[n] == '/' || n == 1);
}

/* The export's path names a directory of this machine, and it is the exported one. */
static bool path_is_here(const struct source_facts *facts, char real[PATH_MAX])
{
	struct stat st;

	return realpath(facts->path, real) && stat(real, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_ino == facts->attr.fileid;
}

int preflight_overlap(struct verdict *v, const struct target *t, struct source *s,
		      const struct source_facts *facts)
{
	char path[PATH_MAX], real[PATH_MAX];
	size_t cut = strlen(t->path);

	if (!facts->local)
		return 0;
	if (path_is_here(facts, real) && is_below(real, t->path))
		return verdict_fail(v, FAIL_TARGET_INSIDE,
				    "the source (%s on this machine) lies inside the target %s: "
				    "choose a target elsewhere",
				    real, t->path);
	/* every directory on the way from the target up to "/" */
	for (;;) {
		const char *below = t->path + cut + strspn(t->path + cut, "/");
		struct stat st;

		snprintf(path, sizeof(path), "%.*s", cut ? (int)cut : 1, t->path);
		if (stat(path, &st) == 0 && is_source_root(s, facts, &st, t, below))
			return verdict_fail(v, FAIL_TARGET_INSIDE,
					    "the target %s lies inside the source (%s on this "
					    "machine is exported as %s): choose a target elsewhere",
					    t->path, path, facts->uri);
		if (cut == 0 || t->path[1] == '\0')
			return 0;
		while (cut > 0 && t->path[--cut] != '/')
			;
	}
}
