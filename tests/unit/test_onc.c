// SPDX-License-Identifier: GPL-3.0-or-later
/* test_onc.c - retriever/rpc without security contexts: records, replies, connections */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "onc_peer.h"

#define PROGRAM	  100003
#define REPLY_MAX 8192

/* ---- records ---- */

static void put_fragment(struct onc_out *o, bool last, const char *text, size_t len)
{
	uint32_t mark = htonl((last ? 0x80000000u : 0) | (uint32_t)len);

	/* not padded: fragments may end anywhere */
	o->data = realloc(o->data, o->len + 4 + len);
	memcpy(o->data + o->len, &mark, 4);
	memcpy(o->data + o->len + 4, text, len);
	o->len += 4 + len;
}

static void records_whatever_their_fragments(void **state)
{
	struct onc_out o = { 0 };
	size_t used, at, n;

	put_fragment(&o, false, "ab", 2);
	put_fragment(&o, false, "", 0);
	put_fragment(&o, false, "cdefg", 5);
	put_fragment(&o, true, "h", 1);
	put_fragment(&o, false, "second", 6);
	put_fragment(&o, true, "", 0);
	put_fragment(&o, true, "", 0);
	/* in pieces of any length they are the same three */
	for (n = 1; n <= o.len; n++) {
		static const char *const want[] = { "abcdefgh", "second", "" };
		struct onc_record r;
		unsigned int got = 0;

		onc_record_init(&r, 100);
		for (at = 0; at < o.len; at += used) {
			size_t part = n < o.len - at ? n : o.len - at;
			int e = onc_record_feed(&r, o.data + at, part, &used);

			assert_true(e == 0 || e == 1);
			assert_true(used <= part && (e == 1 || used == part));
			if (e == 0)
				continue;
			assert_true(got < 3);
			assert_int_equal(r.len, strlen(want[got]));
			if (r.len)
				assert_memory_equal(r.data, want[got], r.len);
			got++;
		}
		assert_int_equal(got, 3);
		onc_record_free(&r);
	}
	onc_out_free(&o);
}

static int feed_marks(uint32_t max, const uint32_t *marks, size_t n)
{
	struct onc_record r;
	int e = 0;

	onc_record_init(&r, max);
	for (size_t i = 0; i < n && !e; i++) {
		uint32_t mark = htonl(marks[i]);
		size_t used;

		e = onc_record_feed(&r, (uint8_t *)&mark, 4, &used);
		assert_true(e || used == 4);
	}
	/* what was only announced costs nothing */
	assert_int_equal(r.size, 0);
	onc_record_free(&r);
	return e;
}

static void records_that_are_too_long(void **state)
{
	uint32_t many[ONC_FRAGMENTS_MAX + 1] = { 0 };

	assert_int_equal(feed_marks(100, (uint32_t[]){ 0x80000064 }, 1), 0);
	assert_int_equal(feed_marks(100, (uint32_t[]){ 0x80000065 }, 1), -EBADMSG);
	assert_int_equal(feed_marks(100, (uint32_t[]){ 0xffffffff }, 1), -EBADMSG);
	assert_int_equal(feed_marks(100, (uint32_t[]){ 0x7fffffff }, 1), -EBADMSG);
	assert_int_equal(feed_marks(100, many, ONC_FRAGMENTS_MAX), 0);
	assert_int_equal(feed_marks(100, many, ONC_FRAGMENTS_MAX + 1), -EBADMSG);
}

static void records_that_grow_too_long(void **state)
{
	struct onc_out o = { 0 };
	struct onc_record r;
	size_t used;

	put_fragment(&o, false, "0123456789", 10);
	put_fragment(&o, false, "0123456789", 10);
	onc_record_init(&r, 19);
	assert_int_equal(onc_record_feed(&r, o.data, o.len, &used), -EBADMSG);
	onc_record_free(&r);
	onc_out_free(&o);
}

/* ---- replies ---- */

static int parse(const struct onc_out *o, size_t len, struct onc_reply *r)
{
	uint8_t *copy = malloc(len ? len : 1); /* a sanitizer sees what is read behind it */
	const struct onc_bytes b = { copy, len };
	int e;

	memcpy(copy, o->data, len);
	e = onc_reply_parse(&b, r);
	free(copy);
	return e;
}

static void accepted_replies(void **state)
{
	struct onc_out o = { 0 };
	struct onc_reply r;

	onc_put32(&o, 0x12345678);
	onc_put32(&o, ONC_REPLY);
	onc_put32(&o, 0);
	onc_put32(&o, ONC_GSS);
	onc_put_opaque(&o, "12345", 5);
	onc_put32(&o, ONC_SUCCESS);
	onc_put32(&o, 7);
	assert_int_equal(parse(&o, o.len, &r), 0);
	assert_int_equal(r.xid, 0x12345678);
	assert_false(r.denied);
	assert_int_equal(r.flavor, ONC_GSS);
	assert_int_equal(r.verifier.len, 5);
	assert_int_equal(r.results.len, 4);
	for (size_t len = 0; len < o.len; len++)
		assert_int_equal(parse(&o, len, &r), len == o.len - 4 ? 0 : -EBADMSG);
	onc_out_free(&o);
}

static void denied_replies(void **state)
{
	struct onc_out o = { 0 };
	struct onc_reply r;

	peer_put_denied(&o, 1, ONC_AUTH_TOOWEAK);
	assert_int_equal(parse(&o, o.len, &r), 0);
	assert_true(r.denied && !r.mismatch);
	assert_int_equal(r.auth, ONC_AUTH_TOOWEAK);
	for (size_t len = 0; len < o.len; len++)
		assert_int_equal(parse(&o, len, &r), -EBADMSG);
	o.len = 0;
	onc_put32(&o, 1);
	onc_put32(&o, ONC_REPLY);
	onc_put32(&o, 1);
	onc_put32(&o, 0);
	onc_put32(&o, 3);
	onc_put32(&o, 4);
	assert_int_equal(parse(&o, o.len, &r), 0);
	assert_true(r.denied && r.mismatch);
	assert_int_equal(parse(&o, o.len - 4, &r), -EBADMSG);
	onc_out_free(&o);
}

static void what_is_no_reply(void **state)
{
	static const uint32_t bad[][6] = {
		{ 1, ONC_CALL, 0, 0, 0, 0 }, /* a call */
		{ 1, 2, 0, 0, 0, 0 },
		{ 1, ONC_REPLY, 2, 0, 0, 0 }, /* neither accepted nor denied */
		{ 1, ONC_REPLY, 1, 2, 0, 0 }, /* denied for no reason */
		{ 1, ONC_REPLY, 0, 0, 404, 0 }, /* a verifier that is too long */
		{ 1, ONC_REPLY, 0, 0, 0xfffffffd, 0 }, /* one whose padding wraps */
	};
	struct onc_reply r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct onc_out o = { 0 };

		for (size_t j = 0; j < 6; j++)
			onc_put32(&o, bad[i][j]);
		assert_int_equal(parse(&o, o.len, &r), -EBADMSG);
		onc_out_free(&o);
	}
}

/* ---- connections ---- */

struct got {
	unsigned int times;
	int error;
	char text[128], why[ONC_WHY_MAX];
	size_t len;
	struct onc_conn *then; /* what to send another call on */
};

static void on_done(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	struct got *g = arg;

	assert_int_equal(g->times++, 0);
	assert_true((error == 0) == (results != NULL) || !results);
	assert_true(error == 0 || (why && *why));
	g->error = error;
	g->len = results ? results->len : 0;
	if (results && results->len)
		memcpy(g->text, results->data,
		       results->len < sizeof(g->text) ? results->len : sizeof(g->text));
	snprintf(g->why, sizeof(g->why), "%s", why ? why : "");
	if (g->then)
		assert_int_equal(onc_call(g->then, 1, "then", 4, on_done, g + 1), 0);
}

static struct onc_conn *pair(int *peer)
{
	const struct onc_config config = { .program = PROGRAM, .version = 4,
					   .reply_max = REPLY_MAX, .flavor = ONC_SYS,
					   .uid = 17, .gid = 18 };
	struct onc_conn *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(onc_create(&config, &c), 0);
	onc_attach(c, fd[0]);
	*peer = fd[1];
	return c;
}

static int turn(struct onc_conn *c)
{
	struct pollfd p = { .fd = onc_fd(c), .events = onc_events(c) };

	assert_true(poll(&p, 1, 0) >= 0);
	return onc_service(c, p.revents);
}

/* Until there is nothing to send and nothing to receive. */
static int settle(struct onc_conn *c)
{
	struct pollfd p = { .fd = onc_fd(c) };
	int e;

	do {
		e = turn(c);
		p.events = onc_events(c);
	} while (!e && poll(&p, 1, 0) > 0);
	return e;
}

static void call(struct onc_conn *c, const char *args, struct got *g)
{
	assert_int_equal(onc_call(c, 1, args, strlen(args), on_done, g), 0);
}

static void reply(int fd, uint32_t xid, const char *results)
{
	struct onc_out o = { 0 };

	peer_put_accepted(&o, xid, ONC_SUCCESS);
	onc_put_raw(&o, results, strlen(results));
	peer_send_record(fd, &o);
	onc_out_free(&o);
}

static void calls_as_they_are_sent(void **state)
{
	struct got g[2] = { 0 };
	struct peer_call p;
	int peer;
	struct onc_conn *c = pair(&peer);
	struct onc_in in;

	call(c, "args....", &g[0]);
	assert_int_equal(onc_call(c, 0, NULL, 0, on_done, &g[1]), 0);
	assert_int_equal(settle(c), 0);
	peer_read(peer, &p);
	assert_int_equal(p.program, PROGRAM);
	assert_int_equal(p.version, 4);
	assert_int_equal(p.procedure, 1);
	assert_int_equal(p.flavor, ONC_SYS);
	assert_int_equal(p.verf_flavor, ONC_NONE);
	assert_int_equal(p.args.len, 8);
	assert_memory_equal(p.args.data, "args....", 8);
	in = (struct onc_in){ p.cred.data, p.cred.len, false };
	onc_get32(&in);
	assert_memory_equal(onc_get_opaque(&in, 255).data, "postcopy", 8);
	assert_int_equal(onc_get32(&in), 17);
	assert_int_equal(onc_get32(&in), 18);
	assert_int_equal(onc_get32(&in), 0);
	assert_false(in.bad || in.left);
	peer_free(&p);
	peer_read(peer, &p); /* NULL */
	assert_int_equal(p.flavor, ONC_NONE);
	assert_int_equal(p.args.len, 0);
	peer_free(&p);
	onc_destroy(c);
	assert_int_equal(g[0].error, -ECANCELED);
	assert_int_equal(g[1].error, -ECANCELED);
	close(peer);
}

static void replies_in_any_order(void **state)
{
	struct got g[4] = { 0 };
	struct peer_call p[3];
	int peer;
	struct onc_conn *c = pair(&peer);

	for (int i = 0; i < 3; i++)
		call(c, "call", &g[i]);
	g[1].then = NULL;
	assert_int_equal(settle(c), 0);
	for (int i = 0; i < 3; i++)
		peer_read(peer, &p[i]);
	reply(peer, p[2].xid, "twotwo..");
	reply(peer, p[0].xid + 1000, "nobody's");
	reply(peer, p[0].xid, "zero");
	reply(peer, p[0].xid, "once more"); /* a duplicate */
	assert_int_equal(settle(c), 0);
	assert_int_equal(g[0].times, 1);
	assert_memory_equal(g[0].text, "zero", 4);
	assert_int_equal(g[1].times, 0);
	assert_int_equal(g[2].times, 1);
	assert_memory_equal(g[2].text, "twotwo..", 8);
	reply(peer, p[1].xid, "one.");
	assert_int_equal(settle(c), 0);
	assert_memory_equal(g[1].text, "one.", 4);
	for (int i = 0; i < 3; i++)
		peer_free(&p[i]);
	onc_destroy(c);
	close(peer);
}

static void another_call_from_the_end_of_one(void **state)
{
	struct got g[2] = { 0 };
	struct peer_call p;
	int peer;
	struct onc_conn *c = pair(&peer);

	g[0].then = c;
	call(c, "call", &g[0]);
	assert_int_equal(settle(c), 0);
	peer_read(peer, &p);
	reply(peer, p.xid, "done");
	peer_free(&p);
	assert_int_equal(settle(c), 0);
	peer_read(peer, &p);
	assert_memory_equal(p.args.data, "then", 4);
	peer_free(&p);
	onc_destroy(c);
	assert_int_equal(g[1].error, -ECANCELED);
	close(peer);
}

static void what_ends_one_call(void **state)
{
	static const struct {
		uint32_t stat;
		int error;
	} cases[] = { { ONC_PROG_UNAVAIL, -EOPNOTSUPP }, { ONC_PROG_MISMATCH, -EOPNOTSUPP },
		      { ONC_PROC_UNAVAIL, -EOPNOTSUPP }, { ONC_GARBAGE_ARGS, -EBADMSG },
		      { ONC_SYSTEM_ERR, -EIO },		 { 17, -EBADMSG } };
	struct got g[7] = { 0 };
	struct onc_out o = { 0 };
	struct peer_call p;
	int peer;
	struct onc_conn *c = pair(&peer);

	for (size_t i = 0; i < 6; i++) {
		call(c, "call", &g[i]);
		assert_int_equal(settle(c), 0);
		peer_read(peer, &p);
		o.len = 0;
		peer_put_accepted(&o, p.xid, cases[i].stat);
		peer_send_record(peer, &o);
		peer_free(&p);
		assert_int_equal(settle(c), 0);
		assert_int_equal(g[i].error, cases[i].error);
	}
	call(c, "call", &g[6]);
	assert_int_equal(settle(c), 0);
	peer_read(peer, &p);
	o.len = 0;
	peer_put_denied(&o, p.xid, ONC_AUTH_TOOWEAK);
	peer_send_record(peer, &o);
	peer_free(&p);
	assert_int_equal(settle(c), 0);
	assert_int_equal(g[6].error, -EACCES);
	onc_out_free(&o);
	onc_destroy(c);
	close(peer);
}

/* What the peer sends, and why the connection ends. */
static int after(const void *bytes, size_t len, bool shut, struct got *g)
{
	int peer, e;
	struct onc_conn *c = pair(&peer);

	call(c, "call", g);
	assert_int_equal(settle(c), 0);
	peer_send(peer, bytes, len);
	if (shut)
		shutdown(peer, SHUT_WR);
	e = settle(c);
	assert_true(e == 0 || *onc_why(c));
	assert_int_equal(settle(c), e); /* it stays so */
	assert_int_equal(g->times, 0); /* nobody knows how the call has ended */
	onc_destroy(c);
	assert_int_equal(g->error, -ECANCELED);
	close(peer);
	return e;
}

static void what_ends_a_connection(void **state)
{
	struct got g = { 0 };

	assert_int_equal(after("", 0, true, &g), -ECONNRESET);
	g = (struct got){ 0 };
	assert_int_equal(after("\x80\0\0\x10\0", 5, true, &g), -ECONNRESET);
	g = (struct got){ 0 };
	assert_int_equal(after("\x80\xff\0\x10", 4, false, &g), -EBADMSG);
	g = (struct got){ 0 };
	assert_int_equal(after("HTTP/1.1 400 Bad Request", 24, false, &g), -EBADMSG);
	g = (struct got){ 0 };
	assert_int_equal(after("\x80\0\0\x08\0\0\0\1\0\0\0\0", 12, false, &g), -EBADMSG);
	g = (struct got){ 0 };
	assert_int_equal(after("\x80\0\0\x03xyz", 7, false, &g), -EBADMSG);
}

static void replies_to_nothing_without_end(void **state)
{
	struct got g = { 0 };
	int peer, e = 0;
	struct onc_conn *c = pair(&peer);

	call(c, "call", &g);
	assert_int_equal(settle(c), 0);
	for (int i = 0; i < 2000 && !e; i++) {
		struct peer_call p;

		if (!i) {
			peer_read(peer, &p);
			c->xid = p.xid;
			peer_free(&p);
		}
		reply(peer, c->xid + 5, "nothing.");
		e = settle(c);
	}
	assert_int_equal(e, -EBADMSG);
	onc_destroy(c);
	assert_int_equal(g.error, -ECANCELED);
	close(peer);
}

#define LONG_CALLS 40

static char long_args[7000], long_results[REPLY_MAX - 24];

/* Answers them, on a thread of its own: calls and replies wait for one another. */
static void *answer_long(void *arg)
{
	const int peer = *(const int *)arg;
	struct peer_call p;

	for (int i = 0; i < LONG_CALLS; i++) {
		struct onc_out o = { 0 };

		peer_read(peer, &p);
		assert_int_equal(p.args.len, sizeof(long_args));
		peer_put_accepted(&o, p.xid, ONC_SUCCESS);
		onc_put_raw(&o, long_results, sizeof(long_results));
		peer_send_record(peer, &o);
		onc_out_free(&o);
		peer_free(&p);
	}
	return NULL;
}

/* More than the socket takes at once. */
static void long_calls_and_replies(void **state)
{
	struct got g[LONG_CALLS] = { 0 };
	int peer, small = 4096;
	struct onc_conn *c = pair(&peer);
	pthread_t thread;

	setsockopt(onc_fd(c), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	for (int i = 0; i < LONG_CALLS; i++)
		assert_int_equal(onc_call(c, 1, long_args, sizeof(long_args), on_done, &g[i]), 0);
	assert_int_equal(turn(c), 0);
	assert_true(onc_events(c) & POLLOUT); /* it did not all fit */
	assert_int_equal(pthread_create(&thread, NULL, answer_long, &peer), 0);
	while (!g[LONG_CALLS - 1].times) {
		struct pollfd p = { .fd = onc_fd(c), .events = onc_events(c) };

		assert_true(poll(&p, 1, 60000) > 0);
		assert_int_equal(onc_service(c, p.revents), 0);
	}
	pthread_join(thread, NULL);
	for (int i = 0; i < LONG_CALLS; i++) {
		assert_int_equal(g[i].error, 0);
		assert_int_equal(g[i].len, sizeof(long_results));
	}
	onc_destroy(c);
	close(peer);
}

/* ---- connecting ---- */

static int listen_at(struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)at, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static int connected(struct onc_conn *c, const struct sockaddr_in *at, struct got *g)
{
	int e = onc_connect(c, (const struct sockaddr *)at, sizeof(*at), on_done, g);

	while (!e && !g->times) {
		struct pollfd p = { .fd = onc_fd(c), .events = onc_events(c) };

		assert_true(poll(&p, 1, 60000) > 0);
		e = onc_service(c, p.revents);
	}
	return e;
}

static void connects(void **state)
{
	const struct onc_config config = { .program = PROGRAM, .version = 4, .reply_max = 4096 };
	struct got g = { 0 }, null = { 0 };
	struct sockaddr_in at, from;
	socklen_t len = sizeof(from);
	struct onc_conn *c;
	struct peer_call p;
	int fd = listen_at(&at), peer;

	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(onc_create(&config, &c), 0);
	assert_int_equal(connected(c, &at, &g), 0);
	assert_int_equal(g.error, 0);
	peer = accept(fd, (struct sockaddr *)&from, &len);
	if (geteuid() == 0)
		assert_true(ntohs(from.sin_port) < 1024);
	assert_int_equal(onc_call(c, 0, NULL, 0, on_done, &null), 0);
	assert_int_equal(turn(c), 0);
	peer_read(peer, &p);
	reply(peer, p.xid, "");
	peer_free(&p);
	while (!null.times) {
		struct pollfd in = { .fd = onc_fd(c), .events = POLLIN };

		assert_int_equal(poll(&in, 1, 60000), 1);
		assert_int_equal(onc_service(c, in.revents), 0);
	}
	assert_int_equal(null.error, 0);
	onc_destroy(c);
	close(peer);
	close(fd);
}

static void connects_to_nobody(void **state)
{
	const struct onc_config config = { .program = PROGRAM, .version = 4, .reply_max = 4096 };
	struct got g = { 0 };
	struct sockaddr_in at;
	struct onc_conn *c;
	int fd = listen_at(&at); /* bound, and nobody listens */

	assert_int_equal(onc_create(&config, &c), 0);
	assert_int_equal(connected(c, &at, &g), -ECONNREFUSED);
	assert_int_equal(g.error, -ECONNREFUSED);
	assert_true(*onc_why(c));
	onc_destroy(c);
	assert_int_equal(g.times, 1);
	/* given up before it was connected */
	g = (struct got){ 0 };
	assert_int_equal(onc_create(&config, &c), 0);
	assert_int_equal(onc_connect(c, (struct sockaddr *)&at, sizeof(at), on_done, &g), 0);
	onc_destroy(c);
	assert_int_equal(g.error, -ECANCELED);
	onc_destroy(NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_whatever_their_fragments),
		cmocka_unit_test(records_that_are_too_long),
		cmocka_unit_test(records_that_grow_too_long),
		cmocka_unit_test(accepted_replies),
		cmocka_unit_test(denied_replies),
		cmocka_unit_test(what_is_no_reply),
		cmocka_unit_test(calls_as_they_are_sent),
		cmocka_unit_test(replies_in_any_order),
		cmocka_unit_test(another_call_from_the_end_of_one),
		cmocka_unit_test(what_ends_one_call),
		cmocka_unit_test(what_ends_a_connection),
		cmocka_unit_test(replies_to_nothing_without_end),
		cmocka_unit_test(long_calls_and_replies),
		cmocka_unit_test(connects),
		cmocka_unit_test(connects_to_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
