/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger.h - what the files of the ledger share.
 *
 *   ledger_set.c   the memory: active set, flights, owners; no system calls
 *   ledger_map.c   that memory as a file, who owns what in it, and when it was lost
 *   ledger_list.c  the lists on the disk, written by one process, read by the replicator
 *   ledger.c       who changes the volume: enter, leave
 *   ledger_slots.c ... and that of who waits until the mirror has it, too
 *   ledger_wait.c  who waits, and the replicator's answer
 *   ledger_later.c ... at a COMMIT, for the unstable writes before
 *   ledger_owed.c  what the replicator has taken over: LMDB
 *   ledger_take.c  the replicator: lists into owed, begin, strike
 */
#ifndef STUBCORE_LEDGER_H
#define STUBCORE_LEDGER_H

#include "stubledger.h"
#include "stubmirror.h"
#include "volume.h"

#define STUB_SET_SUFFIX ".owed"	    /* beside the socket, as the ring of news */
#define STUB_SET_UNKNOWN "unknown"  /* .postcopy/ledger/unknown: all is owed */
#define STUB_SET_OWED	 "owed"	    /* .postcopy/ledger/owed: LMDB */

/* ---- ledger_set.c ---- */

#define STUB_SET_MAGIC	 0x33736f63505f5473u
#define STUB_SET_WAYS	 8u
#define STUB_SET_PLACES	 8192u
#define STUB_SET_FLIGHTS 4096u
#define STUB_SET_OWNERS	 2048u /* 0 is nobody */
#define STUB_SET_WAITS	 1024u
#define STUB_SET_KEY	 (1 + STUB_HANDLE_MAX / 8)

/* An object that is durably in the ledger.  The word: state, what, owner, count; the count
 * grows with whatever happens to the place, and is never set back. */
struct stub_set_place {
	_Atomic uint64_t word;
	_Atomic uint64_t key[STUB_SET_KEY];
};

/* Somebody waits until the mirror has what was changed of an object (ledger_wait.c). */
struct stub_set_wait {
	_Atomic uint32_t word; /* state, owner, count; a futex */
	uint32_t what;
	uint64_t from, to;
	uint64_t key[STUB_SET_KEY];
	char name[STUB_NAME_MAX + 1];
};

struct stub_set {
	uint64_t magic, size;
	uint64_t id;   /* as in `state`: another one is not to be used any more */
	uint64_t boot;
	uint64_t made_ms;
	_Atomic uint64_t rule;	     /* of conf: mode, and what is done while the mirror is gone */
	_Atomic uint64_t there_ms;   /* so long the mirror is there, if nothing else is said */
	_Atomic uint64_t follows_ms; /* ... and who waits for it is answered */
	_Atomic uint32_t delay_us;   /* of each change, as long as it is there */
	_Atomic uint32_t bell;	     /* moves whenever somebody begins to wait; a futex */
	_Atomic uint32_t owner[STUB_SET_OWNERS]; /* 1: given; its byte of owners-ID is locked
						    while it lives */
	_Atomic uint64_t flight[STUB_SET_FLIGHTS]; /* 0, or sum of the handle and owner */
	struct stub_set_wait wait[STUB_SET_WAITS];
	struct stub_set_place place[STUB_SET_PLACES];
};

/* In flight from here on: the number of the flight; -EAGAIN: too many are. */
int stub_set_fly(struct stub_set *s, uint32_t owner, const struct stub_handle *h);
void stub_set_land(struct stub_set *s, uint32_t flight);
bool stub_set_flies(struct stub_set *s, const struct stub_handle *h); /* or one with its sum */
bool stub_set_flying(struct stub_set *s, uint32_t owner);
bool stub_set_quiet(struct stub_set *s); /* nothing is in flight */
/* Is it active with all of @what?  Then the change is counted. */
bool stub_set_touch(struct stub_set *s, const struct stub_handle *h, uint32_t what);
/* It is durably in the ledger, with @what: make it active.  False: there is no place for it. */
bool stub_set_activate(struct stub_set *s, uint32_t owner, const struct stub_handle *h,
		       uint32_t what);
/* The one place where @h is active, with its word; others are freed.  -1: nowhere. */
int32_t stub_set_begin(struct stub_set *s, const struct stub_handle *h, uint64_t *word);
/* Free that place, unless it was touched; is @h not active anywhere else? */
bool stub_set_strike(struct stub_set *s, const struct stub_handle *h, int32_t place,
		     uint64_t word);
/* Free what a dead owner has: was anything of it in flight? */
bool stub_set_bury(struct stub_set *s, uint32_t owner);

/* A handle as the set has it, and back: false if it is none. */
void stub_set_pack(const struct stub_handle *h, uint64_t key[STUB_SET_KEY]);
bool stub_set_unpack(const uint64_t key[STUB_SET_KEY], struct stub_handle *h);

/* ---- ledger_slots.c ---- */

enum stub_mirror_mode stub_set_mode(const struct stub_set *s);
bool stub_set_refuses(const struct stub_set *s);
/* May something be changed now?  0; -EAGAIN, -EROFS: the mirror is gone, and that is the rule.  Waits where changes
 * are slowed down. */
int stub_set_may(struct stub_set *s);
/* A slot for who waits for @e; false: none is free. */
bool stub_slot_take(struct stub_set *s, uint32_t owner, const struct stub_entered *e, uint32_t *at);
void stub_slot_free(struct stub_set *s, uint32_t at);
bool stub_slot_waits(const struct stub_set *s, uint32_t at, uint32_t *word);
/* False: nobody waits there. */
bool stub_slot_read(const struct stub_set *s, uint32_t at, struct stub_awaited *out);
/* Who waits there, and has since @word, goes on. */
void stub_slot_done(struct stub_set *s, uint32_t at, uint32_t word);
void stub_slots_bury(struct stub_set *s, uint32_t owner);

/* ---- ledger_wait.c ---- */

/* Is @e, which was changed, waited for in this mode? */
bool stub_ledger_awaits(struct stub_volume *v, const struct stub_entered *e);

/* ---- ledger_map.c ---- */

struct stub_enter_map {
	struct stub_set *set;
	uint64_t id;
	int owners_fd;	/* -1: let go */
	uint32_t owner; /* 0: the replicator, which owns nothing */
	struct stub_enter_map *older;
};

/* Map the set, made anew where it was lost; @own: be an owner in it.  -EUSERS: no more owners. */
int stub_map_open(struct stub_volume *v, bool own, struct stub_enter_map **out);
/* @write is conf with @c; then that is the rule for all who change the volume. */
int stub_map_rule(struct stub_volume *v, const struct stub_mirror_conf *c,
		  int (*write)(struct stub_volume *v, const struct stub_mirror_conf *c));
void stub_map_close(struct stub_enter_map *m);
/* Lose the lock by which the set's owner is known to live. */
void stub_map_let_go(struct stub_enter_map *m);
/* Is @m the set that all use now?  One memory read. */
bool stub_map_is_now(const struct stub_volume *v, const struct stub_enter_map *m);
/* Bury all dead owners: 1 if anything of theirs was in flight; 0. */
int stub_map_bury(struct stub_enter_map *m);
/* Does a process live that has something in flight in a set which was lost?  1, 0, -errno. */
int stub_map_strangers(int dir_fd, const struct stub_enter_map *m);
int stub_map_dir(const struct stub_volume *v); /* .postcopy/ledger */
void stub_map_remove(const struct stub_volume *v);
/* All is owed; durable on return.  unknown() says in the log @why. */
int stub_map_all(int dir_fd);
int stub_map_unknown(struct stub_volume *v, int dir_fd, const char *why);

/* ---- ledger_list.c ---- */

struct stub_owing { /* one entry */
	struct stub_handle h;
	uint32_t what;
};

struct stub_lists; /* those of this process */

int stub_lists_create(struct stub_lists **out);
void stub_lists_destroy(struct stub_lists *l);
/* Append: durable on return.  One sync for all that come meanwhile. */
int stub_lists_append(struct stub_volume *v, struct stub_lists *l, const struct stub_owing *o);

/* One list, being read. */
struct stub_list_reader {
	int fd;
	uint64_t id;
	bool living;
	bool damaged; /* what was acknowledged cannot be read */
	uint32_t next, end;
};
bool stub_list_is(const char *name);
int stub_list_open(int dir_fd, const char *name, struct stub_list_reader *r);
/* From entry r->next on, up to @max: how many; 0: no more.  Moves r->next. */
int stub_list_read(struct stub_list_reader *r, struct stub_owing *out, unsigned int max);
void stub_list_close(struct stub_list_reader *r);

/* ---- ledger.c ---- */

struct stub_enterer;

/* The map that all use now, opened if need be. */
int stub_enterer_map(struct stub_volume *v, struct stub_enter_map **out);
int stub_enterer_create(struct stub_enterer **out);
void stub_enterer_destroy(struct stub_enterer *e);

/* ---- ledger_take.c ---- */

/* Its files, in .postcopy (@dir_fd) of a volume that has none yet.  @all: everything is owed, until a walk
 * has put it in; @keeps: what was struck is kept. */
int stub_ledger_parts(int dir_fd, bool all, bool keeps);
/* stub_ledger_make(), with that. */
int stub_ledger_begin_with(struct stub_volume *v, bool all, bool keeps);

/* ---- ledger_owed.c ---- */

struct stub_owed_db;

/* @keeps: what was struck is kept (of a way back). */
int stub_owed_make(int dir_fd, bool keeps);
/* -EBADMSG: damaged, or not there. */
int stub_owed_open(int dir_fd, const struct stub_log *log, struct stub_owed_db **out);
void stub_owed_close(struct stub_owed_db *db);
/* In one transaction; each gets a new turn.  @list (or 0) was taken over up to entry @next. */
int stub_owed_put(struct stub_owed_db *db, const struct stub_owing *o, size_t n, uint64_t list,
		  uint32_t next);
int stub_owed_taken(struct stub_owed_db *db, uint64_t list, uint32_t *next);
int stub_owed_forget(struct stub_owed_db *db, uint64_t list);
/* What of @h is owed, and its turn.  -ENOENT */
int stub_owed_get(struct stub_owed_db *db, const struct stub_handle *h, uint32_t *what,
		  uint64_t *turn);
/* Those that have still the turn which they have in @o. */
int stub_owed_strike(struct stub_owed_db *db, const struct stub_owed *o, size_t n);
int stub_owed_next(struct stub_owed_db *db, uint64_t after, struct stub_owed *out,
		   unsigned int max);
/* @max of those that were struck, behind @after (NULL: from the first one): how many. */
int stub_owed_struck(struct stub_owed_db *db, const struct stub_handle *after, struct stub_owed *out,
		     unsigned int max);
int stub_owed_count(struct stub_owed_db *db, uint64_t *n);

#endif
