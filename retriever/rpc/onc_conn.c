// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * onc_conn.c - one connection: connect, send, receive, whose reply it is.
 *
 *      onc_call -> waiting -> out, flight -> done()
 *                    ^                |
 *                    `-- denied: once more, with another context
 *
 * Calls without a context (NULL, AUTH_SYS) are never kept waiting by one.  A reply to no call that
 * is in flight is passed over, as RFC 5531 has it, but not without end.  What breaks is said once,
 * and nothing is done any more then.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "rpc/onc_internal.h"

#define READ_BYTES    (64 * 1024)
#define READS_MAX     32 /* in one onc_service(), so that others have their turn */
#define STRANGERS_MAX 1000
#define PORT_LOW      665 /* as the kernel's client: below it are services */
#define PORT_HIGH     1023

/* ---- life ---- */

int onc_create(const struct onc_config *config, struct onc_conn **out)
{
	struct onc_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->config = *config;
	c->fd = -1;
	if (getrandom(&c->xid, sizeof(c->xid), GRND_NONBLOCK) != sizeof(c->xid))
		c->xid = (uint32_t)getpid();
	onc_record_init(&c->in, config->reply_max);
	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->flight);
	*out = c;
	return 0;
}

const char *onc_why(const struct onc_conn *c)
{
	return c->why;
}

int onc_fd(const struct onc_conn *c)
{
	return c->fd;
}

static int transmit(struct onc_conn *c);

static void end_all(struct onc_calls *list)
{
	struct onc_call *call;

	while ((call = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, call, link);
		call->done(call->arg, -ECANCELED, NULL, "connection closed");
		onc_free_call(call);
	}
}

void onc_destroy(struct onc_conn *c)
{
	if (!c)
		return;
	onc_gss_end(c);
	if (c->fd >= 0) {
		if (!c->error && !c->connecting)
			transmit(c); /* what goes without waiting */
		close(c->fd);
	}
	c->error = c->error ? c->error : -ECANCELED;
	if (c->connected)
		c->connected(c->connected_arg, -ECANCELED, NULL, "connection closed");
	if (c->secured)
		c->secured(c->secured_arg, -ECANCELED, NULL, "connection closed");
	end_all(&c->flight);
	end_all(&c->waiting);
	onc_out_free(&c->out);
	onc_record_free(&c->in);
	free(c);
}

/* ---- connecting ---- */

/* A reserved port, as far as that is to be had. */
static void take_port(int fd, sa_family_t family)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from = { .any.sa_family = family };
	const unsigned int n = PORT_HIGH - PORT_LOW + 1;
	unsigned int start = 0;

	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = (unsigned int)getpid();
	for (unsigned int i = 0; i < n; i++) {
		in_port_t port = htons((in_port_t)(PORT_LOW + (start + i) % n));
		socklen_t len = family == AF_INET6 ? sizeof(from.v6) : sizeof(from.v4);

		if (family == AF_INET6)
			from.v6.sin6_port = port;
		else
			from.v4.sin_port = port;
		if (bind(fd, &from.any, len) == 0 || errno != EADDRINUSE)
			return;
	}
}

int onc_connect(struct onc_conn *c, const struct sockaddr *to, socklen_t len, onc_done_fn done,
		void *arg)
{
	int one = 1;

	c->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	take_port(c->fd, to->sa_family);
	if (connect(c->fd, to, len) < 0 && errno != EINPROGRESS)
		return -errno;
	c->connecting = true;
	c->connected = done;
	c->connected_arg = arg;
	return 0;
}

void onc_attach(struct onc_conn *c, int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	c->fd = fd;
}

static int finish_connect(struct onc_conn *c)
{
	onc_done_fn done = c->connected;
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	c->connecting = false;
	c->connected = NULL;
	if (error)
		onc_break(c, -error, "cannot connect: %s", strerror(error));
	done(c->connected_arg, -error, NULL, c->why);
	return c->error;
}

/* ---- sending ---- */

static void send_plain(struct onc_conn *c, struct onc_call *call)
{
	size_t from = onc_begin_record(c);

	call->xid = ++c->xid;
	onc_put_call(&c->out, &c->config, call->xid, call->procedure);
	if (call->procedure && c->config.flavor == ONC_SYS)
		onc_put_auth_sys(&c->out, c->config.uid, c->config.gid);
	else
		onc_put_auth_none(&c->out);
	onc_put_auth_none(&c->out);
	onc_put_raw(&c->out, call->args, call->len);
	onc_put_in_flight(c, call, from);
}

/* Send what may be sent. */
static void pump(struct onc_conn *c)
{
	struct onc_call *call, *next;
	enum onc_gate gate = ONC_GO;

	c->fresh = false;
	if (c->secured && !c->now)
		onc_gss_gate(c);
	for (call = TAILQ_FIRST(&c->waiting); call && !c->error; call = next) {
		next = TAILQ_NEXT(call, link);
		if (c->config.flavor != ONC_GSS || !call->procedure) {
			TAILQ_REMOVE(&c->waiting, call, link);
			send_plain(c, call);
			continue;
		}
		if (gate == ONC_GO)
			gate = onc_gss_gate(c);
		if (gate != ONC_GO)
			continue;
		TAILQ_REMOVE(&c->waiting, call, link);
		onc_gss_send(c, call);
	}
}

static int transmit(struct onc_conn *c)
{
	while (c->sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return onc_break(c, -errno, "connection lost: %s", strerror(errno));
		c->sent += (size_t)n;
	}
	c->sent = c->out.len = 0;
	return 0;
}

int onc_call(struct onc_conn *c, uint32_t procedure, const void *args, size_t len,
	     onc_done_fn done, void *arg)
{
	struct onc_call *call = onc_new_call(procedure, args, len, done, arg);

	if (!call)
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&c->waiting, call, link);
	c->fresh = true;
	return 0;
}

bool onc_is_secure(const struct onc_conn *c)
{
	return c->now;
}

void onc_secure(struct onc_conn *c, onc_done_fn done, void *arg)
{
	c->secured = done;
	c->secured_arg = arg;
	c->fresh = true;
}

/* ---- receiving ---- */

static struct onc_call *find(struct onc_conn *c, uint32_t xid)
{
	struct onc_call *call;

	TAILQ_FOREACH(call, &c->flight, link)
		if (call->xid == xid)
			return call;
	return NULL;
}

static void finish(struct onc_call *call, int error, const struct onc_bytes *results,
		   const char *why)
{
	call->done(call->arg, error, results, why);
	onc_free_call(call);
}

/* The call that @r answers is in no list any more. */
static void take_reply(struct onc_conn *c, struct onc_call *call, const struct onc_reply *r)
{
	struct onc_bytes results = r->results;
	gss_buffer_desc hold = GSS_C_EMPTY_BUFFER;
	OM_uint32 ignored;
	const char *why = NULL;
	int e;

	if (r->denied && onc_gss_denied(c, call, call->context, r)) {
		onc_context_drop(call->context);
		call->context = NULL;
		TAILQ_INSERT_HEAD(&c->waiting, call, link);
		return;
	}
	e = onc_reply_error(r, &why);
	if (call->context && !r->denied) {
		if (!onc_proves(call->context, call->seq, r) ||
		    (!e && onc_open(call->context, call->seq, &r->results, &results, &hold))) {
			e = -EBADMSG;
			why = "Message rejected by server"; /* by us; so libnfs calls that */
		} else {
			call->context->worked = true;
		}
	}
	finish(call, e, e ? NULL : &results, why);
	gss_release_buffer(&ignored, &hold);
}

static int take_record(struct onc_conn *c)
{
	const struct onc_bytes record = { c->in.data, c->in.len };
	struct onc_reply r;
	struct onc_call *call;

	if (onc_reply_parse(&record, &r))
		return onc_break(c, -EBADMSG, "garbage from the server");
	call = find(c, r.xid);
	if (!call) {
		if (++c->strangers > STRANGERS_MAX)
			return onc_break(c, -EBADMSG, "garbage from the server: replies to nothing");
		return 0;
	}
	c->strangers = 0;
	TAILQ_REMOVE(&c->flight, call, link);
	if (call == c->init) {
		onc_gss_take_init(c, &r);
		onc_free_call(call);
	} else {
		take_reply(c, call, &r);
	}
	return c->error;
}

static int take_bytes(struct onc_conn *c, const uint8_t *p, size_t n)
{
	while (n && !c->error) {
		size_t used;
		int e = onc_record_feed(&c->in, p, n, &used);

		if (e < 0)
			return onc_break(c, e, "%s", e == -EBADMSG ?
						 "garbage from the server: a record exceeds limits" :
						 "out of memory");
		p += used;
		n -= used;
		if (e == 1)
			take_record(c);
	}
	return c->error;
}

static int receive(struct onc_conn *c)
{
	uint8_t bytes[READ_BYTES];

	for (unsigned int i = 0; i < READS_MAX && !c->error; i++) {
		ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return 0;
		if (n <= 0)
			return onc_break(c, n ? -errno : -ECONNRESET, "connection closed");
		take_bytes(c, bytes, (size_t)n);
		if ((size_t)n < sizeof(bytes))
			break;
	}
	return c->error;
}

short onc_events(const struct onc_conn *c)
{
	if (c->connecting)
		return POLLOUT;
	return c->sent < c->out.len || c->fresh ? POLLIN | POLLOUT : POLLIN;
}

int onc_service(struct onc_conn *c, short revents)
{
	if (c->error)
		return c->error;
	if (c->connecting)
		return revents & (POLLOUT | POLLERR | POLLHUP) ? finish_connect(c) : 0;
	if (revents & (POLLIN | POLLERR | POLLHUP))
		receive(c);
	if (!c->error)
		pump(c);
	if (!c->error)
		transmit(c);
	return c->error;
}
