/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * main.c - a client connects to a share; the table of functions.
 */
#include "stub_glue.h"

#include <errno.h>

#define WAIT_MS 12000
#define GIVE_UP 300

static int stubvfs_free(struct stubvfs *x)
{
	bool root;

	if (!x->gate.volume)
		return 0;
	root = glue_root_enter();
	glue_link_destroy(x);
	x->over = true;
	if (x->flying) {
		glue_root_leave(root);
		return -1;
	}
	stub_volume_close(x->gate.volume);
	glue_root_leave(root);
	x->gate.volume = NULL;
	return 0;
}

static const char *why(int r)
{
	return r == -EBADMSG	     ? STUB_DIR " is damaged" :
	       r == -ENODEV	     ? "it is not the one of stub:volume: is its file system mounted?" :
	       r == -EINVAL	     ? "stub:volume is no UUID" :
	       r == -EXDEV	     ? "it is a copy of a volume, see above" :
	       r == -ENOLCK	     ? "this node does not hold its lease, see above" :
	       r == -EPROTONOSUPPORT ? "it was made by a newer release of postcopy, install that one, or a later one" :
				       strerror(-r);
}

/* Note the path of the volume, with which results of realpath are compared. */
static int know_root(struct stubvfs *x)
{
	char link[32], path[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", stub_volume_fd(x->gate.volume));
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 || fstat(stub_volume_fd(x->gate.volume), &st) < 0)
		return -errno;
	path[n] = '\0';
	x->dev = st.st_dev;
	x->root = talloc_strdup(x, path);
	return x->root ? 0 : -ENOMEM;
}

/*
 * Modules that read, write or open by themselves, without calling NEXT.  Above us they would
 * show holes as zeros and change stubs without a bracket; below us they do no harm.
 */
static const char *const around_us[] = { "aio_fork", "aio_pthread", "btrfs", "ceph",
					 "glusterfs", "gpfs",	    "io_uring" };

/* As smb.conf names it: perhaps with a path, ".so" and ":parameter". */
static bool is_module(const char *entry, const char *name)
{
	const char *slash = strrchr(entry, '/');
	size_t n = strlen(name);

	entry = slash ? slash + 1 : entry;
	return !strncmp(entry, name, n) && (!entry[n] || entry[n] == ':' || entry[n] == '.');
}

/* A module that goes around us; NULL: none does. */
static const char *goes_around(int snum)
{
	const char **list = lp_vfs_objects(snum);
	bool above = true;

	for (int i = 0; list && list[i]; i++) {
		/* it moves files to other file systems by copying what is local, wherever it stands */
		if (is_module(list[i], "crossrename"))
			return list[i];
		if (is_module(list[i], "stub"))
			above = false;
		for (size_t k = 0; above && k < ARRAY_SIZE(around_us); k++)
			if (is_module(list[i], around_us[k]))
				return list[i];
	}
	return NULL;
}

/* Does smbd need nothing of an entry to list it but what a listing shows?  Who is shown only what
 * he may read or write is shown nothing before that is known; fruit adds rights and modes. */
static bool told_will_do(int snum)
{
	const char **list = lp_vfs_objects(snum);

	for (int i = 0; list && list[i]; i++)
		if (is_module(list[i], "fruit"))
			return false;
	return lp_store_dos_attributes(snum) && !lp_hide_unreadable(snum) &&
	       !lp_hide_unwriteable_files(snum);
}

/*
 * 0, also where nothing is to be migrated; -errno: the share cannot be used.  The end of @path
 * may not have come from the old server yet; then the volume is that of the deepest directory
 * that is here.  @uuid: of the only volume to be served; NULL: whatever is there.
 */
static int volume_open(struct stubvfs *x, const char *path, const char *uuid)
{
	bool root = glue_root_enter();
	const unsigned int flags = STUB_OPEN_SEARCH | STUB_OPEN_FOLD | STUB_OPEN_NEWS;
	char *at = talloc_strdup(x, path), *slash;
	struct stat st;
	int r = at ? stub_volume_open(at, flags, glue_log, NULL, &x->gate.volume) : -ENOMEM;

	while (r == -ENOENT && lstat(at, &st) < 0 && errno == ENOENT &&
	       (slash = strrchr(at, '/')) && slash > at) {
		*slash = '\0';
		r = stub_volume_open(at, flags, glue_log, NULL, &x->gate.volume);
	}
	TALLOC_FREE(at);
	if (r == 0)
		r = know_root(x);
	else
		x->gate.volume = NULL;
	if (r == -ENOENT && !x->gate.volume)
		r = 0;
	if (r == 0 && uuid)
		r = stub_volume_expect(x->gate.volume, path, uuid);
	if (r == 0 && uuid && !x->gate.volume && stat(path, &st) == 0) /* finished, and still this one */
		x->dev = st.st_dev;
	glue_root_leave(root);
	return r;
}

static int stubvfs_connect(struct vfs_handle_struct *handle, const char *service,
			   const char *user)
{
	int snum = SNUM(handle->conn), r;
	struct stubvfs *x;

	r = SMB_VFS_NEXT_CONNECT(handle, service, user);
	if (r < 0)
		return r;
	x = talloc_zero(handle->conn, struct stubvfs);
	if (!x) {
		SMB_VFS_NEXT_DISCONNECT(handle);
		errno = ENOMEM;
		return -1;
	}
	talloc_set_destructor(x, stubvfs_free);
	x->sconn = handle->conn->sconn;
	x->wait_ms = (unsigned int)lp_parm_int(snum, "stub", "wait", WAIT_MS);
	x->give_up = (unsigned int)lp_parm_int(snum, "stub", "give up", GIVE_UP);
	x->gate.denied = stubvfs_recall_denied(handle->conn, user);
	stubvfs_recall_who(handle->conn, user, x->who);
	x->offline = FILE_ATTRIBUTE_OFFLINE;
	if (lp_parm_bool(snum, "stub", "recall attribute", false))
		x->offline |= STUBVFS_ATTRIBUTE_RECALL;
	x->told_will_do = told_will_do(snum);
	x->gate.ops = &glue_gate_ops;
	x->gate.alone = x->gate.tells = true;
	r = volume_open(x, handle->conn->connectpath,
			lp_parm_const_string(snum, "stub", "volume", NULL));
	if (r < 0) {
		DBG_ERR("share %s: cannot open the volume %s: %s\n", service,
			handle->conn->connectpath, why(r));
		TALLOC_FREE(x);
		SMB_VFS_NEXT_DISCONNECT(handle);
		errno = r == -ENOMEM ? ENOMEM : EIO;
		return -1;
	}
	if (x->gate.volume && goes_around(snum)) {
		DBG_ERR("share %s: vfs objects: %s does not go with stub, or has to stand behind it\n",
			service, goes_around(snum));
		TALLOC_FREE(x);
		SMB_VFS_NEXT_DISCONNECT(handle);
		errno = EINVAL;
		return -1;
	}
	if (!x->gate.volume)
		DBG_NOTICE("share %s: no volume here, everything passes through\n", service);
	handle->data = x;
	return 0;
}

static void stubvfs_disconnect(struct vfs_handle_struct *handle)
{
	struct stubvfs *x = handle->data;

	SMB_VFS_NEXT_DISCONNECT(handle);
	handle->data = NULL;
	TALLOC_FREE(x);
}

struct vfs_fn_pointers stubvfs_fns = {
	.connect_fn = stubvfs_connect,
	.disconnect_fn = stubvfs_disconnect,
	.fs_capabilities_fn = stubvfs_fs_capabilities,

	.create_file_fn = stubvfs_create_file,
	.openat_fn = stubvfs_openat,
	.close_fn = stubvfs_close,
	.fdopendir_fn = stubvfs_fdopendir,
	.readdir_fn = compat_fn_readdir,
	.get_real_filename_at_fn = stubvfs_get_real_filename_at,
	.chdir_fn = stubvfs_chdir,
	.realpath_fn = stubvfs_realpath,
	.readlinkat_fn = stubvfs_readlinkat,

	.mkdirat_fn = stubvfs_mkdirat,
	.mknodat_fn = stubvfs_mknodat,
	.symlinkat_fn = stubvfs_symlinkat,
	.linkat_fn = stubvfs_linkat,
	.unlinkat_fn = stubvfs_unlinkat,
	.renameat_fn = compat_fn_renameat,

	.stat_fn = stubvfs_stat,
	.lstat_fn = stubvfs_lstat,
	.fstat_fn = stubvfs_fstat,
	.fstatat_fn = stubvfs_fstatat,
	.fchmod_fn = stubvfs_fchmod,
	.fchown_fn = stubvfs_fchown,
	.lchown_fn = stubvfs_lchown,
	.fntimes_fn = stubvfs_fntimes,
	.fchflags_fn = stubvfs_fchflags,
	.sys_acl_set_fd_fn = stubvfs_sys_acl_set_fd,
	.sys_acl_delete_def_fd_fn = stubvfs_sys_acl_delete_def_fd,
	.fget_dos_attributes_fn = stubvfs_fget_dos_attributes,
	.fset_dos_attributes_fn = stubvfs_fset_dos_attributes,
	.get_dos_attributes_send_fn = stubvfs_get_dos_attributes_send,
	.get_dos_attributes_recv_fn = stubvfs_get_dos_attributes_recv,

	.pread_fn = stubvfs_pread,
	.pread_send_fn = stubvfs_pread_send,
	.pread_recv_fn = stubvfs_pread_recv,
	.sendfile_fn = stubvfs_sendfile,
	.aio_force_fn = stubvfs_aio_force,

	.pwrite_fn = stubvfs_pwrite,
	.pwrite_send_fn = stubvfs_pwrite_send,
	.pwrite_recv_fn = stubvfs_pwrite_recv,
	.recvfile_fn = stubvfs_recvfile,
	.lseek_fn = stubvfs_lseek,
	.ftruncate_fn = stubvfs_ftruncate,
	.fallocate_fn = stubvfs_fallocate,
	.fsync_send_fn = stubvfs_fsync_send,
	.fsync_recv_fn = stubvfs_fsync_recv,

	.offload_read_send_fn = stubvfs_offload_read_send,
	.offload_read_recv_fn = stubvfs_offload_read_recv,
	.offload_write_send_fn = stubvfs_offload_write_send,
	.offload_write_recv_fn = stubvfs_offload_write_recv,

	.getxattrat_send_fn = stubvfs_getxattrat_send,
	.getxattrat_recv_fn = stubvfs_getxattrat_recv,
	.fgetxattr_fn = stubvfs_fgetxattr,
	.flistxattr_fn = stubvfs_flistxattr,
	.fremovexattr_fn = stubvfs_fremovexattr,
	.fsetxattr_fn = stubvfs_fsetxattr,
};

_PUBLIC_ NTSTATUS samba_init_module(TALLOC_CTX *ctx);
_PUBLIC_ NTSTATUS samba_init_module(TALLOC_CTX *ctx)
{
	int own = debug_add_class("stub");

	if (own >= 0)
		stubvfs_debug_class = own;
	return smb_register_vfs(SMB_VFS_INTERFACE_VERSION, "stub", &stubvfs_fns);
}
