/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_map.c - libstubcore/map.c against a map of single bytes */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "internal.h"

#define SIZE 512u

static void model_of(const struct stub_map *m, char *bytes)
{
	memset(bytes, 0, SIZE);
	for (uint32_t i = 0; i < m->n; i++)
		for (uint64_t k = m->r[i].start; k < m->r[i].end && k < SIZE; k++)
			bytes[k] = 1;
}

static void assert_valid(const struct stub_map *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		assert_true(m->r[i].start < m->r[i].end);
		if (i)
			assert_true(m->r[i - 1].end < m->r[i].start);
	}
}

/* ---- init, empty, bytes ---- */

static void test_init(void **state)
{
	struct stub_map m;

	stub_map_init(&m, 0);
	assert_true(stub_map_empty(&m));
	stub_map_init(&m, 10);
	assert_false(stub_map_empty(&m));
	assert_int_equal(stub_map_bytes(&m), 10);
	assert_true(stub_map_overlaps(&m, 9, 10));
	assert_false(stub_map_overlaps(&m, 10, 20));
	assert_false(stub_map_overlaps(&m, 5, 5));
}

/* ---- subtract, clip, first: every result equals the model's ---- */

static void test_random_against_model(void **state)
{
	for (unsigned int seed = 1; seed <= 300; seed++) {
		char model[SIZE], got[SIZE];
		struct stub_map m;

		srandom(seed);
		stub_map_init(&m, SIZE);
		memset(model, 1, SIZE);
		for (int step = 0; step < 60; step++) {
			uint64_t a = (uint64_t)random() % SIZE, b = a + (uint64_t)random() % 24;
			struct stub_range first;
			uint64_t k;

			if (random() % 12 == 0) {
				stub_map_clip(&m, SIZE - (uint64_t)step);
				memset(model + SIZE - step, 0, (size_t)step);
			} else {
				assert_int_equal(stub_map_subtract(&m, a, b), 0);
				for (k = a; k < b && k < SIZE; k++)
					model[k] = 0;
			}
			assert_valid(&m);
			model_of(&m, got);
			if (memcmp(model, got, SIZE))
				fail_msg("seed %u step %d", seed, step);
			a = (uint64_t)random() % SIZE;
			for (k = a; k < SIZE && !model[k]; k++)
				;
			assert_int_equal(stub_map_first(&m, a, SIZE, &first), k < SIZE);
			if (k < SIZE)
				assert_int_equal(first.start, k);
		}
	}
}

/* ---- intersect ---- */

static void test_intersect_against_model(void **state)
{
	for (unsigned int seed = 1; seed <= 300; seed++) {
		char x[SIZE], y[SIZE], got[SIZE];
		struct stub_map a, b, c, d;

		srandom(seed);
		stub_map_init(&a, SIZE);
		stub_map_init(&b, SIZE);
		for (int i = 0; i < 30; i++) {
			uint64_t p = (uint64_t)random() % SIZE, q = (uint64_t)random() % SIZE;

			assert_int_equal(stub_map_subtract(&a, p, p + 7), 0);
			assert_int_equal(stub_map_subtract(&b, q, q + 9), 0);
		}
		model_of(&a, x);
		model_of(&b, y);
		assert_int_equal(stub_map_difference(&a, &b, &c), 0);
		assert_valid(&c);
		model_of(&c, got);
		for (unsigned int k = 0; k < SIZE; k++)
			assert_int_equal(got[k], x[k] && !y[k]);
		assert_int_equal(stub_map_union(&b, &c, &d), 0);
		assert_valid(&d);
		model_of(&d, got);
		for (unsigned int k = 0; k < SIZE; k++)
			assert_int_equal(got[k], x[k] || y[k]);
		assert_int_equal(stub_map_intersect(&a, &b), 0);
		assert_valid(&a);
		model_of(&a, got);
		for (unsigned int k = 0; k < SIZE; k++)
			assert_int_equal(got[k], x[k] && y[k]);
	}
}

/* ---- limits ---- */

static void test_full_map_refuses_and_stays(void **state)
{
	struct stub_map m;
	struct stub_map small;

	stub_map_init(&m, 1 << 20);
	for (uint64_t i = 1; m.n < STUB_MAP_MAX; i++)
		assert_int_equal(stub_map_subtract(&m, i * 100, i * 100 + 10), 0);
	assert_int_equal(stub_map_subtract(&m, 900000, 900001), -ENOSPC);
	assert_int_equal(m.n, STUB_MAP_MAX);
	assert_true(stub_map_overlaps(&m, 900000, 900001));
	/* filling the smallest gap makes room */
	stub_map_smallest(&m, m.n - 1, UINT64_MAX, &small);
	assert_int_equal(small.n, 1);
	assert_int_equal(stub_map_bytes(&small), 90);
	assert_int_equal(stub_map_subtract(&m, small.r[0].start, small.r[0].end), 0);
	assert_int_equal(m.n, STUB_MAP_MAX - 1);
	assert_int_equal(stub_map_subtract(&m, 900000, 900001), 0);
}

static void test_ends_of_the_number_line(void **state)
{
	struct stub_map m, none;

	stub_map_init(&m, UINT64_MAX);
	assert_int_equal(stub_map_subtract(&m, 5, UINT64_MAX), 0);
	assert_int_equal(stub_map_bytes(&m), 5);
	stub_map_clip(&m, 0);
	assert_true(stub_map_empty(&m));
	stub_map_smallest(&m, 0, 100, &none);
	assert_int_equal(none.n, 0);
}

/* ---- the smallest ranges ---- */

static void test_smallest_ranges(void **state)
{
	const struct stub_range ranges[] = { { 0, 50 }, { 60, 65 }, { 70, 100 }, { 110, 111 },
					     { 200, 1000 } };
	struct stub_map m = { .n = 5 }, s;

	memcpy(m.r, ranges, sizeof(ranges));
	stub_map_smallest(&m, 2, UINT64_MAX, &s);
	assert_valid(&s);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.r[0].start, 60);
	assert_int_equal(s.r[1].start, 70);
	assert_int_equal(s.r[2].start, 110);
	stub_map_smallest(&m, 0, 6, &s); /* 1 and 5 bytes are enough */
	assert_int_equal(s.n, 2);
	stub_map_smallest(&m, 5, 0, &s); /* one at least */
	assert_int_equal(s.n, 1);
	assert_int_equal(s.r[0].start, 110);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_random_against_model),
		cmocka_unit_test(test_intersect_against_model),
		cmocka_unit_test(test_full_map_refuses_and_stays),
		cmocka_unit_test(test_ends_of_the_number_line),
		cmocka_unit_test(test_smallest_ranges),
	};

	return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
