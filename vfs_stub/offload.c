/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * offload.c - server-side copy.
 *
 * Samba's own copies by copy_file_range(2) between the descriptors: holes of a source
 * that is a stub would become zeros, and a target that is one would not know that its
 * bytes are the client's.  So the range is fetched first, on the event loop, and
 *   - NEXT copies, if the target is no stub;
 *   - else it is copied here, through the whole stack's read and write.
 * The token says which file to copy from; it is remembered at offload_read, as other
 * modules do that have to know.
 *
 * Source and target may be in two shares of the session, each with a volume or without one,
 * even without this module.  So a stub's token is made here and unknown to all other modules:
 * a copy by such a token is always made here.
 */
#include "stub_glue.h"

#include "lib/util/tevent_ntstatus.h"
#include "modules/offload_token.h"
#include "smbd/globals.h"

#include <errno.h>

#define CHUNK (1024 * 1024)

/* of this process, which is one client */
static struct vfs_offload_ctx *tokens;
static struct vfs_offload_ctx *stub_tokens; /* that NEXT does not know */

/* ---- the token ---- */

struct token_state {
	struct vfs_handle_struct *handle;
	struct files_struct *fsp;
	uint32_t flags;
	uint64_t length;
	DATA_BLOB token;
};

static void token_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct token_state *s = tevent_req_data(req, struct token_state);
	NTSTATUS status = SMB_VFS_NEXT_OFFLOAD_READ_RECV(sub, s->handle, s, &s->flags, &s->length,
							 &s->token);

	TALLOC_FREE(sub);
	if (tevent_req_nterror(req, status))
		return;
	status = vfs_offload_token_ctx_init(s->fsp->conn->sconn->client, &tokens);
	if (tevent_req_nterror(req, status))
		return;
	status = vfs_offload_token_db_store_fsp(tokens, s->fsp, &s->token);
	if (!tevent_req_nterror(req, status))
		tevent_req_done(req);
}

/* A token of our own, for a file that may have holes; also used when it is complete later. */
static NTSTATUS token_of_stub(struct token_state *s, uint32_t fsctl)
{
	NTSTATUS status;

	if (fsctl != FSCTL_SRV_REQUEST_RESUME_KEY)
		return NT_STATUS_NOT_SUPPORTED;
	status = vfs_offload_token_ctx_init(s->fsp->conn->sconn->client, &stub_tokens);
	if (NT_STATUS_IS_OK(status))
		status = vfs_offload_token_create_blob(s, s->fsp, fsctl, &s->token);
	if (NT_STATUS_IS_OK(status))
		status = vfs_offload_token_db_store_fsp(stub_tokens, s->fsp, &s->token);
	return status;
}

/* The token's file.  *stub: it is our own token, and NEXT must not be asked to copy. */
static NTSTATUS token_find(const DATA_BLOB *token, struct files_struct **fsp, bool *stub)
{
	NTSTATUS status = NT_STATUS_OBJECT_NAME_NOT_FOUND;

	*stub = false;
	*fsp = NULL;
	if (tokens)
		status = vfs_offload_token_db_fetch_fsp(tokens, token, fsp);
	if (!NT_STATUS_IS_OK(status) && stub_tokens) {
		status = vfs_offload_token_db_fetch_fsp(stub_tokens, token, fsp);
		*stub = NT_STATUS_IS_OK(status);
	}
	return status;
}

struct tevent_req *stubvfs_offload_read_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
					     struct vfs_handle_struct *handle,
					     struct files_struct *fsp, uint32_t fsctl,
					     uint32_t ttl, off_t offset, size_t length)
{
	struct tevent_req *req, *sub;
	struct token_state *s;
	struct stub_view view;
	struct stub_front o;

	req = tevent_req_create(mem_ctx, &s, struct token_state);
	if (!req)
		return NULL;
	*s = (struct token_state){ .handle = handle, .fsp = fsp };
	glue_of_fsp(handle, fsp, &o);
	if (stub_front_look(&o, &view) < 0 || o.maybe || stubvfs_is_strange_stub(handle, fsp)) {
		/* smbd 4.17 crashes at any token before it has been asked for one: let it
		 * refuse no FSCTL at all */
		sub = SMB_VFS_NEXT_OFFLOAD_READ_SEND(s, ev, handle, fsp, 0, ttl, offset, length);
		TALLOC_FREE(sub);
		if (!tevent_req_nterror(req, token_of_stub(s, fsctl)))
			tevent_req_done(req);
		return tevent_req_post(req, ev);
	}
	sub = SMB_VFS_NEXT_OFFLOAD_READ_SEND(s, ev, handle, fsp, fsctl, ttl, offset, length);
	if (tevent_req_nomem(sub, req))
		return tevent_req_post(req, ev);
	tevent_req_set_callback(sub, token_done, req);
	return req;
}

NTSTATUS stubvfs_offload_read_recv(struct tevent_req *req, struct vfs_handle_struct *handle,
				   TALLOC_CTX *mem_ctx, uint32_t *flags, uint64_t *length,
				   DATA_BLOB *token)
{
	struct token_state *s = tevent_req_data(req, struct token_state);
	NTSTATUS status;

	if (tevent_req_is_nterror(req, &status)) {
		tevent_req_received(req);
		return status;
	}
	*flags = s->flags;
	*length = s->length;
	token->length = s->token.length;
	token->data = talloc_move(mem_ctx, &s->token.data);
	tevent_req_received(req);
	return NT_STATUS_OK;
}

/* ---- the copy ---- */

struct copy_state {
	struct vfs_handle_struct *handle;
	struct tevent_context *ev;
	uint32_t fsctl;
	DATA_BLOB *token;
	struct files_struct *from, *to;
	off_t from_at, to_at, length;
	struct stub_need need; /* of the source; its era is that of the source's volume */
	bool from_stub; /* it may have been one when we began */
	bool ours; /* NEXT does not know the token */
	struct glue_flight flight; /* of the target, while NEXT copies */
	off_t copied;
};

/* NEXT copies on the event loop, or by pwrite_send of the whole stack: when the request is freed
 * nothing of it comes any more that is not in flight by itself. */
static int copy_state_free(struct copy_state *s)
{
	glue_flight_end(&s->flight, false);
	return 0;
}

static bool is_copychunk(uint32_t fsctl)
{
	return fsctl == FSCTL_SRV_COPYCHUNK || fsctl == FSCTL_SRV_COPYCHUNK_WRITE;
}

/* This module's handle in the share where @fsp is open; NULL: that share does not use it. */
static struct vfs_handle_struct *handle_of(const struct files_struct *fsp)
{
	struct vfs_handle_struct *h = fsp->conn->vfs_handles;

	while (h && h->fns != &stubvfs_fns)
		h = h->next;
	return h;
}

/* Is the source still open, and does what was read of it count? */
static bool still_valid(const struct copy_state *s)
{
	struct files_struct *from;
	bool ours;

	return NT_STATUS_IS_OK(token_find(s->token, &from, &ours)) && handle_of(from) &&
	       glue_era(handle_of(from)) == s->need.era;
}

static void copy_next_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct copy_state *s = tevent_req_data(req, struct copy_state);
	NTSTATUS status = SMB_VFS_NEXT_OFFLOAD_WRITE_RECV(s->handle, sub, &s->copied);
	struct stub_front to;
	int r;

	TALLOC_FREE(sub);
	r = glue_flight_end(&s->flight, NT_STATUS_IS_OK(status));
	if (r < 0)
		status = map_nt_error_from_unix(glue_errno(r));
	/* pages may have been dropped before they were copied: the client has to repeat it */
	if (NT_STATUS_IS_OK(status) && s->from_stub && !still_valid(s))
		status = NT_STATUS_IO_DEVICE_ERROR;
	if (tevent_req_nterror(req, status))
		return;
	glue_of_fsp(s->handle, s->to, &to);
	stub_front_tell(&to);
	tevent_req_done(req);
}

static void copy_next(struct tevent_req *req)
{
	struct copy_state *s = tevent_req_data(req, struct copy_state);
	struct tevent_req *sub;
	struct stub_front to;
	int r;

	glue_of_fsp(s->handle, s->to, &to);
	r = glue_flight_begin(&to, STUB_OWED_DATA | STUB_OWED_ATTRS, &s->flight);
	if (r < 0) {
		tevent_req_nterror(req, map_nt_error_from_unix(glue_errno(r)));
		return;
	}
	sub = SMB_VFS_NEXT_OFFLOAD_WRITE_SEND(s->handle, s, s->ev, s->fsctl, s->token, s->from_at,
					      s->to, s->to_at, s->length);
	if (!tevent_req_nomem(sub, req))
		tevent_req_set_callback(sub, copy_next_done, req);
}

static bool range_locked(struct files_struct *fsp, off_t at, off_t length, enum brl_type type)
{
	struct lock_struct lock;

	init_strict_lock_struct(fsp, fsp->op->global->open_persistent_id, (br_off)at,
				(br_off)length, type, lp_posix_cifsu_locktype(fsp), &lock);
	return !SMB_VFS_STRICT_LOCK_CHECK(fsp->conn, fsp, &lock);
}

/* As smbd does where copy_file_range(2) does not work. */
static NTSTATUS copy_chunks(struct copy_state *s)
{
	uint8_t *buf = talloc_size(s, (size_t)MIN(s->length, CHUNK));

	if (!buf)
		return NT_STATUS_NO_MEMORY;
	if (range_locked(s->from, s->from_at, s->length, READ_LOCK) ||
	    range_locked(s->to, s->to_at, s->length, WRITE_LOCK))
		return NT_STATUS_FILE_LOCK_CONFLICT;
	while (s->copied < s->length) {
		size_t n = (size_t)MIN(s->length - s->copied, CHUNK);
		ssize_t got = SMB_VFS_PREAD(s->from, buf, n, s->from_at + s->copied);

		if (got < 0)
			return map_nt_error_from_unix(errno);
		if ((size_t)got != n)
			return NT_STATUS_IO_DEVICE_ERROR;
		if (SMB_VFS_PWRITE(s->to, buf, n, s->to_at + s->copied) != got)
			return map_nt_error_from_unix(errno ? errno : EIO);
		s->copied += got;
	}
	TALLOC_FREE(buf);
	return NT_STATUS_OK;
}

static NTSTATUS copy_here(struct copy_state *s)
{
	NTSTATUS status;

	if (!is_copychunk(s->fsctl))
		return NT_STATUS_NOT_SUPPORTED;
	if (s->from_at < 0 || s->to_at < 0 || s->length < 0 ||
	    s->from_at > INT64_MAX - s->length || s->to_at > INT64_MAX - s->length)
		return NT_STATUS_INVALID_PARAMETER;
	status = vfs_offload_token_check_handles(s->fsctl, s->from, s->to);
	if (NT_STATUS_IS_OK(status))
		status = vfs_stat_fsp(s->from);
	if (!NT_STATUS_IS_OK(status))
		return status;
	if (s->from->fsp_name->st.st_ex_size < s->from_at + s->length)
		return NT_STATUS_INVALID_VIEW_SIZE;
	return copy_chunks(s);
}

/* The range to be copied is here, or @r says why not. */
static void copy_go(struct tevent_req *req, int r)
{
	struct copy_state *s = tevent_req_data(req, struct copy_state);
	struct stub_view view;
	struct stub_front to;
	NTSTATUS status;

	/* other requests have been served meanwhile: the source may be closed, and smbd may be
	 * another user */
	status = token_find(s->token, &s->from, &s->ours);
	if (tevent_req_nterror(req, status))
		return;
	if (!change_to_user_and_service_by_fsp(s->to)) {
		tevent_req_nterror(req, NT_STATUS_ACCESS_DENIED);
		return;
	}
	glue_of_fsp(s->handle, s->to, &to);
	if (r == 0)
		r = stub_front_look(&to, &view);
	/* where the volume takes no data it can still be read, and copied elsewhere */
	if (r < 0 && !stub_takes_no_data(r)) {
		tevent_req_nterror(req, map_nt_error_from_unix(glue_errno(r)));
		return;
	}
	if (r == 0 && !to.maybe && !s->ours) {
		copy_next(req);
		return;
	}
	status = copy_here(s);
	if (!tevent_req_nterror(req, status))
		tevent_req_done(req);
}

static void copy_ready(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	int r = glue_need_recv(sub);

	TALLOC_FREE(sub);
	copy_go(req, r);
}

struct tevent_req *stubvfs_offload_write_send(struct vfs_handle_struct *handle,
					      TALLOC_CTX *mem_ctx, struct tevent_context *ev,
					      uint32_t fsctl, DATA_BLOB *token, off_t from,
					      struct files_struct *fsp, off_t to, off_t length)
{
	struct vfs_handle_struct *source;
	struct tevent_req *req, *sub;
	struct copy_state *s;
	struct stub_view view;
	struct stub_front o;

	req = tevent_req_create(mem_ctx, &s, struct copy_state);
	if (!req)
		return NULL;
	*s = (struct copy_state){ .handle = handle, .ev = ev, .fsctl = fsctl, .token = token,
				  .to = fsp, .from_at = from, .to_at = to, .length = length };
	talloc_set_destructor(s, copy_state_free);
	token_find(token, &s->from, &s->ours);
	source = s->from ? handle_of(s->from) : NULL;
	if (s->from && stubvfs_is_strange_stub(source, s->from)) {
		tevent_req_nterror(req, NT_STATUS_IO_DEVICE_ERROR);
		return tevent_req_post(req, ev);
	}
	if (!source) { /* a share without this module; yet NEXT must not write into a stub */
		glue_of_fsp(handle, fsp, &o);
		if (stub_front_look(&o, &view) < 0 || o.maybe) {
			tevent_req_nterror(req, NT_STATUS_OBJECT_NAME_NOT_FOUND);
			return tevent_req_post(req, ev);
		}
	}
	if (!source || length <= 0 || from < 0 ||
	    (!s->ours && !glue_migrating(handle) && !glue_migrating(source))) {
		copy_next(req);
		return tevent_req_is_in_progress(req) ? req : tevent_req_post(req, ev);
	}
	glue_of_fsp(source, s->from, &o);
	s->from_stub = o.maybe;
	if (!o.maybe) {
		copy_go(req, 0);
		return tevent_req_is_in_progress(req) ? req : tevent_req_post(req, ev);
	}
	if (!aio_add_req_to_fsp(fsp, req)) { /* it is not closed before we are done */
		tevent_req_nterror(req, NT_STATUS_NO_MEMORY);
		return tevent_req_post(req, ev);
	}
	s->need = (struct stub_need){ .what = STUB_NEED_DATA, .offset = (uint64_t)from,
				      .length = (uint64_t)length };
	sub = glue_need_send(s, ev, source, fsp, &o, &s->need);
	if (tevent_req_nomem(sub, req))
		return tevent_req_post(req, ev);
	tevent_req_set_callback(sub, copy_ready, req);
	return req;
}

NTSTATUS stubvfs_offload_write_recv(struct vfs_handle_struct *handle, struct tevent_req *req,
				    off_t *copied)
{
	struct copy_state *s = tevent_req_data(req, struct copy_state);
	NTSTATUS status;

	*copied = 0;
	if (tevent_req_is_nterror(req, &status)) {
		tevent_req_received(req);
		return status;
	}
	*copied = s->copied;
	tevent_req_received(req);
	return NT_STATUS_OK;
}
