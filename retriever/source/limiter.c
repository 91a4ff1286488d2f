// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "source/limiter.h"
#include "stubcore.h"

#define BURST_NS   50000000ull /* so late the threads that send may be, without loss of rate */
#define JUDGE_US   200000	/* so often the average is judged */
#define LOOK_US	   20000	/* again, where another source's answer may have made room */
#define SILENCE    10		/* times the set point without a word: nothing more goes ... */
#define SILENCE_US 1000000	/* ... but not for less than this */
#define REST_US	   5000000	/* longest pause between two requests */
#define LIVES_US   10000000
#define UNIT_BYTES 65536
#define WINDOW_ALL 4096.0 /* all there can be */
#define WINDOW_FIRST 16.0 /* with a new set point */
#define WINDOW_MIN (1.0 / 16)
#define SHRINK	   0.7 /* at least, ... */
#define SHRINK_MAX 0.1 /* ... and at most, at once */
#define GROW	   1.1
#define GROW_TIME  1.5 /* below 1 */
#define LOW	   0.8 /* of the set point: below it the window grows */

struct limiter {
	bool all; /* constant */
	pthread_mutex_t lock; /* a leaf */
	struct limiter_rules rules;
	unsigned int flying; /* requests of the background under way */
	uint64_t next_ns;    /* by the rate, the next one goes then */
	uint64_t held_us;    /* when one was held last */
	uint64_t heard_us;
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

int limiter_create(bool all, struct limiter **out)
{
	struct limiter *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	l->all = all;
	l->window = WINDOW_ALL;
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
static void average_anew(struct limiter *l, uint64_t now)
{
	l->sum_us = l->n = l->units = 0;
	l->most = l->flying;
	l->since_us = now;
}

void limiter_set(struct limiter *l, const struct limiter_rules *r)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	if (r->requests == l->rules.requests && r->latency_ms == l->rules.latency_ms) {
		pthread_mutex_unlock(&l->lock);
		return;
	}
	l->rules = *r;
	l->next_ns = l->held_us = l->backed_off_us = l->rest_us = l->mean_us = 0;
	l->window = r->latency_ms ? WINDOW_FIRST : WINDOW_ALL;
	l->changed_us = l->heard_us = stub_now_us();
	average_anew(l, l->changed_us);
	pthread_mutex_unlock(&l->lock);
}

/* ---- going ---- */

/* By the set point; 0: now, else when to ask again. */
static uint64_t held_by_latency(const struct limiter *l, uint64_t now)
{
	uint64_t silence = (uint64_t)l->rules.latency_ms * 1000 * SILENCE;
	unsigned int most = l->window < 1 ? 1 : (unsigned int)l->window;

	if (!l->rules.latency_ms)
		return 0;
	if (l->flying >= most)
		return now + LOOK_US;
	if (now < l->rest_us)
		return l->rest_us;
	if (silence < SILENCE_US)
		silence = SILENCE_US;
	return l->flying && now - l->heard_us > silence ? now + LOOK_US : 0;
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

bool limiter_go(struct limiter *l, uint64_t *again_us)
{
	uint64_t now, until;

	pthread_mutex_lock(&l->lock);
	now = l->rules.requests || l->rules.latency_ms ? stub_now_us() : 0;
	until = held_by_latency(l, now);
	if (until)
		l->backed_off_us = now;
	else
		until = held_by_rate(l, now);
	if (until) {
		l->held_us = now;
		*again_us = until;
	} else {
		take_turn(l, now);
		if (!l->flying++)
			l->heard_us = now; /* silence begins with the first */
		if (l->flying > l->most)
			l->most = l->flying;
	}
	pthread_mutex_unlock(&l->lock);
	return !until;
}

void limiter_over(struct limiter *l)
{
	uint64_t rest;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->flying--;
	if (l->rules.latency_ms && l->window < 1) {
		rest = (uint64_t)((double)l->mean_us * (1 / l->window - 1));
		l->rest_us = stub_now_us() + (rest < REST_US ? rest : REST_US);
	}
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
static void shrink(struct limiter *l, uint64_t now)
{
	double within = (double)l->units * l->rules.latency_ms * 1000 / (double)(now - l->since_us);
	double from = l->window > l->most ? (l->most ? l->most : 1) : l->window;

	l->window = within < from * SHRINK_MAX ? from * SHRINK_MAX :
		    within > from * SHRINK     ? from * SHRINK :
						 within;
	if (l->window < WINDOW_MIN)
		l->window = WINDOW_MIN;
	l->changed_us = now;
}

static void grow(struct limiter *l)
{
	double more = l->window * (l->window < 1 ? GROW_TIME : GROW);

	if (l->window < 1)
		l->window = more < 1 ? more : 1;
	else if (l->most + 1 >= l->window) /* it was in use */
		l->window = more > l->window + 1 ? more : l->window + 1;
	if (l->window > WINDOW_ALL)
		l->window = WINDOW_ALL;
}

static void judge(struct limiter *l, uint64_t now)
{
	uint64_t set_us = (uint64_t)l->rules.latency_ms * 1000;

	l->mean_us = l->sum_us / l->n;
	if (l->mean_us > set_us)
		shrink(l, now);
	else if ((double)l->mean_us <= LOW * (double)set_us)
		grow(l);
	average_anew(l, now);
}

void limiter_answered(struct limiter *l, uint64_t sent_us, uint64_t bytes)
{
	uint64_t now = stub_now_us(), units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->heard_us = now;
	units = units ? units : 1;
	l->units += units;
	if (l->rules.latency_ms && sent_us >= l->changed_us) {
		l->sum_us += (now - sent_us) / units;
		l->n++;
	}
	if (l->n && now - l->since_us >= JUDGE_US)
		judge(l, now);
	pthread_mutex_unlock(&l->lock);
}

void limiter_heard(struct limiter *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->heard_us = stub_now_us();
	pthread_mutex_unlock(&l->lock);
}

/* ---- telling ---- */

bool limiter_holds(struct limiter *l)
{
	uint64_t now = stub_now_us();
	bool holds;

	if (!l)
		return false;
	pthread_mutex_lock(&l->lock);
	holds = now - l->held_us < SILENCE_US && (!l->flying || now - l->heard_us < LIVES_US);
	pthread_mutex_unlock(&l->lock);
	return holds;
}

void limiter_state(struct limiter *l, struct limiter_state *out)
{
	*out = (struct limiter_state){ .backs_off = false };
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	out->rules = l->rules;
	out->backs_off = l->rules.latency_ms && stub_now_us() - l->backed_off_us < SILENCE_US;
	out->latency_us = l->mean_us;
	pthread_mutex_unlock(&l->lock);
}
