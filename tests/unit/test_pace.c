/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_pace.c - how many are in flight, beside old servers that are simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "source/pace.h"

/* An old server: an answer takes @latency_ms, and not more than @most come in a second. */
struct server {
	double latency_ms, most;
};

static double rate_of(const struct server *s, unsigned int window)
{
	double rate = window * 1000.0 / s->latency_ms;

	return rate < s->most ? rate : s->most;
}

/* @seconds of it, as many in flight as @p says; a part of the time for want of places. */
static uint64_t crawl(struct pace *p, const struct server *s, uint64_t from_ms, double seconds,
		      bool busy)
{
	uint64_t end = from_ms + (uint64_t)(seconds * 1000), done = 0;
	double owed = 0;

	for (uint64_t now = from_ms; now < end; now++) {
		owed += rate_of(s, p->window) / 1000;
		for (; owed >= 1; owed--, done++)
			pace_done(p, now, 1, busy);
	}
	return done;
}

static void near_a_few_do(void **state)
{
	const struct server near = { 0.5, 8000 };
	struct pace p;

	(void)state;
	pace_init(&p, 16, 256);
	crawl(&p, &near, 1, 60, true);
	assert_int_equal(p.usual, 16);
}

static void far_it_takes_many(void **state)
{
	const struct server far = { 10, 12000 };
	struct pace p;

	(void)state;
	pace_init(&p, 16, 256);
	crawl(&p, &far, 1, 2, true);
	assert_in_range(p.usual, 110, 256);
	crawl(&p, &far, 2001, 120, true);
	assert_in_range(p.usual, 110, 200); /* more bring nothing */
}

static void the_most_are_the_most(void **state)
{
	const struct server very_far = { 200, 1e9 };
	struct pace p;

	(void)state;
	pace_init(&p, 16, 256);
	crawl(&p, &very_far, 1, 60, true);
	assert_int_equal(p.usual, 256);
}

/* The line gets short, or the server slow: what it had is too much. */
static void it_comes_back(void **state)
{
	const struct server far = { 10, 1e9 }, slow = { 1, 2000 };
	struct pace p;

	(void)state;
	pace_init(&p, 16, 256);
	crawl(&p, &far, 1, 20, true);
	assert_int_equal(p.usual, 256);
	crawl(&p, &slow, 20001, 600, true);
	assert_int_equal(p.usual, 16);
	crawl(&p, &far, 620001, 300, true);
	assert_int_equal(p.usual, 256);
}

static void a_noisy_server(void **state)
{
	struct pace p;
	unsigned int most = 0;

	(void)state;
	pace_init(&p, 16, 256);
	for (uint64_t i = 0; i < 600; i++) { /* a quarter up and down, all the time */
		const struct server s = { 1, i % 3 == 0 ? 3750 : i % 3 == 1 ? 5000 : 6250 };

		crawl(&p, &s, 1 + i * 100, 0.1, true);
		most = p.usual > most ? p.usual : most;
	}
	assert_in_range(most, 16, 64);
}

static void what_does_not_fill_it_says_nothing(void **state)
{
	const struct server far = { 10, 1e9 };
	struct pace p;

	(void)state;
	pace_init(&p, 16, 256);
	crawl(&p, &far, 1, 60, false);
	assert_int_equal(p.window, 16);
}

static void set_by_hand(void **state)
{
	const struct server far = { 10, 1e9 };
	struct pace p;

	(void)state;
	pace_init(&p, 3, 3);
	crawl(&p, &far, 1, 60, true);
	assert_int_equal(p.window, 3);
}

/* From 16, either way at once: it is not far from what is right when a second is over. */
static void it_begins_in_the_middle(void **state)
{
	const struct server near = { 0.3, 8000 }, far = { 10, 12000 }, disks = { 8, 1e9 };
	struct pace p;

	(void)state;
	pace_init(&p, 2, 4096);
	pace_begin(&p, 16);
	crawl(&p, &near, 1, 1, true);
	assert_in_range(p.usual, 2, 4);
	pace_begin(&p, 16);
	crawl(&p, &far, 1001, 1, true);
	assert_in_range(p.usual, 64, 256);
	pace_begin(&p, 200);
	crawl(&p, &far, 2001, 1, true);
	assert_in_range(p.usual, 100, 200);
	pace_begin(&p, 16);
	crawl(&p, &disks, 3001, 3, true);
	assert_in_range(p.usual, 512, 4096);
	crawl(&p, &near, 6001, 200, true);
	assert_in_range(p.usual, 2, 5);
	crawl(&p, &far, 206001, 300, true); /* also from the least */
	assert_in_range(p.usual, 64, 256);
	pace_begin(&p, 1000000);
	assert_int_equal(p.window, 4096);
}

/* There is no place for more than 144: nothing is learnt of more, and fewer are tried. */
static void it_is_not_what_there_is_no_room_for(void **state)
{
	const struct server far = { 10, 14000 }, near = { 0.3, 8000 };
	struct pace p;

	(void)state;
	pace_init(&p, 2, 4096);
	pace_begin(&p, 200);
	pace_room(&p, 1, 256);
	assert_int_equal(p.window, 200);
	pace_room(&p, 1, 144);
	assert_int_equal(p.window, 144);
	for (uint64_t now = 2; now < 30000; now++) {
		crawl(&p, &far, now, 0.001, true);
		pace_room(&p, now, 144);
	}
	assert_int_equal(p.usual, 144);
	for (uint64_t now = 30000; now < 200000; now++) {
		crawl(&p, &near, now, 0.001, true);
		pace_room(&p, now, 144);
	}
	assert_in_range(p.usual, 2, 5);
}

/* Each halving costs 4 %: that is not so little after the third. */
static void small_losses_are_added_up(void **state)
{
	struct pace p;

	(void)state;
	pace_init(&p, 2, 4096);
	pace_begin(&p, 128);
	for (uint64_t now = 1; now < 3000; now++) {
		double rate = 8;

		for (unsigned int w = p.window; w < 256; w *= 2)
			rate *= 0.96;
		for (int i = 0; i < (int)(rate * 10); i++)
			pace_done(&p, now, 1, true);
	}
	assert_in_range(p.usual, 64, 128);
}

/* What an answer brings counts, not their number. */
static void large_answers_count_for_more(void **state)
{
	struct pace p;

	(void)state;
	pace_init(&p, 2, 4096);
	pace_begin(&p, 16);
	for (uint64_t now = 1; now < 2000; now++)
		for (int i = 0; i < 4; i++)
			pace_done(&p, now, p.window, true);
	assert_in_range(p.usual, 256, 4096);
}

/* A rest of an hour is no hour in which a little came. */
static void rests_are_not_counted(void **state)
{
	const struct server near = { 0.3, 8000 };
	struct pace p;
	double rate;

	(void)state;
	pace_init(&p, 16, 256);
	crawl(&p, &near, 1, 10, true);
	rate = p.rate;
	crawl(&p, &near, 3600000, 10, true);
	assert_true(p.rate > rate * 0.99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(near_a_few_do),
		cmocka_unit_test(far_it_takes_many),
		cmocka_unit_test(the_most_are_the_most),
		cmocka_unit_test(it_comes_back),
		cmocka_unit_test(a_noisy_server),
		cmocka_unit_test(what_does_not_fill_it_says_nothing),
		cmocka_unit_test(set_by_hand),
		cmocka_unit_test(it_begins_in_the_middle),
		cmocka_unit_test(it_is_not_what_there_is_no_room_for),
		cmocka_unit_test(small_losses_are_added_up),
		cmocka_unit_test(large_answers_count_for_more),
		cmocka_unit_test(rests_are_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
