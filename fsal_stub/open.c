/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * open.c - open, and the doors through which open truncates.
 *
 * Opening is not reading: it fetches nothing but attributes (docs/design.md, section 7).
 *
 * The FSAL below never sees FSAL_O_TRUNC of a file that exists: a truncation that
 * is not in the bracket would leave the old content in the missing map, and a fill
 * would bring it back (docs/design.md, invariant 2).  It is taken out of the flags and done
 * after the open by stubfs_truncate(), with the state that has just been opened.  A file
 * that open creates is empty anyway.  An exclusive create keeps its verifier in the new
 * file's times; it never truncates, so these do not move.
 *
 * With a mirror the truncation of a normal file goes the same way: it is owed as any other
 * change of the size.  An open that neither truncates nor creates owes nothing.
 */
#include "config.h"
#include "fsal.h"

#include <errno.h>

#include "meet.h"
#include "names.h"

struct opening {
	struct stubfs_obj *obj; /* the directory if name is given */
	struct state_t *state;
	fsal_openflags_t flags;
	enum fsal_create_mode mode;
	const char *name;
	struct fsal_attrlist *attrs_in;
	void *verifier;
	struct fsal_obj_handle **out;
	struct fsal_attrlist *attrs_out;
	bool *perm_check;

	struct stub_wait wait;
	bool truncate; /* was taken out of flags */
};

static fsal_status_t open_below(struct opening *op, struct fsal_obj_handle **sub)
{
	struct fsal_obj_handle *on = op->obj->below;

	return below(on->obj_ops->open2(on, op->state, op->flags, op->mode, op->name, op->attrs_in,
					op->verifier, sub, op->attrs_out,
					op->perm_check NO_DIR_ATTRS));
}

/* Take back an open whose rest failed. */
static void close_again(struct fsal_obj_handle *sub, struct state_t *state)
{
	if (state)
		below(sub->obj_ops->close2(sub, state));
}

/* The truncation the caller asked for, and the attributes that are true after it. */
static fsal_status_t truncate_opened(struct opening *op, struct stubfs_obj *o)
{
	fsal_status_t status = stubfs_truncate(o, &op->wait, op->state);

	if (!FSAL_IS_ERROR(status) && op->attrs_out) {
		fsal_release_attrs(op->attrs_out);
		op->attrs_out->valid_mask = 0;
		status = o->handle.obj_ops->getattrs(&o->handle, op->attrs_out);
		if (FSAL_TEST_MASK(op->attrs_out->valid_mask, ATTR_RDATTR_ERR))
			status = fsalstat(ERR_FSAL_NO_ERROR, 0);
	}
	return status;
}

/* May it be truncated?  Asked before the open: without a state, an open whose rest
 * is refused stays open below, and Ganesha's count of open files goes wrong. */
static fsal_status_t truncate_allowed(const struct opening *op, struct stubfs_obj *o)
{
	if (!op->truncate || op->mode >= FSAL_GUARDED)
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	return o->handle.obj_ops->test_access(&o->handle, FSAL_WRITE_ACCESS, NULL, NULL, false);
}

static fsal_status_t open_handle(struct opening *op)
{
	struct fsal_obj_handle *sub = NULL;
	struct stub_view view;
	fsal_status_t status;
	int r = stub_need_attrs(FRONT(op->obj), &op->wait, &view);

	if (r < 0)
		return glue_status(r);
	status = truncate_allowed(op, op->obj);
	if (!FSAL_IS_ERROR(status))
		status = open_below(op, &sub); /* gives no new object */
	if (FSAL_IS_ERROR(status))
		return status;
	if (op->truncate)
		status = truncate_opened(op, op->obj);
	else if (op->attrs_out)
		stubfs_attrs_show(&view, op->attrs_out);
	if (FSAL_IS_ERROR(status))
		close_again(op->obj->below, op->state);
	return status;
}

/* Is there anything to truncate in what has just been opened or created? */
static bool open_has_content(struct opening *op, struct stubfs_obj *found,
			     struct fsal_obj_handle *sub)
{
	struct fsal_attrlist attrs;
	fsal_status_t status;
	bool empty;

	if (!op->truncate || op->mode >= FSAL_GUARDED)
		return false;
	if (found)
		return true;
	fsal_prepare_attrs(&attrs, ATTR_SIZE);
	status = below(sub->obj_ops->getattrs(sub, &attrs));
	empty = !FSAL_IS_ERROR(status) && attrs.filesize == 0;
	fsal_release_attrs(&attrs);
	return !empty;
}

/*
 * Is what was opened still what the name stands for?  MDCACHE puts it into its list of the
 * directory under that name.  If the name went while the truncation was waited for, that
 * would show a file that is not there; so DELAY, and the client's next try creates one.
 */
static fsal_status_t open_still_named(struct opening *op, struct stubfs_obj *o)
{
	struct stubfs_obj *now;
	fsal_status_t status = names_find(op->obj, op->name, &now);

	if (status.major == ERR_FSAL_NOENT ||
	    (!FSAL_IS_ERROR(status) && now->handle.fileid != o->handle.fileid))
		status = glue_status(-EAGAIN);
	stubfs_obj_destroy(now);
	return status;
}

/* @sub is open: wrap it, truncate it if asked, and get its attributes. */
static fsal_status_t open_adopt(struct opening *op, struct stubfs_obj *found,
				struct fsal_obj_handle *sub)
{
	bool content = open_has_content(op, found, sub);
	struct stubfs_obj *o;
	fsal_status_t status;

	o = stubfs_obj_create(sub);
	status = content ? truncate_opened(op, o) :
			   stubfs_attrs_settle(o, &op->wait, op->attrs_out);
	if (!FSAL_IS_ERROR(status) && found)
		status = open_still_named(op, o);
	if (status.major == ERR_FSAL_STALE) /* a client would take it for the directory's */
		status = glue_status(-EAGAIN);
	if (FSAL_IS_ERROR(status)) {
		close_again(sub, op->state);
		stubfs_obj_destroy(o);
		return status;
	}
	*op->out = &o->handle;
	return status;
}

/* Open op->name, which stands for @found (NULL: for nothing). */
static fsal_status_t open_found(struct opening *op, struct stubfs_obj *found)
{
	struct stub_bracket change = { .open = false };
	struct fsal_obj_handle *sub = NULL;
	struct stub_view view;
	fsal_status_t status;
	bool opened;
	int r = 0;

	if (found) /* an open that may create is checked against its local mode */
		r = stub_need_attrs(FRONT(found), &op->wait, &view);
	else if (op->mode != FSAL_NO_CREATE)
		r = glue_begin(&change, &op->obj, names_dir_owes, &op->name, 1, GLUE_STAY);
	if (r < 0)
		return glue_status(r);
	status = found ? truncate_allowed(op, found) : fsalstat(ERR_FSAL_NO_ERROR, 0);
	if (!FSAL_IS_ERROR(status))
		status = open_below(op, &sub);
	opened = !FSAL_IS_ERROR(status);
	if (status.major == ERR_FSAL_NOENT && op->mode != FSAL_NO_CREATE)
		status = glue_status(-EAGAIN); /* went between the open and asking for its handle */
	if (opened && !found && op->mode != FSAL_NO_CREATE)
		r = glue_made(sub);
	status = glue_both(glue_end(&change, status), r);
	if (opened && FSAL_IS_ERROR(status)) {
		close_again(sub, op->state);
		below(sub->obj_ops->release(sub));
	}
	return FSAL_IS_ERROR(status) ? status : open_adopt(op, found, sub);
}

static fsal_status_t open_name(struct opening *op)
{
	struct stubfs_meeting meeting = { 0 };
	struct stubfs_obj *found;
	fsal_status_t status = names_may_come(op->obj, &op->wait, op->name, &found);

	/* FSAL_VFS would follow the symlink, to where the old server was not asked, or out of
	 * the export */
	if (!FSAL_IS_ERROR(status) && found && found->handle.type == SYMBOLIC_LINK &&
	    op->mode < FSAL_GUARDED)
		status = fsalstat(ERR_FSAL_SYMLINK, 0);
	else if (status.major == ERR_FSAL_ACCESS && op->mode == FSAL_NO_CREATE)
		status = fsalstat(ERR_FSAL_NOENT, 0); /* a hidden name */
	if (!FSAL_IS_ERROR(status) && !found && op->mode != FSAL_NO_CREATE)
		status = stubfs_meet(&meeting, op->obj, op->name, NAME_COMES);
	if (!FSAL_IS_ERROR(status))
		status = open_found(op, found);
	stubfs_part(&meeting);
	stubfs_obj_destroy(found);
	return status;
}

static fsal_status_t obj_open2(struct fsal_obj_handle *obj, struct state_t *state,
			       fsal_openflags_t flags, enum fsal_create_mode mode, const char *name,
			       struct fsal_attrlist *attrs_in, fsal_verifier_t verifier,
			       struct fsal_obj_handle **out, struct fsal_attrlist *attrs_out,
			       bool *perm_check DIR_ATTRS(dir))
{
	struct opening op = {
		.obj = stubfs_obj(obj),
		.state = state,
		.flags = flags,
		.mode = mode,
		.name = name,
		.attrs_in = attrs_in,
		.verifier = verifier,
		.out = out,
		.attrs_out = attrs_out,
		.perm_check = perm_check,
	};
	bool heeds = name ? glue_heeds_changes() : glue_heeds(op.obj);
	fsal_status_t status;

	if (heeds && flags & FSAL_O_TRUNC) {
		op.flags &= ~FSAL_O_TRUNC;
		op.truncate = true;
	}
	if (name && FSAL_IS_ERROR(status = stubfs_refuses(op.obj)))
		return status;
	return name ? open_name(&op) : open_handle(&op);
}

/* A change of the access mode; it may truncate too. */
static fsal_status_t obj_reopen2(struct fsal_obj_handle *obj, struct state_t *state,
				 fsal_openflags_t flags)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	bool truncate = flags & FSAL_O_TRUNC && glue_heeds(stubfs_obj(obj));
	struct stub_wait wait = { 0 };
	fsal_openflags_t before;
	fsal_status_t status;

	if (!truncate)
		return below(sub->obj_ops->reopen2(sub, state, flags));
	before = below(sub->obj_ops->status2(sub, state));
	status = below(sub->obj_ops->reopen2(sub, state, flags & ~FSAL_O_TRUNC));
	if (FSAL_IS_ERROR(status))
		return status;
	status = stubfs_truncate(stubfs_obj(obj), &wait, state);
	if (FSAL_IS_ERROR(status))
		below(sub->obj_ops->reopen2(sub, state, before));
	return status;
}

static fsal_openflags_t obj_status2(struct fsal_obj_handle *obj, struct state_t *state)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->status2(sub, state));
}

/* The verifier is in the local times; only a file that was created here has one. */
static bool obj_check_verifier(struct fsal_obj_handle *obj, fsal_verifier_t verifier)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->check_verifier(sub, verifier));
}

static fsal_status_t obj_close(struct fsal_obj_handle *obj)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->close(sub));
}

static fsal_status_t obj_close2(struct fsal_obj_handle *obj, struct state_t *state)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->close2(sub, state));
}

void stubfs_open_ops(struct fsal_obj_ops *ops)
{
	ops->open2 = obj_open2;
	ops->reopen2 = obj_reopen2;
	ops->status2 = obj_status2;
	ops->check_verifier = obj_check_verifier;
	ops->close = obj_close;
	ops->close2 = obj_close2;
}
