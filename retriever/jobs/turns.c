/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <unistd.h>

#include "jobs/turns.h"
#include "stubcore.h"

#define LOOK_US 50000 /* so often is looked whether the rules have changed */

void turns_init(struct turns *t)
{
	*t = (struct turns){ .next_us = 0 };
	pthread_mutex_init(&t->lock, NULL);
}

void turns_finish(struct turns *t)
{
	pthread_mutex_destroy(&t->lock);
}

/* Make all turns void that were given out. */
static void begin_anew(struct turns *t)
{
	pthread_mutex_lock(&t->lock);
	t->next_us = 0;
	atomic_fetch_add(&t->changes, 1);
	pthread_mutex_unlock(&t->lock);
}

void turns_pause(struct turns *t, bool paused)
{
	atomic_store(&t->paused, paused);
	begin_anew(t);
}

void turns_throttle(struct turns *t, uint64_t bytes_per_second)
{
	atomic_store(&t->rate, bytes_per_second);
	begin_anew(t);
}

void turns_stop(struct turns *t)
{
	atomic_store(&t->stopped, true);
}

/* Take a turn: when may @bytes be fetched, by the present rate? */
static uint64_t take(struct turns *t, uint64_t bytes, uint64_t *change)
{
	uint64_t rate, until = 0, now = stub_now_us();

	pthread_mutex_lock(&t->lock);
	*change = atomic_load(&t->changes);
	rate = atomic_load(&t->rate);
	if (rate > 0 && bytes > 0) {
		if (t->next_us < now)
			t->next_us = now;
		until = t->next_us;
		t->next_us += bytes * 1000000 / rate;
	}
	pthread_mutex_unlock(&t->lock);
	return until;
}

void turns_wait(struct turns *t, uint64_t bytes)
{
	uint64_t until, now, change;

	do {
		while (atomic_load(&t->paused) && !atomic_load(&t->stopped))
			usleep(LOOK_US);
		until = take(t, bytes, &change);
		while ((now = stub_now_us()) < until && change == atomic_load(&t->changes) &&
		       !atomic_load(&t->stopped))
			usleep(until - now > LOOK_US ? LOOK_US : (useconds_t)(until - now));
	} while (change != atomic_load(&t->changes) && !atomic_load(&t->stopped));
}

int64_t turns_try(struct turns *t, uint64_t bytes, uint64_t most_us)
{
	uint64_t rate, now = stub_now_us();
	int64_t wait = -1;

	if (atomic_load(&t->paused) || atomic_load(&t->stopped))
		return -1;
	pthread_mutex_lock(&t->lock);
	rate = atomic_load(&t->rate);
	if (t->next_us < now)
		t->next_us = now;
	if (!rate) {
		wait = 0;
	} else if (t->next_us - now <= most_us) {
		wait = (int64_t)(t->next_us - now);
		t->next_us += bytes * 1000000 / rate;
	}
	pthread_mutex_unlock(&t->lock);
	return wait;
}
