/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * names.c - names come and go, by the rules of libstubcore/need.c.
 *
 * Directories and objects that are stubs are in the bracket, since the times and link
 * counts that clients see are their records'.  Waiting comes before the bracket.
 */
#include "stub_glue.h"

#include <errno.h>

#define NAMES (STUB_OWED_NAMES | STUB_OWED_ATTRS) /* of a directory: its times too */
#define TRIES 4 /* each after another client has changed what the name stands for */

/* The directory that @path is in, and its name there. */
struct place {
	int fd; /* AT_FDCWD, smbd's, or our own */
	bool own;
	const char *name;
	struct stub_front dir;
};

static int place_open(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		      const char *path, struct place *p)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];
	bool root;

	*p = (struct place){ .fd = fsp_get_pathref_fd(dirfsp), .name = path };
	if (!slash) {
		glue_of_fsp(handle, dirfsp, &p->dir);
		p->dir.owes = NAMES;
		p->dir.name = p->name;
		return 0;
	}
	if ((size_t)(slash - path) >= sizeof(parent))
		return -EINVAL;
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	if (stubvfs_bring(handle, p->fd, parent, true, ENOENT) < 0)
		return -EAGAIN;
	root = glue_root_enter();
	p->fd = openat(p->fd, parent[0] ? parent : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	glue_root_leave(root);
	if (p->fd < 0)
		return -errno;
	p->own = true;
	p->name = slash + 1;
	glue_of_fd(handle, p->fd, &p->dir);
	p->dir.owes = NAMES;
	p->dir.name = p->name;
	return 0;
}

static void place_close(struct place *p)
{
	int saved = errno;

	if (p->own)
		close(p->fd);
	p->own = false;
	errno = saved;
}

/* The object at @p; o->ino is 0 if there is none. */
static int place_find(struct vfs_handle_struct *handle, const struct place *p, struct stub_front *o)
{
	int r = glue_of_path(handle, p->fd, p->name, false, o);

	return r == -ENOENT ? 0 : r;
}

/* Before the name @p is made: what has that name already is in *found. */
static int may_come(struct vfs_handle_struct *handle, struct place *p, struct stub_wait *w,
		    struct stub_front *found)
{
	struct stub_view view;
	int r = stub_need_attrs(&p->dir, w, &view);

	if (r == 0)
		r = place_find(handle, p, found);
	if (r < 0 || found->ino || compat_is_tmpname(p->name))
		return r;
	if (!(view.needs & (STUB_NEEDS_ENTRIES | STUB_NEEDS_REFUSED | STUB_NEEDS_FOREIGN)))
		return 0;
	r = stub_need_name(&p->dir, w, p->name);
	if (r == 0)
		return place_find(handle, p, found);
	return r == -ENOENT ? 0 : r;
}

/* Before the name @p is taken from its directory: for good, or to get another one.  One that
 * smbd has made for itself cannot come back: no old server has it. */
static int may_go(struct place *p, struct stub_wait *w, bool for_good)
{
	struct stub_view view;
	int r = stub_need_attrs(&p->dir, w, &view);

	if (r < 0 || compat_is_tmpname(p->name))
		return r;
	return for_good ? stub_need_leave(&p->dir, w, p->name) : stub_need_entries(&p->dir, w);
}

/* ---- create ---- */

int stubvfs_make_begin(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		       const struct smb_filename *name, struct stub_wait *w,
		       struct stub_bracket *change)
{
	struct stub_front found, *in[1];
	struct place p;
	int r;

	ZERO_STRUCTP(change);
	if (stubvfs_hides(handle, fsp_get_pathref_fd(dirfsp), name->base_name))
		return -EACCES;
	if (!glue_heeds_changes(handle))
		return 0;
	r = place_open(handle, dirfsp, name->base_name, &p);
	if (r < 0)
		return r;
	in[0] = &p.dir;
	r = may_come(handle, &p, w, &found);
	if (r == 0)
		r = stub_bracket_begin(in, 1, change);
	stub_bracket_tells(change, 0, STUB_NEWS_NAMES);
	place_close(&p);
	return r;
}

int stubvfs_mkdirat(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
		    const struct smb_filename *name, mode_t mode)
{
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	int r = stubvfs_make_begin(handle, dirfsp, name, &wait, &change);

	if (r < 0)
		return glue_fail(r);
	r = SMB_VFS_NEXT_MKDIRAT(handle, dirfsp, name, mode);
	stub_change_links(&change.c, 0, 1); /* its ".." */
	return (int)glue_end(&change, r);
}

int stubvfs_mknodat(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
		    const struct smb_filename *name, mode_t mode, SMB_DEV_T dev)
{
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	int r = stubvfs_make_begin(handle, dirfsp, name, &wait, &change);

	if (r < 0)
		return glue_fail(r);
	r = SMB_VFS_NEXT_MKNODAT(handle, dirfsp, name, mode, dev);
	return (int)glue_end(&change, r);
}

int stubvfs_symlinkat(struct vfs_handle_struct *handle, const struct smb_filename *target,
		      struct files_struct *dirfsp, const struct smb_filename *name)
{
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	int r = stubvfs_make_begin(handle, dirfsp, name, &wait, &change);

	if (r < 0)
		return glue_fail(r);
	r = SMB_VFS_NEXT_SYMLINKAT(handle, target, dirfsp, name);
	return (int)glue_end(&change, r);
}

/* ---- link ---- */

static int link_begin(struct vfs_handle_struct *handle, struct place *from, struct place *to,
		      struct stub_bracket *change)
{
	struct stub_front old, found, *in[2] = { &old, &to->dir };
	struct stub_wait wait = { 0 };
	struct stub_view view;
	int r = may_come(handle, to, &wait, &found);

	if (r == 0)
		r = place_find(handle, from, &old);
	if (r == 0)
		r = stub_need_attrs(&old, &wait, &view);
	return r == 0 ? stub_bracket_begin(in, 2, change) : r;
}

int stubvfs_linkat(struct vfs_handle_struct *handle, struct files_struct *old_dirfsp,
		   const struct smb_filename *old_name, struct files_struct *new_dirfsp,
		   const struct smb_filename *new_name, int flags)
{
	struct stub_bracket change = { .open = false };
	struct place from, to;
	int r;

	if (stubvfs_hides(handle, fsp_get_pathref_fd(old_dirfsp), old_name->base_name))
		return glue_fail(-ENOENT);
	if (stubvfs_hides(handle, fsp_get_pathref_fd(new_dirfsp), new_name->base_name))
		return glue_fail(-EACCES);
	if (!glue_heeds_changes(handle))
		return SMB_VFS_NEXT_LINKAT(handle, old_dirfsp, old_name, new_dirfsp, new_name,
					   flags);
	if (stubvfs_bring(handle, fsp_get_pathref_fd(old_dirfsp), old_name->base_name, false,
			  ENOENT) < 0)
		return glue_fail(-EAGAIN);
	r = place_open(handle, old_dirfsp, old_name->base_name, &from);
	if (r < 0)
		return glue_fail(r);
	r = place_open(handle, new_dirfsp, new_name->base_name, &to);
	if (r == 0) {
		r = link_begin(handle, &from, &to, &change);
		place_close(&to);
	}
	place_close(&from);
	if (r < 0)
		return glue_fail(r);
	r = stub_change_linking(&change.c, 0);
	r = r < 0 ? glue_fail(r) :
		    SMB_VFS_NEXT_LINKAT(handle, old_dirfsp, old_name, new_dirfsp, new_name, flags);
	stub_bracket_tells(&change, 1, STUB_NEWS_NAMES);
	return (int)glue_end(&change, r);
}

/* ---- remove and rename ---- */

/*
 * In the bracket: is the name still that of object @i?  Another client may have put
 * something else in its place while we waited.  A count that moves for the wrong inode
 * would let hard links pass for complete before all of them have come.  For a stub this
 * stays true to the end of the bracket, since who takes a name from it has it in a
 * bracket too.
 */
static bool still_named(struct vfs_handle_struct *handle, const struct place *p,
			const struct stub_front *o)
{
	struct stub_front now;

	return place_find(handle, p, &now) == 0 && now.ino == o->ino;
}

/* 0: the bracket is open; 1: try again; -errno */
static int unlink_begin(struct vfs_handle_struct *handle, struct place *p, int flags,
			struct stub_wait *w, struct stub_bracket *change)
{
	struct stub_front o, *in[2] = { &p->dir, &o };
	int r = may_go(p, w, true);

	if (r == 0)
		r = place_find(handle, p, &o);
	if (r == 0 && flags & AT_REMOVEDIR)
		r = stub_need_gone(&o, w);
	if (r == 0)
		stub_front_going(&o);
	if (r == 0)
		r = stub_bracket_begin(in, 2, change);
	if (r < 0 || still_named(handle, p, &o))
		return r;
	stub_bracket_drop(change);
	return 1;
}

int stubvfs_unlinkat(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
		     const struct smb_filename *name, int flags)
{
	struct stub_bracket change = { .open = false };
	struct stub_wait wait = { 0 };
	struct place p;
	int r;

	if (stubvfs_hides(handle, fsp_get_pathref_fd(dirfsp), name->base_name))
		return glue_fail(-ENOENT);
	if (!glue_heeds_changes(handle) || is_named_stream(name))
		return SMB_VFS_NEXT_UNLINKAT(handle, dirfsp, name, flags);
	r = place_open(handle, dirfsp, name->base_name, &p);
	if (r < 0)
		return glue_fail(r);
	r = 1;
	for (int i = 0; r == 1 && i < TRIES; i++)
		r = unlink_begin(handle, &p, flags, &wait, &change);
	place_close(&p);
	if (r != 0)
		return glue_fail(r < 0 ? r : -EAGAIN);
	r = SMB_VFS_NEXT_UNLINKAT(handle, dirfsp, name, flags);
	stub_change_links(&change.c, flags & AT_REMOVEDIR ? 0 : 1, -1);
	stub_bracket_tells(&change, 0, STUB_NEWS_NAMES);
	stub_bracket_tells(&change, 1, STUB_NEWS_ATTRS | STUB_NEWS_UNLINKED);
	return (int)glue_end(&change, r);
}

enum { MOVED, REPLACED, OLD_DIR, NEW_DIR, RENAME_OBJECTS };

struct renaming {
	struct vfs_handle_struct *handle;
	struct stub_wait wait;
	struct place from, to;
	struct stub_front moved, replaced;
	struct stub_bracket change;
};

static int rename_ready(struct renaming *m)
{
	int r = may_go(&m->from, &m->wait, false);

	if (r == 0)
		r = may_come(m->handle, &m->to, &m->wait, &m->replaced);
	if (r == 0 && stub_front_strands(&m->to.dir, &m->replaced))
		r = stub_need_entries(&m->to.dir, &m->wait);
	if (r == 0 && S_ISDIR(m->replaced.mode))
		r = stub_need_gone(&m->replaced, &m->wait);
	if (r == 0)
		r = place_find(m->handle, &m->from, &m->moved);
	return r;
}

/* 0: the bracket is open; 1: try again; -errno */
static int rename_begin(struct renaming *m)
{
	struct stub_front *in[RENAME_OBJECTS] = { &m->moved, &m->replaced, &m->from.dir,
						&m->to.dir };
	int r = rename_ready(m);

	if (r == 0)
		stub_front_going(&m->replaced);
	if (r == 0)
		r = stub_bracket_begin(in, RENAME_OBJECTS, &m->change);
	if (r < 0 || (still_named(m->handle, &m->from, &m->moved) &&
		      still_named(m->handle, &m->to, &m->replaced) &&
		      !stub_front_strands(&m->to.dir, &m->replaced)))
		return r;
	stub_bracket_drop(&m->change);
	return 1;
}

/* What a rename does to the link counts that are shown, and to the news of it. */
static void rename_links(struct renaming *m)
{
	bool dir = S_ISDIR(m->moved.mode);

	stub_bracket_tells(&m->change, OLD_DIR, STUB_NEWS_NAMES);
	stub_bracket_tells(&m->change, NEW_DIR, STUB_NEWS_NAMES);
	if (dir)
		stub_bracket_tells(&m->change, MOVED, STUB_NEWS_ATTRS | STUB_NEWS_MOVED);
	if (m->replaced.ino && m->replaced.ino == m->moved.ino)
		return; /* two names of one inode: nothing happens */
	if (m->replaced.ino) {
		stub_change_links(&m->change.c, dir ? NEW_DIR : REPLACED, -1);
		stub_bracket_tells(&m->change, REPLACED, STUB_NEWS_ATTRS | STUB_NEWS_UNLINKED);
	}
	if (dir) {
		stub_change_links(&m->change.c, OLD_DIR, -1);
		stub_change_links(&m->change.c, NEW_DIR, 1);
	}
}

static int rename_open(struct renaming *m, struct files_struct *old_dirfsp, const char *old_name,
		       struct files_struct *new_dirfsp, const char *new_name)
{
	int r = place_open(m->handle, old_dirfsp, old_name, &m->from);

	if (r < 0)
		return r;
	r = place_open(m->handle, new_dirfsp, new_name, &m->to);
	if (r == 0) {
		r = 1;
		for (int i = 0; r == 1 && i < TRIES; i++)
			r = rename_begin(m);
		place_close(&m->to);
	}
	place_close(&m->from);
	return r == 1 ? -EAGAIN : r;
}

int stubvfs_renameat(struct vfs_handle_struct *handle, struct files_struct *old_dirfsp,
		     const struct smb_filename *old_name, struct files_struct *new_dirfsp,
		     const struct smb_filename *new_name, const struct vfs_rename_how *how)
{
	struct renaming m = { .handle = handle };
	int r;

	if (stubvfs_hides(handle, fsp_get_pathref_fd(old_dirfsp), old_name->base_name))
		return glue_fail(-ENOENT);
	if (stubvfs_hides(handle, fsp_get_pathref_fd(new_dirfsp), new_name->base_name))
		return glue_fail(-EACCES);
	if (!glue_heeds_changes(handle) || is_named_stream(old_name) || is_named_stream(new_name))
		return compat_next_renameat(handle, old_dirfsp, old_name, new_dirfsp, new_name,
					    how);
	r = rename_open(&m, old_dirfsp, old_name->base_name, new_dirfsp, new_name->base_name);
	if (r < 0)
		return glue_fail(r);
	r = compat_next_renameat(handle, old_dirfsp, old_name, new_dirfsp, new_name, how);
	if (r == 0)
		rename_links(&m);
	return (int)glue_end(&m.change, r);
}
