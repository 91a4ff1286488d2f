// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nfs41.c - sessions of NFSv4.1: retriever/nfs/nfs41_*.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs41_server.h"

#define SLOTS 4

/* ---- bytes: making a session ---- */

static void begin(struct nfs4_out *o, uint32_t status, uint32_t results)
{
	*o = (struct nfs4_out){ .len = 0 };
	nfs4_put32(o, status);
	nfs4_put_opaque(o, "tag", 3);
	nfs4_put32(o, results);
}

static void put_result(struct nfs4_out *o, enum nfs4_op op, uint32_t status)
{
	nfs4_put32(o, op);
	nfs4_put32(o, status);
}

static struct nfs4_reply reply_of(const struct nfs4_out *o, uint32_t len)
{
	struct nfs4_bytes b = { o->bytes, len };
	struct nfs4_reply r;

	nfs4_open(&b, &r);
	return r;
}

static void a_client_says_who_it_is(void **state)
{
	static const uint8_t expected[] = { 0, 0, 0, 42, 1, 2, 3, 4, 5,	  6,   7, 8, 0, 0,
					    0, 2, 'm', 'e', 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t verifier[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	char a[NFS_OWNER_MAX], b[NFS_OWNER_MAX];
	struct nfs4_out o;

	nfs4_begin(&o);
	nfs4_minor(&o, 1);
	assert_memory_equal(o.bytes, "\0\0\0\0\0\0\0\1", 8);
	nfs41_put_exchange(&o, "me", verifier);
	assert_int_equal(o.len, 12 + sizeof(expected));
	assert_memory_equal(o.bytes + 12, expected, sizeof(expected));
	/* two sources of one process, and their connections, are different clients */
	nfs41_owner(a, 3);
	nfs41_owner(b, 3);
	assert_string_not_equal(a, b);
	assert_int_equal(strncmp(a, "postcopy ", 9), 0);
}

static void put_exchanged(struct nfs4_out *o, uint32_t protection)
{
	begin(o, 0, 1);
	put_result(o, NFS4_EXCHANGE_ID, 0);
	nfs4_put64(o, UINT64_C(0x1122334455667788));
	nfs4_put32(o, 9);
	nfs4_put32(o, 0);
	nfs4_put32(o, protection);
	nfs4_put64(o, 1);
	nfs4_put_opaque(o, "major", 5);
	nfs4_put_opaque(o, "scope", 5);
	nfs4_put32(o, 0);
}

static void what_exchange_id_answers(void **state)
{
	struct nfs41_session s = { 0 };
	struct nfs4_reply r;
	struct nfs4_out o;
	uint32_t sequence;

	put_exchanged(&o, 0);
	r = reply_of(&o, o.len);
	assert_int_equal(nfs41_get_exchange(&r, &s, &sequence), 0);
	assert_true(s.client == UINT64_C(0x1122334455667788));
	assert_int_equal(sequence, 9);
	for (uint32_t len = 0; len < o.len - 4; len += 4) { /* cut; the last word is left unread */
		r = reply_of(&o, len);
		assert_int_equal(nfs41_get_exchange(&r, &s, &sequence), -EBADMSG);
	}
	put_exchanged(&o, 1); /* protection that nobody asked for */
	r = reply_of(&o, o.len);
	assert_int_equal(nfs41_get_exchange(&r, &s, &sequence), -EBADMSG);
	begin(&o, NFS4_MINOR_VERS_MISMATCH, 0);
	r = reply_of(&o, o.len);
	assert_int_equal(nfs41_get_exchange(&r, &s, &sequence), NFS4_MINOR_VERS_MISMATCH);
}

struct channel {
	uint32_t call, reply, ops, slots, rdma;
};

static void put_channel(struct nfs4_out *o, const struct channel *c)
{
	nfs4_put32(o, 0);
	nfs4_put32(o, c->call);
	nfs4_put32(o, c->reply);
	nfs4_put32(o, 0);
	nfs4_put32(o, c->ops);
	nfs4_put32(o, c->slots);
	nfs4_put32(o, c->rdma);
	if (c->rdma == 1)
		nfs4_put32(o, 7);
}

static const char id[16] = "session's number";

static void put_created(struct nfs4_out *o, const struct channel *c)
{
	begin(o, 0, 1);
	put_result(o, NFS4_CREATE_SESSION, 0);
	nfs4_put_fixed(o, id, 16);
	nfs4_put32(o, 9);
	nfs4_put32(o, 0);
	put_channel(o, c);
	put_channel(o, c);
}

static int created(const struct channel *c, uint32_t sequence, struct nfs41_session *s,
		   const char **why)
{
	struct nfs4_reply r;
	struct nfs4_out o;

	put_created(&o, c);
	r = reply_of(&o, o.len);
	return nfs41_get_create(&r, s, sequence, 16, why);
}

static const struct channel usual = { 8192, NFS41_REPLY_MAX, 16, SLOTS, 0 };

static void a_session_is_what_the_server_grants(void **state)
{
	struct channel c = { 8192, 65536, 10, 1000000, 0 };
	struct nfs41_session s;
	const char *why;

	assert_int_equal(created(&usual, 9, &s, &why), 0);
	assert_null(why);
	assert_memory_equal(s.id, id, 16);
	assert_int_equal(s.slots, SLOTS);
	assert_int_equal(nfs41_fit(&s, NFS_READ_MAX), NFS_READ_MAX); /* in one piece */
	assert_int_equal(nfs41_fit(NULL, NFS_READ_MAX), NFS_READ_MAX);
	assert_int_equal(created(&c, 9, &s, &why), 0);
	assert_null(why);
	assert_int_equal(s.slots, 16); /* not more than were asked for */
	assert_int_equal(s.ops_max, 10);
	assert_int_equal(nfs41_fit(&s, NFS_READ_MAX), 65536 - NFS41_BESIDE_BYTES);
	assert_int_equal(nfs41_fit(&s, 4096), 4096);
	c.rdma = 1;
	assert_int_equal(created(&c, 9, &s, &why), 0);
	assert_int_equal(s.slots, 16);
}

static void sessions_of_no_use_are_refused(void **state)
{
	static const struct channel bad[] = {
		{ 8192, NFS41_REPLY_LEAST - 1, 16, SLOTS, 0 },
		{ NFS41_CALL_LEAST - 1, 65536, 16, SLOTS, 0 },
		{ 8192, 65536, NFS41_OPS_LEAST - 1, SLOTS, 0 },
		{ 8192, 65536, 16, 0, 0 },
	};
	struct channel odd = usual;
	struct nfs41_session s;
	struct nfs4_reply r;
	struct nfs4_out o;
	const char *why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(created(&bad[i], 9, &s, &why), 0);
		assert_non_null(why);
	}
	assert_int_equal(created(&usual, 8, &s, &why), -EBADMSG); /* of another request */
	odd.rdma = 2;
	assert_int_equal(created(&odd, 9, &s, &why), -EBADMSG);
	put_created(&o, &usual);
	for (uint32_t len = 0; len < o.len; len += 4) {
		r = reply_of(&o, len);
		assert_int_equal(nfs41_get_create(&r, &s, 9, 16, &why), -EBADMSG);
	}
}

/* ---- bytes: slots ---- */

static void session(struct nfs41_session *s)
{
	const char *why;

	assert_int_equal(created(&usual, 9, s, &why), 0);
}

static uint32_t word(const struct nfs4_out *o, uint32_t at)
{
	struct nfs4_in in = { o->bytes + at, 4, false };

	return nfs4_get32(&in);
}

/* Behind the operation: the session's 16 bytes, sequence, slot, highest, cache. */
static uint32_t sent(struct nfs41_session *s, uint32_t *sequence, uint32_t *highest)
{
	struct nfs4_out o = { .len = 0 };
	uint32_t slot = nfs41_put_sequence(&o, s);

	assert_int_equal(o.len, 4 + 16 + 16);
	assert_int_equal(word(&o, 0), 53);
	assert_memory_equal(o.bytes + 4, id, 16);
	assert_int_equal(word(&o, 24), slot - 1);
	assert_int_equal(word(&o, 32), 0); /* never to be kept */
	*sequence = word(&o, 20);
	*highest = word(&o, 28);
	return slot;
}

struct said { /* what a server answers to SEQUENCE */
	const char *id;
	uint32_t sequence, slot, target, flags;
};

static int taken(struct nfs41_session *s, uint32_t slot, const struct said *a)
{
	struct nfs4_reply r;
	struct nfs4_out o;

	begin(&o, 0, 1);
	put_result(&o, NFS4_SEQUENCE, 0);
	nfs4_put_fixed(&o, a->id, 16);
	nfs4_put32(&o, a->sequence);
	nfs4_put32(&o, a->slot);
	nfs4_put32(&o, SLOTS - 1);
	nfs4_put32(&o, a->target);
	nfs4_put32(&o, a->flags);
	r = reply_of(&o, o.len);
	assert_int_equal(nfs41_pass_sequence(&r), 0);
	r = reply_of(&o, o.len);
	return nfs41_take_sequence(&r, s, slot);
}

static int failed(struct nfs41_session *s, uint32_t slot, uint32_t status)
{
	struct nfs4_reply r;
	struct nfs4_out o;

	begin(&o, status, 1);
	put_result(&o, NFS4_SEQUENCE, status);
	r = reply_of(&o, o.len);
	return nfs41_take_sequence(&r, s, slot);
}

static void each_slot_counts_its_calls(void **state)
{
	uint32_t sequence, highest;
	struct nfs41_session s;

	session(&s);
	for (uint32_t i = 1; i <= SLOTS; i++) {
		assert_true(nfs41_has_slot(&s));
		assert_int_equal(sent(&s, &sequence, &highest), i);
		assert_int_equal(sequence, 1);
		assert_int_equal(highest, i - 1);
	}
	assert_false(nfs41_has_slot(&s));
	assert_int_equal(taken(&s, 3, &(struct said){ id, 1, 2, SLOTS - 1, 0 }), 0);
	assert_int_equal(sent(&s, &sequence, &highest), 3);
	assert_int_equal(sequence, 2);
	assert_int_equal(highest, SLOTS - 1);
	/* what SEQUENCE refuses does not count, nor what was not sent */
	assert_int_equal(failed(&s, 3, NFS4_DELAY), NFS4_DELAY);
	assert_int_equal(sent(&s, &sequence, &highest), 3);
	assert_int_equal(sequence, 2);
	nfs41_unsent(&s, 3);
	assert_int_equal(sent(&s, &sequence, &highest), 3);
	assert_int_equal(sequence, 2);
	/* numbers go round */
	s.slot[2].sequence = UINT32_MAX;
	assert_int_equal(taken(&s, 3, &(struct said){ id, UINT32_MAX, 2, SLOTS - 1, 0 }), 0);
	assert_int_equal(sent(&s, &sequence, &highest), 3);
	assert_int_equal(sequence, 0);
}

static void answers_to_other_calls_are_none(void **state)
{
	static const struct said lies[] = {
		{ id, 2, 0, SLOTS - 1, 0 }, /* the next number */
		{ id, 0, 0, SLOTS - 1, 0 },
		{ id, 1, 1, SLOTS - 1, 0 }, /* another slot, */
		{ id, 1, 1000000, SLOTS - 1, 0 }, /* and one that there is not */
		{ id, 1, UINT32_MAX, SLOTS - 1, 0 },
		{ "another session.", 1, 0, SLOTS - 1, 0 },
	};
	uint32_t sequence, highest;
	struct nfs41_session s;
	struct nfs4_reply r;
	struct nfs4_out o;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		session(&s);
		sent(&s, &sequence, &highest);
		assert_int_equal(taken(&s, 1, &lies[i]), -EBADMSG);
	}
	session(&s);
	assert_int_equal(taken(&s, 1, &(struct said){ id, 1, 0, 3, 0 }), -EBADMSG); /* unasked */
	sent(&s, &sequence, &highest);
	begin(&o, 0, 1);
	put_result(&o, NFS4_PUTFH, 0); /* another operation */
	r = reply_of(&o, o.len);
	assert_int_equal(nfs41_take_sequence(&r, &s, 1), -EBADMSG);
	assert_int_equal(taken(&s, 1, &(struct said){ id, 1, 0, 3, 0 }), 0);
}

static void the_server_says_how_many_slots(void **state)
{
	uint32_t sequence, highest;
	struct nfs41_session s;

	session(&s);
	for (int i = 0; i < 3; i++)
		sent(&s, &sequence, &highest);
	assert_int_equal(taken(&s, 1, &(struct said){ id, 1, 0, 1, 0 }), 0);
	assert_int_equal(sent(&s, &sequence, &highest), 1);
	assert_false(nfs41_has_slot(&s)); /* the third is busy still, the fourth not wanted */
	assert_int_equal(highest, 2);
	assert_int_equal(taken(&s, 2, &(struct said){ id, 1, 1, UINT32_MAX, 0 }), 0);
	assert_true(nfs41_has_slot(&s));
	assert_int_equal(taken(&s, 1, &(struct said){ id, 2, 0, 0, 0 }), 0);
	assert_true(nfs41_has_slot(&s)); /* one is the least */
	assert_int_equal(sent(&s, &sequence, &highest), 1);
	assert_false(nfs41_has_slot(&s));
}

static void a_restart_is_told_once(void **state)
{
	struct said a = { id, 1, 0, SLOTS - 1, 0x100 };
	uint32_t sequence, highest;
	struct nfs41_session s;

	session(&s);
	for (; a.sequence < 4; a.sequence++) { /* from the beginning: it is for who was here */
		sent(&s, &sequence, &highest);
		assert_int_equal(taken(&s, 1, &a), 0);
	}
	a.flags = 0xff & ~0x100; /* of state that we have not */
	sent(&s, &sequence, &highest);
	assert_int_equal(taken(&s, 1, &a), 0);
	a.sequence++;
	a.flags = 0x100;
	sent(&s, &sequence, &highest);
	assert_int_equal(taken(&s, 1, &a), NFS4_DEADSESSION);
	assert_true(nfs41_is_lost(NFS4_DEADSESSION));
	assert_false(nfs41_is_lost(0) || nfs41_is_lost(NFS4_DELAY) || nfs41_is_lost(NFS4_EIO));
}

/* ---- calls ---- */

/* What GETATTR of a call on a session answers. */
static struct nfs_answer answer(struct nfs41_session *s, const struct nfs4_out *o)
{
	struct nfs_conn conn = { .session = s };
	struct nfs_call c = { .op = NFS_OP_GETATTR, .conn = &conn, .slot = 1 };
	struct nfs4_bytes b = { o->bytes, o->len };
	struct nfs_answer a = { 0 };

	nfs4_answer(NULL, &c, &b, &a);
	return a;
}

static void what_becomes_of_a_call(void **state)
{
	static const struct {
		uint32_t status;
		enum nfs_fault fault;
		int error;
	} cases[] = {
		{ NFS4_BADSESSION, NFS_FAULT_SESSION, -EIO },
		{ NFS4_DEADSESSION, NFS_FAULT_SESSION, -EIO },
		{ NFS4_STALE_CLIENTID, NFS_FAULT_SESSION, -EIO },
		{ NFS4_SEQ_MISORDERED, NFS_FAULT_SESSION, -EIO },
		{ NFS4_SEQ_FALSE_RETRY, NFS_FAULT_SESSION, -EIO },
		{ NFS4_BADSLOT, NFS_FAULT_SESSION, -EIO },
		{ NFS4_MINOR_VERS_MISMATCH, NFS_FAULT_SESSION, -EIO },
		{ NFS4_DELAY, NFS_FAULT_NONE, -EAGAIN },
		{ 10066, NFS_FAULT_NONE, -EIO }, /* REP_TOO_BIG: the call's own */
	};
	uint32_t sequence, highest;
	struct nfs41_session s;
	struct nfs_answer a;
	struct nfs4_out o;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		session(&s);
		sent(&s, &sequence, &highest);
		begin(&o, cases[i].status, 1);
		put_result(&o, NFS4_SEQUENCE, cases[i].status);
		a = answer(&s, &o);
		assert_int_equal(a.fault, cases[i].fault);
		assert_int_equal(a.error, cases[i].error);
		assert_false(a.have_attr);
		assert_true(nfs41_has_slot(&s));
	}
	session(&s);
	sent(&s, &sequence, &highest);
	begin(&o, NFS4_STALE, 1); /* without SEQUENCE */
	put_result(&o, NFS4_PUTFH, NFS4_STALE);
	a = answer(&s, &o);
	assert_int_equal(a.fault, NFS_FAULT_GARBAGE);
}

/* ---- with a server ---- */

struct fixture {
	struct nfs41_server server;
	struct source *source;
	struct nfs41_told told;
	char uri[128];
};

static struct source_config config_of(struct fixture *f, const char *version)
{
	snprintf(f->uri, sizeof(f->uri), "nfs://127.0.0.1:%u/e?version=%s", f->server.port, version);
	return (struct source_config){ .uri = f->uri,
				       .connections = 1,
				       .readdir_bytes = 65536,
				       .call_timeout_ms = 60000,
				       .inflight = 16,
				       .log = nfs41_take_log,
				       .log_arg = &f->told };
}

static struct fixture *start(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->server.minor = 1;
	f->server.slots = SLOTS;
	f->server.reply_max = NFS41_REPLY_MAX;
	f->server.ops_max = 16;
	f->server.lease_s = 90;
	pthread_mutex_init(&f->told.lock, NULL);
	nfs41_server_start(&f->server);
	return f;
}

static void end(struct fixture *f)
{
	if (f->source) {
		source_stop(f->source);
		source_destroy(f->source);
	}
	assert_int_equal(atomic_load(&f->server.wrong), 0);
	nfs41_server_stop(&f->server);
	free(f);
}

static void ask(struct fixture *f)
{
	struct stub_origin root;
	struct stub_attr a;

	assert_int_equal(source_root(f->source, &root, &a), 0);
	assert_int_equal(a.fileid, 2);
	assert_int_equal(root.len, 4);
}

static void wait_for(atomic_uint *n, unsigned int least)
{
	for (int i = 0; i < 6000 && atomic_load(n) < least; i++)
		usleep(10000);
	assert_true(atomic_load(n) >= least);
}

static void a_connection_has_its_session(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");

	assert_int_equal(source_create(&c, &f->source), 0);
	ask(f);
	source_stop(f->source);
	source_destroy(f->source);
	f->source = NULL;
	/* that of the walk to the root, and the connection's; both are given back */
	assert_int_equal(atomic_load(&f->server.sessions), 2);
	assert_int_equal(atomic_load(&f->server.destroyed), 2);
	assert_int_equal(atomic_load(&f->server.clients_destroyed), 2);
	end(f);
}

static void an_end_is_not_waited_for_long(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");
	uint64_t begun;

	assert_int_equal(source_create(&c, &f->source), 0);
	ask(f);
	atomic_store(&f->server.mute, true);
	begun = stub_now_ms();
	source_stop(f->source);
	source_destroy(f->source);
	f->source = NULL;
	assert_true(stub_now_ms() - begun < 30000); /* call_timeout is twice that */
	assert_int_equal(atomic_load(&f->server.destroyed), 2);
	assert_int_equal(atomic_load(&f->server.clients_destroyed), 1); /* the walk's */
	end(f);
}

static void *ask_often(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < 25; i++)
		ask(f);
	return NULL;
}

static void no_more_calls_than_slots(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");
	pthread_t t[8];

	f->server.slots = 2;
	assert_int_equal(source_create(&c, &f->source), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&t[i], NULL, ask_often, f), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	assert_true(atomic_load(&f->server.most) <= 2);
	end(f);
}

static void a_lost_session_is_nobodys_fault(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");
	unsigned int before;

	assert_int_equal(source_create(&c, &f->source), 0);
	ask(f);
	before = atomic_load(&f->server.sessions);
	atomic_store(&f->server.lose, 1);
	ask(f); /* as if nothing had been */
	assert_true(atomic_load(&f->server.sessions) > before);
	assert_true(nfs41_was_told(&f->told, "the server has dropped the session"));
	assert_true(nfs41_was_told(&f->told, "connection 0 is back"));
	end(f);
}

static void what_happens_to_sessions(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");

	assert_int_equal(source_create(&c, &f->source), 0);
	ask(f);
	atomic_store(&f->server.later, 2); /* of the session, in no object's name */
	ask(f);
	assert_int_equal(atomic_load(&f->server.sessions), 2);
	atomic_store(&f->server.garble, 1);
	ask(f);
	assert_int_equal(atomic_load(&f->server.sessions), 3);
	assert_true(nfs41_was_told(&f->told, "SEQUENCE is of another call"));
	atomic_store(&f->server.hang_up, 1);
	ask(f);
	assert_int_equal(atomic_load(&f->server.sessions), 4);
	atomic_store(&f->server.flags, 0x100); /* it has restarted */
	ask(f);
	ask(f);
	assert_int_equal(atomic_load(&f->server.sessions), 5);
	end(f);
}

/* RPC's refusals: SEQUENCE was not looked at, and its slot may be used again. */
static void a_call_that_is_refused_gives_its_slot_back(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");
	struct stub_origin root;
	struct stub_attr a;

	f->server.slots = 2;
	assert_int_equal(source_create(&c, &f->source), 0);
	ask(f);
	atomic_store(&f->server.refuse, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(source_root(f->source, &root, &a), -EBADMSG);
	ask(f);
	assert_int_equal(atomic_load(&f->server.sessions), 2); /* it is the same session */
	end(f);
}

static void leases_are_kept(void **state)
{
	struct fixture *f = start();
	struct source_config c = config_of(f, "4.1");

	f->server.lease_s = 1;
	assert_int_equal(source_create(&c, &f->source), 0);
	ask(f);
	wait_for(&f->server.alone, 2);
	atomic_store(&f->server.lose, 1); /* met while idle */
	wait_for(&f->server.sessions, 3);
	assert_true(nfs41_idle_ms(&(struct nfs41_session){ .lease_s = 60 }) == NFS_PING_MS);
	assert_true(nfs41_idle_ms(&(struct nfs41_session){ .lease_s = 30 }) == 10000);
	assert_true(nfs41_idle_ms(&(struct nfs41_session){ .lease_s = 0 }) == NFS_PING_MS);
	assert_true(nfs41_idle_ms(NULL) == NFS_PING_MS);
	end(f);
}

static void servers_that_do_not_fit_are_refused(void **state)
{
	struct fixture *f = start();
	struct source_config c;
	char why[NFS_WHY_MAX];

	c = config_of(f, "4.1");
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), 0);
	f->server.reply_max = 8192;
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "ca_maxresponsesize"));
	f->server.minor = 0;
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "127.0.0.1 has no NFSv4.1"));
	end(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_says_who_it_is),
		cmocka_unit_test(what_exchange_id_answers),
		cmocka_unit_test(a_session_is_what_the_server_grants),
		cmocka_unit_test(sessions_of_no_use_are_refused),
		cmocka_unit_test(each_slot_counts_its_calls),
		cmocka_unit_test(answers_to_other_calls_are_none),
		cmocka_unit_test(the_server_says_how_many_slots),
		cmocka_unit_test(a_restart_is_told_once),
		cmocka_unit_test(what_becomes_of_a_call),
		cmocka_unit_test(a_connection_has_its_session),
		cmocka_unit_test(an_end_is_not_waited_for_long),
		cmocka_unit_test(no_more_calls_than_slots),
		cmocka_unit_test(a_lost_session_is_nobodys_fault),
		cmocka_unit_test(what_happens_to_sessions),
		cmocka_unit_test(a_call_that_is_refused_gives_its_slot_back),
		cmocka_unit_test(leases_are_kept),
		cmocka_unit_test(servers_that_do_not_fit_are_refused),
	};

	return cmocka_run_group_tests_name("nfs41", tests, NULL, NULL);
}
