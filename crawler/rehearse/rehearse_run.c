/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * rehearse_run.c - the time is cut into slices, each for one kind of work, in turn: so each kind
 * has a rate of its own, and little of everything is seen early.  At the end of a slice nothing new
 * is begun until what is under way is over (but for a huge listing); the clock stands meanwhile.
 *
 * Directories are taken from all depths alike, and at random among those of a depth: what the
 * predictor believes of a depth is then as good for one as for another.  How many are under way is
 * found as in the crawler (source/pace.h), for each kind of work.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "rehearse/rehearse_inside.h"

#define TICK_MS	       50
#define SLICES	       40
#define SLICE_MIN_MS   250
#define SLICE_MAX_MS   30000
#define ALONE_OPS      500 /* more would not make it better known */
#define FEW_OPS	       50 /* alone or again, in one slice: the old server gains nothing */
#define AGAIN_US       1000000 /* ... but as many as come in that time */
#define BREAK_US       2000000
#define AGAIN_BYTES    (256u << 20)
#define WINDOW_LEAST   16
#define DIRS_MOST      (48u << 20) /* bytes of directories in mind */
#define FILES_MOST     (24u << 20)
#define PROGRESS_US    1000000
#define SAMPLE_LEAST_US 250000

const char *const rehearse_work_names[REHEARSE_WORKS] = {
	[REHEARSE_LIST] = "list",
	[REHEARSE_SMALL] = "small",
	[REHEARSE_LARGES] = "large",
	[REHEARSE_SMALL_AGAIN] = "small_again",
	[REHEARSE_LARGES_AGAIN] = "large_again",
	[REHEARSE_LIST_ALONE] = "list_alone",
	[REHEARSE_SMALL_ALONE] = "small_alone",
};

static const enum rehearse_work pattern[] = {
	REHEARSE_LIST, REHEARSE_SMALL, REHEARSE_LIST_ALONE, REHEARSE_SMALL_ALONE,
	REHEARSE_LIST, REHEARSE_LARGES, REHEARSE_SMALL_AGAIN,
	REHEARSE_LIST, REHEARSE_SMALL, REHEARSE_LARGES_AGAIN,
	REHEARSE_LIST, REHEARSE_LARGES,
};
#define PATTERN (sizeof(pattern) / sizeof(pattern[0]))

static atomic_bool signalled; /* any thread may get it */

static void on_signal(int sig)
{
	(void)sig;
	signalled = true;
}

static bool is_first(enum rehearse_work work) /* listed or read for the first time */
{
	return work <= REHEARSE_LARGES;
}

static bool is_alone(enum rehearse_work work)
{
	return work >= REHEARSE_LIST_ALONE;
}

/* ---- what there is to do; all with the lock held ---- */

static void ring_add(struct ring *g, struct thing *t)
{
	if (g->n < g->most) {
		g->thing[g->n++] = t;
		return;
	}
	thing_destroy(g->thing[g->at]);
	g->thing[g->at] = t;
	g->at = (g->at + 1) % g->most;
}

static struct thing *ring_take(struct ring *g)
{
	const struct thing *t;
	struct thing *copy;

	if (!g->n)
		return NULL;
	g->at = (g->at + 1) % g->n;
	t = g->thing[g->at];
	copy = malloc(sizeof(*t) + t->origin_len);
	if (copy) {
		memcpy(copy, t, sizeof(*t) + t->origin_len);
		copy->at = 0;
	}
	return copy;
}

static void ring_finish(struct ring *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		thing_destroy(g->thing[i]);
}

static struct thing *take_dir(struct run *k)
{
	unsigned int with[TREE_DEPTHS], n = 0;

	for (unsigned int i = 0; i < TREE_DEPTHS; i++) {
		if (k->dirs[i].n)
			with[n++] = i;
	}
	return n ? pool_take(&k->dirs[with[random_below(&k->random, n)]], &k->random) : NULL;
}

static struct thing *take_small(struct run *k)
{
	struct thing *t = k->batch;

	if (!t)
		t = pool_take(&k->small, &k->random);
	if (t) {
		k->batch = t->next;
		t->next = NULL;
	}
	return t;
}

static struct thing *take(struct run *k)
{
	struct thing *t;

	switch (k->work) {
	case REHEARSE_LIST:
	case REHEARSE_LIST_ALONE:
		return take_dir(k);
	case REHEARSE_SMALL:
		return take_small(k);
	case REHEARSE_LARGES:
		return pool_take(&k->large, &k->random);
	case REHEARSE_SMALL_AGAIN:
		return ring_take(&k->small_ring);
	case REHEARSE_LARGES_AGAIN:
		return ring_take(&k->large_ring);
	case REHEARSE_SMALL_ALONE:
		t = take_small(k);
		return t ? t : ring_take(&k->small_ring);
	default:
		return NULL;
	}
}

static bool has(const struct run *k, enum rehearse_work work)
{
	bool small = k->batch || k->small.n;

	switch (work) {
	case REHEARSE_LIST:
	case REHEARSE_LIST_ALONE:
		for (unsigned int i = 0; i < TREE_DEPTHS; i++) {
			if (k->dirs[i].n)
				return true;
		}
		return false;
	case REHEARSE_SMALL:
		return small;
	case REHEARSE_LARGES:
		return k->large.n;
	case REHEARSE_SMALL_AGAIN:
		return k->small_ring.n;
	case REHEARSE_LARGES_AGAIN:
		return k->large_ring.n;
	default:
		return small || k->small_ring.n;
	}
}

/* So many may be under way. */
static unsigned int places(const struct run *k)
{
	switch (k->work) {
	case REHEARSE_LIST:
	case REHEARSE_SMALL:
	case REHEARSE_LARGES:
		return k->pace[k->work].window;
	case REHEARSE_SMALL_AGAIN:
		return k->pace[REHEARSE_SMALL].usual;
	case REHEARSE_LARGES_AGAIN:
		return k->pace[REHEARSE_LARGES].usual;
	case REHEARSE_LIST_ALONE:
	case REHEARSE_SMALL_ALONE:
		return 1;
	default:
		return 0;
	}
}

static void put_back(struct run *k, enum rehearse_work work, struct thing *t)
{
	uint64_t end = t->size < TASK_READ_MOST ? t->size : TASK_READ_MOST;

	if (work == REHEARSE_SMALL || work == REHEARSE_SMALL_ALONE)
		ring_add(&k->small_ring, t);
	else if (work == REHEARSE_LARGES && t->at >= end)
		ring_add(&k->large_ring, t);
	else if (work == REHEARSE_LARGES)
		k->r->dropped += pool_add(&k->large, t, &k->random);
	else
		thing_destroy(t);
}

/* ---- workers ---- */

static void do_one(struct run *k, enum rehearse_work work, struct thing *t)
{
	if (work == REHEARSE_LIST || work == REHEARSE_LIST_ALONE) {
		task_list(k, work, t);
		return;
	}
	if (!task_read(k, work, t)) {
		thing_destroy(t);
		return;
	}
	pthread_mutex_lock(&k->lock);
	put_back(k, work, t);
	pthread_mutex_unlock(&k->lock);
}

static void *worker(void *arg)
{
	struct run *k = arg;

	pthread_mutex_lock(&k->lock);
	while (!k->stop) {
		enum rehearse_work work = k->work;
		struct thing *t = k->busy < places(k) ? take(k) : NULL;
		uint64_t began;
		bool full;

		if (!t) {
			pthread_cond_wait(&k->idle, &k->lock);
			continue;
		}
		began = stub_now_us();
		full = ++k->busy == places(k);
		if (!full)
			pthread_cond_signal(&k->idle);
		pthread_mutex_unlock(&k->lock);
		do_one(k, work, t);
		pthread_mutex_lock(&k->lock);
		k->busy--;
		k->r->phase[work].busy_us += stub_now_us() - began;
		if (is_first(work) && work == k->work)
			pace_done(&k->pace[work], stub_now_ms(), 1, full);
	}
	pthread_cond_broadcast(&k->idle);
	pthread_cond_broadcast(&k->room);
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* ---- slices ---- */

struct slices {
	uint64_t begin_us, last_us, until_us; /* until: of this slice, or of the break after it */
	uint64_t told_us, sampled_us, length_us;
	uint64_t began_us, calls, bytes, ops; /* when it began */
	struct machine machine;
	unsigned int next; /* in the pattern */
	bool stuck; /* something takes longer than a slice: it is not waited for */
	bool last; /* all is seen: what was never measured comes once */
	pthread_t thread[256];
	unsigned int threads;
};

static bool wanted(const struct run *k, const struct slices *c, enum rehearse_work work)
{
	if (!has(k, work))
		return false;
	if (is_alone(work) && (k->busy || k->r->phase[work].ops >= ALONE_OPS))
		return false;
	return !c->last || !k->r->phase[work].us;
}

static void begin_slice(struct run *k, struct slices *c, uint64_t calls, uint64_t now)
{
	c->last = !has(k, REHEARSE_LIST) && !has(k, REHEARSE_SMALL) && !has(k, REHEARSE_LARGES);
	for (unsigned int i = 0; i < PATTERN && k->work == REHEARSE_WORKS; i++) {
		enum rehearse_work work = pattern[c->next++ % PATTERN];

		if (wanted(k, c, work))
			k->work = work;
	}
	if (k->work == REHEARSE_WORKS) { /* nothing is left, or what is under way may bring more */
		k->stop = !k->busy;
		k->r->complete = k->stop && !k->r->dropped;
		return;
	}
	if (is_first(k->work))
		k->pace[k->work].since_ms = 0; /* the epoch of its pace begins with it */
	c->until_us = now + c->length_us;
	c->calls = calls;
	c->began_us = now;
	c->bytes = k->r->bytes;
	c->ops = k->r->phase[k->work].ops;
	machine_look(&c->machine);
	pthread_cond_broadcast(&k->idle);
}

static void end_slice(struct run *k, struct slices *c, const struct source_state *st, uint64_t now)
{
	struct rehearse_phase *p = &k->r->phase[k->work];
	struct machine m;

	machine_look(&m);
	p->cpu_busy += m.cpu_busy - c->machine.cpu_busy;
	p->cpu_all += m.cpu_all - c->machine.cpu_all;
	p->own_us += m.own_us - c->machine.own_us;
	if (st->calls > c->calls + st->inflight)
		p->calls += st->calls - c->calls - st->inflight;
	k->work = REHEARSE_WORKS;
	c->until_us = now + (c->stuck ? c->length_us / 8 : c->length_us + BREAK_US);
}

static void take_sample(struct run *k, struct slices *c)
{
	struct rehearse *r = k->r;
	uint64_t every = r->ms * 1000 / 600;

	if (every < SAMPLE_LEAST_US)
		every = SAMPLE_LEAST_US;
	if (r->samples && r->now.active_us < c->sampled_us + every)
		return;
	if (r->samples == REHEARSE_SAMPLES)
		return;
	c->sampled_us = r->now.active_us;
	r->sample[r->samples++] = r->now;
}

static bool slice_over(const struct run *k, const struct slices *c, uint64_t now)
{
	if (now >= c->until_us || (!k->busy && !has(k, k->work)))
		return true;
	if (is_first(k->work) || k->r->phase[k->work].ops - c->ops < FEW_OPS)
		return !is_first(k->work) && k->r->bytes - c->bytes >= AGAIN_BYTES;
	return is_alone(k->work) || now >= c->began_us + AGAIN_US;
}

/* With the lock held. */
static void tick(struct run *k, struct slices *c, const struct source_state *st, uint64_t now)
{
	struct rehearse *r = k->r;
	uint64_t passed = now - c->last_us;

	c->last_us = now;
	r->took_ms = (now - c->begin_us) / 1000;
	if (signalled)
		r->stopped = k->stop = true;
	if (r->took_ms >= r->ms)
		k->stop = true;
	if (!st->connected) {
		r->lost_ms += passed / 1000;
	} else if (k->work != REHEARSE_WORKS) {
		r->phase[k->work].us += passed;
		r->phase[k->work].inflight += st->inflight;
		r->phase[k->work].looks++;
		if (is_first(k->work)) {
			r->now.active_us += passed;
			take_sample(k, c);
		}
	}
	if (k->work != REHEARSE_WORKS) {
		if (k->stop || slice_over(k, c, now))
			end_slice(k, c, st, now);
	} else if (!k->stop && (!k->busy || now >= c->until_us)) {
		c->stuck = k->busy;
		begin_slice(k, c, st->calls, now);
	}
}

static int start_workers(struct run *k, struct slices *c, unsigned int n)
{
	int r = 0;

	while (c->threads < n && c->threads < k->r->workers && r == 0) {
		r = -pthread_create(&c->thread[c->threads], NULL, worker, k);
		c->threads += r == 0;
	}
	return c->threads ? 0 : r; /* with fewer it goes as well */
}

/* False: it is over. */
static bool look(struct run *k, struct slices *c)
{
	struct source_state st;
	unsigned int wanted_workers;
	bool goes_on;
	int r;

	source_state(k->s, &st);
	pthread_mutex_lock(&k->lock);
	tick(k, c, &st, stub_now_us());
	wanted_workers = places(k);
	if (k->r->progress && c->last_us >= c->told_us + PROGRESS_US) {
		c->told_us = c->last_us;
		k->r->progress(k->r->arg, k->r);
	}
	pthread_mutex_unlock(&k->lock);
	r = start_workers(k, c, wanted_workers);
	pthread_mutex_lock(&k->lock);
	if (r < 0)
		k->error = r;
	goes_on = !k->stop && !k->error;
	k->stop = !goes_on;
	pthread_mutex_unlock(&k->lock);
	return goes_on;
}

/* Until the end. */
static void watch(struct run *k, struct slices *c)
{
	while (look(k, c))
		poll(NULL, 0, TICK_MS);
	source_stop(k->s); /* ends what the workers wait for */
	disk_stop(k->disk);
	pthread_cond_broadcast(&k->idle);
	pthread_cond_broadcast(&k->room);
	for (unsigned int i = 0; i < c->threads; i++)
		pthread_join(c->thread[i], NULL);
}

/* ---- the whole ---- */

static int prepare(struct run *k)
{
	struct source_limits limits;
	struct stub_origin o;
	struct stub_entry e = { 0 };
	struct thing *t;
	int r = source_root(k->s, &o, &e.attr);

	if (r == 0)
		r = source_limits(k->s, &limits);
	if (r < 0)
		return r;
	k->block = limits.read_bytes;
	e.origin = o.bytes;
	e.origin_len = o.len;
	t = thing_create(&e, 0, source_has_meta(k->s, &e.attr));
	if (!t)
		return -ENOMEM;
	pool_add(&k->dirs[0], t, &k->random);
	k->r->directories = 1;
	k->r->now.found = k->r->found = 1;
	return 0;
}

static void init(struct run *k)
{
	unsigned int most = k->r->workers, least = most < WINDOW_LEAST ? most : WINDOW_LEAST;

	if (getrandom(&k->random, sizeof(k->random), GRND_NONBLOCK) != sizeof(k->random) ||
	    !k->random)
		k->random = 1 + stub_now_us();
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->idle, NULL);
	pthread_cond_init(&k->room, NULL);
	treestat_init(&k->r->tree);
	for (unsigned int i = 0; i <= REHEARSE_LARGES; i++)
		pace_init(&k->pace[i], least, most);
	for (unsigned int i = 0; i < TREE_DEPTHS; i++)
		k->dirs[i] = (struct pool){ .bytes = &k->dirs_bytes, .most = DIRS_MOST };
	k->small = (struct pool){ .bytes = &k->files_bytes, .most = FILES_MOST };
	k->large = k->small;
	k->small_ring.most = RING_MOST;
	k->large_ring.most = RING_MOST / 64;
}

static void finish(struct run *k)
{
	for (unsigned int i = 0; i <= REHEARSE_LARGES; i++)
		k->r->phase[i].window = k->pace[i].usual;
	for (unsigned int i = 0; i < TREE_DEPTHS; i++)
		pool_finish(&k->dirs[i]);
	pool_finish(&k->small);
	pool_finish(&k->large);
	thing_destroy(k->batch);
	ring_finish(&k->small_ring);
	ring_finish(&k->large_ring);
	disk_destroy(k->disk);
	treestat_finish(&k->r->tree);
	pthread_cond_destroy(&k->idle);
	pthread_cond_destroy(&k->room);
	pthread_mutex_destroy(&k->lock);
}

int rehearse(struct rehearse *r, struct source *s)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct run *k = calloc(1, sizeof(*k));
	struct slices c = { 0 };
	int error;

	if (!k)
		return -ENOMEM;
	k->r = r;
	k->s = s;
	k->work = REHEARSE_WORKS;
	init(k);
	error = prepare(k); /* a signal ends it: there is nothing to tell */
	signalled = false;
	sigaction(SIGINT, &act, NULL); /* for good: what was seen is told, however often it comes */
	sigaction(SIGTERM, &act, NULL);
	c.begin_us = c.last_us = c.told_us = stub_now_us();
	c.length_us = r->ms * 1000 / SLICES;
	if (c.length_us < SLICE_MIN_MS * 1000)
		c.length_us = SLICE_MIN_MS * 1000;
	if (c.length_us > SLICE_MAX_MS * 1000)
		c.length_us = SLICE_MAX_MS * 1000;
	if (error == 0 && r->dir >= 0) {
		r->here = disk_create(r->dir, &k->disk);
		error = r->here ? -EIO : 0;
	}
	if (error == 0) {
		watch(k, &c);
		error = k->error;
	}
	finish(k);
	free(k);
	return error;
}
