/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stub_glue.h - the verbs with which this plugin asks libstubcore.
 *
 * All return 0 or -errno as libstubcore does; glue_status() is the one place that
 * makes a Ganesha status of it.  All are called in our own scope (below.h).
 * Where nothing is to be migrated, or an object is known to be normal, none of
 * them does a system call.
 */
#ifndef FSAL_STUB_GLUE_H
#define FSAL_STUB_GLUE_H

#include "fsal_stub.h"

/* Is there anything left to migrate in this export? */
bool glue_migrating(void);

/* May this object be a stub? */
bool glue_maybe_stub(const struct stubfs_obj *o);

/* The kernel's handle of an object of FSAL_VFS, from its key.
 *   -EINVAL  the key has none (a mount point of another file system) */
int glue_handle_of_key(const struct gsh_buffdesc *key, struct stub_handle *out);

/* The other way round, for objects of @fs: key->addr has room for key->len bytes.
 *   -EINVAL  FSAL_VFS has no such keys */
int glue_key_of_handle(const struct fsal_filesystem *fs, const struct stub_handle *h,
		       struct gsh_buffdesc *key);

/* ---- looking and waiting ---- */

/* What one request may still wait for the old server.  Zero it to start. */
struct glue_wait {
	bool begun;
	uint64_t until; /* ms, CLOCK_MONOTONIC */
};

/* How the object is shown now; view->needs is 0 for a normal one. */
int glue_look(struct stubfs_obj *o, struct stub_view *view);

/*
 * Wait until the object has what is needed:
 *   attrs    its attributes; *view is how it is shown then.  To show them only: one
 *            that cannot be had is shown as withheld, and that is no error
 *   entries  all its names
 *   leave    all its names, so that @name may be taken away; on a full volume it is enough
 *            that the old server has no such name
 *   gone     all its names, so that it may be removed if it is empty; -ENOTEMPTY: names
 *            that the new file system refuses are in it
 *   name     one name.  0: look for it again, -ENOENT: there is none; -EREMOTEIO too:
 *            it is one that the new file system refuses
 *   data     [offset, offset+length), so that it may be read
 * Errors: those of stub_ask() and stub_view(); -EBADMSG also of what the copy of a stub
 * (STUB_NEEDS_FOREIGN) misses.
 */
int glue_need_attrs(struct stubfs_obj *o, struct glue_wait *w, struct stub_view *view);
int glue_show_attrs(struct stubfs_obj *o, struct glue_wait *w, struct stub_view *view);
int glue_need_entries(struct stubfs_obj *dir, struct glue_wait *w);
int glue_need_leave(struct stubfs_obj *dir, struct glue_wait *w, const char *name);
int glue_need_gone(struct stubfs_obj *dir, struct glue_wait *w);
int glue_need_name(struct stubfs_obj *dir, struct glue_wait *w, const char *name);
int glue_need_data(struct stubfs_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length);

/* Bytes that the volume cannot store, as stub_pass(): *fd is the caller's. */
int glue_pass(struct stubfs_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length, int *fd);

/* First missing range in [offset, end): 1 and *out, or 0. */
int glue_missing(struct stubfs_obj *o, uint64_t offset, uint64_t end, struct stub_range *out);

/* ---- changing ---- */

/* What to bracket of an object a name of which goes: NULL for the copy of a stub, which
 * nobody fills and which has no record to be kept true. */
struct stubfs_obj *glue_going(struct stubfs_obj *o);

/* The bracket around one operation; objects that cannot be stubs cost nothing. */
struct glue_change {
	bool open;
	struct stub_change c;
};

int glue_change_begin(struct glue_change *g, struct stubfs_obj *const o[], unsigned int n);
/* Is there room in the record for a write to @o, the first object?  0 yes; 1 there is
 * now: the bracket was closed to wait for it, begin anew; -errno, the bracket is closed. */
int glue_change_room(struct glue_change *g, struct stubfs_obj *o, struct glue_wait *w,
		     uint64_t offset, uint64_t length);
/* A bracket for looking only, also where nothing can be stored; ended by drop. */
int glue_change_look(struct glue_change *g, struct stubfs_obj *o);
void glue_change_drop(struct glue_change *g);
/* The operation's status in, the answer's out. */
fsal_status_t glue_change_end(struct glue_change *g, fsal_status_t status);
/* After a write to @o, the first object, whose bracket is closed: if its record is filling
 * up, let room be made before a write has to wait for it. */
void glue_room_ahead(const struct glue_change *g, struct stubfs_obj *o);

/* Make an object's data durable: by the FSAL below, then in the record.  A sync
 * that fails begins a new era (libstubcore/era.c). */
fsal_status_t glue_commit(struct stubfs_obj *o, off_t offset, size_t length);

/* The era now; what is done to an object is void if it is another one afterwards. */
uint64_t glue_era(void);

/* An unstable write to a stub, begun in @era, is about to be acknowledged. */
void glue_unstable(struct stubfs_obj *o, uint64_t era);

/* The client's COMMIT: as glue_commit(), and an I/O error if one of its unstable writes
 * may be lost. */
fsal_status_t glue_commit_client(struct stubfs_obj *o, off_t offset, size_t length);

/* ---- errors ---- */

fsal_status_t glue_status(int r);
int glue_errno(fsal_status_t status);

/* stub_log_fn */
void glue_log(void *arg, enum stub_log_level level, const char *msg);

#endif
