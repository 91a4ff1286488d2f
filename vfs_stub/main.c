/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * main.c - the module: its table and its registration.
 */
#include "includes.h"
#include "smbd/smbd.h"

static uint32_t stub_fs_capabilities(struct vfs_handle_struct *handle,
				     enum timestamp_set_resolution *resolution)
{
	return SMB_VFS_NEXT_FS_CAPABILITIES(handle, resolution) | FILE_SUPPORTS_REMOTE_STORAGE;
}

static struct vfs_fn_pointers stub_fns = {
	.fs_capabilities_fn = stub_fs_capabilities,
};

_PUBLIC_ NTSTATUS samba_init_module(TALLOC_CTX *ctx);
_PUBLIC_ NTSTATUS samba_init_module(TALLOC_CTX *ctx)
{
	return smb_register_vfs(SMB_VFS_INTERFACE_VERSION, "stub", &stub_fns);
}
