// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_target.c - target.h on an NFSv3 server: each call is one on the caller's stack, and a wait for
 * its done().  Calls of many threads go out side by side.
 *
 * What is written is background to the connections (nfs_queue.c), so that no look-up waits behind it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs.h"
#include "source/target.h"

#define REWRITES_MAX 8 /* of one write, if the server begins anew between its pieces */
#define SET_IDS	     (S_ISUID | S_ISGID)

static bool able(const struct source *s)
{
	return ((const struct nfs_source *)s)->uri.version == &nfs3_version;
}

/* ---- one call ---- */

struct changing {
	struct nfs_call call;
	struct nfs_change change;
	struct nfs_wait wait;
	int err;
	/* what the answer says */
	bool have_attr;
	struct stub_attr attr;
	struct stub_origin origin; /* of length 0: it does not say */
	uint32_t written;
	bool stable;
	uint64_t verf;
};

static void on_done(struct nfs_call *call, int err, const struct nfs_answer *a)
{
	struct changing *c = (struct changing *)call;

	c->err = err;
	if (!err) {
		c->have_attr = a->have_attr;
		c->attr = a->attr;
		c->origin = a->origin;
		c->written = a->len;
		c->stable = a->stable;
		c->verf = a->verf;
	}
	nfs_wait_done(&c->wait);
}

/* Handles of the mirror are kept on a disk for long. */
static bool is_handle(const struct stub_origin *o)
{
	return o->len && o->len <= NFS3_FHSIZE;
}

static int change(struct source *base, struct changing *c, enum nfs_op op,
		  const struct stub_origin *o)
{
	struct nfs_source *s = nfs_of(base);
	int r;

	if (!is_handle(o) || (c->change.dir && !is_handle(c->change.dir)))
		return -ESTALE;
	c->call.op = op;
	c->call.prio = op == NFS_OP_WRITE ? SOURCE_BACKGROUND : SOURCE_DEMAND;
	c->call.fh = *o;
	c->call.change = &c->change;
	c->call.done = on_done;
	nfs_wait_init(&c->wait);
	nfs_wait_add(&c->wait);
	r = nfs_submit(s, &c->call);
	if (!r) {
		nfs_wait_below(&c->wait, 1);
		r = c->err;
	}
	nfs_wait_finish(&c->wait);
	if (r == -EBADMSG)
		nfs_log(s, STUB_LOG_ERROR, "source %s: impossible answer to %s", s->uri.host,
			nfs_op_name(op));
	return r;
}

/* ---- attributes ---- */

static bool has_time(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_sec <= (time_t)UINT32_MAX && t->tv_nsec >= 0 &&
	       t->tv_nsec <= 999999999;
}

static bool has_times(const struct stub_attr *a)
{
	return has_time(&a->atime) && has_time(&a->mtime);
}

/*
 * Another owner takes set-ID bits away, on Linux also those that come in the same call; and some
 * servers set the mode first.  A new size brings times of its own.  So these go ahead.
 */
static int set_attributes(struct source *s, const struct stub_origin *o, unsigned int what,
			  const struct stub_attr *a)
{
	unsigned int ahead = what & TARGET_SIZE, rest;
	int r = 0;

	if (what & TARGET_MODE && a->mode & SET_IDS)
		ahead |= what & TARGET_OWNER;
	rest = what & ~ahead;
	if (what & TARGET_TIMES && !has_times(a))
		return -EOVERFLOW;
	if (ahead) {
		struct changing c = { .change = { .attr = a, .what = ahead } };

		r = change(s, &c, NFS_OP_SETATTR, o);
	}
	if (!r && rest) {
		struct changing c = { .change = { .attr = a, .what = rest } };

		r = change(s, &c, NFS_OP_SETATTR, o);
	}
	return r;
}

/* An ACL that the server shows none of cannot be compared, so it is not set either. */
static int set_acl(struct source *base, const struct stub_origin *o, const struct stub_attr *a,
		   const struct stub_xattr *access, const struct stub_xattr *dflt)
{
	struct nfs_source *s = nfs_of(base);
	struct changing c = { .call.count = nfs_acl_mask(a) };
	int r = nfs_wait_known(s);

	if (!r && !nfs_acl_wanted(s, a))
		r = -EOPNOTSUPP;
	if (!r)
		r = nfs_aces_access(access, a, &c.change.access);
	if (!r)
		r = nfs_aces_default(S_ISDIR(a->mode) ? dflt : NULL, a, &c.change.def);
	if (!r)
		r = change(base, &c, NFS_OP_SETACL, o);
	free(c.change.access.e);
	free(c.change.def.e);
	return r;
}

/* ---- data ---- */

struct written {
	bool keep; /* it is to be durable */
	bool loose; /* some of it must be committed */
	uint64_t verf;
};

/* Some of it: what the server did not write is asked for again.  1: it has begun anew in between, and
 * may have lost what it had written before. */
static int write_pieces(struct source *s, const struct stub_origin *o, uint64_t offset, const uint8_t *buf,
			uint32_t length, struct written *w)
{
	uint32_t done = 0;

	w->loose = false;
	while (done < length) {
		struct changing c = { .call = { .offset = offset + done, .count = length - done },
				      .change = { .data = buf + done, .keep = w->keep } };
		int r = change(s, &c, NFS_OP_WRITE, o);

		if (r)
			return r;
		if (!c.written) {
			nfs_log(nfs_of(s), STUB_LOG_ERROR, "source %s: WRITE writes nothing",
				nfs_of(s)->uri.host);
			return -EIO;
		}
		if (w->loose && c.verf != w->verf)
			return 1;
		w->loose = w->loose || !c.stable;
		w->verf = c.verf;
		done += c.written;
	}
	return 0;
}

static int commit(struct source *s, const struct stub_origin *o, uint64_t *verf)
{
	struct changing c = { 0 };
	int r = change(s, &c, NFS_OP_COMMIT, o);

	if (!r)
		*verf = c.verf;
	return r;
}

/* What was to be kept, and is not although the server was told so.  1 as above. */
static int commit_loose(struct source *s, const struct stub_origin *o, const struct written *w)
{
	uint64_t verf;
	int r = commit(s, o, &verf);

	return r ? r : verf != w->verf;
}

static int write_all(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		     uint32_t length, struct written *w)
{
	int r = 1;

	if (!length || length > NFS_WRITE_MAX || offset > INT64_MAX - (uint64_t)length)
		return -EINVAL;
	for (unsigned int i = 0; r == 1 && i < REWRITES_MAX; i++) {
		r = write_pieces(s, o, offset, buf, length, w);
		if (r == 0 && w->keep && w->loose)
			r = commit_loose(s, o, w);
	}
	return r == 1 ? -EIO : r;
}

static int write_bytes(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		       uint32_t length, uint64_t *verf)
{
	struct written w = { .keep = false };
	int r = write_all(s, o, offset, buf, length, &w);

	if (!r)
		*verf = w.verf;
	return r;
}

static int keep_bytes(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		      uint32_t length)
{
	struct written w = { .keep = true };

	return write_all(s, o, offset, buf, length, &w);
}

/* ---- names ---- */

static int check_name(const char *name)
{
	return stub_name_check(name, strlen(name)) ? -EINVAL : 0;
}

static int check_target(const struct stub_attr *a, const char *target)
{
	if (!S_ISLNK(a->mode))
		return 0;
	if (!target || !*target)
		return -EINVAL;
	return strlen(target) > STUB_TARGET_MAX ? -ENAMETOOLONG : 0;
}

static enum nfs_op maker(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return NFS_OP_CREATE;
	case S_IFDIR:
		return NFS_OP_MKDIR;
	case S_IFLNK:
		return NFS_OP_SYMLINK;
	default:
		return NFS_OP_MKNOD;
	}
}

static bool is_type(uint32_t mode)
{
	mode &= S_IFMT;
	return mode == S_IFREG || mode == S_IFDIR || mode == S_IFLNK || mode == S_IFIFO ||
	       mode == S_IFSOCK || mode == S_IFCHR || mode == S_IFBLK;
}

/* The server has made it: what it did not tell of it is asked for. */
static int meet(struct source *s, const struct changing *c, const struct stub_attr *a,
		struct stub_origin *out, struct stub_attr *attr)
{
	const char *name = c->call.name;
	int r = 0;

	*out = c->origin;
	*attr = c->attr;
	if (!out->len)
		r = s->ops->lookup(s, SOURCE_DEMAND, &c->call.fh, NULL, name, strlen(name), out, attr);
	else if (!c->have_attr)
		r = s->ops->getattr(s, SOURCE_DEMAND, out, attr);
	if (!r && (attr->mode & S_IFMT) != (a->mode & S_IFMT)) {
		/* found by its name, it may be what somebody else has put there by now */
		r = c->origin.len ? -EBADMSG : -EEXIST;
		nfs_log(nfs_of(s), STUB_LOG_ERROR, "source %s: %s made an object of another type",
			nfs_of(s)->uri.host, nfs_op_name(c->call.op));
	}
	return r;
}

static int make(struct source *s, const struct stub_origin *dir, const char *name,
		const struct stub_attr *a, const char *target, struct stub_origin *out,
		struct stub_attr *attr)
{
	struct changing c = { .call.name = name,
			      .change = { .attr = a,
					  .what = TARGET_OWNER | TARGET_MODE,
					  .to = target } };
	int r = check_name(name);

	if (!r)
		r = is_type(a->mode) ? check_target(a, target) : -EINVAL;
	if (r)
		return r;
	if (has_times(a))
		c.change.what |= TARGET_TIMES;
	r = change(s, &c, maker(a->mode), dir);
	return r ? r : meet(s, &c, a, out, attr);
}

static int link_to(struct source *s, const struct stub_origin *o, const struct stub_origin *dir,
		   const char *name)
{
	struct changing c = { .change = { .dir = dir, .to = name } };
	int r = check_name(name);

	return r ? r : change(s, &c, NFS_OP_LINK, o);
}

static int rename_to(struct source *s, const struct stub_origin *dir, const char *name,
		     const struct stub_origin *to, const char *to_name)
{
	struct changing c = { .call.name = name, .change = { .dir = to, .to = to_name } };
	int r = check_name(name);

	if (!r)
		r = check_name(to_name);
	return r ? r : change(s, &c, NFS_OP_RENAME, dir);
}

static int remove_name(struct source *s, const struct stub_origin *dir, const char *name)
{
	struct changing c = { .call.name = name };
	int r = check_name(name);

	return r ? r : change(s, &c, NFS_OP_REMOVE, dir);
}

static int remove_dir(struct source *s, const struct stub_origin *dir, const char *name)
{
	struct changing c = { .call.name = name };
	int r = check_name(name);

	return r ? r : change(s, &c, NFS_OP_RMDIR, dir);
}

const struct target_ops nfs_target_ops = {
	.able = able,
	.setattr = set_attributes,
	.write = write_bytes,
	.keep = keep_bytes,
	.commit = commit,
	.make = make,
	.link = link_to,
	.rename = rename_to,
	.remove = remove_name,
	.rmdir = remove_dir,
	.setacl = set_acl,
};
