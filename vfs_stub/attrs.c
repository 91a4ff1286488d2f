/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * attrs.c - attributes.
 *
 * A stub's local times, link count and blocks, and a directory's size, change while it is
 * filled: libstubcore says what clients see instead (docs/design.md, invariant 8).
 *
 * Order of looking: the view first, then what is below.  A stub that is finished in
 * between is shown with its last view, which it has then for good.  The other way round,
 * times of the filling would be taken for those of a normal object.
 */
#include "stub_glue.h"

#include "lib/util/tevent_ntstatus.h"

#include <errno.h>
#include <sys/xattr.h>

#define TRIES 4 /* each after another object has got the name meanwhile */

/* ---- stat ---- */

static struct timespec earlier(struct timespec a, struct timespec b)
{
	return timespec_compare(&a, &b) > 0 ? b : a;
}

static void show(struct vfs_handle_struct *handle, const struct stub_view *view,
		 SMB_STRUCT_STAT *st)
{
	if (view->withheld) { /* nobody knows who may do what with it */
		st->st_ex_mode &= S_IFMT;
		st->st_ex_uid = 0;
		st->st_ex_gid = 0;
	}
	if (!view->needs) {
		if (stubvfs_hides_link(handle, st))
			st->st_ex_nlink--;
		return;
	}
	st->st_ex_mtime = view->mtime;
	st->st_ex_ctime = view->ctime;
	st->st_ex_nlink = view->nlink;
	if (S_ISDIR(st->st_ex_mode) && view->size)
		st->st_ex_size = (off_t)view->size;
	if (st->st_ex_iflags & ST_EX_IFLAG_CALCULATED_BTIME)
		st->st_ex_btime = earlier(st->st_ex_atime, earlier(view->mtime, view->ctime));
	/* a file that uses no blocks is taken for one hole by some */
	if (S_ISREG(st->st_ex_mode) && (st->st_ex_size + 511) / 512 > st->st_ex_blocks)
		st->st_ex_blocks = (st->st_ex_size + 511) / 512;
}

static bool has_dosattrib(int fd)
{
	char path[32];
	bool root = glue_root_enter(), has;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	has = getxattr(path, SAMBA_XATTR_DOS_ATTRIB, NULL, 0) > 0;
	glue_root_leave(root);
	return has;
}

/*
 * Is it an entry of the listing that smbd is answering now, and all that a listing shows is
 * known?  Type, size and times are those of each stub, and with its DOS attributes there is nothing
 * else: only what came with the old server's own listing has these before it has its other
 * attributes (retriever/smb).  Those are not waited for; whoever opens it, or asks for it by
 * name, waits as ever.  *view is for show() then.  @fd is the object.
 */
static bool is_told(const struct stubvfs *x, struct stub_front *o, int fd, struct stub_view *view)
{
	if (!x->turn || fd < 0 || stub_front_look_fd(o, fd, view) < 0 || !(view->needs & STUB_NEEDS_ATTRS))
		return false;
	view->withheld = has_dosattrib(fd);
	return view->withheld;
}

/*
 * If it is an entry of a listing that smbd has just read, "try again" is no answer: smbd would
 * leave the entry out, and a client's mirror or backup take it for removed.  So an entry whose
 * attributes do not come in time is withheld too; and if no retriever runs, a thousand entries
 * do not each wait for one.
 */
static int show_entry(struct stub_front *o, ino_t ino, int fd, struct stub_view *view)
{
	const struct stubvfs *x = o->maybe ? glue_connection(o) : NULL;
	struct stub_wait wait = { .once = x && x->entry && x->entry == ino };

	if (wait.once && is_told(x, o, fd, view))
		return 0;
	return stub_need_shown(o, &wait, view, NULL);
}

static ino_t ino_of(const struct stub_front *o, const struct files_struct *fsp)
{
	struct stat st;

	if (!o->maybe || !glue_connection(o)->entry || !fsp->fsp_flags.is_pathref ||
	    fstatat(fsp_get_pathref_fd(fsp), "", &st, AT_EMPTY_PATH) < 0)
		return 0;
	return st.st_ino;
}

int stubvfs_fstat(struct vfs_handle_struct *handle, struct files_struct *fsp, SMB_STRUCT_STAT *st)
{
	struct stub_view view;
	struct stub_front o;
	int r;

	glue_of_fsp(handle, fsp, &o);
	r = show_entry(&o, ino_of(&o, fsp), fsp_get_pathref_fd(fsp), &view);
	if (r < 0)
		return glue_fail(r);
	r = SMB_VFS_NEXT_FSTAT(handle, fsp, st);
	if (r == 0 && !fsp_is_alternate_stream(fsp))
		show(handle, &view, st);
	return r;
}

/* How one of the calls by path reaches NEXT. */
struct by_path {
	struct vfs_handle_struct *handle;
	const struct files_struct *dirfsp;
	const struct smb_filename *name;
	struct smb_filename *out; /* stat, lstat: the same */
	SMB_STRUCT_STAT *st;
	int flags; /* of fstatat */
};

static int stat_next(struct by_path *p)
{
	struct vfs_handle_struct *handle = p->handle;

	if (p->dirfsp)
		return SMB_VFS_NEXT_FSTATAT(handle, p->dirfsp, p->name, p->st, p->flags);
	return p->flags & AT_SYMLINK_NOFOLLOW ? SMB_VFS_NEXT_LSTAT(handle, p->out) :
						SMB_VFS_NEXT_STAT(handle, p->out);
}

/* 0 or -1: NEXT's; 1: try again; less than -1: an error for glue_fail() */
static int stat_once(struct by_path *p, int dirfd, bool follow)
{
	struct stub_view view;
	struct stub_front o;
	int r, error, fd = glue_open_path(dirfd, p->name->base_name, follow);

	if (fd >= 0) {
		glue_of_fd(p->handle, fd, &o);
		r = show_entry(&o, o.ino, fd, &view);
		close(fd);
	} else {
		ZERO_STRUCT(o);
		ZERO_STRUCT(view);
		r = fd;
	}
	if (r < 0 && r != -ENOENT && r != -EACCES && r != -ENOTDIR && r != -ELOOP &&
	    r != -ENAMETOOLONG)
		return glue_fail(r);
	r = stat_next(p);
	error = errno;
	if (r < 0) {
		r = stubvfs_bring(p->handle, dirfd, p->name->base_name, follow, error);
		if (r < 0)
			return glue_fail(r);
		errno = error;
		return r > 0 ? 1 : -1;
	}
	if (p->st->st_ex_dev == stubvfs(p->handle)->dev && p->st->st_ex_ino != o.ino &&
	    o.ino)
		return 1;
	show(p->handle, &view, p->st);
	return 0;
}

static int stat_path(struct by_path *p)
{
	int dirfd = p->dirfsp ? fsp_get_pathref_fd(p->dirfsp) : AT_FDCWD, r = 1;
	bool follow = !(p->flags & AT_SYMLINK_NOFOLLOW);

	if (stubvfs_hides(p->handle, dirfd, p->name->base_name))
		return glue_fail(-ENOENT);
	if (!stubvfs(p->handle) || is_named_stream(p->name))
		return stat_next(p);
	for (int i = 0; r == 1 && i < TRIES; i++)
		r = stat_once(p, dirfd, follow);
	return r == 1 ? glue_fail(-EAGAIN) : r;
}

int stubvfs_stat(struct vfs_handle_struct *handle, struct smb_filename *name)
{
	struct by_path p = { .handle = handle, .name = name, .out = name, .st = &name->st };

	return stat_path(&p);
}

int stubvfs_lstat(struct vfs_handle_struct *handle, struct smb_filename *name)
{
	struct by_path p = { .handle = handle, .name = name, .out = name, .st = &name->st,
			     .flags = AT_SYMLINK_NOFOLLOW };

	return stat_path(&p);
}

int stubvfs_fstatat(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		    const struct smb_filename *name, SMB_STRUCT_STAT *st, int flags)
{
	struct by_path p = { .handle = handle, .dirfsp = dirfsp, .name = name, .st = st,
			     .flags = flags };

	return stat_path(&p);
}

/* ---- changes ---- */

int stubvfs_fchmod(struct vfs_handle_struct *handle, struct files_struct *fsp, mode_t mode)
{
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_FCHMOD(handle, fsp, mode));
}

int stubvfs_fchown(struct vfs_handle_struct *handle, struct files_struct *fsp, uid_t uid,
		   gid_t gid)
{
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_FCHOWN(handle, fsp, uid, gid));
}

int stubvfs_lchown(struct vfs_handle_struct *handle, const struct smb_filename *name, uid_t uid,
		   gid_t gid)
{
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	struct stub_front o;
	int r;

	if (stubvfs_hides(handle, AT_FDCWD, name->base_name))
		return glue_fail(-ENOENT);
	if (!glue_heeds_changes(handle))
		return SMB_VFS_NEXT_LCHOWN(handle, name, uid, gid);
	r = stubvfs_bring(handle, AT_FDCWD, name->base_name, false, ENOENT);
	if (r >= 0)
		r = glue_of_path(handle, AT_FDCWD, name->base_name, false, &o);
	if (r == 0)
		r = stub_bracket_attrs(&o, &wait, &change);
	if (r < 0)
		return glue_fail(r);
	return (int)glue_end(&change, SMB_VFS_NEXT_LCHOWN(handle, name, uid, gid));
}

int stubvfs_fntimes(struct vfs_handle_struct *handle, struct files_struct *fsp,
		    struct smb_file_time *ft)
{
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_FNTIMES(handle, fsp, ft));
}

int stubvfs_fchflags(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     unsigned int flags)
{
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_FCHFLAGS(handle, fsp, flags));
}

int stubvfs_sys_acl_set_fd(struct vfs_handle_struct *handle, struct files_struct *fsp,
			   SMB_ACL_TYPE_T type, SMB_ACL_T acl)
{
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_SYS_ACL_SET_FD(handle, fsp, type, acl));
}

int stubvfs_sys_acl_delete_def_fd(struct vfs_handle_struct *handle, struct files_struct *fsp)
{
	struct stub_bracket change;

	if (!glue_change_fsp(handle, fsp, STUB_OWED_ATTRS, &change))
		return -1;
	return (int)glue_end(&change, SMB_VFS_NEXT_SYS_ACL_DELETE_DEF_FD(handle, fsp));
}

/* ---- DOS attributes ---- */

/*
 * A file whose data is still at the old server is OFFLINE: clients show it so, wait
 * longer for it, and virus scanners and indexers leave it alone.  It is computed, never
 * stored.  When the last byte has come, clients are notified of the change (read.c).
 */
#define COMPUTED (FILE_ATTRIBUTE_OFFLINE | STUBVFS_ATTRIBUTE_RECALL)

static bool is_offline(struct vfs_handle_struct *handle, struct files_struct *fsp)
{
	struct stub_view view;
	struct stub_front o;

	glue_of_fsp(handle, fsp, &o);
	if (stub_front_look_fd(&o, fsp_get_pathref_fd(fsp), &view) < 0 || !(view.needs & STUB_NEEDS_DATA))
		return false;
	if (o.known)
		glue_known(&o)->offline = true;
	return true;
}

NTSTATUS stubvfs_fget_dos_attributes(struct vfs_handle_struct *handle, struct files_struct *fsp,
				     uint32_t *mode)
{
	uint32_t computed = is_offline(handle, fsp) ? stubvfs(handle)->offline : 0;
	NTSTATUS status;

	*mode |= computed; /* smbd keeps it where NEXT knows of no attributes */
	status = SMB_VFS_NEXT_FGET_DOS_ATTRIBUTES(handle, fsp, mode);
	*mode |= computed;
	return status;
}

NTSTATUS stubvfs_fset_dos_attributes(struct vfs_handle_struct *handle, struct files_struct *fsp,
				     uint32_t mode)
{
	if (stubvfs(handle))
		mode &= ~COMPUTED;
	return SMB_VFS_NEXT_FSET_DOS_ATTRIBUTES(handle, fsp, mode);
}

/*
 * By name and asynchronously, for the entries of a listing: while there is anything to
 * migrate smbd is sent to the call above, which sees the open file.
 */
struct get_state {
	struct vfs_aio_state aio;
	uint32_t mode;
};

static void get_done(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	struct get_state *s = tevent_req_data(req, struct get_state);
	NTSTATUS status = SMB_VFS_NEXT_GET_DOS_ATTRIBUTES_RECV(sub, &s->aio, &s->mode);

	TALLOC_FREE(sub);
	if (!tevent_req_nterror(req, status))
		tevent_req_done(req);
}

struct tevent_req *stubvfs_get_dos_attributes_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
						   struct vfs_handle_struct *handle,
						   files_struct *dirfsp, struct smb_filename *name)
{
	struct tevent_req *req, *sub;
	struct get_state *s;

	req = tevent_req_create(mem_ctx, &s, struct get_state);
	if (!req)
		return NULL;
	if (glue_migrating(handle)) {
		tevent_req_nterror(req, NT_STATUS_NOT_IMPLEMENTED);
		return tevent_req_post(req, ev);
	}
	sub = SMB_VFS_NEXT_GET_DOS_ATTRIBUTES_SEND(s, ev, handle, dirfsp, name);
	if (tevent_req_nomem(sub, req))
		return tevent_req_post(req, ev);
	tevent_req_set_callback(sub, get_done, req);
	return req;
}

NTSTATUS stubvfs_get_dos_attributes_recv(struct tevent_req *req, struct vfs_aio_state *aio,
					 uint32_t *mode)
{
	struct get_state *s = tevent_req_data(req, struct get_state);
	NTSTATUS status;

	if (tevent_req_is_nterror(req, &status)) {
		tevent_req_received(req);
		return status;
	}
	*aio = s->aio;
	*mode = s->mode;
	tevent_req_received(req);
	return NT_STATUS_OK;
}

uint32_t stubvfs_fs_capabilities(struct vfs_handle_struct *handle,
				 enum timestamp_set_resolution *resolution)
{
	uint32_t caps = SMB_VFS_NEXT_FS_CAPABILITIES(handle, resolution);

	return glue_migrating(handle) ? caps | FILE_SUPPORTS_REMOTE_STORAGE : caps;
}
