/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubfill.h - what fills a volume: the retriever, and the crawler that asks it for everything.
 *
 * The order of things, which a crash may break off anywhere (docs/design.md):
 *
 *   stub_journal_open(), stub_volume_open(.. KEEP | NEWS), stub_staging_clean()
 *   stub_server_create(): asks come in, each answered once
 *     LIST     stub_object_open(); stub_list_batch() for what the old server lists;
 *              stub_list_finish()
 *     LOOKUP   stub_make_entry() of the one name
 *     ATTR     stub_fill_attr()
 *     DATA     stub_fill_next() says what is missing; it is fetched without any lock;
 *              stub_fill_data() writes what is missing still
 *   stub_finisher_add() of what misses nothing any more; its journal entry goes later
 *   stub_journal_fail() of what has failed; in the end it is parked, until it is resolved
 *   stub_journal_counts() is 0, and a scan agrees: stub_volume_set_complete()
 */
#ifndef STUBFILL_H
#define STUBFILL_H

#include "stubserver.h"

#pragma GCC visibility push(default) /* what libstubcore.so exports */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pending journal (the retriever writes, tools read) ----------------- */

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

/*
 * What the journal has counted since the volume was made.  Exact over crashes: it is stored in
 * the transactions that change the entries.  An object is found when it gets its entry, or, if
 * nothing of it is missing from the beginning, when it is made; it is done when it needs nothing
 * from the old server any more.  found = done + left + parked.  Not counted: what a client asked
 * for by name before its directory was listed and what was complete before that too; and, any
 * more, what a client removed before it was done.
 */
struct stub_journal_totals {
	uint64_t found, found_bytes; /* bytes: sizes of files at the source */
	uint64_t done, done_bytes;   /* also what clients wrote anew */
	uint64_t left, left_bytes;   /* a file counts whole until it is done */
	uint64_t parked, parked_bytes;
	uint64_t dirs; /* of left: directories, of whose content nothing is known mostly */
	uint64_t parked_dirs; /* of parked, likewise */
	bool whole; /* false: an earlier release did not count; done is too small, and found too */
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
 *   -EPROTONOSUPPORT  a newer release has made it
 *   -ENOENT   there is none (read-only, existing)
 */
int stub_journal_open(const char *dir, unsigned int flags, stub_log_fn log, void *log_arg,
		      struct stub_journal **out);
void stub_journal_close(struct stub_journal *j);

/* Record a failure: tries + 1, error and reason; @park other than NONE parks it.
 * -ENOENT: no such entry (added then: a failure is never lost). */
int stub_journal_fail(struct stub_journal *j, const struct stub_handle *h, enum stub_park park,
		      int error, const char *reason);

/* Un-park one entry.  -ENOENT: there is none that is parked. */
int stub_journal_unpark(struct stub_journal *j, const struct stub_handle *h);
/* Un-park these; returns how many of them were parked.  -EINVAL: one is no handle. */
int64_t stub_journal_unpark_these(struct stub_journal *j, const struct stub_handle *h, size_t n);

/* Un-park everything of the kinds in @mask (1 << STUB_PARK_...); returns how many. */
int64_t stub_journal_retry(struct stub_journal *j, unsigned int mask);

int stub_journal_get(struct stub_journal *j, const struct stub_handle *h,
		     struct stub_journal_entry *out); /* -ENOENT */
int stub_journal_counts(struct stub_journal *j, struct stub_journal_counts *out);
/* -ENODATA: an earlier release was the last that wrote, and nobody has counted since. */
int stub_journal_totals(struct stub_journal *j, struct stub_journal_totals *out);
/* Are they what a walk through all entries adds up to?  Exact whatever else runs: one transaction,
 * so a writer makes the file larger meanwhile.
 *   -EUCLEAN  they are not (logged)
 *   -ENODATA  as above */
int stub_journal_audit(struct stub_journal *j);

/* A walk in working order: directories, small files, large files, links.  Entries
 * that are parked are only met with @parked.  A cursor is plain memory, holds
 * nothing open, and stays valid whatever is added or removed; zero it to start. */
struct stub_journal_cursor {
	uint16_t len;
	uint8_t key[160];
};
/* Start behind the directories. */
void stub_journal_files(struct stub_journal_cursor *c);
/* Start at the first entry that is parked. */
void stub_journal_parked(struct stub_journal_cursor *c);
/* Up to @max entries after the cursor; returns how many, 0 at the end. */
int stub_journal_next(struct stub_journal *j, struct stub_journal_cursor *c, bool parked,
		      struct stub_journal_entry *out, size_t max);

/* How far stub_names_may_come() is; zero it to start. */
struct stub_names {
	struct stub_journal_counts counts; /* of which all this is known */
	struct stub_journal_cursor at;
	bool over, come;
};

/*
 * Inodes with several links wait for names.  May names still come?  @n: what
 * stub_journal_counts() said just now.  Looks at 256 parked objects in a call, and once at each of
 * them while @n stays the same.  No lock: what it says is as old as @n.
 *   1         yes: something that is not parked is pending, or a parked directory is
 *   0         no: what waits for them is to be finished with the names it has
 *   -EAGAIN   not known yet: call again
 *   -ENOMEM, -EIO and others of the journal: not known
 */
int stub_names_may_come(struct stub_volume *v, struct stub_journal *j, struct stub_names *s,
			const struct stub_journal_counts *n);

/* ---- where clients are at work (heat.c): a hint ---- */

#define STUB_HEAT_PLACES 64

struct stub_heat {
	uint64_t number; /* grows */
	struct stub_handle h; /* a directory in which a client has met what was not here */
};

struct stub_heat_file { /* of who tells */
	int fd;
	uint64_t last; /* number that was told */
	struct stub_heat at[STUB_HEAT_PLACES];
};

/* -errno: nothing is told.  Closed in either case. */
int stub_heat_open(struct stub_heat_file *f, int root_fd);
void stub_heat_close(struct stub_heat_file *f);
/* Tell of @dir.  One caller at a time.  -errno */
int stub_heat_put(struct stub_heat_file *f, const struct stub_handle *dir);
/* Those above @after, by number; how many, or -errno. */
int stub_heat_get(int root_fd, uint64_t after, struct stub_heat out[STUB_HEAT_PLACES]);

/* ---- the volume --------------------------------------------------------- */

/*
 * Declare that the volume's home is where it is now (home.c): for a volume of a release that
 * did not note this, and after its file system was copied block by block or got another UUID.
 * Likewise that its lease is the one under which it was mounted (active.c).
 * @j is open for writing: the volume's only writer.  0, also if it was at home already.
 *   -EXDEV   its root is another directory, or nothing of what @j names is here
 *   -ENOLCK  it has a lease, and is mounted under none: see stub_volume_unlease()
 */
int stub_volume_settle(struct stub_volume *v, struct stub_journal *j);

/* Mark this process as a crawler of the volume, until it closes @v or dies.
 *   -ENOLCK ...  it could not be marked */
int stub_crawler_enter(struct stub_volume *v);
/* Is any other process so marked?  One system call. */
bool stub_crawler_runs(const struct stub_volume *v);

/* ---- materialising and filling ------------------------------------------ */

/* An object opened by handle, with its record as it is now. */
struct stub_object {
	struct stub_handle h;
	uint64_t ino;
	int fd; /* O_RDWR for files, O_RDONLY for directories and on a read-only file system */
	unsigned int needs;
	uint16_t depth;
	struct stub_origin origin;
	uint64_t size;		    /* at the source when it was listed */
	struct timespec mtime, ctime; /* likewise */
	uint64_t fsid, fileid;
	uint32_t nlink;
	mode_t type; /* S_IFREG, S_IFDIR */
	struct stub_range missing; /* of a file, the first missing range when it was opened; end 0:
				    * none */
};

/* -ESTALE no such inode; -ENOENT no record: it is normal; -EBADMSG damaged record, or
 * another inode's; -EIO ... */
int stub_object_open(struct stub_volume *v, const struct stub_handle *h, struct stub_object *out);
void stub_object_close(struct stub_object *o);
/* The old server knows the object by another @origin now: put that into its record and @o.
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
 * unlisted (hidden by the plugins) until finish() drops its record.  With @keep it leaves
 * a record in which nothing is missing, so that what clients see of the directory does not
 * move before the finisher drops that.
 * A batch may be fed again after a failure or a crash.
 * An entry that is fine but that the new file system refuses (stub_refusal) is left
 * out and goes into @refused, which starts zeroed, stays with the listing, and is
 * handed to finish(): the directory is listed then, and its record remembers them.
 * The same for an entry that is impossible in anything but its name.
 *   -EBADMSG  hostile name; *bad is its index
 *   -ENOENT   @dir is listed by now, somebody else did it: nothing to do any more
 *   -ENOSPC, -EDQUOT, -EIO
 *   errors that stub_refusal() knows: more names are refused than a record holds
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

/*
 * Small files, made whole (docs/decisions/0066): a batch of which the bytes of some entries are
 * here already.  These become normal files at once, no stubs, if they are regular files of one
 * name and no dummies (or what they are is known in full), and their attributes and bytes are
 * those of one version.  They get their names after a sync that the syncer makes for all who wait.
 * What cannot be made whole is made a stub, as by stub_list_batch(), and so is what a failed sync may have lost.
 */
struct stub_syncer; /* may be used by all threads at once; has one thread of its own */
int stub_syncer_create(struct stub_volume *v, struct stub_syncer **out);
void stub_syncer_destroy(struct stub_syncer *s); /* nobody waits for it any more */
bool stub_syncer_well(struct stub_syncer *s); /* no sync has failed a moment ago */
void stub_syncer_wake(struct stub_syncer *s); /* who waits asks whether it is to hurry */

struct stub_whole {
	const void *const *data; /* of each entry, attr.size bytes; NULL: not here */
	/* of each entry: it is a dummy, and this is the same entry, and none; NULL: it is whole as it is.
	 * What cannot be made whole becomes the dummy. */
	const struct stub_entry *const *full;
	/* of each entry, STUB_DIGEST bytes to be kept (stub_digest_put()); NULL: not known, of none */
	const uint8_t *const *digest;
	struct stub_syncer *syncer;
	struct stub_finisher *finisher;
	/* Somebody waits for the listing now: do not wait for the sync.  What is not synced becomes
	 * a stub in which nothing is missing, and is handed to the finisher.  Must not block. */
	bool (*hurry)(void *arg);
	void *arg;
	uint64_t files, bytes; /* made whole are added */
};
/* As stub_list_batch(); the entries of @w->data that are not NULL must be as said above. */
int stub_list_whole(struct stub_volume *v, struct stub_journal *j, const struct stub_object *dir,
		    const struct stub_entry *e, size_t n, struct stub_whole *w,
		    struct stub_refused *refused, size_t *bad);

/* Note in @r a name that is not made, and why: 0, or @error if there is no room for it. */
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
 * @attr.  (The times of @attr are kept, to compare the old server with later.)  Stored are
 * owner, mode, then the @n extended attributes in the order given, then size, times and
 * record.  The object stays a dummy until all are there; the call may be repeated.  @bad may
 * be NULL; after a failure it is the index of the extended attribute that could not be
 * stored, or @n if something else failed.  An object that is no dummy is left alone (then 0).
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
 * The same, for an object of which something is kept elsewhere (streams in a depot): @place,
 * which stores that, is called first, in the object's exclusion and only while it is a dummy.
 * What it has done must be durable when it returns.  Its -errno ends the call, and nothing
 * is stored.
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
 * (the version of @o was given up for another one, stub_resolve_theirs(), or its attributes are
 * missing: open it anew), -EBUSY
 * (the file was changed around the servers: what is there is nobody's to overwrite), -EOVERFLOW
 * (this one file has no place for its record beside its other attributes; a map of one range
 * may fit).
 */
int64_t stub_fill_data(struct stub_volume *v, const struct stub_object *o, uint64_t offset,
		       const void *data, size_t length);
/* The same; *left is what is missing after it, empty after a failure.  @left may be NULL. */
int64_t stub_fill_data_left(struct stub_volume *v, const struct stub_object *o, uint64_t offset,
			    const void *data, size_t length, struct stub_map *left);

/*
 * Take what is missing in [offset, end) from the file @from, a descriptor of the source's on the
 * volume's own file system, by sharing its blocks: nothing is copied.  What are no whole blocks
 * stays missing.  Returns, and *left is, as for stub_fill_data_left(); also
 *   -EXDEV       these two file systems do not do that
 *   -EOPNOTSUPP  these two files do not
 *   -ESTALE      @from is of another version than what was listed; nothing was taken
 */
int64_t stub_fill_clone(struct stub_volume *v, const struct stub_object *o, int from, uint64_t offset,
			uint64_t end, struct stub_map *left);

/*
 * The old server has no data in [offset, end): where that is missing it becomes a hole, at
 * once whatever its length.  Returns as stub_fill_data(), and
 *   -EOPNOTSUPP  it is not certain that it reads as zeros here: fetch the bytes, and store them
 *   -EINVAL      it ends before it begins, or behind any file's end
 */
int64_t stub_fill_hole(struct stub_volume *v, const struct stub_object *o, uint64_t offset,
		       uint64_t end);

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
 * What the administrator decides of a parked object.  A function of this type is called
 * before anything changes, in the object's exclusion, and must write the decision down,
 * durably, with the ranges of a file that are @missing.  Its -errno ends the call.
 */
typedef int (*stub_resolve_fn)(void *arg, const struct stub_map *missing);

/*
 * Take the old server's present version, all of it: @o becomes a dummy again, of which
 * nothing is here, and its attributes and data will come as @attr describes them.  Durable
 * on return.
 *   -ENOENT   it is normal: nothing is missing
 *   -EBUSY    a client has changed it here since it was listed: that would be lost
 *   -ESTALE   @attr is of an object of another type
 *   -EMLINK   it is hard-linked, and @attr is of another inode
 *   -EISDIR   it is no regular file, and its attributes are here
 *   -EBADMSG  @attr is hostile
 *   -ENOSPC, -EIO ...
 */
int stub_resolve_theirs(struct stub_volume *v, const struct stub_object *o,
			const struct stub_attr *attr, stub_resolve_fn note, void *arg);

/*
 * Take what is here: of attributes and data nothing counts as missing any more, and what
 * nobody has written reads as zeros.  Names of a directory are left to stub_list_finish()
 * and stub_refused_make().
 *   -ENOENT   it is normal
 *   -ENODATA  something is missing that nobody has written here; with @lost that is accepted
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
	uint64_t kept;	   /* handed in, and waiting since clients have asked for them lately */
};
int stub_finisher_create(struct stub_volume *v, struct stub_journal *j, stub_log_fn log,
			 void *log_arg, struct stub_finisher **out);
/* Stops; what is not finished stays in the journal. */
void stub_finisher_destroy(struct stub_finisher *f);
void stub_finisher_add(struct stub_finisher *f, const struct stub_handle *h);
/* As stub_finisher_add(), of a file of one name in which stub_fill_data() has left nothing
 * missing: it need not be looked at before the sync. */
void stub_finisher_add_whole(struct stub_finisher *f, const struct stub_handle *h);
/* As stub_finisher_add(), once every directory is listed: a hard-linked inode whose
 * other names have not come by now is finished without them. */
void stub_finisher_add_last(struct stub_finisher *f, const struct stub_handle *h);
/* An entry whose object is gone or normal: removed after the next sync. */
void stub_finisher_add_stale(struct stub_finisher *f, const struct stub_handle *h);
/* A client asks for @h: it is not finished until the delay has passed without another such
 * ask, so that its change time does not move while it is read.  A directory also waits for
 * what is in it.  The delay is 0 at first. */
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

/* ---- serving ------------------------------------------------------------ */

/* One ask that came in.  Belongs to the server until answered. */
struct stub_request {
	struct stub_ask ask; /* name points into the request */
	uint64_t since_ms;   /* CLOCK_MONOTONIC when it came */
	pid_t pid;	     /* whose connection it came by */
};

/* Called on the server's thread for every valid ask.  Must not block; must lead to
 * exactly one stub_request_answer(), at once or later from any thread. */
typedef void (*stub_serve_fn)(void *arg, struct stub_request *r);

struct stub_server;
/* Listens on the volume's socket (mode 0600, root only by SO_PEERCRED).
 *   -EADDRINUSE  another retriever is serving this volume, or a copy of it */
int stub_server_create(struct stub_volume *v, stub_serve_fn fn, void *arg, stub_log_fn log,
		       void *log_arg, struct stub_server **out);
/* For a watchdog: sends the thread that reads asks around once, and returns how often it has been.
 * Whoever asks again later, and gets the same number, knows that it stands still. */
uint64_t stub_server_turns(struct stub_server *s);
void stub_server_destroy(struct stub_server *s); /* unanswered requests are answered -EAGAIN */
void stub_request_answer(struct stub_request *r, int result);
/* The answer DONE to a PASS: @fd is a memory file, sealed against every change, of
 * ask.length bytes.  It stays the caller's. */
void stub_request_pass(struct stub_request *r, int fd);

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop

#endif
