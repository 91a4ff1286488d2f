/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * data.c - write, truncate, punch, seek, sync.
 *
 *   - A write is in the bracket from before the bytes until the record says that they
 *     are the client's (docs/design.md, invariant 2).  It does not wait for the old
 *     server.  The bracket does not outlive a turn of the event loop, so a stub is written
 *     at once, by pwrite_send too.
 *   - SEEK tells a missing range as data.
 *   - After a FLUSH the data is on disk, and its record.  What was written and not flushed may
 *     be lost if the machine fails, but is never mixed with old bytes.
 */
#include "stub_glue.h"

#include "lib/util/sys_rw.h"
#include "lib/util/tevent_unix.h"

#include <errno.h>

#define CHUNK (128 * 1024)
#define BYTES (STUB_OWED_DATA | STUB_OWED_ATTRS) /* its times too */
#define WHO   0 /* of unstable writes: this process has one client only */

/* ---- changes of a range ---- */

struct ranging {
	struct stub_front o;
	struct stub_bracket change;
	uint64_t era;
};

/* Open the bracket for a change of [offset, offset+length). */
static int range_begin(struct ranging *g, struct vfs_handle_struct *handle,
		       struct files_struct *fsp, uint64_t offset, uint64_t length)
{
	struct stub_wait wait = { 0 };

	ZERO_STRUCTP(g);
	g->era = glue_era(handle);
	glue_of_fsp(handle, fsp, &g->o);
	g->o.owes = BYTES;
	return stub_bracket_range(&g->o, &wait, offset, length, &g->change);
}

/* Close it: @done bytes are the client's now.  @result and errno as NEXT left them. */
static ssize_t range_end(struct ranging *g, ssize_t result, uint64_t offset, uint64_t done)
{
	bool stub = stub_change_any(&g->change.c);
	int saved = errno;

	result = glue_result(result, saved,
			     stub_bracket_range_end(&g->change, &g->o, result < 0 ? -saved : 0,
						    offset, done));
	if (stub && result >= 0 && done)
		stub_sync_note(&g->o, WHO, g->era);
	return result;
}

/* ---- write ---- */

/* Where a write goes.  One that is appended goes to the end of the file, wherever that is by then:
 * nothing is missing there, nor behind it. */
static off_t place_of(const struct files_struct *fsp, off_t offset)
{
	struct stat st;

	if (!compat_appends(fsp))
		return offset;
	return fstat(fsp_get_io_fd(fsp), &st) == 0 ? st.st_size : -1;
}

ssize_t stubvfs_pwrite(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       const void *data, size_t n, off_t offset)
{
	off_t at = place_of(fsp, offset);
	struct ranging g;
	ssize_t done;
	int r;

	if (n == 0 || at < 0)
		return SMB_VFS_NEXT_PWRITE(handle, fsp, data, n, offset);
	r = range_begin(&g, handle, fsp, (uint64_t)at, n);
	if (r < 0)
		return glue_fail(r);
	done = SMB_VFS_NEXT_PWRITE(handle, fsp, data, n, offset);
	return range_end(&g, done, (uint64_t)at, done > 0 ? (uint64_t)done : 0);
}

struct write_state {
	struct tevent_req *req; /* NULL: nobody waits for it any more */
	struct stub_front o;
	struct glue_flight flight;
	ssize_t done;
	struct vfs_aio_state aio;
};

/*
 * smbd frees the request of a file that it closes by force, while a thread still writes.  Until that
 * one is done the object is in flight: what a comparison with the mirror does not see yet would
 * come after it.
 */
static int write_state_free(struct write_state *s)
{
	s->req = NULL;
	return -1;
}

static void write_done(struct tevent_req *sub)
{
	struct write_state *s = tevent_req_callback_data(sub, struct write_state);
	struct tevent_req *req = s->req;
	int r;

	s->done = SMB_VFS_PWRITE_RECV(sub, &s->aio);
	TALLOC_FREE(sub);
	talloc_set_destructor(s, NULL);
	r = glue_flight_end(&s->flight, req && s->done >= 0);
	if (!req) {
		talloc_free(s);
		return;
	}
	if (r < 0) {
		tevent_req_error(req, glue_errno(r));
		return;
	}
	if (s->done < 0) {
		tevent_req_error(req, s->aio.error);
		return;
	}
	stub_front_tell(&s->o);
	tevent_req_done(req);
}

struct tevent_req *stubvfs_pwrite_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				       struct tevent_context *ev, struct files_struct *fsp,
				       const void *data, size_t n, off_t offset)
{
	struct tevent_req *req, *sub;
	struct write_state *s;
	struct stub_view view;
	int r;

	req = tevent_req_create(mem_ctx, &s, struct write_state);
	if (!req)
		return NULL;
	s->req = req;
	glue_of_fsp(handle, fsp, &s->o);
	if (stub_front_look(&s->o, &view) < 0 || s->o.maybe) {
		s->done = stubvfs_pwrite(handle, fsp, data, n, offset);
		if (s->done < 0)
			tevent_req_error(req, errno);
		else
			tevent_req_done(req);
		return tevent_req_post(req, ev);
	}
	r = glue_flight_begin(&s->o, BYTES, &s->flight);
	if (r < 0) {
		tevent_req_error(req, glue_errno(r));
		return tevent_req_post(req, ev);
	}
	s->flight.entered.from = (uint64_t)offset;
	s->flight.entered.to = (uint64_t)offset + n;
	sub = SMB_VFS_NEXT_PWRITE_SEND(s, ev, handle, fsp, data, n, offset);
	if (tevent_req_nomem(sub, req)) {
		glue_flight_end(&s->flight, false);
		return tevent_req_post(req, ev);
	}
	if (s->flight.x)
		talloc_set_destructor(s, write_state_free);
	tevent_req_set_callback(sub, write_done, s);
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
 * From the client's socket into the file.  The client may be slow, so a stub's bracket is not
 * open while we wait for it, nor is the file in flight to a mirror: each part is written when it has
 * come.
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
		off_t at = compat_appends(fsp) ? offset : offset + (off_t)got;
		ssize_t one = sys_read(from, buf, MIN(n - got, CHUNK));

		if (one <= 0) {
			error = one < 0 ? errno : EIO;
			break;
		}
		/* what cannot be written is still taken off the socket */
		if (!error && stubvfs_pwrite(handle, fsp, buf, (size_t)one, at) != one)
			error = errno ? errno : EIO;
		got += (size_t)one;
	}
	TALLOC_FREE(buf);
	/* smbd would begin anew, with bytes that are no longer there */
	errno = error == EAGAIN ? ETIMEDOUT : error;
	return error ? -1 : (ssize_t)got;
}

ssize_t stubvfs_recvfile(struct vfs_handle_struct *handle, int from, struct files_struct *fsp,
			 off_t offset, size_t n)
{
	struct stub_view view;
	struct stub_front o;
	ssize_t done;
	int flags, saved;

	glue_of_fsp(handle, fsp, &o);
	if (stub_front_look(&o, &view) == 0 && !o.maybe && !glue_mirrored(handle))
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
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, BYTES, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_FTRUNCATE(handle, fsp, size));
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

struct seeking {
	struct vfs_handle_struct *handle;
	struct files_struct *fsp;
};

static int seek_next(void *arg, bool data, uint64_t at, uint64_t size, uint64_t *found)
{
	struct seeking *s = arg;
	off_t n = SMB_VFS_NEXT_LSEEK(s->handle, s->fsp, (off_t)at, data ? SEEK_DATA : SEEK_HOLE);

	if (n < 0 && errno != ENXIO)
		return -errno;
	*found = n < 0 ? size : (uint64_t)n;
	return 0;
}

off_t stubvfs_lseek(struct vfs_handle_struct *handle, struct files_struct *fsp, off_t offset,
		    int whence)
{
	struct seeking seek = { handle, fsp };
	struct stub_view view;
	struct stub_front o;
	uint64_t found;
	struct stat st;
	int r;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return SMB_VFS_NEXT_LSEEK(handle, fsp, offset, whence);
	glue_of_fsp(handle, fsp, &o);
	r = stub_front_look(&o, &view);
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
	r = stub_front_seek(&o, whence == SEEK_DATA, (uint64_t)offset, (uint64_t)st.st_size,
			    seek_next, &seek, &found);
	if (r < 0)
		return glue_fail(r);
	if (whence == SEEK_DATA && found >= (uint64_t)st.st_size) {
		errno = ENXIO;
		return -1;
	}
	return (off_t)found;
}

/* ---- sync ---- */

struct sync_state {
	struct stub_sync sync;
	int result;
	struct vfs_aio_state aio;
};

static void sync_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct sync_state *s = tevent_req_data(req, struct sync_state);
	int error, r;

	s->result = SMB_VFS_FSYNC_RECV(sub, &s->aio);
	TALLOC_FREE(sub);
	error = s->result < 0 ? s->aio.error : 0;
	r = stub_sync_end(&s->sync, -error);
	if (r < 0)
		tevent_req_error(req, error ? error : glue_errno(r));
	else
		tevent_req_done(req);
}

static int sync_state_free(struct sync_state *s)
{
	stub_sync_drop(&s->sync);
	return 0;
}

/* Also of what is normal by now, and after completion. */
static int sync_begin(struct sync_state *s, struct vfs_handle_struct *handle,
		      struct files_struct *fsp)
{
	struct stubvfs *x = stubvfs(handle);
	struct stub_handle h;
	struct stub_front o;
	bool due;

	if (!x)
		return 0;
	glue_of_fsp(handle, fsp, &o);
	due = stub_sync_due(&x->gate) && !fsp_is_alternate_stream(fsp) &&
	      stub_handle_of_fd(fsp_get_pathref_fd(fsp), &h) == 0;
	return stub_sync_begin(&x->gate, &o, due ? &h : NULL, WHO, &s->sync);
}

struct tevent_req *stubvfs_fsync_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      struct tevent_context *ev, struct files_struct *fsp)
{
	struct tevent_req *req, *sub;
	struct sync_state *s;
	int r;

	req = tevent_req_create(mem_ctx, &s, struct sync_state);
	if (!req)
		return NULL;
	talloc_set_destructor(s, sync_state_free);
	r = sync_begin(s, handle, fsp);
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
		errno = aio->error; /* vfs_streams_xattr above us answers with that; 0: never */
		return -1;
	}
	*aio = s->aio;
	r = s->result;
	tevent_req_received(req);
	return r;
}
