// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nfs42.c - what NFSv4.2 tells more: retriever/nfs/nfs42_*.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nfs/nfs42.h"
#include "nfs41_server.h"

#define MIB   (UINT64_C(1) << 20)
#define TIB   (UINT64_C(1) << 40)
#define GRAIN 65536u

static const struct stub_origin file = { 4, "file" };

/* ---- with a server ---- */

struct told {
	pthread_mutex_t lock;
	char text[8192];
};

static void take_log(void *arg, enum stub_log_level level, const char *line)
{
	struct told *t = arg;

	pthread_mutex_lock(&t->lock);
	strncat(t->text, line, sizeof(t->text) - strlen(t->text) - 2);
	strcat(t->text, "\n");
	pthread_mutex_unlock(&t->lock);
}

struct fixture {
	struct nfs41_server server;
	struct source *source;
	struct told told;
	char uri[128];
};

static struct fixture *start(const char *version)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct source_config c = { .uri = f->uri,
				   .connections = 1,
				   .readdir_bytes = 65536,
				   .call_timeout_ms = 60000,
				   .inflight = 16,
				   .log = take_log,
				   .log_arg = &f->told };

	f->server.minor = 2;
	f->server.slots = 16;
	f->server.reply_max = NFS41_REPLY_MAX;
	f->server.ops_max = 16;
	f->server.lease_s = 90;
	pthread_mutex_init(&f->told.lock, NULL);
	nfs41_server_start(&f->server);
	snprintf(f->uri, sizeof(f->uri), "nfs://127.0.0.1:%u/e?version=%s", f->server.port, version);
	assert_int_equal(source_create(&c, &f->source), 0);
	return f;
}

static bool was_told(struct fixture *f, const char *what)
{
	bool there;

	pthread_mutex_lock(&f->told.lock);
	there = strstr(f->told.text, what);
	pthread_mutex_unlock(&f->told.lock);
	return there;
}

static void end(struct fixture *f)
{
	source_stop(f->source);
	source_destroy(f->source);
	assert_int_equal(atomic_load(&f->server.wrong), 0);
	nfs41_server_stop(&f->server);
	free(f);
}

/* ---- holes ---- */

static int ask(struct fixture *f, uint64_t from, struct source_holes *h)
{
	return source_holes(f->source, SOURCE_BACKGROUND, &file, from, h);
}

static void terabytes_cost_some_questions(void **state)
{
	struct fixture *f = start("4.2");
	struct source_holes h;

	f->server.size = 16 * TIB;
	f->server.data[0] = (struct stub_range){ MIB, 2 * MIB };
	f->server.data[1] = (struct stub_range){ 2 * MIB + GRAIN, 3 * MIB }; /* behind a small hole */
	f->server.data[2] = (struct stub_range){ 8 * TIB, 8 * TIB + 4096 };
	f->server.n_data = 3;
	for (int i = 0; i < 2; i++) {
		f->server.no_end = i; /* two ways to say that no data comes any more */
		assert_int_equal(ask(f, 0, &h), 0);
		assert_int_equal(h.n, 3);
		assert_true(h.hole[0].start == 0 && h.hole[0].end == MIB);
		assert_true(h.hole[1].start == 3 * MIB && h.hole[1].end == 8 * TIB);
		assert_true(h.hole[2].start == 8 * TIB + 4096 && h.hole[2].end == 16 * TIB);
		assert_true(h.end == 16 * TIB);
		assert_int_equal(h.attr.fileid, 3);
		assert_true(h.attr.size == 16 * TIB);
		free(h.hole);
	}
	assert_true(atomic_load(&f->server.seeks) <= 2 * 10);
	assert_true(atomic_load(&f->server.reads) <= 2 * 6);
	assert_int_equal(ask(f, 9 * TIB, &h), 0); /* from the middle on */
	assert_int_equal(h.n, 1);
	assert_true(h.hole[0].start == 9 * TIB && h.hole[0].end == 16 * TIB);
	free(h.hole);
	end(f);
}

static void files_without_holes(void **state)
{
	struct fixture *f = start("4.2");
	struct source_holes h;

	f->server.size = 64 * MIB;
	f->server.data[0] = (struct stub_range){ 0, 64 * MIB };
	f->server.n_data = 1;
	assert_int_equal(ask(f, 0, &h), 0);
	assert_int_equal(h.n, 0);
	assert_true(h.end == 64 * MIB);
	assert_int_equal(atomic_load(&f->server.seeks), 1);
	free(h.hole);
	/* in many pieces: not all of them are looked at */
	f->server.n_data = 60;
	for (unsigned int i = 0; i < 60; i++)
		f->server.data[i] = (struct stub_range){ 2 * i * GRAIN, (2 * i + 1) * GRAIN };
	f->server.size = 64 * MIB;
	atomic_store(&f->server.seeks, 0);
	assert_int_equal(ask(f, 0, &h), 0);
	assert_int_equal(h.n, 0);
	assert_true(h.end > 0 && h.end < 64 * MIB);
	assert_true(atomic_load(&f->server.seeks) <= 64);
	free(h.hole);
	assert_int_equal(ask(f, 64 * MIB, &h), -EOPNOTSUPP); /* nothing is there */
	free(h.hole);
	end(f);
}

static void who_cannot_tell_is_read(void **state)
{
	static const uint32_t refusals[] = { NFS4_NOTSUPP, NFS4_OP_ILLEGAL, NFS4_UNION_NOTSUPP,
					     NFS4_BAD_STATEID, NFS4_INVAL };
	struct fixture *f = start("4.2");
	struct source_holes h;

	f->server.size = 64 * MIB;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		f->server.seek_status = refusals[i];
		assert_int_equal(ask(f, 0, &h), -EOPNOTSUPP);
		free(h.hole);
	}
	f->server.seek_status = NFS4_EIO;
	assert_int_equal(ask(f, 0, &h), -EIO);
	free(h.hole);
	f->server.seek_status = 0; /* another file may be on another file system */
	assert_int_equal(ask(f, 0, &h), 0);
	assert_int_equal(h.n, 1);
	free(h.hole);
	end(f);
	f = start("4.1");
	f->server.size = 64 * MIB;
	assert_int_equal(ask(f, 0, &h), -EOPNOTSUPP);
	assert_null(h.hole);
	assert_int_equal(atomic_load(&f->server.seeks), 0);
	end(f);
}

/* @set: how it lies; it is asked no more then. */
static void lies(void (*set)(struct nfs41_server *s), const char *why)
{
	struct fixture *f = start("4.2");
	struct source_holes h;
	unsigned int seeks;

	f->server.size = 64 * MIB;
	f->server.data[0] = (struct stub_range){ 32 * MIB, 48 * MIB };
	f->server.n_data = 1;
	set(&f->server);
	assert_int_equal(ask(f, 8 * MIB, &h), -EOPNOTSUPP);
	free(h.hole);
	assert_true(was_told(f, why));
	seeks = atomic_load(&f->server.seeks);
	assert_int_equal(ask(f, 8 * MIB, &h), -EOPNOTSUPP);
	assert_int_equal(atomic_load(&f->server.seeks), seeks);
	end(f);
}

static void goes_back(struct nfs41_server *s)
{
	s->back = true;
}

static void is_both(struct nfs41_server *s)
{
	s->both = true;
}

static void has_data(struct nfs41_server *s)
{
	s->liar = true;
}

static void what_makes_no_sense_is_not_believed(void **state)
{
	lies(goes_back, "its holes go backwards");
	lies(is_both, "what is a hole is data, too");
	lies(has_data, "there is data where it says that there is none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terabytes_cost_some_questions),
		cmocka_unit_test(files_without_holes),
		cmocka_unit_test(who_cannot_tell_is_read),
		cmocka_unit_test(what_makes_no_sense_is_not_believed),
	};

	return cmocka_run_group_tests_name("nfs42", tests, NULL, NULL);
}
