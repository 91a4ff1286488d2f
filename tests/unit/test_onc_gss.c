// SPDX-License-Identifier: GPL-3.0-or-later
/* test_onc_gss.c - RPCSEC_GSS: retriever/rpc against a server with the real GSSAPI */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "onc_peer.h"
#include "stubcore.h"

#define WINDOW 4

static struct peer_realm realm;

struct got {
	unsigned int times;
	int error;
	char text[128], why[ONC_WHY_MAX];
};

static void on_done(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	struct got *g = arg;

	assert_int_equal(g->times++, 0);
	g->error = error;
	memset(g->text, 0, sizeof(g->text));
	if (results && results->len)
		memcpy(g->text, results->data,
		       results->len < sizeof(g->text) ? results->len : sizeof(g->text) - 1);
	snprintf(g->why, sizeof(g->why), "%s", why ? why : "");
}

struct world {
	struct onc_conn *c;
	struct peer_server s;
};

static struct world make(enum onc_service service, uint32_t window)
{
	const struct onc_config config = {
		.program = 100003, .version = 4, .reply_max = 1 << 20, .flavor = ONC_GSS,
		.service = service, .begin = peer_begin, .arg = &realm,
	};
	struct world w = { .s = { .realm = &realm, .window = window } };
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(onc_create(&config, &w.c), 0);
	onc_attach(w.c, fd[0]);
	w.s.fd = fd[1];
	return w;
}

static void end(struct world *w)
{
	onc_destroy(w->c);
	peer_server_free(&w->s);
	close(w->s.fd);
}

static int turn(struct onc_conn *c)
{
	struct pollfd p = { .fd = onc_fd(c), .events = onc_events(c) };

	assert_true(poll(&p, 1, 0) >= 0);
	return onc_service(c, p.revents);
}

/* Until both ends are quiet. */
static int settle(struct world *w)
{
	struct pollfd p = { .fd = onc_fd(w->c) };
	int e;

	do {
		e = turn(w->c);
		while (!peer_is_quiet(w->s.fd))
			peer_serve(&w->s);
		p.events = onc_events(w->c);
	} while (!e && poll(&p, 1, 0) > 0);
	return e;
}

static void call(struct world *w, const char *args, struct got *g)
{
	assert_int_equal(onc_call(w->c, 1, args, strlen(args), on_done, g), 0);
}

/* ---- the usual ---- */

static void calls_and_replies(enum onc_service service)
{
	struct world w = make(service, WINDOW);
	struct got g[3] = { 0 };

	call(&w, "HAL.HAL.", &g[0]);
	call(&w, "HAL2", &g[1]);
	assert_int_equal(onc_call(w.c, 2, NULL, 0, on_done, &g[2]), 0);
	assert_int_equal(settle(&w), 0);
	assert_string_equal(g[0].text, "IBM/IBM/");
	assert_string_equal(g[1].text, "IBM3");
	for (int i = 0; i < 3; i++)
		assert_int_equal(g[i].error, 0);
	assert_int_equal(w.s.inits, 1);
	assert_int_equal(w.s.datas, 3);
	assert_true(onc_is_secure(w.c));
	/* at the end the server hears of it */
	onc_destroy(w.c);
	w.c = NULL;
	assert_false(peer_is_quiet(w.s.fd));
	peer_serve(&w.s);
	assert_int_equal(w.s.destroys, 1);
	end(&w);
}

static void authentic(void **state)
{
	calls_and_replies(ONC_AUTHENTIC);
}

static void integrity(void **state)
{
	calls_and_replies(ONC_INTEGRITY);
}

static void privacy(void **state)
{
	calls_and_replies(ONC_PRIVACY);
}

static void on_wire_it_is(enum onc_service service, bool readable)
{
	struct world w = make(service, WINDOW);
	struct got g[2] = { 0 };
	struct peer_call p;

	call(&w, "first", &g[0]);
	assert_int_equal(settle(&w), 0);
	call(&w, "SECRET OF THE HOUSE.", &g[1]);
	assert_int_equal(turn(w.c), 0);
	peer_read(w.s.fd, &p);
	assert_int_equal(p.service, service);
	assert_int_equal(p.seq, 2);
	assert_true((memmem(p.record, p.len, "SECRET", 6) != NULL) == readable);
	peer_answer(&w.s, &p);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g[1].error, 0);
	end(&w);
}

static void what_is_on_the_wire(void **state)
{
	on_wire_it_is(ONC_AUTHENTIC, true);
	on_wire_it_is(ONC_INTEGRITY, true);
	on_wire_it_is(ONC_PRIVACY, false);
}

/* NULL has no credentials, and waits for nothing. */
static void null_needs_no_context(void **state)
{
	struct world w = make(ONC_INTEGRITY, WINDOW);
	struct got g = { 0 };

	assert_int_equal(onc_call(w.c, 0, NULL, 0, on_done, &g), 0);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g.error, 0);
	assert_int_equal(g.times, 1);
	assert_int_equal(w.s.inits, 0);
	assert_false(onc_is_secure(w.c));
	/* and one that is asked for comes without a call */
	g.times = 0;
	onc_secure(w.c, on_done, &g);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g.times, 1);
	assert_int_equal(g.error, 0);
	assert_true(onc_is_secure(w.c));
	assert_int_equal(w.s.datas, 0);
	end(&w);
}

/* ---- the window ---- */

static void no_call_beyond_the_window(void **state)
{
	struct world w = make(ONC_INTEGRITY, WINDOW);
	struct got g[8] = { 0 };
	struct peer_call p[8];

	call(&w, "zero", &g[0]);
	assert_int_equal(settle(&w), 0);
	for (int i = 1; i < 8; i++)
		call(&w, "call", &g[i]);
	assert_int_equal(turn(w.c), 0);
	for (int i = 1; i <= WINDOW; i++) {
		peer_read(w.s.fd, &p[i]);
		assert_int_equal(p[i].seq, i + 1);
	}
	assert_true(peer_is_quiet(w.s.fd));
	/* and no processor time is used up meanwhile */
	assert_int_equal(onc_events(w.c), POLLIN);
	/* others are answered, the oldest is not: nothing may be sent still */
	w.s.last_seq = 2;
	peer_answer(&w.s, &p[2]);
	peer_answer(&w.s, &p[3]);
	assert_int_equal(turn(w.c), 0);
	assert_int_equal(g[2].times + g[3].times, 2);
	assert_true(peer_is_quiet(w.s.fd));
	w.s.last_seq = 1;
	peer_answer(&w.s, &p[1]);
	assert_int_equal(turn(w.c), 0);
	for (int i = 5; i < 8; i++) {
		peer_read(w.s.fd, &p[i]);
		assert_int_equal(p[i].seq, i + 1);
	}
	peer_answer(&w.s, &p[4]);
	for (int i = 5; i < 8; i++)
		peer_answer(&w.s, &p[i]);
	assert_int_equal(settle(&w), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(g[i].error, 0);
	end(&w);
}

static void a_window_of_one(void **state)
{
	struct world w = make(ONC_AUTHENTIC, 1);
	struct got g[5] = { 0 };

	for (int i = 0; i < 5; i++)
		call(&w, "call", &g[i]);
	assert_int_equal(settle(&w), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(g[i].error, 0);
	assert_int_equal(w.s.last_seq, 5);
	end(&w);
}

/* ---- contexts that end ---- */

static void forgotten(uint32_t auth_stat)
{
	struct world w = make(ONC_PRIVACY, WINDOW);
	struct got g[4] = { 0 };

	call(&w, "HAL0", &g[0]);
	assert_int_equal(settle(&w), 0);
	w.s.deny = auth_stat;
	w.s.denials = 3;
	for (int i = 1; i < 4; i++)
		call(&w, "HAL0", &g[i]);
	assert_int_equal(settle(&w), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(g[i].error, 0);
		assert_string_equal(g[i].text, "IBM1");
	}
	assert_int_equal(w.s.inits, 2); /* one for all three */
	end(&w);
}

static void a_context_that_the_server_has_forgotten(void **state)
{
	forgotten(ONC_CREDPROBLEM);
	forgotten(ONC_CTXPROBLEM);
}

/* Calls are not sent for ever, and no context is made for ever. */
static void a_server_that_takes_no_context(void **state)
{
	struct world w = make(ONC_INTEGRITY, WINDOW);
	struct got g = { 0 };

	w.s.deny = ONC_CTXPROBLEM;
	w.s.denials = 1000;
	call(&w, "call", &g);
	assert_int_equal(settle(&w), -EKEYREJECTED);
	assert_int_equal(g.times, 0);
	assert_int_equal(w.s.inits, 1);
	end(&w);
	assert_int_equal(g.error, -ECANCELED);
}

static void another_denial_is_the_calls_own(void **state)
{
	struct world w = make(ONC_INTEGRITY, WINDOW);
	struct got g[2] = { 0 };

	w.s.deny = ONC_AUTH_TOOWEAK;
	w.s.denials = 1;
	call(&w, "call", &g[0]);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g[0].error, -EACCES);
	call(&w, "call", &g[1]);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g[1].error, 0);
	assert_int_equal(w.s.inits, 1);
	end(&w);
}

/* Half of its life is over: another one is made, while this one serves. */
static void renewed_in_time(void **state)
{
	struct world w = make(ONC_INTEGRITY, WINDOW);
	struct got g[3] = { 0 };

	call(&w, "call", &g[0]);
	assert_int_equal(settle(&w), 0);
	w.c->now->begun_ms = 0;
	w.c->now->ends_ms = stub_now_ms() + 1000;
	w.c->retry_ms = 0;
	call(&w, "call", &g[1]);
	assert_int_equal(turn(w.c), 0); /* INIT, and the call with the old one */
	while (!peer_is_quiet(w.s.fd)) {
		struct peer_call p;

		peer_read(w.s.fd, &p);
		if (p.gss_procedure == ONC_GSS_INIT)
			w.s.inits++;
		else
			assert_int_equal(p.seq, 2);
		peer_free(&p);
	}
	assert_int_equal(w.s.inits, 2);
	end(&w);
	assert_int_equal(g[1].error, -ECANCELED);
	/* once more, to the end */
	w = make(ONC_INTEGRITY, WINDOW);
	memset(g, 0, sizeof(g));
	call(&w, "call", &g[0]);
	assert_int_equal(settle(&w), 0);
	w.c->now->seq = ONC_SEQ_MAX - 1;
	w.s.last_seq = 0;
	call(&w, "call", &g[1]);
	assert_int_equal(settle(&w), 0);
	w.c->retry_ms = 0;
	call(&w, "call", &g[2]);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g[1].error, 0);
	assert_int_equal(g[2].error, 0);
	assert_int_equal(w.s.inits, 2);
	assert_int_equal(w.s.last_seq, 1);
	end(&w);
}

/* ---- who lies ---- */

static int with_lie(enum onc_service service, struct peer_server lie, struct got *g)
{
	struct world w = make(service, WINDOW);
	int e;

	lie.fd = w.s.fd;
	lie.realm = &realm;
	lie.window = lie.window ? lie.window : WINDOW;
	w.s = lie;
	memset(g, 0, sizeof(*g));
	call(&w, "call", g);
	e = settle(&w);
	end(&w);
	assert_int_equal(g->times, 1);
	return e;
}

static void replies_that_are_not_the_servers(void **state)
{
	static const struct {
		enum onc_service service;
		struct peer_server lie;
	} lies[] = {
		{ ONC_AUTHENTIC, { .forge_verifier = true } },
		{ ONC_INTEGRITY, { .forge_verifier = true } },
		{ ONC_PRIVACY, { .forge_verifier = true } },
		{ ONC_INTEGRITY, { .wrong_seq = true } },
		{ ONC_PRIVACY, { .wrong_seq = true } },
		{ ONC_INTEGRITY, { .forge_body = true } },
		{ ONC_PRIVACY, { .forge_body = true } },
		{ ONC_PRIVACY, { .not_encrypted = true } },
	};
	struct got g;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		assert_int_equal(with_lie(lies[i].service, lies[i].lie, &g), 0);
		assert_int_equal(g.error, -EBADMSG);
		assert_string_equal(g.why, "Message rejected by server");
		assert_string_equal(g.text, "");
	}
}

static void a_server_that_does_not_prove_itself(void **state)
{
	struct got g;

	assert_int_equal(with_lie(ONC_INTEGRITY, (struct peer_server){ .forge_init = true }, &g),
			 -EKEYREJECTED);
	assert_int_equal(g.error, -ECANCELED);
}

/* Its reply to INIT is whatever. */
static int init_with(const struct onc_out *o, struct got *g, char *why, size_t size)
{
	struct world w = make(ONC_INTEGRITY, WINDOW);
	struct onc_out reply = { 0 };
	struct peer_call p;
	int e;

	memset(g, 0, sizeof(*g));
	call(&w, "call", g);
	assert_int_equal(turn(w.c), 0);
	peer_read(w.s.fd, &p);
	assert_int_equal(p.gss_procedure, ONC_GSS_INIT);
	onc_put32(&reply, p.xid);
	onc_put_raw(&reply, o->data, o->len);
	peer_send_record(w.s.fd, &reply);
	peer_free(&p);
	onc_out_free(&reply);
	e = settle(&w);
	snprintf(why, size, "%s", onc_why(w.c));
	end(&w);
	return e;
}

static void put_init(struct onc_out *o, const char *handle, uint32_t major, uint32_t window,
		     const char *token)
{
	o->len = 0;
	onc_put32(o, ONC_REPLY);
	onc_put32(o, 0);
	onc_put_auth_none(o);
	onc_put32(o, ONC_SUCCESS);
	onc_put_opaque(o, handle, strlen(handle));
	onc_put32(o, major);
	onc_put32(o, 0);
	onc_put32(o, window);
	onc_put_opaque(o, token, strlen(token));
}

static void refused_at_once(void **state)
{
	struct onc_out o = { 0 };
	char why[ONC_WHY_MAX];
	struct got g;

	put_init(&o, "", GSS_S_FAILURE, 0, "");
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EKEYREJECTED);
	assert_non_null(strstr(why, "the server refuses the Kerberos ticket"));
	put_init(&o, "", GSS_S_COMPLETE, 10, ""); /* it has said nothing of itself */
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EKEYREJECTED);
	put_init(&o, "h", GSS_S_CONTINUE_NEEDED, 10, ""); /* nor is there more to say */
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EKEYREJECTED);
	put_init(&o, "h", GSS_S_COMPLETE, 10, "no token of Kerberos");
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EKEYREJECTED);
	o.len -= 4; /* it ends too early */
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EBADMSG);
	o.len = 0;
	onc_put32(&o, ONC_REPLY);
	onc_put32(&o, 1);
	onc_put32(&o, 1);
	onc_put32(&o, 2);
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EKEYREJECTED);
	assert_non_null(strstr(why, "authentication error 2"));
	o.len = 0;
	onc_put32(&o, ONC_REPLY);
	onc_put32(&o, 0);
	onc_put_auth_none(&o);
	onc_put32(&o, ONC_PROG_UNAVAIL);
	assert_int_equal(init_with(&o, &g, why, sizeof(why)), -EKEYREJECTED);
	assert_int_equal(g.error, -ECANCELED);
	onc_out_free(&o);
}

static int no_ticket(void *arg, struct onc_begun *out, char *why, size_t size)
{
	snprintf(why, size, "no ticket today");
	return *(int *)arg;
}

static void nothing_to_begin_with(void **state)
{
	int error = -EHOSTUNREACH;
	struct world w = make(ONC_PRIVACY, WINDOW);
	struct got g[3] = { 0 };

	w.c->config.begin = no_ticket;
	w.c->config.arg = &error;
	call(&w, "call", &g[0]);
	assert_int_equal(settle(&w), -EHOSTUNREACH);
	assert_string_equal(onc_why(w.c), "no ticket today");
	end(&w);
	assert_int_equal(g[0].error, -ECANCELED);
	/* one that is in use is used on */
	w = make(ONC_PRIVACY, WINDOW);
	call(&w, "call", &g[1]);
	assert_int_equal(settle(&w), 0);
	w.c->config.begin = no_ticket;
	w.c->config.arg = &error;
	w.c->now->begun_ms = 0;
	w.c->now->ends_ms = stub_now_ms() + 3600000;
	w.c->now->seq = ONC_SEQ_MAX / 2 + 1;
	w.c->retry_ms = 0;
	call(&w, "call", &g[2]);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(g[2].error, 0);
	assert_true(w.c->retry_ms > stub_now_ms());
	/* until it ends */
	w.c->now->ends_ms = 1;
	g[2].times = 0;
	call(&w, "call", &g[2]);
	assert_int_equal(settle(&w), -EHOSTUNREACH);
	end(&w);
}

/* ---- parts ---- */

static void parts_that_are_too_short(void **state)
{
	struct onc_bytes a, b;
	struct onc_out o = { 0 };

	onc_put_opaque(&o, "12345678", 8);
	onc_put_opaque(&o, "mic", 3);
	for (size_t len = 0; len <= o.len; len++) {
		uint8_t *copy = malloc(len ? len : 1);
		const struct onc_bytes in = { copy, len };

		memcpy(copy, o.data, len);
		assert_int_equal(onc_split_integrity(&in, &a, &b), len == o.len ? 0 : -EBADMSG);
		assert_int_equal(onc_split_privacy(&in, &a), len == 12 ? 0 : -EBADMSG);
		free(copy);
	}
	a = (struct onc_bytes){ (const uint8_t *)"\0\0\0\7rest", 8 };
	assert_int_equal(onc_take_seq(&a, 7, &b), 0);
	assert_int_equal(b.len, 4);
	assert_int_equal(onc_take_seq(&a, 8, &b), -EBADMSG);
	a.len = 7;
	assert_int_equal(onc_take_seq(&a, 7, &b), -EBADMSG);
	a.len = 0;
	assert_int_equal(onc_take_seq(&a, 0, &b), -EBADMSG);
	onc_out_free(&o);
}

static int make_realm(void **state)
{
	peer_realm_make(&realm, 3600);
	return 0;
}

static int free_realm(void **state)
{
	peer_realm_free(&realm);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(authentic),
		cmocka_unit_test(integrity),
		cmocka_unit_test(privacy),
		cmocka_unit_test(what_is_on_the_wire),
		cmocka_unit_test(null_needs_no_context),
		cmocka_unit_test(no_call_beyond_the_window),
		cmocka_unit_test(a_window_of_one),
		cmocka_unit_test(a_context_that_the_server_has_forgotten),
		cmocka_unit_test(a_server_that_takes_no_context),
		cmocka_unit_test(another_denial_is_the_calls_own),
		cmocka_unit_test(renewed_in_time),
		cmocka_unit_test(replies_that_are_not_the_servers),
		cmocka_unit_test(a_server_that_does_not_prove_itself),
		cmocka_unit_test(refused_at_once),
		cmocka_unit_test(nothing_to_begin_with),
		cmocka_unit_test(parts_that_are_too_short),
	};

	return cmocka_run_group_tests(tests, make_realm, free_realm);
}
