/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stub_glue.h - how this module meets libstubcore (stubfront.h): which object is meant, how
 * long a call may wait, and what becomes of an error.
 *
 * glue_errno() is the one place where an error of libstubcore becomes one for smbd.  All these
 * functions become root themselves where they must, and leave smbd's user as it was.
 */
#ifndef VFS_STUB_GLUE_H
#define VFS_STUB_GLUE_H

#include "vfs_stub.h"

/* ---- identity ---- */

/* What one open file remembers of its inode, from one look at it to the next. */
struct glue_known {
	struct stub_known known; /* must be first, see glue_known() */
	int fd; /* for which this was found out: smbd may open another one with the same fsp */
	bool offline; /* the client was shown it as OFFLINE */
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

/* Has the volume a mirror?  Then each change is entered into its ledger before.  One memory read. */
bool glue_mirrored(const struct vfs_handle_struct *handle);

/* Either: what changes an object needs a bracket. */
bool glue_heeds_changes(const struct vfs_handle_struct *handle);

/* The era now.  What was read does not count if the era is another one afterwards. */
uint64_t glue_era(const struct vfs_handle_struct *handle);

/* The front of what is open here.  Never fails: if it cannot be looked at, `maybe` is set and
 * each look fails. */
void glue_of_fsp(struct vfs_handle_struct *handle, const struct files_struct *fsp,
		 struct stub_front *o);
void glue_of_fd(struct vfs_handle_struct *handle, int fd, struct stub_front *o);
/* What @path names, O_PATH, to be closed; or -errno of open(2): -ENOENT ... */
int glue_open_path(int dirfd, const char *path, bool follow);
/* The front of it.  -errno likewise. */
int glue_of_path(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		 struct stub_front *o);

/* ---- waiting ---- */

/* For a call that smbd repeats if it is answered EAGAIN: it need not wait long. */
void glue_wait_short(struct stub_wait *w);

/* How long a call may wait now, ms. */
unsigned int glue_wait_ms(const struct stubvfs *x);

/* @dir's listing was waited for on the event loop and did not come in time: calls that need it
 * within the next seconds do not wait long. */
void glue_overdue_note(const struct stub_front *dir);
/* Before waiting for @dir's listing: make @w short if that was noted. */
void glue_wait_for_entries(const struct stub_front *dir, struct stub_wait *w);

extern const struct stub_gate_ops glue_gate_ops;

/* ---- changing ---- */

/* Attributes, then the bracket, for a change of one open file, which owes @owes (STUB_OWED_...) to
 * a mirror then.  False: errno is set. */
bool glue_change_fsp(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     unsigned int owes, struct stub_bracket *b);

/* stub_bracket_end() after the operation, which returned @result (-1: failed, see errno):
 * what to return, errno set. */
ssize_t glue_end(struct stub_bracket *b, ssize_t result);
/* The same, where the library has already returned @r; @error: errno as the operation left it. */
ssize_t glue_result(ssize_t result, int error, int r);

/*
 * A change without a bracket, of a normal object, that goes on over turns of the event loop: it
 * stands in the ledger of what is owed to a mirror.  A struct of zeros is none.
 */
struct glue_flight {
	struct stubvfs *x; /* NULL: none.  It does not go away before the flight is over */
	struct stub_front o;
	struct stub_entered entered;
};

/* 0, or -errno: it must not be changed. */
int glue_flight_begin(const struct stub_front *o, unsigned int owes, struct glue_flight *f);
/* Nothing of the change can come any more.  Again: nothing.  @done: it is to be acknowledged, so the mirror is
 * waited for: as stub_front_await(). */
int glue_flight_end(struct glue_flight *f, bool done);

/* ---- edge.c ---- */

/* Become root, and back.  Nothing in between may return to smbd. */
bool glue_root_enter(void);
void glue_root_leave(bool entered);

/* @r, a -errno of libstubcore, as the positive errno that smbd may see. */
int glue_errno(int r);
/* errno = glue_errno(r); returns -1 */
int glue_fail(int r);

/* stub_log_fn */
void glue_log(void *arg, enum stub_log_level level, const char *msg);

/* ---- wait.c: asks and needs on the event loop ---- */

/* Ask; the request is done when there is an answer.  Only for kinds of asks without a name.
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

/* Has the client closed all its connections?  Then nobody wants an answer. */
bool glue_client_gone(const struct stubvfs *x);

#endif
