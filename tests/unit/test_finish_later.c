/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_finish_later.c - what is kept, in which order it comes out, and how much of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "finish_later.h"

static struct stub_handle handle(uint32_t n)
{
	struct stub_handle h = { .type = 1, .len = sizeof(n) };

	memcpy(h.bytes, &n, sizeof(n));
	return h;
}

static uint32_t number(const struct stub_handle *h)
{
	uint32_t n;

	memcpy(&n, h->bytes, sizeof(n));
	return n;
}

static bool touch(struct stub_later *l, uint32_t n)
{
	struct stub_handle h = handle(n);

	return stub_later_touch(l, &h);
}

static bool keep(struct stub_later *l, uint32_t n, int how)
{
	struct stub_handle h = handle(n);

	return stub_later_keep(l, &h, how);
}

static void nothing_is_kept_without_a_delay(void **state)
{
	struct stub_later l = { .delay_ms = 0 };
	struct stub_handle h;
	int how;

	assert_false(touch(&l, 1));
	assert_false(keep(&l, 1, 0));
	assert_false(stub_later_due(&l, true, &h, &how));
	stub_later_finish(&l);
}

static void only_what_was_touched_is_kept(void **state)
{
	struct stub_later l = { .delay_ms = 3600000 };
	struct stub_handle h;
	int how;

	touch(&l, 1);
	touch(&l, 2);
	touch(&l, 3);
	touch(&l, 1); /* now it is the last one */
	assert_int_equal(stub_later_next_ms(&l), 0);
	assert_true(keep(&l, 1, 7));
	assert_true(keep(&l, 3, 8));
	assert_true(keep(&l, 3, 9));
	assert_false(keep(&l, 4, 9));
	assert_int_equal(l.kept, 2);
	assert_true(stub_later_next_ms(&l) > stub_now_ms());
	assert_false(stub_later_due(&l, false, &h, &how));
	assert_true(stub_later_due(&l, true, &h, &how));
	assert_int_equal(number(&h), 3);
	assert_int_equal(how, 9);
	assert_true(stub_later_due(&l, true, &h, &how));
	assert_int_equal(number(&h), 1);
	assert_int_equal(how, 7);
	assert_false(stub_later_due(&l, true, &h, &how));
	assert_int_equal(l.n, 0);
	stub_later_finish(&l);
}

static void it_comes_out_when_it_is_due(void **state)
{
	struct stub_later l = { .delay_ms = 1 };
	struct stub_handle h;
	int how;

	for (uint32_t i = 0; i < 100; i++) {
		touch(&l, i);
		keep(&l, i, (int)i);
	}
	usleep(3000);
	for (size_t left = l.kept; left > 0; left--)
		assert_true(stub_later_due(&l, false, &h, &how));
	assert_false(stub_later_due(&l, false, &h, &how));
	assert_false(keep(&l, 5, 0)); /* too long ago */
	stub_later_finish(&l);
}

/* A directory is kept again by the time of what is in it. */
static void again_is_in_order(void **state)
{
	struct stub_later l = { .delay_ms = 3600000 };
	struct stub_handle h = handle(9), one = handle(1), out;
	uint64_t now = stub_now_ms();
	int how;

	assert_false(stub_later_again(&l, &h, 3, now)); /* nothing was ever asked for */
	touch(&l, 1);
	assert_true(keep(&l, 1, 0));
	assert_true(stub_later_touched(&l, &one) >= now);
	assert_int_equal(stub_later_touched(&l, &h), 0);
	assert_true(stub_later_again(&l, &h, 3, 1)); /* as late as it may be: soon */
	assert_true(stub_later_next_ms(&l) > now && stub_later_next_ms(&l) < now + 3600000);
	assert_int_equal(l.kept, 2);
	assert_true(stub_later_due(&l, true, &out, &how));
	assert_int_equal(number(&out), 9);
	assert_int_equal(how, 3);
	stub_later_finish(&l);
}

static void memory_is_bounded(void **state)
{
	struct stub_later l = { .delay_ms = 3600000 };
	struct stub_handle h;
	uint32_t out = 0;
	int how;

	for (uint32_t i = 0; i < 100000; i++) {
		if (touch(&l, i))
			while (stub_later_due(&l, false, &h, &how))
				assert_int_equal(number(&h), out++);
		assert_true(keep(&l, i, 0));
	}
	assert_true(l.n <= 32768 && l.kept + out == 100000);
	h = handle(100000);
	stub_later_again(&l, &h, 0, stub_now_ms());
	assert_true(l.n <= 32768);
	stub_later_finish(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_kept_without_a_delay),
		cmocka_unit_test(only_what_was_touched_is_kept),
		cmocka_unit_test(it_comes_out_when_it_is_due),
		cmocka_unit_test(again_is_in_order),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
