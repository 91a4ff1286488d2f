/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_ledger_later.c - what is not acknowledged as stable is waited for at the COMMIT, all of it, and not too much at once. */
#include <pthread.h>

#include "mirrored.h"

#define MIB (UINT64_C(1) << 20)

struct test {
	struct fixture *x;
	struct stub_waits *w;
};

static struct test sync_mode(void **state)
{
	struct test t = { .x = *state };

	assert_int_equal(stub_waits_open(t.x->v, &t.w), 0);
	mirrored_rule(t.x, STUB_MIRROR_SYNC, STUB_MIRROR_CONTINUE);
	mirrored_pulse(t.w, true, true, MIRRORED_MS);
	return t;
}

static struct stub_handle object(unsigned int number)
{
	struct stub_handle h = { .type = 1, .len = 8 };

	memcpy(h.bytes, &number, sizeof(number));
	return h;
}

/* What somebody does who may have to wait. */
struct doing {
	struct test *t;
	struct stub_entered e;
	bool commits;
	_Atomic int result; /* 1: not yet */
	pthread_t thread;
};

static void *do_it(void *arg)
{
	struct doing *d = arg;

	atomic_store(&d->result, d->commits ? stub_ledger_await_noted(d->t->x->v, &d->e.h) :
					      stub_ledger_await_later(d->t->x->v, &d->e));
	return NULL;
}

static void start(struct doing *d, struct test *t, unsigned int number, bool commits, uint64_t from, uint64_t to)
{
	*d = (struct doing){ .t = t, .commits = commits, .result = 1,
			     .e = { .what = STUB_OWED_DATA | STUB_OWED_ATTRS, .h = object(number), .from = from, .to = to } };
	assert_int_equal(pthread_create(&d->thread, NULL, do_it, d), 0);
}

static int end(struct doing *d)
{
	assert_int_equal(pthread_join(d->thread, NULL), 0);
	return d->result;
}

/* It waits for nothing. */
static void at_once(struct test *t, unsigned int number, bool commits, uint64_t from, uint64_t to)
{
	struct stub_awaited a;
	struct doing d;

	start(&d, t, number, commits, from, to);
	assert_int_equal(end(&d), 0);
	assert_int_equal(stub_waits_listen(t->w, 0, &a, 1), 0);
}

/* Somebody waits for these bytes; he may go on. */
static void carried(struct test *t, unsigned int number, uint64_t from, uint64_t to)
{
	struct stub_awaited a = mirrored_waiting(t->w);
	struct stub_handle h = object(number);

	assert_true(stub_handle_equal(&a.h, &h));
	assert_int_equal(a.what, STUB_OWED_DATA | STUB_OWED_ATTRS);
	assert_int_equal(a.from, from);
	assert_int_equal(a.to, to);
	stub_waits_release(t->w, &a);
}

static void test_at_the_commit(void **state)
{
	struct test t = sync_mode(state);
	struct doing d;

	at_once(&t, 1, true, 0, 0); /* nothing was written */
	at_once(&t, 1, false, 100, 200);
	at_once(&t, 1, false, 50, 60);
	at_once(&t, 2, false, 0, 1);
	start(&d, &t, 1, true, 0, 0);
	carried(&t, 1, 50, 200);
	assert_int_equal(end(&d), 0);
	at_once(&t, 1, true, 0, 0);
	start(&d, &t, 2, true, 0, 0);
	carried(&t, 2, 0, 1);
	assert_int_equal(end(&d), 0);
	stub_waits_close(t.w);
}

/* What is written while somebody waits is waited for by who commits next; and he waits for what the first one does. */
static void test_meanwhile(void **state)
{
	struct test t = sync_mode(state);
	struct stub_awaited a, both[4];
	struct doing d, later;
	unsigned int n = 0;

	at_once(&t, 1, false, 0, 10);
	start(&d, &t, 1, true, 0, 0);
	a = mirrored_waiting(t.w);
	start(&later, &t, 1, false, 20, 30);
	assert_int_equal(end(&later), 0);
	start(&later, &t, 1, true, 0, 0);
	for (int i = 0; n < 2 && i < MIRRORED_MS / 10; i++)
		n = stub_waits_listen(t.w, 10, both, ARRAY_LEN(both));
	assert_int_equal(n, 2);
	n = both[0].at == a.at;
	assert_int_equal(both[n].from, 0);
	assert_int_equal(both[n].to, 30);
	stub_waits_release(t.w, &a);
	assert_int_equal(end(&d), 0);
	assert_int_equal(later.result, 1);
	stub_waits_release(t.w, &both[n]);
	assert_int_equal(end(&later), 0);
	at_once(&t, 1, true, 0, 0);
	stub_waits_close(t.w);
}

/* No COMMIT has to wait for more than 8 MiB that were noted, and as many that others wait for. */
static void test_bound(void **state)
{
	struct test t = sync_mode(state);
	struct doing d;

	for (unsigned int i = 0; i < 8; i++)
		at_once(&t, 1, false, i * MIB, (i + 1) * MIB);
	start(&d, &t, 1, false, 8 * MIB, 9 * MIB);
	carried(&t, 1, 0, 8 * MIB);
	assert_int_equal(end(&d), 0);
	start(&d, &t, 1, false, 900 * MIB, 901 * MIB); /* not all that lies in between */
	carried(&t, 1, 8 * MIB, 9 * MIB);
	assert_int_equal(end(&d), 0);
	start(&d, &t, 1, false, 0, 9 * MIB); /* itself */
	carried(&t, 1, 0, 9 * MIB);
	assert_int_equal(end(&d), 0);
	start(&d, &t, 1, true, 0, 0);
	carried(&t, 1, 900 * MIB, 901 * MIB);
	assert_int_equal(end(&d), 0);
	stub_waits_close(t.w);
}

/* While somebody waits at the bound, others wait for what they wrote. */
static void test_bound_of_many(void **state)
{
	struct test t = sync_mode(state);
	struct stub_awaited a[4];
	struct doing first, second;
	unsigned int n = 0;

	at_once(&t, 1, false, 0, MIB);
	start(&first, &t, 1, false, 20 * MIB, 21 * MIB);
	mirrored_waiting(t.w);
	start(&second, &t, 1, false, 40 * MIB, 41 * MIB);
	for (int i = 0; n < 2 && i < MIRRORED_MS / 10; i++)
		n = stub_waits_listen(t.w, 10, a, ARRAY_LEN(a));
	assert_int_equal(n, 2);
	n = a[0].from == 0;
	assert_int_equal(a[n].from, 40 * MIB);
	assert_int_equal(a[1 - n].to, MIB);
	stub_waits_release(t.w, &a[0]);
	stub_waits_release(t.w, &a[1]);
	assert_int_equal(end(&first), 0);
	assert_int_equal(end(&second), 0);
	start(&first, &t, 1, true, 0, 0);
	carried(&t, 1, 20 * MIB, 21 * MIB);
	assert_int_equal(end(&first), 0);
	stub_waits_close(t.w);
}

/* Of a client that never commits nothing is forgotten: where there is no place any more, somebody waits for it. */
static void test_many_objects(void **state)
{
	struct test t = sync_mode(state);
	bool noted[10000] = { false }, full = false;
	struct stub_awaited a;
	struct doing d;

	for (unsigned int i = 0; i < ARRAY_LEN(noted) && !full; i++) {
		start(&d, &t, i, false, i + 1, i + 2);
		noted[i] = true;
		while (d.result == 1) {
			if (!stub_waits_listen(t.w, 10, &a, 1))
				continue;
			assert_in_range(a.from, 1, i + 1);
			assert_int_equal(a.to, a.from + 1);
			assert_true(noted[a.from - 1]);
			noted[a.from - 1] = false;
			full = true;
			stub_waits_release(t.w, &a);
		}
		assert_int_equal(end(&d), 0);
	}
	assert_true(full);
	for (unsigned int i = 0; i < ARRAY_LEN(noted); i++) {
		if (!noted[i])
			continue;
		start(&d, &t, i, true, 0, 0);
		carried(&t, i, i + 1, i + 2);
		assert_int_equal(end(&d), 0);
	}
	stub_waits_close(t.w);
}

/* Who hears that the mirror has not got it may commit again. */
static void test_refused(void **state)
{
	struct test t = sync_mode(state);
	struct stub_awaited a;
	struct doing d;

	mirrored_rule(t.x, STUB_MIRROR_SYNC, STUB_MIRROR_REFUSE);
	at_once(&t, 1, false, 5, 6);
	start(&d, &t, 1, true, 0, 0);
	a = mirrored_waiting(t.w);
	mirrored_pulse(t.w, true, false, 1); /* it is gone */
	assert_int_equal(end(&d), -EIO);
	stub_waits_release(t.w, &a);
	mirrored_pulse(t.w, true, true, MIRRORED_MS);
	start(&d, &t, 1, true, 0, 0);
	carried(&t, 1, 5, 6);
	assert_int_equal(end(&d), 0);
	stub_waits_close(t.w);
}

static void test_modes(void **state)
{
	struct test t = sync_mode(state);

	mirrored_rule(t.x, STUB_MIRROR_PARTLY, STUB_MIRROR_CONTINUE);
	at_once(&t, 1, false, 0, 1);
	mirrored_rule(t.x, STUB_MIRROR_ASYNC, STUB_MIRROR_CONTINUE);
	at_once(&t, 1, false, 0, 1);
	mirrored_rule(t.x, STUB_MIRROR_SYNC, STUB_MIRROR_CONTINUE);
	at_once(&t, 1, true, 0, 0);
	stub_waits_close(t.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_the_commit, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_meanwhile, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_bound, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_bound_of_many, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_many_objects, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_refused, mirrored_setup, mirrored_teardown),
		cmocka_unit_test_setup_teardown(test_modes, mirrored_setup, mirrored_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
