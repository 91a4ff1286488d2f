/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_desk.c - what rests, and what of it counts as owed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "desk.h"

#define LONG_MS 1000000

static struct stub_handle handle(uint32_t i)
{
	struct stub_handle h = { .type = 1, .len = sizeof(i) };

	memcpy(h.bytes, &i, sizeof(i));
	return h;
}

static bool owes(struct desk *d)
{
	struct desk_counts n;
	uint64_t all;

	desk_counts(d, &n);
	all = n.busy;
	for (int why = 0; why < DESK_WHYS; why++)
		all += n.of[why];
	return all > 0;
}

static int setup(void **state)
{
	return desk_create((struct desk **)state);
}

static int teardown(void **state)
{
	desk_destroy(*state);
	return 0;
}

static void one_at_a_time(void **state)
{
	struct stub_handle h = handle(1), other = handle(2);
	struct desk *d = *state;
	struct desk_counts n;
	unsigned int tries = 7;

	assert_true(desk_take(d, &h, &tries));
	assert_int_equal(tries, 0);
	assert_false(desk_take(d, &h, NULL));
	assert_false(desk_take_now(d, &h));
	assert_true(desk_take(d, &other, NULL));
	desk_counts(d, &n);
	assert_int_equal(n.busy, 2);
}

/* Who waits for a part of it does not put the whole off. */
static void a_part_puts_nothing_off(void **state)
{
	struct stub_handle h = handle(1);
	struct desk *d = *state;

	assert_true(desk_take_now(d, &h)); /* it did not rest */
	desk_rest(d, &h, DESK_HOT, LONG_MS, false);
	assert_false(desk_take(d, &h, NULL));
	desk_again(d);
	assert_true(desk_take(d, &h, NULL));
	desk_rest(d, &h, DESK_HOT, 20, false);
	assert_true(desk_take_now(d, &h));
	desk_rest(d, &h, DESK_HOT, LONG_MS, false);
	usleep(21000);
	assert_true(desk_take_now(d, &h));
	desk_rest(d, &h, DESK_HOT, LONG_MS, false);
	assert_true(desk_take(d, &h, NULL));
	desk_rest(d, &h, DESK_HOT, LONG_MS, false);
	assert_false(desk_take(d, &h, NULL));
}

static void what_rests_is_not_taken(void **state)
{
	struct stub_handle h = handle(1);
	struct desk *d = *state;
	unsigned int tries;

	assert_true(desk_take(d, &h, NULL));
	desk_rest(d, &h, DESK_LATER, LONG_MS, false);
	assert_false(desk_take(d, &h, NULL));
	assert_true(owes(d));
	desk_wake(d, &h);
	assert_true(desk_take(d, &h, &tries));
	assert_int_equal(tries, 1);
	desk_wake(d, &h); /* while it is busy */
	desk_rest(d, &h, DESK_LATER, LONG_MS, false);
	assert_true(desk_take(d, &h, &tries));
	assert_int_equal(tries, 2);
	desk_rest(d, &h, DESK_HOT, LONG_MS, false);
	assert_true(desk_take_now(d, &h));
	desk_rest(d, &h, DESK_HOT, LONG_MS, false);
	desk_again(d);
	assert_true(desk_take(d, &h, &tries));
	assert_int_equal(tries, 0);
}

/* The ledger's reader may ask for it once more: what it read is older than the comparison. */
static void what_is_right_is_not_owed_because_somebody_asks(void **state)
{
	struct stub_handle h = handle(1);
	struct desk *d = *state;

	assert_true(desk_take(d, &h, NULL));
	desk_rest(d, &h, DESK_HOT, LONG_MS, true);
	assert_false(owes(d));
	assert_false(desk_take(d, &h, NULL));
	assert_false(owes(d));
	assert_true(desk_take_now(d, &h));
	assert_true(owes(d));
	desk_rest(d, &h, DESK_HOT, 0, true);
	desk_sweep(d);
	assert_true(desk_take(d, &h, NULL)); /* as if it were new */
	assert_true(owes(d));
}

static void the_parked_are_told_until_they_rest_for_something_else(void **state)
{
	struct stub_handle h = handle(1);
	struct desk_parked p[2];
	struct desk *d = *state;
	uint64_t total;

	assert_true(desk_take(d, &h, NULL));
	desk_park(d, &h, "a", "name", -22);
	desk_park(d, &h, "b", "name", -13);
	assert_int_equal(desk_list(d, p, 2, &total), 0); /* not before it rests */
	desk_rest(d, &h, DESK_PARKED, 0, false);
	assert_int_equal(desk_list(d, p, 1, &total), 1);
	assert_int_equal(total, 2);
	assert_string_equal(p[0].path, "b");
	assert_int_equal(p[0].error, -13);
	desk_free_parked(p, 1);
	assert_true(desk_take(d, &h, NULL));
	desk_rest(d, &h, DESK_HOT, 0, true);
	assert_int_equal(desk_list(d, p, 2, &total), 0);
	assert_int_equal(total, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_puts_nothing_off, setup, teardown),
		cmocka_unit_test_setup_teardown(what_rests_is_not_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_right_is_not_owed_because_somebody_asks, setup, teardown),
		cmocka_unit_test_setup_teardown(the_parked_are_told_until_they_rest_for_something_else, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
