// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_queue.c - which call is next, and what becomes of calls without a connection.
 *
 * Demand goes before background, first come first served within each.  Connection 0
 * takes no background work while there is another one: a client's look-up never waits
 * behind megabytes.  Calls wait for a connection for ever, or until give_up_ms.
 *
 * Some calls (META) go together on a connection.  Which of them breaks it nobody can tell: those
 * that were under way go alone the next time, and only then a loss is theirs.  Where that happens again and
 * again, as with a server that does not stand compounds, nothing goes together for a while.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "smb/smb.h"

#define BROKE_MAX 3 /* times in a row that what went together was lost, and nothing of it answered */
#define ALONE_MS  60000
#define WAITS_US  1000 /* so long a connection waits for an answer before it is told of more calls */

static bool is_wanted(const struct smb_conn *c)
{
	return c->index < c->s->wanted;
}

bool smb_conn_wanted(const struct smb_conn *c)
{
	bool wanted;

	pthread_mutex_lock(&c->s->pool.lock);
	wanted = is_wanted(c) || c->s->pool.stop;
	pthread_mutex_unlock(&c->s->pool.lock);
	return wanted;
}

/* Connection 0 takes no background work while there is another one. */
static bool may_take(const struct smb_conn *c, unsigned int prio)
{
	return prio != SOURCE_BACKGROUND || c->index != 0 || c->s->pool.usable <= 1;
}

bool smb_goes_with_others(const struct smb_call *c)
{
	return c->request.type == SMB_WIRE_GETMETA && !c->request.alone;
}

static void count(struct smb_source *s, const struct smb_call *c)
{
	s->pool.n.calls++;
	s->pool.n.lookups += c->request.type == SMB_WIRE_LOOKUP;
	s->pool.n.readdirs += c->request.type == SMB_WIRE_LIST;
	s->pool.n.reads += c->request.type == SMB_WIRE_READ_;
}

bool smb_ticket_is_old(const struct smb_conn *c)
{
	return c->ticket != tickets_serial(c->s->ticket);
}

/*
 * No connection rests: one that waits for an answer for some time could take @c as well.  One that gets
 * answers all the time looks by itself.
 */
static void wake_one(struct smb_source *s, const struct smb_call *c)
{
	uint64_t now_us = stub_now_us(), one = 1;

	for (unsigned int i = s->n; i-- > 0;) {
		struct smb_conn *k = &s->conn[i];
		uint64_t waits_us = atomic_load(&k->waits_us);

		if (!k->usable || !is_wanted(k) || !waits_us || now_us - waits_us < WAITS_US || !may_take(k, c->prio))
			continue;
		if (write(k->more, &one, sizeof(one)) == sizeof(one))
			return;
	}
}

int smb_submit(struct smb_source *s, struct smb_call *c)
{
	int r = 0;

	c->losses = 0;
	c->begun = false;
	c->flight = 0;
	c->begun_us = trace_on() ? stub_now_us() : 0;
	c->trace = trace_of;
	pthread_mutex_lock(&s->pool.lock);
	c->request.alone = stub_now_ms() < s->alone_until_ms;
	if (s->pool.stop) {
		r = -ECANCELED;
	} else {
		count(s, c);
		TAILQ_INSERT_TAIL(&s->queue[c->prio], c, link);
		pthread_cond_broadcast(&s->work); /* all: not every connection may take it */
		if (smb_goes_with_others(c))
			wake_one(s, c);
	}
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

void smb_hurry(struct smb_source *s, uint64_t trace)
{
	struct smb_call *c, *next;

	pthread_mutex_lock(&s->pool.lock);
	for (c = TAILQ_FIRST(&s->queue[SOURCE_BACKGROUND]); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->trace != trace)
			continue;
		TAILQ_REMOVE(&s->queue[SOURCE_BACKGROUND], c, link);
		TAILQ_INSERT_TAIL(&s->queue[SOURCE_DEMAND], c, link);
		c->prio = SOURCE_DEMAND;
		pthread_cond_broadcast(&s->work);
	}
	pthread_mutex_unlock(&s->pool.lock);
}

/* It is under way no more. */
static void land(struct smb_source *s, struct smb_call *c)
{
	if (c->flight)
		limiter_over(s->pool.limiter, s->pool.lane, c->flight);
	c->flight = 0;
}

/* What of its object and answer may be told. */
static void tell(const struct smb_call *c, const struct smb_conn *on, int err,
		 const struct smb_answer *a)
{
	static const char *const names[] = { "?", "START", "GETATTR", "LOOKUP", "LIST",
					     "READ", "META", "STREAM", "HOLES", "PUT" };
	const struct smb_request *r = &c->request;
	char path[2048], name[1100] = "", range[64] = "", got[32] = "", where[64] = "";

	stub_printable(r->path.p, r->path.len, path, sizeof(path));
	if (r->name.len) {
		name[0] = ' ';
		name[1] = '"';
		stub_printable(r->name.p, r->name.len, name + 2, sizeof(name) - 3);
		strcat(name, "\"");
	}
	if (r->type == SMB_WIRE_READ_ || r->type == SMB_WIRE_STREAM)
		snprintf(range, sizeof(range), " %llu+%u", (unsigned long long)r->offset,
			 r->length);
	if (r->type == SMB_WIRE_GETHOLES)
		snprintf(range, sizeof(range), " %llu+", (unsigned long long)r->offset);
	if (a && a->type == SMB_WIRE_HOLES)
		snprintf(got, sizeof(got), ", %u holes", a->count);
	if (a && a->type == SMB_WIRE_DATA)
		snprintf(got, sizeof(got), ", %zu bytes", a->rest_len);
	if (on)
		snprintf(where, sizeof(where), ", connection %u (worker %d)", on->index,
			 (int)on->pid);
	trace_line(c->trace, "source %s \"%s\"%s%s: %s%s, %.1f ms%s",
		   names[(size_t)r->type < sizeof(names) / sizeof(names[0]) ? r->type : 0], path,
		   name, range, stub_result_text(err), got,
		   (double)(stub_now_us() - c->begun_us) / 1000, where);
}

void smb_call_over(struct smb_call *c, const struct smb_conn *on, int err, struct smb_answer *a)
{
	if (c->begun_us && trace_on())
		tell(c, on, err, err ? NULL : a);
	if (on)
		land(on->s, c);
	if (!err && on && smb_goes_with_others(c))
		atomic_store(&on->s->broke, 0);
	c->done(c, err, a);
}

/* A listing is one call, and takes nobody's place: it waits for those that take what it hands on, and they may wait for
 * others. */
static bool may_go(struct smb_source *s, struct smb_call *c, uint64_t *again_us)
{
	struct limiter *l = s->pool.limiter;

	if (!limiter_counts(l, c->prio == SOURCE_BACKGROUND))
		return true;
	c->flight = limiter_go(l, s->pool.lane, again_us);
	if (!c->flight)
		return false;
	if (c->request.type == SMB_WIRE_LIST)
		land(s, c);
	return true;
}

/* *again_us: what there is waits for the limiter until then. */
static struct smb_call *take(struct smb_conn *c, bool with_others, uint64_t *again_us)
{
	struct smb_source *s = c->s;

	for (unsigned int p = 0; p < 2; p++) {
		struct smb_call *call = TAILQ_FIRST(&s->queue[p]);

		if (!call || !may_take(c, p))
			continue;
		if (with_others && !smb_goes_with_others(call))
			return NULL; /* its turn is when those under way are over */
		if (!may_go(s, call, again_us))
			return NULL;
		TAILQ_REMOVE(&s->queue[p], call, link);
		return call;
	}
	return NULL;
}

struct smb_call *smb_next(struct smb_conn *c, bool *ping)
{
	struct smb_source *s = c->s;
	uint64_t until = stub_now_ms() + SMB_PING_MS, again_us = UINT64_MAX - 1000;
	struct smb_call *call = NULL;

	pthread_mutex_lock(&s->pool.lock);
	c->working = 0;
	while (!s->pool.stop && !smb_ticket_is_old(c) && is_wanted(c) &&
	       !(call = take(c, false, &again_us)) && stub_now_ms() < until) {
		uint64_t again = again_us / 1000 + 1;

		stub_cond_wait_until(&s->work, &s->pool.lock, again < until ? again : until);
		again_us = UINT64_MAX - 1000;
	}
	c->working = call != NULL;
	*ping = !call && !s->pool.stop;
	pthread_mutex_unlock(&s->pool.lock);
	return call;
}

/* Does another connection rest that may take the next call?  Connection 0 takes no background work. */
static bool others_rest(const struct smb_conn *c)
{
	const struct smb_source *s = c->s;

	for (unsigned int i = TAILQ_FIRST(&s->queue[SOURCE_DEMAND]) ? 0 : 1; i < s->n; i++)
		if (s->conn[i].usable && is_wanted(&s->conn[i]) && !s->conn[i].working)
			return true;
	return false;
}

struct smb_call *smb_more(struct smb_conn *c)
{
	struct smb_source *s = c->s;
	unsigned int most = s->config.inflight ? s->config.inflight : 1;
	struct smb_call *call = NULL;
	uint64_t again_us; /* when those under way are over it asks again in any case */

	pthread_mutex_lock(&s->pool.lock);
	if (!s->pool.stop && !smb_ticket_is_old(c) && is_wanted(c) && c->n_under < most &&
	    c->n_under < SMB_WIRE_MANY && !others_rest(c))
		call = take(c, true, &again_us);
	c->working = c->n_under + (call != NULL);
	pthread_mutex_unlock(&s->pool.lock);
	return call;
}

/* With the lock.  When the server goes away all connections are lost at once, which is one time. */
static void together_lost(const struct smb_conn *conn)
{
	struct smb_source *s = conn->s;

	if (conn->number <= s->broke_made)
		return;
	s->broke_made = s->made;
	if (atomic_fetch_add(&s->broke, 1) + 1 < BROKE_MAX)
		return;
	atomic_store(&s->broke, 0);
	s->alone_until_ms = stub_now_ms() + ALONE_MS;
	smb_log(s, STUB_LOG_WARN,
		"source %s: lost %u times in a row when several things were asked at once; for %u s it is "
		"asked one at a time",
		s->uri.host, BROKE_MAX, ALONE_MS / 1000);
}

/* A call that breaks connections must end.  A loss only counts if the connection was made after
 * the call's last loss: when the server goes away, all connections are lost at once. */
void smb_lost(struct smb_conn *conn, struct smb_call *c, bool together)
{
	struct smb_source *s = conn->s;
	int err = 0;

	if (c->begun_us)
		trace(c->trace, "source: connection %u lost under it: %s", conn->index, conn->why);
	land(s, c);
	pthread_mutex_lock(&s->pool.lock);
	s->pool.n.retries++;
	if (together) {
		together_lost(conn);
		c->request.alone = true;
	} else {
		if (!c->losses || c->epoch != s->epoch)
			c->losses = 1;
		else if (conn->number > c->made)
			c->losses++;
		c->epoch = s->epoch;
		c->made = s->made;
	}
	if (s->pool.stop)
		err = -ECANCELED;
	else if (c->begun) /* the caller has a part of the answer: it cannot be begun again */
		err = -EAGAIN;
	else if (c->losses >= SMB_LOSSES_MAX)
		err = -EIO;
	else
		TAILQ_INSERT_HEAD(&s->queue[c->prio], c, link);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->pool.lock);
	if (err)
		smb_call_over(c, conn, err, NULL);
}

void smb_conn_up(struct smb_conn *c, const struct stub_attr *root)
{
	struct smb_source *s = c->s;

	pthread_mutex_lock(&s->pool.lock);
	c->usable = true;
	c->number = ++s->made;
	source_pool_up(&s->pool, c->ever);
	c->ever = true;
	s->root = *root;
	source_pool_known(&s->pool);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->pool.lock);
	c->backoff_ms = 0;
}

void smb_conn_down(struct smb_conn *c, uint64_t silent_ms)
{
	struct smb_source *s = c->s;

	pthread_mutex_lock(&s->pool.lock);
	if (c->usable)
		source_pool_down(&s->pool, silent_ms);
	c->usable = false;
	pthread_cond_broadcast(&s->work); /* connection 0 may take other calls now, see take() */
	pthread_mutex_unlock(&s->pool.lock);
}

static void take_all(struct smb_source *s, struct smb_calls *out)
{
	TAILQ_CONCAT(out, &s->queue[SOURCE_DEMAND], link);
	TAILQ_CONCAT(out, &s->queue[SOURCE_BACKGROUND], link);
}

static void end_list(struct smb_calls *list, int err)
{
	struct smb_call *c;

	while ((c = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, c, link);
		smb_call_over(c, NULL, err, NULL);
	}
}

void smb_end_all(struct smb_source *s, int err)
{
	struct smb_calls list = TAILQ_HEAD_INITIALIZER(list);

	pthread_mutex_lock(&s->pool.lock);
	take_all(s, &list);
	pthread_mutex_unlock(&s->pool.lock);
	end_list(&list, err);
}

/* The source is lost for too long: end all calls.  With the lock held, but released meanwhile. */
static void give_up(struct smb_source *s)
{
	struct smb_calls list = TAILQ_HEAD_INITIALIZER(list);
	bool tell = source_pool_give_up(&s->pool);

	take_all(s, &list);
	pthread_mutex_unlock(&s->pool.lock);
	if (tell)
		smb_log(s, STUB_LOG_ERROR,
			"source %s: lost for more than %u s, calls fail until it is back",
			s->uri.host, s->config.give_up_ms / 1000);
	end_list(&list, -ETIMEDOUT);
	pthread_mutex_lock(&s->pool.lock);
}

void smb_wait_work(struct smb_source *s, uint64_t until_ms)
{
	if (source_pool_gave_up(&s->pool) &&
	    (!s->pool.given_up || TAILQ_FIRST(&s->queue[0]) || TAILQ_FIRST(&s->queue[1])))
		give_up(s);
	else
		stub_cond_wait_until(&s->work, &s->pool.lock, until_ms);
}

bool smb_wait_wanted(struct smb_conn *c)
{
	struct smb_source *s = c->s;
	bool stop;

	pthread_mutex_lock(&s->pool.lock);
	while (!s->pool.stop && !is_wanted(c))
		smb_wait_work(s, stub_now_ms() + SMB_PING_MS);
	stop = s->pool.stop;
	pthread_mutex_unlock(&s->pool.lock);
	return !stop;
}

bool smb_conn_wait(struct smb_conn *c)
{
	struct smb_source *s = c->s;
	uint64_t until;
	bool stop, tell;

	c->backoff_ms = c->backoff_ms ? c->backoff_ms * 2 : SMB_BACKOFF_MIN_MS;
	if (c->backoff_ms > SMB_BACKOFF_MAX_MS)
		c->backoff_ms = SMB_BACKOFF_MAX_MS;
	until = stub_now_ms() + c->backoff_ms;
	pthread_mutex_lock(&s->pool.lock);
	s->epoch++;
	tell = !s->pool.usable && source_pool_trouble(&s->pool, c->why);
	pthread_mutex_unlock(&s->pool.lock);
	if (tell)
		smb_log(s, STUB_LOG_WARN, "source %s: %s", s->uri.host, c->why);
	pthread_mutex_lock(&s->pool.lock);
	while (!s->pool.stop && stub_now_ms() < until)
		smb_wait_work(s, until);
	stop = s->pool.stop;
	pthread_mutex_unlock(&s->pool.lock);
	return !stop;
}

int smb_wait_known(struct smb_source *s, struct stub_attr *root)
{
	int r;

	pthread_mutex_lock(&s->pool.lock);
	r = source_pool_wait_known(&s->pool, NULL);
	if (r == 0 && root)
		*root = s->root;
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}
