/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * visible.c - what clients never see (docs/design.md, invariant 8): .postcopy with all that is in
 * it, whatever the way to it, and the records.
 *
 * The name is hidden in the volume's root only: elsewhere it may be the user's.
 * Names with a slash are refused everywhere: Ganesha hands an NFSv3 client's name to
 * the kernel as it is, and "./.postcopy" or ".postcopy/x" would lead in.
 * Inodes are hidden by number, so that a handle kept from before, or one that was
 * guessed, leads nowhere.
 */
#include "config.h"
#include "fsal.h"
#include "FSAL/fsal_localfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fsal_stub.h"

bool stubfs_hides_name(const struct stubfs_obj *dir, const char *name)
{
	struct stubfs_export *x = stubfs_export();

	return x->gate.volume && dir->handle.fs == x->fs &&
	       stub_volume_hides_name(x->gate.volume, dir->handle.fileid, name) && stub_gate_hides(&x->gate);
}

fsal_status_t stubfs_name_check(struct stubfs_obj *dir, const char *name,
				fsal_errors_t hidden)
{
	if (strchr(name, '/'))
		return fsalstat(ERR_FSAL_INVAL, EINVAL);
	if (stubfs_hides_name(dir, name))
		return fsalstat(hidden, 0);
	/* Ganesha looks for what is above an export's root, and shows nothing of it */
	return strcmp(name, "..") ? stubfs_refuses(dir) : fsalstat(ERR_FSAL_NO_ERROR, 0);
}

bool stubfs_hides_below(const struct fsal_obj_handle *below)
{
	struct stubfs_export *x = stubfs_export();

	return x->gate.volume && below->fs == x->fs &&
	       stub_volume_hides(x->gate.volume, below->fileid) && stub_gate_hides(&x->gate);
}

/* .postcopy is a subdirectory of the root: its ".." counts there. */
bool stubfs_hides_link(const struct stubfs_obj *o)
{
	struct stubfs_export *x = stubfs_export();

	return x->gate.volume && o->handle.type == DIRECTORY &&
	       o->handle.fs == x->fs &&
	       o->handle.fileid == stub_volume_root_ino(x->gate.volume) && stub_gate_hides(&x->gate);
}

/* The record and what begins like it (STUB_XATTR_DONE); NFS names have no "trusted."
 * of their own, so this only meets a FSAL below that shows it. */
bool stubfs_hides_xattr(const char *name, size_t len)
{
	const size_t n = strlen(STUB_XATTR);

	return len >= n && !memcmp(name, STUB_XATTR, n);
}
