/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stub_glue.h - the verbs with which this module asks libstubcore.
 *
 * All return 0 or -errno as libstubcore does; glue_errno() is the one place that makes
 * what smbd is told of it.  All become root for themselves and leave smbd's user as it
 * was.  Where nothing is to be migrated, or an object is known to be normal, none of
 * them does a system call.
 */
#ifndef VFS_STUB_GLUE_H
#define VFS_STUB_GLUE_H

#include "vfs_stub.h"

/* What one open file remembers of its inode, from one look at it to the next. */
struct glue_known {
	int fd; /* as found */
	bool normal; /* one way: no stub, never looked at again */
	bool offline; /* shown as OFFLINE to somebody */
	int64_t room_asked; /* when room in its record was asked for last, ms */
	struct stub_handle h;
};

/* An object, for the time of one call. */
struct glue_obj {
	struct stubvfs *x;
	bool maybe; /* a stub, for all we know */
	struct glue_known *known; /* NULL: nobody remembers it */
	uint64_t ino;
	mode_t mode;
	struct stub_handle h;
};

/* Is there anything left to migrate in this connection?  One memory read. */
bool glue_migrating(const struct vfs_handle_struct *handle);

/* As root, without a place to return to smbd in between. */
bool glue_root_enter(void);
void glue_root_leave(bool entered);

/* What is open here; never fails: what cannot be a stub is not one. */
void glue_of_fsp(struct vfs_handle_struct *handle, const struct files_struct *fsp,
		 struct glue_obj *o);
void glue_of_fd(struct vfs_handle_struct *handle, int fd, struct glue_obj *o);
/* What is called @path.  -errno of open(2): -ENOENT ... */
int glue_of_path(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		 struct glue_obj *o);

/* ---- looking and waiting ---- */

/* What one call may still wait for the old server.  Zero it to start. */
struct glue_wait {
	bool begun;
	uint64_t until; /* ms, CLOCK_MONOTONIC */
};

/* The call comes again if it is answered EAGAIN: it need not wait long. */
void glue_wait_short(struct glue_wait *w);
void glue_wait_none(struct glue_wait *w); /* what does not come at once does not come */

/* How long a call may wait now, ms. */
unsigned int glue_wait_ms(const struct stubvfs *x);

/* @dir's listing was waited for without stopping the session, and did not come: what asks
 * for it next, within seconds, does not wait long. */
void glue_overdue_note(const struct glue_obj *dir);
/* A wait for @dir's listing begins. */
void glue_wait_for_entries(const struct glue_obj *dir, struct glue_wait *w);

/* How the object is shown now; view->needs is 0 for a normal one. */
int glue_look(struct glue_obj *o, struct stub_view *view);

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
 *   data     [offset, offset+length), so that it may be read; -EACCES: not for this client
 * Errors: those of stub_ask() and stub_view(); -ECANCELED: the client has gone; -EBADMSG
 * also of what the copy of a stub (STUB_NEEDS_FOREIGN) misses.
 */
int glue_need_attrs(struct glue_obj *o, struct glue_wait *w, struct stub_view *view);
int glue_show_attrs(struct glue_obj *o, struct glue_wait *w, struct stub_view *view);
int glue_need_entries(struct glue_obj *dir, struct glue_wait *w);
int glue_need_leave(struct glue_obj *dir, struct glue_wait *w, const char *name);
int glue_need_gone(struct glue_obj *dir, struct glue_wait *w);
int glue_need_name(struct glue_obj *dir, struct glue_wait *w, const char *name);
int glue_need_data(struct glue_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length);

/* Bytes that the volume cannot store, as stub_pass(): *fd is the caller's. */
int glue_pass(struct glue_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length, int *fd);

/* First missing range in [offset, end): 1 and *out, or 0. */
int glue_missing(struct glue_obj *o, uint64_t offset, uint64_t end, struct stub_range *out);

/* ---- changing ---- */

/* What other processes are told of one object when the operation has succeeded. */
struct glue_news {
	struct stub_handle h; /* h.len == 0: nothing */
	unsigned int what;    /* STUB_NEWS_... */
};

/* The bracket around one operation; objects that cannot be stubs cost no lock. */
struct glue_change {
	struct stubvfs *x;
	bool open;
	struct glue_news news[STUB_CHANGE_OBJECTS];
	struct stub_change c;
};

/* A name of it goes: the copy of a stub, which nobody fills, has no record to be kept true
 * and is left out of the bracket. */
void glue_going(struct glue_obj *o);

/* Inside another bracket of this connection (a module below us called from the top of
 * the stack again) none is opened: the outer one sees what has changed. */
int glue_change_begin(struct glue_change *g, struct glue_obj *const o[], unsigned int n);
/* What is told of object @i instead of STUB_NEWS_ATTRS. */
void glue_change_tells(struct glue_change *g, unsigned int i, unsigned int what);
/* Is there room in the record for a write to @o, the first object?  0 yes; 1 there is
 * now: the bracket was closed to wait for it, begin anew; -errno, the bracket is closed. */
int glue_change_room(struct glue_change *g, struct glue_obj *o, struct glue_wait *w,
		     uint64_t offset, uint64_t length);
/* A bracket for looking only, also where nothing can be stored; ended by drop. */
int glue_change_look(struct glue_change *g, struct glue_obj *o);
void glue_change_drop(struct glue_change *g);
/* After the operation, which returned @result (-1: failed, see errno): what to return,
 * errno set. */
ssize_t glue_change_end(struct glue_change *g, ssize_t result);
/* After a write to @o, the first object, whose bracket is closed: if its record is filling
 * up, let room be made before a write has to wait for it. */
void glue_room_ahead(const struct glue_change *g, struct glue_obj *o);

/* Attributes, then the bracket, for a change of one open file.  False: errno is set. */
bool glue_change_fsp(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     struct glue_change *g);

/* A file has been written without a bracket: it was no stub. */
void glue_tell(const struct glue_obj *o);

/* The era now; what is done to an object is void if it is another one afterwards. */
uint64_t glue_era(const struct vfs_handle_struct *handle);

/* A write to a stub, begun in @era, is about to be acknowledged. */
void glue_unstable(struct vfs_handle_struct *handle, const struct stub_handle *h, uint64_t era);
/* A client wants to know that its writes are safe: before the sync.  *h and *era: for
 * glue_unstable() if that fails.  1: there were some, 0; -EIO: one of them may be lost. */
int glue_unstable_take(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       struct stub_handle *h, uint64_t *era);

int glue_commit_prepare(struct glue_obj *o, struct stub_commit *c);
int glue_commit_finish(struct stub_commit *c, int result);

/* ---- errors ---- */

/* -errno of a verb as smbd may see it, positive. */
int glue_errno(int r);
/* errno = glue_errno(r); returns -1 */
int glue_fail(int r);

/* stub_log_fn */
void glue_log(void *arg, enum stub_log_level level, const char *msg);

/* ---- wait.c: the same without stopping the session ---- */

/* Ask; the request is done when there is an answer.  Kinds that carry no name.
 * The result of recv is that of stub_ask(). */
struct tevent_req *glue_ask_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
				 struct vfs_handle_struct *handle, const struct stub_ask *ask);
int glue_ask_recv(struct tevent_req *req);

/* Wait until [offset, offset+length) may be read.  As glue_need_data(); -ECANCELED: the
 * client closes @fsp, which must not go away before the request is done or freed. */
struct tevent_req *glue_data_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
				  struct vfs_handle_struct *handle, struct files_struct *fsp,
				  const struct glue_obj *o, uint64_t offset, uint64_t length);
int glue_data_recv(struct tevent_req *req);

void glue_link_destroy(struct stubvfs *x);

/* Has the client closed all its connections?  Nobody wants an answer then. */
bool glue_client_gone(const struct stubvfs *x);

#endif
