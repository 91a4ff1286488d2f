// SPDX-License-Identifier: GPL-3.0-or-later
/* Calls of NFSv4 in one compound: which go together, and that each has an answer of its own. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs41_server.h"

#define N    12 /* what the crawler may have in flight on one connection of 16 */
#define SIZE 100

struct one {
	struct fixture *f;
	bool plain; /* that file */
	int64_t result;
	unsigned int times; /* it was answered */
};

struct fixture {
	struct nfs41_server server;
	struct source *source;
	struct nfs41_told told;
	char uri[128];
	pthread_mutex_t lock;
	struct one one[N];
	unsigned int answered;
	atomic_bool held; /* READs wait */
};

static const char *const versions[] = { "4.0", "4.1", "4.2" };

/* ---- the source ---- */

static struct fixture *start(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->told.lock, NULL);
	f->server.minor = 2;
	f->server.slots = 16;
	f->server.reply_max = NFS41_REPLY_MAX;
	f->server.ops_max = 16;
	f->server.lease_s = 90;
	f->server.size = SIZE;
	f->server.data[0] = (struct stub_range){ 0, SIZE };
	f->server.n_data = 1;
	nfs41_server_start(&f->server);
	return f;
}

static void stop_source(struct fixture *f)
{
	if (!f->source)
		return;
	source_stop(f->source);
	source_destroy(f->source);
	f->source = NULL;
}

static void end(struct fixture *f)
{
	stop_source(f);
	assert_int_equal(atomic_load(&f->server.wrong), 0);
	nfs41_server_stop(&f->server);
	free(f);
}

static void on_read(void *arg, const struct source_read *r)
{
	struct one *one = arg;
	bool right = r->result <= 0;

	if (r->result == SIZE)
		right = memchr(r->data, 1, SIZE) && !memchr(r->data, 0, SIZE) && r->have_attr &&
			r->attr.fileid == 3;
	pthread_mutex_lock(&one->f->lock);
	one->result = right ? r->result : -EBADMSG;
	one->times++;
	one->f->answered++;
	pthread_mutex_unlock(&one->f->lock);
}

static void read_all(struct fixture *f, enum source_priority p, uint32_t length)
{
	struct stub_origin with = { .len = 4, .bytes = "file" }, plain = { .len = 4, .bytes = "none" };

	f->answered = 0;
	for (int i = 0; i < N; i++) {
		f->one[i] = (struct one){ .f = f, .plain = f->one[i].plain };
		assert_int_equal(source_read(f->source, p, f->one[i].plain ? &plain : &with, 0, length,
					     on_read, &f->one[i]), 0);
	}
}

static bool all_answered(struct fixture *f)
{
	bool all;

	pthread_mutex_lock(&f->lock);
	all = f->answered >= N;
	pthread_mutex_unlock(&f->lock);
	return all;
}

/* Each of them once. */
static void wait_answers(struct fixture *f)
{
	for (int i = 0; i < 6000 && !all_answered(f); i++)
		usleep(10000);
	for (int i = 0; i < N; i++)
		assert_int_equal(f->one[i].times, 1);
}

static void all_have_come(struct fixture *f)
{
	wait_answers(f);
	for (int i = 0; i < N; i++)
		assert_int_equal(f->one[i].result, SIZE);
}

/* The calls are made while there is no connection, and so are all there when there is one. */
static void begin(struct fixture *f, const char *version, enum source_priority p, uint32_t length)
{
	struct source_config c = { .uri = f->uri,
				   .connections = 1,
				   .readdir_bytes = 65536,
				   .read_bytes = 65536,
				   .call_timeout_ms = 60000,
				   .inflight = 16,
				   .log = nfs41_take_log,
				   .log_arg = &f->told };

	snprintf(f->uri, sizeof(f->uri), "nfs://127.0.0.1:%u/e?version=%s", f->server.port, version);
	atomic_store(&f->server.hang_up, UINT_MAX);
	assert_int_equal(source_create(&c, &f->source), 0);
	read_all(f, p, length);
	atomic_store(&f->server.hang_up, 0);
}

/* ---- which go together ---- */

static void small_reads_go_together(void **state)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct fixture *f = start();

		begin(f, versions[i], SOURCE_BACKGROUND, SIZE);
		all_have_come(f);
		assert_int_equal(atomic_load(&f->server.together), 4);
		assert_int_equal(atomic_load(&f->server.messages), N / 4);
		assert_int_equal(atomic_load(&f->server.reads), N);
		end(f);
	}
}

static void what_clients_wait_for_goes_alone(void **state)
{
	struct fixture *f = start();

	begin(f, "4.1", SOURCE_DEMAND, SIZE);
	all_have_come(f);
	assert_int_equal(atomic_load(&f->server.together), 1);
	end(f);
}

static void no_more_than_the_server_takes(void **state)
{
	static const struct {
		uint32_t reply_max, ops_max, length;
		unsigned int together;
	} cases[] = {
		{ NFS41_REPLY_MAX, 16, 65536, 4 },
		{ NFS41_REPLY_MAX, 13, SIZE, 4 },
		{ NFS41_REPLY_MAX, 12, SIZE, 3 },
		{ NFS41_REPLY_MAX, 8, SIZE, 2 },
		{ NFS41_REPLY_LEAST, 16, 8192, 3 },
		{ NFS41_REPLY_LEAST, 16, 16384, 1 },
		{ NFS41_REPLY_LEAST, 16, 65536, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = start();

		f->server.reply_max = cases[i].reply_max;
		f->server.ops_max = cases[i].ops_max;
		begin(f, "4.1", SOURCE_BACKGROUND, cases[i].length);
		all_have_come(f);
		assert_int_equal(atomic_load(&f->server.together), cases[i].together);
		end(f);
	}
}

/* ---- what a reply says ---- */

#define CALLS 3

static struct {
	unsigned int times[CALLS], good, bad, silent;
	struct nfs_call call[CALLS];
} taken;

static void on_taken(struct nfs_call *c, const struct nfs_answer *a)
{
	taken.times[c - taken.call]++;
	taken.good += a && !a->error;
	taken.bad += a && a->error;
	taken.silent += !a;
	if (a && !a->error) {
		assert_int_equal(a->len, 4);
		assert_true(a->have_attr && a->attr.fileid == 10 + (unsigned int)(c - taken.call));
		assert_memory_equal(a->data, c == taken.call ? "0000" : c == taken.call + 1 ? "1111" :
										  "2222", 4);
	}
	memset(c, 0xee, sizeof(*c)); /* done() may free it */
}

static void take_all(struct nfs_conn *conn, const struct nfs4_out *o, struct nfs_answer *a)
{
	struct nfs4_bytes b = { o->bytes, o->len };

	memset(&taken, 0, sizeof(taken));
	for (int i = 0; i < CALLS; i++)
		taken.call[i] = (struct nfs_call){ .conn = conn,
						   .op = NFS_OP_READ,
						   .count = SIZE,
						   .with = i + 1 < CALLS ? &taken.call[i + 1] : NULL };
	nfs4_answers(NULL, taken.call, &b, a, on_taken);
}

static void put_read(struct nfs4_out *o, unsigned int i, uint32_t status)
{
	static const char *const text[] = { "0000", "1111", "2222" };
	struct nfs4_out v = { .len = 0 };

	nfs4_put32(o, NFS4_PUTFH);
	nfs4_put32(o, 0);
	nfs4_put32(o, NFS4_READ);
	nfs4_put32(o, status);
	if (status)
		return;
	nfs4_put32(o, 1);
	nfs4_put_opaque(o, text[i], 4);
	nfs4_put32(o, NFS4_GETATTR);
	nfs4_put32(o, 0);
	nfs4_put32(&v, NF3REG);
	nfs4_put64(&v, 4);
	nfs4_put64(&v, 1);
	nfs4_put64(&v, 0);
	nfs4_put64(&v, 10 + i);
	nfs4_put64(&v, 5);
	nfs4_put32(&v, 6);
	nfs4_put_bitmap(o, NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_SIZE) | NFS4_BIT(FATTR4_FSID) |
				   NFS4_BIT(FATTR4_FILEID) | NFS4_BIT(FATTR4_TIME_MODIFY));
	nfs4_put_opaque(o, v.bytes, v.len);
}

/* Of NFSv4.0, with the READ @fails (-1: none) ending it. */
static void reply_of(struct nfs4_out *o, int fails, uint32_t status)
{
	unsigned int n = fails < 0 ? CALLS : (unsigned int)fails;

	*o = (struct nfs4_out){ .len = 0 };
	nfs4_put32(o, status);
	nfs4_put32(o, 0);
	nfs4_put32(o, 3 * n + (fails < 0 ? 0 : 2));
	for (unsigned int i = 0; i < n; i++)
		put_read(o, i, 0);
	if (fails >= 0)
		put_read(o, n, status);
}

static void each_has_its_answer_once(void **state)
{
	struct nfs_conn conn = { .index = 0 };
	struct nfs_answer a;
	struct nfs4_out o;

	reply_of(&o, -1, 0);
	take_all(&conn, &o, &a);
	assert_int_equal(taken.good, CALLS);
	/* cut anywhere: one is bad, of those behind it nothing was said */
	for (uint32_t len = o.len - 4; len; len -= 4) {
		o.len = len;
		take_all(&conn, &o, &a);
		assert_int_equal(a.fault, NFS_FAULT_NONE);
		assert_int_equal(taken.bad, 1);
		assert_int_equal(taken.good + taken.silent, CALLS - 1);
		for (int i = 0; i < CALLS; i++)
			assert_int_equal(taken.times[i], 1);
	}
	for (int fails = 0; fails < CALLS; fails++) {
		reply_of(&o, fails, NFS4_EACCESS);
		take_all(&conn, &o, &a);
		assert_int_equal(taken.good, fails);
		assert_int_equal(taken.bad, 1);
		assert_int_equal(taken.silent, CALLS - 1 - fails);
		assert_false(conn.each_alone);
	}
	reply_of(&o, 0, NFS4_RESOURCE);
	take_all(&conn, &o, &a);
	assert_true(conn.each_alone);
	reply_of(&o, -1, NFS4_EIO); /* nothing failed, and all of it did */
	take_all(&conn, &o, &a);
	for (int i = 0; i < CALLS; i++)
		assert_int_equal(taken.times[i], 1);
}

/* ---- what becomes of them ---- */

static uint32_t plain_is_stale(struct nfs41_server *s, unsigned int nth, bool plain)
{
	(void)s;
	(void)nth;
	return plain ? NFS4_STALE : 0;
}

static void an_error_is_ones_own(void **state)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct fixture *f = start();

		f->server.read_status = plain_is_stale;
		for (int k = 0; k < N; k++)
			f->one[k].plain = k % 5 == 1;
		begin(f, versions[i], SOURCE_BACKGROUND, SIZE);
		wait_answers(f);
		for (int k = 0; k < N; k++)
			assert_int_equal(f->one[k].result, k % 5 == 1 ? -ESTALE : SIZE);
		assert_int_equal(atomic_load(&f->server.together), 4);
		end(f);
	}
}

static uint32_t not_among_others(struct nfs41_server *s, unsigned int nth, bool plain)
{
	(void)plain;
	return nth > 1 ? s->page : 0;
}

static void a_server_that_takes_one_at_a_time(void **state)
{
	static const uint32_t says[] = { NFS4_RESOURCE, NFS4_TOO_MANY_OPS, NFS4_REP_TOO_BIG };

	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		struct fixture *f = start();

		f->server.read_status = not_among_others;
		f->server.page = says[i]; /* not needed for else */
		begin(f, "4.1", SOURCE_BACKGROUND, SIZE);
		all_have_come(f);
		atomic_store(&f->server.together, 0);
		read_all(f, SOURCE_BACKGROUND, SIZE);
		all_have_come(f);
		assert_int_equal(atomic_load(&f->server.together), 1);
		end(f);
	}
}

static uint32_t waits(struct nfs41_server *s, unsigned int nth, bool plain)
{
	struct fixture *f = (struct fixture *)s; /* its first member */

	(void)nth;
	(void)plain;
	while (atomic_load(&f->held))
		usleep(1000);
	return 0;
}

/* Calls are in flight: the server has one compound, and others are on their way. */
static struct fixture *in_flight(const char *version)
{
	struct fixture *f = start();

	f->server.read_status = waits;
	atomic_store(&f->held, true);
	begin(f, version, SOURCE_BACKGROUND, SIZE);
	for (int i = 0; i < 6000 && !atomic_load(&f->server.together); i++)
		usleep(10000);
	return f;
}

static void no_answer_to_them_is_an_answer(void **state)
{
	struct fixture *f;

	for (int what = 0; what < 5; what++) {
		unsigned int before;

		f = in_flight("4.1");
		before = atomic_load(&f->server.sessions);
		atomic_store(what == 0 ? &f->server.lose :
			     what == 1 ? &f->server.garble :
			     what == 2 ? &f->server.hang_up :
			     what == 3 ? &f->server.refuse :
					 &f->server.later, 1);
		atomic_store(&f->held, false);
		all_have_come(f);
		/* what is refused, or later, ends no session */
		assert_int_equal(atomic_load(&f->server.sessions), before + (what < 3));
		end(f);
	}
}

static void an_end_ends_them_all(void **state)
{
	struct fixture *f = in_flight("4.0");

	source_stop(f->source);
	wait_answers(f);
	for (int i = 0; i < N; i++)
		assert_int_equal(f->one[i].result, -ECANCELED);
	atomic_store(&f->held, false);
	source_destroy(f->source);
	f->source = NULL;
	end(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_reads_go_together),
		cmocka_unit_test(what_clients_wait_for_goes_alone),
		cmocka_unit_test(no_more_than_the_server_takes),
		cmocka_unit_test(each_has_its_answer_once),
		cmocka_unit_test(an_error_is_ones_own),
		cmocka_unit_test(a_server_that_takes_one_at_a_time),
		cmocka_unit_test(no_answer_to_them_is_an_answer),
		cmocka_unit_test(an_end_ends_them_all),
	};

	return cmocka_run_group_tests_name("nfs4_answer", tests, NULL, NULL);
}
