/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * serve.c - the serving side of the wire protocol.
 *
 * One thread with epoll reads asks and hands them to the retriever's function.
 * Answers are sent by whatever thread calls stub_request_answer(), at once if the
 * socket takes them; else they queue at the client and the thread sends them.
 *
 * Nothing blocks on a client: sockets are non-blocking, a client with
 * STUB_WIRE_IN_FLIGHT unanswered asks is not read from (so its queue of answers is
 * bounded too), and one that leaves answers unread for long is dropped.
 *
 * A file server has a connection or two for each of its own clients, thousands of them,
 * of which few ask at any time.  One that asks nothing for IDLE_MS is closed, and when
 * there is no descriptor for a new one, those that asked nothing for longest are; the
 * asker connects again with its next ask (ask.c).  While every one has asks on their way,
 * new ones wait in the socket's backlog.
 *
 * Who owns what
 *   client   the thread's, from accept to close; only the thread closes it, so
 *            that a descriptor is never closed under somebody.  Requests hold
 *            references: the struct stays until the last one is answered.
 *   request  the server's until answered.  Its client may be gone by then, or the
 *            server: each request holds a reference to the server as well, so an
 *            answer that comes after stub_server_destroy() finds memory to look at.
 *
 * Lock order: the server's lock is a leaf.  It is not held when the retriever's
 * function is called, which may therefore answer at once.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "wire.h"

#define CLIENTS_MAX	65536
#define OTHERS_FDS	1024 /* descriptors that the program itself needs, or half of all */
#define EVENTS		64
#define READ_BURST	64 /* messages of one client before the others' turn */
#define STALL_MS	10000 /* answers unread for so long: dropped */
#define IDLE_MS		10000 /* nothing asked for so long: closed */
#define ROOM_MAX	64 /* idle clients closed at once for new ones */
#define ACCEPT_PAUSE_MS 100 /* after running out of descriptors */
#define OTHERS		8 /* lines a minute about askers of other releases, by their numbers */

struct answer {
	struct answer *next;
	uint32_t id;
	int result;
	int fd; /* goes with it, -1: none */
};

struct client {
	struct client *next, *prev; /* in the server's ring; who asked last comes first */
	int fd; /* -1: closed */
	pid_t pid; /* for the log */
	unsigned int refs; /* the connection's and its requests' */
	unsigned int in_flight; /* asks whose answers are not in the socket yet */
	struct answer *first, **last; /* answers that the socket did not take */
	uint64_t stalled_ms; /* since when they make no progress */
	uint64_t used_ms; /* last time that something was asked or answered */
	uint32_t events;
};

struct request {
	struct stub_request r; /* what the retriever sees */
	struct request *next, **prev;
	struct stub_server *server;
	struct client *client; /* NULL: answered by stub_server_destroy() */
	uint32_t id;
	char name[STUB_NAME_MAX];
};

struct stub_server {
	stub_serve_fn fn;
	void *fn_arg;
	struct stub_log log;
	pthread_t thread;
	struct stub_serve_socket socket;
	int mark_fd; /* home.c: it is this volume that is served */
	int epoll_fd, wake_fd;
	_Atomic uint64_t turns; /* of the thread */
	/* the thread's */
	uint64_t accept_again_ms; /* not accepting until then; 0: accepting */
	bool crowded; /* a new client found no descriptor */
	struct stub_log_rate said_full, said_stranger, said_stalled, said_garbage;
	struct stub_log_rate said_other[OTHERS];

	pthread_mutex_t lock; /* all below, and the clients */
	unsigned int refs; /* the owner's and the requests' */
	unsigned int stall_ms;
	unsigned int idle_ms;
	uint64_t sweep_ms; /* when to look for idle clients again */
	unsigned int max_clients;
	unsigned int n_clients;
	unsigned int n_queued; /* clients with answers in their queue */
	struct client clients; /* the ring's head, no client itself */
	struct request *requests;
	bool stop;
};

/* ---- clients; all with the lock held ---- */

static void wake(struct stub_server *s)
{
	eventfd_write(s->wake_fd, 1); /* full: it is awake */
}

static void watch(struct stub_server *s, struct client *c)
{
	struct epoll_event ev = { .data.ptr = c };

	if (c->in_flight < STUB_WIRE_IN_FLIGHT)
		ev.events |= EPOLLIN;
	if (c->first)
		ev.events |= EPOLLOUT;
	if (ev.events != c->events && epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev) == 0)
		c->events = ev.events;
}

static void ring_add(struct stub_server *s, struct client *c)
{
	c->prev = &s->clients;
	c->next = s->clients.next;
	c->next->prev = c;
	s->clients.next = c;
}

static void ring_remove(struct client *c)
{
	c->prev->next = c->next;
	c->next->prev = c->prev;
}

static void client_used(struct stub_server *s, struct client *c)
{
	c->used_ms = stub_now_ms();
	ring_remove(c);
	ring_add(s, c);
}

static void client_unref(struct client *c)
{
	if (--c->refs == 0)
		free(c);
}

static void client_close(struct stub_server *s, struct client *c)
{
	if (c->first)
		s->n_queued--;
	while (c->first) {
		struct answer *a = c->first;

		c->first = a->next;
		stub_cleanup_close(&a->fd);
		free(a);
	}
	/* a forked child may hold copies of the descriptor: closing ours would end neither
	 * the connection nor its events */
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	shutdown(c->fd, SHUT_RDWR);
	close(c->fd);
	c->fd = -1;
	ring_remove(c);
	s->n_clients--;
	client_unref(c);
}

/* Send an answer.  -EAGAIN: the client's socket is full.  If the client has gone it counts as
 * sent; epoll tells the thread of that. */
static int put_answer(struct client *c, uint32_t id, int result, int fd)
{
	uint8_t buf[STUB_WIRE_MAX];

	if (stub_wire_send_fd(c->fd, buf, stub_wire_put_answer(buf, id, result), fd) == -EAGAIN)
		return -EAGAIN;
	c->in_flight--;
	return 0;
}

static void deliver(struct stub_server *s, struct client *c, uint32_t id, int result, int fd)
{
	struct answer *a;

	client_used(s, c);
	if (c->first || put_answer(c, id, result, fd) == -EAGAIN) {
		a = malloc(sizeof(*a));
		if (!a) { /* it would wait for this answer in vain: close, so that it asks again */
			shutdown(c->fd, SHUT_RDWR);
			c->in_flight--;
			return;
		}
		/* without a descriptor for it the asker gets none, and asks again */
		*a = (struct answer){ .id = id,
				      .result = result,
				      .fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0) };
		if (!c->first) {
			c->last = &c->first;
			c->stalled_ms = stub_now_ms();
			if (s->n_queued++ == 0)
				wake(s); /* the thread must look at the clock from now on */
		}
		*c->last = a;
		c->last = &a->next;
	}
	watch(s, c);
}

static void flush_answers(struct stub_server *s, struct client *c)
{
	while (c->first) {
		struct answer *a = c->first;

		if (put_answer(c, a->id, a->result, a->fd) == -EAGAIN)
			break;
		c->stalled_ms = stub_now_ms();
		c->first = a->next;
		stub_cleanup_close(&a->fd);
		free(a);
		if (!c->first)
			s->n_queued--;
	}
	watch(s, c);
}

static void drop_stalled(struct stub_server *s)
{
	uint64_t now = stub_now_ms();
	struct client *c, *next;

	pthread_mutex_lock(&s->lock);
	for (c = s->clients.next; s->n_queued && c != &s->clients; c = next) {
		next = c->next;
		if (c->first && now - c->stalled_ms >= s->stall_ms) {
			stub_log_seldom(&s->said_stalled, &s->log, STUB_LOG_WARN,
					"asks: process %d does not read its answers, dropped",
					c->pid);
			client_close(s, c);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

/*
 * Close up to @max clients that asked nothing for @ms.  One may be just about to ask: its
 * ask is lost with the connection, and comes again on a new one.
 */
static unsigned int drop_idle(struct stub_server *s, unsigned int ms, unsigned int max)
{
	uint64_t now = stub_now_ms();
	struct client *c, *prev;
	unsigned int n = 0;

	pthread_mutex_lock(&s->lock);
	for (c = s->clients.prev; c != &s->clients && n < max && now - c->used_ms >= ms; c = prev) {
		prev = c->prev;
		if (c->in_flight == 0) {
			client_close(s, c);
			n++;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* ---- requests ---- */

static void server_unref(struct stub_server *s, bool locked)
{
	bool last = --s->refs == 0;

	if (locked)
		pthread_mutex_unlock(&s->lock);
	if (last) {
		pthread_mutex_destroy(&s->lock);
		free(s);
	}
}

/* Send its answer and take it out of the books.  With the lock held. */
static void request_settle(struct request *q, int result, int fd)
{
	if (q->client->fd >= 0)
		deliver(q->server, q->client, q->id, result, fd);
	client_unref(q->client);
	q->client = NULL;
	*q->prev = q->next;
	if (q->next)
		q->next->prev = q->prev;
}

static void answer(struct stub_request *r, int result, int fd)
{
	struct request *q = (struct request *)((char *)r - offsetof(struct request, r));
	struct stub_server *s = q->server;

	pthread_mutex_lock(&s->lock);
	if (q->client)
		request_settle(q, result, fd);
	free(q);
	server_unref(s, true);
}

STUB_PUBLIC void stub_request_answer(struct stub_request *r, int result)
{
	answer(r, result, -1);
}

STUB_PUBLIC void stub_request_pass(struct stub_request *r, int fd)
{
	answer(r, 0, fd);
}

static void answer_now(struct stub_server *s, struct client *c, uint32_t id, int result)
{
	pthread_mutex_lock(&s->lock);
	c->in_flight++;
	deliver(s, c, id, result, -1);
	pthread_mutex_unlock(&s->lock);
}

static void take_ask(struct stub_server *s, struct client *c, const struct stub_wire_message *m)
{
	struct request *q;

	if (stub_wire_check_ask(&m->ask) < 0) {
		answer_now(s, c, m->id, -EINVAL);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		answer_now(s, c, m->id, -EAGAIN);
		return;
	}
	q->r.ask = m->ask;
	q->r.ask.id = m->id ? m->id : 1; /* an earlier release begins with 0, which is none */
	q->r.since_ms = stub_now_ms();
	q->r.pid = c->pid;
	memcpy(q->name, m->ask.name, m->ask.name_len);
	q->r.ask.name = q->name;
	q->id = m->id;
	q->server = s;
	q->client = c;
	pthread_mutex_lock(&s->lock);
	c->in_flight++;
	c->refs++;
	client_used(s, c);
	s->refs++;
	q->prev = &s->requests;
	q->next = s->requests;
	if (q->next)
		q->next->prev = &q->next;
	s->requests = q;
	watch(s, c);
	pthread_mutex_unlock(&s->lock);
	s->fn(s->fn_arg, &q->r);
}

/* ---- the thread ---- */

static void refuse(struct stub_server *s, struct client *c, const struct stub_wire_message *m,
		   int error)
{
	uint8_t buf[STUB_WIRE_MAX];
	const char *text = error == EPROTO ? "another version of the protocol" :
					     "malformed message";
	char line[256];

	if (error == EPROTO) {
		stub_release_of_asker(c->pid, m->version, line, sizeof(line));
		stub_log_seldom(&s->said_other[(unsigned int)c->pid % OTHERS], &s->log,
				STUB_LOG_WARN, "%s", line);
	} else {
		stub_log_seldom(&s->said_garbage, &s->log, STUB_LOG_WARN,
				"asks: process %d: %s, dropped", c->pid, text);
	}
	stub_wire_send(c->fd, buf, stub_wire_put_error(buf, m->id, error, text));
}

/* Read what is there; false: close it. */
static bool read_client(struct stub_server *s, struct client *c)
{
	uint8_t buf[STUB_WIRE_MAX];
	struct stub_wire_message m;

	for (int i = 0; i < READ_BURST; i++) {
		bool full;
		ssize_t n;
		int r;

		pthread_mutex_lock(&s->lock);
		full = c->in_flight >= STUB_WIRE_IN_FLIGHT;
		pthread_mutex_unlock(&s->lock);
		if (full)
			return true;
		n = stub_wire_receive(c->fd, buf);
		if (n < 0)
			return n == -EAGAIN;
		r = stub_wire_parse(buf, (size_t)n, &m);
		if (r < 0 || m.type != STUB_WIRE_IS_ASK) {
			refuse(s, c, &m, r == -EPROTO ? EPROTO : EBADMSG);
			return false;
		}
		take_ask(s, c, &m);
	}
	return true;
}

static void serve_client(struct stub_server *s, struct client *c, uint32_t events)
{
	bool ok = !(events & EPOLLERR);

	if (ok && (events & EPOLLOUT)) {
		pthread_mutex_lock(&s->lock);
		flush_answers(s, c);
		pthread_mutex_unlock(&s->lock);
	}
	if (ok && (events & EPOLLIN))
		ok = read_client(s, c);
	else if (events & EPOLLHUP)
		ok = false;
	if (!ok) {
		pthread_mutex_lock(&s->lock);
		client_close(s, c);
		pthread_mutex_unlock(&s->lock);
	}
}

static int client_create(struct stub_server *s, int fd, pid_t pid)
{
	struct client *c = calloc(1, sizeof(*c));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
	int r;

	if (!c)
		return -ENOMEM;
	c->fd = fd;
	c->pid = pid;
	c->refs = 1;
	c->events = ev.events;
	c->used_ms = stub_now_ms();
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		r = -errno;
		free(c);
		return r;
	}
	pthread_mutex_lock(&s->lock);
	ring_add(s, c);
	s->n_clients++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static void listen_events(struct stub_server *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = &s->socket.fd };

	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->socket.fd, &ev);
	s->accept_again_ms = events ? 0 : stub_now_ms() + ACCEPT_PAUSE_MS;
}

/*
 * Only after the events of a round: one of them may be of a client that is closed here.
 * When none is idle, those that connect wait.
 */
static void make_room(struct stub_server *s)
{
	s->crowded = false;
	if (drop_idle(s, 0, ROOM_MAX) > 0)
		return;
	stub_log_seldom(&s->said_full, &s->log, STUB_LOG_WARN,
			"asks: %u connections, all of them with asks: new ones wait; "
			"more descriptors (LimitNOFILE=) would help", s->n_clients);
	listen_events(s, 0);
}

static void accept_client(struct stub_server *s)
{
	int fd CLEANUP_CLOSE = -1;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	pthread_mutex_lock(&s->lock);
	s->crowded = s->n_clients >= s->max_clients;
	pthread_mutex_unlock(&s->lock);
	if (s->crowded)
		return;
	fd = accept4(s->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		s->crowded = errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			     errno == ENOBUFS;
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return;
	if (cred.uid != 0) {
		stub_log_seldom(&s->said_stranger, &s->log, STUB_LOG_WARN,
				"asks: process %d of user %u refused", cred.pid, cred.uid);
		return;
	}
	r = client_create(s, fd, cred.pid);
	if (r < 0)
		stub_log_seldom(&s->said_full, &s->log, STUB_LOG_WARN,
				"asks: process %d refused: %s", cred.pid, strerror(-r));
	else
		stub_steal_fd(&fd);
}

/* How long may the thread sleep? */
static int timeout_ms(struct stub_server *s)
{
	int ms = s->accept_again_ms ? ACCEPT_PAUSE_MS : -1;

	pthread_mutex_lock(&s->lock);
	if (s->n_queued && (ms < 0 || s->stall_ms / 4 + 1 < (unsigned int)ms))
		ms = (int)(s->stall_ms / 4 + 1);
	if (s->n_clients && (ms < 0 || s->idle_ms / 4 + 1 < (unsigned int)ms))
		ms = (int)(s->idle_ms / 4 + 1);
	if (s->stop)
		ms = -2;
	pthread_mutex_unlock(&s->lock);
	return ms;
}

static void sweep(struct stub_server *s)
{
	uint64_t now = stub_now_ms();
	unsigned int idle_ms = 0;

	if (s->crowded)
		make_room(s);
	drop_stalled(s);
	pthread_mutex_lock(&s->lock);
	if (now >= s->sweep_ms) {
		idle_ms = s->idle_ms;
		s->sweep_ms = now + idle_ms / 4;
	}
	pthread_mutex_unlock(&s->lock);
	if (idle_ms)
		drop_idle(s, idle_ms, CLIENTS_MAX);
}

static void *server_thread(void *arg)
{
	struct stub_server *s = arg;
	struct epoll_event ev[EVENTS];
	eventfd_t count;
	int ms;

	pthread_setname_np(pthread_self(), "asks");
	while ((ms = timeout_ms(s)) != -2) {
		int n = epoll_wait(s->epoll_fd, ev, EVENTS, ms);

		atomic_fetch_add(&s->turns, 1);
		/* One event per client, and only its own event closes it here. */
		for (int i = 0; i < n; i++) {
			if (ev[i].data.ptr == &s->socket.fd)
				accept_client(s);
			else if (ev[i].data.ptr == &s->wake_fd)
				eventfd_read(s->wake_fd, &count);
			else
				serve_client(s, ev[i].data.ptr, ev[i].events);
		}
		if (s->accept_again_ms && stub_now_ms() >= s->accept_again_ms)
			listen_events(s, EPOLLIN);
		sweep(s);
	}
	return NULL;
}

/* ---- life ---- */

static void close_descriptors(struct stub_server *s)
{
	stub_serve_socket_close(&s->socket);
	stub_cleanup_close(&s->epoll_fd);
	stub_cleanup_close(&s->wake_fd);
	stub_cleanup_close(&s->mark_fd);
}

/* What the limit of descriptors leaves to clients. */
static unsigned int clients_max(void)
{
	struct rlimit l;
	rlim_t n = CLIENTS_MAX;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
		n = l.rlim_cur > 2 * OTHERS_FDS ? l.rlim_cur - OTHERS_FDS : l.rlim_cur / 2;
	return n < CLIENTS_MAX ? (unsigned int)n : CLIENTS_MAX;
}

static int start(struct stub_server *s)
{
	struct epoll_event on_listen = { .events = EPOLLIN, .data.ptr = &s->socket.fd };
	struct epoll_event on_wake = { .events = EPOLLIN, .data.ptr = &s->wake_fd };
	sigset_t all, before;
	int r;

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->wake_fd < 0 ||
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->socket.fd, &on_listen) < 0 ||
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &on_wake) < 0)
		return -errno;
	sigfillset(&all); /* signals are for the program's own threads */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	r = pthread_create(&s->thread, NULL, server_thread, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

STUB_PUBLIC int stub_server_create(struct stub_volume *v, stub_serve_fn fn, void *arg,
				   stub_log_fn log, void *log_arg, struct stub_server **out)
{
	struct stub_server *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->fn = fn;
	s->fn_arg = arg;
	s->log = (struct stub_log){ log, log_arg };
	s->socket.fd = s->epoll_fd = s->wake_fd = s->mark_fd = -1;
	s->refs = 1;
	s->stall_ms = STALL_MS;
	s->idle_ms = IDLE_MS;
	s->max_clients = clients_max();
	s->clients.next = s->clients.prev = &s->clients;
	pthread_mutex_init(&s->lock, NULL);
	if (v->info.home[0])
		s->mark_fd = r = stub_home_serve(v);
	if (r >= 0)
		r = stub_serve_socket_open(stub_volume_info(v)->socket, &s->log, &s->socket);
	if (r == 0)
		r = start(s);
	if (r < 0) {
		close_descriptors(s);
		server_unref(s, false);
		return r;
	}
	*out = s;
	return 0;
}

STUB_PUBLIC uint64_t stub_server_turns(struct stub_server *s)
{
	uint64_t n = atomic_load(&s->turns);

	wake(s);
	return n;
}

STUB_PUBLIC void stub_server_destroy(struct stub_server *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	wake(s);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&s->lock);
	while (s->requests)
		request_settle(s->requests, -EAGAIN, -1);
	while (s->clients.next != &s->clients)
		client_close(s, s->clients.next);
	close_descriptors(s);
	server_unref(s, true);
}

void stub_server_set_stall(struct stub_server *s, unsigned int ms)
{
	pthread_mutex_lock(&s->lock);
	s->stall_ms = ms;
	pthread_mutex_unlock(&s->lock);
}

void stub_server_set_idle(struct stub_server *s, unsigned int ms, unsigned int max_clients)
{
	pthread_mutex_lock(&s->lock);
	s->idle_ms = ms;
	s->sweep_ms = 0;
	s->max_clients = max_clients;
	wake(s);
	pthread_mutex_unlock(&s->lock);
}
