/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * internal.h - what the files of libstubcore share and nobody else sees.
 */
#ifndef STUBCORE_INTERNAL_H
#define STUBCORE_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "stubcore.h"

#define STUB_PUBLIC __attribute__((visibility("default")))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- log.c ---- */

struct stub_log {
	stub_log_fn fn; /* may be NULL */
	void *arg;
};

/* As stub_log_to(); @l may be NULL. */
void stub_log(const struct stub_log *l, enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* For a line that may come very often: logged once a minute, with the number left out. */
struct stub_log_rate {
	uint64_t said_ms;
	unsigned int more;
};

/* @rate belongs to one thread. */
void stub_log_seldom(struct stub_log_rate *rate, const struct stub_log *l,
		     enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- io.c: the one place for full-length loops and scoped resources ---- */

int stub_io_read_file(int dirfd, const char *name, char *buf, size_t size); /* bytes, terminated */
int stub_io_write_file(int dirfd, const char *name, const char *text);	    /* synced */
int stub_io_flock(int fd); /* exclusive; waits, whatever signals come */

static inline bool stub_is_zero(const char *p, size_t n)
{
	return n == 0 || (p[0] == 0 && !memcmp(p, p + 1, n - 1));
}

static inline void stub_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void stub_cleanup_free(void *p)
{
	free(*(void **)p);
}
#define CLEANUP_CLOSE __attribute__((cleanup(stub_cleanup_close)))
#define CLEANUP_FREE __attribute__((cleanup(stub_cleanup_free)))

static inline int stub_steal_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

/* ---- small helpers ---- */

static inline int stub_time_cmp(struct timespec a, struct timespec b)
{
	if (a.tv_sec != b.tv_sec)
		return a.tv_sec < b.tv_sec ? -1 : 1;
	if (a.tv_nsec != b.tv_nsec)
		return a.tv_nsec < b.tv_nsec ? -1 : 1;
	return 0;
}

/* ---- map.c: and stubtypes.h ---- */

void stub_map_init(struct stub_map *m, uint64_t size); /* [0, size), or empty */
void stub_map_copy(struct stub_map *dst, const struct stub_map *src);
bool stub_map_empty(const struct stub_map *m);
/* Take [start, end) out.  -ENOSPC: would need more than STUB_MAP_MAX ranges; @m unchanged. */
int stub_map_subtract(struct stub_map *m, uint64_t start, uint64_t end);
/* Take everything at and beyond @size out. */
void stub_map_clip(struct stub_map *m, uint64_t size);
/* Leave in @a only what is in @b too.  -ENOSPC as above; @a unchanged. */
int stub_map_intersect(struct stub_map *a, const struct stub_map *b);
/* What is in @a and not in @b; what is in either.  -ENOSPC: more than STUB_MAP_MAX ranges; @out
 * undefined. */
int stub_map_difference(const struct stub_map *a, const struct stub_map *b, struct stub_map *out);
int stub_map_union(const struct stub_map *a, const struct stub_map *b, struct stub_map *out);
/* The smallest ranges, each of whose fetch makes the map one range shorter: so many that
 * @keep are left, or until they are @bytes together; one at least, unless @m is empty. */
void stub_map_smallest(const struct stub_map *m, uint32_t keep, uint64_t bytes,
		       struct stub_map *out);

/* ---- journal.c: and stubfill.h ---- */

/* Add or replace @n entries; returns when they are durable.  Calls of several
 * threads at once share one transaction and one sync (group commit).  An entry
 * that is there already keeps its tries and park state.  -ENOSPC, -EIO: none of
 * them may be made visible. */
int stub_journal_add(struct stub_journal *j, const struct stub_journal_entry *e, size_t n);

/* Remove; entries that are not there are ignored.  Not synced by itself: a
 * removal that is lost leaves a stale entry, which is harmless. */
int stub_journal_remove(struct stub_journal *j, const struct stub_handle *h, size_t n);
/* The same of objects that are not there, because a client removed them or they never came to be
 * (the retriever was killed before it linked them): stub_journal_totals() counts them no more. */
int stub_journal_forget(struct stub_journal *j, const struct stub_handle *h, size_t n);

/* Move @n entries to another kind (file with all data, but names missing: LINKS) in
 * one transaction; durable on return.  Returns how many there were: handles without
 * an entry are passed over.  -EINVAL, -ENOSPC, -EIO: none was moved. */
int stub_journal_set_kind(struct stub_journal *j, const struct stub_handle *h, size_t n,
			  enum stub_journal_kind kind);

/* Entries that removals have taken out since the journal was opened for writing.  Waits
 * for those handed in before the call. */
uint64_t stub_journal_removed(struct stub_journal *j);
/* @n objects were made that miss nothing, files among them of @bytes: for stub_journal_totals().
 * Stored with the next transaction; lost if the process is killed before it. */
void stub_journal_plain(struct stub_journal *j, uint64_t n, uint64_t bytes);

/* ---- record.c ---- */

enum {
	STUB_FLAG_DUMMY = 1,	/* attributes missing */
	STUB_FLAG_UNLISTED = 2, /* directory: entries missing */
	STUB_FLAG_LINKS = 4,	/* hard-linked at the source: has a provisional file */
	/* unlisted directory: look-ups have made names that the journal may not know;
	 * NEW: since the last search for them */
	STUB_FLAG_LOOKUPS = 8,
	STUB_FLAG_LOOKUPS_NEW = 16,
	STUB_FLAG_REFUSED = 32, /* listed directory: without the names in `refused` */
	/* with LINKS: link_key is part of the provisional file's name (earlier releases had
	 * none) */
	STUB_FLAG_LINK_KEY = 64,
	/* file, in the era of the record: what is missing has bytes of a version that was
	 * given up, which somebody may be about to read (resolve.c) */
	STUB_FLAG_OVER = 128,
};

struct stub_record {
	uint16_t flags;
	uint16_t source_id;
	uint16_t depth;
	uint64_t ino;	     /* the inode this record was made for */
	bool foreign;	     /* not on disk: it was read from another inode than that */
	uint32_t handle_sum; /* of the inode's kernel handle, which has its generation */
	uint64_t boot;	     /* boot and era in which `now` is valid */
	struct stub_origin origin;
	/* as seen at the source when listed; a directory's is shown (0: the record is of an
	 * earlier release, which did not keep it) */
	uint64_t size;
	struct timespec src_mtime, src_ctime;
	uint64_t fsid, fileid;
	uint64_t link_key;    /* STUB_FLAG_LINK_KEY only */
	uint32_t nlink;	      /* at the source */
	uint32_t nlink_shown; /* what clients see */
	struct timespec mtime, ctime; /* what clients see */
	struct stub_map now;	      /* missing as this boot knows */
	struct stub_map durable;      /* missing after a power cut */
	struct stub_refused refused;  /* STUB_FLAG_REFUSED only */
	bool roomy; /* it was read with room: an operation on the object has not ended */
};

/* Bytes written, or -E2BIG: more than @size. */
int stub_record_encode(const struct stub_record *r, uint8_t *buf, size_t size);
/* The same with room behind it for what one operation of a client may add; who reads a record
 * with room knows that the operation has not ended. */
int stub_record_encode_roomy(const struct stub_record *r, uint8_t *buf, size_t size);
int stub_record_decode(const uint8_t *buf, size_t len, struct stub_record *out); /* -EBADMSG */
unsigned int stub_record_needs(const struct stub_record *r);
/* Would the record fit with this `now` map, once the durable map is the same?  Room is left
 * for what else changes (times). */
bool stub_record_fits(const struct stub_record *r, const struct stub_map *now);

/* ---- handle.c ---- */

int stub_handle_open(const struct stub_volume *v, const struct stub_handle *h, int flags);

/* ---- clear.c ---- */

/* Before bytes are written into [offset, end), under the exclusion: no page and no block
 * that is missing in @rec as a whole is left there.  @st is of @fd, open for writing.
 * 1: these blocks read as zeros now; 0: the file system cannot do that; -errno. */
int stub_missing_clear(int fd, const struct stat *st, const struct stub_record *rec,
		       uint64_t offset, uint64_t end);

/* ---- local.c ---- */

/*
 * Has somebody changed the data or the times of a stub around the servers?  Under the
 * exclusion; @st and @rec are of @fd as they are now, settled (stub_record_load_settled).
 * 1: certainly, 0, or -errno.
 */
int stub_changed_locally(const struct stub_volume *v, int fd, const struct stat *st,
			 const struct stub_record *rec);
/* A write time up to now is no sign of a local change any more: it may come from a fill, of
 * this process or an earlier one, that did not end. */
void stub_local_forget(struct stub_volume *v);

/* ---- lock.c: per-inode exclusion across threads and processes ---- */

#define STUB_LOCK_SHARDS 256

struct stub_locks {
	int fd; /* .postcopy/lock; its byte N stands for inode N */
	pthread_mutex_t shard[STUB_LOCK_SHARDS];
};

int stub_locks_init(struct stub_locks *l, int fd);
void stub_locks_finish(struct stub_locks *l);
/* Locks @n inode numbers; sorts @ino and drops duplicates; *n_out is what is left. */
int stub_lock(struct stub_locks *l, uint64_t *ino, unsigned int n, unsigned int *n_out);
void stub_unlock(struct stub_locks *l, const uint64_t *ino, unsigned int n);

/* ---- volume.c ---- */

#define STUB_HIDDEN_MAX 20

struct stub_state_page { /* .postcopy/state, mapped shared by all processes */
	uint32_t magic;
	_Atomic uint32_t version; /* STUB_STATE_MIRRORED: with a ledger */
	_Atomic uint32_t complete;
	_Atomic uint32_t era; /* era.c */
	_Atomic uint64_t ledger; /* which set of it counts, ledger_map.c */
	_Atomic uint64_t frozen; /* the boot in which nobody enters, or 0, or ~0: for good; ledger.c */
};

struct stub_ask_pool;
struct stub_notes;
struct stub_later;
struct stub_folder;
struct stub_hub;
struct stub_enterer;

/* Where the directories in staging/ are (staging.c). */
#define STUB_SPREAD	  16
#define STUB_STAGING_TOP  16
#define STUB_STAGING_NAME 24
struct stub_spread {
	pthread_mutex_t lock;
	char top[STUB_STAGING_TOP]; /* above these; "": not known */
	uint64_t ino[STUB_SPREAD];  /* 0: there was no room for it */
};

struct stub_volume {
	struct stub_log log;
	struct stub_volume_info info;
	int fd;	     /* the root; also the mount fd of open_by_handle_at */
	int dir_fd;  /* .postcopy */
	int staging_fd;
	int provisional_fd;
	int lock_fd;
	int state_fd;
	_Atomic int finished_fd; /* finished.c; -1: not opened yet */
	_Atomic int digests_fd;	 /* digests.c; likewise */
	int places_fd; /* places.c; -ENOENT: no mirror, -errno: they cannot be used */
	bool way_back; /* the mirror is the source */
	bool only_named; /* stub_only_named() of its file system */
	uint64_t boot; /* without the era: stub_volume_boot() is what records carry */
	_Atomic int64_t filling_ns; /* see stub_local_forget(); CLOCK_REALTIME, as files' times */
	_Atomic uint32_t own_era; /* an era that only this process knows of, or 0 */
	dev_t dev;
	uint64_t root_ino;
	struct stub_handle root;
	struct stub_locks locks;
	struct stub_state_page *state;
	uint64_t hidden[STUB_HIDDEN_MAX]; /* inode numbers, and what holds them */
	int hidden_fd[STUB_HIDDEN_MAX];
	unsigned int n_hidden;
	_Atomic bool elsewhere; /* logged already: the retriever there serves another copy */
	atomic_uint_fast64_t staged; /* number of the next name in staging/ */
	struct stub_spread spread;
	struct stub_ask_pool *pool;
	struct stub_notes *notes;
	struct stub_later *later;
	struct stub_folder *folder; /* NULL without STUB_OPEN_FOLD */
	struct stub_hub *hub; /* NULL without STUB_OPEN_NEWS */
	struct stub_enterer *enterer;
};

/* ---- news.c ---- */

int stub_hub_create(struct stub_volume *v, struct stub_hub **out);
void stub_hub_destroy(struct stub_hub *hub);
void stub_ring_remove(const struct stub_volume *v); /* its file; who has it mapped keeps it */

/* ---- home.c ---- */

/* Take the lock of the retriever that serves this very copy of the volume: the descriptor that
 * holds it.  -EADDRINUSE: a retriever holds it already. */
int stub_home_serve(const struct stub_volume *v);
/* Does a retriever hold that lock? */
bool stub_home_served(const struct stub_volume *v);

/* ---- commit.c ---- */

/* stub_commit_prepare() that waits for a change under way, and
 * stub_commit_finish() after a good sync, but without one of the record. */
int stub_commit_prepare_quiet(struct stub_volume *v, const struct stub_handle *h,
			      struct stub_commit *c);
int stub_commit_fold(struct stub_commit *c);

/* ---- era.c: and stubserver.h ---- */

/* A sync of the volume or of a file in it has failed: nothing that is not durable
 * counts as present any more, in all processes.
 *   -EIO, -EROFS ...  only this process could be told */
int stub_volume_new_era(struct stub_volume *v);

/* Boot and era in one number: `now` of a record counts only if the record carries this one. */
uint64_t stub_volume_boot(const struct stub_volume *v);
/* Draw a new number and write it into the state's page, for all processes.  *era is that
 * number also if writing it fails. */
int stub_era_draw(const struct stub_volume *v, uint32_t *era);
int stub_notes_create(struct stub_notes **out);
void stub_notes_destroy(struct stub_notes *s);

/* ---- ledger_later.c ---- */

int stub_later_create(struct stub_later **out);
void stub_later_destroy(struct stub_later *l);

/* ---- enter.c ---- */

/* This process has opened the volume's descriptors: mark the volume as open.  If no other
 * process has it open, a new era begins. */
int stub_volume_enter(struct stub_volume *v); /* -EBUSY: stub_volume_alone() */

/* ---- object.c: records on inodes ---- */

/* Is there certainly no record?  @path_fd: opened with O_PATH.  One system call. */
bool stub_record_absent(int path_fd);
/* The record of the inode behind @fd (O_PATH will do), checked to be its own, maps
 * adjusted to this boot and to the file's size.  @st is filled too.
 *   -ENOENT normal; -EBADMSG damaged, or (out->foreign) another inode's; others as
 *   fgetxattr */
int stub_record_load(const struct stub_volume *v, int fd, const struct stub_handle *h,
		     struct stat *st, struct stub_record *out);
/* The same of a descriptor that was opened with O_PATH: one system call less. */
int stub_record_load_path(const struct stub_volume *v, int fd, const struct stub_handle *h,
			  struct stat *st, struct stub_record *out);
/* stub_view() of the object @fd, which may be O_PATH, with the handle @h. */
int stub_view_path(struct stub_volume *v, int fd, const struct stub_handle *h, struct stub_view *out);
/*
 * The same under the exclusion, by who is going to store it.  The bracket before may not have ended:
 * its process died or dropped it, or the record could not be stored.  What it made of the write
 * time was never shown to clients: it is set back, since the record that is stored now does not
 * tell any more that there was one (roomy), and it would pass for a local change (local.c).
 * Errors of utimensat() and fstat(), too.
 */
int stub_record_load_settled(const struct stub_volume *v, int fd, const struct stub_handle *h,
			     struct stat *st, struct stub_record *out);
/* The inode's exclusion, to be given back by stub_unlock(&v->locks, ino, 1).  0 or -errno:
 * nothing is held. */
int stub_lock_inode(struct stub_volume *v, int fd, uint64_t *ino, struct stat *st);
/* The same of an open object, and its record as it is from then on; further: errors of
 * stub_record_load_settled(). */
int stub_lock_record(struct stub_volume *v, const struct stub_object *o, uint64_t *ino,
		     struct stat *st, struct stub_record *rec);
/* The record of the inode behind @h, without the exclusion; further: -ESTALE it is gone,
 * others as open_by_handle_at. */
int stub_record_load_at(struct stub_volume *v, const struct stub_handle *h, struct stat *st,
			struct stub_record *rec);
/* stub_data_missing() and stub_view() in one look. */
int stub_data_look(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
		   uint64_t length, struct stub_view *view, struct stub_range *out);
/* As the kernel says it. */
int stub_xattr_try(int fd, const char *name, const void *value, size_t len);
/* -EOVERFLOW: with its other attributes it is more than the file system has place for (ext4:
 * a block for each file, and it says ENOSPC); nothing to do with how full the volume is. */
int stub_xattr_store(const struct stub_volume *v, int fd, const char *name, const void *value,
		     size_t len);
/* All @n of the old server's, in order; *bad: where it ended.  -EBADMSG: one of them is ours alone to write; -E2BIG:
 * as -EOVERFLOW above. */
int stub_xattrs_store(const struct stub_volume *v, int fd, const struct stub_xattr *x, size_t n,
		      size_t *bad);
/* The mode until these attributes are there.  Beside an ACL the group's bits are its mask, and whom an
 * entry keeps out is one of the group, or of the others; storing the ACL sets them. */
mode_t stub_mode_at_first(const struct stub_attr *a, const struct stub_xattr *x, size_t n);
int stub_record_store(const struct stub_volume *v, int fd, const struct stub_record *r);
/*
 * The same, under the inode's exclusion.  If the record has place for the map `now`, but not
 * for what the durable one has beyond it, the file is synced, after which both are equal.
 */
int stub_record_store_fitting(struct stub_volume *v, int fd, const struct stub_handle *h,
			      struct stub_record *r);
/* Sync the file, so that what @r counts as present is durable; @r says so, but the caller
 * stores it. */
int stub_record_sync(struct stub_volume *v, const struct stub_handle *h, struct stub_record *r);
/* Store @r as it is, but as large as it may become by an operation that comes now: when
 * this works, there is room for what must be stored after it. */
int stub_record_rehearse(const struct stub_volume *v, int fd, const struct stub_record *r);
int stub_record_drop(int fd); /* -ENOENT: there was none */
int stub_record_drop_path(int fd); /* of one opened with O_PATH */
/* Set mtime back to what clients are shown; atime stays. */
int stub_times_restore(int fd, const struct stub_record *r);

/* ---- finished.c: and stubtools.h ---- */

enum { STUB_FINISHED_CHANGED = 1, STUB_FINISHED_UNSURE = 2, STUB_FINISHED_SPLIT = 4 };

int stub_finished_create(int dirfd);
/* Note that we have done the last to the inode behind @fd (O_PATH too); under its exclusion, or
 * before clients can see it.  @digest, if not NULL, goes to its place as well (digests.c). */
void stub_finished_note(struct stub_volume *v, int fd, uint64_t fileid, unsigned int flags,
			const struct stub_digest *digest);
/* The same for one whose record @rec has just been dropped. */
void stub_finished_record(struct stub_volume *v, int fd, const struct stub_record *rec, bool split);
/* The same for what has just got its name and never had a record. */
void stub_finished_name(struct stub_volume *v, int dir_fd, const char *name, uint64_t fileid);

/* ---- places.c: and stubmirror.h ---- */

/* If the mirror is the source: the inode behind @fd (O_PATH too) came from @origin. */
int stub_place_note(struct stub_volume *v, int fd, const uint8_t *origin, size_t len);
struct stub_staged;
/* Is the place of @s in its slot alone, for it has no record?  Then stub_place_sync() before it gets its name. */
bool stub_place_alone(const struct stub_volume *v, const struct stub_staged *s);

/* ---- digests.c: and stubtools.h ---- */

/* Its version was given up. */
void stub_digest_forget(struct stub_volume *v, uint64_t ino);

/* ---- refused.c ---- */

unsigned int stub_refused_count(const struct stub_refused *r);

/* To a client, a record that has no place beside the file's other attributes is a lack of
 * space. */
static inline int stub_record_told(int r)
{
	return r == -EOVERFLOW ? -ENOSPC : r;
}

/* ---- fold.c ---- */

/* @keeper: see STUB_OPEN_KEEP */
int stub_folder_create(struct stub_volume *v, bool keeper, struct stub_folder **out);
void stub_folder_destroy(struct stub_folder *f); /* what is remembered is durable then */
/*
 * stub_record_store_fitting() of a record whose bytes are in the file, but perhaps not on
 * the disk: if it lags it is noted to be folded; if that fails the file is synced instead.
 */
int stub_record_store_lagging(struct stub_volume *v, int fd, const struct stub_handle *h,
			      struct stub_record *r);

/* ---- links.c: provisional files ---- */

#define STUB_PROVISIONAL_NAME 56
/* Entries with the same key, fsid and fileid are names of one inode. */
uint64_t stub_link_key(const struct stub_entry *e);
void stub_provisional_of_entry(const struct stub_entry *e, char out[STUB_PROVISIONAL_NAME]);
/* Remove the provisional file of the inode whose record @rec is, and of no other. */
int stub_provisional_unlink(struct stub_volume *v, const struct stub_record *rec);
bool stub_provisional_exists(const struct stub_volume *v, const struct stub_record *rec);

/* ---- staging.c: where to make what gets its name later ---- */

struct stub_staging {
	int fd;			      /* -1: not opened */
	char name[STUB_STAGING_NAME]; /* as seen from staging/ */
};

/* Of what is to be moved into the directory @dir, if it is not open.  -ENOSPC, -EDQUOT: a project's
 * first one cannot be made. */
int stub_staging_open(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *out);
void stub_staging_close(struct stub_staging *s);
#define CLEANUP_STAGING __attribute__((cleanup(stub_staging_close)))
/* How many are there that have got their names nowhere else, added to *n. */
int stub_staging_left(struct stub_volume *v, uint64_t *n);
/* Make the directory @fd hand no project on. */
int stub_project_none(int fd);

/* ---- unnamed.c: files without a name until they are complete, and where there are none ---- */

#define STUB_UNNAMED_NAME 24
struct stub_unnamed {
	int fd;			      /* for reading and writing */
	char name[STUB_UNNAMED_NAME]; /* in staging/; "" where there are unnamed files */
};

/* *only: is the file system that @fd is on one without unnamed files and renames that replace
 * nothing?  0, -errno. */
int stub_only_named(int fd, bool *only);
/* An empty file, mode 600, that is to get a name in the directory @dir_fd: made there, and of its project.
 * 0, -errno; *u is to be dropped. */
int stub_unnamed_open(const struct stub_volume *v, int dir_fd, struct stub_unnamed *u);
/* Give it the name @name in @dir_fd, and no other.  -EEXIST: that is taken; -errno. */
int stub_unnamed_name(const struct stub_volume *v, struct stub_unnamed *u, int dir_fd, const char *name);
/* The same by a name that has this process's number and is free; it is in @name, of @size bytes (32 are
 * enough). */
int stub_unnamed_number(const struct stub_volume *v, struct stub_unnamed *u, int dir_fd, char *name,
			size_t size);
/* Close it; what has got no name is gone. */
void stub_unnamed_drop(const struct stub_volume *v, struct stub_unnamed *u);
/* An empty file without a name, mode 600, on the file system of the directory @dir_fd, for what is to be
 * tried there: a descriptor, which is the caller's.  -errno; -EOPNOTSUPP: there are none. */
int stub_scratch(int dir_fd);
/* Rename what is no client's; never over anything, if @only_named under the exclusion of the
 * directory @to_fd.  -EEXIST: @to is taken; -errno. */
int stub_rename_new(int from_fd, const char *from, int to_fd, const char *to, bool only_named);
/* The number of what a file has for each inode: @ino, and on CephFS, whose inode numbers begin at 2^40 for
 * the first MDS rank, less, so that the file stays below its 1 TiB.  0: none, the number is too large. */
uint64_t stub_slot(bool only_named, uint64_t ino);

/* ---- syncer.c: and stubfill.h ---- */

/* The number of a sync that begins after this. */
uint64_t stub_syncer_ask(struct stub_syncer *s);
/* Wait for it.  0; -EAGAIN: @hurry(@arg) was true before (stub_syncer_wake()); -EIO: it, or a later
 * one, failed.  @hurry NULL: never; it is called with the syncer's lock held. */
int stub_syncer_wait(struct stub_syncer *s, uint64_t ticket, bool (*hurry)(void *arg), void *arg);

/* ---- stage.c: one inode, complete as a stub, not visible yet ---- */

enum stub_staged_kind { STUB_STAGED_NONE, STUB_STAGED_FD, STUB_STAGED_NAME, STUB_STAGED_LINK };

struct stub_staged {
	enum stub_staged_kind kind;
	int fd;			/* FD: the inode, unnamed unless it has a name */
	char name[STUB_PROVISIONAL_NAME]; /* FD, NAME: path in staging/; LINK: in provisional/ */
	bool journalled;	/* needs an entry before it becomes visible */
	bool whole;		/* FD: made whole, not to become visible before it was synced ... */
	bool here;		/* ... or it became a stub that misses nothing now */
	uint64_t boot;		/* whole: stub_volume_boot() before its bytes were written */
	struct stub_journal_entry entry;
};

/* The size to keep in the record of an object with these attributes. */
uint64_t stub_size_kept(const struct stub_attr *a);

/* @at, for as many of @dir as are made in a row, is opened when it is needed. */
int stub_stage(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *at,
	       const struct stub_entry *e, struct stub_staged *out);
/* A regular file of one name with all its bytes @data, and without a record (docs/decisions/0066).
 * -errno: nothing is staged. */
int stub_stage_whole(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *at,
		     const struct stub_entry *e, const void *data, struct stub_staged *out);
/* There is no time to sync it: make it a stub whose bytes are all here. */
int stub_staged_hurry(struct stub_volume *v, const struct stub_object *dir,
		      const struct stub_entry *e, struct stub_staged *s);
/* The journal entry of @e's inode if a provisional file of it is there: 1, else 0. */
int stub_stage_entry(struct stub_volume *v, const struct stub_entry *e,
		     struct stub_journal_entry *out);
/* Make it visible in @dir_fd as @name: -EEXIST if that is taken. */
int stub_staged_link(struct stub_volume *v, struct stub_staged *s, int dir_fd, const char *name);
void stub_staged_drop(struct stub_volume *v, struct stub_staged *s);
/* -EBADMSG, -EMLINK, -EOVERFLOW: a refusal, its origin is too long for a record */
int stub_entry_check(const struct stub_object *dir, const struct stub_entry *e);
bool stub_entry_linked(const struct stub_entry *e); /* several names at the source */

#endif
