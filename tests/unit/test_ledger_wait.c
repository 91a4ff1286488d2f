/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_ledger_wait.c - who has changed something waits for the mirror, as its mode says, and as long as it is there. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "ledger.h"
#include "mirrored.h"

struct changing {
	struct fixture *x;
	uint32_t what;
	struct stub_entered e;
	_Atomic int result; /* 1: it waits */
	pthread_t thread;
};

static void *change(void *arg)
{
	struct changing *c = arg;
	struct stub_handle root = *stub_volume_root(c->x->v);

	assert_int_equal(stub_ledger_enter(c->x->v, &root, c->what, &c->e), 0);
	c->e.from = 5;
	c->e.to = 10;
	assert_string_equal(c->e.name, "");
	memset(c->e.name, 'n', sizeof(c->e.name) - 1);
	stub_ledger_leave(c->x->v, &c->e);
	atomic_store(&c->result, stub_ledger_await(c->x->v, &c->e, 1));
	return NULL;
}

static void start(struct changing *c, struct fixture *x, uint32_t what)
{
	*c = (struct changing){ .x = x, .what = what, .result = 1 };
	assert_int_equal(pthread_create(&c->thread, NULL, change, c), 0);
}

static int end(struct changing *c)
{
	assert_int_equal(pthread_join(c->thread, NULL), 0);
	return c->result;
}

static void test_until_it_is_released(void **state)
{
	struct fixture *x = *state;
	struct stub_awaited a, other;
	struct stub_waits *w;
	struct changing c;

	assert_int_equal(stub_waits_open(x->v, &w), 0);
	mirrored_rule(x, STUB_MIRROR_SYNC, STUB_MIRROR_CONTINUE);
	mirrored_pulse(w, true, true, MIRRORED_MS);
	start(&c, x, STUB_OWED_DATA);
	a = mirrored_waiting(w);
	assert_true(stub_handle_equal(&a.h, stub_volume_root(x->v)));
	assert_int_equal(a.what, STUB_OWED_DATA);
	assert_int_equal(a.from, 5);
	assert_int_equal(a.to, 10);
	assert_int_equal(strlen(a.name), STUB_NAME_MAX);
	assert_memory_equal(a.name, c.e.name, sizeof(a.name));
	assert_int_equal(c.result, 1);
	other = a; /* of somebody who waited there before */
	other.word -= 1u << 13;
	stub_waits_release(w, &other);
	assert_int_equal(stub_waits_listen(w, 0, &other, 1), 1);
	stub_waits_release(w, &a);
	assert_int_equal(end(&c), 0);
	assert_int_equal(stub_waits_listen(w, 0, &other, 1), 0);
	stub_waits_close(w);
}

static void test_modes(void **state)
{
	struct fixture *x = *state;
	struct stub_awaited a;
	struct stub_waits *w;
	struct changing c;

	assert_int_equal(stub_waits_open(x->v, &w), 0);
	mirrored_pulse(w, true, true, MIRRORED_MS);
	start(&c, x, STUB_OWED_ALL); /* async */
	assert_int_equal(end(&c), 0);
	mirrored_rule(x, STUB_MIRROR_PARTLY, STUB_MIRROR_CONTINUE);
	start(&c, x, STUB_OWED_DATA | STUB_OWED_ATTRS);
	assert_int_equal(end(&c), 0);
	start(&c, x, STUB_OWED_NAMES);
	a = mirrored_waiting(w);
	stub_waits_release(w, &a);
	assert_int_equal(end(&c), 0);
	stub_waits_close(w);
}

static void test_gone(void **state)
{
	struct fixture *x = *state;
	struct stub_awaited a;
	struct stub_waits *w;
	struct changing c;

	assert_int_equal(stub_waits_open(x->v, &w), 0);
	mirrored_rule(x, STUB_MIRROR_SYNC, STUB_MIRROR_CONTINUE);
	start(&c, x, STUB_OWED_NAMES); /* it has never been there */
	assert_int_equal(end(&c), 0);
	mirrored_pulse(w, true, false, MIRRORED_MS); /* it catches up */
	start(&c, x, STUB_OWED_NAMES);
	assert_int_equal(end(&c), 0);
	mirrored_pulse(w, true, true, 300); /* and says nothing more */
	start(&c, x, STUB_OWED_NAMES);
	assert_int_equal(end(&c), 0);
	mirrored_pulse(w, true, true, MIRRORED_MS);
	start(&c, x, STUB_OWED_NAMES);
	a = mirrored_waiting(w);
	mirrored_pulse(w, true, false, MIRRORED_MS); /* nobody is to wait any more */
	assert_int_equal(end(&c), 0);
	stub_waits_release(w, &a); /* too late */
	assert_int_equal(stub_waits_listen(w, 0, &a, 1), 0);
	stub_waits_close(w);
}

static void test_refused(void **state)
{
	struct fixture *x = *state;
	struct stub_handle root = *stub_volume_root(x->v);
	struct stub_entered e;
	struct stub_awaited a;
	struct stub_waits *w;
	struct changing c;
	int r;

	assert_int_equal(stub_waits_open(x->v, &w), 0);
	mirrored_rule(x, STUB_MIRROR_SYNC, STUB_MIRROR_REFUSE);
	/* the replicator may be about to start */
	r = stub_ledger_enter(x->v, &root, STUB_OWED_NAMES, &e);
	assert_true(r == -EAGAIN || r == -EROFS); /* after 30 s */
	assert_int_equal(e.what, 0);
	mirrored_pulse(w, true, true, MIRRORED_MS);
	start(&c, x, STUB_OWED_NAMES);
	a = mirrored_waiting(w);
	mirrored_pulse(w, true, false, 1); /* it is gone, while somebody waits */
	assert_int_equal(end(&c), -EIO);
	stub_waits_release(w, &a);
	for (int i = 0; i < 1000 && stub_ledger_enter(x->v, &root, STUB_OWED_NAMES, &e) == 0; i++) {
		stub_ledger_leave(x->v, &e);
		usleep(1000);
	}
	assert_int_equal(stub_ledger_enter(x->v, &root, STUB_OWED_NAMES, &e), -EAGAIN);
	mirrored_rule(x, STUB_MIRROR_ASYNC, STUB_MIRROR_CONTINUE);
	assert_int_equal(stub_ledger_enter(x->v, &root, STUB_OWED_NAMES, &e), 0);
	stub_ledger_leave(x->v, &e);
	stub_waits_close(w);
}

/* Where it is gone for long, clients hear of it. */
static void test_refused_for_good(void **state)
{
	struct stub_set *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->rule = (uint64_t)STUB_MIRROR_REFUSE << 8 | STUB_MIRROR_ASYNC;
	s->made_ms = 1;
	s->there_ms = stub_now_ms() > 40000 ? stub_now_ms() - 40000 : 0;
	assert_int_equal(stub_set_may(s), stub_now_ms() > 40000 ? -EROFS : -EAGAIN);
	s->there_ms = stub_now_ms() + 1000;
	assert_int_equal(stub_set_may(s), 0);
	free(s);
}

/* A process that was killed while it waited leaves no slot behind. */
static void test_buried(void **state)
{
	struct fixture *x = *state;
	struct stub_awaited a;
	struct stub_ledger *l;
	struct stub_waits *w;
	uint64_t n;
	pid_t child;

	mirrored_rule(x, STUB_MIRROR_SYNC, STUB_MIRROR_CONTINUE);
	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_int_equal(stub_waits_open(x->v, &w), 0);
	mirrored_pulse(w, true, true, MIRRORED_MS);
	child = fork();
	if (child == 0) {
		struct stub_volume *v;
		struct stub_entered e;

		if (stub_volume_open(x->dir, 0, NULL, NULL, &v) == 0 &&
		    stub_ledger_enter(v, stub_volume_root(v), STUB_OWED_NAMES, &e) == 0) {
			stub_ledger_leave(v, &e);
			stub_ledger_await(v, &e, 1);
		}
		_exit(1);
	}
	a = mirrored_waiting(w);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (int i = 0; i < 600 && stub_waits_listen(w, 100, &a, 1); i++)
		assert_int_equal(stub_ledger_count(l, &n), 0); /* which looks for the dead */
	assert_int_equal(stub_waits_listen(w, 0, &a, 1), 0);
	stub_waits_close(w);
	stub_ledger_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_until_it_is_released, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_modes, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_gone, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_refused, mirrored_setup, mirrored_teardown),
		cmocka_unit_test(test_refused_for_good),
		cmocka_unit_test_setup_teardown(test_buried, mirrored_setup, mirrored_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
