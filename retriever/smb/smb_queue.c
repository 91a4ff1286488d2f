// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_queue.c - which call is next, and what becomes of calls without a connection.
 *
 * Demand goes before background, first come first served within each.  Connection 0
 * takes no background work while there is another one: a client's look-up never waits
 * behind megabytes.  Calls wait for a connection for ever, or until give_up_ms.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "smb/smb.h"

static void count(struct smb_source *s, const struct smb_call *c)
{
	s->calls++;
	s->lookups += c->request.type == SMB_WIRE_LOOKUP;
	s->readdirs += c->request.type == SMB_WIRE_LIST;
	s->reads += c->request.type == SMB_WIRE_READ_;
}

static bool gave_up(const struct smb_source *s)
{
	return s->lost_since_ms && s->config.give_up_ms &&
	       stub_now_ms() - s->lost_since_ms >= s->config.give_up_ms;
}

bool smb_ticket_is_old(const struct smb_conn *c)
{
	return c->ticket != smb_ticket_serial(c->s->ticket);
}

int smb_submit(struct smb_source *s, struct smb_call *c)
{
	int r = 0;

	c->losses = 0;
	c->begun = false;
	pthread_mutex_lock(&s->lock);
	if (s->stop) {
		r = -ECANCELED;
	} else {
		count(s, c);
		TAILQ_INSERT_TAIL(&s->queue[c->prio], c, link);
		pthread_cond_broadcast(&s->work); /* the next one to wake might not take it */
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

static struct smb_call *take(struct smb_conn *c)
{
	struct smb_source *s = c->s;

	for (unsigned int p = 0; p < 2; p++) {
		struct smb_call *call = TAILQ_FIRST(&s->queue[p]);

		if (!call || (p == SOURCE_BACKGROUND && c->index == 0 && s->usable > 1))
			continue;
		TAILQ_REMOVE(&s->queue[p], call, link);
		return call;
	}
	return NULL;
}

struct smb_call *smb_next(struct smb_conn *c, bool *ping)
{
	struct smb_source *s = c->s;
	uint64_t until = stub_now_ms() + SMB_PING_MS;
	struct smb_call *call = NULL;

	pthread_mutex_lock(&s->lock);
	c->working = false;
	while (!s->stop && !smb_ticket_is_old(c) && !(call = take(c)) && stub_now_ms() < until)
		stub_cond_wait_until(&s->work, &s->lock, until);
	c->working = call != NULL;
	*ping = !call && !s->stop;
	pthread_mutex_unlock(&s->lock);
	return call;
}

/* A call is suspect when connections die under it, but not of one that was there before
 * the last died: when the server goes away, all do. */
void smb_lost(struct smb_conn *conn, struct smb_call *c)
{
	struct smb_source *s = conn->s;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	s->retries++;
	if (!c->losses || c->epoch != s->epoch)
		c->losses = 1;
	else if (conn->number > c->made)
		c->losses++;
	c->epoch = s->epoch;
	c->made = s->made;
	if (s->stop)
		err = -ECANCELED;
	else if (c->begun) /* some of it is with the caller: not from the start again */
		err = -EAGAIN;
	else if (c->losses >= SMB_LOSSES_MAX)
		err = -EIO;
	else
		TAILQ_INSERT_HEAD(&s->queue[c->prio], c, link);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	if (err)
		c->done(c, err, NULL);
}

void smb_conn_up(struct smb_conn *c, const struct stub_attr *root)
{
	struct smb_source *s = c->s;

	pthread_mutex_lock(&s->lock);
	c->usable = true;
	c->number = ++s->made;
	if (!s->usable++) {
		s->lost_since_ms = 0;
		s->given_up = false;
		s->trouble[0] = '\0';
	}
	s->reconnects += c->ever;
	c->ever = true;
	s->root = *root;
	s->known = true;
	pthread_cond_broadcast(&s->ready);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	c->backoff_ms = 0;
}

void smb_conn_down(struct smb_conn *c, uint64_t silent_ms)
{
	struct smb_source *s = c->s;

	pthread_mutex_lock(&s->lock);
	if (c->usable && !--s->usable)
		s->lost_since_ms = stub_now_ms() - silent_ms;
	c->usable = false;
	pthread_cond_broadcast(&s->work); /* for connection 0 the rules have changed */
	pthread_mutex_unlock(&s->lock);
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
		c->done(c, err, NULL);
	}
}

void smb_end_all(struct smb_source *s, int err)
{
	struct smb_calls list = TAILQ_HEAD_INITIALIZER(list);

	pthread_mutex_lock(&s->lock);
	take_all(s, &list);
	pthread_mutex_unlock(&s->lock);
	end_list(&list, err);
}

/* With the lock held, and while nobody else may end them: calls nobody will answer. */
static void give_up(struct smb_source *s)
{
	struct smb_calls list = TAILQ_HEAD_INITIALIZER(list);
	bool tell = !s->given_up;

	s->given_up = true;
	take_all(s, &list);
	pthread_cond_broadcast(&s->ready);
	pthread_mutex_unlock(&s->lock);
	if (tell)
		smb_log(s, STUB_LOG_ERROR,
			"source %s: lost for more than %u s, calls fail until it is back",
			s->uri.host, s->config.give_up_ms / 1000);
	end_list(&list, -ETIMEDOUT);
	pthread_mutex_lock(&s->lock);
}

void smb_wait_work(struct smb_source *s, uint64_t until_ms)
{
	if (gave_up(s) &&
	    (!s->given_up || TAILQ_FIRST(&s->queue[0]) || TAILQ_FIRST(&s->queue[1])))
		give_up(s);
	else
		stub_cond_wait_until(&s->work, &s->lock, until_ms);
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
	pthread_mutex_lock(&s->lock);
	s->epoch++;
	tell = !s->stop && !s->usable && strcmp(s->trouble, c->why);
	if (tell)
		snprintf(s->trouble, sizeof(s->trouble), "%s", c->why);
	pthread_mutex_unlock(&s->lock);
	if (tell)
		smb_log(s, STUB_LOG_WARN, "source %s: %s", s->uri.host, c->why);
	pthread_mutex_lock(&s->lock);
	while (!s->stop && stub_now_ms() < until)
		smb_wait_work(s, until);
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

int smb_wait_known(struct smb_source *s, struct stub_attr *root)
{
	int r = 0;

	pthread_mutex_lock(&s->lock);
	while (!s->known && r == 0) {
		r = s->stop ? -ECANCELED : gave_up(s) ? -ETIMEDOUT : 0;
		if (r == 0)
			pthread_cond_wait(&s->ready, &s->lock);
	}
	if (r == 0 && root)
		*root = s->root;
	pthread_mutex_unlock(&s->lock);
	return r;
}
