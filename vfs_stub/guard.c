/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * guard.c - stubs that are not of this connection's volume, if it has one.
 *
 * A share may lie above a volume, another volume may be mounted inside of ours, a
 * snapshot or a copy may have stubs that nobody fills.  Shown as they are, these would be
 * zeros and empty directories (docs/design.md, invariant 1), and what is written there
 * would be lost to a later fill.  So
 *
 *   - a directory that lies in somebody else's volume is refused, with all names in it:
 *     it needs a share of its own;
 *   - elsewhere a directory with a record is refused too, since some of its names are
 *     missing; a file with one is shown, but not read, nor opened to be written.
 *
 * Where a connection has a volume, only objects on another file system, as smbd's own stat
 * tells, are looked at (a volume never spans two).  Where it has none, a directory is looked at
 * once a second, and a file when it is first read or opened to be written.
 */
#include "stub_glue.h"

#include <errno.h>

#define FRESH_MS 1000 /* so long a directory that was all right is not looked at again */

struct seen {
	dev_t dev;
	ino_t ino;
	int64_t until; /* ms */
};

struct stubvfs_guard {
	struct seen seen[256];
	char told[PATH_MAX]; /* the last that was refused */
};

static bool ours(const struct stubvfs *x, const SMB_STRUCT_STAT *st)
{
	return x->gate.volume && st->st_ex_dev == x->dev;
}

static struct seen *seen_of(struct stubvfs *x, const SMB_STRUCT_STAT *st)
{
	if (!x->guard)
		x->guard = talloc_zero(x, struct stubvfs_guard);
	return x->guard ? &x->guard->seen[st->st_ex_ino % ARRAY_SIZE(x->guard->seen)] : NULL;
}

static void tell(struct vfs_handle_struct *handle, struct stubvfs *x, const char *path,
		 const char *what)
{
	if (x->guard && !strcmp(x->guard->told, path))
		return;
	DBG_ERR("share at %s: access refused: %s %s\n", handle->conn->connectpath, path, what);
	if (x->guard)
		snprintf(x->guard->told, sizeof(x->guard->told), "%s", path);
}

/* As root.  0, or -errno: refuse it.  EACCES is the only error on the way to an object that
 * smbd does not take for "no such path". */
static int look(struct vfs_handle_struct *handle, struct stubvfs *x, int fd)
{
	char path[PATH_MAX];
	int r = stub_dir_foreign(x->gate.volume, fd, path, sizeof(path));

	if (r <= 0)
		return r;
	tell(handle, x, path, r == STUB_FOREIGN_VOLUME ?
				      "is a volume of postcopy, give it a share of its own" :
				      "is an unfinished directory whose volume is not here");
	return -EACCES;
}

static bool refuses(struct vfs_handle_struct *handle, int fd, const SMB_STRUCT_STAT *st)
{
	struct stubvfs *x = handle->data;
	struct seen *s = seen_of(x, st);
	int64_t now = (int64_t)stub_now_ms();
	bool root;
	int r;

	if (s && s->dev == st->st_ex_dev && s->ino == st->st_ex_ino && now < s->until)
		return false;
	root = glue_root_enter();
	r = look(handle, x, fd);
	glue_root_leave(root);
	if (r < 0)
		return glue_fail(r) < 0;
	if (s)
		*s = (struct seen){ st->st_ex_dev, st->st_ex_ino, now + FRESH_MS };
	return false;
}

bool stubvfs_refuses_names(struct vfs_handle_struct *handle, const struct files_struct *dirfsp)
{
	const struct stubvfs *x = handle->data;
	const struct smb_filename *name = dirfsp->fsp_name;
	int fd = fsp_get_pathref_fd(dirfsp);
	SMB_STRUCT_STAT st;

	/* snapshots that are reached by a time: their files are looked at when they are read */
	if (!x || !name || name->twrp || (x->gate.volume && !VALID_STAT(name->st)))
		return false;
	if (fd == AT_FDCWD && !strcmp(name->base_name, handle->conn->connectpath))
		return false; /* stubvfs_connect() has looked at it */
	st = name->st;
	/* without a stat and not the current directory: smbd only passes through it to another
	 * directory, for which we are called too */
	if (!VALID_STAT(st) && (fd != AT_FDCWD || sys_fstatat(fd, ".", &st, 0, false) < 0))
		return false;
	return S_ISDIR(st.st_ex_mode) && !ours(x, &st) && refuses(handle, fd, &st);
}

bool stubvfs_refuses_opened(struct vfs_handle_struct *handle, const struct files_struct *fsp,
			    int fd, int flags)
{
	const struct stubvfs *x = handle->data;
	SMB_STRUCT_STAT st = fsp->fsp_name->st;
	bool root, marked;

	if (!x || fsp->fsp_flags.is_pathref || fsp->fsp_name->twrp)
		return false;
	if (!VALID_STAT(st) && sys_fstat(fd, &st, false) < 0)
		return false;
	if (ours(x, &st))
		return false;
	if (S_ISDIR(st.st_ex_mode))
		return refuses(handle, fd, &st);
	if (!S_ISREG(st.st_ex_mode) || (flags & O_ACCMODE) == O_RDONLY)
		return false;
	root = glue_root_enter();
	marked = stub_marked(fd) != 0;
	glue_root_leave(root);
	return marked && glue_fail(-EIO) < 0;
}

/*
 * Nobody can say what a stub misses that nobody fills, so it must not be read; that holds
 * after the migration too.  A snapshot is reached by a time (twrp), or by a path to another
 * file system inside of the volume, as which btrfs shows it.
 */
bool stubvfs_is_strange_stub(struct vfs_handle_struct *handle, const struct files_struct *fsp)
{
	struct stubvfs *x = handle ? handle->data : NULL;
	struct files_struct *f = discard_const_p(struct files_struct, fsp);
	int fd = fsp_get_pathref_fd(fsp);
	struct glue_known *known;
	bool root, marked;

	if (fsp_is_alternate_stream(fsp))
		return false;
	if (fsp->fsp_name->twrp == 0 &&
	    (!x || (x->gate.volume && (!VALID_STAT(fsp->fsp_name->st) || ours(x, &fsp->fsp_name->st)))))
		return false;
	known = x && !x->gate.volume ? VFS_FETCH_FSP_EXTENSION(handle, f) : NULL;
	if (known && known->fd == fd && atomic_load(&known->known.normal))
		return false;
	root = glue_root_enter();
	marked = stub_marked(fd) != 0;
	glue_root_leave(root);
	if (marked || !x || x->gate.volume)
		return marked;
	if (!known)
		known = VFS_ADD_FSP_EXTENSION(handle, f, struct glue_known, NULL);
	if (known)
		*known = (struct glue_known){ .known.normal = true, .fd = fd };
	return false;
}
