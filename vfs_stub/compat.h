/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * compat.h - what differs between the Sambas that this module is built for:
 *
 *	VFS interface 47	Samba 4.17 (Debian 12)
 *	VFS interface 50	Samba 4.22 (Debian 13)
 *
 * All other files are written as if there were the newer one only: what the older one calls
 * otherwise is adapted here, for the table (compat_fn_) and for calls of NEXT (compat_next_).
 * That a function has come, or is gone, is noticed by tests/unit/test_vfs_ops.c.
 *
 * Another interface is an error here, and before that of packaging/deps/headers-samba.sh: what a
 * Samba in between does was never looked at.
 */
#ifndef VFS_STUB_COMPAT_H
#define VFS_STUB_COMPAT_H

#if SMB_VFS_INTERFACE_VERSION == 47

/* Functions that only this one has, as in forwarded.c: of a directory that fdopendir has listed. */
#define COMPAT_FORWARDED "seekdir", "telldir",

/* ---- rename: no @how, it always replaces ---- */

#define VFS_RENAME_HOW_NO_REPLACE 1

struct vfs_rename_how {
	int flags;
};

static inline int compat_next_renameat(struct vfs_handle_struct *handle,
				       struct files_struct *old_dirfsp,
				       const struct smb_filename *old_name,
				       struct files_struct *new_dirfsp,
				       const struct smb_filename *new_name,
				       const struct vfs_rename_how *how)
{
	return SMB_VFS_NEXT_RENAMEAT(handle, old_dirfsp, old_name, new_dirfsp, new_name);
}

static inline int compat_fn_renameat(struct vfs_handle_struct *handle,
				     struct files_struct *old_dirfsp,
				     const struct smb_filename *old_name,
				     struct files_struct *new_dirfsp,
				     const struct smb_filename *new_name)
{
	const struct vfs_rename_how how = { 0 };

	return stubvfs_renameat(handle, old_dirfsp, old_name, new_dirfsp, new_name, &how);
}

/* ---- readdir: attributes may come along; smbd asks for those that it needs ---- */

static inline struct dirent *compat_next_readdir(struct vfs_handle_struct *handle,
						 struct files_struct *dirfsp, DIR *dir)
{
	return SMB_VFS_NEXT_READDIR(handle, dirfsp, dir, NULL);
}

static inline struct dirent *compat_fn_readdir(struct vfs_handle_struct *handle,
					       struct files_struct *dirfsp, DIR *dir,
					       SMB_STRUCT_STAT *st)
{
	if (st)
		SET_STAT_INVALID(*st);
	return stubvfs_readdir(handle, dirfsp, dir);
}

/* ---- others ---- */

/* May a listing of @dirfsp show owners and modes, as the UNIX extensions have it?  In SMB1 each call
 * says so. */
#define compat_lists_modes(dirfsp)              \
	(!(dirfsp)->conn->sconn->using_smb2 ||  \
	 (dirfsp)->posix_flags & FSP_POSIX_FLAGS_OPEN)

/* A client is told that the attributes of @fsp are others. */
static inline void compat_notify_attributes(struct files_struct *fsp)
{
	notify_fname(fsp->conn, NOTIFY_ACTION_MODIFIED, FILE_NOTIFY_CHANGE_ATTRIBUTES,
		     fsp->fsp_name->base_name);
}

/* Has smbd made this name for itself, to rename it to the one that the client wants? */
static inline bool compat_is_tmpname(const char *name)
{
	return false;
}

/* Does each write to @fsp go to the end of the file, whatever the offset? */
static inline bool compat_appends(const struct files_struct *fsp)
{
	return false;
}

/* Does smbd itself defer the opening of directories?  Here it takes the mark of a deferred
 * request off only before it opens a file. */
#define COMPAT_DEFERS_DIRECTORIES false

/* Flags of those openat(2) that smbd makes on the way to the object that a client names. */
#define COMPAT_ON_THE_WAY O_DIRECTORY

#elif SMB_VFS_INTERFACE_VERSION == 50

#define COMPAT_FORWARDED

#define compat_next_renameat SMB_VFS_NEXT_RENAMEAT
#define compat_next_readdir  SMB_VFS_NEXT_READDIR
#define compat_fn_renameat   stubvfs_renameat
#define compat_fn_readdir    stubvfs_readdir

#define compat_lists_modes(dirfsp) \
	(!conn_using_smb2((dirfsp)->conn->sconn) || (dirfsp)->fsp_flags.posix_open)

/* Those who have a lease on the directory too: they have what they saw of it from memory. */
static inline void compat_notify_attributes(struct files_struct *fsp)
{
	notify_fname(fsp->conn, NOTIFY_ACTION_MODIFIED | NOTIFY_ACTION_DIRLEASE_BREAK,
		     FILE_NOTIFY_CHANGE_ATTRIBUTES, fsp->fsp_name, fsp_get_smb2_lease(fsp));
}

/*
 * Each directory is made under such a name (mkdir_internal() of smbd).  It carries the id of a
 * process of smbd and can come from no client: smbd refuses paths with it.
 */
static inline bool compat_is_tmpname(const char *name)
{
	return smbd_is_tmpname(name, NULL);
}

/* SMB 3.1.1 POSIX extensions; the offset is VFS_PWRITE_APPEND_OFFSET then. */
static inline bool compat_appends(const struct files_struct *fsp)
{
	return fsp->fsp_flags.posix_append;
}

/* While another client's lease on the directory is broken; it must not be taken for the first run
 * then.  The mark is taken off before any kind of open. */
#define COMPAT_DEFERS_DIRECTORIES true

#define COMPAT_ON_THE_WAY (O_DIRECTORY | O_PATH)

#else
#error "this VFS interface is unknown: vfs_stub is for those of Samba 4.17 and 4.22"
#endif

#endif
