/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * export.c - operations of an export: all those of the FSAL below, except
 *
 *   - objects are wrapped on their way up and unwrapped on their way down;
 *   - delegations and pNFS are refused: neither sees what Samba, the retriever or
 *     a local program does to the files.
 */
#include "config.h"
#include "fsal.h"
#include "FSAL/fsal_commonlib.h"

#include "stub_glue.h"

static const char *export_get_name(struct fsal_export *exp)
{
	return exp->fsal->name;
}

/* ---- end ---- */

/* Requests must not go on waiting for the old server now: the export would not end before. */
static void export_prepare_unexport(struct fsal_export *exp)
{
	struct fsal_export *sub = exp->sub_export;

	atomic_store(&stubfs_export_of(exp)->stopping, true);
	stubfs_news_stop(stubfs_export_of(exp));
	below(sub->exp_ops.prepare_unexport(sub));
}

static void export_unexport(struct fsal_export *exp, struct fsal_obj_handle *root)
{
	struct fsal_export *sub = exp->sub_export;

	below(sub->exp_ops.unexport(sub, root ? stubfs_below(root) : NULL));
}

static void export_unmount(struct fsal_export *exp, struct fsal_obj_handle *junction)
{
	struct fsal_export *sub = exp->sub_export;

	below(sub->exp_ops.unmount(sub, junction ? stubfs_below(junction) : NULL));
}

static void export_release(struct fsal_export *exp)
{
	struct stubfs_export *x = stubfs_export_of(exp);
	struct fsal_export *sub = exp->sub_export;
	struct fsal_module *fsal = sub->fsal;

	stubfs_news_stop(x); /* an export that never came up */
	if (op_ctx && op_ctx->fsal_export)
		below(sub->exp_ops.release(sub));
	else
		sub->exp_ops.release(sub);
	fsal_put(fsal);
	fsal_detach_export(exp->fsal, &exp->exports);
	free_export_ops(exp);
	stub_volume_close(x->gate.volume);
	gsh_free(x);
}

/* ---- objects ---- */

static fsal_status_t export_lookup_path(struct fsal_export *exp, const char *path,
					struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct fsal_export *sub = exp->sub_export;
	struct fsal_obj_handle *obj = NULL;
	struct stub_wait wait = { 0 };
	fsal_status_t status = below(sub->exp_ops.lookup_path(sub, path, &obj, attrs));

	*out = NULL;
	if (FSAL_IS_ERROR(status))
		return status;
	return stubfs_obj_adopt(obj, &wait, ERR_FSAL_NOENT, attrs, out);
}

/* A FSAL that knows no junctions may leave *out alone. */
static fsal_status_t export_lookup_junction(struct fsal_export *exp,
					    struct fsal_obj_handle *junction,
					    struct fsal_obj_handle **out)
{
	struct fsal_export *sub = exp->sub_export;
	struct fsal_obj_handle *obj = NULL;
	struct stub_wait wait = { 0 };
	fsal_status_t status =
		below(sub->exp_ops.lookup_junction(sub, stubfs_below(junction), &obj));

	if (FSAL_IS_ERROR(status) || !obj)
		return status;
	return stubfs_obj_adopt(obj, &wait, ERR_FSAL_NOENT, NULL, out);
}

static fsal_status_t export_create_handle(struct fsal_export *exp, struct gsh_buffdesc *desc,
					  struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct fsal_export *sub = exp->sub_export;
	struct fsal_obj_handle *obj = NULL;
	struct stub_wait wait = { 0 };
	fsal_status_t status = below(sub->exp_ops.create_handle(sub, desc, &obj, attrs));

	*out = NULL;
	if (FSAL_IS_ERROR(status))
		return status;
	return stubfs_obj_adopt(obj, &wait, ERR_FSAL_STALE, attrs, out);
}

static fsal_status_t export_wire_to_host(struct fsal_export *exp, fsal_digesttype_t type,
					 struct gsh_buffdesc *fh, int flags)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.wire_to_host(sub, type, fh, flags));
}

static fsal_status_t export_host_to_key(struct fsal_export *exp, struct gsh_buffdesc *fh)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.host_to_key(sub, fh));
}

/* ---- the file system ---- */

static fsal_status_t export_get_dynamic_info(struct fsal_export *exp, struct fsal_obj_handle *obj,
					     fsal_dynamicfsinfo_t *info)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.get_fs_dynamic_info(sub, obj ? stubfs_below(obj) : NULL, info));
}

static bool export_supports(struct fsal_export *exp, fsal_fsinfo_options_t option)
{
	struct fsal_export *sub = exp->sub_export;

	switch (option) {
	case fso_delegations_r:
	case fso_delegations_w:
	case fso_pnfs_mds_supported:
	case fso_pnfs_ds_supported:
		return false;
	default:
		return below(sub->exp_ops.fs_supports(sub, option));
	}
}

/* What the FSAL below says about its file system: one value, no argument. */
#define FORWARD_VALUE(type, op)                            \
	static type export_##op(struct fsal_export *exp)   \
	{                                                  \
		struct fsal_export *sub = exp->sub_export; \
                                                           \
		return below(sub->exp_ops.op(sub));        \
	}

FORWARD_VALUE(uint64_t, fs_maxfilesize)
FORWARD_VALUE(uint32_t, fs_maxread)
FORWARD_VALUE(uint32_t, fs_maxwrite)
FORWARD_VALUE(uint32_t, fs_maxlink)
FORWARD_VALUE(uint32_t, fs_maxnamelen)
FORWARD_VALUE(uint32_t, fs_maxpathlen)
FORWARD_VALUE(fsal_aclsupp_t, fs_acl_support)
FORWARD_VALUE(attrmask_t, fs_supported_attrs)
FORWARD_VALUE(uint32_t, fs_umask)
FORWARD_VALUE(int32_t, fs_expiretimeparent)

static bool export_is_superuser(struct fsal_export *exp, const struct user_cred *creds)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.is_superuser(sub, creds));
}

static void export_get_write_verifier(struct fsal_export *exp, struct gsh_buffdesc *verifier)
{
	struct fsal_export *sub = exp->sub_export;

	below(sub->exp_ops.get_write_verifier(sub, verifier));
}

/* ---- quota: of a user, not of an object; a mirror is not owed any ---- */

static fsal_status_t export_check_quota(struct fsal_export *exp, const char *path, int type)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.check_quota(sub, path, type));
}

static fsal_status_t export_get_quota(struct fsal_export *exp, const char *path, int type, int id,
				      fsal_quota_t *quota)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.get_quota(sub, path, type, id, quota));
}

static fsal_status_t export_set_quota(struct fsal_export *exp, const char *path, int type, int id,
				      fsal_quota_t *quota, fsal_quota_t *result)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.set_quota(sub, path, type, id, quota, result));
}

/* ---- states: of the size that the FSAL below needs ---- */

static struct state_t *export_alloc_state(struct fsal_export *exp, enum state_type type,
					  struct state_t *related)
{
	struct fsal_export *sub = exp->sub_export;

	return below(sub->exp_ops.alloc_state(sub, type, related));
}

/* ---- pNFS: refused ---- */

static nfsstat4 export_getdevicelist(struct fsal_export *exp, layouttype4 type, void *opaque,
				     bool (*cb)(void *opaque, const uint64_t id),
				     struct fsal_getdevicelist_res *res)
{
	return NFS4ERR_NOTSUPP;
}

static void export_layouttypes(struct fsal_export *exp, int32_t *count, const layouttype4 **types)
{
	*count = 0;
	*types = NULL;
}

static uint32_t export_layout_blocksize(struct fsal_export *exp)
{
	return 0;
}

static uint32_t export_maximum_segments(struct fsal_export *exp)
{
	return 0;
}

static size_t export_loc_body_size(struct fsal_export *exp)
{
	return 0;
}

void stubfs_export_ops_init(struct export_ops *ops)
{
	ops->get_name = export_get_name;
	ops->prepare_unexport = export_prepare_unexport;
	ops->unexport = export_unexport;
	ops->unmount = export_unmount;
	ops->release = export_release;
	ops->lookup_path = export_lookup_path;
	ops->lookup_junction = export_lookup_junction;
	ops->wire_to_host = export_wire_to_host;
	ops->host_to_key = export_host_to_key;
	ops->create_handle = export_create_handle;
	ops->get_fs_dynamic_info = export_get_dynamic_info;
	ops->fs_supports = export_supports;
	ops->fs_maxfilesize = export_fs_maxfilesize;
	ops->fs_maxread = export_fs_maxread;
	ops->fs_maxwrite = export_fs_maxwrite;
	ops->fs_maxlink = export_fs_maxlink;
	ops->fs_maxnamelen = export_fs_maxnamelen;
	ops->fs_maxpathlen = export_fs_maxpathlen;
	ops->fs_acl_support = export_fs_acl_support;
	ops->fs_supported_attrs = export_fs_supported_attrs;
	ops->fs_umask = export_fs_umask;
	ops->check_quota = export_check_quota;
	ops->get_quota = export_get_quota;
	ops->set_quota = export_set_quota;
	ops->getdevicelist = export_getdevicelist;
	ops->fs_layouttypes = export_layouttypes;
	ops->fs_layout_blocksize = export_layout_blocksize;
	ops->fs_maximum_segments = export_maximum_segments;
	ops->fs_loc_body_size = export_loc_body_size;
	ops->get_write_verifier = export_get_write_verifier;
	ops->alloc_state = export_alloc_state;
	ops->is_superuser = export_is_superuser;
	ops->fs_expiretimeparent = export_fs_expiretimeparent;
	compat_export_ops(ops);
}
