/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gate.c - libstubcore/gate.c: waiting as long as a server allows, and no longer */
#include "front.h"

static struct stub_ask list_of(struct fixture *x)
{
	return (struct stub_ask){ .kind = STUB_ASK_LIST, .h = *stub_volume_root(x->v) };
}

/* ---- stub_gate_ask ---- */

static void test_answers(void **state)
{
	static const int answers[] = { 0, -ENOENT, -EREMOTEIO, -ENOSPC };
	struct fixture *x = *state;
	struct stub_ask a = list_of(x);
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	atomic_int said;

	front_server_init(&s, x);
	front_retriever_start(&t, x, front_answer, &said);
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		said = answers[i];
		assert_int_equal(stub_gate_ask(&s.gate, &w, &a), said);
	}
	front_retriever_stop(&t);
	assert_int_equal(t.n, ARRAY_LEN(answers));
	assert_int_equal(s.places, 0);
	assert_int_equal(s.roots, 0);
	assert_int_equal(s.entered, ARRAY_LEN(answers));
	assert_int_equal(s.waits, 0);
}

static void test_nobody_listens(void **state)
{
	struct fixture *x = *state;
	struct stub_ask a = list_of(x);
	struct stub_wait w = { 0 }, more = { 0 };
	struct front_server s;
	uint64_t until;

	front_server_init(&s, x);
	s.wait_ms = 100;
	assert_int_equal(stub_gate_ask(&s.gate, &w, &a), -EAGAIN);
	assert_true(w.begun && stub_now_ms() >= w.until);
	assert_true(s.waits > 0);
	until = w.until;
	assert_int_equal(stub_gate_ask(&s.gate, &w, &a), -EAGAIN); /* it is over for this call */
	assert_int_equal(w.until, until);
	s.wait_ms = 1000 * 1000; /* the server wants no more of it */
	s.end = -ECANCELED;
	assert_int_equal(stub_gate_ask(&s.gate, &more, &a), -ECANCELED);
	assert_int_equal(s.places, 0);
}

/* One that begins to listen while somebody waits. */
static void *start_late(void *arg)
{
	void **args = arg;
	struct front_server *s = args[0];
	static atomic_int said;

	while (atomic_load(&s->waits) == 0)
		usleep(1000);
	front_retriever_start(args[1], args[2], front_answer, &said);
	return NULL;
}

static void test_a_retriever_that_comes_late(void **state)
{
	struct fixture *x = *state;
	struct stub_ask a = list_of(x);
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	void *args[] = { &s, &t, x };
	pthread_t thread;

	front_server_init(&s, x);
	stub_gate_absent_ms(&s.gate);
	assert_true(stub_gate_absent(&s.gate));
	assert_int_equal(pthread_create(&thread, NULL, start_late, args), 0);
	assert_int_equal(stub_gate_ask(&s.gate, &w, &a), 0);
	assert_false(stub_gate_absent(&s.gate));
	pthread_join(thread, NULL);
	front_retriever_stop(&t);
}

static void test_without_a_place_the_work_begins(void **state)
{
	struct fixture *x = *state;
	struct stub_ask a = list_of(x);
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	atomic_int said = 0;
	int r;

	front_server_init(&s, x);
	s.full = true;
	front_retriever_start(&t, x, front_answer, &said);
	r = stub_gate_ask(&s.gate, &w, &a);
	assert_true(r == 0 || r == -EAGAIN);
	front_retriever_wait(&t);
	front_retriever_stop(&t);
	assert_int_equal(t.n, 1);
	assert_int_equal(s.waits, 0);
}

static void test_not_inside_a_bracket(void **state)
{
	struct fixture *x = *state;
	struct stub_ask a = list_of(x);
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct stub_bracket b;
	struct front_server s;
	struct stub_front f;
	atomic_int said = 0;
	int fd;

	front_server_init(&s, x);
	s.gate.alone = true;
	front_retriever_start(&t, x, front_answer, &said);
	f = front_of(&s, x, ".");
	assert_int_equal(stub_bracket_look(&f, &b), 0);
	assert_int_equal(stub_gate_ask(&s.gate, &w, &a), -EAGAIN);
	assert_int_equal(stub_gate_pass(&s.gate, &w, &a, &fd), -EAGAIN);
	assert_false(w.begun);
	stub_bracket_drop(&b);
	assert_int_equal(stub_gate_ask(&s.gate, &w, &a), 0);
	front_retriever_stop(&t);
	assert_int_equal(t.n, 1);
}

/* ---- telling of it ---- */

struct told {
	unsigned int lines;
	char last[STUB_LOG_MAX + 1];
	uint32_t ids[2]; /* as the retriever met them */
	unsigned int n;
};

static void take_line(void *arg, enum stub_log_level level, const char *msg)
{
	struct told *t = arg;

	assert_int_equal(level, STUB_LOG_DEBUG);
	snprintf(t->last, sizeof(t->last), "%s", msg);
	t->lines++;
}

/* "Later" at first, so that it is sent again. */
static int later_first(void *arg, const struct stub_request *r)
{
	struct told *t = arg;

	if (t->n < ARRAY_LEN(t->ids))
		t->ids[t->n++] = r->ask.id;
	assert_int_equal(r->pid, getpid());
	return t->n == 1 ? -EAGAIN : 0;
}

/* One ask is one name and one line, however often it is sent; and none if nobody listens. */
static void test_told(void **state)
{
	struct fixture *x = *state;
	const struct stub_log before = x->v->log;
	struct stub_ask a = list_of(x);
	struct told told = { 0 };
	struct front_retriever t;
	struct front_server s;
	char want[32];
	uint32_t first;

	front_server_init(&s, x);
	x->v->log = (struct stub_log){ take_line, &told };
	front_retriever_start(&t, x, later_first, &told);
	assert_int_equal(stub_gate_ask(&s.gate, &(struct stub_wait){ 0 }, &a), 0);
	assert_int_equal(told.lines, 0);
	assert_int_equal(told.n, 2);
	assert_int_equal(told.ids[0], told.ids[1]);
	first = told.ids[0];
	s.debugs = true;
	told.n = 0;
	assert_int_equal(stub_gate_ask(&s.gate, &(struct stub_wait){ 0 }, &a), 0);
	front_retriever_stop(&t);
	assert_int_equal(told.lines, 1);
	assert_int_equal(told.ids[0], told.ids[1]);
	assert_int_not_equal(told.ids[0], first);
	assert_int_not_equal(told.ids[0], 0);
	snprintf(want, sizeof(want), "ask %08x: LIST ", told.ids[0]);
	assert_memory_equal(told.last, want, strlen(want));
	assert_non_null(strstr(told.last, ": done, "));
	x->v->log = before;
}

/* ---- stub_gate_absent_ms ---- */

static void test_absent(void **state)
{
	struct fixture *x = *state;
	struct front_retriever t;
	struct front_server s;
	atomic_int said = 0;

	front_server_init(&s, x);
	assert_false(stub_gate_absent(&s.gate));
	assert_int_equal(stub_gate_absent_ms(&s.gate), 0);
	assert_true(stub_gate_absent(&s.gate));
	atomic_fetch_sub(&s.gate.absent, 5000);
	assert_true(stub_gate_absent_ms(&s.gate) >= 5000);
	atomic_fetch_sub(&s.gate.absent_seen, 61000); /* nobody looked for a minute */
	assert_int_equal(stub_gate_absent_ms(&s.gate), 0);
	front_retriever_start(&t, x, front_answer, &said);
	assert_int_equal(stub_gate_absent_ms(&s.gate), 0);
	assert_false(stub_gate_absent(&s.gate));
	front_retriever_stop(&t);
}

/* ---- what is over ---- */

static void test_complete_and_removed(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	char ours[128], away[128];

	front_server_init(&s, x);
	snprintf(ours, sizeof(ours), "%s/" STUB_DIR, x->dir);
	snprintf(away, sizeof(away), "%s/away", x->dir);
	assert_true(stub_gate_migrating(&s.gate));
	assert_int_equal(rename(ours, away), 0);
	assert_true(stub_gate_hides(&s.gate)); /* while there is anything to migrate */
	assert_int_equal(rename(away, ours), 0);
	fixture_list(x, NULL, 0);
	assert_int_equal(stub_volume_set_complete(x->v), 0);
	assert_false(stub_gate_migrating(&s.gate));
	assert_true(stub_gate_hides(&s.gate));
	assert_int_equal(rename(ours, away), 0);
	assert_false(stub_gate_hides(&s.gate));
	assert_int_equal(rename(away, ours), 0);
	assert_false(stub_gate_hides(&s.gate)); /* it is the user's now */
}

static void test_without_a_volume(void **state)
{
	struct stub_gate g = { .volume = NULL };
	struct stub_front f = { .gate = &g };
	struct stub_view view;

	assert_false(stub_gate_migrating(&g));
	assert_false(stub_sync_due(&g));
	assert_int_equal(stub_gate_era(&g), 0);
	assert_int_equal(stub_front_look(&f, &view), 0);
	assert_int_equal(view.needs, 0);
}

/* ---- stub_takes_no_data ---- */

static void test_takes_no_data(void **state)
{
	const int yes[] = { -ENOSPC, -EDQUOT, -EROFS, -EIO };
	const int no[] = { 0, 1, -EAGAIN, -EREMOTEIO, -ENOENT, -ESTALE, ENOSPC };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		assert_true(stub_takes_no_data(yes[i]));
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		assert_false(stub_takes_no_data(no[i]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_answers),
		TEST(test_nobody_listens),
		TEST(test_a_retriever_that_comes_late),
		TEST(test_without_a_place_the_work_begins),
		TEST(test_not_inside_a_bracket),
		TEST(test_told),
		TEST(test_absent),
		TEST(test_complete_and_removed),
		TEST(test_without_a_volume),
		cmocka_unit_test(test_takes_no_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
