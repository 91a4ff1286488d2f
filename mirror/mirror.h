/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mirror.h - the replicator of one volume: what its rooms share (docs/decisions/0092).
 *
 *   replicator.c    takes from the ledger, hands to workers
 *   carry.c         compares one object, strikes it, or puts it back
 *   express.c       first of all, that for which a client waits
 *   desk.c          when an object may be compared next, and why not now; what is parked
 *   object.c        an object here, its place over there
 *   compare_dir.c   names; there.c: a listing over there; bring.c: how a missing name comes there
 *   compare_file.c  bytes
 *   kept.c          files of which nothing could be lost over there
 *   recent.c        what files were over there a moment ago
 *   compare_attr.c  owner, ACL, mode, times
 *   share.c         what only SMB carries
 *   verify.c        the whole volume, only looked at
 *   marks.c         a set, by sums
 *   aside.c         what is held aside, and when it may go
 *   rounds.c        has everything that was owed at some moment been compared since?
 *   walk.c          through the whole volume
 *   fills.c         asks the retriever for what is missing here
 *   control.c       the control socket
 *
 * What holds, whatever dies:
 *
 * 1. An object is struck only if a comparison that began after stub_ledger_begin() found, or
 *    made, everything equal that was owed, and what the comparison saw here is durable here.
 * 2. Who has something left to do for another object owes it (mirror_owe()) before it does
 *    anything by which that could be forgotten: a new object is owed with all it has before
 *    its place is noted, for a place says that it is the right one.
 * 3. Places are durable before a directory with the name is struck (mirror_keep_places()).
 * 4. Nothing over there is removed before every directory that was owed when it was held
 *    aside has been compared since, and does not want it, and the ledger knows what is owed.
 * 5. What the migration could still take for the old server's is durable here before it is there: a name
 *    in an unlisted directory that a crash took back here would come back as a stub, beside the one
 *    under its old name.
 * 6. One worker has an object at a time; objects that are made have the inode's lock
 *    (mirror_lock_ino()), so that names in several directories make one.
 *
 * No lock of one room is held while another room is called; but the inode's lock, which is
 * outermost, and the one of aside.c, while the server is called.  The lock of the places is a leaf.
 */
#ifndef MIRROR_H
#define MIRROR_H

#include <errno.h>
#include <stdatomic.h>

#include "source/target.h"
#include "stubcore.h"
#include "stubfill.h"
#include "stubledger.h"
#include "stubmirror.h"

#define MIRROR_INO_LOCKS 64

struct aside;
struct desk;
struct express;
struct fills;
struct kept;
struct recent;
struct rounds;
struct share;
struct verifier;
struct walker;

struct mirror {
	/* set at the start */
	struct stub_volume *volume;
	struct stub_journal *journal; /* of a way back, to read; else NULL */
	struct stub_ledger *ledger;
	struct source *target;
	struct share *share; /* of the same tree over SMB; NULL: none */
	struct stub_mirror_conf conf;
	dev_t dev;
	bool acls; /* the volume keeps POSIX ACLs */
	unsigned int workers;
	stub_log_fn log;
	void *log_arg;
	struct aside *aside;
	struct desk *desk;
	struct express *express;
	struct fills *fills;
	struct kept *kept;
	struct recent *recent;
	struct rounds *rounds;
	struct verifier *verifier;
	struct walker *walker;
	/* counted since the start */
	_Atomic uint64_t objects, bytes, foreign, waiting, waits_now;
	_Atomic uint64_t behind_ms; /* since when the ledger was not read to its end; 0: it was */
	atomic_bool paused, stopping;
	atomic_bool made; /* something was, over there: what waited for that can go on */
	atomic_bool caught_up; /* hardly anything was owed, since the mirror is there */
	pthread_mutex_t ino_lock[MIRROR_INO_LOCKS];
	pthread_mutex_t places_lock;
	atomic_bool places_new; /* some may not be durable */
	pthread_mutex_t root_lock;
	struct stub_origin root; /* under root_lock; len 0: not known */
	bool root_wrong;
};

/* What became of a comparison; or -errno: it failed, and is parked with task.what. */
enum verdict {
	EQUAL,
	AGAIN,	/* it was changed meanwhile, or something else has to come first */
	WAITS,	/* for what is missing here */
	UNPLACED, /* it is not known over there: its directories are to be compared */
	UNMADE, /* the same of a directory: the one above is owed, and makes it */
	AWAY,	/* the mirror is gone */
	FULL,
	REFUSED, /* names of it were, and are parked */
};

/* What a comparison of a directory has made. */
#define MADE_MAX 16
struct made {
	struct stub_owed o[MADE_MAX];
	unsigned int n;
};

/* For a comparison that changes nothing, on neither side: what differs is told, of a directory with the @name. */
struct looked {
	void (*found)(void *arg, const char *name, const char *what);
	void *arg;
};
#define DIFFERS (-ENOANO) /* an error of such a comparison: task.what does */

#define AWAITED_NAMES 16 /* that are compared one by one; more: all of the directory is */

/* One comparison. */
struct task {
	struct mirror *m;
	struct stub_owed o;
	uint64_t begun; /* of rounds.c */
	unsigned int tries; /* before this one, that ended with AGAIN, in a row */
	int fd; /* O_PATH, later for reading; -1: there is no such object */
	struct stat st;
	struct stub_view view;
	struct stub_origin place;
	bool root;
	bool newer; /* AGAIN only because of changes since it began: what was owed before is right */
	bool names_done; /* of what was aside before, it takes no more than it wants (aside.h) */
	uint64_t from, to; /* of a large file, only these bytes are; 0, 0: all */
	const char *const *name; /* of a directory, only these names are, at most AWAITED_NAMES; none: all */
	unsigned int names;
	bool only_times; /* of its attributes nothing else is compared */
	bool awaited; /* somebody waits for it */
	bool guessed; /* it was not asked for over there what it is: it stays owed */
	bool acl; /* it has one */
	bool partly; /* not all that is owed is compared: it stays owed */
	struct made *made; /* or NULL */
	const struct looked *look; /* nothing is changed; NULL: what differs is made equal */
	const char *what; /* is being compared */
};

/* ---- mirror.c ---- */

int mirror_log(const struct mirror *m, enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Durably owed; joins the rounds that are under way (rounds.h).  @by: who is compared; NULL: nobody. */
int mirror_owe(struct mirror *m, const struct stub_handle *by, const struct stub_owed *o, size_t n);
int mirror_owe_one(struct mirror *m, const struct stub_handle *h, uint32_t what);
/* The mirror's root, by which it is known again.  A verdict. */
int mirror_root(struct mirror *m, struct stub_origin *out);
/* Nothing is missing here of what is over there. */
bool mirror_has_all(const struct mirror *m);
/* What an @error of the mirror means for the object: a verdict, or @error itself. */
int mirror_verdict(struct mirror *m, int error);
/* Is it the same inode over there? */
bool mirror_same(const struct mirror *m, const struct stub_origin *a, const struct stub_origin *b);
/* All places that were noted before are durable on return, one sync for all who ask.  -errno */
int mirror_keep_places(struct mirror *m);
void mirror_lock_ino(struct mirror *m, uint64_t ino);
void mirror_unlock_ino(struct mirror *m, uint64_t ino);

/* ---- object.c ---- */

/* Look at t->o.h.  EQUAL also: there is no such object any more (t->fd is -1). */
int task_look(struct task *t);
/* No directory: has the migration to do something first?  On the way back it has to find all names, too: they
 * are told to be one file's by size and times, which must stay as they are at the source until then. */
bool task_waits(const struct task *t);
/* Open it for reading, and make durable what it is (of a task that only looks: not); look again. */
int task_open(struct task *t);
void task_close(struct task *t);
/* How it is to be over there: @st, with what @view shows instead. */
void attr_of(const struct stat *st, const struct stub_view *view, struct stub_attr *out);
/* Its directory is owed with its names: durable on return. */
int task_owe_parent(struct task *t);
/* An attribute of what is open, in memory that the caller frees; len 0: there is none.  -EAGAIN: it was changed
 * meanwhile */
int task_xattr(const struct task *t, const char *name, struct stub_xattr *out);
/* Below the volume's root, as far as the kernel knows; "" if not. */
void task_path(const struct task *t, char *out, size_t size);

/* ---- compare_*.c: verdicts ---- */

int compare_object(struct task *t);
int compare_dir(struct task *t);
/* Of a directory that is not over there: it wants (aside.h) what belongs into it.  -errno */
int dir_want(struct task *t);
int compare_file(struct task *t);
int compare_attr(struct task *t);
/* It was @meta over there; @moved: bytes or size were changed since, so its times are not right. */
int compare_attr_of(struct task *t, struct source_meta *meta, bool moved);
/* The times alone, without a look. */
int set_times(struct task *t);

#endif
