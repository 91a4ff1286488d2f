// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * delayproxy MICROSECONDS HOST PORT [BYTES] - a long line to a server; a narrow one, if BYTES
 * are said.
 *
 * Listens on a port of HOST of its own, which it prints.  What comes is passed on, in either
 * direction, MICROSECONDS after it came: a round trip takes twice as long.  Of what the server
 * says, over all connections, so many BYTES have room in each second (0: any number); a number
 * on standard input changes that for what comes then.  One thread; ends with its standard input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE (256u << 10)
#define EVENTS 64
#define QUEUE_US 500000 /* of the narrow line: no more is taken from the server */

struct piece {
	struct piece *next;
	uint64_t due_us;
	size_t len, sent;
	char data[];
};

/* One end of a connection, and what is on its way to it. */
struct end {
	int fd;
	struct end *other, *next;
	struct piece *first, **last;
	bool ended, full; /* nothing more comes from it; it takes nothing now */
	bool client;
	bool stalled; /* nothing is taken from it: the narrow line's queue is full */
};

static struct end *ends;
static int epoll;
static uint64_t delay_us, bytes_s, free_us; /* when the narrow line has room again */

static void die(const char *what)
{
	fprintf(stderr, "delayproxy: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void watch(struct end *e)
{
	struct epoll_event ev = { .events = (e->ended || e->stalled ? 0 : EPOLLIN) |
					    (e->full ? EPOLLOUT : 0),
				  .data.ptr = e };

	if (epoll_ctl(epoll, EPOLL_CTL_MOD, e->fd, &ev) < 0)
		die("epoll");
}

static struct end *end_new(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct end *e = calloc(1, sizeof(*e));
	int one = 1;

	if (!e)
		die("memory");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	e->fd = fd;
	e->last = &e->first;
	e->next = ends;
	ends = e;
	ev.data.ptr = e;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		die("epoll");
	return e;
}

static void accept_one(int listener, const struct sockaddr_in *to)
{
	int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC), out;
	struct end *a, *b;

	if (in < 0)
		return;
	out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (out < 0 || connect(out, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		close(in);
		if (out >= 0)
			close(out);
		return;
	}
	a = end_new(in);
	b = end_new(out);
	a->other = b;
	b->other = a;
	a->client = true;
}

static void append(struct end *to, struct piece *p)
{
	uint64_t at = now_us();

	if (bytes_s && to->client) {
		at = (at > free_us ? at : free_us) + p->len * 1000000 / bytes_s;
		free_us = at;
	}
	p->next = NULL;
	p->due_us = at + delay_us;
	*to->last = p;
	to->last = &p->next;
}

/* At a time, so that all connections have their turn: what passes in 20 ms, or a packet. */
static size_t piece_max(const struct end *e)
{
	uint64_t n = bytes_s / 50;

	if (!bytes_s || e->client || n > PIECE)
		return PIECE;
	return n < 1448 ? 1448 : n;
}

/* Nothing more comes from @e: a piece of no length says so, in its turn. */
static void take(struct end *e)
{
	size_t max = piece_max(e);
	struct piece *p;
	ssize_t n;

	if (bytes_s && !e->client && free_us > now_us() + QUEUE_US) {
		e->stalled = true;
		watch(e);
		return;
	}
	p = malloc(sizeof(*p) + max);
	if (!p)
		die("memory");
	n = recv(e->fd, p->data, max, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		free(p);
		return;
	}
	e->ended = n <= 0;
	p->len = n > 0 ? (size_t)n : 0;
	p->sent = 0;
	p = realloc(p, sizeof(*p) + p->len);
	append(e->other, p);
	if (e->ended)
		watch(e);
}

static void pop(struct end *e)
{
	struct piece *p = e->first;

	e->first = p->next;
	if (!e->first)
		e->last = &e->first;
	free(p);
}

/* Pass on what is due; when is the next one?  0: none. */
static uint64_t give(struct end *e, uint64_t now)
{
	while (e->first && e->first->due_us <= now && !e->full) {
		struct piece *p = e->first;
		ssize_t n = 0;

		if (p->len)
			n = send(e->fd, p->data + p->sent, p->len - p->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			shutdown(e->fd, SHUT_WR);
		if (n < 0 && errno == EAGAIN) {
			e->full = true;
			watch(e);
		} else if (n < 0) { /* it is gone: so is what was for it */
			p->sent = p->len;
		} else {
			p->sent += (size_t)n;
		}
		if (p->sent == p->len)
			pop(e);
	}
	return e->first && !e->full ? e->first->due_us : 0;
}

static bool is_over(const struct end *e)
{
	return e->ended && e->other->ended && !e->first && !e->other->first;
}

static void drop_over(void)
{
	for (struct end **p = &ends, *e; (e = *p);) {
		if (!e->other || !is_over(e)) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		close(e->fd);
		e->fd = -1;
		/* the second of the two frees both */
		if (e->other->fd < 0) {
			free(e->other);
			free(e);
		}
	}
}

/* Half of the queue has gone: the server may go on.  When is that?  0: nobody waits for it. */
static uint64_t go_on(struct end *e, uint64_t now)
{
	uint64_t at = free_us > QUEUE_US / 2 ? free_us - QUEUE_US / 2 : 0;

	if (!e->stalled || at > now)
		return e->stalled ? at : 0;
	e->stalled = false;
	watch(e);
	return 0;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static int until_next(void)
{
	uint64_t now = now_us(), next = 0;

	for (struct end *e = ends; e; e = e->next) {
		next = sooner(next, give(e, now));
		next = sooner(next, go_on(e, now));
	}
	drop_over();
	if (!next)
		return -1;
	now = now_us();
	return next <= now ? 0 : (int)(next - now);
}

static int listen_on(struct sockaddr_in at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	at.sin_port = 0;
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 128) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		die("listening");
	printf("%u\n", ntohs(at.sin_port));
	fflush(stdout);
	return fd;
}

/* True: it is over. */
static bool take_number(void)
{
	char text[32];
	ssize_t n = read(STDIN_FILENO, text, sizeof(text) - 1);

	if (n <= 0)
		return true;
	text[n] = '\0';
	bytes_s = strtoull(text, NULL, 10);
	return false;
}

static void serve(int listener, const struct sockaddr_in *to)
{
	static char mark_listener, mark_stdin;
	struct epoll_event ev[EVENTS], add = { .events = EPOLLIN };

	add.data.ptr = &mark_listener;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &add) < 0)
		die("epoll");
	add.data.ptr = &mark_stdin;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &add) < 0)
		die("epoll of standard input");
	for (;;) {
		int us = until_next();
		struct timespec wait = { us / 1000000, us % 1000000 * 1000 };
		int n = epoll_pwait2(epoll, ev, EVENTS, us < 0 ? NULL : &wait, NULL);

		for (int i = 0; i < n; i++) {
			struct end *e = ev[i].data.ptr;

			if (ev[i].data.ptr == &mark_stdin) {
				if (take_number())
					return;
				continue;
			}
			if (ev[i].data.ptr == &mark_listener) {
				accept_one(listener, to);
				continue;
			}
			if (ev[i].events & EPOLLOUT) {
				e->full = false;
				watch(e);
			}
			if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !e->ended)
				take(e);
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };

	if (argc < 4 || argc > 5 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) {
		fputs("usage: delayproxy MICROSECONDS HOST PORT [BYTES]\n", stderr);
		return 2;
	}
	delay_us = strtoull(argv[1], NULL, 10);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	bytes_s = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		die("epoll");
	serve(listen_on(to), &to);
	return 0;
}
