/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * turns.h - when the crawler's work may go on: not while paused, and not faster than the
 * byte rate.
 */
#ifndef TURNS_H
#define TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct turns {
	atomic_bool paused, stopped;
	atomic_uint_fast64_t rate; /* bytes per second; 0: no limit */
	atomic_uint_fast64_t changes; /* counts settings; after one, who waits takes a new turn */
	pthread_mutex_t lock; /* a leaf */
	uint64_t next_us; /* the next turn, by stub_now_us() */
};

void turns_init(struct turns *t);
void turns_finish(struct turns *t);
void turns_pause(struct turns *t, bool paused);
void turns_throttle(struct turns *t, uint64_t bytes_per_second);
void turns_stop(struct turns *t); /* all waiting ends, now and later */

/* Waits until @bytes may be fetched; of 0 bytes, only while paused. */
void turns_wait(struct turns *t, uint64_t bytes);
/* Who does not want to wait longer than @most_us: in how many us @bytes may be fetched, -1: not,
 * and no turn was taken. */
int64_t turns_try(struct turns *t, uint64_t bytes, uint64_t most_us);

#endif
