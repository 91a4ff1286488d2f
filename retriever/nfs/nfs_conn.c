// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_conn.c - one connection: its thread, event loop, watchdog, reconnect.
 *
 *      dial (nfs_dial.c) --fails--> back off 0.1 s .. 5 s --.
 *        ^   |                                              |
 *        |   v  up                                          |
 *        |  serve: send the inbox, receive, watch --breaks--+
 *        `--------------------------------------------------'
 *
 * Why a connection breaks: closed by the server; nothing heard for silence_ms
 * while calls are in flight (a stopped server keeps its sockets open); one call
 * unanswered for much longer; a reply that cannot be decoded.  Its calls go back
 * to the queue and are sent again, whatever the server has done with them.
 *
 * If replies could not even be told apart, each call in flight is a suspect and is
 * sent alone, until it is known which one breaks connections.
 *
 * NFSv4.1: the connection has a session, which ends with it; a server that has dropped the session
 * is met with another connection, and so another session.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "nfs/nfs41.h"
#include "source/background.h"

static bool is_stopped(void *arg)
{
	struct nfs_conn *c = arg;
	bool stop;

	pthread_mutex_lock(&c->s->pool.lock);
	stop = c->s->pool.stop;
	pthread_mutex_unlock(&c->s->pool.lock);
	return stop;
}

static bool has_wrong_root(struct nfs_conn *c)
{
	bool wrong;

	pthread_mutex_lock(&c->s->pool.lock);
	wrong = c->s->wrong_root;
	pthread_mutex_unlock(&c->s->pool.lock);
	return wrong;
}

/* ---- serving ---- */

/* The first of @list, and those behind it that go with it in one message. */
static void send_some(struct nfs_conn *c, struct nfs_calls *list, uint64_t now_us)
{
	const struct nfs_version *v = c->s->uri.version;
	struct nfs_call *first = TAILQ_FIRST(list), *call = first, *last = NULL;

	do {
		TAILQ_REMOVE(list, call, link);
		TAILQ_INSERT_TAIL(&c->flight, call, link);
		call->sent_us = now_us;
		call->with = NULL;
		if (last)
			last->with = call;
		last = call;
		call = TAILQ_FIRST(list);
	} while (call && v->joins && v->joins(c, first, call));
	if (nfs_call_send(first))
		nfs_conn_break(c, "out of memory");
}

static void send_inbox(struct nfs_conn *c)
{
	struct nfs_calls list = TAILQ_HEAD_INITIALIZER(list);
	uint64_t now_us = stub_now_us(), now = now_us / 1000;
	bool idle = TAILQ_EMPTY(&c->flight) && !c->pinging;

	pthread_mutex_lock(&c->s->pool.lock);
	TAILQ_CONCAT(&list, &c->inbox, link);
	pthread_mutex_unlock(&c->s->pool.lock);
	if (TAILQ_EMPTY(&list))
		return;
	if (idle)
		c->heard_ms = now;
	while (!TAILQ_EMPTY(&list) && (!c->session || nfs41_has_slot(c->session)))
		send_some(c, &list, now_us);
	if (TAILQ_EMPTY(&list))
		return;
	/* for these the server has no slot now: after the next answer */
	pthread_mutex_lock(&c->s->pool.lock);
	TAILQ_CONCAT(&list, &c->inbox, link);
	TAILQ_CONCAT(&c->inbox, &list, link);
	pthread_mutex_unlock(&c->s->pool.lock);
}

static void on_ping(struct rpc_context *rpc, int status, void *data, void *arg)
{
	const struct nfs_version *v = ((struct nfs_conn *)arg)->s->uri.version;
	struct nfs_conn *c = arg;
	const char *why = NULL;

	(void)rpc;
	c->pinging = false;
	c->heard_ms = stub_now_ms();
	if (status != RPC_STATUS_SUCCESS)
		why = "connection closed";
	else if (v->pinged)
		why = v->pinged(c, data);
	if (why)
		nfs_conn_break(c, "%s", why);
	else
		c->replied = true;
}

/* An idle connection is tried now and then: so that a lost source is noticed, servers do not close
 * what is not used, and (NFSv4.1) its lease does not end. */
static void ping(struct nfs_conn *c)
{
	const struct nfs_version *v = c->s->uri.version;

	c->heard_ms = stub_now_ms();
	c->pinging = true;
	if (v->ping ? v->ping(c, on_ping, c) : v->null(c->rpc, on_ping, c)) {
		c->pinging = false;
		nfs_conn_break(c, "out of memory");
	}
}

/* Milliseconds since the last byte came in; half a reply is a sign of life too. */
static uint64_t silent_ms(struct nfs_conn *c, uint64_t now)
{
	uint64_t ms = now > c->heard_ms ? now - c->heard_ms : 0;
	struct tcp_info info;
	socklen_t len = sizeof(info);

	if (ms >= c->s->silence_ms &&
	    !getsockopt(nfs_carrier_fd(c->rpc), IPPROTO_TCP, TCP_INFO, &info, &len) &&
	    info.tcpi_last_data_recv < ms)
		ms = info.tcpi_last_data_recv;
	return ms;
}

/* Half a call is a sign of life too: much that is written takes its time on a slow line. */
static void notice_taken(struct nfs_conn *c, uint64_t now)
{
	uint64_t taken = c->taken;

	if (nfs_carrier_sending(c->rpc, &taken) && taken != c->taken)
		c->heard_ms = now;
	c->taken = taken;
}

static void watch(struct nfs_conn *c)
{
	uint64_t now = stub_now_ms(), limit = c->s->silence_ms, waited;
	struct nfs_call *oldest = TAILQ_FIRST(&c->flight);

	if (!oldest && !c->pinging) {
		if (now - c->heard_ms >= nfs41_idle_ms(c->session))
			ping(c);
		return;
	}
	notice_taken(c, now);
	if (silent_ms(c, now) >= limit) {
		nfs_conn_break(c, "no answer for %u ms", (unsigned int)silent_ms(c, now));
		return;
	}
	/* Others are answered, this one is not.  Its time grows with each try: a
	 * slow line must not be reset for ever. */
	waited = oldest ? now - oldest->sent_us / 1000 : 0;
	if (oldest && waited >= (limit * 4) << (oldest->losses < 8 ? oldest->losses : 8))
		nfs_conn_break(c, "no answer to one %s for %u ms", nfs_op_name(oldest->op),
			       (unsigned int)waited);
}

static int poll_ms(const struct nfs_conn *c)
{
	uint64_t ms = c->s->silence_ms / 4;

	if (TAILQ_EMPTY(&c->flight) && !c->pinging)
		return (int)nfs41_idle_ms(c->session);
	return ms < 10 ? 10 : ms > 1000 ? 1000 : (int)ms;
}

/* rpc_service() gave up: was it the end of the connection, or garbage? */
static void service_failed(struct nfs_conn *c)
{
	const char *error = nfs_carrier_error(c->rpc);

	c->framing = error && (strstr(error, "exceeds limit") || strstr(error, "garbage"));
	nfs_conn_break(c, "%s", c->framing  ? "garbage from the server" :
			       c->rpc->own ? nfs_carrier_error(c->rpc) :
					     "connection closed");
}

/* More work; or, where fewer connections are wanted, none. */
static void refill(struct nfs_conn *c)
{
	bool leaves;

	pthread_mutex_lock(&c->s->pool.lock);
	nfs_pump(c->s);
	leaves = c->index >= c->s->wanted && !c->inflight;
	pthread_mutex_unlock(&c->s->pool.lock);
	if (leaves && !c->pinging && !c->broken[0]) {
		c->leaves = true;
		nfs_conn_break(c, "fewer are wanted");
	}
}

/* What it may have been woken for. */
static void look_up(struct nfs_conn *c)
{
	if (is_stopped(c))
		nfs_conn_break(c, "stopped");
	else if (has_wrong_root(c))
		nfs_conn_break(c, "the export's root is not what it was");
}

/* Until the connection breaks or the source is stopped. */
static void serve(struct nfs_conn *c)
{
	struct pollfd p[2] = { { .fd = nfs_carrier_fd(c->rpc) }, { .fd = c->wake, .events = POLLIN } };
	eventfd_t n;
	int r;

	look_up(c); /* whoever made the connection has heard it, perhaps, with the last answer */
	while (!c->broken[0]) {
		send_inbox(c);
		if (nfs_carrier_events(c->rpc) & POLLOUT && nfs_carrier_service(c->rpc, POLLOUT) < 0)
			service_failed(c);
		if (c->broken[0])
			break;
		p[0].events = nfs_carrier_events(c->rpc);
		p[0].revents = p[1].revents = 0;
		r = poll(p, 2, poll_ms(c));
		if (r < 0 && errno != EINTR)
			nfs_conn_break(c, "poll: %s", strerror(errno));
		if (p[1].revents) {
			eventfd_read(c->wake, &n);
			look_up(c);
		}
		if (p[0].revents && nfs_carrier_service(c->rpc, p[0].revents) < 0)
			service_failed(c);
		if (!(p[0].revents & POLLIN) && !c->broken[0])
			watch(c);
		refill(c);
	}
}

/* ---- making and losing ---- */

static void suspect_all(struct nfs_conn *c)
{
	struct nfs_call *call, *next;
	bool alone = TAILQ_FIRST(&c->flight) && !TAILQ_NEXT(TAILQ_FIRST(&c->flight), link);

	for (call = TAILQ_FIRST(&c->flight); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (c->blameless)
			continue;
		call->losses++;
		if (c->framing || call->losses >= NFS_LOSSES_MAX)
			call->suspect = true;
		if (c->framing && alone && ++call->garbage >= NFS_GARBAGE_MAX) {
			nfs_settle(c, call);
			nfs_log(c->s, STUB_LOG_ERROR, "source %s: %s gets garbage for an answer",
				c->s->uri.host, nfs_op_name(call->op));
			nfs_call_over(call, c, -EBADMSG, NULL);
		}
	}
}

/*
 * Every call's callback comes now, if it has not: the flight stays as it is.  At the source's end
 * or the connection's, with nothing under way, the server is told of the session's end; else its lease ends
 * it.
 */
static void hang_up(struct nfs_conn *c)
{
	bool orderly = (is_stopped(c) || c->leaves) && TAILQ_EMPTY(&c->flight) && !c->pinging;
	struct nfs_dial d = { .uri = &c->s->uri,
			      .wake = -1,
			      .deadline_ms = stub_now_ms() + c->s->config.call_timeout_ms,
			      .session = orderly ? c->session : NULL };

	if (!orderly)
		free(c->session);
	c->session = NULL;
	nfs_dial_close(&d, c->rpc); /* d outlives its callbacks */
	c->rpc = NULL;
}

static void lose(struct nfs_conn *c)
{
	uint64_t silent = stub_now_ms() - c->heard_ms;

	if (TAILQ_EMPTY(&c->flight) && !c->pinging)
		silent = 0;
	if (!is_stopped(c))
		nfs_log(c->s, c->leaves ? STUB_LOG_INFO : STUB_LOG_WARN, "source %s: connection %u %s: %s",
			c->s->uri.host, c->index, c->leaves ? "closed" : "lost", c->broken);
	if (c->leaves)
		c->ever = false; /* what comes then is no reconnect */
	nfs_conn_down(c, silent);
	hang_up(c);
	if (!is_stopped(c))
		suspect_all(c);
	nfs_give_back(c);
}

/* Root and limits are asked for by the first connection; the others wait for it. */
static bool wait_turn(struct nfs_conn *c)
{
	struct nfs_source *s = c->s;
	bool known;

	pthread_mutex_lock(&s->pool.lock);
	while (c->index > 0 && !s->pool.known && !s->pool.stop)
		pthread_cond_wait(&s->pool.ready, &s->pool.lock);
	known = s->pool.known;
	pthread_mutex_unlock(&s->pool.lock);
	return known;
}

static int forget(struct nfs_conn *c, struct nfs_dial *d, int error)
{
	nfs_dial_close(d, c->rpc);
	c->rpc = NULL;
	return error;
}

static int learn(struct nfs_conn *c, struct nfs_dial *d, const char *address,
		 unsigned int attempt)
{
	struct nfs_source *s = c->s;
	struct source_limits limits = { 0 };
	struct stub_origin root;
	int r = s->uri.version->root(d, address, &root);

	if (!r && s->uri.version->acl_beside)
		r = nfs_acl_learn(s, d, address, &root, attempt);
	if (!r)
		r = nfs_dial_nfs(d, address, &c->rpc);
	if (r)
		return r;
	r = nfs_root_check(s, d, c->rpc, &root);
	if (!r)
		r = s->uri.version->limits(d, c->rpc, &root, &s->config, &limits);
	if (r)
		return forget(c, d, r);
	pthread_mutex_lock(&s->pool.lock);
	s->root = root;
	s->limits = limits;
	source_pool_known(&s->pool);
	pthread_mutex_unlock(&s->pool.lock);
	return 0;
}

/* Root and limits are known: is that still the root?  A stale one is only asked for again if the
 * caller wants it: for others a tree with other handles is not the one that they have listed. */
static int come_back(struct nfs_conn *c, struct nfs_dial *d, const char *address,
		     unsigned int attempt)
{
	struct stub_origin root;
	int r = nfs_dial_nfs(d, address, &c->rpc);

	if (r)
		return r;
	pthread_mutex_lock(&c->s->pool.lock);
	root = c->s->root;
	pthread_mutex_unlock(&c->s->pool.lock);
	r = nfs_root_check(c->s, d, c->rpc, &root);
	if (r)
		forget(c, d, r);
	return r == -ESTALE && c->s->config.root_anew ? learn(c, d, address, attempt) : r;
}

/* @turn: which of the host's addresses. */
static int connect_once(struct nfs_conn *c, unsigned int turn, unsigned int attempt, char *why,
			size_t why_size)
{
	struct nfs_dial d = {
		.uri = &c->s->uri,
		.ids = c->s->ids,
		.tickets = c->s->tickets,
		.wake = c->wake,
		.stopped = is_stopped,
		.arg = c,
		.owner = c->owner,
		.slots = c->s->config.inflight,
	};
	struct nfs_addresses a;
	bool known = wait_turn(c);
	int r = is_stopped(c) ? -ECANCELED : nfs_dial_resolve(&d, &a);

	d.deadline_ms = stub_now_ms() + c->s->config.call_timeout_ms;
	if (!r) {
		const char *address = a.text[turn % a.n];

		r = known ? come_back(c, &d, address, attempt) : learn(c, &d, address, attempt);
	}
	if (r)
		snprintf(why, why_size, "%s", d.why);
	else
		c->session = d.session;
	if (c->s->tickets)
		nfs_pace_end(c->s, r, d.serial, d.why);
	return r;
}

/* Log why there is no connection; not again what was logged last. */
static void complain(struct nfs_conn *c, const char *why)
{
	struct nfs_source *s = c->s;
	bool tell;

	pthread_mutex_lock(&s->pool.lock);
	tell = source_pool_trouble(&s->pool, why);
	pthread_mutex_unlock(&s->pool.lock);
	if (tell)
		nfs_log(s, STUB_LOG_WARN, "source %s: %s; trying on", s->uri.host, why);
}

static void pause_ms(struct nfs_conn *c, uint64_t ms)
{
	uint64_t end = stub_now_ms() + ms, now;
	struct pollfd p = { .fd = c->wake, .events = POLLIN };
	eventfd_t n;

	while ((now = stub_now_ms()) < end && !is_stopped(c))
		if (poll(&p, 1, (int)(end - now)) > 0)
			eventfd_read(c->wake, &n);
}

/* Until another connection may be tried: not at once, if the server takes no ticket of ours. */
static void wait_pace(struct nfs_conn *c)
{
	struct pollfd p = { .fd = c->wake, .events = POLLIN };
	eventfd_t n;
	uint64_t ms;

	while (c->s->tickets && !is_stopped(c) && (ms = nfs_pace_left(c->s)) > 0)
		if (poll(&p, 1, ms < 60000 ? (int)ms : 60000) > 0)
			eventfd_read(c->wake, &n);
}

/* Until it is one of those that are wanted. */
static void wait_wanted(struct nfs_conn *c)
{
	struct pollfd p = { .fd = c->wake, .events = POLLIN };
	struct nfs_source *s = c->s;
	bool wanted;
	eventfd_t n;

	for (;;) {
		pthread_mutex_lock(&s->pool.lock);
		wanted = c->index < s->wanted || s->pool.stop;
		pthread_mutex_unlock(&s->pool.lock);
		if (wanted)
			return;
		if (poll(&p, 1, -1) > 0)
			eventfd_read(c->wake, &n);
	}
}

static void *conn_main(void *arg)
{
	struct nfs_conn *c = arg;
	uint64_t backoff = 0;
	unsigned int attempt = 0, turn = 0;
	char why[NFS_WHY_MAX];
	int r;

	if (c->index) /* the first is for demand, see nfs_queue.c */
		background_thread();
	while (!is_stopped(c)) {
		wait_wanted(c);
		wait_pace(c);
		r = connect_once(c, turn, attempt++, why, sizeof(why));
		if (r) {
			if (r != -EKEYREJECTED) /* nfs_pace_end() has told */
				complain(c, why);
			turn++; /* that which answered last is the first one again */
		} else {
			if (c->ever)
				nfs_log(c->s, STUB_LOG_INFO, "source %s: connection %u is back",
					c->s->uri.host, c->index);
			c->broken[0] = '\0';
			c->framing = c->blameless = c->pinging = c->replied = false;
			c->each_alone = c->leaves = false;
			c->heard_ms = stub_now_ms();
			nfs_conn_up(c);
			serve(c);
			lose(c);
			if (c->replied && !c->framing)
				backoff = attempt = 0;
		}
		backoff = backoff ? backoff * 2 : NFS_BACKOFF_MIN_MS;
		if (backoff > NFS_BACKOFF_MAX_MS)
			backoff = NFS_BACKOFF_MAX_MS;
		pause_ms(c, backoff);
	}
	return NULL;
}

int nfs_conn_start(struct nfs_source *s, unsigned int index)
{
	struct nfs_conn *c = &s->conn[index];
	pthread_attr_t attr;
	int r;

	c->s = s;
	c->index = index;
	nfs41_owner(c->owner, index);
	TAILQ_INIT(&c->inbox);
	TAILQ_INIT(&c->flight);
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake < 0)
		return -errno;
	r = pthread_attr_init(&attr);
	if (!r) {
		pthread_attr_setstacksize(&attr, NFS_CONN_STACK_BYTES);
		r = pthread_create(&c->thread, &attr, conn_main, c);
		pthread_attr_destroy(&attr);
	}
	if (r)
		close(c->wake);
	return -r;
}

void nfs_conn_join(struct nfs_conn *c)
{
	pthread_join(c->thread, NULL);
	close(c->wake);
}
