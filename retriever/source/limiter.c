// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "source/limiter.h"
#include "source/pace.h"
#include "stubcore.h"

#define BURST_NS   50000000ull /* so late the threads that send may be, without loss of rate */
#define JUDGE_US   200000	/* so often the average is judged */
#define LOOK_US	   20000	/* again, where another source's answer may have made room */
#define SILENCE    10		/* times the set point without a word: nothing more goes ... */
#define SILENCE_US 1000000	/* ... but not for less than this */
#define REST_US	   5000000	/* longest pause between two requests */
#define LIVES_US   10000000
#define HANGS_US   1000000
#define UNIT_BYTES 65536
#define WINDOW_ALL ((double)LIMITER_CALLS_MAX) /* all there can be */
#define WINDOW_FIRST 16.0 /* with a new set point */
#define WINDOW_MIN (1.0 / 16)
#define SHRINK	   0.7 /* at least, ... */
#define SHRINK_MAX 0.1 /* ... and at most, at once */
#define GROW	   1.1
#define GROW_TIME  1.5 /* below 1 */
#define LOW	   0.8 /* of the set point: below it the window grows */
/* of what is found */
#define FOUND_MIN   2
#define FOUND_FIRST 16	   /* to begin with, at least; ... */
#define QUICK	    20000 /* ... what a quick server answers, in a second */
#define BUSY	    8	   /* so many of which one was just answered are as good as all */

/* The old server by one protocol. */
struct lane {
	unsigned int flying; /* requests of the background under way */
	uint64_t held_us;    /* when one was held last */
	uint64_t heard_us;
	/* if neither a set point nor a number is set */
	uint64_t moved_us;    /* when one came back last, or the first went */
	unsigned int flight;  /* the number of those that go now, from 1 on */
	unsigned int hanging; /* are under way of earlier ones: they take no place */
	struct pace pace;  /* so many may fly */
	bool found;	   /* that is looked at: how long an answer takes is known */
	uint64_t least_us; /* an answer took so far */
	/* of the set point */
	double window;	    /* so many may fly; below 1: one, and that part of the time */
	unsigned int most;  /* that flew since since_us */
	uint64_t since_us;  /* answers are averaged since then, ... */
	uint64_t changed_us; /* ... of what was sent after the window shrank */
	uint64_t sum_us, n;
	uint64_t units; /* of all answers, since then */
	uint64_t mean_us; /* the last average */
	uint64_t rest_us; /* nothing goes until then */
	uint64_t backed_off_us; /* when one was held last by the set point */
};

struct limiter {
	bool all; /* constant */
	pthread_mutex_t lock; /* a leaf; who compares times looks at the clock with it, so that they are in order */
	struct limiter_rules rules;
	uint64_t next_ns; /* by the rate, the next one goes then */
	struct lane lane[LIMITER_LANES];
};

int limiter_create(bool all, struct limiter **out)
{
	struct limiter *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	l->all = all;
	for (struct lane *n = l->lane; n < l->lane + LIMITER_LANES; n++) {
		n->window = WINDOW_ALL;
		n->least_us = UINT64_MAX;
		n->flight = 1;
		pace_init(&n->pace, FOUND_MIN, LIMITER_CALLS_MAX);
	}
	*out = l;
	return 0;
}

void limiter_destroy(struct limiter *l)
{
	if (!l)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* From now on answers are averaged anew. */
static void average_anew(struct lane *n, uint64_t now)
{
	n->sum_us = n->n = n->units = 0;
	n->most = n->flying;
	n->since_us = now;
}

void limiter_set(struct limiter *l, const struct limiter_rules *r)
{
	uint64_t now;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	now = stub_now_us();
	if (r->requests == l->rules.requests && r->latency_ms == l->rules.latency_ms &&
	    r->calls == l->rules.calls) {
		pthread_mutex_unlock(&l->lock);
		return;
	}
	l->rules = *r;
	l->next_ns = 0;
	for (struct lane *n = l->lane; n < l->lane + LIMITER_LANES; n++) {
		n->held_us = n->backed_off_us = n->rest_us = n->mean_us = 0;
		n->window = r->latency_ms ? WINDOW_FIRST : WINDOW_ALL;
		n->changed_us = n->heard_us = now;
		average_anew(n, now);
	}
	pthread_mutex_unlock(&l->lock);
}

/* ---- going ---- */

/* So many may be under way at this moment. */
static unsigned int calls_most(const struct limiter *l, const struct lane *n)
{
	if (l->rules.latency_ms)
		return n->window < 1 ? 1 : (unsigned int)n->window;
	if (l->rules.calls)
		return l->rules.calls;
	return n->found ? n->pace.window : LIMITER_CALLS_MAX;
}

static unsigned int places_taken(const struct limiter *l, const struct lane *n)
{
	return l->rules.latency_ms || l->rules.calls ? n->flying : n->flying - n->hanging;
}

/* Nothing has come back for so long: each may wait for a tape of its own. */
static void look_who_hangs(const struct limiter *l, struct lane *n, uint64_t now)
{
	if (places_taken(l, n) < calls_most(l, n) || now - n->moved_us < HANGS_US)
		return;
	n->hanging = n->flying;
	n->flight++;
	n->moved_us = now;
}

/* The first of the background goes: with how many is it begun? */
static void begin_finding(struct lane *n)
{
	double first = (double)n->least_us * QUICK / 1000000;

	n->found = true;
	pace_begin(&n->pace, first > LIMITER_CALLS_MAX ? LIMITER_CALLS_MAX :
			     first > FOUND_FIRST       ? (unsigned int)first :
							 FOUND_FIRST);
}

/* By the set point, or for many that are under way; 0: now, else when to ask again. */
static uint64_t held_by_others(const struct limiter *l, const struct lane *n, uint64_t now)
{
	uint64_t silence = (uint64_t)l->rules.latency_ms * 1000 * SILENCE;

	if (places_taken(l, n) >= calls_most(l, n))
		return now + LOOK_US;
	if (!l->rules.latency_ms)
		return 0;
	if (now < n->rest_us)
		return n->rest_us;
	if (silence < SILENCE_US)
		silence = SILENCE_US;
	return n->flying && now - n->heard_us > silence ? now + LOOK_US : 0;
}

static uint64_t step_ns(const struct limiter *l)
{
	return 1000000000ull / l->rules.requests;
}

/* By the rate; likewise. */
static uint64_t held_by_rate(const struct limiter *l, uint64_t now)
{
	return l->rules.requests && l->next_ns > now * 1000 ? l->next_ns / 1000 + 1 : 0;
}

static void take_turn(struct limiter *l, uint64_t now)
{
	uint64_t from = now * 1000 - BURST_NS;

	if (!l->rules.requests)
		return;
	l->next_ns = (l->next_ns > from ? l->next_ns : from) + step_ns(l);
}

bool limiter_counts(const struct limiter *l, bool background)
{
	return l && (background || l->all);
}

unsigned int limiter_go(struct limiter *l, unsigned int lane, uint64_t *again_us)
{
	struct lane *n = &l->lane[lane];
	uint64_t now, until;
	unsigned int flight = 0;

	pthread_mutex_lock(&l->lock);
	now = stub_now_us();
	if (!n->found && n->least_us != UINT64_MAX)
		begin_finding(n);
	look_who_hangs(l, n, now);
	until = held_by_others(l, n, now);
	if (until)
		n->backed_off_us = now;
	else
		until = held_by_rate(l, now);
	if (until) {
		n->held_us = now;
		*again_us = until;
	} else {
		take_turn(l, now);
		flight = n->flight;
		if (n->flying == n->hanging)
			n->moved_us = now;
		if (!n->flying++)
			n->heard_us = now; /* silence begins with the first */
		if (n->flying > n->most)
			n->most = n->flying;
	}
	pthread_mutex_unlock(&l->lock);
	return flight;
}

void limiter_over(struct limiter *l, unsigned int lane, unsigned int flight)
{
	struct lane *n;
	uint64_t rest;

	if (!l)
		return;
	n = &l->lane[lane];
	pthread_mutex_lock(&l->lock);
	n->flying--;
	n->hanging -= flight != n->flight;
	n->moved_us = stub_now_us();
	if (l->rules.latency_ms && n->window < 1) {
		rest = (uint64_t)((double)n->mean_us * (1 / n->window - 1));
		n->rest_us = stub_now_us() + (rest < REST_US ? rest : REST_US);
	}
	pthread_mutex_unlock(&l->lock);
}

void limiter_full(struct limiter *l, unsigned int lane)
{
	struct lane *n;

	if (!l)
		return;
	n = &l->lane[lane];
	pthread_mutex_lock(&l->lock);
	if (n->found && !n->hanging && n->pace.window > n->flying)
		pace_room(&n->pace, stub_now_us() / 1000, n->flying);
	pthread_mutex_unlock(&l->lock);
}

void limiter_another(struct limiter *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	if (l->rules.requests)
		take_turn(l, stub_now_us());
	pthread_mutex_unlock(&l->lock);
}

/* ---- answers ---- */

/*
 * As many as are answered within the set point, at the pace of now (Little's law): what waits over there
 * makes no answer come sooner.
 */
static void shrink(struct lane *n, uint64_t set_us, uint64_t now)
{
	double within = (double)n->units * (double)set_us / (double)(now - n->since_us);
	double from = n->window > n->most ? (n->most ? n->most : 1) : n->window;

	n->window = within < from * SHRINK_MAX ? from * SHRINK_MAX :
		    within > from * SHRINK     ? from * SHRINK :
						 within;
	if (n->window < WINDOW_MIN)
		n->window = WINDOW_MIN;
	n->changed_us = now;
}

static void grow(struct lane *n)
{
	double more = n->window * (n->window < 1 ? GROW_TIME : GROW);

	if (n->window < 1)
		n->window = more < 1 ? more : 1;
	else if (n->most + 1 >= n->window) /* it was in use */
		n->window = more > n->window + 1 ? more : n->window + 1;
	if (n->window > WINDOW_ALL)
		n->window = WINDOW_ALL;
}

static void judge(struct lane *n, uint64_t set_us, uint64_t now)
{
	n->mean_us = n->sum_us / n->n;
	if (n->mean_us > set_us)
		shrink(n, set_us, now);
	else if ((double)n->mean_us <= LOW * (double)set_us)
		grow(n);
	average_anew(n, now);
}

/* With a set point. */
static void average(struct lane *n, uint64_t set_us, uint64_t took_us, uint64_t units, uint64_t now)
{
	n->units += units;
	if (now - took_us >= n->changed_us) {
		n->sum_us += took_us / units;
		n->n++;
	}
	if (n->n && now - n->since_us >= JUDGE_US)
		judge(n, set_us, now);
}

void limiter_answered(struct limiter *l, unsigned int lane, uint64_t sent_us, uint64_t bytes)
{
	uint64_t now, units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
	struct lane *n;

	if (!l)
		return;
	n = &l->lane[lane];
	units = units ? units : 1;
	pthread_mutex_lock(&l->lock);
	now = stub_now_us();
	n->heard_us = now;
	if (units == 1 && now - sent_us < n->least_us)
		n->least_us = now - sent_us;
	if (l->rules.latency_ms)
		average(n, (uint64_t)l->rules.latency_ms * 1000, now - sent_us, units, now);
	else if (n->found && !l->rules.calls)
		pace_done(&n->pace, now / 1000, units,
			  places_taken(l, n) + places_taken(l, n) / BUSY >= n->pace.window);
	pthread_mutex_unlock(&l->lock);
}

void limiter_heard(struct limiter *l, unsigned int lane)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->lane[lane].heard_us = stub_now_us();
	pthread_mutex_unlock(&l->lock);
}

/* ---- telling ---- */

bool limiter_holds(struct limiter *l)
{
	bool holds = false;
	uint64_t now;

	if (!l)
		return false;
	pthread_mutex_lock(&l->lock);
	now = stub_now_us();
	for (const struct lane *n = l->lane; n < l->lane + LIMITER_LANES; n++)
		holds = holds || (now - n->held_us < SILENCE_US &&
				  (!n->flying || now - n->heard_us < LIVES_US));
	pthread_mutex_unlock(&l->lock);
	return holds;
}

void limiter_state(struct limiter *l, struct limiter_state *out)
{
	uint64_t now;

	*out = (struct limiter_state){ .backs_off = false };
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	now = stub_now_us();
	out->rules = l->rules;
	for (unsigned int i = 0; i < LIMITER_LANES; i++) {
		const struct lane *n = &l->lane[i];

		out->backs_off = out->backs_off ||
				 (l->rules.latency_ms && now - n->backed_off_us < SILENCE_US);
		if (n->mean_us > out->latency_us)
			out->latency_us = n->mean_us;
		if ((i == 0 || n->found) && calls_most(l, n) > out->calls)
			out->calls = calls_most(l, n);
	}
	pthread_mutex_unlock(&l->lock);
}
