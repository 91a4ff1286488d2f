/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * attrs.c - attributes.
 *
 * A stub's local times, link count and blocks, and a directory's size, change while it is
 * filled; clients are shown what libstubcore says instead (docs/design.md, invariant 8).
 *
 * Order of looking: the view first, then the attributes from below.  A stub that
 * is finished in between is shown with its last view, which it has then for good.
 * The other way round, times of the filling would be taken for those of a normal
 * object, and MDCACHE would keep them for a minute.  Where attributes arrive
 * together with the object (lookup), those of a normal object are fetched again.
 */
#include "config.h"
#include "fsal.h"
#include "fsal_convert.h"
#include "FSAL/access_check.h"

#include <errno.h>

#include "stub_glue.h"

#define STUB_EXPIRE 1 /* s; MDCACHE counts whole seconds, so it may be nearly two */
#define GOING_MS    10000 /* longer than a listing takes */

/*
 * How long MDCACHE may show the attributes: STUB_EXPIRE of a stub, since another process may
 * finish it, which moves its change time, used space and a directory's size; else the export's
 * time.  MDCACHE keeps what it was told last, so it is told each time.  (0 tells it nothing,
 * but if the export's time is 0 MDCACHE never asks for another one.)
 */
static void attrs_expire(const struct stub_view *view, struct fsal_attrlist *attrs)
{
	int32_t most = op_ctx->export_perms.expire_time_attr;

	if ((view->needs || view->withheld) && (most < 0 || most > STUB_EXPIRE))
		most = STUB_EXPIRE;
	attrs->expire_time_attr = most;
}

/* Nobody knows whose rights it has: so nobody has any. */
static void attrs_withhold(struct fsal_attrlist *attrs)
{
	attrs->mode = 0;
	attrs->owner = attrs->group = 0;
	if (attrs->acl)
		nfs4_acl_release_entry(attrs->acl);
	attrs->acl = NULL;
	FSAL_UNSET_MASK(attrs->valid_mask, ATTR_ACL);
}

void stubfs_attrs_show(const struct stub_view *view, struct fsal_attrlist *attrs)
{
	attrs_expire(view, attrs);
	if (view->withheld)
		attrs_withhold(attrs);
	if (!view->needs)
		return;
	if (FSAL_TEST_MASK(attrs->valid_mask, ATTR_MTIME))
		attrs->mtime = view->mtime;
	if (FSAL_TEST_MASK(attrs->valid_mask, ATTR_CTIME))
		attrs->ctime = view->ctime;
	if (FSAL_TEST_MASK(attrs->valid_mask, ATTR_NUMLINKS))
		attrs->numlinks = view->nlink;
	if (FSAL_TEST_MASK(attrs->valid_mask, ATTR_SIZE) && attrs->type == DIRECTORY && view->size)
		attrs->filesize = view->size;
	if (FSAL_TEST_MASK(attrs->valid_mask, ATTR_CHANGE)) {
		struct timespec mtime = view->mtime, ctime = view->ctime;

		attrs->change = gsh_time_cmp(&mtime, &ctime) > 0 ? timespec_to_nsecs(&mtime) :
								   timespec_to_nsecs(&ctime);
	}
	/* A file that uses no blocks is taken for one hole by tar --sparse and never read. */
	if (FSAL_TEST_MASK(attrs->valid_mask, ATTR_SPACEUSED) &&
	    FSAL_TEST_MASK(attrs->valid_mask, ATTR_SIZE) && attrs->type == REGULAR_FILE &&
	    attrs->spaceused < attrs->filesize)
		attrs->spaceused = (attrs->filesize + S_BLKSIZE - 1) / S_BLKSIZE * S_BLKSIZE;
}

/* A stub as it is shown; a normal object as the FSAL below says, but for .postcopy. */
static void attrs_show(const struct stubfs_obj *o, const struct stub_view *view,
		       struct fsal_attrlist *attrs)
{
	stubfs_attrs_show(view, attrs);
	/* btrfs counts no subdirectories: there a directory has 1 */
	if (!view->needs && FSAL_TEST_MASK(attrs->valid_mask, ATTR_NUMLINKS) &&
	    attrs->numlinks > 2 && stubfs_hides_link(o))
		attrs->numlinks--;
}

/* ---- objects whose names are being removed ---- */

/*
 * An object whose name was removed stays in MDCACHE's list of the directory while a READDIR
 * uses that list.  The READDIR asks for the object's attributes, and with STALE here the
 * whole READDIR is answered STALE: the client takes the directory for gone.  So for a while
 * DELAY is answered instead.  Not longer, since it is by STALE that MDCACHE forgets an object.
 */
int64_t stubfs_going_begin(struct stubfs_obj *o)
{
	return atomic_exchange(&o->going, INT64_MAX);
}

void stubfs_going_end(struct stubfs_obj *o, int64_t before, bool gone)
{
	int64_t mine = INT64_MAX;

	if (gone)
		atomic_store(&o->going, (int64_t)stub_now_ms() + GOING_MS);
	else /* what another thread has set, which removes it too, stays */
		atomic_compare_exchange_strong(&o->going, &mine, before);
}

static fsal_status_t going_status(struct stubfs_obj *o, fsal_status_t status)
{
	int64_t until = atomic_load(&o->going);

	if (status.major != ERR_FSAL_STALE || until == 0 || until < (int64_t)stub_now_ms())
		return status;
	return glue_status(-EAGAIN);
}

/* ---- reading ---- */

/* If the caller wants errors of attributes in the attributes, put it there too. */
static fsal_status_t attrs_failed(struct fsal_attrlist *attrs, fsal_status_t status)
{
	if (FSAL_TEST_MASK(attrs->request_mask, ATTR_RDATTR_ERR))
		attrs->valid_mask = ATTR_RDATTR_ERR;
	return status;
}

static bool is_unopenable(const struct fsal_obj_handle *h)
{
	return h->type == SOCKET_FILE || h->type == CHARACTER_FILE || h->type == BLOCK_FILE;
}

/*
 * FSAL_VFS looks at sockets and devices by a directory and a name.  That name may be removed
 * while another one lives on (STALE), and an object that was made from a client's handle has
 * none (INVAL): then FSAL_VFS gives attributes only when it makes an object, so one is made.
 */
static fsal_status_t fetch(struct fsal_obj_handle *sub, struct fsal_attrlist *attrs)
{
	struct fsal_export *exp = op_ctx->fsal_export->sub_export;
	fsal_status_t status = below(sub->obj_ops->getattrs(sub, attrs));
	struct fsal_obj_handle *again = NULL;
	struct gsh_buffdesc key = { NULL, 0 };

	if (!is_unopenable(sub) ||
	    (status.major != ERR_FSAL_INVAL && status.major != ERR_FSAL_STALE))
		return status;
	fsal_release_attrs(attrs);
	attrs->valid_mask = 0;
	below(sub->obj_ops->handle_to_key(sub, &key));
	status = below(exp->exp_ops.create_handle(exp, &key, &again, attrs));
	if (FSAL_IS_ERROR(status))
		return attrs_failed(attrs, status);
	below(again->obj_ops->release(again));
	return status;
}

static fsal_status_t obj_getattrs(struct fsal_obj_handle *obj, struct fsal_attrlist *attrs)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stub_wait wait = { 0 };
	struct stub_view view;
	fsal_status_t status;
	int r = stub_need_shown(FRONT(stubfs_obj(obj)), &wait, &view, NULL);

	if (r < 0)
		return attrs_failed(attrs, going_status(stubfs_obj(obj), glue_status(r)));
	status = fetch(sub, attrs);
	if (FSAL_IS_ERROR(status)) /* FSAL_VFS 6 does not say so of what is removed */
		return attrs_failed(attrs, going_status(stubfs_obj(obj), status));
	attrs_show(stubfs_obj(obj), &view, attrs);
	return status;
}

fsal_status_t stubfs_attrs_settle(struct stubfs_obj *o, struct stub_wait *w,
				  struct fsal_attrlist *attrs)
{
	struct fsal_obj_handle *sub = o->below;
	fsal_status_t status = { ERR_FSAL_NO_ERROR, 0 };
	struct stub_view view = { .needs = 0 };
	bool asked;
	int r;

	if (!attrs || attrs->valid_mask == ATTR_RDATTR_ERR || attrs->fs_locations)
		return status;
	if (!glue_maybe_stub(o)) {
		attrs_show(o, &view, attrs);
		return status;
	}
	r = stub_need_shown(FRONT(o), w, &view, &asked);
	if (r < 0)
		status = glue_status(r);
	else if (!view.needs || asked) {
		fsal_release_attrs(attrs);
		attrs->valid_mask = 0;
		status = fetch(sub, attrs);
	}
	if (!FSAL_IS_ERROR(status)) {
		attrs_show(o, &view, attrs);
		return status;
	}
	fsal_release_attrs(attrs);
	/* a READDIR must not go on without some attributes: all of it is answered DELAY */
	if (status.major == ERR_FSAL_DELAY || status.major == ERR_FSAL_STALE ||
	    !FSAL_TEST_MASK(attrs->request_mask, ATTR_RDATTR_ERR))
		return status;
	attrs->valid_mask = ATTR_RDATTR_ERR;
	return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

/* Ganesha's own check, with our attributes: it reads them through our getattrs. */
static fsal_status_t obj_test_access(struct fsal_obj_handle *obj, fsal_accessflags_t access,
				     fsal_accessflags_t *allowed, fsal_accessflags_t *denied,
				     bool owner_skip)
{
	return fsal_test_access(obj, access, allowed, denied, owner_skip);
}

static fsal_status_t setattr_within(struct stubfs_obj *o, struct stub_wait *w, bool bypass,
				    struct state_t *state, struct fsal_attrlist *attrs)
{
	struct stub_front f = glue_front(o);
	struct stub_bracket change;
	fsal_status_t status;
	int r;

	f.owes = FSAL_TEST_MASK(attrs->valid_mask, ATTR_SIZE) ? GLUE_DATA : STUB_OWED_ATTRS;
	r = stub_bracket_attrs(&f, w, &change);
	if (r < 0)
		return glue_status(r);
	status = below(o->below->obj_ops->setattr2(o->below, bypass, state, attrs));
	return glue_end(&change, status);
}

static fsal_status_t obj_setattr2(struct fsal_obj_handle *obj, bool bypass, struct state_t *state,
				  struct fsal_attrlist *attrs)
{
	struct stub_wait wait = { 0 };

	return setattr_within(stubfs_obj(obj), &wait, bypass, state, attrs);
}

/*
 * FSAL_VFS would truncate in open as root, before the layer above checks permissions; here
 * they are checked first.
 */
fsal_status_t stubfs_truncate(struct stubfs_obj *o, struct stub_wait *w, struct state_t *state)
{
	struct fsal_attrlist attrs;
	fsal_status_t status = obj_test_access(&o->handle, FSAL_WRITE_ACCESS, NULL, NULL, false);

	if (FSAL_IS_ERROR(status))
		return status;
	fsal_prepare_attrs(&attrs, 0);
	attrs.valid_mask = ATTR_SIZE;
	attrs.filesize = 0;
	return setattr_within(o, w, true, state, &attrs);
}

void stubfs_attr_ops(struct fsal_obj_ops *ops)
{
	ops->test_access = obj_test_access;
	ops->getattrs = obj_getattrs;
	ops->setattr2 = obj_setattr2;
}
