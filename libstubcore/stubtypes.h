/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubtypes.h - what every user of libstubcore meets: names, objects, the volume.
 */
#ifndef STUBTYPES_H
#define STUBTYPES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#pragma GCC visibility push(default) /* what libstubcore.so exports */

#ifdef __cplusplus
extern "C" {
#endif

#define STUB_XATTR "trusted.postcopy" /* the stub record */
#define STUB_XATTR_DONE "trusted.postcopy.done" /* of a root: UUID of the volume that ended here */
#define STUB_DIR ".postcopy"	      /* at the volume's root, never visible to clients */

#define STUB_HANDLE_MAX 128 /* bytes of a kernel file handle (MAX_HANDLE_SZ) */
#define STUB_ORIGIN_MAX 1023 /* bytes of a path on an SMB share; NFS file handles have 128 */
#define STUB_NAME_MAX 255   /* bytes of one entry name */
#define STUB_TARGET_MAX 4095 /* bytes of a symlink target */
#define STUB_DEPTH_MAX 8192 /* levels below the volume's root; deeper is taken for a cycle */
#define STUB_MAP_MAX 320    /* ranges one missing map holds; those beyond MAP_WRITES: fills only */
#define STUB_MAP_WRITES 256 /* ranges that clients' writes may leave */
#define STUB_MAP_CROWDED 192 /* ranges from which on plugins ask for ROOM (STUB_ASK_ROOM) */
#define STUB_MAP_ROOM 128   /* ranges that STUB_ASK_ROOM leaves */
#define STUB_RECORD_MAX 3072 /* bytes of a record on disk: fits ext4's 4 KiB xattr block */
#define STUB_RECORD_INLINE 255 /* bytes of a record that XFS keeps inside a 1024-byte inode */
#define STUB_REFUSED_MAX 2560 /* bytes of refused names in one record, with their lengths */
#define STUB_REASON_MAX 119 /* bytes of the text that says why an object is parked */
#define STUB_URI_MAX 1023   /* bytes of a source URI */
#define STUB_DEPOT_MAX 255  /* bytes of the path of a depot of streams */
#define STUB_PATH_MAX 107   /* bytes of a socket's path (sun_path less its NUL) */
#define STUB_LEASE_MAX 36   /* bytes of a lease's name, a UUID */
#define STUB_HOME_MAX 383   /* bytes of the text that says where a volume was made */
#define STUB_DIGEST 32	    /* bytes of a digest of content */

/* ---- log ---------------------------------------------------------------- */

enum stub_log_level { STUB_LOG_ERROR, STUB_LOG_WARN, STUB_LOG_INFO, STUB_LOG_DEBUG };

/* The caller's log function.  May be called from any thread; @msg is one line
 * without a newline and only valid during the call. */
typedef void (*stub_log_fn)(void *arg, enum stub_log_level level, const char *msg);

#define STUB_LOG_MAX 4351 /* bytes of a line: the longest path, and some text */

/* Give @fn one line, made as by printf() and cut at STUB_LOG_MAX bytes.  @fn may be NULL. */
void stub_log_to(stub_log_fn fn, void *arg, enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* @name, bytes that anybody may have chosen, as it may stand between quotes in a line: what is
 * not printable ASCII, \\ and " become \\xNN.  What does not fit @out is cut. */
void stub_printable(const char *name, size_t len, char *out, size_t size);

/* ---- time --------------------------------------------------------------- */

/* CLOCK_MONOTONIC in milliseconds: what every *_ms of this header that is a point in time
 * is compared with.  Any thread. */
uint64_t stub_now_ms(void);
uint64_t stub_now_us(void); /* the same clock, finer */

/* Make a condition variable that is waited for by the clock of stub_now_ms().  It is
 * destroyed as any other. */
void stub_cond_init(pthread_cond_t *cond);
/* pthread_cond_timedwait() for such a variable, with @lock held: 0 (spurious wake-ups too),
 * or -ETIMEDOUT at @until_ms. */
int stub_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ms);

/* ---- writing ------------------------------------------------------------ */

/* All @len bytes at @offset, however many calls that takes.  0, -EIO: nothing could be
 * written, or as pwrite. */
int stub_io_pwrite(int fd, const void *buf, size_t len, uint64_t offset);

/* ---- identity ----------------------------------------------------------- */

/* What name_to_handle_at(2) gives: the one identity that Ganesha, Samba and the
 * daemons share.  It survives renames and restarts. */
struct stub_handle {
	int32_t type;
	uint8_t len; /* bytes used, 1..STUB_HANDLE_MAX */
	uint8_t bytes[STUB_HANDLE_MAX];
};

/* Handle of the inode behind @fd (any fd, O_PATH too).
 *   -EOPNOTSUPP  the file system has no handles
 *   -EOVERFLOW   the handle is longer than STUB_HANDLE_MAX */
int stub_handle_of_fd(int fd, struct stub_handle *out);

/* Open the inode of @h with the @flags of open(2); @mount_fd is any directory of the same
 * file system.  A descriptor, or
 *   -ESTALE  there is no such inode any more
 *   -EPERM (not root), -EINVAL, others as open_by_handle_at */
int stub_handle_open_at(int mount_fd, const struct stub_handle *h, int flags);

bool stub_handle_equal(const struct stub_handle *a, const struct stub_handle *b);

/* What names the file system of @fd on this machine, also after it is mounted anew: its type, and
 * its UUID or what statfs(2) makes of that.  Ends with ':' if only the type is known. */
#define STUB_FILE_SYSTEM_MAX 64 /* bytes, with the NUL */
int stub_file_system(int fd, char out[STUB_FILE_SYSTEM_MAX]);

/* A hash of @h.  It must never change: records on disk hold it. */
uint32_t stub_handle_sum(const struct stub_handle *h);

/* What identifies an object on the old server: for NFS its file handle, for SMB its
 * path below the share's root (UTF-8, '/' between names, nothing for the root). */
struct stub_origin {
	uint16_t len;
	uint8_t bytes[STUB_ORIGIN_MAX];
};

/* Attributes as the old server gave them.  mode carries the file type (S_IFMT). */
struct stub_attr {
	uint32_t mode;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint64_t size;	/* bytes */
	uint64_t used;	/* bytes that it takes over there, if told; for reports only: servers differ */
	uint64_t fsid;	/* with fileid: the inode over there */
	uint64_t fileid;
	uint32_t rdev_major; /* block and character devices only */
	uint32_t rdev_minor;
	struct timespec atime;
	struct timespec mtime;
	struct timespec ctime;
	bool time_unsure; /* the old server may have another access or write time than this */
	bool acl; /* its ACL is not brought over; the mode grants no more than that ACL does */
	bool acl_near; /* what comes of its ACL is only near: nobody gets more, and somebody less */
	bool more; /* there is more to be had of it than this: see source_meta() */
};

/* One extended attribute to be stored. */
struct stub_xattr {
	const char *name; /* terminated, with its namespace */
	const void *value;
	size_t len;
};

/* One directory entry of the old server, not checked yet. */
struct stub_entry {
	const char *name; /* bytes, not terminated */
	size_t name_len;
	const uint8_t *origin; /* bytes; a struct stub_origin in each entry would be too large */
	size_t origin_len;
	/* bytes that belong to this inode alone at the source, equal for all its names: names
	 * of one fsid and fileid are hard links only if these are equal too; NULL: the origin */
	const uint8_t *inode;
	size_t inode_len;
	struct stub_attr attr;
	const char *target; /* symlinks: bytes, not terminated; else NULL */
	size_t target_len;
	bool dummy; /* attributes beyond type, size, fsid, fileid, nlink and mtime are missing */
	/* of a dummy, stored with it if it can be: with this attribute all that a listing by the
	 * source's own protocol shows is known (vfs_stub/attrs.c); NULL: it is not */
	const struct stub_xattr *told;
	/* of what is no dummy, and is made whole (struct stub_whole): attributes that are stored with it,
	 * and its access and write times, if attr cannot have them; NULL: those of attr */
	const struct stub_xattr *xattrs;
	size_t n_xattrs;
	const struct timespec *times;
	int error; /* -errno: the old server lists this name and tells nothing else of it; no
		    * other field is set, and it cannot be made */
};

/* ---- missing map -------------------------------------------------------- */

struct stub_range {
	uint64_t start; /* first byte */
	uint64_t end;	/* one past the last byte; end > start */
};

/* Sorted, disjoint, not touching. */
struct stub_map {
	uint32_t n;
	struct stub_range r[STUB_MAP_MAX];
};

uint64_t stub_map_bytes(const struct stub_map *m);
/* Does [start, end) meet a missing byte? */
bool stub_map_overlaps(const struct stub_map *m, uint64_t start, uint64_t end);
/* First missing range inside [start, end), clipped to it.  False if there is none. */
bool stub_map_first(const struct stub_map *m, uint64_t start, uint64_t end, struct stub_range *out);

/* ---- volume ------------------------------------------------------------- */

struct stub_volume; /* may be used by all threads at once */

struct stub_volume_info {
	char uuid[37];
	char source[STUB_URI_MAX + 1];	/* URI, without secrets */
	char join[STUB_URI_MAX + 1]; /* URI of the source that is joined to it; "": none */
	uint64_t join_root; /* file id of its root */
	/* numbers of the source's root; stub_volume_create() takes them from its attributes */
	bool root_known; /* earlier releases did not keep them */
	uint64_t root_fsid, root_fileid;
	char depot[STUB_DEPOT_MAX + 1]; /* where alternate data streams are kept; "": in attributes */
	uint64_t depot_id; /* of the volume's file system, as names in the depot have it */
	char socket[STUB_PATH_MAX + 1]; /* where the retriever listens for asks */
	char control[STUB_PATH_MAX + 1]; /* where the retriever listens for JSON commands */
	uint16_t source_id;
	uint64_t created; /* seconds since the epoch */
	char home[STUB_HOME_MAX + 1]; /* where it was made; only the library uses it (home.c) */
	char lease[STUB_LEASE_MAX + 1]; /* without which no node opens it; "": one machine has it (active.c) */
};

enum {
	STUB_OPEN_SEARCH = 1, /* @path may lie inside the volume: walk up to its root */
	/* this process changes or fills files.  What no client commits is made durable within
	 * seconds by a thread, which is started when it is first needed, and by
	 * stub_volume_close() */
	STUB_OPEN_FOLD = 2,
	/* this process posts news or waits for them (stub_news_post) */
	STUB_OPEN_NEWS = 4,
	/* FOLD, with the thread always running: it also makes durable, within seconds, what
	 * processes have written that were killed since (the retriever) */
	STUB_OPEN_KEEP = 8,
	/* also a volume that is not where it was made: for stub_volume_settle() alone */
	STUB_OPEN_ANYWHERE = 16,
	STUB_OPEN_ABORT = 32, /* also one whose abort has begun: for stub_abort() alone */
};

/*
 * Open the volume at @path.  @log may be NULL.
 *   -ENOENT      there is no .postcopy of root's here (never a volume, or finished)
 *   -EBADMSG     volume.conf is damaged; the log says where
 *   -EPROTONOSUPPORT  made by a newer release
 *   -EXDEV       it is a copy, made of another volume's files or of its disk, or its file system
 *                has another UUID now; the log says what to do
 *   -ENOLCK      this node does not hold its lease (stub_active_get)
 *   -EBUSY       another process has it exclusively (stub_volume_alone)
 *   -ECANCELED   its abort has begun
 */
int stub_volume_open(const char *path, unsigned int flags, stub_log_fn log, void *log_arg,
		     struct stub_volume **out);
void stub_volume_close(struct stub_volume *v);

const struct stub_volume_info *stub_volume_info(const struct stub_volume *v);
int stub_volume_fd(const struct stub_volume *v); /* the root, O_RDONLY; stays the volume's */
const struct stub_handle *stub_volume_root(const struct stub_volume *v);
uint64_t stub_volume_root_ino(const struct stub_volume *v);

/* Has its .postcopy been removed since it was opened?  One system call. */
bool stub_volume_gone(const struct stub_volume *v);

/* Is everything migrated?  One memory read, no system call.  Never goes back to
 * false: a plugin may stop looking for records for good. */
bool stub_volume_complete(const struct stub_volume *v);

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop

#endif
