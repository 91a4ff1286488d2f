/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * main.c - the module: registration with Ganesha.
 *
 * Loaded with RTLD_DEEPBIND for "Name = STUB", through the door (door.c).
 */
#include "config.h"
#include "fsal.h"
#include "FSAL/fsal_init.h"

#include "fsal_stub.h"

/* Only shown in logs: every export asks the FSAL below instead (export.c). */
struct stubfs_module STUBFS = {
	.module.fs_info = {
		.maxfilesize = INT64_MAX,
		.maxlink = _POSIX_LINK_MAX,
		.maxnamelen = STUB_NAME_MAX,
		.maxpathlen = MAXPATHLEN,
		.no_trunc = true,
		.chown_restricted = true,
		.case_preserving = true,
		.link_support = true,
		.symlink_support = true,
		.lock_support = true,
		.unique_handles = true,
		.cansettime = true,
		.homogenous = true,
		.supported_attrs = ATTRS_POSIX,
		.maxread = FSAL_MAXIOSIZE,
		.maxwrite = FSAL_MAXIOSIZE,
		.link_supports_permission_checks = true,
		.expire_time_parent = -1,
	},
};

static fsal_status_t module_config(struct fsal_module *fsal, config_file_t config,
				   struct config_error_type *err)
{
	display_fsinfo(fsal);
	return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

void stubfs_obj_ops_init(struct fsal_obj_ops *ops)
{
	stubfs_handle_ops(ops);
	stubfs_name_ops(ops);
	stubfs_open_ops(ops);
	stubfs_file_ops(ops);
	stubfs_attr_ops(ops);
	stubfs_xattr_ops(ops);
	compat_obj_ops(ops);
}

MODULE_INIT static void stubfs_load(void)
{
	struct fsal_module *fsal = &STUBFS.module;

	if (register_fsal(fsal, "STUB", FSAL_MAJOR_VERSION, FSAL_MINOR_VERSION, FSAL_ID_NO_PNFS)) {
		LogCrit(COMPONENT_FSAL,
			"STUB: Ganesha refuses the module, which was built for nfs-ganesha "
			POSTCOPY_GANESHA_VERSION ": install the package nfs-ganesha-stub that was "
			"built for this nfs-ganesha");
		return;
	}
	fsal->m_ops.create_export = stubfs_create_export;
	fsal->m_ops.update_export = stubfs_update_export;
	fsal->m_ops.init_config = module_config;
	stubfs_obj_ops_init(&STUBFS.obj_ops);
}

MODULE_FINI static void stubfs_unload(void)
{
	if (unregister_fsal(&STUBFS.module))
		LogCrit(COMPONENT_FSAL, "STUB: the module is still in use");
}
