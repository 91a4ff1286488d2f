/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * visible.c - what clients never see (docs/design.md, invariant 8): .postcopy with all
 * that is in it, whatever the way to it, and the records.
 *
 * The name is hidden in the volume's root only: elsewhere it may be the user's.  smbd
 * opens a path from the share's root, name by name, or whole where it has no symlinks
 * in it, so it is the first name that has to be looked at; where symlinks lead is checked
 * in the result of realpath.
 */
#include "stub_glue.h"

#include <errno.h>
#include <sys/stat.h>

static bool is_root(const struct stubvfs *x, int dirfd)
{
	struct stat st;

	return fstatat(dirfd, "", &st, AT_EMPTY_PATH) == 0 && st.st_dev == x->dev &&
	       st.st_ino == stub_volume_root_ino(x->gate.volume);
}

/* The part of @path behind @prefix and a slash; NULL if it does not begin so. */
static const char *behind(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(path, prefix, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return NULL;
	path += n;
	while (*path == '/')
		path++;
	return path;
}

static bool begins(const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		for (path += 2; *path == '/'; path++)
			;
	return behind(path, STUB_DIR) != NULL;
}

bool stubvfs_hides_real(struct vfs_handle_struct *handle, const char *path)
{
	struct stubvfs *x = stubvfs(handle);
	const char *inside = x && x->root ? behind(path, x->root) : NULL;

	return inside && begins(inside) && stub_gate_hides(&x->gate);
}

bool stubvfs_hides(struct vfs_handle_struct *handle, int dirfd, const char *path)
{
	struct stubvfs *x = stubvfs(handle);

	if (!x || x->gate.finished)
		return false;
	if (path[0] == '/')
		return stubvfs_hides_real(handle, path);
	return begins(path) && is_root(x, dirfd) && stub_gate_hides(&x->gate);
}

bool stubvfs_hides_entry(struct vfs_handle_struct *handle, int dirfd, const char *name)
{
	struct stubvfs *x = stubvfs(handle);

	return x && !x->gate.finished && !strcmp(name, STUB_DIR) && is_root(x, dirfd) &&
	       stub_gate_hides(&x->gate);
}

/* .postcopy is a subdirectory of the root: its ".." counts there.  btrfs counts none:
 * there a directory has 1. */
bool stubvfs_hides_link(struct vfs_handle_struct *handle, const SMB_STRUCT_STAT *st)
{
	struct stubvfs *x = stubvfs(handle);

	return x && !x->gate.finished && S_ISDIR(st->st_ex_mode) && st->st_ex_nlink > 2 &&
	       st->st_ex_dev == x->dev && st->st_ex_ino == stub_volume_root_ino(x->gate.volume) &&
	       stub_gate_hides(&x->gate);
}

/* The record and what begins like it (STUB_XATTR_DONE). */
bool stubvfs_hides_xattr(const char *name)
{
	return !strncmp(name, STUB_XATTR, strlen(STUB_XATTR));
}
