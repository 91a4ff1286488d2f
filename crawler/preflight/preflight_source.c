/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preflight_source.c - can everything be read from there, and is it not here? */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preflight/preflight.h"
#include "source/uri.h"

#define ACCESS_MODIFY 0x04 /* RFC 1813 section 3.3.4 */
#define ACCESS_EXTEND 0x08
#define NOBODY	      65534

#define GENERATION_LEN 4 /* bytes at the end of a kernel's handle */
#define ENTRIES_MAX    8 /* of a directory, asked about */

#define BELOW_MAX    5000 /* entries looked at below the target */
#define BELOW_LEVELS 4

static const struct {
	int error;
	enum fail fail;
	/* what to do: of an NFS server, of one by NFSv4, of an SMB server, here */
	const char *advice, *nfs4, *smb, *file;
} probe_errors[] = {
	{ -EHOSTUNREACH, FAIL_UNREACHABLE, "check the network and the server",
	  "check the network and the server", "check the network and the server",
	  "is it mounted?" },
	{ -ECONNREFUSED, FAIL_REFUSED, "is the NFS server running, with NFSv3 over TCP?",
	  "is the NFS server running, with NFSv4, on this port (?nfsport=N names another)?",
	  "is the SMB server running, on this port?",
	  "is it mounted?" },
	{ -ENOENT, FAIL_NOT_EXPORT, "check the path with 'showmount -e'",
	  "check the path: mount that of the server's root, '/', with '-o vers=4', and look",
	  "check the share with 'smbclient -L'",
	  "is it mounted?" },
	{ -EACCES, FAIL_DENIED, "allow this machine in the export's access list",
	  "allow this machine in the export's access list, with sec=sys (or see sec=krb5 in "
	  "postcopy-retriever(8))",
	  "check smb_credentials or smb_kerberos_*, and what this user may do on the share",
	  "run it as root" },
	{ -ETIMEDOUT, FAIL_UNREACHABLE, "check the network, firewalls and the server",
	  "check the network, firewalls and the server",
	  "check the network, firewalls and the server",
	  "see the kernel's log about its disk" },
	{ -ESTALE, FAIL_NOT_EXPORT, "mount it there, and export it again with 'exportfs -ra'",
	  "mount it there, and export it again with 'exportfs -ra'",
	  "is it mounted over there?",
	  "is it mounted?" },
	{ -EPROTO, FAIL_PROTOCOL, "the server must speak NFSv3 over TCP",
	  "the server must speak that NFSv4 over TCP, with lasting handles and owners by number",
	  "the server must speak SMB 2.1 or later",
	  "take another directory, or another way to it" },
};

#define KERBEROS_ADVICE                                                                           \
	"check nfs_kerberos_* of the configuration, the keys and the clock of the server, and what " \
	"it lets this principal do"

/* @share: it was the joined share that failed */
static int probe_failed(struct verdict *v, const struct source_facts *facts, bool share, int error,
			const char *why)
{
	const char *uri = share ? facts->join : facts->uri;

	for (size_t i = 0; i < sizeof(probe_errors) / sizeof(probe_errors[0]); i++) {
		if (probe_errors[i].error == error)
			return verdict_fail(v, probe_errors[i].fail, "source %s: %s; %s", uri,
					    why[0] ? why : strerror(-error),
					    facts->smb || share ? probe_errors[i].smb :
					    facts->file		? probe_errors[i].file :
					    error == -EACCES && source_uri_kerberos(uri) ?
								  KERBEROS_ADVICE :
					    source_uri_nfs4(uri)	? probe_errors[i].nfs4 :
								  probe_errors[i].advice);
	}
	return verdict_fail(v, FAIL_SOURCE, "source %s: %s", uri, why[0] ? why : strerror(-error));
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
	r = source_lookup(s, SOURCE_DEMAND, &facts->root, NULL, STUB_DIR, strlen(STUB_DIR), &o, &a);
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

static void preflight_config(const struct source_facts *facts, struct source_config *c)
{
	config_source(&facts->config, c);
	c->uri = facts->uri;
	c->join = facts->join;
	c->connections = 1;
	c->readdir_bytes = 65536;
	c->read_bytes = 65536;
	c->call_timeout_ms = PREFLIGHT_TIMEOUT_MS;
	c->give_up_ms = PREFLIGHT_LOST_MS;
	c->inflight = 16;
	c->smb.depot = facts->depot;
	c->no_acl = facts->no_acl;
	c->log = verdict_log;
}

int preflight_join(struct verdict *v, struct source_facts *facts)
{
	const struct stub_attr *nfs = &facts->attr;
	struct source_config c;
	struct stub_origin root;
	struct stub_attr smb;
	struct source *s;
	int r;

	preflight_config(facts, &c);
	c.uri = facts->join;
	c.join = NULL;
	r = source_create(&c, &s);
	if (r == 0) {
		r = source_root(s, &root, &smb);
		source_stop(s);
		source_destroy(s);
	}
	if (r < 0)
		return verdict_fail(v, FAIL_SOURCE, "joined source %s: cannot read its root: %s",
				    facts->join, strerror(-r));
	facts->join_root = smb.fileid;
	if (nfs->fileid != smb.fileid && (nfs->mtime.tv_sec != smb.mtime.tv_sec ||
					  nfs->mtime.tv_nsec / 100 != smb.mtime.tv_nsec / 100))
		return verdict_fail(v, FAIL_SOURCE,
				    "%s is not the same directory as %s: file id and time of "
				    "their roots differ",
				    facts->join, facts->uri);
	return 0;
}

int preflight_source(struct verdict *v, struct source_facts *facts, struct source **out)
{
	struct source_config c;
	char why[256] = "";
	int r;

	preflight_config(facts, &c);
	c.join = NULL;
	if (source_settle(&c, PREFLIGHT_TIMEOUT_MS, facts->settled, sizeof(facts->settled)) == 0)
		c.uri = facts->uri = facts->settled; /* else the next line says why */
	r = source_probe(&c, PREFLIGHT_TIMEOUT_MS, why, sizeof(why));
	if (r < 0)
		return probe_failed(v, facts, false, r, why);
	if (facts->join) {
		c.uri = facts->join;
		r = source_probe(&c, PREFLIGHT_TIMEOUT_MS, why, sizeof(why));
		if (r < 0)
			return probe_failed(v, facts, true, r, why);
	}
	if (facts->file && preflight_file(v, facts) < 0)
		return -1;
	preflight_config(facts, &c);
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

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec / 100 == b->tv_nsec / 100; /* SMB has no more */
}

static bool has_generation(const struct stub_handle *h)
{
	static const uint8_t none[GENERATION_LEN];

	return h->len <= GENERATION_LEN ||
	       memcmp(h->bytes + h->len - GENERATION_LEN, none, GENERATION_LEN) != 0;
}

/*
 * Is the old server's object with origin @o and attributes @a the local entry @name of @dir
 * ("."  is @dir itself)?  Equal inode numbers prove little: any two fresh file systems count
 * alike. Linux servers put the kernel's handle, which is the number and a random generation,
 * into theirs: where the number is followed by another generation it is another object (but
 * for an export's root, whose handle may have neither). Generations of zero prove nothing: the
 * root of each XFS has that. Of other handles nothing is known: then both times must agree.
 */
static bool same_object(int dir, const char *name, const struct stub_origin *o,
			const struct stub_attr *a)
{
	struct stub_handle h;
	struct stat st;
	int r, fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	r = fstat(fd, &st) < 0 ? -errno : stub_handle_of_fd(fd, &h);
	close(fd);
	if (r < 0 || a->fileid != st.st_ino || (a->mode & S_IFMT) != (st.st_mode & S_IFMT))
		return false;
	if (has_generation(&h) && memmem(o->bytes, o->len, h.bytes, h.len))
		return true;
	if (strcmp(name, ".") && h.len > GENERATION_LEN &&
	    memmem(o->bytes, o->len, h.bytes, h.len - GENERATION_LEN))
		return false;
	return same_time(&a->mtime, &st.st_mtim) && same_time(&a->ctime, &st.st_ctim);
}

/* Is the local directory at @path the root of the export? Some of its entries are compared,
 * since of the root itself the server may answer from a cache; of an empty one, itself. */
static bool same_directory(struct source *s, const struct source_facts *facts, const char *path,
			   const struct stat *st)
{
	unsigned int looked = 0;
	bool same = false;
	struct dirent *d;
	DIR *dir;

	if (facts->attr.fileid != st->st_ino)
		return false;
	if (facts->file)
		return facts->dev == st->st_dev;
	dir = opendir(path);
	if (!dir)
		return false;
	while (!same && looked < ENTRIES_MAX && (d = readdir(dir))) {
		struct stub_origin o;
		struct stub_attr a;

		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		looked++;
		same = source_lookup(s, SOURCE_DEMAND, &facts->root, NULL, d->d_name, strlen(d->d_name),
				     &o, &a) == 0 &&
		       same_object(dirfd(dir), d->d_name, &o, &a);
	}
	if (looked == 0)
		same = same_object(dirfd(dir), ".", &facts->root, &facts->attr);
	closedir(dir);
	return same;
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
static bool path_is_here(struct source *s, const struct source_facts *facts, char real[PATH_MAX])
{
	struct stat st;

	return realpath(facts->path, real) && stat(real, &st) == 0 && S_ISDIR(st.st_mode) &&
	       same_directory(s, facts, real, &st);
}

/* A server may export a directory under any path: look for it where the target is
 * not empty, as far down as a mistake is likely to have put it. */
static bool find_below(struct source *s, const struct source_facts *facts, const struct target *t,
		       char found[PATH_MAX])
{
	char *const paths[] = { (char *)t->path, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	unsigned int looked = 0;
	bool is = false;
	FTSENT *e;

	while (fts && !is && looked++ < BELOW_MAX && (e = fts_read(fts))) {
		if (e->fts_info != FTS_D)
			continue;
		is = e->fts_level > 0 && same_directory(s, facts, e->fts_path, e->fts_statp);
		if (is)
			snprintf(found, PATH_MAX, "%s", e->fts_path);
		if (e->fts_level >= BELOW_LEVELS)
			fts_set(fts, e, FTS_SKIP);
	}
	if (fts)
		fts_close(fts);
	return is;
}

int preflight_overlap(struct verdict *v, const struct target *t, struct source *s,
		      const struct source_facts *facts)
{
	char path[PATH_MAX], real[PATH_MAX];
	size_t cut = strlen(t->path);

	if (!facts->local)
		return 0;
	if ((path_is_here(s, facts, real) && is_below(real, t->path)) ||
	    find_below(s, facts, t, real))
		return verdict_fail(v, FAIL_TARGET_INSIDE,
				    "the source (%s on this machine) lies inside the target %s: "
				    "choose a target elsewhere",
				    real, t->path);
	/* every directory on the way from the target up to "/" */
	for (;;) {
		struct stat st;

		snprintf(path, sizeof(path), "%.*s", cut ? (int)cut : 1, t->path);
		if (stat(path, &st) == 0 && same_directory(s, facts, path, &st))
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
