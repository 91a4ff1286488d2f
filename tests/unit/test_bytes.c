/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_bytes.c - libstubcore/bytes.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bytes.h"

/* ---- stub_put_le, stub_get_le ---- */

static void numbers_come_back(void **state)
{
	static const uint8_t want[8] = { 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01 };
	uint8_t b[8];

	stub_put_le(b, 0x0102030405060708u, 8);
	assert_memory_equal(b, want, 8);
	for (unsigned int width = 1; width <= 8; width++)
		assert_int_equal(stub_get_le(b, width),
				 0x0102030405060708u & (UINT64_MAX >> (64 - 8 * width)));
}

static void a_width_is_all_that_is_written(void **state)
{
	uint8_t b[4] = { 0xaa, 0xaa, 0xaa, 0xaa };

	stub_put_le(b, UINT64_MAX, 3);
	assert_int_equal(b[2], 0xff);
	assert_int_equal(b[3], 0xaa);
}

/* ---- stub_in ---- */

static void bytes_are_read_in_their_order(void **state)
{
	static const uint8_t b[] = { 1, 2, 0, 'a', 'b', 9 };
	struct stub_in i = { b, sizeof(b), false };
	char text[2];

	assert_int_equal(stub_in_le(&i, 1), 1);
	assert_int_equal(stub_in_le(&i, 2), 2);
	stub_in_copy(&i, text, 2);
	assert_memory_equal(text, "ab", 2);
	assert_ptr_equal(stub_in_take(&i, 1), b + 5);
	assert_ptr_equal(stub_in_take(&i, 0), b + 6);
	assert_false(i.bad);
	assert_int_equal(i.left, 0);
}

static void what_is_too_short_stays_bad(void **state)
{
	static const uint8_t b[] = { 1, 2, 3 };
	struct stub_in i = { b, sizeof(b), false };
	uint8_t out[4] = { 5, 5, 5, 5 };

	assert_int_equal(stub_in_le(&i, 4), 0);
	assert_true(i.bad);
	assert_int_equal(stub_in_le(&i, 1), 0);
	assert_null(stub_in_take(&i, 0));
	stub_in_copy(&i, out, 3);
	assert_memory_equal(out, "\0\0\0\5", 4);
	assert_int_equal(i.left, 3);
}

static void a_length_near_the_largest_is_too_long(void **state)
{
	static const uint8_t b[] = { 1 };
	struct stub_in i = { b, sizeof(b), false };

	assert_null(stub_in_take(&i, SIZE_MAX));
	assert_true(i.bad);
}

/* ---- stub_fnv ---- */

static void the_hash_is_the_one_on_disks(void **state)
{
	assert_true(stub_fnv(STUB_FNV, NULL, 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(stub_fnv(STUB_FNV, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(stub_fnv(STUB_FNV, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void it_may_be_taken_in_pieces(void **state)
{
	assert_true(stub_fnv(stub_fnv(STUB_FNV, "foo", 3), "b\xff", 2) ==
		    stub_fnv(STUB_FNV, "foob\xff", 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_come_back),
		cmocka_unit_test(a_width_is_all_that_is_written),
		cmocka_unit_test(bytes_are_read_in_their_order),
		cmocka_unit_test(what_is_too_short_stays_bad),
		cmocka_unit_test(a_length_near_the_largest_is_too_long),
		cmocka_unit_test(the_hash_is_the_one_on_disks),
		cmocka_unit_test(it_may_be_taken_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
