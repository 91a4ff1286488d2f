/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * express.c - one thread, the clerk, listens to who begins to wait, makes one job of all that wait for an object,
 * and lets the others do it.  The slots of a job are those that the clerk has seen before the comparison began.
 *
 * An object may be another worker's just now, or not known over there before its directory has been compared:
 * its slots are looked at again a moment later.
 *
 * The clerk also says how it stands (stub_waits_pulse()): there; caught up, so that who waits is answered; and how
 * much clients are slowed down, so that the lag stays within its bound.
 */
#include "express.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "carry.h"
#include "desk.h"
#include "share.h"

#define WORKERS	   8
#define SLOTS	   1024 /* that are listened to at once */
#define PULSE_MS   200
#define CONF_MS	   2000
#define HOLDS_MS   5000 /* so long a client waits for a replicator that says nothing */
#define AGAIN_MS   3 /* what cannot be done at once is looked at again */
#define MADE_TRIES 200
#define DELAY_MAX_US 200000
#define DELAY_MIN_US 500

struct job {
	struct job *next;
	struct stub_owed o;
	uint64_t from, to;
	struct stub_awaited *slot;
	unsigned int n;
	bool attrs; /* somebody waits for no name, but for attributes */
};

struct express {
	struct mirror *m;
	struct stub_waits *waits;
	pthread_mutex_t lock;
	pthread_cond_t work;
	bool stopping;
	struct job *first, **last;
	uint32_t handled[SLOTS]; /* the word of a slot that is in a job; 0: it is not */
	pthread_t clerk, worker[WORKERS];
	unsigned int workers;
	bool clerked;
	/* the clerk's */
	struct stub_awaited list[SLOTS];
	uint64_t pulse_ms, there_ms; /* the last one; when the mirror was there last */
	uint64_t conf_ms; /* when it was read */
	uint32_t lag_s;
	atomic_bool follows;
	_Atomic uint32_t delay_us;
};

/* ---- a job ---- */

static void free_job(struct job *j)
{
	free(j->slot);
	free(j);
}

/* Is whoever waits to go on?  What cannot be had over there, or not yet, is owed, and counted. */
static bool is_done(int verdict, bool newer)
{
	return verdict == EQUAL || verdict == WAITS || verdict == REFUSED || (verdict == AGAIN && newer);
}

static void pause_ms(unsigned int ms)
{
	const struct timespec t = { 0, ms * 1000000L };

	nanosleep(&t, NULL);
}

/* The new object itself, not only its name. */
static void carry_made(struct express *e, const struct stub_owed *o)
{
	struct carried c = { .m = e->m, .o = *o, .awaited = true };

	for (int i = 0; i < MADE_TRIES && !atomic_load(&e->m->stopping); i++) {
		int v = AGAIN;

		if (desk_take_now(e->m->desk, &o->h))
			v = carry(&c);
		if (is_done(v, c.newer) || v == AWAY || v == FULL)
			return;
		pause_ms(AGAIN_MS);
	}
}

static bool is_among(const char *const *name, unsigned int n, const char *one)
{
	while (n && strcmp(name[n - 1], one) != 0)
		n--;
	return n > 0;
}

/* The names that are waited for, each once: how many; 0: too many, or not all of them are known. */
static unsigned int names_of(const struct job *j, const char *name[AWAITED_NAMES])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < j->n; i++) {
		const char *one = j->slot[i].name;

		if (!(j->slot[i].what & STUB_OWED_NAMES) || is_among(name, n, one))
			continue;
		/* other processes have written it */
		if (n == AWAITED_NAMES || stub_name_check(one, strlen(one)) < 0 || !strcmp(one, STUB_DIR))
			return 0;
		name[n++] = one;
	}
	return n;
}

/* True: who waits for it may go on. */
static bool do_job(struct express *e, struct job *j)
{
	struct made made = { .n = 0 };
	const char *name[AWAITED_NAMES];
	struct carried c = { .m = e->m, .o = j->o, .awaited = true, .from = j->from, .to = j->to,
			     .name = name, .names = names_of(j, name), .made = &made };
	int v;

	c.only_times = c.names && !j->attrs;
	v = carry(&c);
	if (!is_done(v, c.newer))
		return false;
	for (unsigned int i = 0; i < made.n; i++)
		carry_made(e, &made.o[i]);
	return true;
}

/* It is done, or to be done again. */
static void forget(struct express *e, const struct job *j)
{
	for (unsigned int i = 0; i < j->n; i++)
		if (e->handled[j->slot[i].at] == j->slot[i].word)
			e->handled[j->slot[i].at] = 0;
}

static void *worker_thread(void *arg)
{
	struct express *e = arg;
	struct job *j;
	bool done;

	pthread_mutex_lock(&e->lock);
	while (!e->stopping) {
		j = e->first;
		if (!j) {
			pthread_cond_wait(&e->work, &e->lock);
			continue;
		}
		e->first = j->next;
		if (!e->first)
			e->last = &e->first;
		pthread_mutex_unlock(&e->lock);
		done = do_job(e, j);
		for (unsigned int i = 0; done && i < j->n; i++)
			stub_waits_release(e->waits, &j->slot[i]);
		pthread_mutex_lock(&e->lock);
		forget(e, j);
		free_job(j);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* ---- the clerk ---- */

/* One more waits for it. */
static void join(struct job *j, const struct stub_awaited *a)
{
	if (a->to <= a->from)
		j->from = j->to = 0; /* all of it */
	else if (j->n == 0) {
		j->from = a->from;
		j->to = a->to;
	} else if (j->to > j->from) {
		j->from = a->from < j->from ? a->from : j->from;
		j->to = a->to > j->to ? a->to : j->to;
	}
	j->o.what |= a->what;
	j->attrs |= !(a->what & STUB_OWED_NAMES);
	j->slot[j->n++] = *a;
}

/* All of the first @n in the list that wait for the same as the one at @first. */
static struct job *make_job(struct express *e, unsigned int first, unsigned int n)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->slot = calloc(n - first, sizeof(*j->slot));
	if (!j->slot) {
		free(j);
		return NULL;
	}
	j->o.h = e->list[first].h;
	for (unsigned int i = first; i < n; i++)
		if (e->handled[e->list[i].at] != e->list[i].word && stub_handle_equal(&e->list[i].h, &j->o.h))
			join(j, &e->list[i]);
	return j;
}

static void queue(struct express *e, struct job *j)
{
	for (unsigned int i = 0; i < j->n; i++)
		e->handled[j->slot[i].at] = j->slot[i].word;
	*e->last = j;
	e->last = &j->next;
	pthread_cond_signal(&e->work);
}

/* Jobs of all that can be done now: is there more? */
static bool hand_out(struct express *e, unsigned int n)
{
	bool more = false;

	pthread_mutex_lock(&e->lock);
	for (unsigned int i = 0; i < n; i++) {
		struct job *j;

		if (e->handled[e->list[i].at] == e->list[i].word)
			continue;
		more = true;
		if (!desk_take_now(e->m->desk, &e->list[i].h))
			continue;
		j = make_job(e, i, n);
		if (j)
			queue(e, j);
		else
			desk_rest(e->m->desk, &e->list[i].h, DESK_LATER, AGAIN_MS, true);
	}
	pthread_mutex_unlock(&e->lock);
	return more;
}

/* Whoever changes it does not tell us. */
static void read_conf(struct express *e)
{
	struct stub_mirror_conf c;

	if (e->conf_ms && stub_now_ms() - e->conf_ms < CONF_MS)
		return;
	e->conf_ms = stub_now_ms();
	if (stub_mirror_conf_read(e->m->volume, &c) == 0)
		e->lag_s = c.lag_s;
}

/* A lag over its bound slows clients down, more and more; below it that goes away. */
static uint32_t delay_of(struct express *e, const struct desk_counts *n)
{
	uint64_t behind = atomic_load(&e->m->behind_ms), now = stub_now_ms(), bound = e->lag_s * UINT64_C(1000);
	uint32_t delay = atomic_load(&e->delay_us);

	if (!bound)
		return 0;
	if ((behind && now - behind > bound) || n->behind_ms > bound)
		return delay < DELAY_MIN_US ? DELAY_MIN_US : delay * 2 > DELAY_MAX_US ? DELAY_MAX_US : delay * 2;
	return delay / 2 < DELAY_MIN_US ? 0 : delay / 2;
}

static void pulse(struct express *e)
{
	struct mirror *m = e->m;
	struct stub_pulse p = { .ms = HOLDS_MS };
	struct source_state s;
	struct desk_counts n;

	if (stub_now_ms() < e->pulse_ms)
		return;
	e->pulse_ms = stub_now_ms() + PULSE_MS;
	share_state(m, &s);
	desk_counts(m->desk, &n);
	p.there = s.connected && !m->root_wrong && !n.of[DESK_FULL];
	if (p.there && !atomic_load(&m->paused))
		e->there_ms = stub_now_ms();
	else if (stub_now_ms() - e->there_ms > HOLDS_MS)
		atomic_store(&m->caught_up, false);
	p.follows = atomic_load(&m->caught_up) && !atomic_load(&m->paused);
	atomic_store(&e->follows, p.follows);
	read_conf(e);
	p.delay_us = delay_of(e, &n);
	atomic_store(&e->delay_us, p.delay_us);
	stub_waits_pulse(e->waits, &p);
}

static void *clerk_thread(void *arg)
{
	struct express *e = arg;
	bool more = false;

	while (!atomic_load(&e->m->stopping)) {
		unsigned int n = stub_waits_listen(e->waits, more ? AGAIN_MS : PULSE_MS, e->list, SLOTS);

		more = hand_out(e, n);
		pulse(e);
	}
	return NULL;
}

/* ---- life ---- */

bool express_follows(struct express *e)
{
	return atomic_load(&e->follows);
}

uint32_t express_delay(struct express *e)
{
	return atomic_load(&e->delay_us);
}

void express_destroy(struct express *e)
{
	struct job *j;

	if (!e)
		return;
	if (e->clerked)
		pthread_join(e->clerk, NULL);
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	pthread_cond_broadcast(&e->work);
	pthread_mutex_unlock(&e->lock);
	for (unsigned int i = 0; i < e->workers; i++)
		pthread_join(e->worker[i], NULL);
	while ((j = e->first)) {
		e->first = j->next;
		free_job(j);
	}
	stub_waits_close(e->waits);
	pthread_cond_destroy(&e->work);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

int express_create(struct mirror *m, struct express **out)
{
	struct express *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return -ENOMEM;
	e->m = m;
	e->last = &e->first;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->work, NULL);
	r = stub_waits_open(m->volume, &e->waits);
	while (r == 0 && e->workers < WORKERS) {
		r = -pthread_create(&e->worker[e->workers], NULL, worker_thread, e);
		e->workers += r == 0;
	}
	if (r == 0)
		r = -pthread_create(&e->clerk, NULL, clerk_thread, e);
	e->clerked = r == 0;
	if (r < 0) {
		express_destroy(e);
		return r;
	}
	*out = e;
	return 0;
}
