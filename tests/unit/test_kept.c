/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept.c - of which files the mirror has nothing that it could lose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kept.h"

#define MOST (1u << 20)

static struct stub_handle handle(uint32_t i)
{
	struct stub_handle h = { .type = 1, .len = sizeof(i) };

	memcpy(h.bytes, &i, sizeof(i));
	return h;
}

static int setup(void **state)
{
	return kept_create((struct kept **)state);
}

static int teardown(void **state)
{
	kept_destroy(*state);
	return 0;
}

static void nothing_is_known_of_a_stranger(void **state)
{
	struct stub_handle h = handle(1);

	assert_false(kept_take(*state, &h));
}

static void taken_once(void **state)
{
	struct stub_handle one = handle(1), other = handle(2);

	kept_put(*state, &one);
	kept_put(*state, &one);
	assert_false(kept_take(*state, &other));
	assert_true(kept_take(*state, &one));
	assert_false(kept_take(*state, &one));
}

/* Memory is bounded: who is forgotten costs a commit. */
static void not_without_end(void **state)
{
	struct stub_handle h;
	unsigned int n = 0;

	for (uint32_t i = 0; i <= MOST; i++) {
		h = handle(i);
		kept_put(*state, &h);
	}
	assert_true(kept_take(*state, &h));
	for (uint32_t i = 0; i < MOST; i += 1000) {
		h = handle(i);
		n += kept_take(*state, &h);
	}
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_known_of_a_stranger, setup, teardown),
		cmocka_unit_test_setup_teardown(taken_once, setup, teardown),
		cmocka_unit_test_setup_teardown(not_without_end, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
