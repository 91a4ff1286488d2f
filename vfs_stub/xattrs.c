/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * xattrs.c - extended attributes: clients' EAs, and what Samba's modules keep there.
 *
 * Records are invisible and untouchable (docs/design.md, invariants 8 and 9), also for
 * root, as whom smbd's modules work; and a change moves the ctime that is shown, so it is in the
 * bracket.
 */
#include "stub_glue.h"

#include "lib/util/tevent_unix.h"

#include <errno.h>

/* A stream may be among the attributes that have not come: wait for them.  (Not for what smbd
 * itself keeps in extended attributes: until they come the object is shown without.) */
static int stream_known(struct vfs_handle_struct *handle, struct files_struct *fsp,
			const char *name)
{
	struct stub_wait wait = { 0 };
	struct stub_view view;
	struct stub_front o;

	if (strncmp(name, SAMBA_XATTR_DOSSTREAM_PREFIX, strlen(SAMBA_XATTR_DOSSTREAM_PREFIX)))
		return 0;
	glue_of_fsp(handle, fsp, &o);
	return stub_need_attrs(&o, &wait, &view);
}

ssize_t stubvfs_fgetxattr(struct vfs_handle_struct *handle, struct files_struct *fsp,
			  const char *name, void *value, size_t size)
{
	int r;

	if (stubvfs_hides_xattr(name)) {
		errno = ENOATTR;
		return -1;
	}
	r = stream_known(handle, fsp, name);
	if (r < 0)
		return glue_fail(r);
	return SMB_VFS_NEXT_FGETXATTR(handle, fsp, name, value, size);
}

/* Names follow each other with their NULs; what is hidden is taken out. */
static ssize_t without_hidden(char *list, ssize_t n)
{
	ssize_t kept = 0, at = 0;

	while (at < n) {
		size_t len = strnlen(list + at, (size_t)(n - at)) + 1;

		if (at + (ssize_t)len > n) /* not terminated: ours is not among them */
			break;
		if (!stubvfs_hides_xattr(list + at)) {
			memmove(list + kept, list + at, len);
			kept += (ssize_t)len;
		}
		at += (ssize_t)len;
	}
	return kept;
}

ssize_t stubvfs_flistxattr(struct vfs_handle_struct *handle, struct files_struct *fsp, char *list,
			   size_t size)
{
	ssize_t n = SMB_VFS_NEXT_FLISTXATTR(handle, fsp, list, size);

	/* with no buffer the answer is how large it must be, at most */
	return n > 0 && size > 0 ? without_hidden(list, n) : n;
}

int stubvfs_fremovexattr(struct vfs_handle_struct *handle, struct files_struct *fsp,
			 const char *name)
{
	struct stub_bracket change;

	if (stubvfs_hides_xattr(name)) {
		errno = ENOATTR;
		return -1;
	}
	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_FREMOVEXATTR(handle, fsp, name));
}

int stubvfs_fsetxattr(struct vfs_handle_struct *handle, struct files_struct *fsp,
		      const char *name, const void *value, size_t size, int flags)
{
	struct stub_bracket change;

	if (stubvfs_hides_xattr(name)) {
		errno = EPERM;
		return -1;
	}
	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change,
				    SMB_VFS_NEXT_FSETXATTR(handle, fsp, name, value, size, flags));
}

/* ---- asynchronously ---- */

struct getx_state {
	struct vfs_aio_state aio;
	ssize_t n;
	uint8_t *value;
	bool wanted;
};

static void getx_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct getx_state *s = tevent_req_data(req, struct getx_state);

	s->n = SMB_VFS_NEXT_GETXATTRAT_RECV(sub, &s->aio, s, s->wanted ? &s->value : NULL);
	TALLOC_FREE(sub);
	if (s->n < 0) {
		tevent_req_error(req, s->aio.error);
		return;
	}
	tevent_req_done(req);
}

struct tevent_req *stubvfs_getxattrat_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
					   struct vfs_handle_struct *handle, files_struct *dirfsp,
					   const struct smb_filename *name, const char *xattr,
					   size_t hint)
{
	struct tevent_req *req, *sub;
	struct getx_state *s;

	req = tevent_req_create(mem_ctx, &s, struct getx_state);
	if (!req)
		return NULL;
	s->wanted = hint > 0;
	if (stubvfs_hides_xattr(xattr)) {
		tevent_req_error(req, ENOATTR);
		return tevent_req_post(req, ev);
	}
	sub = SMB_VFS_NEXT_GETXATTRAT_SEND(s, ev, handle, dirfsp, name, xattr, hint);
	if (tevent_req_nomem(sub, req))
		return tevent_req_post(req, ev);
	tevent_req_set_callback(sub, getx_done, req);
	return req;
}

ssize_t stubvfs_getxattrat_recv(struct tevent_req *req, struct vfs_aio_state *aio,
				TALLOC_CTX *mem_ctx, uint8_t **value)
{
	struct getx_state *s = tevent_req_data(req, struct getx_state);
	ssize_t n;

	if (tevent_req_is_unix_error(req, &aio->error)) {
		tevent_req_received(req);
		return -1;
	}
	*aio = s->aio;
	n = s->n;
	if (value)
		*value = talloc_move(mem_ctx, &s->value);
	tevent_req_received(req);
	return n;
}
