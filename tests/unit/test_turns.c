/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_turns.c - retriever/jobs/turns.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobs/turns.h"

struct waiting {
	struct turns *t;
	uint64_t bytes;
	pthread_t thread;
};

static void *wait_there(void *arg)
{
	struct waiting *w = arg;

	turns_wait(w->t, w->bytes);
	return NULL;
}

static struct waiting begin(struct turns *t, uint64_t bytes)
{
	return (struct waiting){ .t = t, .bytes = bytes };
}

static void without_rules_nobody_waits(void **state)
{
	struct turns t;

	turns_init(&t);
	turns_wait(&t, 0);
	turns_wait(&t, UINT32_MAX);
	turns_finish(&t);
}

static void the_first_turn_is_now(void **state)
{
	struct turns t;

	turns_init(&t);
	turns_throttle(&t, 1);
	turns_wait(&t, 1000000);
	assert_true(t.next_us > 1000000ull * 1000000); /* the next one is not */
	turns_finish(&t);
}

static void a_new_rate_voids_the_turns(void **state)
{
	struct turns t;
	struct waiting w;

	turns_init(&t);
	turns_throttle(&t, 1);
	turns_wait(&t, 1000000);
	w = begin(&t, 1000000);
	assert_int_equal(pthread_create(&w.thread, NULL, wait_there, &w), 0);
	turns_throttle(&t, 0);
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	turns_finish(&t);
}

static void a_pause_ends(void **state)
{
	struct turns t;
	struct waiting w;

	turns_init(&t);
	turns_pause(&t, true);
	w = begin(&t, 0);
	assert_int_equal(pthread_create(&w.thread, NULL, wait_there, &w), 0);
	turns_pause(&t, false);
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	turns_finish(&t);
}

static void nobody_waits_for_what_is_stopped(void **state)
{
	struct turns t;

	turns_init(&t);
	turns_throttle(&t, 1);
	turns_wait(&t, 1000000);
	turns_pause(&t, true);
	turns_stop(&t);
	turns_wait(&t, 1000000);
	turns_finish(&t);
}

static void who_does_not_want_to_wait(void **state)
{
	struct turns t;
	int64_t us;

	turns_init(&t);
	assert_int_equal(turns_try(&t, UINT32_MAX, 0), 0);
	turns_throttle(&t, 1000);
	assert_int_equal(turns_try(&t, 1000000, 0), 0);
	us = turns_try(&t, 1000, 2000000000);
	assert_true(us > 0 && us <= 1000000000);
	assert_int_equal(turns_try(&t, 1000, 100000), -1);
	us = (int64_t)t.next_us;
	assert_int_equal(turns_try(&t, 1000, 100000), -1);
	assert_int_equal(t.next_us, us); /* no turn was taken */
	turns_throttle(&t, 0);
	turns_pause(&t, true);
	assert_int_equal(turns_try(&t, 1, UINT64_MAX), -1);
	turns_pause(&t, false);
	turns_stop(&t);
	assert_int_equal(turns_try(&t, 1, UINT64_MAX), -1);
	turns_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_rules_nobody_waits),
		cmocka_unit_test(the_first_turn_is_now),
		cmocka_unit_test(a_new_rate_voids_the_turns),
		cmocka_unit_test(a_pause_ends),
		cmocka_unit_test(nobody_waits_for_what_is_stopped),
		cmocka_unit_test(who_does_not_want_to_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
