/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * compat.h - in what the versions of nfs-ganesha differ that this plugin is built for.
 *
 *	nfs-ganesha	FSAL API	Debian
 *	4		11		12
 *	6		13		13
 *
 * No other file asks for the version.  Each difference has a name here, and its reason
 * stands beside it.  What else newer servers can do: fsal-stub(8), LIMITS.  (The end of
 * fsal_stub.h includes this.)
 */
#ifndef FSAL_STUB_COMPAT_H
#define FSAL_STUB_COMPAT_H

#include "nfs_proto_data.h"

#if FSAL_MAJOR_VERSION != 11 && FSAL_MAJOR_VERSION != 13
#error "this FSAL API is neither that of nfs-ganesha 4 nor of 6: see compat.h"
#endif

/*
 * Operations on names, and open2, may tell the directory's attributes from just before and
 * just after.  We take and give none: those of FSAL_VFS would be the local ones, where a
 * directory that is being listed is shown with the old server's.  (FSAL_VFS 6.5 sets none.)
 * Ganesha then asks for them itself, by getattrs, and calls them not atomic, as before.
 *
 *	..., struct fsal_attrlist *attrs_out DIR_ATTRS(dir))	in the operation
 *	..., attrs_out NO_DIR_ATTRS)				of the FSAL below
 */
#if FSAL_MAJOR_VERSION >= 13
#define DIR_ATTRS(dir) , struct fsal_attrlist *dir##_before, struct fsal_attrlist *dir##_after
#define NO_DIR_ATTRS , NULL, NULL
#else
#define DIR_ATTRS(dir)
#define NO_DIR_ATTRS
#endif

/* An object comes into the module's list, or leaves it: news.c looks there. */
static inline void compat_handle_init(struct fsal_obj_handle *h, struct fsal_export *exp,
				      object_file_type_t type)
{
#if FSAL_MAJOR_VERSION >= 13
	fsal_obj_handle_init(h, exp, type, true);
#else
	fsal_obj_handle_init(h, exp, type);
#endif
}

static inline void compat_handle_fini(struct fsal_obj_handle *h)
{
#if FSAL_MAJOR_VERSION >= 13
	fsal_obj_handle_fini(h, true);
#else
	fsal_obj_handle_fini(h);
#endif
}

/* The lock of that list. */
static inline pthread_rwlock_t *compat_handles_lock(struct fsal_module *fsal)
{
#if FSAL_MAJOR_VERSION >= 13
	return &fsal->fsm_lock;
#else
	return &fsal->lock;
#endif
}

/* The request of which op_ctx is a part; NULL where nobody asked. */
static inline const nfs_request_t *compat_request(void)
{
#if FSAL_MAJOR_VERSION >= 13
	return op_ctx->nfs_reqdata;
#else
	return op_ctx->req_type == NFS_REQUEST ? container_of(op_ctx, nfs_request_t, op_context) :
						 NULL;
#endif
}

/* ---- operations that one version has and the other has not ---- */

#if FSAL_MAJOR_VERSION >= 13

/*
 * Ganesha closes and opens descriptors of files by itself.  A descriptor names the export of
 * the layer that made it, FSAL_VFS, and by that its object is found.  So nobody asks us for
 * these three; who does gets the answer of FSAL_VFS.
 */
static inline void compat_get_fsal_obj_hdl(struct fsal_export *exp, struct fsal_fd *fd,
					   struct fsal_obj_handle **out)
{
	struct fsal_export *sub = exp->sub_export;

	below(sub->exp_ops.get_fsal_obj_hdl(sub, fd, out));
}

static inline fsal_status_t compat_close_func(struct fsal_obj_handle *obj, struct fsal_fd *fd)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->close_func(sub, fd));
}

static inline fsal_status_t compat_reopen_func(struct fsal_obj_handle *obj, fsal_openflags_t flags,
					       struct fsal_fd *fd)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->reopen_func(sub, flags, fd));
}

#else

/* Later a state knows by itself how it is freed. */
static inline void compat_free_state(struct fsal_export *exp, struct state_t *state)
{
	struct fsal_export *sub = exp->sub_export;

	below(sub->exp_ops.free_state(sub, state));
}

/* SEEK without a state, which no protocol uses. */
static inline fsal_status_t compat_seek(struct fsal_obj_handle *obj, struct io_info *info)
{
	return fsalstat(ERR_FSAL_NOTSUPP, 0);
}

#endif

static inline void compat_export_ops(struct export_ops *ops)
{
#if FSAL_MAJOR_VERSION >= 13
	ops->get_fsal_obj_hdl = compat_get_fsal_obj_hdl;
#else
	ops->free_state = compat_free_state;
#endif
}

static inline void compat_obj_ops(struct fsal_obj_ops *ops)
{
#if FSAL_MAJOR_VERSION >= 13
	ops->close_func = compat_close_func;
	ops->reopen_func = compat_reopen_func;
#else
	ops->seek = compat_seek;
#endif
}

#endif
