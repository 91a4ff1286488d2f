/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * vfs_stub.h - a Samba VFS module that shows a volume while it is being filled.
 *
 * It stands last in "vfs objects", above the file system.  Every operation first asks
 * libstubcore (stubfront.h) whether what it needs is there, then calls NEXT.  What a stub is,
 * only libstubcore knows.
 *
 * Rooms:
 *   main.c     connect, the table            open.c     open, directories, paths
 *   names.c    create, link, rename, unlink  attrs.c    stat, DOS attributes, owner
 *   data.c     write, truncate, seek, sync   read.c     read, asynchronously
 *   offload.c  server-side copy              xattrs.c   extended attributes
 *   guard.c    stubs of other volumes, or of none
 *   defer.c    opens that wait on smbd's event loop
 *   edge.c     errors, log, rights
 *   visible.c  what clients never see        recall.c   who may recall data
 *   wait.c     asks on smbd's event loop     stub_glue.c  objects, waiting, results
 *   forwarded.c  the functions that pass through on purpose
 *   compat.h   what differs between the Sambas that we are built for
 *
 * smbd is one process for each client, with one thread: reads, server-side copies and opening
 * a directory to list it wait on the event loop; a wait in any other call stops the client's
 * session, so it is bounded.  A bracket of libstubcore is never open while the old server is
 * waited for, nor across a turn of the event loop.
 *
 * smbd works with the user's rights.  Everything that libstubcore does is done as root,
 * through the gate of stub_glue.c; what the user asked for is done by NEXT, as the user.
 */
#ifndef VFS_STUB_H
#define VFS_STUB_H

#include "includes.h"
#include "smbd/smbd.h"
#include "system/filesys.h"

#include "stubfront.h"

/* a debug class of our own: "log level = 1 stub:10", smbcontrol smbd debug stub:10 */
extern int stubvfs_debug_class;
#undef DBGC_CLASS
#define DBGC_CLASS stubvfs_debug_class

/* FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS [MS-FSCC 2.6], which Samba does not know */
#define STUBVFS_ATTRIBUTE_RECALL 0x00400000u

struct stubvfs_guard;
struct stubvfs_link;
struct vfs_rename_how;

/* One connection to the share: handle->data. */
struct stubvfs {
	struct smbd_server_connection *sconn;
	struct stub_gate gate; /* with the volume, if there is anything to migrate */
	char *root;		    /* path of the volume */
	dev_t dev;		    /* its file system; 0: none is known that it must be */
	bool away;		    /* said that it is not mounted any more */
	unsigned int wait_ms;	    /* a call may stop the session for so long */
	unsigned int give_up;	    /* seconds after which an asynchronous wait is an error */
	char who[STUB_WHO_MAX + 1]; /* for the recall budget, see recall.c */
	uint32_t offline;	    /* DOS attributes of a file whose data is not here */
	struct stub_handle overdue; /* a directory whose listing did not come in time ... */
	uint64_t overdue_until;	    /* ... so that until then (ms) nobody waits long for it */
	ino_t entry; /* that smbd has just read of a directory, 0: none; attrs.c */
	struct stubvfs_link *link;
	struct stubvfs_guard *guard; /* NULL: nothing was looked at yet */
	/* of the event loop in which the entry was read; NULL: it is over, or nobody needs to know */
	struct tevent_immediate *turn;
	unsigned int flying; /* changes that are in flight in the ledger of a mirror ... */
	bool over; /* ... and the connection has ended: it is freed with the last one */
	bool told_will_do; /* to list an entry, smbd needs no more than the old server's listing tells */
};

/* NULL: nothing to migrate in this connection. */
static inline struct stubvfs *stubvfs(const struct vfs_handle_struct *handle)
{
	struct stubvfs *x = handle->data;

	return x && x->gate.volume ? x : NULL;
}

static inline struct stubvfs *stubvfs_of(const struct stub_gate *g)
{
	return (struct stubvfs *)((uintptr_t)g - offsetof(struct stubvfs, gate));
}

/* Parts of the table, one for each room. */
extern struct vfs_fn_pointers stubvfs_fns;

/* forwarded.c: what is not in the table, on purpose */
extern const char *const stubvfs_forwarded[];

/* The functions of each room; their arguments are those of Samba's VFS. */

/* open.c */
int stubvfs_openat(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		   const struct smb_filename *name, struct files_struct *fsp,
		   const struct vfs_open_how *how);
int stubvfs_close(struct vfs_handle_struct *handle, struct files_struct *fsp);
DIR *stubvfs_fdopendir(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       const char *mask, uint32_t attributes);
struct dirent *stubvfs_readdir(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
			       DIR *dir);
NTSTATUS stubvfs_get_real_filename_at(struct vfs_handle_struct *handle,
				      struct files_struct *dirfsp, const char *name,
				      TALLOC_CTX *mem_ctx, char **found);
int stubvfs_chdir(struct vfs_handle_struct *handle, const struct smb_filename *name);
struct smb_filename *stubvfs_realpath(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      const struct smb_filename *name);
int stubvfs_readlinkat(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		       const struct smb_filename *name, char *buf, size_t size);

/*
 * Has NEXT failed, with @error, because something on the way to @path is still at the old
 * server?  Fetches it.  1: call NEXT again; 0: no, @error stands; -errno for glue_fail().
 * @follow: if @path is a symlink, its target too.
 */
int stubvfs_bring(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		  int error);

/* defer.c */
NTSTATUS stubvfs_create_file(struct vfs_handle_struct *handle, struct smb_request *req,
			     struct files_struct *dirfsp, struct smb_filename *name,
			     uint32_t access_mask, uint32_t share_access, uint32_t disposition,
			     uint32_t options, uint32_t attributes, uint32_t oplock,
			     const struct smb2_lease *lease, uint64_t allocation, uint32_t flags,
			     struct security_descriptor *sd, struct ea_list *eas,
			     files_struct **result, int *info,
			     const struct smb2_create_blobs *in, struct smb2_create_blobs *out);

/* names.c */
int stubvfs_mkdirat(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
		    const struct smb_filename *name, mode_t mode);
int stubvfs_mknodat(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
		    const struct smb_filename *name, mode_t mode, SMB_DEV_T dev);
int stubvfs_symlinkat(struct vfs_handle_struct *handle, const struct smb_filename *target,
		      struct files_struct *dirfsp, const struct smb_filename *name);
int stubvfs_linkat(struct vfs_handle_struct *handle, struct files_struct *old_dirfsp,
		   const struct smb_filename *old_name, struct files_struct *new_dirfsp,
		   const struct smb_filename *new_name, int flags);
int stubvfs_unlinkat(struct vfs_handle_struct *handle, struct files_struct *dirfsp,
		     const struct smb_filename *name, int flags);
int stubvfs_renameat(struct vfs_handle_struct *handle, struct files_struct *old_dirfsp,
		     const struct smb_filename *old_name, struct files_struct *new_dirfsp,
		     const struct smb_filename *new_name, const struct vfs_rename_how *how);

/* names.c: before a name is made: if the old server has it, it is here afterwards.  Then opens
 * the bracket on the directory.  0 or -errno. */
int stubvfs_make_begin(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		       const struct smb_filename *name, struct stub_wait *w,
		       struct stub_bracket *change);

/* attrs.c */
int stubvfs_stat(struct vfs_handle_struct *handle, struct smb_filename *name);
int stubvfs_lstat(struct vfs_handle_struct *handle, struct smb_filename *name);
int stubvfs_fstat(struct vfs_handle_struct *handle, struct files_struct *fsp, SMB_STRUCT_STAT *st);
int stubvfs_fstatat(struct vfs_handle_struct *handle, const struct files_struct *dirfsp,
		    const struct smb_filename *name, SMB_STRUCT_STAT *st, int flags);
int stubvfs_fchmod(struct vfs_handle_struct *handle, struct files_struct *fsp, mode_t mode);
int stubvfs_fchown(struct vfs_handle_struct *handle, struct files_struct *fsp, uid_t uid,
		   gid_t gid);
int stubvfs_lchown(struct vfs_handle_struct *handle, const struct smb_filename *name, uid_t uid,
		   gid_t gid);
int stubvfs_fntimes(struct vfs_handle_struct *handle, struct files_struct *fsp,
		    struct smb_file_time *ft);
int stubvfs_fchflags(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     unsigned int flags);
NTSTATUS stubvfs_fget_dos_attributes(struct vfs_handle_struct *handle, struct files_struct *fsp,
				     uint32_t *mode);
NTSTATUS stubvfs_fset_dos_attributes(struct vfs_handle_struct *handle, struct files_struct *fsp,
				     uint32_t mode);
struct tevent_req *stubvfs_get_dos_attributes_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
						   struct vfs_handle_struct *handle,
						   files_struct *dirfsp,
						   struct smb_filename *name);
NTSTATUS stubvfs_get_dos_attributes_recv(struct tevent_req *req, struct vfs_aio_state *state,
					 uint32_t *mode);
int stubvfs_sys_acl_set_fd(struct vfs_handle_struct *handle, struct files_struct *fsp,
			   SMB_ACL_TYPE_T type, SMB_ACL_T acl);
int stubvfs_sys_acl_delete_def_fd(struct vfs_handle_struct *handle, struct files_struct *fsp);
uint32_t stubvfs_fs_capabilities(struct vfs_handle_struct *handle,
				 enum timestamp_set_resolution *resolution);

/* read.c */
ssize_t stubvfs_pread(struct vfs_handle_struct *handle, struct files_struct *fsp, void *data,
		      size_t n, off_t offset);
struct tevent_req *stubvfs_pread_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      struct tevent_context *ev, struct files_struct *fsp,
				      void *data, size_t n, off_t offset);
ssize_t stubvfs_pread_recv(struct tevent_req *req, struct vfs_aio_state *aio);
ssize_t stubvfs_sendfile(struct vfs_handle_struct *handle, int to, files_struct *fsp,
			 const DATA_BLOB *header, off_t offset, size_t n);
bool stubvfs_aio_force(struct vfs_handle_struct *handle, struct files_struct *fsp);

/* data.c */
ssize_t stubvfs_pwrite(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       const void *data, size_t n, off_t offset);
struct tevent_req *stubvfs_pwrite_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				       struct tevent_context *ev, struct files_struct *fsp,
				       const void *data, size_t n, off_t offset);
ssize_t stubvfs_pwrite_recv(struct tevent_req *req, struct vfs_aio_state *aio);
ssize_t stubvfs_recvfile(struct vfs_handle_struct *handle, int from, files_struct *fsp,
			 off_t offset, size_t n);
off_t stubvfs_lseek(struct vfs_handle_struct *handle, struct files_struct *fsp, off_t offset,
		    int whence);
int stubvfs_ftruncate(struct vfs_handle_struct *handle, struct files_struct *fsp, off_t size);
int stubvfs_fallocate(struct vfs_handle_struct *handle, struct files_struct *fsp, uint32_t mode,
		      off_t offset, off_t length);
struct tevent_req *stubvfs_fsync_send(struct vfs_handle_struct *handle, TALLOC_CTX *mem_ctx,
				      struct tevent_context *ev, struct files_struct *fsp);
int stubvfs_fsync_recv(struct tevent_req *req, struct vfs_aio_state *aio);

/* offload.c */
struct tevent_req *stubvfs_offload_read_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
					     struct vfs_handle_struct *handle,
					     struct files_struct *fsp, uint32_t fsctl,
					     uint32_t ttl, off_t offset, size_t length);
NTSTATUS stubvfs_offload_read_recv(struct tevent_req *req, struct vfs_handle_struct *handle,
				   TALLOC_CTX *mem_ctx, uint32_t *flags, uint64_t *length,
				   DATA_BLOB *token);
struct tevent_req *stubvfs_offload_write_send(struct vfs_handle_struct *handle,
					      TALLOC_CTX *mem_ctx, struct tevent_context *ev,
					      uint32_t fsctl, DATA_BLOB *token, off_t from,
					      struct files_struct *fsp, off_t to, off_t length);
NTSTATUS stubvfs_offload_write_recv(struct vfs_handle_struct *handle, struct tevent_req *req,
				    off_t *copied);

/* xattrs.c */
struct tevent_req *stubvfs_getxattrat_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
					   struct vfs_handle_struct *handle, files_struct *dirfsp,
					   const struct smb_filename *name, const char *xattr,
					   size_t hint);
ssize_t stubvfs_getxattrat_recv(struct tevent_req *req, struct vfs_aio_state *aio,
				TALLOC_CTX *mem_ctx, uint8_t **value);
ssize_t stubvfs_fgetxattr(struct vfs_handle_struct *handle, struct files_struct *fsp,
			  const char *name, void *value, size_t size);
ssize_t stubvfs_flistxattr(struct vfs_handle_struct *handle, struct files_struct *fsp, char *list,
			   size_t size);
int stubvfs_fremovexattr(struct vfs_handle_struct *handle, struct files_struct *fsp,
			 const char *name);
int stubvfs_fsetxattr(struct vfs_handle_struct *handle, struct files_struct *fsp,
		      const char *name, const void *value, size_t size, int flags);

/* recall.c */
bool stubvfs_recall_denied(const struct connection_struct *conn, const char *user);
/* The name under which the retriever's recall budget knows this client. */
void stubvfs_recall_who(const struct connection_struct *conn, const char *user,
			char who[STUB_WHO_MAX + 1]);

/* guard.c */
/* Must the names in this directory not be reached?  errno is set then. */
bool stubvfs_refuses_names(struct vfs_handle_struct *handle, const struct files_struct *dirfsp);
/* Must what has just been opened as @fd, with @flags, be refused?  errno is set then. */
bool stubvfs_refuses_opened(struct vfs_handle_struct *handle, const struct files_struct *fsp,
			    int fd, int flags);
/* Is it a file with a record, and nobody fills it?  @handle: NULL in a share without us. */
bool stubvfs_is_strange_stub(struct vfs_handle_struct *handle, const struct files_struct *fsp);

/* visible.c */
/* Does @path, as seen from the directory @dirfd, lead into .postcopy? */
bool stubvfs_hides(struct vfs_handle_struct *handle, int dirfd, const char *path);
/* Does @path, absolute and without symlinks, lead there? */
bool stubvfs_hides_real(struct vfs_handle_struct *handle, const char *path);
/* Is @name one of @dirfd's entries that are not shown? */
bool stubvfs_hides_entry(struct vfs_handle_struct *handle, int dirfd, const char *name);
/* Is @st of the volume's root, with .postcopy in its link count? */
bool stubvfs_hides_link(struct vfs_handle_struct *handle, const SMB_STRUCT_STAT *st);
bool stubvfs_hides_xattr(const char *name);

#include "compat.h" /* last: it adapts what is declared above */

#endif
