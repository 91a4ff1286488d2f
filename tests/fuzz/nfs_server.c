/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nfs_answer.h"
#include "nfs_server.h"

#define CONNS	    8
#define REQUEST_MAX 4096
#define ANSWERS_MAX 32 /* of one input: each may cost a reconnect */
#define HONEST_MAX  64 /* after them; then the client is stopped */

int __real_poll(struct pollfd *p, nfds_t n, int ms);

struct conn {
	int fd;
	bool unanswered; /* the last call */
	size_t have;
	uint8_t buf[REQUEST_MAX];
};

static struct {
	int listener[2], begin, ready; /* eventfds */
	struct conn conn[CONNS];
	unsigned int n;

	pthread_mutex_t lock; /* all below */
	struct fuzz_in in;
	unsigned int flags, answers, honest;
	struct source *client;
} server = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- answers ---- */

static bool answer(struct conn *c, const uint8_t *call, size_t n)
{
	bool setup = nfs_answer_is_setup(call), go_on = true;

	c->unanswered = false;
	pthread_mutex_lock(&server.lock);
	if (setup && !(server.flags & NFS_SERVER_SETUP)) {
		go_on = nfs_answer_honestly(c->fd, call, n);
	} else if (server.in.left && server.answers < ANSWERS_MAX) {
		server.answers++;
		go_on = nfs_answer_from(c->fd, &server.in, call, n, &c->unanswered);
	} else if (server.honest < HONEST_MAX) {
		server.honest++;
		go_on = nfs_answer_honestly(c->fd, call, n);
	} else {
		if (server.client)
			source_stop(server.client);
		go_on = false;
	}
	pthread_mutex_unlock(&server.lock);
	return go_on;
}

/* ---- connections ---- */

static void drop(struct conn *c)
{
	close(c->fd); /* with a reset, see take_conn() */
	*c = server.conn[--server.n];
}

static bool serve(struct conn *c)
{
	struct pollfd more = { .fd = c->fd, .events = POLLIN };
	ssize_t r = recv(c->fd, c->buf + c->have, sizeof(c->buf) - c->have, 0);

	if (r <= 0)
		return false;
	c->have += (size_t)r;
	while (c->have >= 4) {
		size_t n = nfs_answer_get32(c->buf) & 0x7fffffff;

		if (n < 40 || n > sizeof(c->buf) - 4)
			return false;
		if (c->have < n + 4)
			break;
		if (!answer(c, c->buf + 4, n))
			return false;
		c->have -= n + 4;
		memmove(c->buf, c->buf + 4 + n, c->have);
	}
	return !c->unanswered || __real_poll(&more, 1, 1) > 0;
}

/* Ports below 1024 are few: no connection may linger. */
static void take_conn(int listener)
{
	struct linger at_once = { 1, 0 };
	struct timeval limit = { 10, 0 };
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (server.n == CONNS) {
		close(fd);
		return;
	}
	server.conn[server.n].unanswered = false;
	server.conn[server.n].fd = fd;
	server.conn[server.n++].have = 0;
}

static void begin(void)
{
	eventfd_t n;
	int fd;

	eventfd_read(server.begin, &n);
	while (server.n)
		drop(&server.conn[0]);
	for (int i = 0; i < 2; i++)
		while ((fd = accept4(server.listener[i], NULL, NULL, SOCK_CLOEXEC)) >= 0)
			close(fd);
	eventfd_write(server.ready, 1);
}

static void *server_main(void *arg)
{
	(void)arg;
	for (;;) {
		struct pollfd p[3 + CONNS] = {
			{ .fd = server.begin, .events = POLLIN },
			{ .fd = server.listener[0], .events = POLLIN },
			{ .fd = server.listener[1], .events = POLLIN },
		};
		unsigned int n = server.n;

		for (unsigned int i = 0; i < n; i++)
			p[3 + i] = (struct pollfd){ .fd = server.conn[i].fd, .events = POLLIN };
		if (__real_poll(p, 3 + n, -1) < 0)
			continue;
		for (unsigned int i = n; i-- > 0;) /* a drop moves the last one only */
			if (p[3 + i].revents && !serve(&server.conn[i]))
				drop(&server.conn[i]);
		for (int i = 0; i < 2; i++)
			if (p[1 + i].revents)
				take_conn(server.listener[i]);
		if (p[0].revents)
			begin();
	}
	return NULL;
}

/* ---- for fuzz_nfs_reply.c ---- */

static void own_network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	CHECK(unshare(CLONE_NEWNET) == 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	close(fd);
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 64) == 0);
	return fd;
}

void nfs_server_start(void)
{
	sigset_t all, before;
	pthread_t thread;

	own_network();
	server.listener[0] = listen_on(NFS_SERVER_PORT);
	server.listener[1] = listen_on(111);
	server.begin = eventfd(0, EFD_CLOEXEC);
	server.ready = eventfd(0, EFD_CLOEXEC);
	CHECK(server.begin >= 0 && server.ready >= 0);
	sigfillset(&all); /* libFuzzer's timer must not interrupt it */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	CHECK(pthread_create(&thread, NULL, server_main, NULL) == 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_detach(thread);
}

void nfs_server_input(const struct fuzz_in *in, unsigned int flags)
{
	eventfd_t n;

	eventfd_write(server.begin, 1);
	while (eventfd_read(server.ready, &n) < 0)
		CHECK(errno == EINTR);
	pthread_mutex_lock(&server.lock);
	server.in = *in;
	server.flags = flags;
	server.answers = server.honest = 0;
	pthread_mutex_unlock(&server.lock);
}

void nfs_server_client(struct source *s)
{
	pthread_mutex_lock(&server.lock);
	server.client = s;
	pthread_mutex_unlock(&server.lock);
}
