/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_bracket.c - libstubcore/bracket.c: around a change, and around a sync */
#include <sys/xattr.h>

#include "front.h"

#define BLOCK FRONT_BLOCK
#define SIZE  (2000 * BLOCK)
#define WHO   7

static void list_file(struct fixture *x, bool dummy)
{
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, SIZE);

	e.dummy = dummy;
	fixture_list(x, &e, 1);
}

/* ---- open and close ---- */

static void test_what_is_no_stub_costs_nothing(void **state)
{
	struct fixture *x = *state;
	struct stub_front normal, none = { .gate = NULL }, *in[3];
	struct front_server s;
	struct stub_bracket b;

	front_server_init(&s, x);
	normal = front_of(&s, x, ".");
	normal.maybe = false;
	in[0] = &normal;
	in[1] = NULL;
	in[2] = &none;
	assert_int_equal(stub_bracket_begin(in, 3, &b), 0);
	assert_false(b.open);
	assert_int_equal(stub_bracket_end(&b, 0), 0);
	assert_int_equal(stub_bracket_end(&b, -EDOM), -EDOM);
	assert_int_equal(stub_bracket_look(&normal, &b), 0);
	assert_null(stub_change_missing(&b.c, 0));
	stub_bracket_drop(&b);
	assert_int_equal(s.entered, 0);
}

static void test_the_operation_counts(void **state)
{
	struct fixture *x = *state;
	struct stub_wait w = { 0 };
	struct front_server s;
	struct stub_bracket b;
	struct stub_front f;
	struct stub_view before, after;

	list_file(x, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	before = fixture_view(x, "file");
	assert_int_equal(stub_bracket_attrs(&f, &w, &b), 0);
	assert_true(b.open);
	assert_int_equal(stub_bracket_end(&b, -EDOM), -EDOM);
	assert_false(b.open);
	after = fixture_view(x, "file");
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(stub_bracket_attrs(&f, &w, &b), 0);
	assert_int_equal(stub_bracket_end(&b, 0), 0);
	after = fixture_view(x, "file");
	assert_true(stub_time_cmp(after.ctime, before.ctime) > 0);
	assert_false(w.begun);
	assert_int_equal(s.roots, 0);
}

static void test_attributes_come_first(void **state)
{
	struct fixture *x = *state;
	atomic_int said = -EREMOTEIO;
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_bracket b;
	struct stub_front f;

	list_file(x, true);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	front_retriever_start(&t, x, front_answer, &said);
	assert_int_equal(stub_bracket_attrs(&f, &w, &b), -EREMOTEIO);
	assert_false(b.open);
	assert_int_equal(stub_bracket_range(&f, &w, 0, 10, &b), -EREMOTEIO);
	assert_false(b.open);
	front_retriever_stop(&t);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.asked[0], STUB_ASK_ATTR);
}

static void test_one_inside_another_is_none(void **state)
{
	struct fixture *x = *state;
	struct stub_wait w = { 0 };
	struct stub_bracket outer, inner;
	struct front_server s;
	struct stub_front f;

	list_file(x, false);
	front_server_init(&s, x);
	s.gate.alone = true;
	f = front_of(&s, x, "file");
	assert_int_equal(stub_bracket_attrs(&f, &w, &outer), 0);
	assert_int_equal(s.gate.brackets, 1);
	assert_int_equal(stub_bracket_attrs(&f, &w, &inner), 0);
	assert_false(inner.open);
	assert_int_equal(stub_bracket_end(&inner, 0), 0);
	assert_int_equal(stub_bracket_range(&f, &w, 0, 10, &inner), 0);
	assert_false(inner.open);
	assert_int_equal(stub_bracket_range_end(&inner, &f, 0, 0, 10), 0);
	assert_int_equal(stub_bracket_look(&f, &inner), -EAGAIN);
	assert_int_equal(s.gate.brackets, 1);
	assert_int_equal(stub_bracket_end(&outer, 0), 0);
	assert_int_equal(s.gate.brackets, 0);
}

static void test_the_copy_of_a_stub_may_go(void **state)
{
	struct fixture *x = *state;
	uint8_t buf[STUB_RECORD_MAX];
	struct stub_front f, *in[1] = { &f };
	struct front_server s;
	struct stub_bracket b;
	char path[128];
	ssize_t n;

	front_server_init(&s, x);
	snprintf(path, sizeof(path), "%s/copy", x->dir);
	n = getxattr(x->dir, STUB_XATTR, buf, sizeof(buf));
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(setxattr(path, STUB_XATTR, buf, (size_t)n, 0), 0);
	f = front_of(&s, x, "copy");
	assert_int_equal(stub_bracket_begin(in, 1, &b), -EBADMSG);
	assert_false(b.open);
	stub_front_going(&f);
	assert_int_equal(stub_bracket_begin(in, 1, &b), 0);
	assert_int_equal(stub_bracket_end(&b, 0), 0);
}

/* ---- news ---- */

static void test_others_are_told_of_what_was_done(void **state)
{
	struct fixture *x = *state;
	struct stub_news_reader reader;
	struct stub_news news[4];
	struct stub_front f, *in[1] = { &f };
	struct stub_volume *fixture_v = x->v;
	struct front_server s;
	struct stub_bracket b;
	bool lost;

	list_file(x, false);
	assert_int_equal(stub_volume_open(x->dir, STUB_OPEN_NEWS, NULL, NULL, &x->v), 0);
	front_server_init(&s, x);
	stub_news_begin(x->v, &reader);
	f = front_of(&s, x, "file");
	for (int tells = 0; tells < 2; tells++) {
		s.gate.tells = tells;
		assert_int_equal(stub_bracket_begin(in, 1, &b), 0);
		stub_bracket_tells(&b, 0, STUB_NEWS_NAMES);
		assert_int_equal(stub_bracket_end(&b, -EDOM), -EDOM); /* nothing was done */
		assert_int_equal(stub_bracket_begin(in, 1, &b), 0);
		stub_bracket_tells(&b, 0, STUB_NEWS_NAMES);
		assert_int_equal(stub_bracket_end(&b, 0), 0);
		assert_int_equal(stub_news_wait(x->v, &reader, 0, news, 4, &lost), tells);
	}
	assert_int_equal(news[0].what, STUB_NEWS_NAMES);
	assert_true(stub_handle_equal(&news[0].h, &f.h));
	f.maybe = false; /* of normal objects too */
	stub_front_tell(&f);
	assert_int_equal(stub_news_wait(x->v, &reader, 0, news, 4, &lost), 1);
	assert_int_equal(news[0].what, STUB_NEWS_ATTRS);
	stub_volume_close(x->v);
	x->v = fixture_v;
}

/* ---- a range ---- */

static void test_a_range_is_the_clients(void **state)
{
	struct fixture *x = *state;
	struct stub_wait w = { 0 };
	struct stub_range missing;
	struct front_server s;
	struct stub_bracket b;
	struct stub_front f;

	list_file(x, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	assert_int_equal(stub_bracket_range(&f, &w, 0, BLOCK, &b), 0);
	assert_int_equal(stub_bracket_range_end(&b, &f, -EDOM, 0, BLOCK), -EDOM);
	assert_int_equal(stub_front_missing(&f, 0, BLOCK, &missing), 1);
	assert_int_equal(stub_bracket_range(&f, &w, 0, BLOCK, &b), 0);
	assert_int_equal(stub_bracket_range_end(&b, &f, 0, 0, 100), 0); /* a short write */
	assert_int_equal(stub_front_missing(&f, 0, BLOCK, &missing), 1);
	assert_int_equal(missing.start, 100);
}

/* A retriever that makes room, one range at a time. */
static int answer_room(void *arg, const struct stub_request *r)
{
	static const char block[BLOCK];
	struct fixture *x = arg;
	struct stub_object o;
	struct stub_map map;

	assert_int_equal(r->ask.kind, STUB_ASK_ROOM);
	assert_int_equal(stub_object_open(x->v, &r->ask.h, &o), 0);
	assert_true(stub_fill_room(x->v, &o, BLOCK, &map) > 0);
	assert_true(stub_fill_data(x->v, &o, map.r[0].start, block,
				   map.r[0].end - map.r[0].start) >= 0);
	stub_object_close(&o);
	return 0;
}

static void test_room_is_made(void **state)
{
	struct fixture *x = *state;
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_bracket b;
	struct stub_front f;
	unsigned int n;

	list_file(x, false);
	front_server_init(&s, x);
	s.gate.alone = true; /* counts them */
	f = front_of(&s, x, "file");
	n = front_fragment(&f);
	assert_true(n > 100);
	front_retriever_start(&t, x, answer_room, x);
	assert_int_equal(stub_bracket_range(&f, &w, (2 * n + 1) * BLOCK, BLOCK, &b), 0);
	assert_true(b.open);
	assert_int_equal(s.gate.brackets, 1);
	assert_int_equal(stub_bracket_range_end(&b, &f, 0, (2 * n + 1) * BLOCK, BLOCK), 0);
	assert_int_equal(s.gate.brackets, 0);
	front_retriever_stop(&t);
	assert_true(t.n >= 1);
}

static void test_room_that_is_not_made(void **state)
{
	struct fixture *x = *state;
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_bracket b;
	struct stub_front f;
	unsigned int n;
	atomic_int said = 0;

	list_file(x, false);
	front_server_init(&s, x);
	s.gate.alone = true;
	f = front_of(&s, x, "file");
	n = front_fragment(&f);
	front_retriever_start(&t, x, front_answer, &said);
	assert_int_equal(stub_bracket_range(&f, &w, (2 * n + 1) * BLOCK, BLOCK, &b), -EAGAIN);
	assert_in_range(front_retriever_asked(&t), 2, 63);
	said = -ENOSPC;
	assert_int_equal(stub_bracket_range(&f, &w, (2 * n + 1) * BLOCK, BLOCK, &b), -ENOSPC);
	assert_false(b.open);
	assert_int_equal(s.gate.brackets, 0);
	front_retriever_stop(&t);
}

static void test_room_is_asked_for_ahead(void **state)
{
	struct fixture *x = *state;
	struct stub_known known = { .normal = false };
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_bracket b;
	struct stub_front f;
	atomic_int said = 0;

	list_file(x, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	front_fragment(&f);
	f.known = &known;
	front_retriever_start(&t, x, front_answer, &said);
	for (int i = 0; i < 20; i++) { /* again and again in no time, as a rule */
		assert_int_equal(stub_bracket_range(&f, &w, BLOCK, BLOCK, &b), 0);
		assert_int_equal(stub_bracket_range_end(&b, &f, 0, BLOCK, BLOCK), 0);
		assert_true(known.room_asked != 0);
		known.room_asked = (int64_t)stub_now_ms() + 100000; /* a moment ago, however slow */
	}
	front_retriever_wait(&t);
	front_retriever_stop(&t);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.asked[0], STUB_ASK_ROOM);
}

/* ---- sync ---- */

static void test_a_write_that_may_be_lost_is_told_of(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	struct stub_front f;
	struct stub_sync sync;

	list_file(x, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	stub_sync_note(&f, WHO, stub_gate_era(&s.gate));
	assert_true(stub_sync_due(&s.gate));
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO + 1, &sync), 0); /* another's */
	assert_int_equal(stub_sync_end(&sync, 0), 0);
	assert_int_equal(stub_sync_begin(&s.gate, &f, NULL, WHO, &sync), 0); /* nobody's */
	assert_int_equal(stub_sync_end(&sync, 0), 0);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), -EIO);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), 0); /* it was told */
	assert_int_equal(stub_sync_end(&sync, 0), 0);
}

/* A client's sync that comes to nothing: its writes are still to be told of. */
static void test_a_sync_that_fails_takes_nothing(void **state)
{
	struct fixture *x = *state;
	uint64_t era;
	struct front_server s;
	struct stub_front f;
	struct stub_sync sync;
	char path[128];

	list_file(x, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	era = stub_gate_era(&s.gate);
	stub_sync_note(&f, WHO, era);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), 0);
	assert_int_equal(stub_sync_end(&sync, -EINTR), -EINTR);
	assert_int_equal(stub_gate_era(&s.gate), era); /* nothing was lost */
	assert_true(stub_sync_due(&s.gate));
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), 0);
	stub_sync_drop(&sync);
	assert_true(stub_sync_due(&s.gate));
	stub_sync_drop(&sync); /* of one that is over it is nothing */
	snprintf(path, sizeof(path), "%s/file", x->dir);
	assert_int_equal(setxattr(path, STUB_XATTR, "rubbish", 7, 0), 0);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), -EBADMSG);
	assert_true(stub_sync_due(&s.gate));
	assert_int_equal(removexattr(path, STUB_XATTR), 0);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), 0);
	assert_int_equal(stub_sync_end(&sync, 0), 0);
	assert_false(stub_sync_due(&s.gate));
}

static void test_a_sync_that_lost_data_begins_an_era(void **state)
{
	struct fixture *x = *state;
	uint64_t era;
	struct front_server s;
	struct stub_front f;
	struct stub_sync sync;

	list_file(x, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	era = stub_gate_era(&s.gate);
	stub_sync_note(&f, WHO, era);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), 0);
	assert_int_equal(stub_sync_end(&sync, -EIO), -EIO);
	assert_int_not_equal(stub_gate_era(&s.gate), era);
	assert_int_equal(stub_sync_begin(&s.gate, &f, &f.h, WHO, &sync), -EIO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_no_stub_costs_nothing),
		TEST(test_the_operation_counts),
		TEST(test_attributes_come_first),
		TEST(test_one_inside_another_is_none),
		TEST(test_the_copy_of_a_stub_may_go),
		TEST(test_others_are_told_of_what_was_done),
		TEST(test_a_range_is_the_clients),
		TEST(test_room_is_made),
		TEST(test_room_that_is_not_made),
		TEST(test_room_is_asked_for_ahead),
		TEST(test_a_write_that_may_be_lost_is_told_of),
		TEST(test_a_sync_that_fails_takes_nothing),
		TEST(test_a_sync_that_lost_data_begins_an_era),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
