/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * below.h - which layer works in a stack of FSALs.
 *
 * Each layer finds its own export in op_ctx->fsal_export.  So it must be the
 * export of the layer below while that one works, and of the layer above while
 * one of its callbacks runs.  This is the only place of the project that assigns
 * it; the previous one comes back when the scope ends.
 *
 *     status = below(sub->obj_ops->getattrs(sub, attrs));
 *     above(cb(name, obj, attrs, arg, cookie));	(inside a callback from below)
 *
 * The export is always taken from op_ctx, never from an object: MDCACHE shares
 * objects between exports.
 */
#ifndef FSAL_STUB_BELOW_H
#define FSAL_STUB_BELOW_H

#include "config.h"
#include "fsal.h"
#include "fsal_api.h"

static inline struct fsal_export *scope_enter(struct fsal_export *to)
{
	struct fsal_export *from = op_ctx->fsal_export;

	op_ctx->fsal_export = to;
	return from;
}

static inline void scope_leave(struct fsal_export **from)
{
	op_ctx->fsal_export = *from;
}

#define SCOPE(to) \
	__attribute__((cleanup(scope_leave))) struct fsal_export *scope_from_ = scope_enter(to)

#define below(call)                                     \
	({                                              \
		SCOPE(op_ctx->fsal_export->sub_export); \
		(call);                                 \
	})

#define above(call)                                       \
	({                                                \
		SCOPE(op_ctx->fsal_export->super_export); \
		(call);                                   \
	})

/* Make the new export @exp, above the one that was made just before, that of the request.
 * @exp NULL: none was made. */
static inline void scope_settle(struct fsal_export *exp, struct fsal_module *fsal)
{
	op_ctx->fsal_export = exp;
	op_ctx->fsal_module = fsal;
}

#endif
