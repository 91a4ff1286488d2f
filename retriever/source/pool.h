/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pool.h - a backend's connections as a whole: is the old server there?
 *
 * The source is lost while no connection is usable.  If it is lost for longer than give_up_ms,
 * calls fail until it is back.  It is known as soon as the first connection has asked for its
 * root (and limits), and stays known.
 *
 * Each backend's source has one struct source_pool, whose lock is also the source's.
 */
#ifndef SOURCE_POOL_H
#define SOURCE_POOL_H

#include <pthread.h>

#include "source/limiter.h"
#include "source/source.h"

#define SOURCE_WHY_MAX 256 /* bytes of a line that says why */

struct source_counters {
	uint64_t reconnects, calls, lookups, readdirs, reads, read_bytes, retries;
};

struct source_pool {
	uint64_t give_up_ms; /* constant; 0: never */
	struct limiter *limiter; /* constant, the source's to set: of the background's calls; NULL: none */
	unsigned int lane;	 /* likewise: there */
	pthread_mutex_t lock;
	/* guarded by lock */
	pthread_cond_t ready; /* known, stop or given_up was set */
	bool stop, known;
	bool given_up; /* it was logged that calls fail */
	unsigned int usable; /* connections */
	uint64_t lost_since_ms; /* 0 if usable */
	char trouble[SOURCE_WHY_MAX]; /* last told reason for not connecting */
	struct source_counters n;
};

void source_pool_init(struct source_pool *p, uint64_t give_up_ms); /* lost since now, no limiter */
void source_pool_finish(struct source_pool *p);

/* All functions below are called with the lock held. */

/* One more connection is usable; @again: it was usable before. */
void source_pool_up(struct source_pool *p, bool again);
/* One connection less is usable; nothing was heard on it for the last @silent_ms. */
void source_pool_down(struct source_pool *p, uint64_t silent_ms);

void source_pool_known(struct source_pool *p);
/* Wait until the source is known: 0, -ECANCELED, -ETIMEDOUT.  @nudge is signalled before each
 * wait, for the thread that calls source_pool_give_up(); NULL: none. */
int source_pool_wait_known(struct source_pool *p, pthread_cond_t *nudge);

bool source_pool_gave_up(const struct source_pool *p); /* it is lost for longer than give_up_ms */
/* The waiting calls fail now.  True: the caller logs it, which was not done yet. */
bool source_pool_give_up(struct source_pool *p);

/* No connection could be made, for the reason @why.  True: the caller logs it: it is news. */
bool source_pool_trouble(struct source_pool *p, const char *why);

/* Fill those fields of @out that are known here. */
void source_pool_state(const struct source_pool *p, struct source_state *out);

#endif
