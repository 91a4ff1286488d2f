/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * replicator.c - one thread reads the ledger, over and over, and seats what may be compared now
 * (desk.h) in two queues; workers take directories first: what is new in them is made by their
 * comparison, and files wait for that.
 *
 * What is read in one turn through the ledger:
 *
 *   live       directories that will be compared by themselves: files that have no place yet are
 *              looked for only when there are none
 */
#include "replicator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "carry.h"
#include "desk.h"
#include "share.h"
#include "walk.h"

#define READ	  256
#define QUEUE_MAX 1024
#define IDLE_MS	  200
#define ASIDE_MS  300
#define AWAY_MS	  50 /* between two looks for a mirror that is away */
#define FEW	  256 /* objects that are owed all the time where clients are at work */

struct queue {
	struct stub_owed at[QUEUE_MAX];
	unsigned int tries[QUEUE_MAX];
	unsigned int first, n;
};

struct replicator {
	struct mirror *m;
	pthread_mutex_t lock;
	pthread_cond_t work, room; /* there is something to do; for the reader: there is room */
	struct queue dirs, files;
	bool stopping, woken;
	pthread_t reader, *worker;
	unsigned int workers;
	_Atomic uint64_t turns, live;
	uint64_t aside_ms;
};

void replicator_wake(struct replicator *r)
{
	pthread_mutex_lock(&r->lock);
	r->woken = true;
	pthread_cond_broadcast(&r->room);
	pthread_mutex_unlock(&r->lock);
}

/* ---- workers ---- */

static bool get(struct queue *q, struct stub_owed *o, unsigned int *tries)
{
	if (!q->n)
		return false;
	*o = q->at[q->first];
	*tries = q->tries[q->first];
	q->first = (q->first + 1) % QUEUE_MAX;
	q->n--;
	return true;
}

static void *worker_thread(void *arg)
{
	struct replicator *r = arg;
	struct stub_owed o;
	unsigned int tries;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping) {
		if (!get(&r->dirs, &o, &tries) && !get(&r->files, &o, &tries)) {
			pthread_cond_wait(&r->work, &r->lock);
			continue;
		}
		pthread_cond_signal(&r->room);
		pthread_mutex_unlock(&r->lock);
		carry(&(struct carried){ .m = r->m, .o = o, .tries = tries });
		if (atomic_exchange(&r->m->made, false))
			replicator_wake(r);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- the reader ---- */

static void seat(struct replicator *r, const struct stub_owed *o)
{
	struct queue *q = o->what & STUB_OWED_NAMES ? &r->dirs : &r->files;
	unsigned int tries = 0, at;

	if (!desk_take(r->m->desk, &o->h, &tries))
		return;
	pthread_mutex_lock(&r->lock);
	while (q->n == QUEUE_MAX && !r->stopping)
		pthread_cond_wait(&r->room, &r->lock);
	if (q->n < QUEUE_MAX) {
		at = (q->first + q->n++) % QUEUE_MAX;
		q->at[at] = *o;
		q->tries[at] = tries;
		pthread_cond_signal(&r->work);
	}
	pthread_mutex_unlock(&r->lock);
}

/* @ms, or @least, and until it is woken. */
static bool rest(struct replicator *r, unsigned int least, unsigned int ms)
{
	uint64_t now = stub_now_ms(), first = now + least, until = now + (ms > least ? ms : least);
	bool go_on;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping && (now = stub_now_ms()) < until && !(r->woken && now >= first))
		stub_cond_wait_until(&r->room, &r->lock, r->woken ? first : until);
	r->woken = false;
	go_on = !r->stopping;
	pthread_mutex_unlock(&r->lock);
	return go_on;
}

static bool stopping(struct replicator *r)
{
	return atomic_load(&r->m->stopping);
}

/* Nothing is begun while the mirror is away, or its root is another one: whatever is looked at would
 * only wait. */
static bool there(struct replicator *r)
{
	struct source_state s;
	struct stub_origin root;

	share_state(r->m, &s);
	return s.connected && mirror_root(r->m, &root) == EQUAL;
}

/* Through the ledger once: how many are owed, or -errno; -EINTR: paused, or at its end. */
static int64_t read_all(struct replicator *r)
{
	struct stub_owed *o = malloc(READ * sizeof(*o));
	uint64_t after = 0;
	int64_t all = 0;
	int n = o ? READ : -ENOMEM;

	while (n == READ && !stopping(r) && !atomic_load(&r->m->paused)) {
		n = stub_ledger_next(r->m->ledger, after, o, READ);
		for (int i = 0; i < n; i++) {
			seat(r, &o[i]);
			all += 1;
			atomic_fetch_add(&r->live, (o[i].what & STUB_OWED_NAMES) != 0);
		}
		if (n > 0)
			after = o[n - 1].turn;
		atomic_fetch_add(&r->turns, 1);
	}
	free(o);
	return n < 0 ? n : n == READ ? -EINTR : all;
}

/* No directory of those that are owed is compared soon, so none makes what has no place. */
static bool none_makes(const struct replicator *r, const uint64_t *of)
{
	return atomic_load(&r->live) <= of[DESK_PARKED] + of[DESK_WAITS] + of[DESK_UNMADE];
}

/* Is there hardly more than what cannot be carried over now? */
static void caught_up(struct replicator *r, int64_t owed, const uint64_t *of)
{
	uint64_t cannot = of[DESK_WAITS] + of[DESK_PARKED];

	if (none_makes(r, of))
		cannot += of[DESK_UNPLACED] + of[DESK_UNMADE];
	if ((uint64_t)owed <= cannot + FEW && !stub_ledger_unknown(r->m->ledger))
		atomic_store(&r->m->caught_up, true);
}

/* Between two turns through the ledger, of which the last one found so many @owed, or failed. */
static void look_around(struct replicator *r, int64_t owed)
{
	struct desk_counts n;
	int e = 0;

	desk_sweep(r->m->desk);
	desk_counts(r->m->desk, &n);
	if (owed >= 0)
		caught_up(r, owed, n.of);
	/* what does not come by itself is no reason to wait */
	if (n.of[DESK_UNPLACED] && !n.busy && none_makes(r, n.of))
		walker_find_strays(r->m->walker);
	if (stub_now_ms() >= r->aside_ms) {
		e = aside_work(r->m->aside);
		r->aside_ms = stub_now_ms() + ASIDE_MS;
	}
	if (e < 0 && mirror_verdict(r->m, e) < 0)
		mirror_log(r->m, STUB_LOG_WARN, "what is held aside at the mirror: %s", strerror(-e));
}

static void *reader_thread(void *arg)
{
	struct replicator *r = arg;
	int64_t n = 0;
	uint64_t begun;
	unsigned int took = 0, ms = 0;

	while (rest(r, took, ms)) {
		ms = IDLE_MS;
		atomic_fetch_add(&r->turns, 1);
		if (atomic_load(&r->m->paused))
			continue;
		if (!there(r)) {
			ms = AWAY_MS;
			continue;
		}
		begun = stub_now_ms();
		atomic_store(&r->live, 0);
		atomic_store(&r->m->waits_now, 0);
		if (n > 0)
			atomic_store(&r->m->behind_ms, begun);
		n = read_all(r);
		if (n >= 0)
			atomic_store(&r->m->behind_ms, 0);
		else if (n != -EINTR)
			mirror_log(r->m, STUB_LOG_ERROR, "the mirror's ledger: %s", strerror((int)-n));
		atomic_store(&r->m->waiting, atomic_load(&r->m->waits_now));
		look_around(r, n);
		/* much that rests is not read all the time */
		took = (unsigned int)(stub_now_ms() - begun);
	}
	return NULL;
}

/* ---- life ---- */

uint64_t replicator_turns(struct replicator *r)
{
	return atomic_load(&r->turns);
}

static void end(struct replicator *r)
{
	pthread_mutex_lock(&r->lock);
	r->stopping = true;
	pthread_cond_broadcast(&r->work);
	pthread_cond_broadcast(&r->room);
	pthread_mutex_unlock(&r->lock);
	for (unsigned int i = 0; i < r->workers; i++)
		pthread_join(r->worker[i], NULL);
	free(r->worker);
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->room);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int replicator_create(struct mirror *m, struct replicator **out)
{
	struct replicator *r = calloc(1, sizeof(*r));
	int e = 0;

	if (!r)
		return -ENOMEM;
	r->m = m;
	pthread_mutex_init(&r->lock, NULL);
	stub_cond_init(&r->work);
	stub_cond_init(&r->room);
	r->worker = calloc(m->workers, sizeof(*r->worker));
	if (!r->worker)
		e = -ENOMEM;
	while (e == 0 && r->workers < m->workers) {
		e = -pthread_create(&r->worker[r->workers], NULL, worker_thread, r);
		r->workers += e == 0;
	}
	if (e == 0)
		e = -pthread_create(&r->reader, NULL, reader_thread, r);
	if (e < 0) {
		end(r);
		return e;
	}
	*out = r;
	return 0;
}

void replicator_destroy(struct replicator *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stopping = true;
	pthread_cond_broadcast(&r->work);
	pthread_cond_broadcast(&r->room);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->reader, NULL);
	end(r);
}
