/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_smb_ranges.c - retriever/smb/smb_ranges.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "smb/smb_ranges.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MOST	     3
#define WORDS	     16

static struct stub_range hole[MOST];
static uint64_t known;

/* The holes of [offset, end) by @words of offset, length, offset ..., or -EBADMSG. */
static int holes_of(const uint64_t *words, size_t n, uint64_t offset, uint64_t end, uint64_t least)
{
	uint8_t bytes[WORDS * 8];

	assert_true(n <= WORDS);
	for (size_t i = 0; i < n; i++)
		stub_put_le(bytes + 8 * i, words[i], 8);
	return smb_ranges_holes(bytes, 8 * n, offset, end, least, hole, MOST, &known);
}

#define HOLES(offset, end, least, ...)                                                   \
	holes_of((const uint64_t[]){ __VA_ARGS__ }, ARRAY_LEN(((const uint64_t[]){ __VA_ARGS__ })), \
		 offset, end, least)

static void is_hole(unsigned int i, uint64_t start, uint64_t end)
{
	assert_true(hole[i].start == start && hole[i].end == end);
}

static void what_is_not_named_is_a_hole(void **state)
{
	assert_int_equal(holes_of(NULL, 0, 0, 1000, 1), 1);
	is_hole(0, 0, 1000);
	assert_true(known == 1000);
	assert_int_equal(HOLES(0, 1000, 1, 0, 1000), 0);
	assert_int_equal(HOLES(0, 1000, 1, 100, 100), 2);
	is_hole(0, 0, 100);
	is_hole(1, 200, 1000);
	assert_int_equal(HOLES(500, 1000, 1, 600, 100, 700, 50, 900, 100), 2);
	is_hole(0, 500, 600);
	is_hole(1, 750, 900);
	assert_int_equal(HOLES(0, (uint64_t)INT64_MAX, 1, (uint64_t)INT64_MAX - 1, 1), 1);
	is_hole(0, 0, (uint64_t)INT64_MAX - 1);
	(void)state;
}

/* A server rounds to its blocks. */
static void ends_may_be_rounded(void **state)
{
	assert_int_equal(HOLES(500, 1000, 1, 0, 600, 800, 4096), 1);
	is_hole(0, 600, 800);
	assert_int_equal(HOLES(500, 1000, 1, 0, 4096), 0);
	(void)state;
}

static void short_ones_are_left_out(void **state)
{
	assert_int_equal(HOLES(0, 1000, 100, 99, 1, 200, 1, 300, 601), 1);
	is_hole(0, 100, 200);
	(void)state;
}

/* What comes after the last one that has room is for another question. */
static void more_than_there_is_room_for(void **state)
{
	assert_int_equal(HOLES(0, 1000, 1, 100, 100, 300, 100, 500, 100), MOST);
	assert_true(known == 600);
	is_hole(2, 400, 500);
	assert_int_equal(HOLES(0, 600, 1, 100, 100, 300, 100, 500, 100), MOST);
	assert_true(known == 600);
	(void)state;
}

static void nonsense_is_no_answer(void **state)
{
	const uint64_t max = INT64_MAX;

	assert_int_equal(HOLES(0, 1000, 1, 100, 0), -EBADMSG); /* empty */
	assert_int_equal(HOLES(0, 1000, 1, 100, max), -EBADMSG);
	assert_int_equal(HOLES(0, 1000, 1, 100, UINT64_MAX), -EBADMSG);
	assert_int_equal(HOLES(0, 1000, 1, UINT64_MAX, 2), -EBADMSG);
	assert_int_equal(HOLES(0, 1000, 1, max + 1, 1), -EBADMSG);
	assert_int_equal(HOLES(0, 1000, 1, 1000, 1), -EBADMSG); /* behind the end */
	assert_int_equal(HOLES(0, 1000, 1, 0, 10, 5000, 10), -EBADMSG);
	assert_int_equal(HOLES(500, 1000, 1, 0, 500), -EBADMSG); /* before the beginning */
	assert_int_equal(HOLES(0, 1000, 1, 100, 100, 150, 100), -EBADMSG); /* overlapping */
	assert_int_equal(HOLES(0, 1000, 1, 100, 100, 100, 100), -EBADMSG);
	assert_int_equal(HOLES(0, 1000, 1, 500, 100, 100, 100), -EBADMSG); /* out of order */
	assert_int_equal(HOLES(0, 1000, 1, 0, 1000, 1, 1), -EBADMSG); /* and after the last one */
	assert_int_equal(HOLES(0, 1000, 1, 100), -EBADMSG); /* half of one */
	assert_int_equal(HOLES(0, 1000, 1, 100, 100, 300), -EBADMSG);
	assert_int_equal(HOLES(0, 1000, 1, 0, 1000, 300), -EBADMSG);
	(void)state;
}

/* ---- smb_ranges_apply ---- */

static void only_plain_sparse_files(void **state)
{
	assert_true(smb_ranges_apply(0x200));
	assert_true(smb_ranges_apply(0x200 | 0x20 | 0x1 | 0x80));
	assert_false(smb_ranges_apply(0));
	assert_false(smb_ranges_apply(0x20 | 0x800));
	assert_false(smb_ranges_apply(0x200 | 0x400)); /* a reparse point: deduplicated, tiered */
	assert_false(smb_ranges_apply(0x200 | 0x1000)); /* offline: on a tape */
	assert_false(smb_ranges_apply(0x200 | 0x40000)); /* recalled when it is opened */
	assert_false(smb_ranges_apply(0x200 | 0x400000)); /* recalled when it is read */
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_named_is_a_hole),
		cmocka_unit_test(ends_may_be_rounded),
		cmocka_unit_test(short_ones_are_left_out),
		cmocka_unit_test(more_than_there_is_room_for),
		cmocka_unit_test(nonsense_is_no_answer),
		cmocka_unit_test(only_plain_sparse_files),
	};

	return cmocka_run_group_tests_name("smb_ranges", tests, NULL, NULL);
}
