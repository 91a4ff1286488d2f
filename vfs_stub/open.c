/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * open.c - open, directories, and every other way from a path to an object.
 *
 * Opening is not reading: it fetches names and attributes, never data (docs/design.md,
 * section 7).
 * smbd opens each name twice, first by O_PATH.  NEXT is called first, as the user: for what
 * is here that is all.  Only when NEXT does not find it, or may not go there, is the path
 * walked as root, to bring what is still at the old server (stubvfs_bring); then NEXT is
 * called again, and checks the user's rights anew on everything.
 *
 * NEXT never sees O_TRUNC of a file that may be a stub: a truncation that is not in the
 * bracket would leave the old content in the missing map.
 */
#include "stub_glue.h"
#include "smbd/globals.h"
#include "system/dir.h"

#include <errno.h>

#define BRING_TRIES 8 /* after so many walks that brought something NEXT's error stands */
#define LINKS_MAX   40 /* symlinks on one path */

/* ---- the way to an object ---- */

struct walk {
	struct vfs_handle_struct *handle;
	struct stub_wait *wait;
	char path[PATH_MAX]; /* what is left to walk */
	int fd;		     /* the directory we are in */
	bool follow;
	bool moved; /* something has come */
	unsigned int links;
};

/* Take the first name off the path.  False: none is left. */
static bool walk_name(struct walk *w, char name[NAME_MAX + 1])
{
	char *p = w->path + strspn(w->path, "/");
	size_t n = strcspn(p, "/");

	if (n == 0 || n > NAME_MAX)
		return false;
	memcpy(name, p, n);
	name[n] = '\0';
	p += n;
	p += strspn(p, "/");
	memmove(w->path, p, strlen(p) + 1);
	return true;
}

/* @name is a symlink: put its target before what is left of the path. */
static int walk_link(struct walk *w, const char *name)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n = readlinkat(w->fd, name, target, sizeof(target) - 1);

	if (n <= 0 || ++w->links > LINKS_MAX)
		return -ENOENT;
	target[n] = '\0';
	if (target[0] == '/') {
		int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		close(w->fd);
		w->fd = fd;
	}
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", target, w->path) >= sizeof(path))
		return -ENOENT;
	memcpy(w->path, path, strlen(path) + 1);
	return 0;
}

/* Walk into @name in the directory @dir, bringing it if need be.  0, -ENOENT: there is none,
 * or -errno. */
static int walk_into(struct walk *w, struct stub_front *dir, const struct stub_view *view,
		     const char *name)
{
	struct stat st;
	int fd, r;

	fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT &&
	    view->needs & (STUB_NEEDS_ENTRIES | STUB_NEEDS_REFUSED | STUB_NEEDS_FOREIGN)) {
		r = stub_need_name(dir, w->wait, name);
		if (r < 0)
			return r;
		fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		w->moved |= fd >= 0;
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
		close(fd);
		if (w->path[0] == '\0' && !w->follow)
			return 0;
		return walk_link(w, name);
	}
	close(w->fd);
	w->fd = fd;
	return 0;
}

static int walk_path(struct walk *w)
{
	char name[NAME_MAX + 1];

	for (;;) {
		struct stub_view view;
		struct stub_front o;
		int r;

		glue_of_fd(w->handle, w->fd, &o);
		r = stub_front_look(&o, &view);
		if (r == 0 && view.needs & STUB_NEEDS_ATTRS) {
			r = stub_need_attrs(&o, w->wait, &view);
			w->moved = true;
		}
		if (r < 0 || !walk_name(w, name))
			return r;
		r = walk_into(w, &o, &view, name);
		if (r < 0)
			return r;
	}
}

static int bring_as_root(struct walk *w, int dirfd, const char *path)
{
	int r;

	w->fd = path[0] == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) :
				 openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->fd < 0)
		return -errno;
	r = walk_path(w);
	close(w->fd);
	return r;
}

static int bring(struct vfs_handle_struct *handle, struct stub_wait *wait, int dirfd,
		 const char *path, bool follow, int error)
{
	struct walk w;
	bool root;
	int r;

	if (!glue_migrating(handle) || (error != ENOENT && error != EACCES && error != EPERM) ||
	    strlen(path) >= sizeof(w.path))
		return 0;
	w.handle = handle;
	w.wait = wait;
	w.follow = follow;
	w.moved = false;
	w.links = 0;
	memcpy(w.path, path, strlen(path) + 1);
	root = glue_root_enter();
	r = bring_as_root(&w, dirfd, path);
	glue_root_leave(root);
	if (w.moved && (r == 0 || r == -ENOENT))
		return 1;
	if (r == -ENOENT || r == -ENOTDIR || r == -EACCES)
		return 0;
	if (r < 0)
		return r;
	return error == ENOENT; /* it is there: somebody else brought it since NEXT looked */
}

int stubvfs_bring(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		  int error)
{
	struct stub_wait wait = { 0 };

	return bring(handle, &wait, dirfd, path, follow, error);
}

/* After NEXT has failed: true to try again, else errno is what to answer. */
static bool again(struct vfs_handle_struct *handle, struct stub_wait *wait, int dirfd,
		  const char *path, bool follow, int *tries)
{
	int error = errno, r;

	if (*tries >= BRING_TRIES)
		return false;
	r = bring(handle, wait, dirfd, path, follow, error);
	if (r < 0)
		glue_fail(r);
	else
		errno = error;
	*tries += 1;
	return r > 0;
}

/* ---- open ---- */

/*
 * A directory that a client opens to list or to watch it is listed now: a client that watches
 * it would take entries that come later for new ones.  If it cannot be listed it is open all
 * the same, and readdir gives the error.  Only what smbd opens for itself (is_dirfsp) must fail
 * here: when fdopendir fails, smbd 4.17 leaves it open, and panics when the client leaves.
 */
static int list_ahead(struct vfs_handle_struct *handle, const struct files_struct *fsp, int fd)
{
	struct stub_wait wait = { 0 };
	struct stub_front o;
	int r;

	if (fsp->fsp_flags.is_pathref || !(fsp->access_mask & SEC_DIR_LIST))
		return 0;
	glue_of_fd(handle, fd, &o);
	if (!o.maybe || !S_ISDIR(o.mode))
		return 0;
	glue_wait_for_entries(&o, &wait);
	r = stub_need_entries(&o, &wait);
	return r < 0 && fsp->fsp_flags.is_dirfsp ? glue_fail(r) : 0;
}

/* A file whose attributes cannot be had is shown, but not opened: nobody knows who may. */
static int withheld(struct vfs_handle_struct *handle, const struct files_struct *fsp, int fd)
{
	struct stub_wait wait = { 0 };
	struct stub_view view;
	struct stub_front o;
	int r;

	if (fsp->fsp_flags.is_pathref)
		return 0;
	glue_of_fd(handle, fd, &o);
	if (!o.maybe || !S_ISREG(o.mode))
		return 0;
	r = stub_need_attrs(&o, &wait, &view);
	return r < 0 ? glue_fail(r) : 0;
}

static bool is_procfd(const char *path)
{
	return strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* Cut the file behind @fd to size 0, in a bracket. */
static int truncate_opened(struct vfs_handle_struct *handle, int fd)
{
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	struct stub_front o;
	int r;

	glue_of_fd(handle, fd, &o);
	if (!S_ISREG(o.mode) && o.gate)
		return 0;
	o.owes = STUB_OWED_DATA | STUB_OWED_ATTRS;
	r = stub_bracket_attrs(&o, &wait, &change);
	if (r < 0)
		return glue_fail(r);
	return (int)glue_end(&change, ftruncate(fd, 0));
}

static int close_failed(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
	return -1;
}

/* May the client have what NEXT has opened as @fd? */
static int admit(struct vfs_handle_struct *handle, const struct files_struct *fsp, int flags,
		 int fd)
{
	return fd >= 0 && stubvfs_refuses_opened(handle, fsp, fd, flags) ? close_failed(fd) : fd;
}

static int open_creating(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
			 const struct smb_filename *name, struct files_struct *fsp,
			 const struct vfs_open_how *how)
{
	struct stub_bracket change;
	struct stub_wait wait = { 0 };
	int fd, r;

	if (!fsp->fsp_flags.is_pathref)
		glue_wait_short(&wait); /* smbd comes again for about a minute */
	r = stubvfs_make_begin(handle, dirfsp, name, &wait, &change);
	if (r < 0)
		return glue_fail(r);
	fd = SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, how);
	if (glue_end(&change, fd) < 0 && fd >= 0)
		return close_failed(fd);
	return fd;
}

/* A file in which streams_depot keeps a stream: no stub, but a mirror has it too. */
static int open_stream(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		       const struct smb_filename *name, struct files_struct *fsp,
		       const struct vfs_open_how *how)
{
	struct vfs_open_how below = *how;
	int fd;

	if (!dirfsp || is_named_stream(name) || !glue_mirrored(handle) ||
	    !(how->flags & (O_CREAT | O_TRUNC)))
		return SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, how);
	below.flags &= ~O_TRUNC;
	fd = how->flags & O_CREAT ? open_creating(handle, dirfsp, name, fsp, &below) :
				    SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, &below);
	if (fd >= 0 && how->flags & O_TRUNC && truncate_opened(handle, fd) < 0)
		return close_failed(fd);
	return fd;
}

int stubvfs_openat(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		   const struct smb_filename *name, struct files_struct *fsp,
		   const struct vfs_open_how *how)
{
	struct vfs_open_how below = *how;
	struct stub_wait wait = { 0 };
	int dirfd, fd, tries = 0;

	if (!dirfsp || is_named_stream(name) || fsp_is_alternate_stream(fsp))
		return open_stream(handle, dirfsp, name, fsp, how);
	if (stubvfs_refuses_names(handle, dirfsp))
		return -1;
	if (!stubvfs(handle))
		return admit(handle, fsp, how->flags,
			     SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, how));
	dirfd = fsp_get_pathref_fd(dirfsp);
	if (stubvfs_hides(handle, dirfd, name->base_name)) {
		errno = how->flags & O_CREAT ? EACCES : ENOENT;
		return -1;
	}
	if (!glue_heeds_changes(handle))
		return admit(handle, fsp, how->flags,
			     SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, how));
	below.flags &= ~O_TRUNC;
	if (is_procfd(name->base_name)) {
		fd = SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, &below);
	} else if (how->flags & O_CREAT) {
		fd = open_creating(handle, dirfsp, name, fsp, &below);
	} else {
		do
			fd = SMB_VFS_NEXT_OPENAT(handle, dirfsp, name, fsp, &below);
		while (fd < 0 && again(handle, &wait, dirfd, name->base_name, false, &tries));
		/* smbd takes any other error on the way for "no such path" */
		if (fd < 0 && wait.begun && how->flags & COMPAT_ON_THE_WAY && errno != ENOENT &&
		    errno != ENOTDIR && errno != ELOOP)
			errno = EACCES;
	}
	fd = admit(handle, fsp, how->flags, fd);
	if (fd >= 0 && withheld(handle, fsp, fd) < 0)
		return close_failed(fd);
	if (fd >= 0 && how->flags & O_TRUNC && truncate_opened(handle, fd) < 0)
		return close_failed(fd);
	if (fd >= 0 && list_ahead(handle, fsp, fd) < 0)
		return close_failed(fd);
	return fd;
}

int stubvfs_close(struct vfs_handle_struct *handle, struct files_struct *fsp)
{
	VFS_REMOVE_FSP_EXTENSION(handle, fsp); /* smbd opens others with the same fsp */
	return SMB_VFS_NEXT_CLOSE(handle, fsp);
}

/* ---- directories ---- */

DIR *stubvfs_fdopendir(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       const char *mask, uint32_t attributes)
{
	struct stub_wait wait = { 0 };
	struct stub_front o;
	int r = 0;

	glue_of_fsp(handle, fsp, &o);
	glue_wait_for_entries(&o, &wait);
	if (!fsp->fsp_flags.is_dirfsp) /* that was listed when it was opened */
		r = stub_need_entries(&o, &wait);
	if (r < 0) {
		glue_fail(r);
		return NULL;
	}
	return SMB_VFS_NEXT_FDOPENDIR(handle, fsp, mask, attributes);
}

static void turn_over(struct tevent_context *ev, struct tevent_immediate *im, void *arg)
{
	struct stubvfs *x = arg;

	TALLOC_FREE(x->turn);
}

/* smbd answers a client's listing in one turn of its event loop: what it does in another one is
 * not for that listing. */
static void turn_begin(struct vfs_handle_struct *handle, struct stubvfs *x)
{
	if (x->turn)
		return;
	x->turn = tevent_create_immediate(x);
	if (x->turn)
		tevent_schedule_immediate(x->turn, handle->conn->sconn->ev_ctx, turn_over, x);
}

struct dirent *stubvfs_readdir(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
			       DIR *dir)
{
	struct stubvfs *x = stubvfs(handle);
	struct dirent *entry;

	do
		entry = compat_next_readdir(handle, dirfsp, dir);
	while (entry && stubvfs_hides_entry(handle, dirfd(dir), entry->d_name));
	if (x) {
		x->entry = entry ? entry->d_ino : 0;
		if (entry && x->told_will_do && !compat_lists_modes(dirfsp))
			turn_begin(handle, x);
	}
	return entry;
}

/* A name that is not there as it is written, but perhaps in other case. */
NTSTATUS stubvfs_get_real_filename_at(struct vfs_handle_struct *handle,
				      struct files_struct *dirfsp, const char *name,
				      TALLOC_CTX *mem_ctx, char **found)
{
	struct stub_wait wait = { 0 };
	struct stub_front o;
	int r;

	if (stubvfs_hides_entry(handle, fsp_get_pathref_fd(dirfsp), name))
		return NT_STATUS_OBJECT_NAME_NOT_FOUND;
	glue_of_fsp(handle, dirfsp, &o);
	r = stub_need_entries(&o, &wait);
	if (r < 0)
		return map_nt_error_from_unix(glue_errno(r));
	return SMB_VFS_NEXT_GET_REAL_FILENAME_AT(handle, dirfsp, name, mem_ctx, found);
}

/* ---- other paths ---- */

/*
 * smbd goes to the share's path again with each change of user or share.  When the file system
 * that the client was let into is detached meanwhile (umount -l), or another one is mounted over
 * it, that is what lies below or above: none of it is shown, and nothing written there.  Looked at
 * before: smbd would not know that a chdir() which failed has changed the directory.
 */
static bool is_away(struct vfs_handle_struct *handle, const char *path)
{
	struct stubvfs *x = handle->data;
	const char *top = handle->conn->connectpath;
	struct stat st;

	if (!x || !x->dev || path[0] != '/' || stat(top, &st) < 0 || st.st_dev == x->dev)
		return false;
	if (!x->away)
		DBG_ERR("share at %s: access refused: its file system is not mounted there any more: "
			"mount it again\n", top);
	x->away = true;
	return true;
}

int stubvfs_chdir(struct vfs_handle_struct *handle, const struct smb_filename *name)
{
	struct stub_wait wait = { 0 };
	int r, tries = 0;

	if (is_away(handle, name->base_name)) {
		errno = EIO;
		return -1;
	}
	if (stubvfs_hides(handle, AT_FDCWD, name->base_name)) {
		errno = ENOENT;
		return -1;
	}
	do
		r = SMB_VFS_NEXT_CHDIR(handle, name);
	while (r < 0 && again(handle, &wait, AT_FDCWD, name->base_name, true, &tries));
	return r;
}

struct smb_filename *stubvfs_realpath(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      const struct smb_filename *name)
{
	struct stub_wait wait = { 0 };
	struct smb_filename *real;
	int tries = 0;

	do
		real = SMB_VFS_NEXT_REALPATH(handle, mem_ctx, name);
	while (!real && again(handle, &wait, AT_FDCWD, name->base_name, true, &tries));
	if (real && stubvfs_hides_real(handle, real->base_name)) {
		TALLOC_FREE(real);
		errno = ENOENT;
	}
	return real;
}

int stubvfs_readlinkat(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		       const struct smb_filename *name, char *buf, size_t size)
{
	int dirfd = fsp_get_pathref_fd(dirfsp), r, tries = 0;
	struct stub_wait wait = { 0 };

	do
		r = SMB_VFS_NEXT_READLINKAT(handle, dirfsp, name, buf, size);
	while (r < 0 && again(handle, &wait, dirfd, name->base_name, false, &tries));
	return r;
}
