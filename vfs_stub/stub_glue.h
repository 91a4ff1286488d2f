/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stub_glue.h - how this module meets libstubcore (stubfront.h): whose object it is, what a
 * call may wait, and what becomes of an error.
 *
 * glue_errno() is the one place that makes what smbd is told of one.  All become root for
 * themselves and leave smbd's user as it was.
 */
#ifndef VFS_STUB_GLUE_H
#define VFS_STUB_GLUE_H

#include "vfs_stub.h"

/* ---- identity ---- */

/* What one open file remembers of its inode, from one look at it to the next. */
struct glue_known {
	struct stub_known known; /* the first, see glue_known() */
	int fd; /* as found */
	bool offline; /* shown as OFFLINE to somebody */
	struct stub_handle h;
};

/* NULL: nobody remembers it. */
static inline struct glue_known *glue_known(const struct stub_front *f)
{
	return (struct glue_known *)f->known;
}

/* The connection of an object that may be a stub. */
static inline struct stubvfs *glue_connection(const struct stub_front *f)
{
	return stubvfs_of(f->gate);
}

/* Is there anything left to migrate in this connection?  One memory read. */
bool glue_migrating(const struct vfs_handle_struct *handle);

/* The era now; what is done to an object is void if it is another one afterwards. */
uint64_t glue_era(const struct vfs_handle_struct *handle);

/* What is open here; never fails: what cannot be a stub is not one. */
void glue_of_fsp(struct vfs_handle_struct *handle, const struct files_struct *fsp,
		 struct stub_front *o);
void glue_of_fd(struct vfs_handle_struct *handle, int fd, struct stub_front *o);
/* What is called @path.  -errno of open(2): -ENOENT ... */
int glue_of_path(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		 struct stub_front *o);

/* ---- waiting ---- */

/* The call comes again if it is answered EAGAIN: it need not wait long. */
void glue_wait_short(struct stub_wait *w);

/* How long a call may wait now, ms. */
unsigned int glue_wait_ms(const struct stubvfs *x);

/* @dir's listing was waited for without stopping the session, and did not come: what asks
 * for it next, within seconds, does not wait long. */
void glue_overdue_note(const struct stub_front *dir);
/* A wait for @dir's listing begins. */
void glue_wait_for_entries(const struct stub_front *dir, struct stub_wait *w);

extern const struct stub_gate_ops glue_gate_ops;

/* ---- changing ---- */

/* Attributes, then the bracket, for a change of one open file.  False: errno is set. */
bool glue_change_fsp(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     struct stub_bracket *b);

/* stub_bracket_end() after the operation, which returned @result (-1: failed, see errno):
 * what to return, errno set. */
ssize_t glue_end(struct stub_bracket *b, ssize_t result);
/* The same of what the library says of it, @r; @error: errno as the operation left it. */
ssize_t glue_result(ssize_t result, int error, int r);

/* ---- edge.c ---- */

/* As root, without a place to return to smbd in between. */
bool glue_root_enter(void);
void glue_root_leave(bool entered);

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

/* stub_need_wait() for @need, which is the caller's and stays; -ECANCELED: the client closes
 * @fsp, which must not go away before the request is done or freed. */
struct tevent_req *glue_need_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
				  struct vfs_handle_struct *handle, struct files_struct *fsp,
				  const struct stub_front *o, struct stub_need *need);
int glue_need_recv(struct tevent_req *req);

void glue_link_destroy(struct stubvfs *x);

/* Has the client closed all its connections?  Nobody wants an answer then. */
bool glue_client_gone(const struct stubvfs *x);

#endif
