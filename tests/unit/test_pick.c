/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_pick.c - the best of many entries, as many as there is room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pick.h"

static struct stub_journal_entry entry(uint32_t i)
{
	struct stub_journal_entry e = { .kind = STUB_JOURNAL_FILE, .h = { .type = 1, .len = 4 } };

	memcpy(e.h.bytes, &i, sizeof(i));
	return e;
}

static uint32_t number(const struct stub_journal_entry *e)
{
	uint32_t i;

	memcpy(&i, e->h.bytes, sizeof(i));
	return i;
}

static void the_best_come_best_first(void **state)
{
	uint32_t n = 5 * PICK_ROOM;
	struct stub_journal_entry e;
	struct pick *p;

	assert_int_equal(pick_create(&p), 0);
	for (int round = 0; round < 2; round++) { /* it can be used again */
		for (uint32_t i = 0; i < n; i++) { /* each number once, mixed */
			uint32_t x = (uint32_t)((uint64_t)i * 7919 % n);

			e = entry(x);
			assert_int_equal(pick_offer(p, x, &e), i < PICK_ROOM);
		}
		pick_sort(p);
		for (uint32_t i = 0; i < PICK_ROOM; i++) {
			assert_true(pick_take(p, &e));
			assert_int_equal(number(&e), i);
			assert_int_equal(e.kind, STUB_JOURNAL_FILE);
		}
		assert_false(pick_take(p, &e));
		pick_clear(p);
		assert_false(pick_take(p, &e));
	}
	pick_destroy(p);
}

static void those_alike_come_as_they_were_offered(void **state)
{
	struct stub_journal_entry e;
	struct pick *p;

	assert_int_equal(pick_create(&p), 0);
	for (uint32_t i = 0; i < 3 * PICK_ROOM; i++) {
		e = entry(i);
		pick_offer(p, i % 2, &e);
	}
	pick_sort(p);
	for (uint32_t i = 0; i < PICK_ROOM; i++) {
		assert_true(pick_take(p, &e));
		assert_int_equal(number(&e), 2 * i);
	}
	pick_destroy(p);
	pick_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_come_best_first),
		cmocka_unit_test(those_alike_come_as_they_were_offered),
	};

	return cmocka_run_group_tests_name("pick", tests, NULL, NULL);
}
