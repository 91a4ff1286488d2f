/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_called.c - source/histogram.c and source/called.c: how long the old server took */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "source/called.h"
#include "stubcore.h"

static void test_steps(void **state)
{
	static const struct histogram_steps steps = { .n = 3, .us = { 10, 20, 1000 } };
	static const uint64_t us[] = { 0, 10, 11, 20, 21, 1000, 1001, UINT32_MAX + UINT64_C(2) };
	static const uint64_t want[] = { 2, 2, 2, 2 };
	struct histogram h = { 0 };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(us) / sizeof(us[0]); i++) {
		histogram_note(&h, &steps, us[i]);
		sum += us[i];
	}
	for (size_t i = 0; i <= steps.n; i++)
		assert_int_equal(atomic_load(&h.count[i]), want[i]);
	assert_int_equal(atomic_load(&h.sum_us), sum);
}

/* Each kind has its own; whatever the time is, it is in one of the steps. */
static void test_called(void **state)
{
	uint64_t since_us = stub_now_us() - 1500000;

	called(CALLED_READ, since_us);
	for (int k = 0; k < CALLED_KINDS; k++) {
		uint64_t n = 0;

		for (unsigned int i = 0; i <= called_steps.n; i++)
			n += atomic_load(&called_times[k].count[i]);
		assert_int_equal(n, k == CALLED_READ);
		assert_non_null(called_name((enum called)k));
	}
	assert_true(atomic_load(&called_times[CALLED_READ].sum_us) >= 1500000);
	for (unsigned int i = 0; called_steps.us[i] <= 1000000; i++)
		assert_int_equal(atomic_load(&called_times[CALLED_READ].count[i]), 0);
}

static void test_steps_ascend(void **state)
{
	assert_true(called_steps.n <= HISTOGRAM_MAX);
	for (unsigned int i = 1; i < called_steps.n; i++)
		assert_true(called_steps.us[i - 1] < called_steps.us[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_called),
		cmocka_unit_test(test_steps_ascend),
	};

	return cmocka_run_group_tests_name("called", tests, NULL, NULL);
}
