// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_working.c - which time counts as work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "working.h"

static void asks_that_begin(void **state)
{
	assert_true(working_between(&(struct working){ .begun = 7 }, &(struct working){ .begun = 8 }));
	assert_false(working_between(&(struct working){ .begun = 7 }, &(struct working){ .begun = 7 }));
}

/* A pause in the middle: until then it was work. */
static void begun_before_a_pause(void **state)
{
	assert_true(working_between(&(struct working){ .begun = 7 },
				    &(struct working){ .begun = 8, .paused = true, .in_hand = 3 }));
}

/* Six files of 30 MB beyond a line of 300 KB/s: what is in flight takes minutes. */
static void answers_that_take_long(void **state)
{
	assert_true(working_between(&(struct working){ .begun = 6, .in_hand = 6 },
				    &(struct working){ .begun = 6, .in_hand = 6 }));
	assert_true(working_between(&(struct working){ .begun = 6, .in_hand = 6 },
				    &(struct working){ .begun = 6, .in_hand = 1 }));
	assert_false(working_between(&(struct working){ .begun = 6, .in_hand = 6 },
				     &(struct working){ .begun = 6, .in_hand = 0 }));
}

/* In a pause workers hold what they have. */
static void a_pause(void **state)
{
	struct working w = { .begun = 6, .in_hand = 6, .paused = true };

	assert_false(working_between(&w, &w));
}

/* Asks are worked on in vain: the crawler tries again and again. */
static void in_vain(void **state)
{
	struct working before = { .begun = 6, .in_hand = 1 }, lost = { .begun = 9, .in_hand = 1 },
		       full = lost;

	lost.lost = true;
	full.full = true;
	assert_false(working_between(&before, &lost));
	assert_false(working_between(&before, &full));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asks_that_begin),
		cmocka_unit_test(begun_before_a_pause),
		cmocka_unit_test(answers_that_take_long),
		cmocka_unit_test(a_pause),
		cmocka_unit_test(in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
