/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * file.h - what the rooms of the file:// source share; nobody else includes it, but for
 * file_uri_parse().
 *
 *   file_uri.c     file:///... into its path
 *   file_disk.c    does the disk below a file system answer?
 *   file_mount.c   the source's root, open: is it the one that the migration began with?
 *   file_attr.c    the kernel's errors, attributes and handles into ours
 *   file_xattr.c   ACLs and extended attributes: which are kept
 *   file_call.c    the queue, and the threads that work it off
 *   file_watch.c   the threads that look at root and clock
 *   file_work.c    what is done on those threads for each kind of call
 *   file_list.c    listing
 *   file_probe.c   probing, and what the file system says of itself
 *   file_source.c  life, state and the calls: the backend's table
 *
 * The source is a directory of this machine, which belongs to a file system that is mounted
 * there.  Its objects are known by the kernel's handles, as an NFS server's are: renames over
 * there do not matter, and an inode that was used anew is another object.
 *
 * The source is lost as long as another directory than the one that the migration began with is
 * at its path (nothing mounted, another disk), the file system or its disk gives nothing but
 * errors, or no thread comes back from the kernel.  Nothing of another directory is ever
 * believed: calls go by handles through a descriptor of the right root, never by the path.
 *
 * A call into the kernel may last for ever, when a disk hangs, and cannot be ended.  So nobody
 * waits in one but the source's own threads.  Who waits for a thread may be sent away
 * (source_stop(), give_up_ms): then the call is abandoned, and belongs to its thread alone.
 *
 *      file_submit() -> queue[priority] -> running -> done() or over
 *                            ^                |
 *                            '-- the root was lost meanwhile, and the call failed
 *
 * Locking.  file_source.pool.lock guards all that its comment claims.  No callback, and no system
 * call that touches the source, is made with it held.
 */
#ifndef FILE_H
#define FILE_H

#include <pthread.h>
#include <sys/queue.h>

#include "source/called.h"
#include "source/pool.h"
#include "source/source_ops.h"
#include "source/trace.h"
#include "source/uri.h"

#define FILE_THREADS_MIN   4
#define FILE_THREADS_MAX   32
#define FILE_READ_MAX	   (1024 * 1024)
#define FILE_DENTS_BYTES   (32 * 1024) /* of names that are listed at once */
#define FILE_LOOK_MS	   1000	 /* so often is the path looked at, while there is work ... */
#define FILE_IDLE_LOOK_MS  15000 /* ... and while there is none */
#define FILE_STOP_MS	   2000	 /* threads that do not come back by then are left alone */
#define FILE_XATTR_LIST    65536 /* XATTR_LIST_MAX: bytes of names */
#define FILE_XATTR_VALUE   65536 /* XATTR_SIZE_MAX */
#define FILE_HOLES_MAX	   4096	   /* that are told at once */
#define FILE_HOLE_STEPS	   65536   /* ... that are looked for at once */
#define FILE_HOLE_MIN	   65536   /* bytes; smaller ones are read */
#define FILE_WHY_MAX	   SOURCE_WHY_MAX

/* ---- file_uri.c ---- */

struct file_uri {
	char path[STUB_URI_MAX + 1]; /* absolute, no '/' at its end but for "/" */
};

/* 0, or -EINVAL with one line in @why. */
int file_uri_parse(const char *uri, struct file_uri *out, char *why, size_t why_size);

/* ---- file_disk.c ---- */

/* Read the first bytes of the block device @dev, past all caches.  0, also if there is no such
 * device to be found (other kinds of file systems); or why it cannot be read. */
int file_disk_answers(dev_t dev);

/* ---- file_attr.c ---- */

int file_errno(int error); /* an errno of the kernel to -errno of source.h */
void file_attr(const struct stat *st, uint64_t fsid, struct stub_attr *out);
/* 0, or -EOPNOTSUPP: the file system has no handles */
int file_origin(int fd, struct stub_origin *out);

/* ---- file_mount.c ---- */

struct file_mount { /* the source's root; constant but for refs */
	unsigned int refs; /* guarded by the source's lock */
	int fd; /* O_RDONLY */
	dev_t dev;
	uint64_t fsid; /* of its file system, the same after it is mounted anew */
	uint64_t mnt_id;
	struct stub_origin root;
	struct stub_attr attr;
};

/* Open @path.  0, or -errno with a line in @why; @as: what it must be, or NULL. */
int file_mount_open(const char *path, const struct source_id *as, struct file_mount **out,
		    char *why, size_t why_size);
/* Is it still what is at @path, and alive?  @deep: does its disk answer, too? */
int file_mount_look(const struct file_mount *m, const char *path, bool deep, char *why,
		    size_t why_size);
void file_mount_close(struct file_mount *m);
/* A descriptor of an object, with the flags of open(2), O_CLOEXEC and O_NOFOLLOW. */
int file_open(const struct file_mount *m, const struct stub_origin *o, int flags);

/* ---- file_xattr.c ---- */

/* Of the object behind @fd, which may be O_PATH: does source_meta() bring more than @a (a->more)?
 * Of what cannot have more: narrow the mode beside an ACL (a->acl).  0, or -EBADMSG: it is a
 * stub of a volume, and its data is elsewhere. */
int file_xattr_look(int fd, struct stub_attr *a);
/* All that is kept of it, and lines about what is not; @fd is open for reading. */
int file_xattr_meta(int fd, const struct source_smb *limits, struct source_meta *out);

/* ---- calls ---- */

struct file_dir; /* a listing: file_list.c */

struct file_call {
	TAILQ_ENTRY(file_call) link; /* in queue[prio], or in running */
	enum source_priority prio;
	enum called kind;
	const char *what; /* for lines at level debug */
	uint64_t trace;	  /* what it is for */
	/* On a thread; @buf has FILE_READ_MAX bytes, the thread's own.  0 or -errno. */
	int (*work)(struct file_call *c, const struct file_mount *m, void *buf);
	/* Called once, without locks, on any thread; with an error, what the call brings may still be
	 * in its thread's hands.  NULL: a thread waits for it (file_run()). */
	void (*done)(struct file_call *c, int err);

	/* guarded by the source's lock */
	unsigned int refs; /* who made it, and the source while it has it */
	bool running, over, abandoned;
	unsigned int flight; /* it was let go by the limiter; else 0 */
	uint64_t began_ms;
	int err;
	pthread_cond_t changed; /* over */

	struct file_source *s;
	struct stub_origin origin;
	bool has_as;
	struct source_id as;
	char name[STUB_NAME_MAX + 1];

	/* what it brings; the thread's own while running */
	struct stub_origin found;
	struct stub_attr attr;
	struct source_meta meta;
	char *target;
	size_t target_len;
	int fd;
	struct file_dir *dir;
	void (*free_dir)(struct file_dir *d);

	/* reads */
	uint64_t offset;
	uint32_t length;
	source_read_fn fn;
	void *arg;
	const void *data;
	int64_t got;
	struct source_holes holes;
};

TAILQ_HEAD(file_calls, file_call);

struct file_source {
	struct source base;
	/* constant after creation */
	struct file_uri uri;
	struct source_config config;

	struct source_pool pool; /* usable: 1 or 0; known: the root was there once */
	/* guarded by pool.lock */
	pthread_cond_t work; /* threads: queue or mount have changed */
	pthread_cond_t tick; /* the clock thread */
	pthread_cond_t look; /* the looking thread: look_want has changed */
	pthread_cond_t looked; /* look_have has changed; threads has */
	struct file_calls queue[2], running;
	unsigned int background; /* of the running calls */
	unsigned int n; /* threads that work; it never shrinks */
	unsigned int wanted; /* so many of them may work, and three quarters of these on background */
	struct file_mount *mount; /* NULL: lost */
	struct stub_origin root;
	struct stub_attr root_attr;
	uint64_t look_want, look_have; /* deep looks that were asked for, and made */
	uint64_t look_began_ms; /* a look is under way; 0: none */
	bool busy; /* there was work since the last look */
	bool up, ever; /* counted in pool.usable; was before */
	unsigned int threads; /* that still run, of all kinds */
	unsigned int refs; /* they, and the owner */
};

static inline struct file_source *file_of(struct source *s)
{
	return (struct file_source *)s; /* base is its first member */
}

/* ---- file_call.c ---- */

void file_log(struct file_source *s, enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct file_call *file_call_new(struct file_source *s, enum called kind, const char *what,
				enum source_priority p, const struct stub_origin *o);
void file_call_put(struct file_call *c); /* the last one frees it with all that it brought */
/* 0, or -ECANCELED, -ETIMEDOUT: then done() is not called. */
int file_submit(struct file_call *c);
/* Calls for @trace that wait in the background go as demand. */
void file_hurry(struct file_source *s, uint64_t trace);
/* Submit it and wait.  *mine: what it has brought may be looked at. */
int file_run(struct file_call *c, bool *mine);
void *file_thread(void *source); /* works the queue off until stop */
/* Calls to be ended, taken out of the source with the lock held, are told of without it. */
void file_take_all(struct file_source *s, struct file_calls *out);
/* Those that no thread came back from since @since_ms. */
void file_take_stuck(struct file_source *s, uint64_t since_ms, struct file_calls *out);
void file_tell_all(struct file_source *s, struct file_calls *calls, int err);

/* The reference of a thread, or of the owner, goes; with the last one the source. */
void file_source_put(struct file_source *s);
/* With the lock held.  put: the last one closes, after the lock is let go for that. */
struct file_mount *file_mount_get(struct file_source *s);
void file_mount_put(struct file_source *s, struct file_mount *m);

/* ---- file_watch.c ---- */

void *file_look_thread(void *source);
void *file_clock_thread(void *source);
int file_source_verify(struct source *s);

/* ---- file_work.c ---- */

int file_work_lookup(struct file_call *c, const struct file_mount *m, void *buf);
int file_work_getattr(struct file_call *c, const struct file_mount *m, void *buf);
int file_work_meta(struct file_call *c, const struct file_mount *m, void *buf);
int file_work_readlink(struct file_call *c, const struct file_mount *m, void *buf);
int file_work_read(struct file_call *c, const struct file_mount *m, void *buf);
int file_work_holes(struct file_call *c, const struct file_mount *m, void *buf);
int file_work_open(struct file_call *c, const struct file_mount *m, void *buf);
/* The directory of @c, open, and right by c->as; not the root of a volume. */
int file_work_dir(struct file_call *c, const struct file_mount *m);
/* The entry @name of the directory @dir_fd, with O_PATH, and its attributes. */
int file_work_entry(const struct file_mount *m, int dir_fd, const char *name, struct stub_attr *a);
/* The target of the symlink behind @fd, allocated. */
int file_work_target(int fd, char **out, size_t *len);

/* ---- file_list.c ---- */

int file_source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
		     const struct source_id *as, source_entries_fn fn, void *arg);

/* ---- file_probe.c ---- */

int file_source_probe(const struct source_config *c, unsigned int timeout_ms, char *why,
		      size_t why_size);
int file_source_traits(const struct source_config *c, unsigned int timeout_ms,
		       struct source_traits *out, char *why, size_t why_size);

#endif
