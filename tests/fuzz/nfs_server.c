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

#include "nfs_server.h"

#define CONNS	    8
#define REQUEST_MAX 4096
#define REPLY_MAX   (3u << 20)
#define ANSWERS_MAX 32 /* of one input: each may cost a reconnect */
#define HONEST_MAX  64 /* after them; then the client is stopped */

#define PMAP  100000
#define MOUNT 100005
#define NFS   100003

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

static struct {
	size_t n;
	uint8_t p[REPLY_MAX];
} out; /* the server thread's */

/* ---- writing ---- */

static void put(const void *p, size_t n)
{
	if (n > REPLY_MAX - out.n)
		n = REPLY_MAX - out.n;
	if (n)
		memcpy(out.p + out.n, p, n);
	out.n += n;
}

static void put32(uint32_t x)
{
	x = htonl(x);
	put(&x, 4);
}

static void put64(uint64_t x)
{
	put32((uint32_t)(x >> 32));
	put32((uint32_t)x);
}

static void put_opaque(const void *p, uint32_t n)
{
	put32(n);
	put(p, n);
	put("\0\0\0", -n & 3);
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t x;

	memcpy(&x, p, 4);
	return ntohl(x);
}

/* ---- honest results ---- */

static void put_attr(uint32_t type, uint64_t fileid)
{
	put32(type);
	put32(0644);
	put32(1);
	put64(0); /* uid, gid */
	put64(100000);
	put64(4096);
	put64(0); /* rdev */
	put64(7);
	put64(fileid);
	for (int i = 0; i < 3; i++)
		put64(1700000000ull << 32 | 5);
}

static void put_post_attr(uint32_t type, uint64_t fileid)
{
	put32(1);
	put_attr(type, fileid);
}

static void put_entry(bool plus, const char *name, uint64_t fileid, uint32_t type, bool fh)
{
	put32(1);
	put64(fileid);
	put_opaque(name, (uint32_t)strlen(name));
	put64(fileid); /* cookie */
	if (!plus)
		return;
	if (type)
		put_post_attr(type, fileid);
	else
		put32(0);
	put32(fh);
	if (fh)
		put_opaque(name, (uint32_t)strlen(name));
}

static void put_entries(bool plus)
{
	put_post_attr(2, 2);
	put64(0); /* verifier */
	put_entry(plus, ".", 2, 2, true);
	put_entry(plus, "..", 3, 0, false);
	put_entry(plus, "file", 4, 1, true);
	put_entry(plus, "link", 5, 5, true);
	put_entry(plus, "bare", 6, 0, false);
	put32(0);
	put32(1); /* the end */
}

static void honest_nfs(uint32_t proc, const uint8_t *args, size_t n)
{
	static const uint8_t zeros[4096];
	/* the handle's first byte says what it is: the root, a file, a link */
	uint32_t type = n < 5 || args[4] == 'r' ? 2 : args[4] == 'l' ? 5 : 1;
	uint32_t count = n >= 4 ? get32(args + n - 4) : 0;

	if (proc == 0)
		return;
	put32(0);
	switch (proc) {
	case 1: /* GETATTR */
		put_attr(type, 2);
		break;
	case 3: /* LOOKUP */
		put_opaque("fh", 2);
		put_post_attr(1, 4);
		put32(0);
		break;
	case 4: /* ACCESS */
		put32(0);
		put32(0x1f);
		break;
	case 5: /* READLINK */
		put32(0);
		put_opaque("target", 6);
		break;
	case 6: /* READ */
		count = count < sizeof(zeros) ? count : sizeof(zeros);
		put_post_attr(1, 4);
		put32(count);
		put32(1);
		put_opaque(zeros, count);
		break;
	case 16: /* READDIR */
	case 17:
		put_entries(proc == 17);
		break;
	case 19: /* FSINFO */
		put32(0);
		for (int i = 0; i < 7; i++)
			put32(65536);
		put64(INT64_MAX);
		put64(1);
		put32(0x1b);
		break;
	}
}

static void honest(uint32_t program, uint32_t proc, const uint8_t *args, size_t n)
{
	if (program == NFS) {
		honest_nfs(proc, args, n);
	} else if (program == PMAP && proc) {
		put32(NFS_SERVER_PORT);
	} else if (program == MOUNT && proc == 1) {
		put32(0);
		put_opaque("root", 4);
		put32(1);
		put32(1);
	} else if (program == MOUNT && proc == 5) {
		put32(1);
		put_opaque("/x", 2);
		put64(0); /* no groups, no more */
	}
}

/* ---- answers ---- */

static void put_envelope(uint32_t xid)
{
	put32(xid);
	put32(1); /* reply, accepted, no verifier, success */
	put64(0);
	put64(0);
}

static void put_repeated(struct fuzz_in *in)
{
	size_t len = fuzz_take(in, 2), count = fuzz_take(in, 2), got;
	const uint8_t *unit = fuzz_bytes(in, len, &got);

	while (count-- && got && out.n < REPLY_MAX)
		put(unit, got);
}

static void change(size_t from, const uint8_t *p, size_t n)
{
	for (; n >= 3; p += 3, n -= 3) {
		size_t at = from + (p[0] | (size_t)p[1] << 8);

		if (at < out.n)
			out.p[at] = p[2];
	}
}

static bool send_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r <= 0)
			return false;
		p = (const uint8_t *)p + r;
		n -= (size_t)r;
	}
	return true;
}

/* libnfs takes records of up to 1 MiB: a longer one goes in fragments anyway. */
static bool send_record(int fd, bool split, bool ends)
{
	size_t at = 0;

	do {
		size_t most = split && at == 0 ? out.n / 2 : 1 << 20;
		size_t n = out.n - at < most ? out.n - at : most;
		uint32_t mark = htonl((uint32_t)n | (ends && at + n == out.n ? 0x80000000u : 0));

		if (!send_all(fd, &mark, 4) || !send_all(fd, out.p + at, n))
			return false;
		at += n;
	} while (at < out.n);
	return true;
}

/* False: close the connection. */
static bool answer_from(struct conn *c, struct fuzz_in *in, const uint8_t *call, size_t n)
{
	uint32_t xid = get32(call);
	uint8_t form = (uint8_t)fuzz_take(in, 1);
	size_t len = fuzz_take(in, 2), got;
	const uint8_t *p = fuzz_bytes(in, len, &got);

	c->unanswered = !(form & 32) && ((form & 7) == 3 || (form & 7) >= 6);
	switch (form & 7) {
	case 1:
	case 4:
		put_envelope(xid);
		honest(get32(call + 12), get32(call + 20), call + 24, n - 24);
		change(24, p, (form & 7) == 1 ? got : 0);
		break;
	case 2:
		put32(xid);
		put(p, got);
		break;
	case 3:
		put(p, got);
		break;
	case 5:
		return false;
	default:
		put_envelope((form & 7) == 7 ? xid + 1 : xid);
		put(p, got);
	}
	if (form & 16)
		put_repeated(in);
	if ((form & 7) == 3)
		return send_all(c->fd, out.p, out.n);
	return send_record(c->fd, form & 8, (form & 7) != 6);
}

static size_t skip_auth(const uint8_t *call, size_t at, size_t n)
{
	return at + 8 <= n ? at + 8 + ((get32(call + at + 4) + 3) & ~3u) : n;
}

/* As the honest server does, and what makes connections unless it is fuzzed. */
static bool answer_honestly(int fd, const uint8_t *call, size_t n)
{
	size_t args = skip_auth(call, skip_auth(call, 24, n), n);

	if (args > n)
		args = n;
	put_envelope(get32(call));
	honest(get32(call + 12), get32(call + 20), call + args, n - args);
	return send_record(fd, false, true);
}

static bool answer(struct conn *c, const uint8_t *call, size_t n)
{
	uint32_t program = get32(call + 12), proc = get32(call + 20);
	bool setup = program != NFS || proc == 0 || proc == 19, go_on = true;

	out.n = 0;
	c->unanswered = false;
	pthread_mutex_lock(&server.lock);
	if (setup && !(server.flags & NFS_SERVER_SETUP)) {
		go_on = answer_honestly(c->fd, call, n);
	} else if (server.in.left && server.answers < ANSWERS_MAX) {
		server.answers++;
		go_on = answer_from(c, &server.in, call, n);
	} else if (server.honest < HONEST_MAX) {
		server.honest++;
		go_on = answer_honestly(c->fd, call, n);
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
		size_t n = get32(c->buf) & 0x7fffffff;

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
