/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_need.c - libstubcore/need.c: what is asked for next, and when that ends */
#include <sys/xattr.h>

#include "front.h"

#define SIZE 100000

/* One step: what is asked for, or the end of it. */
static int step(struct stub_front *f, struct stub_need *n, int result, struct stub_ask *ask)
{
	int r;

	memset(ask, 0, sizeof(*ask));
	r = stub_need_step(f, n, result, ask);
	if (r > 0) {
		assert_int_equal(r, 1);
		assert_true(stub_handle_equal(&ask->h, &f->h));
	}
	return r;
}

/* A step that asks for @kind. */
#define ASSERT_ASKS(f, n, result, ask, k)                        \
	do {                                                     \
		assert_int_equal(step(f, n, result, ask), 1);    \
		assert_int_equal((ask)->kind, k);                \
	} while (0)

static void list_one(struct fixture *x, const char *name, mode_t mode, bool dummy)
{
	struct stub_entry e = fixture_entry(name, mode, S_ISREG(mode) ? SIZE : 0);

	e.dummy = dummy;
	fixture_list(x, &e, 1);
}

/* The root is listed, but for "dev". */
static void list_refusing(struct fixture *x)
{
	struct stub_entry e = fixture_entry("dev", S_IFCHR | 0600, 0);
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	size_t bad;

	e.attr.rdev_major = 1u << 20;
	assert_int_equal(stub_list_batch(x->v, x->j, &o, &e, 1, &refused, &bad), 0);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
	stub_object_close(&o);
}

/* A directory with the record of the root, as a backup would make it. */
static struct stub_front make_copy(struct front_server *s, struct fixture *x)
{
	char from[128], to[128];
	uint8_t buf[STUB_RECORD_MAX];
	ssize_t n;

	snprintf(from, sizeof(from), "%s", x->dir);
	snprintf(to, sizeof(to), "%s/copy", x->dir);
	assert_int_equal(mkdir(to, 0755), 0);
	n = getxattr(from, STUB_XATTR, buf, sizeof(buf));
	assert_true(n > 0);
	assert_int_equal(setxattr(to, STUB_XATTR, buf, (size_t)n, 0), 0);
	return front_of(s, x, "copy");
}

/* ---- looking ---- */

static void test_normal_is_never_looked_at_again(void **state)
{
	struct fixture *x = *state;
	struct stub_known known = { .normal = false };
	struct stub_need need = { .what = STUB_NEED_ATTRS };
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	list_one(x, "file", S_IFREG | 0644, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "."); /* listed and finished */
	f.known = &known;
	assert_int_equal(step(&f, &need, 0, &a), 0);
	assert_int_equal(need.view.needs, 0);
	assert_true(known.normal);
	assert_false(f.maybe);
	assert_int_equal(s.entered, 1);
	for (enum stub_need_what w = STUB_NEED_ATTRS; w <= STUB_NEED_DATA; w++) {
		struct stub_need again = { .what = w, .name = "x", .length = 10 };

		assert_int_equal(step(&f, &again, 0, &a), w == STUB_NEED_NAME ? -ENOENT : 0);
	}
	assert_int_equal(s.entered, 1);
	assert_int_equal(s.roots, 0);
}

static void test_a_damaged_record_is_neither(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	struct stub_ask a;
	char path[128];

	list_one(x, "file", S_IFREG | 0644, false);
	front_server_init(&s, x);
	snprintf(path, sizeof(path), "%s/file", x->dir);
	assert_int_equal(setxattr(path, STUB_XATTR, "rubbish", 7, 0), 0);
	for (enum stub_need_what w = STUB_NEED_ATTRS; w <= STUB_NEED_DATA; w++) {
		struct stub_need need = { .what = w, .name = "x", .length = 10 };
		struct stub_front f = front_of(&s, x, "file");

		assert_int_equal(step(&f, &need, 0, &a), -EBADMSG);
		assert_true(f.maybe);
	}
}

/* ---- attributes ---- */

static void test_attrs(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_ATTRS };
	struct front_server s;
	struct stub_object o;
	struct stub_entry e;
	struct stub_front f;
	struct stub_ask a;

	list_one(x, "file", S_IFREG | 0644, true);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_ATTR);
	assert_int_equal(stub_object_open(x->v, &f.h, &o), 0);
	e = fixture_entry("file", S_IFREG | 0644, SIZE);
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, NULL, 0, NULL), 0);
	stub_object_close(&o);
	assert_int_equal(step(&f, &need, 0, &a), 0);
	assert_int_equal(need.view.needs, STUB_NEEDS_DATA);
	assert_int_equal(need.view.mtime.tv_sec, e.attr.mtime.tv_sec);
}

static void test_answers_that_change_nothing_end(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_ATTRS };
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;
	int r, n = 0;

	list_one(x, "file", S_IFREG | 0644, true);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	while ((r = step(&f, &need, 0, &a)) > 0)
		assert_true(n++ < 100);
	assert_int_equal(r, -EAGAIN);
	assert_true(n > 1);
}

static void test_what_an_ask_fails_with_is_the_end(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	list_one(x, "file", S_IFREG | 0644, true);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	for (int i = 0; i < 3; i++) {
		static const int errors[] = { -EREMOTEIO, -EAGAIN, -ENOSPC };
		struct stub_need need = { .what = STUB_NEED_ATTRS };

		ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_ATTR);
		assert_int_equal(step(&f, &need, errors[i], &a), errors[i]);
	}
}

/* ---- names ---- */

static void test_entries(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_ENTRIES }, full = need;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = front_of(&s, x, ".");
	ASSERT_ASKS(&f, &full, 0, &a, STUB_ASK_LIST);
	assert_int_equal(step(&f, &full, -ENOSPC, &a), -ENOSPC); /* no other way */
	ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_LIST);
	list_one(x, "file", S_IFREG | 0644, false);
	assert_int_equal(step(&f, &need, 0, &a), 0);
}

static void test_leave(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = front_of(&s, x, ".");
	for (int i = 0; i < 4; i++) {
		/* of the look-up that comes when the volume is full, and what follows */
		static const struct { int answer, result; } name[] = {
			{ -ENOENT, 0 }, { -EREMOTEIO, -EREMOTEIO }, { -ENOSPC, -ENOSPC }, { 0, 1 } };
		struct stub_need need = { .what = STUB_NEED_LEAVE, .name = "file" };

		ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_LIST);
		ASSERT_ASKS(&f, &need, i % 2 ? -ENOSPC : -EDQUOT, &a, STUB_ASK_LOOKUP);
		assert_int_equal(a.name_len, 4);
		assert_memory_equal(a.name, "file", 4);
		assert_int_equal(step(&f, &need, name[i].answer, &a), name[i].result);
		if (name[i].result <= 0)
			continue;
		assert_int_equal(a.kind, STUB_ASK_LEAVE);
		ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_LEAVE);
		assert_int_equal(step(&f, &need, -ENOSPC, &a), -ENOSPC);
	}
}

static void test_leave_what_was_listed_meanwhile(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_LEAVE, .name = "file" };
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = front_of(&s, x, ".");
	ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_LIST);
	list_one(x, "file", S_IFREG | 0644, false);
	assert_int_equal(step(&f, &need, -ENOSPC, &a), 0);
}

static void test_gone(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_GONE }, broken = need, refused = need;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = front_of(&s, x, ".");
	ASSERT_ASKS(&f, &broken, 0, &a, STUB_ASK_LIST);
	assert_int_equal(step(&f, &broken, -EIO, &a), -EIO);
	ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_LIST);
	ASSERT_ASKS(&f, &need, -EDQUOT, &a, STUB_ASK_LEAVE);
	list_refusing(x);
	assert_int_equal(step(&f, &need, 0, &a), -ENOTEMPTY);
	assert_int_equal(step(&f, &refused, 0, &a), -ENOTEMPTY);
}

static void test_name(void **state)
{
	static const int answers[] = { 0, -ENOENT, -EREMOTEIO, -EAGAIN };
	struct fixture *x = *state;
	struct front_server s;
	char long_name[STUB_NAME_MAX + 2];
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = front_of(&s, x, ".");
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct stub_need need = { .what = STUB_NEED_NAME, .name = "name" };

		ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_LOOKUP);
		assert_int_equal(a.name_len, 4);
		assert_int_equal(step(&f, &need, answers[i], &a), answers[i]);
	}
	memset(long_name, 'l', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (int i = 0; i < 3; i++) {
		const char *const none[] = { ".", "..", long_name };
		struct stub_need need = { .what = STUB_NEED_NAME, .name = none[i] };

		assert_int_equal(step(&f, &need, 0, &a), -ENOENT);
	}
}

/* Who asks has not found it, and it may have come with all others since. */
static void test_name_in_a_directory_that_was_listed_meanwhile(void **state)
{
	struct fixture *x = *state;
	struct stub_need file = { .what = STUB_NEED_NAME, .name = "file" }, other = file,
			 dev = { .what = STUB_NEED_NAME, .name = "dev" };
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	list_refusing(x);
	f = front_of(&s, x, ".");
	assert_int_equal(step(&f, &file, 0, &a), 0);
	assert_int_equal(step(&f, &dev, 0, &a), -EREMOTEIO);
	other.name = "never";
	assert_int_equal(step(&f, &other, 0, &a), 0);
}

static void test_the_copy_of_a_stub(void **state)
{
	static const int wanted[] = { [STUB_NEED_ATTRS] = 0,	      [STUB_NEED_ENTRIES] = -EBADMSG,
				      [STUB_NEED_LEAVE] = -EBADMSG, [STUB_NEED_GONE] = 0,
				      [STUB_NEED_NAME] = -EBADMSG,  [STUB_NEED_DATA] = -EBADMSG };
	struct fixture *x = *state;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = make_copy(&s, x);
	for (unsigned int w = STUB_NEED_ATTRS; w <= STUB_NEED_DATA; w++) {
		struct stub_need need = { .what = w, .name = "x", .length = 10 };

		assert_int_equal(step(&f, &need, 0, &a), wanted[w]);
	}
	assert_true(f.maybe);
	stub_front_going(&f);
	assert_false(f.maybe);
}

/* A file that was only looked up, in a directory nobody has listed. */
static void test_strands(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, SIZE);
	struct stub_object o = fixture_root(x);
	struct front_server s;
	struct stub_front dir, file, *in[1] = { &file };
	struct stub_bracket b;
	char from[128], to[128];

	assert_int_equal(stub_make_entry(x->v, &o, &e), 0);
	stub_object_close(&o);
	front_server_init(&s, x);
	dir = front_of(&s, x, ".");
	file = front_of(&s, x, "file");
	assert_false(stub_front_strands(&dir, &file)); /* it goes with its name */
	snprintf(from, sizeof(from), "%s/file", x->dir);
	snprintf(to, sizeof(to), "%s/kept", x->dir);
	assert_int_equal(stub_bracket_begin(in, 1, &b), 0);
	assert_int_equal(link(from, to), 0);
	stub_change_links(&b.c, 0, 1);
	assert_int_equal(stub_bracket_end(&b, 0), 0);
	assert_true(stub_front_strands(&dir, &file));
	file.maybe = false;
	assert_false(stub_front_strands(&dir, &file));
	file.maybe = true;
	fixture_list(x, &e, 1);
	assert_false(stub_front_strands(&dir, &file)); /* it is in the journal */
}

/* ---- data ---- */

static void fill(struct fixture *x, const struct stub_handle *h, uint64_t offset, size_t len)
{
	static const char bytes[SIZE];
	struct stub_object o;

	assert_int_equal(stub_object_open(x->v, h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, offset, bytes, len) >= 0);
	stub_object_close(&o);
}

static void test_data_that_comes_in_parts(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_DATA, .offset = 1000, .length = 50000 };
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	list_one(x, "file", S_IFREG | 0644, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_DATA);
	assert_int_equal(a.offset, 1000);
	assert_int_equal(a.length, 50000);
	assert_string_equal(a.who, "tester@127.0.0.1");
	for (uint64_t at = 0; at < 50000; at += 1000) { /* more often than what does not move */
		fill(x, &f.h, at, 1000);
		ASSERT_ASKS(&f, &need, 0, &a, STUB_ASK_DATA);
		assert_int_equal(a.offset, at + 1000);
		assert_int_equal(a.offset + a.length, 51000);
	}
	fill(x, &f.h, 50000, 1000);
	assert_int_equal(step(&f, &need, 0, &a), 0);
	assert_true(stub_need_stands(&f, &need));
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_false(stub_need_stands(&f, &need)); /* it may be gone */
}

static void test_data_that_does_not_come(void **state)
{
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_DATA, .length = 10 }, denied = need, none = need,
			 behind = need;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;
	int r, n = 0;

	list_one(x, "file", S_IFREG | 0644, false);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	while ((r = step(&f, &need, 0, &a)) > 0)
		assert_true(n++ < 100);
	assert_int_equal(r, -EAGAIN);
	s.gate.denied = true;
	assert_int_equal(step(&f, &denied, 0, &a), -EACCES);
	none.length = 0;
	assert_int_equal(step(&f, &none, 0, &a), 0);
	behind.offset = INT64_MAX;
	behind.length = UINT64_MAX;
	assert_int_equal(step(&f, &behind, 0, &a), 0);
	fill(x, &f.h, 0, 10);
	assert_int_equal(step(&f, &denied, 0, &a), 0); /* what is here may be read */
}

/* ---- waiting ---- */

/* A retriever for which the volume is full, but for the last room. */
static int answer_full(void *arg, const struct stub_request *r)
{
	struct fixture *x = arg;

	if (r->ask.kind != STUB_ASK_LEAVE)
		return r->ask.kind == STUB_ASK_LOOKUP ? 0 : -ENOSPC;
	list_refusing(x);
	return 0;
}

/* A thread and an event loop go the same way. */
static void test_a_thread_and_a_loop(void **state)
{
	static const enum stub_ask_kind way[] = { STUB_ASK_LIST, STUB_ASK_LOOKUP, STUB_ASK_LEAVE };
	struct fixture *x = *state;
	struct stub_need need = { .what = STUB_NEED_LEAVE, .name = "file" };
	struct stub_wait wait = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_front f;
	struct stub_ask a;

	front_server_init(&s, x);
	f = front_of(&s, x, ".");
	for (size_t i = 0; i < ARRAY_LEN(way); i++)
		ASSERT_ASKS(&f, &need, i == 1 ? -ENOSPC : 0, &a, way[i]);
	front_retriever_start(&t, x, answer_full, x);
	assert_int_equal(stub_need_leave(&f, &wait, "file"), 0);
	assert_int_equal(t.n, ARRAY_LEN(way));
	assert_memory_equal(t.asked, way, sizeof(way));
	front_retriever_stop(&t);
	assert_true(wait.begun);
	assert_int_equal(s.places, 0);
	assert_int_equal(s.roots, 0);
}

static void test_shown_as_withheld(void **state)
{
	struct fixture *x = *state;
	struct stub_wait wait = { 0 }, once = { .once = true }, again = { .once = true };
	atomic_int parked = -EREMOTEIO;
	struct front_retriever t;
	struct front_server s;
	struct stub_front f;
	struct stub_view view;
	uint64_t began;
	bool asked;

	list_one(x, "file", S_IFREG | 0644, true);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	front_retriever_start(&t, x, front_answer, &parked);
	assert_int_equal(stub_need_shown(&f, &wait, &view, &asked), 0);
	assert_true(asked && view.withheld && view.needs & STUB_NEEDS_ATTRS);
	front_retriever_stop(&t);
	s.wait_ms = 0; /* nobody listens: it does not come in time */
	wait = (struct stub_wait){ 0 };
	assert_int_equal(stub_need_shown(&f, &wait, &view, NULL), -EAGAIN);
	assert_int_equal(stub_need_shown(&f, &once, &view, NULL), 0);
	assert_true(view.withheld);
	s.wait_ms = 60000; /* and once that is known nobody waits for it */
	stub_gate_absent_ms(&s.gate);
	began = stub_now_ms();
	assert_int_equal(stub_need_shown(&f, &again, &view, NULL), 0);
	assert_true(view.withheld && stub_now_ms() - began < 50000);
	f = front_of(&s, x, "."); /* has them */
	assert_int_equal(stub_need_shown(&f, &wait, &view, &asked), 0);
	assert_false(asked || view.withheld);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_normal_is_never_looked_at_again),
		TEST(test_a_damaged_record_is_neither),
		TEST(test_attrs),
		TEST(test_answers_that_change_nothing_end),
		TEST(test_what_an_ask_fails_with_is_the_end),
		TEST(test_entries),
		TEST(test_leave),
		TEST(test_leave_what_was_listed_meanwhile),
		TEST(test_gone),
		TEST(test_name),
		TEST(test_name_in_a_directory_that_was_listed_meanwhile),
		TEST(test_the_copy_of_a_stub),
		TEST(test_strands),
		TEST(test_data_that_comes_in_parts),
		TEST(test_data_that_does_not_come),
		TEST(test_a_thread_and_a_loop),
		TEST(test_shown_as_withheld),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
