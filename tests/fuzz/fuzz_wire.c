/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_wire.c - packets of the ask protocol, on both sides of it.
 *
 * The input is a sequence of packets (length, 2 bytes; bytes).  They are parsed,
 * sent to a real server as a hostile asker would, and sent to a real asker, with
 * stub_link_receive() and with stub_ask(), as a hostile retriever would.
 */
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fuzz.h"
#include "wire.h"

#define PACKETS_MAX 16
#define WAIT_MS	    20000 /* an answer that has not come by then does not come */

struct packet {
	const uint8_t *p;
	size_t len;
};

/* Only what asking and serving look at. */
static struct stub_volume served, asking;
static struct stub_server *server;
static int listener;
static char dir[90];

static void check_ask(const struct stub_ask *a)
{
	bool range = a->kind == STUB_ASK_DATA || a->kind == STUB_ASK_PASS;

	CHECK(a->kind >= STUB_ASK_LOOKUP && a->kind <= STUB_ASK_LEAVE);
	CHECK(a->h.len >= 1 && a->h.len <= STUB_HANDLE_MAX && a->name_len <= STUB_NAME_MAX);
	CHECK(a->kind == STUB_ASK_LOOKUP || a->name_len == 0);
	CHECK(range || (a->offset == 0 && a->length == 0));
	CHECK(strnlen(a->who, sizeof(a->who)) <= STUB_WHO_MAX);
	for (const char *p = a->who; *p; p++)
		CHECK(*p >= 0x20 && *p <= 0x7e);
}

/* ---- parsing ---- */

static void try_parse(const struct packet *k)
{
	struct stub_wire_message m, back;
	uint8_t buf[STUB_WIRE_MAX];
	int r = stub_wire_parse(k->p, k->len, &m);
	size_t n;

	if (r < 0) {
		CHECK(r == -EBADMSG || r == -EPROTO);
		return;
	}
	switch (m.type) {
	case STUB_WIRE_IS_ASK:
		check_ask(&m.ask);
		n = stub_wire_put_ask(buf, m.id, &m.ask);
		CHECK(n == k->len && !memcmp(buf, k->p, n));
		break;
	case STUB_WIRE_IS_ANSWER:
		n = stub_wire_put_answer(buf, m.id, m.result);
		CHECK(n == k->len && !memcmp(buf, k->p, n));
		break;
	case STUB_WIRE_IS_ERROR:
		CHECK(m.error >= 0 && strnlen(m.text, sizeof(m.text)) <= STUB_WIRE_TEXT);
		n = stub_wire_put_error(buf, m.id, m.error, m.text);
		CHECK(n == k->len && stub_wire_parse(buf, n, &back) == 0);
		CHECK(back.error == m.error && !strcmp(back.text, m.text));
		break;
	}
}

/* ---- the serving side ---- */

/* The retriever: only asks that make sense come here. */
static void retrieve(void *arg, struct stub_request *r)
{
	(void)arg;
	check_ask(&r->ask);
	CHECK(stub_wire_check_ask(&r->ask) == 0);
	stub_request_answer(r, -(int)r->ask.h.bytes[0]);
}

static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	return fd;
}

/* libFuzzer's timer interrupts. */
static void wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	while ((n = poll(&p, 1, WAIT_MS)) < 0)
		CHECK(errno == EINTR);
	CHECK(n == 1);
}

static void send_packet(int fd, const struct packet *k)
{
	while (send(fd, k->p, k->len, MSG_NOSIGNAL) < 0)
		CHECK(errno == EINTR);
}

static void expect(int fd, enum stub_wire_type type, uint32_t id)
{
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];
	ssize_t n;

	wait_for(fd);
	n = stub_wire_receive(fd, buf);
	CHECK(n > 0 && stub_wire_parse(buf, (size_t)n, &m) == 0);
	CHECK(m.type == type && (m.id == id || type == STUB_WIRE_IS_ERROR));
}

static void expect_close(int fd)
{
	uint8_t buf[STUB_WIRE_MAX];

	wait_for(fd);
	CHECK(stub_wire_receive(fd, buf) == -ECONNRESET);
}

static void try_server(const struct packet *k, unsigned int n)
{
	int fd = connect_to(served.info.socket);
	struct stub_wire_message m;
	bool open = true;

	for (unsigned int i = 0; i < n && open; i++) {
		int r = k[i].len ? stub_wire_parse(k[i].p, k[i].len, &m) : -EBADMSG;

		send_packet(fd, &k[i]);
		open = r == 0 && m.type == STUB_WIRE_IS_ASK;
		if (open)
			expect(fd, STUB_WIRE_IS_ANSWER, m.id);
		else if (k[i].len) /* an empty packet looks like the end */
			expect(fd, STUB_WIRE_IS_ERROR, 0);
	}
	if (!open)
		expect_close(fd);
	close(fd);
}

/* ---- the asking side ---- */

static int accept_asker(void)
{
	int fd;

	wait_for(listener);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void send_all(int fd, const struct packet *k, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (send(fd, k[i].p, k[i].len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
}

static bool is_result(int r)
{
	static const int results[] = { 0,	-EAGAIN, -ENOENT, -EREMOTEIO, -ENOSPC,
				       -ESTALE, -EINVAL, -EDQUOT, -EROFS,     -EIO };

	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (results[i] == r)
			return true;
	return false;
}

static void try_link(const struct packet *k, unsigned int n)
{
	struct stub_link *l;
	unsigned int got = 0;
	uint32_t id;
	int fd, r, result;

	CHECK(stub_ask_pool_create(&asking, &asking.pool) == 0);
	CHECK(stub_link_create(&asking, &l) == 0);
	fd = accept_asker();
	send_all(fd, k, n);
	close(fd); /* what was sent is still read */
	while ((r = stub_link_receive(l, WAIT_MS, &id, &result)) == 1) {
		CHECK(is_result(result));
		got++;
	}
	CHECK(r == -EAGAIN && got <= n);
	stub_link_destroy(l);
	stub_ask_pool_destroy(asking.pool);
}

/* With no time to wait the first ask only leaves its connection in the pool, where
 * the second one finds it, and what we sent meanwhile. */
static void try_ask(const struct packet *k, unsigned int n)
{
	struct stub_ask ask = { .kind = STUB_ASK_LIST, .h = { .len = 1 } };
	int fd;

	CHECK(stub_ask_pool_create(&asking, &asking.pool) == 0);
	CHECK(stub_ask(&asking, &ask, 0) == -EAGAIN);
	fd = accept_asker();
	send_all(fd, k, n);
	CHECK(is_result(stub_ask(&asking, &ask, 0)));
	stub_ask_pool_destroy(asking.pool);
	close(fd);
	/* a connection that went bad was replaced by another, unanswered one */
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		close(fd);
}

/* ---- all ---- */

static void clean_up(void)
{
	stub_server_destroy(server);
	close(listener);
	unlink(asking.info.socket);
	rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR"); /* that run removes */
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)argc;
	(void)argv;
	snprintf(dir, sizeof(dir), "%s/fuzz_wire.XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(dir));
	snprintf(served.info.socket, sizeof(served.info.socket), "%s/served", dir);
	snprintf(asking.info.socket, sizeof(asking.info.socket), "%s/asking", dir);
	strcpy(a.sun_path, asking.info.socket);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(listen(listener, 16) == 0);
	CHECK(stub_server_create(&served, retrieve, NULL, NULL, NULL, &server) == 0);
	atexit(clean_up);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct packet k[PACKETS_MAX];
	unsigned int n = 0;

	while (in.left && n < PACKETS_MAX) {
		size_t len = fuzz_take(&in, 2) % (STUB_WIRE_MAX * 2);

		k[n].p = fuzz_bytes(&in, len, &k[n].len);
		try_parse(&k[n++]);
	}
	if (!n)
		return 0;
	try_server(k, n);
	try_link(k, n);
	try_ask(k, n);
	return 0;
}
