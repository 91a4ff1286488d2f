/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * handle.c - objects: their life, finding them by name, identity.
 *
 * Directories are shown whole or not yet (docs/design.md, invariant 3): a missing name of an
 * unlisted directory is asked for before "no such name" is believed, and a
 * directory is listed before it is read.
 */
#include "config.h"
#include "fsal.h"
#include "FSAL/fsal_localfs.h"

#include <string.h>

#include "stub_glue.h"

/* ---- life ---- */

struct stubfs_obj *stubfs_obj_create(struct fsal_obj_handle *below)
{
	struct stubfs_obj *o = gsh_calloc(1, sizeof(*o));

	o->below = below; /* news.c finds the object from the next line on */
	o->handle.fs = below->fs;
	compat_handle_init(&o->handle, op_ctx->fsal_export, below->type);
	o->handle.obj_ops = &STUBFS.obj_ops;
	o->handle.fsid = below->fsid;
	o->handle.fileid = below->fileid;
	o->handle.state_hdl = below->state_hdl;
	return o;
}

void stubfs_obj_destroy(struct stubfs_obj *o)
{
	struct fsal_obj_handle *sub;

	if (!o)
		return;
	sub = o->below;
	compat_handle_fini(&o->handle); /* news.c finds it until here */
	if (op_ctx && op_ctx->fsal_export)
		below(sub->obj_ops->release(sub));
	else /* a shutdown has no request */
		sub->obj_ops->release(sub);
	gsh_free(o);
}

fsal_status_t stubfs_obj_adopt(struct fsal_obj_handle *sub, struct stub_wait *w,
			       fsal_errors_t hidden, struct fsal_attrlist *attrs,
			       struct fsal_obj_handle **out)
{
	fsal_status_t status;
	struct stubfs_obj *o;

	if (stubfs_hides_below(sub)) {
		below(sub->obj_ops->release(sub));
		return fsalstat(hidden, 0);
	}
	o = stubfs_obj_create(sub);
	status = stubfs_attrs_settle(o, w, attrs);
	if (FSAL_IS_ERROR(status)) {
		stubfs_obj_destroy(o);
		return status;
	}
	*out = &o->handle;
	return status;
}

static void obj_get_ref(struct fsal_obj_handle *obj)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	below(sub->obj_ops->get_ref(sub));
}

static void obj_put_ref(struct fsal_obj_handle *obj)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	below(sub->obj_ops->put_ref(sub));
}

static void obj_release(struct fsal_obj_handle *obj)
{
	stubfs_obj_destroy(stubfs_obj(obj));
}

/* MDCACHE met the object twice: share reservations of the second go to the first.
 * They are in memory, so a mirror is owed nothing. */
static fsal_status_t obj_merge(struct fsal_obj_handle *orig, struct fsal_obj_handle *dupe)
{
	struct fsal_obj_handle *sub = stubfs_below(orig);

	return below(sub->obj_ops->merge(sub, stubfs_below(dupe)));
}

/* ---- lookup ---- */

static fsal_status_t obj_lookup(struct fsal_obj_handle *dir, const char *name,
				struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct fsal_obj_handle *parent = stubfs_below(dir), *sub = NULL;
	struct stub_wait wait = { 0 };
	fsal_status_t status = stubfs_name_check(stubfs_obj(dir), name, ERR_FSAL_NOENT);
	int r;

	*out = NULL;
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(parent->obj_ops->lookup(parent, name, &sub, attrs));
	if (status.major == ERR_FSAL_NOENT) {
		r = stub_need_name(FRONT(stubfs_obj(dir)), &wait, name);
		if (r == 0)
			status = below(parent->obj_ops->lookup(parent, name, &sub, attrs));
		else if (r != -ENOENT)
			status = glue_status(r);
	}
	if (FSAL_IS_ERROR(status))
		return status;
	return stubfs_obj_adopt(sub, &wait, ERR_FSAL_NOENT, attrs, out);
}

/* ---- readdir ---- */

#define READ_TRIES 100 /* after one entry; each is ended by a name that has gone meanwhile */

struct reading {
	struct stubfs_obj *dir;
	struct stub_wait wait;
	fsal_cookie_t at; /* of the last entry */
	int tries; /* since that */
	fsal_status_t failed;
	fsal_readdir_cb cb;
	void *cb_arg;
};

/* One entry that the FSAL below found; our own layer works. */
static enum fsal_dir_result entry(struct reading *rd, const char *name, struct fsal_obj_handle *sub,
				  struct fsal_attrlist *attrs, fsal_cookie_t cookie)
{
	struct fsal_obj_handle *obj;
	fsal_status_t status;

	rd->at = cookie;
	rd->tries = 0;
	if (stubfs_hides_name(rd->dir, name)) {
		below(sub->obj_ops->release(sub));
		return DIR_CONTINUE;
	}
	status = stubfs_obj_adopt(sub, &rd->wait, ERR_FSAL_NOENT, attrs, &obj);
	if (status.major == ERR_FSAL_NOENT || status.major == ERR_FSAL_STALE)
		return DIR_CONTINUE; /* hidden, or removed meanwhile */
	if (FSAL_IS_ERROR(status)) {
		rd->failed = status;
		return DIR_TERMINATE;
	}
	return rd->cb(name, obj, attrs, rd->cb_arg, cookie);
}

static enum fsal_dir_result entry_below(const char *name, struct fsal_obj_handle *sub,
					struct fsal_attrlist *attrs, void *arg,
					fsal_cookie_t cookie)
{
	return above(entry(arg, name, sub, attrs, cookie));
}

/*
 * FSAL_VFS looks up each name that it has read, and gives up when one has gone in between.
 * The caller has got the entries before that one: go on behind them.  This ends if the
 * directory itself has gone, for that is STALE.
 */
static fsal_status_t read_on(struct reading *rd, attrmask_t mask, bool *eof)
{
	struct fsal_obj_handle *sub = rd->dir->below;
	fsal_cookie_t from;
	fsal_status_t status;

	do {
		from = rd->at;
		status = below(sub->obj_ops->readdir(sub, &from, rd, entry_below, mask, eof));
	} while (status.major == ERR_FSAL_NOENT && rd->tries++ < READ_TRIES);
	return status.major == ERR_FSAL_NOENT ? glue_status(-EAGAIN) : status;
}

static fsal_status_t obj_readdir(struct fsal_obj_handle *dir, fsal_cookie_t *whence, void *arg,
				 fsal_readdir_cb cb, attrmask_t mask, bool *eof)
{
	struct reading rd = {
		.dir = stubfs_obj(dir),
		.at = whence ? *whence : 0,
		.cb = cb,
		.cb_arg = arg,
	};
	fsal_status_t status = stubfs_refuses(rd.dir);
	int r;

	if (FSAL_IS_ERROR(status))
		return status;
	r = stub_need_entries(FRONT(rd.dir), &rd.wait);
	if (r < 0)
		return glue_status(r);
	status = read_on(&rd, mask, eof);
	return FSAL_IS_ERROR(rd.failed) ? rd.failed : status;
}

static fsal_cookie_t obj_compute_cookie(struct fsal_obj_handle *dir, const char *name)
{
	struct fsal_obj_handle *sub = stubfs_below(dir);

	return below(sub->obj_ops->compute_readdir_cookie(sub, name));
}

static int obj_dirent_cmp(struct fsal_obj_handle *dir, const char *name1, fsal_cookie_t cookie1,
			  const char *name2, fsal_cookie_t cookie2)
{
	struct fsal_obj_handle *sub = stubfs_below(dir);

	return below(sub->obj_ops->dirent_cmp(sub, name1, cookie1, name2, cookie2));
}

/* ---- content of a symlink: always complete, made with the inode ---- */

static fsal_status_t obj_readlink(struct fsal_obj_handle *obj, struct gsh_buffdesc *content,
				  bool refresh)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->readlink(sub, content, refresh));
}

/* ---- identity: that of the FSAL below, so that handles stay valid when we come or go ---- */

static fsal_status_t obj_handle_to_wire(const struct fsal_obj_handle *obj, fsal_digesttype_t type,
					struct gsh_buffdesc *fh)
{
	const struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->handle_to_wire(sub, type, fh));
}

static void obj_handle_to_key(struct fsal_obj_handle *obj, struct gsh_buffdesc *key)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	below(sub->obj_ops->handle_to_key(sub, key));
}

static bool obj_handle_cmp(struct fsal_obj_handle *a, struct fsal_obj_handle *b)
{
	struct fsal_obj_handle *sub;

	if (!a || !b)
		return false;
	sub = stubfs_below(a);
	return below(sub->obj_ops->handle_cmp(sub, stubfs_below(b)));
}

/* ---- pNFS: refused, data servers would read behind our back ---- */

static nfsstat4 obj_layoutget(struct fsal_obj_handle *obj, XDR *body,
			      const struct fsal_layoutget_arg *arg, struct fsal_layoutget_res *res)
{
	return NFS4ERR_LAYOUTUNAVAILABLE;
}

static nfsstat4 obj_layoutreturn(struct fsal_obj_handle *obj, XDR *body,
				 const struct fsal_layoutreturn_arg *arg)
{
	return NFS4ERR_NOTSUPP;
}

static nfsstat4 obj_layoutcommit(struct fsal_obj_handle *obj, XDR *body,
				 const struct fsal_layoutcommit_arg *arg,
				 struct fsal_layoutcommit_res *res)
{
	return NFS4ERR_NOTSUPP;
}

/* MDCACHE keeps the attributes that this fetches: they must be ours, not those of
 * the FSAL below. */
static bool obj_is_referral(struct fsal_obj_handle *obj, struct fsal_attrlist *attrs,
			    bool cache_attrs)
{
	return fsal_common_is_referral(obj, attrs, cache_attrs);
}

void stubfs_handle_ops(struct fsal_obj_ops *ops)
{
	ops->get_ref = obj_get_ref;
	ops->put_ref = obj_put_ref;
	ops->release = obj_release;
	ops->merge = obj_merge;
	ops->lookup = obj_lookup;
	ops->readdir = obj_readdir;
	ops->compute_readdir_cookie = obj_compute_cookie;
	ops->dirent_cmp = obj_dirent_cmp;
	ops->readlink = obj_readlink;
	ops->handle_to_wire = obj_handle_to_wire;
	ops->handle_to_key = obj_handle_to_key;
	ops->handle_cmp = obj_handle_cmp;
	ops->layoutget = obj_layoutget;
	ops->layoutreturn = obj_layoutreturn;
	ops->layoutcommit = obj_layoutcommit;
	ops->is_referral = obj_is_referral;
}
