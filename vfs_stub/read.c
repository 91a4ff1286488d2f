/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * read.c - reading.
 *
 * NEXT reads nothing before its range is there (docs/design.md, invariant 1): a hole
 * of a stub says nothing.  When a sync fails, what was present may be gone from the page
 * cache and count as missing: so the era is compared after the read, and if it is another
 * one, all is done again.  Where the volume takes no data, reads are passed on.
 *
 * smbd reads by pread_send, which waits on the event loop: other requests of the client
 * are served meanwhile.  The other calls stop the session, for so long as they may.
 */
#include "stub_glue.h"

#include "lib/util/tevent_unix.h"

#include <errno.h>

#define ERA_TRIES 8

/* What a read needed is here.  If that was the last missing byte, and the client was shown the
 * file as OFFLINE, notify it. */
static void tell_online(struct vfs_handle_struct *handle, struct files_struct *fsp,
			const struct stub_need *need)
{
	struct stub_front o;

	if (need->view.needs & STUB_NEEDS_DATA)
		return;
	glue_of_fsp(handle, fsp, &o);
	if (!o.known || !glue_known(&o)->offline)
		return;
	glue_known(&o)->offline = false;
	compat_notify_attributes(fsp);
}

/* ---- a stub whose volume takes no data ---- */

struct passed {
	struct vfs_handle_struct *handle;
	struct files_struct *fsp;
	struct iovec iov;
	uint64_t offset;
};

static ssize_t passed_read(void *arg)
{
	struct passed *p = arg;
	ssize_t n = SMB_VFS_NEXT_PREAD(p->handle, p->fsp, p->iov.iov_base, p->iov.iov_len,
				       (off_t)p->offset);

	return n < 0 ? -errno : n;
}

/* A client would take a short answer for the end of the file: go on behind it. */
static ssize_t read_passed(struct vfs_handle_struct *handle, struct files_struct *fsp,
			   struct stub_front *o, struct stub_wait *w, void *data, size_t n,
			   off_t offset)
{
	struct passed local = { handle, fsp, { data, n }, (uint64_t)offset };

	while (local.iov.iov_len > 0) {
		const struct stub_passing p = { .iov = &local.iov, .n_iov = 1,
						.offset = local.offset,
						.read = passed_read, .arg = &local };
		ssize_t one = stub_front_pass(o, w, &p);

		if (one < 0)
			return glue_fail((int)one);
		if (one == 0)
			break;
		local.iov.iov_base = (uint8_t *)local.iov.iov_base + one;
		local.iov.iov_len -= (size_t)one;
		local.offset += (uint64_t)one;
	}
	return (ssize_t)(n - local.iov.iov_len);
}

/* ---- stopping the session ---- */

ssize_t stubvfs_pread(struct vfs_handle_struct *handle, struct files_struct *fsp, void *data,
		      size_t n, off_t offset)
{
	struct stub_wait wait = { 0 };
	struct stub_front o;

	if (stubvfs_is_strange_stub(handle, fsp))
		return glue_fail(-EIO);
	glue_of_fsp(handle, fsp, &o);
	if (!o.maybe || n == 0 || offset < 0)
		return SMB_VFS_NEXT_PREAD(handle, fsp, data, n, offset);
	for (int i = 0; i < ERA_TRIES; i++) {
		struct stub_need need = { .what = STUB_NEED_DATA, .offset = (uint64_t)offset,
					  .length = n };
		int r = stub_need_wait(&o, &need, &wait);
		ssize_t got;

		if (stub_takes_no_data(r))
			return read_passed(handle, fsp, &o, &wait, data, n, offset);
		if (r < 0)
			return glue_fail(r);
		got = SMB_VFS_NEXT_PREAD(handle, fsp, data, n, offset);
		if (stub_need_stands(&o, &need)) {
			if (got > 0)
				tell_online(handle, fsp, &need);
			return got;
		}
	}
	return glue_fail(-EAGAIN);
}

/* ---- on the event loop ---- */

struct read_state {
	struct vfs_handle_struct *handle;
	struct tevent_context *ev;
	struct files_struct *fsp;
	void *data;
	size_t n;
	off_t offset;
	struct stub_front o;
	struct stub_need need;
	int tries;
	ssize_t got;
	struct vfs_aio_state aio;
};

static void read_wait(struct tevent_req *req);

static void read_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct read_state *s = tevent_req_data(req, struct read_state);

	s->got = SMB_VFS_PREAD_RECV(sub, &s->aio);
	TALLOC_FREE(sub);
	if (s->got >= 0 && !stub_need_stands(&s->o, &s->need)) {
		read_wait(req);
		return;
	}
	if (s->got < 0) {
		tevent_req_error(req, s->aio.error);
		return;
	}
	if (s->o.maybe && s->got > 0)
		tell_online(s->handle, s->fsp, &s->need);
	tevent_req_done(req);
}

static void read_next(struct tevent_req *req)
{
	struct read_state *s = tevent_req_data(req, struct read_state);
	struct tevent_req *sub = SMB_VFS_NEXT_PREAD_SEND(s, s->ev, s->handle, s->fsp, s->data,
							 s->n, s->offset);

	if (!tevent_req_nomem(sub, req))
		tevent_req_set_callback(sub, read_done, req);
}

static void read_instead(struct tevent_req *req)
{
	struct read_state *s = tevent_req_data(req, struct read_state);
	struct stub_wait wait = { 0 };

	s->o.known = NULL;
	s->got = read_passed(s->handle, s->fsp, &s->o, &wait, s->data, s->n, s->offset);
	if (s->got < 0)
		tevent_req_error(req, errno);
	else
		tevent_req_done(req);
}

static void read_ready(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	int r = glue_need_recv(sub);

	TALLOC_FREE(sub);
	if (stub_takes_no_data(r))
		read_instead(req);
	else if (r < 0)
		tevent_req_error(req, glue_errno(r));
	else
		read_next(req);
}

static void read_wait(struct tevent_req *req)
{
	struct read_state *s = tevent_req_data(req, struct read_state);
	struct tevent_req *sub;

	if (s->tries++ >= ERA_TRIES) {
		tevent_req_error(req, EAGAIN);
		return;
	}
	s->need = (struct stub_need){ .what = STUB_NEED_DATA, .offset = (uint64_t)s->offset,
				      .length = s->n };
	sub = glue_need_send(s, s->ev, s->handle, s->fsp, &s->o, &s->need);
	if (!tevent_req_nomem(sub, req))
		tevent_req_set_callback(sub, read_ready, req);
}

struct tevent_req *stubvfs_pread_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      struct tevent_context *ev, struct files_struct *fsp,
				      void *data, size_t n, off_t offset)
{
	struct tevent_req *req;
	struct read_state *s;

	req = tevent_req_create(mem_ctx, &s, struct read_state);
	if (!req)
		return NULL;
	*s = (struct read_state){ .handle = handle, .ev = ev, .fsp = fsp, .data = data, .n = n,
				  .offset = offset };
	if (stubvfs_is_strange_stub(handle, fsp)) {
		tevent_req_error(req, EIO);
		return tevent_req_post(req, ev);
	}
	glue_of_fsp(handle, fsp, &s->o);
	if (n == 0 || offset < 0)
		s->o.maybe = false;
	if (s->o.maybe)
		read_wait(req);
	else
		read_next(req);
	return tevent_req_is_in_progress(req) ? req : tevent_req_post(req, ev);
}

ssize_t stubvfs_pread_recv(struct tevent_req *req, struct vfs_aio_state *aio)
{
	struct read_state *s = tevent_req_data(req, struct read_state);
	ssize_t n;

	if (tevent_req_is_unix_error(req, &aio->error)) {
		tevent_req_received(req);
		return -1;
	}
	*aio = s->aio;
	n = s->got;
	tevent_req_received(req);
	return n;
}

/* ---- ways around ---- */

/* Of a stub, refused: smbd reads instead. */
ssize_t stubvfs_sendfile(struct vfs_handle_struct *handle, int to, struct files_struct *fsp,
			 const DATA_BLOB *header, off_t offset, size_t n)
{
	struct stub_view view;
	struct stub_front o;

	glue_of_fsp(handle, fsp, &o);
	if (stubvfs_is_strange_stub(handle, fsp) || stub_front_look(&o, &view) < 0 || view.needs) {
		errno = ENOSYS;
		return -1;
	}
	return SMB_VFS_NEXT_SENDFILE(handle, to, fsp, header, offset, n);
}

/* A stub is read by pread_send, whatever "aio read size" says. */
bool stubvfs_aio_force(struct vfs_handle_struct *handle, struct files_struct *fsp)
{
	struct stub_view view;
	struct stub_front o;

	glue_of_fsp(handle, fsp, &o);
	return (stub_front_look(&o, &view) == 0 && view.needs) || SMB_VFS_NEXT_AIO_FORCE(handle, fsp);
}
