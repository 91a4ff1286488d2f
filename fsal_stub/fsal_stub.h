/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * fsal_stub.h - a stackable FSAL that shows a volume while it is being filled.
 *
 * It stands between MDCACHE and FSAL_VFS.  Every operation first asks libstubcore
 * (stubfront.h) whether what it needs is there, then calls the FSAL below.  What a stub is,
 * only libstubcore knows.
 *
 * Rooms:
 *   main.c     module, registration          config.c   an export comes into being
 *   export.c   operations of an export       handle.c   objects, lookup, readdir
 *   names.c    create, link, rename, unlink  open.c     open, the truncate doors
 *   meet.c     two requests at one name
 *   file.c     read, write, seek, locks      attrs.c    attributes
 *   xattrs.c   extended attributes           visible.c  what clients never see
 *   guard.c    stubs of other volumes, or of none
 *   news.c     what other processes do reaches MDCACHE
 *   key.c      Ganesha's keys and the kernel's handles
 *   mount.c    what the MOUNT protocol asks for
 *   stub_glue.c  objects, waiting, errors    below.h    enters the FSAL below
 *   compat.h   versions of nfs-ganesha
 *
 * Lock order: MDCACHE's locks, the bracket of libstubcore, locks of the FSAL below.  A
 * bracket is never open while the old server is waited for or a layer above is called.
 */
#ifndef FSAL_STUB_H
#define FSAL_STUB_H

#include <stdatomic.h>

#include "below.h"
#include "FSAL/fsal_commonlib.h"

#include "stubfront.h"

struct stubfs_options {
	uint32_t delay_v3; /* milliseconds a request may wait */
	uint32_t delay_v4;
	uint32_t delay_mount; /* a request of the MOUNT protocol, all of it */
	uint32_t give_up; /* seconds, 0 never */
	uint32_t max_waiting; /* requests */
	bool never_delay;
};

struct stubfs_listener;

struct stubfs_export {
	struct fsal_export export;
	struct stub_gate gate; /* with the volume, if there is anything to migrate */
	/* the volume's.  Not sub_export->root_fs, which may change: FSAL_VFS, asked for ".." of
	 * the root of a mount, claims the file system above and takes that for the root's. */
	struct fsal_filesystem *fs;
	struct stubfs_options options;
	atomic_uint waiting; /* requests that wait for the old server now */
	atomic_uint mounting; /* those of the MOUNT protocol among them */
	atomic_bool stopping;
	atomic_int_least64_t told; /* guard.c: when a refusal was logged last, ms */
	struct stubfs_listener *listener; /* news.c; NULL: nothing to listen to */
};

struct stubfs_obj {
	struct fsal_obj_handle handle;
	struct fsal_obj_handle *below;
	struct stub_known known;
	atomic_int_least64_t fine; /* guard.c: when it was found all right, ms; 0: never */
	atomic_int_least64_t going; /* attrs.c: until when STALE of it is answered as DELAY, ms */
};

struct stubfs_module {
	struct fsal_module module;
	struct fsal_obj_ops obj_ops;
};

extern struct stubfs_module STUBFS;

static inline struct stubfs_obj *stubfs_obj(const struct fsal_obj_handle *h)
{
	return container_of(h, struct stubfs_obj, handle);
}

static inline struct fsal_obj_handle *stubfs_below(const struct fsal_obj_handle *h)
{
	return stubfs_obj(h)->below;
}

static inline struct stubfs_export *stubfs_export_of(struct fsal_export *e)
{
	return container_of(e, struct stubfs_export, export);
}

/* The export of the request that this thread works on; only while our own layer works (below.h). */
static inline struct stubfs_export *stubfs_export(void)
{
	return stubfs_export_of(op_ctx->fsal_export);
}

/* The tables of operations, one part for each room.  An unset entry is a mistake:
 * tests/unit/test_fsal_ops.c compares them with Ganesha's structures. */
void stubfs_obj_ops_init(struct fsal_obj_ops *ops);
void stubfs_export_ops_init(struct export_ops *ops);
void stubfs_handle_ops(struct fsal_obj_ops *ops);
void stubfs_name_ops(struct fsal_obj_ops *ops);
void stubfs_open_ops(struct fsal_obj_ops *ops);
void stubfs_file_ops(struct fsal_obj_ops *ops);
void stubfs_attr_ops(struct fsal_obj_ops *ops);
void stubfs_xattr_ops(struct fsal_obj_ops *ops);

/* config.c */
fsal_status_t stubfs_create_export(struct fsal_module *fsal, void *node,
				   struct config_error_type *err, const struct fsal_up_vector *up);
fsal_status_t stubfs_update_export(struct fsal_module *fsal, void *node,
				   struct config_error_type *err, struct fsal_export *original,
				   struct fsal_module *super);

/* news.c: the thread that makes up-calls.  stop() returns when it has ended; it also
 * ends the waiting of requests, and may be called again. */
void stubfs_news_start(struct stubfs_export *x);
void stubfs_news_stop(struct stubfs_export *x);
/* In a request: @o has lost a name, and MDCACHE may not know. */
void stubfs_news_replaced(struct stubfs_obj *o);

/* handle.c: an object around @below, which it owns from now on */
struct stubfs_obj *stubfs_obj_create(struct fsal_obj_handle *below);
void stubfs_obj_destroy(struct stubfs_obj *o);

/*
 * handle.c: what the FSAL below has just given, made ready for the layer above:
 * hidden or not, wrapped, attributes corrected.  @below is consumed either way.
 * @hidden is answered for what clients must not see.
 */
fsal_status_t stubfs_obj_adopt(struct fsal_obj_handle *below, struct stub_wait *w,
			       fsal_errors_t hidden, struct fsal_attrlist *attrs,
			       struct fsal_obj_handle **out);

/* attrs.c: replace in @attrs what clients see otherwise than the FSAL below has it */
void stubfs_attrs_show(const struct stub_view *view, struct fsal_attrlist *attrs);

/*
 * attrs.c: @attrs came from below together with the object, before anybody could
 * look whether it is a stub.  Completes and corrects them.  If that fails and the
 * caller can do without attributes (ATTR_RDATTR_ERR), they say so instead.
 */
fsal_status_t stubfs_attrs_settle(struct stubfs_obj *o, struct stub_wait *w,
				  struct fsal_attrlist *attrs);

/*
 * attrs.c: around the removal of @o's name: until the layer above knows of it, STALE of @o
 * is answered as "try again later".  @before: what begin returned; @gone: it was removed.
 */
int64_t stubfs_going_begin(struct stubfs_obj *o);
void stubfs_going_end(struct stubfs_obj *o, int64_t before, bool gone);

/* attrs.c: the one function that truncates for open: size 0, under the bracket */
fsal_status_t stubfs_truncate(struct stubfs_obj *o, struct stub_wait *w, struct state_t *state);

/* guard.c: an error for a directory whose names must not be reached, and for a file that
 * must not be read or written */
fsal_status_t stubfs_refuses(struct stubfs_obj *o);

/* visible.c */
bool stubfs_hides_name(const struct stubfs_obj *dir, const char *name);
/* At the beginning of each operation on a name: @hidden if clients must not see it, and an
 * error if it is no single name, or if @dir is refused (guard.c). */
fsal_status_t stubfs_name_check(struct stubfs_obj *dir, const char *name,
				fsal_errors_t hidden);
bool stubfs_hides_below(const struct fsal_obj_handle *below);
bool stubfs_hides_link(const struct stubfs_obj *o); /* is .postcopy in its link count? */
bool stubfs_hides_xattr(const char *name, size_t len);

#include "compat.h"

#endif
