/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubledger.h - the ledger: which objects are owed to the mirror (docs/decisions/0080).
 *
 * Many processes enter what they are about to change; one, the replicator, takes what both
 * sides have alike out again.  A volume without a mirror has no ledger, and entering costs one
 * memory read there.
 */
#ifndef STUBLEDGER_H
#define STUBLEDGER_H

#include "stubtypes.h"

#pragma GCC visibility push(default)

struct stub_volume;
struct stub_ledger;

enum { STUB_OWED_DATA = 1, STUB_OWED_ATTRS = 2, STUB_OWED_NAMES = 4, STUB_OWED_ALL = 7 };

/* ---- a volume gets one ------------------------------------------------------ */

/* The volume has a ledger from now on; all else that has it open is refused (-EBUSY), and older
 * releases refuse the volume.  Close @v afterwards.  -EEXIST: it has one. */
int stub_ledger_make(struct stub_volume *v);
/* It has none any more; servers may run on.  -EBUSY: a replicator has it open; -ENOENT: none. */
int stub_ledger_end(struct stub_volume *v);
/* Has it one?  One memory read. */
bool stub_ledger_is(const struct stub_volume *v);

/* ---- who changes the volume ------------------------------------------------- */

/* One object that is being changed. */
struct stub_entered {
	struct stub_enter_map *map; /* NULL: there is no ledger */
	uint32_t flight;
	uint32_t what; /* 0: nothing was entered */
	struct stub_handle h;
	uint64_t from, to; /* of a write: the bytes that it changes, set by who writes; 0, 0: whatever */
	char name[STUB_NAME_MAX + 1]; /* of a directory: the name that comes or goes, likewise; "": any */
};

/*
 * Before a change of @h: it is durably owed on return, and is not struck before leave().
 * 0 also without a ledger.
 *   -EAGAIN   too much is in flight: try again; or the mirror is gone, and is to have everything
 *   -EROFS    it is gone for longer than clients try again
 *   -ENOSPC, -EIO ...  it cannot be entered: it must not be changed
 */
int stub_ledger_enter(struct stub_volume *v, const struct stub_handle *h, uint32_t what,
		      struct stub_entered *e);
/* After it, whatever became of it. */
void stub_ledger_leave(struct stub_volume *v, struct stub_entered *e);
/*
 * After leave() of all @n (those of which nothing was entered are skipped): until the mirror has them, too, if its
 * mode is such.  0 also if it is gone, or cannot have one of them, or has not answered in time.
 *   -EIO  it is gone, and nothing is to be acknowledged that it has not
 */
int stub_ledger_await(struct stub_volume *v, const struct stub_entered *e, size_t n);
/*
 * Instead of it, for a write @e that is acknowledged before it is durable: it is noted, and waited for only where
 * much of the object, or too many objects, are noted already.  await_noted(): before writes to @h are acknowledged as
 * durable, until the mirror has all that was noted.  Both lock inside; errors as of stub_ledger_await(), after which it
 * is noted still.
 */
int stub_ledger_await_later(struct stub_volume *v, const struct stub_entered *e);
int stub_ledger_await_noted(struct stub_volume *v, const struct stub_handle *h);
/* Both: for what has changed already, under an exclusion of the caller's with the replicator, or
 * while there is none. */
int stub_ledger_owe(struct stub_volume *v, const struct stub_handle *h, uint32_t what);

/* ---- the replicator --------------------------------------------------------- */

struct stub_owed {
	struct stub_handle h;
	uint32_t what;
	uint64_t turn; /* grows with each entry; 0 is none */
	/* of begin(), for strike() */
	uint64_t set, word, epoch;
	int32_t place;
	bool gone; /* for strike(): there is no such object any more */
};

/* One at a time.  -EBUSY: another process has it open; -ENOENT: there is none. */
int stub_ledger_open(struct stub_volume *v, struct stub_ledger **out);
/* @max of those whose turn is larger than @after, those that rest longest first: how many. */
int stub_ledger_next(struct stub_ledger *l, uint64_t after, struct stub_owed *out,
		     unsigned int max);
/* Before o->h is compared: changes from here on count anew.  -ENOENT: it is not owed. */
int stub_ledger_begin(struct stub_ledger *l, struct stub_owed *o);
/* Both sides were equal.  0: it is struck (what a power cut may undo: then it is owed once more);
 * 1: it was changed since begin(), or may have been, and stays owed. */
int stub_ledger_strike(struct stub_ledger *l, const struct stub_owed *o);
/* Is a change of @h (NULL: of anything) under way, or perhaps one?  Then what is seen here may not last. */
bool stub_ledger_flies(struct stub_ledger *l, const struct stub_handle *h);
/* Is @h owed, or just being changed, so that both sides may differ?  1, 0, or -errno. */
int stub_ledger_owes(struct stub_ledger *l, const struct stub_handle *h);
/* Of a way back: @max of all that was ever struck, and was not gone then, behind @after (NULL: from the
 * first one), with what was owed of it: how many. */
int stub_ledger_struck(struct stub_ledger *l, const struct stub_handle *after, struct stub_owed *out,
		       unsigned int max);
/* Put in what is owed without a change: durable on return. */
int stub_ledger_put(struct stub_ledger *l, const struct stub_owed *o, size_t n);
/* How many are owed.  0 is durable, and means drained if stub_ledger_unknown() is 0 as well. */
int stub_ledger_count(struct stub_ledger *l, uint64_t *owed);
/*
 * The ledger does not know what is owed: all is, until a walk through the volume has put
 * everything in, and says so by walked() with the number that unknown() had when it began.
 * 0: it knows.  1: that number is another one by now.
 */
uint64_t stub_ledger_unknown(struct stub_ledger *l);
int stub_ledger_walked(struct stub_ledger *l, uint64_t number);
void stub_ledger_close(struct stub_ledger *l);

/* ---- who waits for the mirror (stub_ledger_await()) -------------------------- */

struct stub_waits;

struct stub_awaited {
	struct stub_handle h;
	uint32_t what; /* STUB_OWED_... */
	uint64_t from, to; /* as in struct stub_entered */
	char name[STUB_NAME_MAX + 1];
	uint64_t set; /* for release() */
	uint32_t at, word;
};

/* What the replicator says of itself. */
struct stub_pulse {
	bool there;	   /* the mirror is there */
	bool follows;	   /* ... and who waits is answered; false: from now on nobody waits */
	unsigned int ms;   /* so long both hold, if nothing else is said */
	uint32_t delay_us; /* each change is slowed down by so much, while it is there */
};

/* Errors as of opening a file of .postcopy. */
int stub_waits_open(struct stub_volume *v, struct stub_waits **out);
void stub_waits_close(struct stub_waits *w);
/* By one thread only: after at most @ms, or as soon as somebody begins to wait, @max of all that wait: how many. */
unsigned int stub_waits_listen(struct stub_waits *w, unsigned int ms, struct stub_awaited *out, unsigned int max);
/* By the same thread. */
void stub_waits_pulse(struct stub_waits *w, const struct stub_pulse *p);
/* By any: the mirror has what was here after @a was listened to, or cannot have it. */
void stub_waits_release(struct stub_waits *w, const struct stub_awaited *a);

#pragma GCC visibility pop

#endif
