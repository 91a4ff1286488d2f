// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_queue.c - which call goes to which connection, and when.
 *
 * Invariants, with nfs_source.pool.lock held:
 *   - a call is in one list: queue[], delayed, or one connection's inbox or flight
 *   - conn.inflight and conn.load are those of its inbox and flight; inflight is at most window,
 *     which is no more than the server has slots for (NFSv4.1)
 *   - after nfs_pump() no call waits that some connection could take, but for background
 *     that the limiter holds: then held_ms is set
 *   - a call that counts by the limiter flies while it is in an inbox or flight
 *   - demand goes before background, first come first served within each
 *   - background leaves a quarter of each window to demand, and connection 0
 *     whole while there is another: no client's LOOKUP waits behind megabytes
 *   - a suspect is alone on its connection
 *
 * The timer thread ends what waits too long: back-offs, and calls while the
 * source is lost for more than give_up_ms.  After source_stop() it ends all that
 * is queued; connections end their own.
 */
#include <errno.h>
#include <string.h>

#include "nfs/nfs41.h"

/* ---- spreading ---- */

static bool has_room(const struct nfs_conn *c, const struct nfs_call *call)
{
	unsigned int window = c->window;

	if (!c->usable || c->solo || c->index >= c->s->wanted)
		return false;
	if (call->suspect)
		return c->inflight == 0;
	if (call->prio == SOURCE_BACKGROUND && c->index == 0 && c->s->pool.usable > 1)
		return false;
	if (call->prio == SOURCE_BACKGROUND && window >= 4)
		window -= window / 4;
	return c->inflight < window;
}

static struct nfs_conn *least_loaded(struct nfs_source *s, const struct nfs_call *call)
{
	struct nfs_conn *best = NULL;
	unsigned int i;

	for (i = 0; i < s->n; i++) {
		struct nfs_conn *c = &s->conn[i];

		if (!has_room(c, call))
			continue;
		if (!best || c->load < best->load ||
		    (c->load == best->load && c->inflight < best->inflight))
			best = c;
	}
	return best;
}

/* By the limiter. */
static bool may_go(struct nfs_source *s, struct nfs_call *call)
{
	uint64_t again_us;

	if (!limiter_counts(s->pool.limiter, call->prio == SOURCE_BACKGROUND))
		return true;
	call->flight = limiter_go(s->pool.limiter, s->pool.lane, &again_us);
	if (!call->flight && !s->held_ms) {
		s->held_ms = again_us / 1000 + 1;
		pthread_cond_signal(&s->schedule);
	}
	return call->flight;
}

/* It has come back, one way or the other. */
static void land(struct nfs_source *s, struct nfs_call *call)
{
	if (call->flight)
		limiter_over(s->pool.limiter, s->pool.lane, call->flight);
	call->flight = 0;
}

void nfs_pump(struct nfs_source *s)
{
	struct nfs_call *call;
	struct nfs_conn *c;
	unsigned int p;

	for (p = 0; p < 2; p++) {
		c = NULL;
		while ((call = TAILQ_FIRST(&s->queue[p])) && (c = least_loaded(s, call)) &&
		       may_go(s, call)) {
			bool first = TAILQ_EMPTY(&c->inbox);

			TAILQ_REMOVE(&s->queue[p], call, link);
			TAILQ_INSERT_TAIL(&c->inbox, call, link);
			call->conn = c;
			c->inflight++;
			c->load += nfs_call_load(call);
			c->solo = call->suspect;
			if (first)
				nfs_conn_wake(c);
		}
		if (call && !c && s->pool.usable >= s->wanted &&
		    limiter_counts(s->pool.limiter, p == SOURCE_BACKGROUND))
			limiter_full(s->pool.limiter, s->pool.lane);
		if (call && call->suspect)
			return; /* it waits for an idle connection: keep none busy */
	}
}

static void count(struct nfs_source *s, const struct nfs_call *c)
{
	s->pool.n.calls++;
	switch (c->op) {
	case NFS_OP_LOOKUP:
		s->pool.n.lookups++;
		break;
	case NFS_OP_READ:
		s->pool.n.reads++;
		break;
	case NFS_OP_READDIR:
	case NFS_OP_READDIRPLUS:
		s->pool.n.readdirs++;
		break;
	default:
		break;
	}
}

int nfs_submit(struct nfs_source *s, struct nfs_call *c)
{
	c->conn = NULL;
	c->garbage = c->losses = c->backoff_ms = 0;
	c->suspect = c->alone = false;
	c->flight = 0;
	c->begun_us = trace_on() ? stub_now_us() : 0;
	if (!c->trace) /* or it goes on with what it has begun */
		c->trace = trace_of;
	pthread_mutex_lock(&s->pool.lock);
	if (s->pool.stop) {
		pthread_mutex_unlock(&s->pool.lock);
		return -ECANCELED;
	}
	count(s, c);
	TAILQ_INSERT_TAIL(&s->queue[c->prio], c, link);
	nfs_pump(s);
	if (!s->pool.usable && s->config.give_up_ms)
		pthread_cond_signal(&s->schedule);
	pthread_mutex_unlock(&s->pool.lock);
	return 0;
}

/* ---- connections ---- */

void nfs_conn_up(struct nfs_conn *c)
{
	struct nfs_source *s = c->s;

	pthread_mutex_lock(&s->pool.lock);
	c->usable = true;
	c->window = s->config.inflight;
	if (c->session && c->session->slots < c->window)
		c->window = c->session->slots;
	source_pool_up(&s->pool, c->ever);
	c->ever = true;
	nfs_pump(s);
	pthread_mutex_unlock(&s->pool.lock);
}

void nfs_conn_down(struct nfs_conn *c, uint64_t silent_ms)
{
	struct nfs_source *s = c->s;

	pthread_mutex_lock(&s->pool.lock);
	c->usable = false;
	source_pool_down(&s->pool, silent_ms);
	pthread_mutex_unlock(&s->pool.lock);
}

/* Ends calls that are in no list any more. */
static void end_all(struct nfs_calls *list, int err)
{
	struct nfs_call *c;

	while ((c = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, c, link);
		nfs_call_over(c, NULL, err, NULL);
	}
}

void nfs_give_back(struct nfs_conn *c)
{
	struct nfs_source *s = c->s;
	struct nfs_calls list = TAILQ_HEAD_INITIALIZER(list), ended = TAILQ_HEAD_INITIALIZER(ended);
	struct nfs_call *call;

	pthread_mutex_lock(&s->pool.lock);
	TAILQ_CONCAT(&list, &c->flight, link);
	TAILQ_CONCAT(&list, &c->inbox, link);
	c->inflight = 0;
	c->load = 0;
	c->solo = false;
	/* from the newest, each to the front: the order stays */
	while ((call = TAILQ_LAST(&list, nfs_calls))) {
		TAILQ_REMOVE(&list, call, link);
		call->conn = NULL;
		land(s, call);
		s->pool.n.retries++;
		if (s->pool.stop)
			TAILQ_INSERT_HEAD(&ended, call, link);
		else
			TAILQ_INSERT_HEAD(&s->queue[call->prio], call, link);
	}
	nfs_pump(s);
	pthread_cond_signal(&s->schedule);
	pthread_mutex_unlock(&s->pool.lock);
	end_all(&ended, -ECANCELED);
}

void nfs_settle(struct nfs_conn *c, struct nfs_call *call)
{
	struct nfs_source *s = c->s;

	TAILQ_REMOVE(&c->flight, call, link);
	pthread_mutex_lock(&s->pool.lock);
	c->inflight--;
	c->load -= nfs_call_load(call);
	c->solo = false;
	call->conn = NULL;
	land(s, call);
	pthread_mutex_unlock(&s->pool.lock);
}

void nfs_again(struct nfs_conn *c, struct nfs_call *call)
{
	struct nfs_source *s = c->s;
	bool stop;

	nfs_settle(c, call);
	pthread_mutex_lock(&s->pool.lock);
	stop = s->pool.stop;
	if (!stop) {
		s->pool.n.retries++;
		TAILQ_INSERT_HEAD(&s->queue[call->prio], call, link);
		nfs_pump(s);
	}
	pthread_mutex_unlock(&s->pool.lock);
	if (stop)
		nfs_call_over(call, NULL, -ECANCELED, NULL);
}

void nfs_delay(struct nfs_source *s, struct nfs_call *call)
{
	bool stop;

	if (s->config.jukebox_ms && call->backoff_ms * 2 > s->config.jukebox_ms) {
		nfs_call_over(call, NULL, -EINPROGRESS, NULL);
		return;
	}
	call->backoff_ms = call->backoff_ms ? call->backoff_ms * 2 : NFS_JUKEBOX_MIN_MS;
	if (call->backoff_ms > NFS_JUKEBOX_MAX_MS)
		call->backoff_ms = NFS_JUKEBOX_MAX_MS;
	call->due_ms = stub_now_ms() + call->backoff_ms;
	pthread_mutex_lock(&s->pool.lock);
	stop = s->pool.stop;
	if (!stop) {
		s->pool.n.retries++;
		TAILQ_INSERT_TAIL(&s->delayed, call, link);
		pthread_cond_signal(&s->schedule);
	}
	pthread_mutex_unlock(&s->pool.lock);
	if (stop)
		nfs_call_over(call, NULL, -ECANCELED, NULL);
}

static void hurry_one(struct nfs_source *s, struct nfs_calls *list, struct nfs_calls *to, uint64_t trace)
{
	struct nfs_call *c, *next;

	for (c = TAILQ_FIRST(list); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->trace != trace || c->prio != SOURCE_BACKGROUND)
			continue;
		c->prio = SOURCE_DEMAND;
		if (to != list) {
			TAILQ_REMOVE(list, c, link);
			TAILQ_INSERT_TAIL(to, c, link);
		}
	}
}

void nfs_hurry(struct nfs_source *s, uint64_t trace)
{
	pthread_mutex_lock(&s->pool.lock);
	hurry_one(s, &s->queue[SOURCE_BACKGROUND], &s->queue[SOURCE_DEMAND], trace);
	hurry_one(s, &s->delayed, &s->delayed, trace);
	nfs_pump(s);
	pthread_mutex_unlock(&s->pool.lock);
}

/* ---- time ---- */

/* Back-offs that are over: to the end of their queues.  Returns when to look again. */
static uint64_t run_delayed(struct nfs_source *s)
{
	uint64_t now = stub_now_ms(), next = UINT64_MAX;
	struct nfs_call *c, *after;
	bool any = false;

	for (c = TAILQ_FIRST(&s->delayed); c; c = after) {
		after = TAILQ_NEXT(c, link);
		if (c->due_ms > now) {
			next = c->due_ms < next ? c->due_ms : next;
			continue;
		}
		TAILQ_REMOVE(&s->delayed, c, link);
		TAILQ_INSERT_TAIL(&s->queue[c->prio], c, link);
		any = true;
	}
	if (s->held_ms && s->held_ms <= now) {
		s->held_ms = 0;
		any = true;
	}
	if (any)
		nfs_pump(s);
	return s->held_ms && s->held_ms < next ? s->held_ms : next;
}

static void take_waiting(struct nfs_source *s, struct nfs_calls *out)
{
	TAILQ_CONCAT(out, &s->queue[SOURCE_DEMAND], link);
	TAILQ_CONCAT(out, &s->queue[SOURCE_BACKGROUND], link);
	TAILQ_CONCAT(out, &s->delayed, link);
}

/* Is there anything for the timer to end?  Else *next is when to look again. */
static int overdue(struct nfs_source *s, struct nfs_calls *ended, uint64_t *next)
{
	*next = run_delayed(s);
	if (s->pool.stop) {
		take_waiting(s, ended);
		return -ECANCELED;
	}
	if (source_pool_gave_up(&s->pool)) {
		take_waiting(s, ended);
		return -ETIMEDOUT;
	}
	if (s->pool.lost_since_ms && s->config.give_up_ms) {
		uint64_t end = s->pool.lost_since_ms + s->config.give_up_ms;

		*next = end < *next ? end : *next;
	}
	return 0;
}

static void *timer_main(void *arg)
{
	struct nfs_source *s = arg;
	struct nfs_calls ended = TAILQ_HEAD_INITIALIZER(ended);
	uint64_t next;
	bool stop = false, tell;
	int err;

	pthread_mutex_lock(&s->pool.lock);
	while (!stop) {
		err = overdue(s, &ended, &next);
		stop = s->pool.stop;
		if (err) {
			tell = err == -ETIMEDOUT && source_pool_give_up(&s->pool);
			if (TAILQ_EMPTY(&ended) && !stop && !tell) {
				pthread_cond_wait(&s->schedule, &s->pool.lock);
				continue;
			}
			pthread_mutex_unlock(&s->pool.lock);
			if (tell)
				nfs_log(s, STUB_LOG_ERROR,
					"source %s: lost for more than %u s, calls fail until it is back",
					s->uri.host, s->config.give_up_ms / 1000);
			end_all(&ended, err);
			pthread_mutex_lock(&s->pool.lock);
		} else if (next == UINT64_MAX) {
			pthread_cond_wait(&s->schedule, &s->pool.lock);
		} else {
			stub_cond_wait_until(&s->schedule, &s->pool.lock, next);
		}
	}
	pthread_mutex_unlock(&s->pool.lock);
	return NULL;
}

int nfs_queue_start(struct nfs_source *s)
{
	return -pthread_create(&s->timer, NULL, timer_main, s);
}

int nfs_wait_known(struct nfs_source *s)
{
	int r;

	pthread_mutex_lock(&s->pool.lock);
	r = source_pool_wait_known(&s->pool, &s->schedule);
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}
