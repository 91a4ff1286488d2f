/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubcore.h - the one header of libstubcore.
 *
 * libstubcore is the mechanism of postcopy: what a stub is, what it still
 * misses, who may change it when, and how it becomes a normal file.  It knows
 * nothing of Ganesha, Samba, NFS or SMB.  Three kinds of program use it:
 *
 *   server plugins   ask (stub_ask), look (stub_view), change (stub_change)
 *   the retriever    lists, fills, finishes, keeps the journal, serves asks
 *   tools            create a volume, scan it
 *
 * Conventions
 *   - Functions return 0 (or a count) on success and -errno on failure.
 *   - Output parameters come last.  Destroyers take NULL.
 *   - Sizes and offsets are bytes; times are struct timespec unless a name
 *     ends in _ms (milliseconds).
 *   - All functions may be called from any thread.  A struct belongs to one
 *     thread at a time unless its comment says otherwise.
 *   - No errno of the old server ever comes out of here: what a plugin sees is
 *     one of the values documented at the function.
 *
 * Lock order (outermost first): an inode's exclusion (stub_change, or inside
 * the fill functions), the journal's writer.  Several inodes are only ever
 * locked by one stub_change_begin() call, which sorts them.
 */
#ifndef STUBCORE_H
#define STUBCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STUB_XATTR "trusted.postcopy" /* the stub record */
#define STUB_XATTR_DONE "trusted.postcopy.done" /* of a root: UUID of the volume that ended here */
#define STUB_DIR ".postcopy"	      /* at the volume's root, never visible to clients */

#define STUB_HANDLE_MAX 128 /* bytes of a kernel file handle (MAX_HANDLE_SZ) */
#define STUB_ORIGIN_MAX 1023 /* bytes of a path on an SMB share; NFS file handles have 64 */
#define STUB_NAME_MAX 255   /* bytes of one entry name */
#define STUB_TARGET_MAX 4095 /* bytes of a symlink target */
#define STUB_DEPTH_MAX 8192 /* levels below the volume's root; deeper is taken for a cycle */
#define STUB_MAP_MAX 320    /* ranges one missing map holds; the last ones are for fills */
#define STUB_MAP_WRITES 256 /* ranges that clients' writes may leave */
#define STUB_MAP_CROWDED 192 /* from here on STUB_ASK_ROOM is worth its while */
#define STUB_MAP_ROOM 128   /* ranges that STUB_ASK_ROOM leaves */
#define STUB_RECORD_MAX 3072 /* bytes of a record on disk: fits ext4's 4 KiB xattr block */
#define STUB_RECORD_INLINE 255 /* bytes of a record that XFS keeps inside a 1024-byte inode */
#define STUB_REFUSED_MAX 2560 /* bytes of refused names in one record, with their lengths */
#define STUB_REASON_MAX 119 /* bytes of the text that says why an object is parked */
#define STUB_URI_MAX 1023   /* bytes of a source URI */
#define STUB_DEPOT_MAX 255  /* bytes of the path of a depot of streams */
#define STUB_PATH_MAX 107   /* bytes of a socket's path (sun_path less its NUL) */
#define STUB_HOME_MAX 383   /* bytes of the text that says where a volume was made */

/* ---- log ------------------------------------------------------------------ */

enum stub_log_level { STUB_LOG_ERROR, STUB_LOG_WARN, STUB_LOG_INFO, STUB_LOG_DEBUG };

/* The caller's log function.  May be called from any thread; @msg is one line
 * without a newline and only valid during the call. */
typedef void (*stub_log_fn)(void *arg, enum stub_log_level level, const char *msg);

#define STUB_LOG_MAX 4351 /* bytes of a line: the longest path, and what is said of it */

/* A line for @fn, as printf() makes it; what is longer is cut.  @fn may be NULL. */
void stub_log_to(stub_log_fn fn, void *arg, enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- time ------------------------------------------------------------------- */

/* CLOCK_MONOTONIC in milliseconds: what every *_ms of this header that is a point in time
 * is compared with.  Any thread. */
uint64_t stub_now_ms(void);
uint64_t stub_now_us(void); /* the same clock, finer */

/* A condition variable for waits that end at a time of stub_now_ms(); ended as any other. */
void stub_cond_init(pthread_cond_t *cond);
/* pthread_cond_timedwait() of such a one, with @lock held: 0 (also for no reason), or
 * -ETIMEDOUT at @until_ms. */
int stub_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ms);

/* ---- writing ---------------------------------------------------------------- */

/* All @len bytes at @offset, however many calls that takes.  0, -EIO: nothing could be
 * written, or as pwrite. */
int stub_io_pwrite(int fd, const void *buf, size_t len, uint64_t offset);

/* ---- identity --------------------------------------------------------------- */

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

/* The other way round, with the flags of open(2): @mount_fd is any directory of the same
 * file system.  A descriptor, or
 *   -ESTALE  there is no such inode any more
 *   -EPERM (not root), -EINVAL, others as open_by_handle_at */
int stub_handle_open_at(int mount_fd, const struct stub_handle *h, int flags);

bool stub_handle_equal(const struct stub_handle *a, const struct stub_handle *b);

/* A hash of it, the same for ever: records hold it. */
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
	uint64_t fsid;	/* with fileid: the inode over there */
	uint64_t fileid;
	uint32_t rdev_major; /* block and character devices only */
	uint32_t rdev_minor;
	struct timespec atime;
	struct timespec mtime;
	struct timespec ctime;
	bool time_unsure; /* access or write time may be another one over there */
	bool acl; /* it has an ACL over there, which does not come: the mode gives no more */
};

/* One extended attribute to be stored. */
struct stub_xattr {
	const char *name; /* terminated, with its namespace */
	const void *value;
	size_t len;
};

/* One directory entry of the old server, checked by nobody yet. */
struct stub_entry {
	const char *name; /* bytes, not terminated */
	size_t name_len;
	const uint8_t *origin; /* bytes: a struct stub_origin in each would make a listing fat */
	size_t origin_len;
	/* what the inode has to itself at the source, the same for all names of it: names of
	 * one fsid and fileid are hard links only if this is the same; NULL: the origin */
	const uint8_t *inode;
	size_t inode_len;
	struct stub_attr attr;
	const char *target; /* symlinks: bytes, not terminated; else NULL */
	size_t target_len;
	bool dummy; /* attributes beyond type, size, fsid, fileid, nlink and mtime are missing */
	int error; /* -errno: the old server has this name and says no more; nothing else is
		    * there, and it cannot be made */
};

/* ---- missing map ------------------------------------------------------------ */

struct stub_range {
	uint64_t start; /* first byte */
	uint64_t end;	/* one past the last byte; end > start */
};

/* Sorted, disjoint, not touching. */
struct stub_map {
	uint32_t n;
	struct stub_range r[STUB_MAP_MAX];
};

void stub_map_init(struct stub_map *m, uint64_t size); /* [0, size), or empty */
void stub_map_copy(struct stub_map *dst, const struct stub_map *src);
bool stub_map_empty(const struct stub_map *m);
uint64_t stub_map_bytes(const struct stub_map *m);
/* Does [start, end) meet a missing byte? */
bool stub_map_overlaps(const struct stub_map *m, uint64_t start, uint64_t end);
/* First missing range inside [start, end), clipped to it.  False if there is none. */
bool stub_map_first(const struct stub_map *m, uint64_t start, uint64_t end, struct stub_range *out);
/* Take [start, end) out.  -ENOSPC: would need more than STUB_MAP_MAX ranges; @m unchanged. */
int stub_map_subtract(struct stub_map *m, uint64_t start, uint64_t end);
/* Take everything at and beyond @size out. */
void stub_map_clip(struct stub_map *m, uint64_t size);
/* a := a without what is not in b.  -ENOSPC as above; @a unchanged. */
int stub_map_intersect(struct stub_map *a, const struct stub_map *b);
/* a without b, and a with b.  -ENOSPC: more than STUB_MAP_MAX ranges; @out undefined. */
int stub_map_difference(const struct stub_map *a, const struct stub_map *b, struct stub_map *out);
int stub_map_union(const struct stub_map *a, const struct stub_map *b, struct stub_map *out);
/* The smallest ranges, each of whose fetch makes the map one range shorter: so many that
 * @keep are left, or until they are @bytes together; one at least, unless @m is empty. */
void stub_map_smallest(const struct stub_map *m, uint32_t keep, uint64_t bytes,
		       struct stub_map *out);

/* ---- volume ----------------------------------------------------------------- */

struct stub_volume; /* may be used by all threads at once */
struct stub_journal;

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
	char home[STUB_HOME_MAX + 1]; /* the library's: where it was made */
};

/*
 * Make @dir (an empty directory) a volume: .postcopy/ with the journal, and the
 * stub record of the root, which becomes an unlisted directory with the given
 * origin and the attributes of the source's root, a @dummy if more is to come for it.
 * The volume exists when
 * volume.conf is in place, the last step; a half-made one is made again.
 *   -EEXIST      it is a volume already
 *   -ENOTEMPTY   something else is in it
 *   -EOPNOTSUPP  the file system lacks trusted xattrs, handles or O_TMPFILE
 *   -ENOSPC, -EIO, -EPERM (not root) ...
 */
int stub_volume_create(const char *dir, const struct stub_volume_info *info,
		       const struct stub_origin *root, const struct stub_attr *attr, bool dummy,
		       stub_log_fn log, void *log_arg);

enum {
	STUB_OPEN_SEARCH = 1, /* @path may lie inside the volume: walk up to its root */
	/* this process changes or fills files: a thread, started when there is something to
	 * do, makes durable within seconds, and stub_volume_close() at once, what nobody
	 * commits */
	STUB_OPEN_FOLD = 2,
	/* this process posts news or waits for them (stub_news_post) */
	STUB_OPEN_NEWS = 4,
	/* FOLD, and its thread runs always: this process makes durable within seconds what
	 * another that was killed could not any more (the retriever) */
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
 *   -EXDEV       it is a copy, made of another volume's files, or its file system has
 *                another UUID now; the log says what to do
 *   -EBUSY       somebody has it alone (stub_volume_alone)
 *   -ECANCELED   its abort has begun
 */
int stub_volume_open(const char *path, unsigned int flags, stub_log_fn log, void *log_arg,
		     struct stub_volume **out);
void stub_volume_close(struct stub_volume *v);

/*
 * The volume is at home where it is now: for one made before volumes knew that, and after
 * its file system was copied block by block or got another UUID.  Takes the only writer of
 * its journal.  0, also if that was known.
 *   -EXDEV  its root is another directory, or nothing of what @j names is here
 */
int stub_volume_settle(struct stub_volume *v, struct stub_journal *j);

/*
 * A server shall show the volume called @uuid at @path and nothing else, so that an empty
 * mount point is not taken for it.  @v is what stub_volume_open() has found there, NULL:
 * nothing.  Root only.  0: it is that volume, or it was until its migration
 * ended (stub_volume_remove).
 *   -ENODEV  it is neither: another volume, or the file system is not mounted
 *   -EINVAL  @uuid is none
 *   -errno   it cannot be told
 */
int stub_volume_expect(const struct stub_volume *v, const char *path, const char *uuid);

const struct stub_volume_info *stub_volume_info(const struct stub_volume *v);
int stub_volume_fd(const struct stub_volume *v); /* the root, O_RDONLY; stays the volume's */
const struct stub_handle *stub_volume_root(const struct stub_volume *v);
uint64_t stub_volume_root_ino(const struct stub_volume *v);

/*
 * May a server whose volume is @own (NULL: it has none) show the directory @dir_fd (any
 * descriptor, O_PATH too) of another file system as it is?  0, or why not, with @path
 * (@size bytes, cut off if need be; "" if the kernel does not know) filled:
 *   STUB_FOREIGN_VOLUME  it is, or lies in, another volume, whose root is @path
 *   STUB_FOREIGN_STUB    it is a stub, or may be one, in no volume or in a snapshot of @own
 *                        (of which may be shown what is whole); @path is its own
 *   -EACCES (not root), -ENOTDIR, -EIO, -ENOMEM  it cannot be told: no
 */
enum stub_foreign { STUB_FOREIGN_VOLUME = 1, STUB_FOREIGN_STUB };
int stub_dir_foreign(const struct stub_volume *own, int dir_fd, char *path, size_t size);

/* Has the object behind @fd (any descriptor, O_PATH too) a stub record, whoever's?  What
 * has one, and is in no volume that is open, must not be served.  Root only.
 * 1, 0, or -errno. */
int stub_marked(int fd);

/* Has somebody removed it under our hands?  One system call. */
bool stub_volume_gone(const struct stub_volume *v);

/* This process asks for what nobody has asked for yet, until it closes @v or dies.
 *   -ENOLCK ...  others do not know of it */
int stub_crawler_enter(struct stub_volume *v);
/* Does another one, or more?  One system call. */
bool stub_crawler_runs(const struct stub_volume *v);

/* Is everything migrated?  One memory read, no system call.  Never goes back to
 * false: a plugin may stop looking for records for good. */
bool stub_volume_complete(const struct stub_volume *v);

/*
 * The era of what is present but not durable (era.c): a number that is another one
 * after a sync has failed.  One memory read, no system call.
 */
uint64_t stub_volume_era(const struct stub_volume *v);

/* A sync of the volume or of a file in it has failed: nothing that is not durable
 * counts as present any more, in all processes.
 *   -EIO, -EROFS ...  only this process could be told */
int stub_volume_new_era(struct stub_volume *v);

/* Must this inode number be hidden from clients (.postcopy/ and the files in it)? */
bool stub_volume_hides(const struct stub_volume *v, uint64_t ino);

/* Is (@dir_ino, @name) the way into .postcopy/? */
bool stub_volume_hides_name(const struct stub_volume *v, uint64_t dir_ino, const char *name);

/* ---- looking ---------------------------------------------------------------- */

enum { /* what an object still needs, a bit set; 0 is a normal object */
	STUB_NEEDS_ATTRS = 1,	/* dummy */
	STUB_NEEDS_ENTRIES = 2, /* unlisted directory */
	STUB_NEEDS_DATA = 4,	/* partial file with missing ranges */
	STUB_NEEDS_NAMES = 8,	/* hard-linked file, not all names made yet */
	STUB_NEEDS_REFUSED = 32, /* directory: listed but for names that were refused here */
	STUB_NEEDS_FINISH = 16, /* nothing from the source any more, but its record is still there */
	STUB_NEEDS_FOREIGN = 64, /* its record is another inode's: the copy of a stub, which nobody
				  * fills.  Alone; shown as it is, and may be removed; all else is
				  * an I/O error */
};

/* How a stub must be shown to clients (docs/design.md, invariant 8): these values replace what
 * stat(2) says.  Only valid while needs != 0. */
struct stub_view {
	unsigned int needs;
	struct timespec mtime;
	struct timespec ctime;
	uint32_t nlink;
	uint64_t size; /* of a directory, while its local one grows; 0: the local one */
	/* the plugins', for stub_withheld(): root's, mode 0, and type, size and times as far
	 * as they are known */
	bool withheld;
};

/*
 * An object's attributes could not be had: is it to be shown as withheld (docs/decisions/0033)?
 * True for an @error that says something is wrong with it; false for what means later
 * (-EAGAIN, -ENOMEM ...) or gone (-ESTALE, -ENOENT): that is answered as it is.
 */
bool stub_withheld(int error);

/*
 * What is the object behind @h, and how is it shown?  One open_by_handle_at, one
 * getxattr, no lock.
 *   -ESTALE   no such inode
 *   -EBADMSG  the record is damaged: neither stub nor normal; answer an I/O error
 *   -EMFILE, -ENFILE, -ENOMEM, -EIO
 */
int stub_view(struct stub_volume *v, const struct stub_handle *h, struct stub_view *out);
int stub_view_fd(struct stub_volume *v, int fd, struct stub_view *out); /* fd not O_PATH */

/*
 * May [offset, offset+length) be read from the local file now?  No lock is
 * needed: a range that is there once stays there.
 * Returns 1 yes, 0 no (ask for it), or as stub_view; -EBADMSG also if its record is
 * another inode's.  The same holds for all that follows.
 */
int stub_data_ready(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
		    uint64_t length);

/* First missing range inside [offset, offset+length): 1 and *out, 0 if none, or
 * as stub_view.  For SEEK: a missing range is data. */
int stub_data_missing(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
		      uint64_t length, struct stub_range *out);

/* ---- changing (what clients do, in the server process) ---------------------- */

#define STUB_CHANGE_OBJECTS 4 /* rename: object, replaced object, two directories */

/* The library's. */
struct stub_change_object {
	struct stub_handle h;
	int links; /* names this change added (+) or removed (-) */
	int fd;
	bool stub;
	struct stat before;
	struct stub_record *rec;
};

/* A bracket around one operation of a client on up to four objects.  A struct of zeros is
 * a bracket that has ended and has no objects. */
struct stub_change {
	/* a map has become long, see stub_change_written(); stays when the bracket ends */
	bool crowded;
	/* the library's */
	struct stub_volume *v;
	unsigned int n;
	unsigned int locked; /* inode numbers in ino[] that are locked */
	uint64_t ino[STUB_CHANGE_OBJECTS];
	struct stub_change_object obj[STUB_CHANGE_OBJECTS];
};

/*
 * The bracket.  begin() locks every object of @h that is a stub against fills and
 * other changes, in all threads and processes; normal objects cost one look and
 * no lock.  Between begin() and end() the caller does the operation on the local
 * file system.  end() brings the records up to date and unlocks; it must be
 * called exactly once after a successful begin(), with the operation's outcome:
 * 0 or -errno (then nothing of the record changes but what the file shows).
 * Duplicate handles are allowed; NULL is an object that is absent.
 *
 * end() with result 0:
 *   - times: what the operation moved is shown from now on, ctime always moves
 *   - size: the missing maps are clipped to the file's size (truncate)
 *   - nlink: shown count moves by what stub_change_links() was told
 * and returns 0, or -errno if the records could not be written: then the
 * operation must be answered with that error (-ENOSPC, -EDQUOT, -EIO).
 *
 * begin(): -ESTALE, -EBADMSG, -ENOMEM, -EMFILE; -ENOSPC, -EDQUOT, -EROFS, -EIO: the
 * records could not be stored after the operation.  Nothing is locked then.
 */
int stub_change_begin(struct stub_volume *v, const struct stub_handle *const h[], unsigned int n,
		      struct stub_change *c);
int stub_change_end(struct stub_change *c, int result);

/* begin() for looking at one object and its missing map, also where nothing can be
 * stored; ended by drop(). */
int stub_change_look(struct stub_volume *v, const struct stub_handle *h, struct stub_change *c);
void stub_change_drop(struct stub_change *c);

/*
 * The calls up to stub_change_clear() are about the objects of an open bracket.  For an
 * absent object, and when the bracket has ended, they say that nothing is missing, and do
 * nothing.
 */

/* Is any object of the bracket a stub? */
bool stub_change_any(const struct stub_change *c);

/* Object @i of the bracket: what does it need (0 = normal), its missing map
 * (valid until end(), NULL for a normal object). */
unsigned int stub_change_needs(const struct stub_change *c, unsigned int i);
const struct stub_map *stub_change_missing(const struct stub_change *c, unsigned int i);

/* Object @i has @delta more names (or less) if the operation succeeds. */
void stub_change_links(struct stub_change *c, unsigned int i, int delta);

/*
 * Inside the bracket, after a write, punch or zero-range of object @i succeeded:
 * [offset, offset+length) is the client's now and is never fetched again.  Written
 * to disk by end().  If the record is filling up with ranges, c->crowded is set: ask for
 * STUB_ASK_ROOM after the bracket, without waiting, and later writes need not wait.
 *   -ENOSPC  the map would fragment beyond the record's budget.  To be asked with
 *            stub_change_fits() before the operation.
 */
int stub_change_written(struct stub_change *c, unsigned int i, uint64_t offset, uint64_t length);

/* Would stub_change_written() fit the record?  0, or -ENOSPC: ask for STUB_ASK_ROOM,
 * outside the bracket. */
int stub_change_fits(const struct stub_change *c, unsigned int i, uint64_t offset,
		     uint64_t length);

/*
 * Inside the bracket, before a write into [offset, offset+length) of object @i: what a
 * failed sync left in blocks that are missing goes first (clear.c).  Moves the local
 * mtime if there was any.
 *   -EIO, -ENOSPC ...  as of open() and fallocate(): the write must not be tried
 */
int stub_change_clear(const struct stub_change *c, unsigned int i, uint64_t offset,
		      uint64_t length);

/*
 * fsync and COMMIT of a stub (docs/design.md, section 11): prepare(), then the caller makes
 * the file's data durable (fsync), then finish(), which folds the maps and makes
 * the record durable before it returns.  A normal object: both return 0 at once.
 * finish() with result != 0 (the fsync failed) begins a new era.
 *   errors as stub_view; -ENOSPC, -EIO from writing the record
 *   -EAGAIN  finish(): an era has ended meanwhile, or the version that it was about was
 *            given up; write and commit again
 */
struct stub_commit {
	struct stub_volume *v;
	struct stub_handle h;
	bool stub;
	uint64_t era;
	struct stub_map *now;
	uint64_t size; /* which version it is about */
	struct timespec mtime, ctime;
};
int stub_commit_prepare(struct stub_volume *v, const struct stub_handle *h, struct stub_commit *c);
int stub_commit_finish(struct stub_commit *c, int result);
void stub_commit_drop(struct stub_commit *c); /* instead of finish(): there was no fsync */

/*
 * Writes to stubs that were acknowledged before they are durable, per client (@who, any
 * number).  note() with the era from before the write; take() at the client's COMMIT.
 * take() returns -EIO if the era of a write is over: it may be lost, and the client must
 * hear that.  *era is what to note again if the COMMIT fails otherwise.
 * any() is one memory read: is there anything to take?
 */
void stub_unstable_note(struct stub_volume *v, const struct stub_handle *h, uint64_t who,
			uint64_t era);
int stub_unstable_take(struct stub_volume *v, const struct stub_handle *h, uint64_t who,
		       uint64_t *era);
bool stub_unstable_any(const struct stub_volume *v);

/* ---- news: what other processes have cached --------------------------------- */

enum { /* what has changed, a bit set */
	STUB_NEWS_ATTRS = 1, /* attributes, ACLs, extended attributes */
	STUB_NEWS_NAMES = 2, /* a directory: its entries, and its attributes with them */
	STUB_NEWS_MOVED = 4, /* a directory: its parent is another one */
	STUB_NEWS_UNLINKED = 8, /* a file: a name of it is gone, maybe the last */
};

/*
 * Tell the other processes that have this volume open that the object behind @h has
 * changed.  Call it when the change is made, for each object that it has touched:
 *   write, truncate, setattr, setxattr   the object: ATTRS
 *   create, link                         the directory: NAMES; link: the object: ATTRS
 *   remove                               the directory: NAMES, the object: ATTRS | UNLINKED
 *   rename                               both directories: NAMES; the object, and one that
 *                                        was replaced: ATTRS; a directory that moved:
 *                                        | MOVED; what was replaced: | UNLINKED
 * Does nothing in a volume opened without STUB_OPEN_NEWS, and once it is complete.
 * Takes no lock, never waits, and has no errors: what cannot be told is not told, and
 * caches expire.  No system call but to wake somebody who waits; what this process has
 * posted already, and nobody has taken yet, is not posted again.
 * The ring is root's alone, and opened with the volume, as root.  It may be made anew: who
 * posts with another user's rights asks stub_news_due() before, and if that says so posts
 * as root.
 */
void stub_news_post(struct stub_volume *v, const struct stub_handle *h, unsigned int what);

/* Would the next post, now or a little later, open a file?  No system call. */
bool stub_news_due(const struct stub_volume *v);

struct stub_news {
	struct stub_handle h;
	unsigned int what;
	bool own; /* posted through this very struct stub_volume */
};

struct stub_ring;

/* How far one reader has read.  Belongs to one thread; plain memory, holds nothing. */
struct stub_news_reader {
	struct stub_ring *ring;
	uint64_t next;
	uint64_t stuck_since;
	uint32_t woken;
};

/* Read what is posted from now on. */
void stub_news_begin(struct stub_volume *v, struct stub_news_reader *r);

/*
 * Wait up to @wait_ms (and 20 ms more if a poster is in the middle) for news; they are in
 * @out, at most @max.  *lost: others may have been missed, anything may have changed;
 * what is in @out is good all the same.
 * Returns how many; 0 also after stub_news_wake().
 *   -EINVAL  the volume was opened without STUB_OPEN_NEWS
 */
int stub_news_wait(struct stub_volume *v, struct stub_news_reader *r, unsigned int wait_ms,
		   struct stub_news *out, unsigned int max, bool *lost);

/* All readers of the volume return, in all processes: those who are waiting, and those
 * who begin to wait next.  They look for a reason to end. */
void stub_news_wake(struct stub_volume *v);

/* ---- asking (plugins, crawler) ---------------------------------------------- */

enum stub_ask_kind {
	STUB_ASK_LOOKUP = 1, /* materialise one name of an unlisted directory */
	STUB_ASK_LIST = 2,   /* materialise all names */
	STUB_ASK_ATTR = 3,   /* dummy -> partial */
	STUB_ASK_DATA = 4,   /* bytes [offset, offset+length) of a file */
	STUB_ASK_FILL = 5,   /* everything the object needs (the crawler's) */
	STUB_ASK_PASS = 6,   /* bytes of a file, passed on without being stored */
	STUB_ASK_ROOM = 7,   /* the smallest missing ranges, to make room in the record */
	STUB_ASK_LEAVE = 8,  /* LIST before a name is removed: also with the room kept for that */
};

#define STUB_PASS_MAX (1u << 20) /* bytes of one PASS */
#define STUB_WHO_MAX  80	 /* bytes of who an ask is for, without the NUL */

struct stub_ask {
	enum stub_ask_kind kind;
	struct stub_handle h;
	uint64_t offset; /* DATA, PASS */
	uint64_t length;
	const char *name; /* LOOKUP: bytes */
	size_t name_len;
	char who[STUB_WHO_MAX + 1]; /* stub_who(), for the recall budget; "": nobody's (crawler) */
};

/*
 * Who an ask is for, in printable ASCII: "user@address".  A @user that is NULL, too long,
 * or not printable ASCII becomes "#uid"; an IPv4 address has one form.  Same client and
 * user, same bytes.
 */
void stub_who(char who[STUB_WHO_MAX + 1], const char *user, uint32_t uid, const char *address);

/*
 * Ask the retriever and wait up to @wait_ms.  The work goes on when the wait ends.
 *   0           done: look again
 *   -EAGAIN     not done in time, a part of it is done (FILL of a large file), or no
 *               retriever is running: ask again later
 *   -ENOENT     LOOKUP: the old server has no such name
 *   -EREMOTEIO  the source's policy limit is over, or the object is parked: an
 *               I/O error for the client; nothing on disk changed
 *   -ENOSPC     the new volume is full: the object stays a stub (before a removal: ask for
 *               the name alone, then to LEAVE).  Likewise
 *   -EDQUOT, -EROFS, -EIO   it takes no data for another reason
 *   -ESTALE     no such inode, or it is in no volume of this retriever
 *   -EINVAL     the ask makes no sense (name with '/', "..", too long)
 */
int stub_ask(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms);

/*
 * What the volume cannot store, straight from the old server: for after an answer
 * -ENOSPC, -EDQUOT, -EROFS or -EIO to DATA.  @ask is a PASS of bytes that are missing.
 * *fd is a sealed memory file of ask->length bytes, the caller's to close; its byte 0
 * is that at ask->offset.  Valid where the object's map, under its exclusion, still
 * says missing, and nowhere else.
 *   as stub_ask(); -EINVAL: the range is not within the file
 */
int stub_pass(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms, int *fd);

/* The same in two steps, for many asks in flight on one connection (the crawler)
 * or an event loop (smbd).  A link belongs to one thread. */
struct stub_link;
int stub_link_create(struct stub_volume *v, struct stub_link **out); /* -EAGAIN: no retriever */
void stub_link_destroy(struct stub_link *l);
int stub_link_fd(const struct stub_link *l); /* poll for POLLIN */
/* -EAGAIN: the retriever has gone; destroy and create anew.  *id names the answer. */
int stub_link_send(struct stub_link *l, const struct stub_ask *ask, uint32_t *id);
/* 1: an answer, its result as stub_ask's in *result; 0: none within wait_ms; -EAGAIN: gone */
int stub_link_receive(struct stub_link *l, unsigned int wait_ms, uint32_t *id, int *result);

/* ---- pending journal (the retriever writes, tools read) --------------------- */

struct stub_journal; /* may be used by all threads at once */

enum stub_journal_kind {
	STUB_JOURNAL_DIR = 0,  /* unlisted directory */
	STUB_JOURNAL_FILE = 1, /* file with missing data or attributes */
	STUB_JOURNAL_LINKS = 2, /* hard-linked inode waiting for its other names */
};

enum stub_park { STUB_PARK_NONE = 0, STUB_PARK_ERROR = 1, STUB_PARK_CONFLICT = 2 };

struct stub_journal_entry {
	struct stub_handle h;
	uint8_t kind; /* enum stub_journal_kind */
	uint8_t park; /* enum stub_park */
	uint16_t tries; /* failures so far, saturating */
	int32_t error;	/* last errno, 0 if none */
	uint64_t size;	/* bytes at the source */
	int64_t mtime;	/* seconds, at the source */
	char reason[STUB_REASON_MAX + 1]; /* why parked, text for the administrator */
};

struct stub_journal_counts {
	uint64_t total; /* the counter */
	uint64_t dirs, files, links; /* not parked, by kind */
	uint64_t errors, conflicts;  /* parked */
};

enum {
	STUB_JOURNAL_READONLY = 1,
	/* there must be one: an empty one in place of a lost one would say "all done" */
	STUB_JOURNAL_EXISTING = 2,
};

/*
 * Open the LMDB environment in directory @dir (".../.postcopy/journal").  One
 * process may have it open for writing.
 *   -EBUSY    another process is writing it
 *   -EBADMSG  it is damaged or not a journal
 *   -ENOENT   there is none (read-only, existing)
 */
int stub_journal_open(const char *dir, unsigned int flags, stub_log_fn log, void *log_arg,
		      struct stub_journal **out);
void stub_journal_close(struct stub_journal *j);

/* Add or replace @n entries; returns when they are durable.  Calls of several
 * threads at once share one transaction and one sync (group commit).  An entry
 * that is there already keeps its tries and park state.  -ENOSPC, -EIO: none of
 * them may be made visible. */
int stub_journal_add(struct stub_journal *j, const struct stub_journal_entry *e, size_t n);

/* Remove; entries that are not there are ignored.  Not synced by itself: a
 * removal that is lost leaves a stale entry, which is harmless. */
int stub_journal_remove(struct stub_journal *j, const struct stub_handle *h, size_t n);

/* Record a failure: tries + 1, error and reason; @park other than NONE parks it.
 * -ENOENT: no such entry (added then: a failure is never lost). */
int stub_journal_fail(struct stub_journal *j, const struct stub_handle *h, enum stub_park park,
		      int error, const char *reason);

/* Un-park one entry.  -ENOENT: there is none. */
int stub_journal_unpark(struct stub_journal *j, const struct stub_handle *h);

/* Un-park everything of the kinds in @mask (1 << STUB_PARK_...); returns how many. */
int64_t stub_journal_retry(struct stub_journal *j, unsigned int mask);

/* Move @n entries to another kind (file with all data, but names missing: LINKS) in
 * one transaction; durable on return.  Returns how many there were: handles without
 * an entry are passed over.  -EINVAL, -ENOSPC, -EIO: none was moved. */
int stub_journal_set_kind(struct stub_journal *j, const struct stub_handle *h, size_t n,
			  enum stub_journal_kind kind);

/* Entries that removals have taken out since the journal was opened for writing.  Waits
 * for those handed in before the call. */
uint64_t stub_journal_removed(struct stub_journal *j);

int stub_journal_get(struct stub_journal *j, const struct stub_handle *h,
		     struct stub_journal_entry *out); /* -ENOENT */
int stub_journal_counts(struct stub_journal *j, struct stub_journal_counts *out);

/* A walk in working order: directories, small files, large files, links.  Entries
 * that are parked are only met with @parked.  A cursor is plain memory, holds
 * nothing open, and stays valid whatever is added or removed; zero it to start. */
struct stub_journal_cursor {
	uint16_t len;
	uint8_t key[160];
};
/* Start at the first entry that is parked. */
void stub_journal_parked(struct stub_journal_cursor *c);
/* Up to @max entries after the cursor; returns how many, 0 at the end. */
int stub_journal_next(struct stub_journal *j, struct stub_journal_cursor *c, bool parked,
		      struct stub_journal_entry *out, size_t max);

/* ---- materialising and filling (the retriever) ------------------------------ */

/* An object opened by handle, with its record as it is now. */
struct stub_object {
	struct stub_handle h;
	int fd; /* O_RDWR for files, O_RDONLY for directories and on a read-only file system */
	unsigned int needs;
	uint16_t depth;
	struct stub_origin origin;
	uint64_t size;		    /* at the source when it was listed */
	struct timespec mtime, ctime; /* likewise */
	uint64_t fsid, fileid;
	uint32_t nlink;
	mode_t type; /* S_IFREG, S_IFDIR */
};

/* -ESTALE no such inode; -ENOENT no record: it is normal; -EBADMSG damaged record, or
 * another inode's; -EIO ... */
int stub_object_open(struct stub_volume *v, const struct stub_handle *h, struct stub_object *out);
void stub_object_close(struct stub_object *o);
/* The old server has another origin for it now: into its record and @o.
 *   -ENOENT it is normal; -ENOSPC, -EDQUOT, -EROFS, -EIO, -E2BIG: the record cannot be stored */
int stub_object_move(struct stub_volume *v, struct stub_object *o,
		     const struct stub_origin *origin);

/*
 * Make one name of the unlisted directory @dir.  Idempotent: the name may be
 * there already (then 0).
 *   -EBADMSG  the entry is hostile (name, type, size); -EMLINK too deep
 *   what stub_refusal() knows: the new file system will not have it, or (-EOVERFLOW) its
 *   origin is longer than STUB_ORIGIN_MAX; nothing was made
 *   -ENOSPC, -EDQUOT, -EIO: nothing was made
 */
int stub_make_entry(struct stub_volume *v, const struct stub_object *dir,
		    const struct stub_entry *e);

/* Is @name (bytes) one that a file may have?  0 or -EBADMSG ("", ".", "..", '/', NUL, too long). */
int stub_name_check(const char *name, size_t len);

/*
 * List: feed all entries in batches of any size, then finish.  Each batch is
 * prepared, journalled in one transaction and linked in; the directory stays
 * unlisted (hidden by the plugins) until finish() drops its record, or with @keep leaves
 * one that says nothing any more: what clients see of the directory does not move then
 * before the finisher drops it.
 * A batch may be fed again after a failure or a crash.
 * An entry that is fine but that the new file system refuses (stub_refusal) is left
 * out and goes into @refused, which starts zeroed, stays with the listing, and is
 * handed to finish(): the directory is listed then, and its record remembers them.
 * So does one that is impossible, but for its name.
 *   -EBADMSG  hostile name; *bad is its index
 *   -ENOENT   @dir is listed by now, somebody else did it: nothing to do any more
 *   -ENOSPC, -EDQUOT, -EIO
 *   what stub_refusal() knows: more names are refused than a record holds
 */
struct stub_refused {
	uint16_t len;
	uint8_t names[STUB_REFUSED_MAX]; /* of each: a byte of length, its bytes */
	int error; /* of the last one; not kept on disk */
};

int stub_list_batch(struct stub_volume *v, struct stub_journal *j, const struct stub_object *dir,
		    const struct stub_entry *e, size_t n, struct stub_refused *refused,
		    size_t *bad);
int stub_list_finish(struct stub_volume *v, struct stub_journal *j, const struct stub_object *dir,
		     const struct stub_refused *refused, bool keep);

/* Put down a name that is not made, and why: 0, or @error if there is no room for it. */
int stub_refused_add(struct stub_refused *r, const char *name, size_t len, int error);

/* Does this error of making an entry mean that the file system will not have it
 * (too long, too large, not permitted ...), rather than that something is broken or full? */
bool stub_refusal(int error);

bool stub_refused_contains(const struct stub_refused *r, const char *name, size_t len);

/* Walk the names: zero *at to start, false at the end. */
bool stub_refused_next(const struct stub_refused *r, size_t *at, const char **name, size_t *len);

/* The names that the directory behind @h is listed without; none for any other
 * object.  Errors as stub_view. */
int stub_refused_load(struct stub_volume *v, const struct stub_handle *h, struct stub_refused *out);

/* Is @name one of them?  1, 0, or as stub_view. */
int stub_refused_has(struct stub_volume *v, const struct stub_handle *h, const char *name);

/*
 * Try one of them again: make @e, or forget it if @e is NULL (the old server has it
 * no more).  A name that is there already is a client's and stays.  The last one
 * makes the directory normal.  0, also if @name is none of them.
 *   what stub_refusal() knows: refused again, nothing has changed
 *   -ENOENT   the directory is normal or gone
 *   -EBADMSG, -ENOSPC, -EDQUOT, -EIO
 */
int stub_refused_make(struct stub_volume *v, struct stub_journal *j, const struct stub_object *dir,
		      const char *name, size_t len, const struct stub_entry *e);

/*
 * dummy -> partial.  @times: access and write time that clients are to see, NULL: those of
 * @attr, with which the old server is compared later.  Stored are owner, mode, then the
 * @n extended attributes in the order given, then size, times and record.  It stays a
 * dummy until all are there; done again, it is the same.  @bad may be NULL; after a failure
 * it is the index of the extended attribute that could not be stored, or @n: it was
 * something else.  An object that is no dummy is left alone (then 0).
 *   -ESTALE   @attr is another object's (fsid, fileid, type)
 *   -EBUSY    the file was changed around the servers
 *   -EBADMSG  @attr is hostile, or an attribute is one of ours
 *   -ENOSPC, -EDQUOT, -EROFS, -EIO; what stub_refusal() knows, -E2BIG, -ERANGE: the file
 *   system has no place for an extended attribute, or (-EOVERFLOW) for the record beside
 *   them, of this one object
 */
int stub_fill_attr(struct stub_volume *v, const struct stub_object *o,
		   const struct stub_attr *attr, const struct timespec *times,
		   const struct stub_xattr *x, size_t n, size_t *bad);

/*
 * The same, with something that is kept elsewhere: @place is called first, in the object's
 * exclusion and only while it is a dummy, and what it has done must be durable when it
 * returns.  Its failure, a -errno, is the call's, and nothing is stored.
 */
int stub_fill_attr_and(struct stub_volume *v, const struct stub_object *o,
		       const struct stub_attr *attr, const struct timespec *times,
		       const struct stub_xattr *x, size_t n, size_t *bad, int (*place)(void *arg),
		       void *arg);

/*
 * Store fetched bytes where, and only where, they are still missing.
 * Returns the number of missing bytes left in the whole file, or -errno (nothing
 * is marked as present then): -ENOSPC, -EDQUOT, -EROFS, -EIO, -ENOENT (it is normal now),
 * -E2BIG (the map would have too many ranges: fill from the first missing byte), -EAGAIN
 * (the version of @o was given up for another one, stub_resolve_theirs(): open it anew), -EBUSY
 * (the file was changed around the servers: what is there is nobody's to overwrite), -EOVERFLOW
 * (this one file has no place for its record beside its other attributes; a map of one range
 * may fit).
 */
int64_t stub_fill_data(struct stub_volume *v, const struct stub_object *o, uint64_t offset,
		       const void *data, size_t length);

/* The next missing range at or after @offset: 1 and *out, 0 none, -errno. */
int stub_fill_next(struct stub_volume *v, const struct stub_object *o, uint64_t offset,
		   struct stub_range *out);

/*
 * What to fetch to make room in the record: its smallest missing ranges, until
 * STUB_MAP_ROOM are left or they are @bytes together, in order of offset.
 * Returns how many are missing now (0: nothing to fetch), or -errno.
 */
int stub_fill_room(struct stub_volume *v, const struct stub_object *o, uint64_t bytes,
		   struct stub_map *out);

/*
 * What is parked, and what the administrator says of it.  @note is called before anything
 * changes, in the object's exclusion: what is decided must be written down, durably, with
 * the ranges of a file that are @missing.  Its failure, a -errno, is the call's.
 */
typedef int (*stub_resolve_fn)(void *arg, const struct stub_map *missing);

/*
 * The old server's present version, from its beginning: @o is a dummy again, of which
 * nothing is here, and is to have attributes and data as @attr says they are now.  Durable
 * on return.
 *   -ENOENT   it is normal: nothing is missing
 *   -EBUSY    a client has changed it here since it was listed: that would be lost
 *   -ESTALE   @attr is of an object of another type
 *   -EMLINK   a hard-linked one, and @attr is of another inode
 *   -EISDIR   a directory, whose attributes are here
 *   -EBADMSG  @attr is hostile
 *   -ENOSPC, -EIO ...
 */
int stub_resolve_theirs(struct stub_volume *v, const struct stub_object *o,
			const struct stub_attr *attr, stub_resolve_fn note, void *arg);

/*
 * What lies here counts, and of attributes and data nothing is missing any more; what
 * nobody has written reads as zeros.  Names of a directory are left to stub_list_finish()
 * and stub_refused_make().
 *   -ENOENT   it is normal
 *   -ENODATA  not @lost, and something is missing that nobody has written here
 *   -ENOSPC, -EIO ...
 */
int stub_resolve_here(struct stub_volume *v, const struct stub_object *o, bool lost,
		      stub_resolve_fn note, void *arg);

/*
 * Batched completion.  Hand in objects that need nothing more; they are finished
 * in the background: one syncfs for many, then their records are dropped, and
 * their journal entries after the next sync.
 */
struct stub_finisher; /* may be used by all threads at once; has one thread of its own */
struct stub_finish_stats {
	uint64_t done;	   /* objects whose entry has gone since creation */
	uint64_t inflight; /* handed in, entry not yet removed */
	uint64_t split;	   /* objects finished with fewer names than at the source; each is logged */
	uint64_t kept;	   /* handed in, and not begun with since clients ask for them */
};
int stub_finisher_create(struct stub_volume *v, struct stub_journal *j, stub_log_fn log,
			 void *log_arg, struct stub_finisher **out);
/* Stops; what is not finished stays in the journal. */
void stub_finisher_destroy(struct stub_finisher *f);
void stub_finisher_add(struct stub_finisher *f, const struct stub_handle *h);
/* As stub_finisher_add(), once every directory is listed: a hard-linked inode whose
 * other names have not come by now is finished without them. */
void stub_finisher_add_last(struct stub_finisher *f, const struct stub_handle *h);
/* An entry whose object is gone or normal: removed after the next sync. */
void stub_finisher_add_stale(struct stub_finisher *f, const struct stub_handle *h);
/* A client asks for @h: it is not finished before it has not been asked for during the delay,
 * lest its change time move while it is read; nor is a directory before that holds for what is
 * in it.  The delay is 0 at first. */
void stub_finisher_touch(struct stub_finisher *f, const struct stub_handle *h);
/* Would @h be kept if it were handed in now? */
bool stub_finisher_keeps(struct stub_finisher *f, const struct stub_handle *h);
void stub_finisher_set_delay(struct stub_finisher *f, unsigned int seconds);
/* Wait until everything handed in before, also what is kept, is finished and durable. */
int stub_finisher_drain(struct stub_finisher *f);
void stub_finisher_stats(struct stub_finisher *f, struct stub_finish_stats *out);

/* Remove what a crash may have left in .postcopy/staging.  Only at the retriever's start. */
int stub_staging_clean(struct stub_volume *v);

/* Counter is 0 and durable: set the volume-wide flag of stub_volume_complete().
 *   -EBUSY  the root is a stub still: the counter is wrong */
int stub_volume_set_complete(struct stub_volume *v);

/* ---- serving (the retriever) ------------------------------------------------ */

/* One ask that came in.  Belongs to the server until answered. */
struct stub_request {
	struct stub_ask ask; /* name points into the request */
	uint64_t since_ms;   /* CLOCK_MONOTONIC when it came */
};

/* Called on the server's thread for every valid ask.  Must not block; must lead to
 * exactly one stub_request_answer(), at once or later from any thread. */
typedef void (*stub_serve_fn)(void *arg, struct stub_request *r);

struct stub_server;
/* Listens on the volume's socket (mode 0600, root only by SO_PEERCRED).
 *   -EADDRINUSE  another retriever is serving this volume, or a copy of it */
int stub_server_create(struct stub_volume *v, stub_serve_fn fn, void *arg, stub_log_fn log,
		       void *log_arg, struct stub_server **out);
void stub_server_destroy(struct stub_server *s); /* unanswered requests are answered -EAGAIN */
void stub_request_answer(struct stub_request *r, int result);
/* The answer DONE to a PASS: @fd is a memory file, sealed against every change, of
 * ask.length bytes.  It stays the caller's. */
void stub_request_pass(struct stub_request *r, int fd);

/* ---- scan (tools) ----------------------------------------------------------- */

struct stub_scan {
	uint64_t objects;	/* inodes met, root included */
	uint64_t files, dirs, others;
	uint64_t stubs;		/* other objects with a record than unlisted directories */
	uint64_t dummies, partials;
	uint64_t unlisted;	/* directories with a record */
	uint64_t refused;	/* names that listed directories are without */
	uint64_t covered;	/* records named by the journal */
	uint64_t in_unlisted;	/* records covered by an unlisted directory above */
	uint64_t uncovered;	/* records covered by neither: invariant 4 is broken */
	uint64_t corrupt;	/* damaged records */
	uint64_t foreign;	/* records that are another inode's (copies of stubs) */
	uint64_t leftovers;	/* names in staging and provisional */
	uint64_t provisional;	/* of these, provisional files */
	uint64_t journal;	/* entries */
	uint64_t parked;	/* of these, parked */
	uint64_t stale;		/* of these, naming no stub */
	uint64_t missing_bytes;
};
/* Walk the whole volume.  @progress may be NULL; called about every 10 000 objects. */
int stub_scan(struct stub_volume *v, void (*progress)(void *arg, const struct stub_scan *s),
	      void *arg, struct stub_scan *out);

/* The same, all of it optional. */
struct stub_scan_calls {
	struct stub_journal *journal; /* the caller's: a process may have it open only once */
	/* about every 10 000 objects; false ends the scan with -ECANCELED */
	bool (*progress)(void *arg, const struct stub_scan *s);
	/* a damaged or foreign record: the object @fd (O_PATH) with the handle @h */
	void (*found)(void *arg, int fd, const struct stub_handle *h, bool foreign);
	void *arg;
};
int stub_scan_calling(struct stub_volume *v, const struct stub_scan_calls *calls,
		      struct stub_scan *out);

/* Does it say that nothing is missing any more, whatever the journal says? */
bool stub_scan_whole(const struct stub_scan *s);

/* Remove .postcopy/ and the root's traces.  -EBUSY: the scan found anything left. */
int stub_volume_remove(struct stub_volume *v);
/* What a crash in stub_volume_remove() has left in @dir, which is no volume any more; done
 * as well if it has left nothing.
 *   -ENOENT  no volume has ended there; -EBUSY it is a volume */
int stub_volume_remove_rest(const char *dir);

/* ---- abort (tools): give the migration up, and leave what is there ------------ */

/* From now on, and until @v is closed, nobody else opens it.
 *   -EBUSY  somebody else has it open */
int stub_volume_alone(struct stub_volume *v);

/* One name of an object that misses something; of a directory, the directory. */
struct stub_lack {
	const char *path; /* bytes, below the root; "." is the root; "?/NAME": too long to say */
	struct stat st;
	unsigned int needs; /* STUB_NEEDS_* */
	bool unknown;	    /* its record is damaged, or (@foreign) another inode's */
	bool foreign;
	bool changed; /* clients have changed it, its data or its attributes */
	/* NULL if unknown */
	const struct stub_map *missing;
	const struct stub_refused *refused;
	const struct stub_origin *origin;
};
typedef int (*stub_lack_fn)(void *arg, const struct stub_lack *l);

/* What misses something, in no order.  A failure of @fn, a -errno, ends the walk and is
 * the call's.  Exact for who has the volume alone. */
int stub_abort_list(struct stub_volume *v, stub_lack_fn fn, void *arg);

/*
 * End the migration as it is.  @list is the path of the file with what stub_abort_list()
 * told, on the disk by now; it is for who repeats an abort that broke off.  An incomplete
 * object that is no directory becomes NAME.postcopy-incomplete (with the inode's number
 * where that is too long or taken) with mode 0 and owner root; one without a name goes
 * into nameless.postcopy-incomplete/ in the root so.  Directories stay, of mode 0700 and root's if their attributes are
 * missing.  Then all records go, and .postcopy.  Done again after a failure or a crash it
 * goes on; only STUB_OPEN_ABORT opens the volume in between.
 *   -EBUSY   somebody else has it open
 *   -EAGAIN  somebody has changed something past the servers meanwhile
 *   -EPERM (an immutable file; the log says which), -ENOSPC, -EIO ...
 */
int stub_abort(struct stub_volume *v, const char *list);
/* Has an abort begun, with which @list?  1, 0, -errno. */
int stub_abort_begun(const struct stub_volume *v, char *list, size_t size);
/* What a crash in the last step has left in @dir, which is no volume any more.
 *   -ENOENT  nothing; -EBUSY it is a volume */
int stub_abort_rest(const char *dir);

#ifdef __cplusplus
}
#endif
#endif
