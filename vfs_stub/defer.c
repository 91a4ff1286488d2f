/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * defer.c - a directory that is opened to be listed waits on the event loop.
 *
 * smbd can defer an open, as it does when an oplock has to be broken: a module's
 * SMB_VFS_CREATE_FILE may say so (push_deferred_open_message_smb) and have the request
 * run anew later (schedule_deferred_open_message_smb), while others of the session are
 * served.  The path is resolved by then, so this is of no use to an open that waits for a name
 * on its path: only to opening an unlisted directory, which is what file managers begin with.
 *
 * The second run does not wait again: it finds the directory listed, or open.c gives up at
 * once, for stub:wait is over.
 */
#include "stub_glue.h"

#include "smbd/globals.h"

#define LISTS (SEC_DIR_LIST | SEC_GENERIC_READ | SEC_GENERIC_ALL | SEC_FLAG_MAXIMUM_ALLOWED)
#define RECORD 256 /* more than smbd's own, whose zeros say that it may be cancelled */
#define OURS   "postcopy deferred open"

struct deferred {
	struct smbXsrv_connection *xconn;
	uint64_t mid;
};

/*
 * Only a CREATE can be deferred: smbd looks for a CREATE's state.  Requests of other kinds open
 * files too, but have no @out, the contexts of a CREATE's answer.  (The request itself is not
 * looked into: its layout depends on how smbd was configured.)
 */
static bool is_create(const struct smb_request *req, const struct smb2_create_blobs *out)
{
	return req && req->smb2req && out;
}

/* Is it an unlisted directory?  Then *ask is what must be asked for. */
static bool is_unlisted(struct vfs_handle_struct *handle, const struct smb_filename *name,
			struct stub_front *o, struct stub_ask *ask)
{
	struct stub_need need = { .what = STUB_NEED_ENTRIES };

	if (!name->fsp || !VALID_STAT(name->st) || !S_ISDIR(name->st.st_ex_mode) ||
	    is_named_stream(name))
		return false;
	glue_of_fsp(handle, name->fsp, o);
	return stub_need_step(o, &need, 0, ask) > 0;
}

/* Listed, or not in time, or never: the second run will see. */
static void answered(struct tevent_req *ask)
{
	struct deferred *d = tevent_req_callback_data(ask, struct deferred);

	glue_ask_recv(ask);
	schedule_deferred_open_message_smb(d->xconn, d->mid);
	talloc_free(d); /* with the ask, which is its child */
}

/* What waits is a talloc child of the request: it is freed if that is cancelled, or the client
 * goes. */
static bool put_off(struct vfs_handle_struct *handle, struct smb_request *req,
		    const struct stub_ask *a)
{
	struct tevent_context *ev = handle->conn->sconn->ev_ctx;
	struct deferred *d = talloc(req->smb2req, struct deferred);
	unsigned int ms = glue_wait_ms(stubvfs(handle));
	struct deferred_open_record *record;
	struct tevent_req *ask;

	if (!d)
		return false;
	*d = (struct deferred){ req->xconn, req->mid };
	ask = glue_ask_send(d, ev, handle, a);
	record = talloc_zero_size(NULL, RECORD);
	if (record)
		talloc_set_name_const(record, OURS);
	if (!ask || !record ||
	    !tevent_req_set_endtime(ask, ev, timeval_current_ofs_msec(ms)) ||
	    !push_deferred_open_message_smb(req, (struct timeval){ .tv_sec = ms / 1000 + 1 },
					    (struct file_id){ 0 }, record)) {
		TALLOC_FREE(record);
		TALLOC_FREE(d);
		return false;
	}
	tevent_req_set_callback(ask, answered, d);
	return true;
}

/*
 * Is this a later run of a request that was deferred?  Its mark is taken off where smbd does not
 * do that itself: with it, an error of this run would be taken for "later" again.
 */
static bool is_again(struct smb_request *req, const struct smb_filename *name, uint32_t options)
{
	struct deferred_open_record *record = NULL;
	bool dir = options & FILE_DIRECTORY_FILE || S_ISDIR(name->st.st_ex_mode);

	if (!get_deferred_open_message_state(req, NULL, &record))
		return false;
	if ((record && talloc_check_name(record, OURS)) ||
	    (!COMPAT_DEFERS_DIRECTORIES && (!name->fsp || dir)))
		remove_deferred_open_message_smb(req->xconn, req->mid);
	return true;
}

NTSTATUS stubvfs_create_file(struct vfs_handle_struct *handle, struct smb_request *req,
			     struct files_struct *dirfsp, struct smb_filename *name,
			     uint32_t access_mask, uint32_t share_access, uint32_t disposition,
			     uint32_t options, uint32_t attributes, uint32_t oplock,
			     const struct smb2_lease *lease, uint64_t allocation, uint32_t flags,
			     struct security_descriptor *sd, struct ea_list *eas,
			     files_struct **result, int *info,
			     const struct smb2_create_blobs *in, struct smb2_create_blobs *out)
{
	bool again = is_create(req, out) && stubvfs(handle) && is_again(req, name, options);
	struct stub_front o;
	struct stub_ask a;

	if (glue_migrating(handle) && access_mask & LISTS && is_create(req, out) &&
	    is_unlisted(handle, name, &o, &a)) {
		if (again)
			glue_overdue_note(&o);
		else if (put_off(handle, req, &a))
			return NT_STATUS_SHARING_VIOLATION; /* no client is told this */
	}
	return SMB_VFS_NEXT_CREATE_FILE(handle, req, dirfsp, name, access_mask, share_access,
					disposition, options, attributes, oplock, lease,
					allocation, flags, sd, eas, result, info, in, out);
}
