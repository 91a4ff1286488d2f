/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubtools.h - a volume's beginning and end, and a look at all of it: the administrator's tools.
 */
#ifndef STUBTOOLS_H
#define STUBTOOLS_H

#include "stubfill.h"

#pragma GCC visibility push(default) /* what libstubcore.so exports */

#ifdef __cplusplus
extern "C" {
#endif

struct stub_mirror_conf;

/* ---- create ------------------------------------------------------------- */

/*
 * Make @dir (an empty directory) a volume: .postcopy/ with the journal, and the
 * stub record of the root, which becomes an unlisted directory with the given
 * origin and the attributes of the source's root; with @dummy, others of its attributes
 * are still to be fetched.  With @way_back (or NULL), of that kind, it has that mirror from the beginning
 * (stubmirror.h).  The volume exists when volume.conf is in place, the last step;
 * what a broken-off call has left is replaced.
 *   -EEXIST      it is a volume already
 *   -ENOTEMPTY   something else is in it
 *   -EOPNOTSUPP  the file system lacks trusted xattrs, handles or O_TMPFILE
 *   -ENOSPC, -EIO, -EPERM (not root) ...
 */
int stub_volume_create(const char *dir, const struct stub_volume_info *info,
		       const struct stub_origin *root, const struct stub_attr *attr, bool dummy,
		       const struct stub_mirror_conf *way_back, stub_log_fn log, void *log_arg);

/* ---- volume.conf ---------------------------------------------------------- */

struct stub_conf_problem {
	unsigned int line; /* where, from 1; 0: of the file as a whole */
	char key[132];	   /* printable; "": none */
	char text[256];
};

/*
 * What the volume at @dir says of itself, without opening it; what is wrong with it.
 *   -ENOENT           there is none
 *   -EBADMSG          it is damaged, or says what this release does not know
 *   -EPROTONOSUPPORT  made by a newer release
 *   -errno            it cannot be read
 */
int stub_conf_check(const char *dir, struct stub_volume_info *info, struct stub_conf_problem *why);

/* ---- the active node ------------------------------------------------------ */

#define STUB_ACTIVE_DIR "/run/postcopy/active"
#define STUB_NODE_MAX 64 /* bytes of a node's name */

/* A lease that this node holds, and with it a file system that other nodes can reach. */
struct stub_active {
	char lease[STUB_LEASE_MAX + 1]; /* a UUID, in small letters */
	char node[STUB_NODE_MAX + 1];	/* this one */
	dev_t dev;			/* st_dev of what is mounted under it */
	uint64_t since;			/* seconds since the epoch */
};

/*
 * The lease with that name, or the one under which file system @dev was mounted.
 *   -ENOENT   this node does not hold it
 *   -EBADMSG  what its holder says is no such text
 *   -errno
 */
int stub_active_get(const char *lease, struct stub_active *out);
int stub_active_of(dev_t dev, struct stub_active *out);

/*
 * For who holds the lease: from now on volumes that name it can be opened, until the descriptor
 * that is returned is closed.
 *   -EBUSY   another process here says so
 *   -EINVAL  a name that can be none
 *   -ENOENT  STUB_ACTIVE_DIR is not root's alone
 *   -errno
 */
int stub_active_hold(const struct stub_active *a);

/* @v, opened with STUB_OPEN_ANYWHERE, is on a disk of one machine from now on, and has no lease. */
int stub_volume_unlease(struct stub_volume *v);

/* ---- scan --------------------------------------------------------------- */

struct stub_scan {
	uint64_t objects;	/* inodes met, root included */
	uint64_t files, dirs, others;
	uint64_t stubs;		/* objects with a record, but for unlisted directories */
	uint64_t dummies, partials;
	uint64_t unlisted;	/* unlisted directories */
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
	uint64_t stale;		/* entries that name no stub */
	uint64_t missing_bytes;
	uint64_t journal_bytes;	/* sizes of the files in the journal that wait for more than names:
				 * the judge of stub_journal_totals() */
	bool miscounted;	/* stub_journal_audit() found the totals wrong */
};
/* Walk the whole volume.  @progress may be NULL; called about every 10 000 objects. */
int stub_scan(struct stub_volume *v, void (*progress)(void *arg, const struct stub_scan *s),
	      void *arg, struct stub_scan *out);

/* What stub_scan_calling() takes; each field may be NULL. */
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

/* Has the scan found that nothing is missing any more?  The journal does not count here. */
bool stub_scan_whole(const struct stub_scan *s);

/* Remove .postcopy/ and the root's traces.  -EBUSY: the scan found anything left; -EEXIST: it has
 * a mirror. */
int stub_volume_remove(struct stub_volume *v);
/* Remove what a crash in stub_volume_remove() has left in @dir, which is no volume any more;
 * 0 also if it has left nothing.
 *   -ENOENT  no volume has ended there; -EBUSY it is a volume */
int stub_volume_remove_rest(const char *dir);

/* ---- what was known of an object when it became normal -------------------- */

struct stub_finished {
	struct timespec ctime; /* the inode's; as long as it has this one nobody has changed it */
	uint64_t fileid;       /* the source's file id */
	bool changed;	       /* clients had changed it before */
	bool unsure;	       /* perhaps they had */
	bool split;	       /* it has fewer names than at the source, which was told */
	uint32_t right_in;     /* of stub_finished_right(); 0: none since it became normal */
};

/* Of the inode @ino with the handle @h.
 *   -ENOENT  nothing is known: it is not ours, or the note was lost in a crash; or the volume
 *            was made by a release that did not keep any
 *   -EBADMSG, -errno */
int stub_finished_get(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
		      struct stub_finished *out);
/* Comparison @number has found it right; only for what stub_finished_get() knows. */
int stub_finished_right(struct stub_volume *v, uint64_t ino, uint32_t number);

/* ---- digests of what the old server has given (docs/decisions/0074) ----------- */

struct stub_digest {
	uint64_t size;	       /* of the version whose bytes they were, at the source ... */
	struct timespec mtime; /* ... and its write time */
	uint8_t digest[STUB_DIGEST];
};

/* Of the inode @ino with the handle @h; not synced.
 *   -ERANGE  there is no place for that inode number; -EBADMSG, -errno */
int stub_digest_put(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
		    const struct stub_digest *d);
/*   -ENOENT  none is known; -EBADMSG .postcopy/digests is something else, -errno */
int stub_digest_get(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
		    struct stub_digest *out);

/* ---- abort: give the migration up, and leave what is there -------------- */

/* From now on, and until @v is closed, nobody else can open the volume.
 *   -EBUSY  somebody else has it open */
int stub_volume_alone(struct stub_volume *v);

/* A directory that misses something, or one name of another object that does. */
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

/* Call @fn for each object that misses something, in no order.  Its -errno ends the walk and
 * is returned.  Exact only after stub_volume_alone(). */
int stub_abort_list(struct stub_volume *v, stub_lack_fn fn, void *arg);

/*
 * End the migration as it is.  @list is the path of the file with what stub_abort_list()
 * told, already on the disk; it is remembered for whoever repeats an abort that broke off.
 * An incomplete object that is no directory becomes NAME.postcopy-incomplete (with the
 * inode's number where that is too long or taken) with mode 0 and owner root; one without a
 * name becomes so in nameless.postcopy-incomplete/ in the root.  Directories stay; if their
 * attributes are missing they are root's, of mode 0700.  Then all records go, and .postcopy.
 * After a failure or a crash call it again and it goes on; only STUB_OPEN_ABORT opens the
 * volume in between.
 *   -EBUSY   somebody else has it open
 *   -EAGAIN  somebody has changed something around the servers meanwhile
 *   -EPERM (an immutable file; the log says which), -ENOSPC, -EIO ...
 */
int stub_abort(struct stub_volume *v, const char *list);
/* Has an abort begun, with which @list?  1, 0, -errno. */
int stub_abort_begun(const struct stub_volume *v, char *list, size_t size);
/* Remove what a crash in the last step has left in @dir, which is no volume any more.
 *   -ENOENT  nothing; -EBUSY it is a volume */
int stub_abort_rest(const char *dir);

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop

#endif
