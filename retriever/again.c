/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * again.c - what was un-parked by hand is asked for, also if no crawler runs.
 *
 * The journal is the truth: an un-parked entry is pending, and a crawler that comes takes it.
 * So what is here is only a hint, in memory: it may be lost with the process, and is thrown
 * away as soon as a crawler runs, whose windows count then.
 *
 * Some of them at a time are jobs of the background, as the crawler's are, asked for again
 * until the journal has them no more, has them parked again, or they need nothing but to be
 * finished.  An ask for what is under way joins it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "again.h"

#define AT_ONCE  256
#define EVERY_MS 2000 /* between two asks for one object */
#define BATCH	 64

struct again {
	struct control_config c;
	pthread_mutex_t lock;
	struct stub_handle *waiting; /* under lock: a stack */
	size_t n, room;
	struct asked {
		bool used;
		uint64_t at_ms; /* 0: not yet */
		struct stub_handle h;
	} asked[AT_ONCE]; /* the ticking thread's own */
	size_t busy; /* of these */
};

size_t again_parked(struct again *a, unsigned int mask, struct stub_handle **out)
{
	struct stub_journal_cursor cursor = { 0 };
	struct stub_journal_entry *e = calloc(BATCH, sizeof(*e));
	struct stub_handle *h = NULL, *more;
	size_t n = 0, room = 0;
	int got = 0;

	stub_journal_parked(&cursor);
	while (e && n < AGAIN_MAX &&
	       (got = stub_journal_next(a->c.journal, &cursor, true, e, BATCH)) > 0) {
		if (room < n + BATCH) {
			more = realloc(h, (room + n + BATCH) * sizeof(*h));
			if (!more)
				break;
			h = more;
			room += n + BATCH;
		}
		for (int i = 0; i < got; i++)
			if (mask & 1u << e[i].park)
				h[n++] = e[i].h;
	}
	free(e);
	*out = h;
	return n;
}

size_t again_add(struct again *a, const struct stub_handle *h, size_t n)
{
	struct stub_handle *more;

	pthread_mutex_lock(&a->lock);
	if (n > AGAIN_MAX - a->n)
		n = AGAIN_MAX - a->n;
	if (n && a->n + n > a->room) {
		more = realloc(a->waiting, (a->n + n) * sizeof(*more));
		if (more) {
			a->waiting = more;
			a->room = a->n + n;
		} else {
			n = 0;
		}
	}
	if (n)
		memcpy(a->waiting + a->n, h, n * sizeof(*h));
	a->n += n;
	pthread_mutex_unlock(&a->lock);
	return n;
}

static void forget(struct again *a)
{
	pthread_mutex_lock(&a->lock);
	free(a->waiting);
	a->waiting = NULL;
	a->n = a->room = 0;
	pthread_mutex_unlock(&a->lock);
	memset(a->asked, 0, sizeof(a->asked));
	a->busy = 0;
}

/* Fill the free places. */
static void take(struct again *a)
{
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < AT_ONCE && a->n > 0; i++) {
		if (a->asked[i].used)
			continue;
		a->asked[i] = (struct asked){ .used = true, .h = a->waiting[--a->n] };
		a->busy++;
	}
	if (!a->n) {
		free(a->waiting);
		a->waiting = NULL;
		a->room = 0;
	}
	pthread_mutex_unlock(&a->lock);
}

/* Need we not ask for it any more? */
static bool is_over(struct again *a, const struct stub_handle *h)
{
	struct stub_journal_entry e;
	struct stub_view view;
	int r = stub_journal_get(a->c.journal, h, &e);

	if (r == -ENOENT || (r == 0 && e.park != STUB_PARK_NONE))
		return true;
	if (r < 0)
		return false;
	r = stub_view(a->c.volume, h, &view);
	return r == 0 && !(view.needs & ~(STUB_NEEDS_FINISH | STUB_NEEDS_NAMES));
}

void again_tick(struct again *a)
{
	uint64_t now = stub_now_ms();

	if (stub_crawler_runs(a->c.volume)) {
		forget(a);
		return;
	}
	take(a);
	for (size_t i = 0; a->busy && i < AT_ONCE; i++) {
		struct asked *k = &a->asked[i];

		if (!k->used)
			continue;
		if (k->at_ms && is_over(a, &k->h)) {
			k->used = false;
			a->busy--;
		} else if (!k->at_ms || now - k->at_ms >= EVERY_MS) {
			k->at_ms = now;
			jobs_fill(a->c.jobs, &k->h);
		}
	}
}

int again_create(const struct control_config *c, struct again **out)
{
	struct again *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->c = *c;
	pthread_mutex_init(&a->lock, NULL);
	*out = a;
	return 0;
}

void again_destroy(struct again *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a->waiting);
	free(a);
}
