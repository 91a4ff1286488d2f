/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * names.c - names come and go, as libstubcore/need.c says.
 *
 * The bracket has the directories in it, and the objects, if they are stubs: times and
 * link counts that clients see are those of records.  It is opened when nothing is to be
 * waited for any more.
 *
 * To a mirror (docs/decisions/0080) a directory owes its names and times, and each object whose
 * link count moves its attributes.  What is new is found by comparing its directory, see also
 * glue_made().
 */
#include "config.h"
#include "fsal.h"

#include <errno.h>
#include <string.h>

#include "meet.h"
#include "names.h"

static const fsal_status_t ok = { ERR_FSAL_NO_ERROR, 0 };

const unsigned int names_dir_owes[1] = { GLUE_NAMES };

fsal_status_t names_find(struct stubfs_obj *dir, const char *name, struct stubfs_obj **out)
{
	struct fsal_obj_handle *sub = NULL;
	fsal_status_t status;

	*out = NULL;
	status = below(dir->below->obj_ops->lookup(dir->below, name, &sub, NULL));
	if (!FSAL_IS_ERROR(status))
		*out = stubfs_obj_create(sub);
	return status;
}

fsal_status_t names_may_come(struct stubfs_obj *dir, struct stub_wait *w, const char *name,
			     struct stubfs_obj **found)
{
	struct stub_view view;
	fsal_status_t status;
	int r;

	*found = NULL;
	status = stubfs_name_check(dir, name, ERR_FSAL_ACCESS);
	if (FSAL_IS_ERROR(status))
		return status;
	if (!glue_heeds_changes())
		return ok;
	r = stub_need_attrs(FRONT(dir), w, &view);
	if (r < 0)
		return glue_status(r);
	status = names_find(dir, name, found);
	if (status.major != ERR_FSAL_NOENT)
		return ok; /* what is wrong with it, the operation will tell */
	r = stub_need_name(FRONT(dir), w, name);
	if (r == 0)
		names_find(dir, name, found);
	else if (r != -ENOENT)
		return glue_status(r);
	return ok;
}

/* Before @name is taken from @dir: for good, or because the object gets another name. */
static fsal_status_t may_go(struct stubfs_obj *dir, struct stub_wait *w, const char *name,
			    bool for_good)
{
	fsal_status_t status = stubfs_name_check(dir, name, ERR_FSAL_NOENT);
	struct stub_view view;
	int r;

	if (FSAL_IS_ERROR(status))
		return status;
	r = stub_need_attrs(FRONT(dir), w, &view);
	if (r == 0)
		r = for_good ? stub_need_leave(FRONT(dir), w, name) : stub_need_entries(FRONT(dir), w);
	return glue_status(r);
}

/* ---- create ---- */

/* Between begin and end: the new object, or NULL if the FSAL below refused. */
struct making {
	struct stubfs_obj *dir;
	struct stub_wait wait;
	struct stubfs_meeting meeting;
	struct stub_bracket change;
};

static fsal_status_t make_begin(struct making *m, struct fsal_obj_handle *dir, const char *name)
{
	struct stubfs_obj *found;
	fsal_status_t status;

	*m = (struct making){ .dir = stubfs_obj(dir) };
	status = names_may_come(m->dir, &m->wait, name, &found);
	stubfs_obj_destroy(found);
	if (!FSAL_IS_ERROR(status))
		status = stubfs_meet(&m->meeting, m->dir, name, NAME_COMES);
	if (FSAL_IS_ERROR(status))
		return status;
	status = glue_status(glue_begin(&m->change, &m->dir, names_dir_owes, &name, 1, GLUE_STAY));
	if (FSAL_IS_ERROR(status))
		stubfs_part(&m->meeting);
	return status;
}

static fsal_status_t make_end(struct making *m, fsal_status_t status, struct fsal_obj_handle *sub,
			      struct fsal_attrlist *attrs, struct fsal_obj_handle **out)
{
	bool made = !FSAL_IS_ERROR(status);
	int r = made ? glue_made(sub) : 0;

	status = glue_both(glue_end(&m->change, status), r);
	if (made && FSAL_IS_ERROR(status))
		below(sub->obj_ops->release(sub));
	if (!FSAL_IS_ERROR(status))
		status = stubfs_obj_adopt(sub, &m->wait, ERR_FSAL_ACCESS, attrs, out);
	stubfs_part(&m->meeting);
	return status;
}

static fsal_status_t obj_mkdir(struct fsal_obj_handle *dir, const char *name,
			       struct fsal_attrlist *attrs_in, struct fsal_obj_handle **out,
			       struct fsal_attrlist *attrs_out DIR_ATTRS(dir))
{
	struct fsal_obj_handle *parent = stubfs_below(dir), *sub = NULL;
	struct making m;
	fsal_status_t status = make_begin(&m, dir, name);

	*out = NULL;
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(
		parent->obj_ops->mkdir(parent, name, attrs_in, &sub, attrs_out NO_DIR_ATTRS));
	stub_change_links(&m.change.c, 0, 1); /* its ".." */
	return make_end(&m, status, sub, attrs_out, out);
}

static fsal_status_t obj_mknode(struct fsal_obj_handle *dir, const char *name,
				object_file_type_t type, struct fsal_attrlist *attrs_in,
				struct fsal_obj_handle **out,
				struct fsal_attrlist *attrs_out DIR_ATTRS(dir))
{
	struct fsal_obj_handle *parent = stubfs_below(dir), *sub = NULL;
	struct making m;
	fsal_status_t status = make_begin(&m, dir, name);

	*out = NULL;
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(parent->obj_ops->mknode(parent, name, type, attrs_in, &sub,
					       attrs_out NO_DIR_ATTRS));
	return make_end(&m, status, sub, attrs_out, out);
}

static fsal_status_t obj_symlink(struct fsal_obj_handle *dir, const char *name, const char *target,
				 struct fsal_attrlist *attrs_in, struct fsal_obj_handle **out,
				 struct fsal_attrlist *attrs_out DIR_ATTRS(dir))
{
	struct fsal_obj_handle *parent = stubfs_below(dir), *sub = NULL;
	struct making m;
	fsal_status_t status = make_begin(&m, dir, name);

	*out = NULL;
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(parent->obj_ops->symlink(parent, name, target, attrs_in, &sub,
						attrs_out NO_DIR_ATTRS));
	return make_end(&m, status, sub, attrs_out, out);
}

static fsal_status_t obj_link(struct fsal_obj_handle *obj, struct fsal_obj_handle *dir,
			      const char *name DIR_ATTRS(dir))
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	static const unsigned int owes[2] = { STUB_OWED_ATTRS, GLUE_NAMES };
	struct stubfs_obj *in[2] = { stubfs_obj(obj), stubfs_obj(dir) }, *found;
	const char *const names[2] = { NULL, name };
	struct stubfs_meeting meeting;
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	struct stub_view view;
	fsal_status_t status = names_may_come(in[1], &wait, name, &found);

	stubfs_obj_destroy(found);
	if (!FSAL_IS_ERROR(status))
		status = glue_status(stub_need_attrs(FRONT(in[0]), &wait, &view));
	if (!FSAL_IS_ERROR(status))
		status = stubfs_meet(&meeting, in[1], name, NAME_COMES);
	if (FSAL_IS_ERROR(status))
		return status;
	status = glue_status(glue_begin(&change, in, owes, names, 2, GLUE_STAY));
	if (!FSAL_IS_ERROR(status)) {
		status = glue_status(stub_change_linking(&change.c, 0));
		if (!FSAL_IS_ERROR(status))
			status = below(sub->obj_ops->link(sub, stubfs_below(dir), name NO_DIR_ATTRS));
		status = glue_end(&change, status);
	}
	stubfs_part(&meeting);
	return status;
}

/* ---- remove and rename ---- */

/*
 * In the bracket: is @name still one of object @i?  Another client may have put something
 * else in its place while we waited, of another type perhaps.  Then DELAY: the client's
 * next try finds what is there now.  A link count that moves for the wrong inode would let
 * hard links pass for complete before all of them have come.  For a stub this stays true to
 * the end of the bracket, since who takes a name from it has it in a bracket too.
 *
 * A name that is gone is NOENT.  DELAY would be answered for ever: MDCACHE goes on finding the
 * name until the FSAL below has said STALE of its object.
 */
static fsal_status_t still_named(const struct stub_bracket *change, unsigned int i,
				 const struct stub_wait *w, struct stubfs_obj *obj,
				 struct stubfs_obj *dir, const char *name)
{
	struct stubfs_obj *now;
	fsal_status_t status;

	if (!obj || (!w->begun && !stub_change_needs(&change->c, i)))
		return ok;
	status = names_find(dir, name, &now);
	if (!FSAL_IS_ERROR(status) && now->handle.fileid != obj->handle.fileid)
		status = glue_status(-EAGAIN);
	stubfs_obj_destroy(now);
	return status;
}

/* @in: the directory, and what @name stands for in it. */
static fsal_status_t unlink_below(struct stubfs_obj *const in[2], struct stub_wait *w,
				  const char *name)
{
	static const unsigned int owes[2] = { GLUE_NAMES, STUB_OWED_ATTRS };
	const char *const names[2] = { name, NULL };
	struct fsal_obj_handle *sub = in[0]->below;
	bool dir = in[1]->handle.type == DIRECTORY;
	struct stub_bracket change;
	fsal_status_t status = glue_status(glue_begin(&change, in, owes, names, 2, 1));
	int64_t before;

	if (FSAL_IS_ERROR(status))
		return status;
	before = stubfs_going_begin(in[1]);
	status = still_named(&change, 1, w, in[1], in[0], name);
	if (!FSAL_IS_ERROR(status) || status.major == ERR_FSAL_NOENT)
		status = below(sub->obj_ops->unlink(sub, in[1]->below, name NO_DIR_ATTRS));
	stub_change_links(&change.c, dir ? 0 : 1, -1);
	status = glue_end(&change, status);
	stubfs_going_end(in[1], before, !FSAL_IS_ERROR(status));
	return status;
}

static fsal_status_t obj_unlink(struct fsal_obj_handle *dir, struct fsal_obj_handle *obj,
				const char *name DIR_ATTRS(dir))
{
	struct stubfs_obj *in[2] = { stubfs_obj(dir), stubfs_obj(obj) };
	struct stub_wait wait = { 0 };
	struct stubfs_meeting meeting;
	fsal_status_t status = may_go(in[0], &wait, name, true);

	if (!FSAL_IS_ERROR(status) && obj->type == DIRECTORY)
		status = glue_status(stub_need_gone(FRONT(in[1]), &wait));
	if (!FSAL_IS_ERROR(status))
		status = stubfs_meet(&meeting, in[0], name, NAME_GOES);
	if (FSAL_IS_ERROR(status))
		return status;
	status = unlink_below(in, &wait, name);
	stubfs_part(&meeting);
	return status;
}

enum { MOVED, REPLACED, OLD_DIR, NEW_DIR, RENAME_OBJECTS };

/* What a rename does to the link counts that are shown. */
static void rename_links(struct stub_bracket *change, struct stubfs_obj *const in[])
{
	bool dir = in[MOVED]->handle.type == DIRECTORY;

	if (in[REPLACED] && in[REPLACED]->handle.fileid == in[MOVED]->handle.fileid)
		return; /* two names of one inode: nothing happens */
	if (in[REPLACED])
		stub_change_links(&change->c, dir ? NEW_DIR : REPLACED, -1);
	if (dir) {
		stub_change_links(&change->c, OLD_DIR, -1);
		stub_change_links(&change->c, NEW_DIR, 1);
	}
}

/* See stub_front_strands(). */
static bool rename_strands(struct stubfs_obj *const in[])
{
	return in[REPLACED] && stub_front_strands(FRONT(in[NEW_DIR]), FRONT(in[REPLACED]));
}

static fsal_status_t rename_ready(struct stubfs_obj *in[], struct stub_wait *w,
				  const char *old_name, const char *new_name)
{
	fsal_status_t status = may_go(in[OLD_DIR], w, old_name, false);

	if (!FSAL_IS_ERROR(status))
		status = names_may_come(in[NEW_DIR], w, new_name, &in[REPLACED]);
	if (!FSAL_IS_ERROR(status) && rename_strands(in))
		status = glue_status(stub_need_entries(FRONT(in[NEW_DIR]), w));
	if (!FSAL_IS_ERROR(status) && in[REPLACED] && in[REPLACED]->handle.type == DIRECTORY)
		status = glue_status(stub_need_gone(FRONT(in[REPLACED]), w));
	return status;
}

/*
 * In the bracket: does @name still stand for what was found, or for nothing?  An object that
 * has come there since would lose a name which its record goes on counting.
 */
static fsal_status_t still_replaces(const struct stub_bracket *change, const struct stub_wait *w,
				    struct stubfs_obj *const in[], const char *name)
{
	struct stubfs_obj *now;
	fsal_status_t status;

	if (in[REPLACED]) {
		status = still_named(change, REPLACED, w, in[REPLACED], in[NEW_DIR], name);
		if (status.major == ERR_FSAL_NOENT || /* the next try replaces nothing */
		    (!FSAL_IS_ERROR(status) && rename_strands(in)))
			status = glue_status(-EAGAIN);
		return status;
	}
	if (!w->begun && !change->open)
		return ok;
	status = names_find(in[NEW_DIR], name, &now);
	if (FSAL_IS_ERROR(status))
		return ok; /* what is wrong with it, the operation will tell */
	stubfs_obj_destroy(now);
	return glue_status(-EAGAIN);
}

static fsal_status_t rename_below(struct stubfs_obj *const in[], struct stub_wait *w,
				  const char *old_name, const char *new_name)
{
	static const unsigned int owes[RENAME_OBJECTS] = {
		[MOVED] = STUB_OWED_ATTRS, [REPLACED] = STUB_OWED_ATTRS,
		[OLD_DIR] = GLUE_NAMES,	   [NEW_DIR] = GLUE_NAMES,
	};
	const char *const names[RENAME_OBJECTS] = { [OLD_DIR] = old_name, [NEW_DIR] = new_name };
	struct fsal_obj_handle *sub = in[OLD_DIR]->below;
	struct stub_bracket change;
	fsal_status_t status =
		glue_status(glue_begin(&change, in, owes, names, RENAME_OBJECTS, REPLACED));

	if (FSAL_IS_ERROR(status))
		return status;
	status = still_named(&change, MOVED, w, in[MOVED], in[OLD_DIR], old_name);
	if (!FSAL_IS_ERROR(status))
		status = still_replaces(&change, w, in, new_name);
	if (!FSAL_IS_ERROR(status))
		status = below(sub->obj_ops->rename(in[MOVED]->below, sub, old_name,
						    in[NEW_DIR]->below,
						    new_name NO_DIR_ATTRS NO_DIR_ATTRS));
	rename_links(&change, in);
	return glue_end(&change, status);
}

static fsal_status_t obj_rename(struct fsal_obj_handle *obj, struct fsal_obj_handle *old_dir,
				const char *old_name, struct fsal_obj_handle *new_dir,
				const char *new_name DIR_ATTRS(old_dir) DIR_ATTRS(new_dir))
{
	struct stubfs_obj *in[RENAME_OBJECTS] = { stubfs_obj(obj), NULL, stubfs_obj(old_dir),
						  stubfs_obj(new_dir) };
	struct stubfs_meeting from = { 0 }, to = { 0 };
	struct stub_wait wait = { 0 };
	/* Before all that may take time: MDCACHE holds both directories' content locks already, so who makes a name
	 * there meanwhile would enter it behind us. */
	fsal_status_t status = stubfs_meet(&from, in[OLD_DIR], old_name, NAME_MOVES);

	if (!FSAL_IS_ERROR(status))
		status = stubfs_meet(&to, in[NEW_DIR], new_name, NAME_MOVES);
	if (!FSAL_IS_ERROR(status))
		status = rename_ready(in, &wait, old_name, new_name);
	if (!FSAL_IS_ERROR(status))
		status = rename_below(in, &wait, old_name, new_name);
	/* MDCACHE's own look-up of it may have been told to come again, which it takes for "none there" */
	if (!FSAL_IS_ERROR(status) && in[REPLACED])
		stubfs_news_replaced(in[REPLACED]);
	stubfs_part(&to);
	stubfs_part(&from);
	stubfs_obj_destroy(in[REPLACED]);
	return status;
}

void stubfs_name_ops(struct fsal_obj_ops *ops)
{
	ops->mkdir = obj_mkdir;
	ops->mknode = obj_mknode;
	ops->symlink = obj_symlink;
	ops->link = obj_link;
	ops->rename = obj_rename;
	ops->unlink = obj_unlink;
}
