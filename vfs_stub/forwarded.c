/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * forwarded.c - the functions of Samba's VFS that pass through on purpose, and why.
 *
 * A function that is neither in the table (main.c) nor here is a mistake:
 * tests/unit/test_vfs_ops.c compares both with the structure of the installed version,
 * so that a new one is noticed.
 */
#include "vfs_stub.h"

const char *const stubvfs_forwarded[] = {
	/* the file system's, not an object's; what is still missing uses no space yet */
	"disk_free",
	"get_quota",
	"set_quota",
	"statvfs",
	"get_shadow_copy_data",
	"snap_check_path",
	"snap_create",
	"snap_delete",
	/* names, not objects */
	"get_dfs_referrals",
	"connectpath",
	"translate_name",
	"parent_pathname",
	"getwd",
	/* made and read by symlinkat and readlinkat of the same stack */
	"create_dfs_pathat",
	"read_dfs_pathat",
	/* of a directory that fdopendir has listed */
	"rewind_dir",
	"closedir",
	/* from the attributes that fstat shows */
	"get_alloc_size",
	"file_id_create",
	"fs_file_id",
	"fstreaminfo",
	"freaddir_attr",
	/* inode numbers and locks are the local file's from the beginning: a stub has them
	 * as a normal file has, and they are never waited for */
	"lock",
	"getlock",
	"filesystem_sharemode",
	"fcntl",
	"linux_setlease",
	"brl_lock_windows",
	"brl_unlock_windows",
	"strict_lock_check",
	/* flags of the inode, which says nothing of its data; set_compression goes through
	 * the descriptor to the file system, which moves no byte */
	"fget_compression",
	"set_compression",
	/* FSCTLs that smbd does not do by the calls above; none reaches the record */
	"fsctl",
	/* composed of fchown, fchmod, sys_acl_set_fd and fsetxattr of the stack, each in a
	 * bracket of its own; attributes are there since the object was opened (fstat) */
	"fget_nt_acl",
	"fset_nt_acl",
	"audit_file",
	"sys_acl_get_fd",
	"sys_acl_blob_get_fd",
	/* compare what fstat shows, which is frozen while an object is a stub */
	"durable_cookie",
	"durable_disconnect",
	"durable_reconnect",
	COMPAT_FORWARDED NULL
};
