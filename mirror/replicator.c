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
 *   waiting    what the retriever has to bring first
 */
#include "replicator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "desk.h"
#include "fills.h"
#include "rounds.h"
#include "walk.h"

#define READ	  256
#define QUEUE_MAX 1024
#define IDLE_MS	  200
#define HOT_MS	  1000
#define LATER_MS  1000
#define FULL_MS	  10000
#define PARKED_MS 60000
#define ASIDE_MS  300

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
	_Atomic uint64_t turns, live, waiting;
	uint64_t aside_ms;
};

/* ---- one object ---- */

int compare_object(struct task *t)
{
	int r = task_look(t);

	if (r != EQUAL || t->fd < 0)
		return r;
	if (S_ISDIR(t->st.st_mode))
		return compare_dir(t);
	if (task_waits(t)) {
		fills_want(t->m->fills, &t->o.h);
		return WAITS;
	}
	if (S_ISREG(t->st.st_mode))
		return compare_file(t);
	return compare_attr(t, false);
}

/* What is not known over there: a directory is made by its parent's comparison, which may be about to: it stays
 * owed until it is compared itself.  Of a file nobody knows the parent. */
static int unplaced(struct task *t)
{
	bool known;
	int r;

	if (t->root)
		return AWAY;
	if (!S_ISDIR(t->st.st_mode)) {
		walker_stray(t->m->walker, t->st.st_ino);
		return UNPLACED;
	}
	/* it may have to wait until that has gone which is aside, and belongs elsewhere */
	t->names_done = aside_count(t->m->aside, &known) && dir_want(t) == 0;
	r = task_owe_parent(t);
	return r < 0 ? r : UNMADE;
}

static void strike(struct replicator *r, struct task *t, bool compared)
{
	bool known;
	int e;

	if (compared && aside_count(t->m->aside, &known))
		aside_want(t->m->aside, &t->place);
	t->o.gone = !compared;
	e = stub_ledger_strike(t->m->ledger, &t->o);
	if (e < 0)
		mirror_log(t->m, STUB_LOG_ERROR, "the mirror's ledger: %s", strerror(-e));
	if (e == 0 && compared)
		atomic_fetch_add(&t->m->objects, 1);
	rounds_right(t->m->rounds, e == 0 ? ROUNDS_STRUCK : t->begun, &t->o.h, true);
	desk_rest(t->m->desk, &t->o.h, DESK_HOT, HOT_MS, e == 0);
}

static void put_back(struct replicator *r, struct task *t, int v)
{
	static const struct {
		enum desk_why why;
		unsigned int ms;
	} how[] = {
		[AGAIN] = { DESK_LATER, LATER_MS },
		[WAITS] = { DESK_WAITS, LATER_MS },
		[UNPLACED] = { DESK_UNPLACED, LATER_MS },
		[UNMADE] = { DESK_UNMADE, LATER_MS },
		[AWAY] = { DESK_HOT, LATER_MS },
		[FULL] = { DESK_FULL, FULL_MS },
		[REFUSED] = { DESK_PARKED, PARKED_MS },
	};
	char path[4096];

	if (v < 0) {
		task_path(t, path, sizeof(path));
		desk_park(t->m->desk, &t->o.h, path, t->what ? t->what : "", v);
		v = REFUSED;
	}
	if (v == WAITS)
		atomic_fetch_add(&r->waiting, 1);
	desk_rest(t->m->desk, &t->o.h, how[v].why, how[v].ms, false);
}

static void compare(struct replicator *r, const struct stub_owed *o, unsigned int tries)
{
	struct task t = { .m = r->m, .o = *o, .tries = tries, .fd = -1 };
	int v = stub_ledger_begin(r->m->ledger, &t.o);

	if (v < 0) { /* -ENOENT: struck since it was read */
		if (v == -ENOENT)
			rounds_right(r->m->rounds, ROUNDS_STRUCK, &o->h, true);
		desk_rest(r->m->desk, &o->h, DESK_HOT, HOT_MS, v == -ENOENT);
		return;
	}
	t.begun = rounds_now(r->m->rounds);
	v = compare_object(&t);
	if (v == UNPLACED)
		v = unplaced(&t);
	if (t.names_done)
		rounds_right(r->m->rounds, t.begun, &t.o.h, false);
	if (v == AGAIN && t.newer)
		rounds_right(r->m->rounds, t.begun, &t.o.h, true);
	if (v == EQUAL)
		strike(r, &t, t.fd >= 0);
	else
		put_back(r, &t, v);
	task_close(&t);
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
		compare(r, &o, tries);
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

/* @ms, or until it is woken. */
static bool rest(struct replicator *r, unsigned int ms)
{
	uint64_t until = stub_now_ms() + ms;
	bool go_on;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping && !r->woken && stub_now_ms() < until)
		stub_cond_wait_until(&r->room, &r->lock, until);
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

	source_state(r->m->target, &s);
	return s.connected && mirror_root(r->m, &root) == EQUAL;
}

/* Through the ledger once: how many are owed, or -errno. */
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
	return n < 0 ? n : all;
}

/* Between two turns through the ledger. */
static void look_around(struct replicator *r)
{
	struct desk_counts n;
	int e = 0;

	desk_sweep(r->m->desk);
	desk_counts(r->m->desk, &n);
	/* what does not come by itself is no reason to wait */
	if (n.of[DESK_UNPLACED] && !n.busy &&
	    atomic_load(&r->live) <= n.of[DESK_PARKED] + n.of[DESK_WAITS] + n.of[DESK_UNMADE])
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
	unsigned int ms = 0;

	while (rest(r, ms)) {
		ms = IDLE_MS;
		atomic_fetch_add(&r->turns, 1);
		if (atomic_load(&r->m->paused) || !there(r))
			continue;
		begun = stub_now_ms();
		atomic_store(&r->live, 0);
		atomic_store(&r->waiting, 0);
		if (n > 0)
			atomic_store(&r->m->behind_ms, begun);
		n = read_all(r);
		if (n < 0)
			mirror_log(r->m, STUB_LOG_ERROR, "the mirror's ledger: %s", strerror((int)-n));
		else
			atomic_store(&r->m->behind_ms, 0);
		atomic_store(&r->m->waiting, atomic_load(&r->waiting));
		look_around(r);
		/* much that rests is not read all the time */
		if (stub_now_ms() - begun > ms)
			ms = (unsigned int)(stub_now_ms() - begun);
	}
	return NULL;
}

/* ---- life ---- */

uint64_t replicator_turns(struct replicator *r)
{
	return atomic_load(&r->turns);
}

void replicator_wake(struct replicator *r)
{
	pthread_mutex_lock(&r->lock);
	r->woken = true;
	pthread_cond_broadcast(&r->room);
	pthread_mutex_unlock(&r->lock);
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
