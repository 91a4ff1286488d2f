/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_recall.c - the recall budget, by a clock of ours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/recall.h"

#define S 1000000ull
#define START (1000 * S)

static struct recall_client clients[RECALL_CLIENTS];

static uint64_t take(struct recalls *r, const char *who, uint32_t file, uint64_t now)
{
	struct stub_handle h = { .type = 1, .len = sizeof(file) };

	memcpy(h.bytes, &file, sizeof(file));
	return recalls_take(r, who, &h, now);
}

static struct recalls *create(unsigned int per_minute, unsigned int burst)
{
	struct recalls *r;

	assert_int_equal(recalls_create(per_minute, burst, &r), 0);
	return r;
}

static void burst_then_rate(void **state)
{
	struct recalls *r = create(30, 5); /* one every 2 s */

	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(take(r, "a", i, START), START);
	for (uint32_t i = 5; i < 20; i++)
		assert_int_equal(take(r, "a", i, START), START + (i - 4) * 2 * S);
	/* the same in the order of a client that waits for each */
	recalls_destroy(r);
	r = create(30, 1);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(take(r, "a", i, START + i * 2 * S), START + i * 2 * S);
	recalls_destroy(r);
}

static void rest_fills_the_bucket(void **state)
{
	struct recalls *r = create(60, 3);

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(take(r, "a", i, START), START);
	/* two tokens after 2 s, and never more than three */
	assert_int_equal(take(r, "a", 10, START + 2 * S), START + 2 * S);
	assert_int_equal(take(r, "a", 11, START + 2 * S), START + 2 * S);
	assert_int_equal(take(r, "a", 12, START + 2 * S), START + 3 * S);
	for (uint32_t i = 20; i < 23; i++)
		assert_int_equal(take(r, "a", i, START + 500 * S), START + 500 * S);
	assert_int_equal(take(r, "a", 23, START + 500 * S), START + 501 * S);
	recalls_destroy(r);
}

static void others_are_not_slowed(void **state)
{
	struct recalls *r = create(1, 1);

	for (uint32_t i = 0; i < 50; i++)
		take(r, "a@1", i, START);
	assert_int_equal(take(r, "a@2", 0, START), START);
	assert_int_equal(take(r, "b@1", 1, START), START);
	assert_int_equal(take(r, "", 2, START), START);
	assert_int_equal(recalls_clients(r, clients), 3); /* the crawler is none */
	recalls_destroy(r);
}

static void a_file_is_paid_once(void **state)
{
	struct recalls *r = create(60, 1);

	assert_int_equal(take(r, "a", 1, START), START);
	assert_int_equal(take(r, "a", 2, START), START + S);
	/* neither sooner nor dearer by asking again */
	for (int i = 0; i < 10; i++)
		assert_int_equal(take(r, "a", 2, START + S / 2), START + S);
	assert_int_equal(take(r, "a", 2, START + 5 * S), START + 5 * S);
	assert_int_equal(take(r, "a", 3, START + S), START + 2 * S);
	assert_int_equal(recalls_clients(r, clients), 1);
	assert_int_equal(clients[0].files, 3);
	assert_int_equal(clients[0].slowed, 2);
	recalls_destroy(r);
}

/* However many of them wait and are looked at again, no file takes another's place. */
static void many_files_are_paid_once(void **state)
{
	struct recalls *r = create(60000, 1);
	unsigned int n;

	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 500; i++)
			take(r, "a", i, START + (uint64_t)round);
	n = recalls_clients(r, clients);
	assert_int_equal(n, 1);
	assert_int_equal(clients[0].files, 500);
	recalls_destroy(r);
}

static void nothing_is_held_for_long(void **state)
{
	struct recalls *r = create(6, 1); /* one every 10 s */
	uint64_t latest = START + RECALL_HOLD_MAX_US;

	for (uint32_t i = 0; i < 10000; i++)
		assert_true(take(r, "a", i, START) <= latest);
	/* and what was given out is not more than that either */
	assert_true(take(r, "a", 20000, latest) <= latest + 20 * S);
	recalls_destroy(r);
}

static void no_limit(void **state)
{
	struct recalls *r = create(0, 1);

	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(take(r, "a", i, START), START);
	recalls_bytes(r, "a", 5, START + S);
	recalls_bytes(r, "", 5, START + S);
	assert_int_equal(recalls_clients(r, clients), 1);
	assert_string_equal(clients[0].who, "a");
	assert_int_equal(clients[0].files, 1000);
	assert_int_equal(clients[0].slowed, 0);
	assert_int_equal(clients[0].bytes, 5);
	assert_int_equal(clients[0].last_us, START + S);
	recalls_destroy(r);
}

static void the_table_is_bounded(void **state)
{
	struct recalls *r = create(60, 1);
	char who[STUB_WHO_MAX + 1];
	unsigned int n;

	for (uint32_t i = 0; i < 3 * RECALL_CLIENTS; i++) {
		snprintf(who, sizeof(who), "u%u@x", i);
		take(r, who, i, START);
		take(r, "steady@x", i, START); /* never the quietest */
	}
	n = recalls_clients(r, clients);
	assert_int_equal(n, RECALL_CLIENTS);
	assert_string_equal(clients[0].who, "steady@x");
	assert_int_equal(clients[0].files, 3 * RECALL_CLIENTS);
	for (unsigned int i = 1; i < n; i++) {
		unsigned int of;

		assert_int_equal(sscanf(clients[i].who, "u%u@x", &of), 1);
		assert_true(of > 2 * RECALL_CLIENTS); /* the youngest stay */
	}
	memset(who, 'w', STUB_WHO_MAX);
	who[STUB_WHO_MAX] = '\0';
	take(r, who, 1, START);
	recalls_bytes(r, who, 7, START); /* finds the longest again */
	n = recalls_clients(r, clients);
	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(clients[i].who, who)) {
			assert_int_equal(clients[i].files, 1);
			assert_int_equal(clients[i].bytes, 7);
			who[0] = '\0';
		}
	assert_string_equal(who, "");
	recalls_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burst_then_rate),
		cmocka_unit_test(rest_fills_the_bucket),
		cmocka_unit_test(others_are_not_slowed),
		cmocka_unit_test(a_file_is_paid_once),
		cmocka_unit_test(many_files_are_paid_once),
		cmocka_unit_test(nothing_is_held_for_long),
		cmocka_unit_test(no_limit),
		cmocka_unit_test(the_table_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
