/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pool.h - a backend's connections as a whole: is the old server there?
 *
 * It is lost while no connection is usable.  If it is lost for longer than give_up_ms, calls
 * end until it is back.  Once it is known what it is, that stays known.
 *
 * One is a part of each backend's source, and its lock is that source's.
 */
#ifndef SOURCE_POOL_H
#define SOURCE_POOL_H

#include <pthread.h>

#include "source/source.h"

#define SOURCE_WHY_MAX 256 /* bytes of a line that says why */

struct source_counters {
	uint64_t reconnects, calls, lookups, readdirs, reads, read_bytes, retries;
};

struct source_pool {
	uint64_t give_up_ms; /* constant; 0: never */
	pthread_mutex_t lock;
	/* guarded by lock */
	pthread_cond_t ready; /* it became known, or stop, or given up */
	bool stop, known;
	bool given_up; /* that was told */
	unsigned int usable; /* connections */
	uint64_t lost_since_ms; /* 0 if usable */
	char trouble[SOURCE_WHY_MAX]; /* last told reason for not connecting */
	struct source_counters n;
};

void source_pool_init(struct source_pool *p, uint64_t give_up_ms); /* lost since now */
void source_pool_finish(struct source_pool *p);

/* All below: for who has the lock. */

/* One more connection is usable; @again: it was before. */
void source_pool_up(struct source_pool *p, bool again);
/* One less; nothing was heard for @silent_ms before. */
void source_pool_down(struct source_pool *p, uint64_t silent_ms);

void source_pool_known(struct source_pool *p);
/* Until it is known: 0, -ECANCELED, -ETIMEDOUT.  @nudge is signalled before each wait, for
 * whoever gives up; NULL: nobody. */
int source_pool_wait_known(struct source_pool *p, pthread_cond_t *nudge);

bool source_pool_gave_up(const struct source_pool *p); /* it is lost for too long */
/* So calls end.  True: that is to be told. */
bool source_pool_give_up(struct source_pool *p);

/* No connection could be made, and why.  True: that is to be told. */
bool source_pool_trouble(struct source_pool *p, const char *why);

/* Into @out: what is here. */
void source_pool_state(const struct source_pool *p, struct source_state *out);

#endif
