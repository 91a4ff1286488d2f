/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * data.c - write, truncate, punch, seek, sync.
 *
 *   - A write is in the bracket from before the bytes until the record says that they
 *     are the client's (docs/design.md, invariant 2).  It does not wait for the old
 *     server.  The bracket does not outlive a turn of the event loop, so a stub is written
 *     at once, by pwrite_send too.
 *   - SEEK tells a missing range as data.
 *   - What FLUSH says is on disk is so with its record.  What was written and not
 *     flushed may be lost with the machine, never mixed wrongly.
 */
#include "stub_glue.h"

#include "lib/util/sys_rw.h"
#include "lib/util/tevent_unix.h"

#include <errno.h>

#define ROOM_TRIES 16 /* fetches that make room in a record for one write */
#define CHUNK	   (128 * 1024)

/* ---- changes of a range ---- */

struct ranging {
	struct vfs_handle_struct *handle;
	struct glue_obj o;
	struct glue_change change;
	uint64_t era;
};

/* Open the bracket for a change of [offset, offset+length), with room in the record. */
static int range_begin(struct ranging *g, struct vfs_handle_struct *handle,
		       struct files_struct *fsp, uint64_t offset, uint64_t length)
{
	struct glue_obj *in[1] = { &g->o };
	struct glue_wait wait = { 0 };
	struct stub_view view;
	int r;

	ZERO_STRUCTP(g);
	g->handle = handle;
	g->era = glue_era(handle);
	glue_of_fsp(handle, fsp, &g->o);
	r = glue_look(&g->o, &view);
	if (r == 0 && g->o.maybe && g->o.x->brackets)
		return 0; /* the outer bracket's */
	if (r == 0)
		r = glue_need_attrs(&g->o, &wait, &view);
	for (int i = 0; r >= 0 && i < ROOM_TRIES; i++) {
		r = glue_change_begin(&g->change, in, 1);
		if (r == 0)
			r = glue_change_room(&g->change, &g->o, &wait, offset, length);
		if (r == 0)
			return 0;
	}
	return r < 0 ? r : -EAGAIN;
}

/* Close it: @done bytes are the client's now.  @result and errno as NEXT left them. */
static ssize_t range_end(struct ranging *g, ssize_t result, uint64_t offset, uint64_t done)
{
	bool stub = stub_change_any(&g->change.c);
	int r = result < 0 ? 0 : stub_change_written(&g->change.c, 0, offset, done);

	if (r < 0)
		result = glue_fail(r);
	result = glue_change_end(&g->change, result);
	glue_room_ahead(&g->change, &g->o);
	if (stub && result >= 0 && done)
		glue_unstable(g->handle, &g->o.h, g->era);
	return result;
}

/* ---- write ---- */

ssize_t stubvfs_pwrite(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       const void *data, size_t n, off_t offset)
{
	struct ranging g;
	ssize_t done;
	int r;

	if (n == 0 || offset < 0)
		return SMB_VFS_NEXT_PWRITE(handle, fsp, data, n, offset);
	r = range_begin(&g, handle, fsp, (uint64_t)offset, n);
	if (r < 0)
		return glue_fail(r);
	done = SMB_VFS_NEXT_PWRITE(handle, fsp, data, n, offset);
	return range_end(&g, done, (uint64_t)offset, done > 0 ? (uint64_t)done : 0);
}

struct write_state {
	struct glue_obj o;
	ssize_t done;
	struct vfs_aio_state aio;
};

static void write_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct write_state *s = tevent_req_data(req, struct write_state);

	s->done = SMB_VFS_PWRITE_RECV(sub, &s->aio);
	TALLOC_FREE(sub);
	if (s->done < 0) {
		tevent_req_error(req, s->aio.error);
		return;
	}
	glue_tell(&s->o);
	tevent_req_done(req);
}

struct tevent_req *stubvfs_pwrite_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				       struct tevent_context *ev, struct files_struct *fsp,
				       const void *data, size_t n, off_t offset)
{
	struct tevent_req *req, *sub;
	struct write_state *s;
	struct stub_view view;

	req = tevent_req_create(mem_ctx, &s, struct write_state);
	if (!req)
		return NULL;
	glue_of_fsp(handle, fsp, &s->o);
	if (glue_look(&s->o, &view) < 0 || s->o.maybe) {
		s->done = stubvfs_pwrite(handle, fsp, data, n, offset);
		if (s->done < 0)
			tevent_req_error(req, errno);
		else
			tevent_req_done(req);
		return tevent_req_post(req, ev);
	}
	sub = SMB_VFS_NEXT_PWRITE_SEND(s, ev, handle, fsp, data, n, offset);
	if (tevent_req_nomem(sub, req))
		return tevent_req_post(req, ev);
	tevent_req_set_callback(sub, write_done, req);
	return req;
}

ssize_t stubvfs_pwrite_recv(struct tevent_req *req, struct vfs_aio_state *aio)
{
	struct write_state *s = tevent_req_data(req, struct write_state);
	ssize_t done;

	if (tevent_req_is_unix_error(req, &aio->error)) {
		tevent_req_received(req);
		return -1;
	}
	*aio = s->aio;
	done = s->done;
	tevent_req_received(req);
	return done;
}

/*
 * From the client's socket into the file.  A client may be as slow as it likes, so a
 * stub's bracket is not open while it is waited for: what has come is written.
 */
static ssize_t receive(struct vfs_handle_struct *handle, int from, struct files_struct *fsp,
		       off_t offset, size_t n)
{
	uint8_t *buf = talloc_size(talloc_tos(), MIN(n, CHUNK));
	size_t got = 0;
	int error = 0;

	if (!buf)
		return glue_fail(-ENOMEM);
	while (got < n) {
		ssize_t one = sys_read(from, buf, MIN(n - got, CHUNK));

		if (one <= 0) {
			error = one < 0 ? errno : EIO;
			break;
		}
		/* what cannot be written is still taken off the socket */
		if (!error && stubvfs_pwrite(handle, fsp, buf, (size_t)one,
					     offset + (off_t)got) != one)
			error = errno ? errno : EIO;
		got += (size_t)one;
	}
	TALLOC_FREE(buf);
	errno = error;
	return error ? -1 : (ssize_t)got;
}

ssize_t stubvfs_recvfile(struct vfs_handle_struct *handle, int from, struct files_struct *fsp,
			 off_t offset, size_t n)
{
	struct stub_view view;
	struct glue_obj o;
	ssize_t done;
	int flags, saved;

	glue_of_fsp(handle, fsp, &o);
	if (glue_look(&o, &view) == 0 && !o.maybe)
		return SMB_VFS_NEXT_RECVFILE(handle, from, fsp, offset, n);
	flags = fcntl(from, F_GETFL);
	if (flags < 0 || fcntl(from, F_SETFL, flags & ~O_NONBLOCK) < 0)
		return -1;
	done = receive(handle, from, fsp, offset, n);
	saved = errno;
	fcntl(from, F_SETFL, flags);
	errno = saved;
	return done;
}

/* ---- size and space ---- */

int stubvfs_ftruncate(struct vfs_handle_struct *handle, struct files_struct *fsp, off_t size)
{
	struct glue_change change;

	if (!glue_change_fsp(handle, fsp, &change))
		return -1;
	return (int)glue_change_end(&change, SMB_VFS_NEXT_FTRUNCATE(handle, fsp, size));
}

/* Reserving fills nothing and takes nothing away; a punched range is the client's. */
int stubvfs_fallocate(struct vfs_handle_struct *handle, struct files_struct *fsp, uint32_t mode,
		      off_t offset, off_t length)
{
	uint64_t changed = mode & VFS_FALLOCATE_FL_PUNCH_HOLE ? (uint64_t)length : 0;
	struct ranging g;
	int r;

	if (offset < 0 || length <= 0)
		return SMB_VFS_NEXT_FALLOCATE(handle, fsp, mode, offset, length);
	r = range_begin(&g, handle, fsp, (uint64_t)offset, changed);
	if (r < 0)
		return glue_fail(r);
	r = SMB_VFS_NEXT_FALLOCATE(handle, fsp, mode, offset, length);
	return (int)range_end(&g, r, (uint64_t)offset, r == 0 ? changed : 0);
}

/* ---- seek ---- */

/*
 * What is missing is asked first, then the file: bytes are there before the record says
 * so.  The other way round a range that is filled in between would be neither missing
 * nor data.
 */

/* One seek below; there is no data behind the last: @size then. */
static off_t seek_next(struct vfs_handle_struct *handle, struct files_struct *fsp, off_t at,
		       int whence, off_t size)
{
	off_t found = SMB_VFS_NEXT_LSEEK(handle, fsp, at, whence);

	return found < 0 && errno == ENXIO ? size : found;
}

/* The first of local data and of missing ranges. */
static off_t seek_data(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       struct glue_obj *o, off_t at, off_t size)
{
	struct stub_range missing;
	int r = glue_missing(o, (uint64_t)at, (uint64_t)size, &missing);
	off_t data;

	if (r < 0)
		return glue_fail(r);
	data = seek_next(handle, fsp, at, SEEK_DATA, size);
	if (data >= 0 && r > 0 && (off_t)missing.start < data)
		data = (off_t)missing.start;
	if (data == size) {
		errno = ENXIO;
		return -1;
	}
	return data;
}

/* The first local hole that is not missing. */
static off_t seek_hole(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       struct glue_obj *o, off_t at, off_t size)
{
	struct stub_range missing;

	while (at < size) {
		int r = glue_missing(o, (uint64_t)at, (uint64_t)size, &missing);
		off_t hole;

		if (r < 0)
			return glue_fail(r);
		hole = seek_next(handle, fsp, at, SEEK_HOLE, size);
		if (hole < 0 || r == 0 || (off_t)missing.start > hole)
			return hole;
		at = (off_t)missing.end;
	}
	return size;
}

off_t stubvfs_lseek(struct vfs_handle_struct *handle, struct files_struct *fsp, off_t offset,
		    int whence)
{
	struct stub_view view;
	struct glue_obj o;
	struct stat st;
	int r;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return SMB_VFS_NEXT_LSEEK(handle, fsp, offset, whence);
	glue_of_fsp(handle, fsp, &o);
	r = glue_look(&o, &view);
	if (r < 0)
		return glue_fail(r);
	if (!o.maybe)
		return SMB_VFS_NEXT_LSEEK(handle, fsp, offset, whence);
	if (fstat(fsp_get_io_fd(fsp), &st) < 0)
		return -1;
	if (offset < 0 || offset >= st.st_size) {
		errno = ENXIO;
		return -1;
	}
	return whence == SEEK_DATA ? seek_data(handle, fsp, &o, offset, st.st_size) :
				     seek_hole(handle, fsp, &o, offset, st.st_size);
}

/* ---- sync ---- */

struct sync_state {
	struct vfs_handle_struct *handle;
	struct stub_commit commit;
	struct stub_handle h;
	uint64_t era;
	bool noted; /* unstable writes were taken for this sync */
	int result;
	struct vfs_aio_state aio;
};

/* What fsync(2) says when data could not be written; any other error lost nothing. */
static bool sync_failed(int error)
{
	return error == EIO || error == ENOSPC || error == EDQUOT || error == EROFS;
}

static void sync_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct sync_state *s = tevent_req_data(req, struct sync_state);
	int error, r = 0;

	s->result = SMB_VFS_FSYNC_RECV(sub, &s->aio);
	TALLOC_FREE(sub);
	error = s->result < 0 ? s->aio.error : 0;
	if (s->commit.stub && error && !sync_failed(error))
		stub_commit_drop(&s->commit);
	else
		r = glue_commit_finish(&s->commit, -error);
	if (r < 0 && !error)
		error = glue_errno(r);
	if (error && s->noted)
		glue_unstable(s->handle, &s->h, s->era);
	if (error)
		tevent_req_error(req, error);
	else
		tevent_req_done(req);
}

static int sync_state_free(struct sync_state *s)
{
	if (s->commit.stub)
		stub_commit_drop(&s->commit);
	return 0;
}

struct tevent_req *stubvfs_fsync_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      struct tevent_context *ev, struct files_struct *fsp)
{
	struct tevent_req *req, *sub;
	struct sync_state *s;
	struct glue_obj o;
	int r;

	req = tevent_req_create(mem_ctx, &s, struct sync_state);
	if (!req)
		return NULL;
	s->handle = handle;
	talloc_set_destructor(s, sync_state_free);
	glue_of_fsp(handle, fsp, &o);
	/* before the sync: what is written from here on is noted anew */
	r = glue_unstable_take(handle, fsp, &s->h, &s->era);
	s->noted = r > 0;
	if (r >= 0)
		r = glue_commit_prepare(&o, &s->commit);
	if (r < 0) {
		tevent_req_error(req, glue_errno(r));
		return tevent_req_post(req, ev);
	}
	sub = SMB_VFS_NEXT_FSYNC_SEND(s, ev, handle, fsp);
	if (tevent_req_nomem(sub, req))
		return tevent_req_post(req, ev);
	tevent_req_set_callback(sub, sync_done, req);
	return req;
}

int stubvfs_fsync_recv(struct tevent_req *req, struct vfs_aio_state *aio)
{
	struct sync_state *s = tevent_req_data(req, struct sync_state);
	int r;

	if (tevent_req_is_unix_error(req, &aio->error)) {
		tevent_req_received(req);
		return -1;
	}
	*aio = s->aio;
	r = s->result;
	tevent_req_received(req);
	return r;
}
