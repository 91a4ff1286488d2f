/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_limiter.c - retriever/source/limiter.c, by a clock that only moves when it is told to */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <pthread.h>

#include <cmocka.h>

#include "source/limiter.h"
#include "stubcore.h"

static uint64_t now = 1000000000, step; /* by which each look at the clock moves it */

uint64_t __wrap_stub_now_us(void);
uint64_t __wrap_stub_now_us(void)
{
	return __atomic_fetch_add(&now, step, __ATOMIC_RELAXED);
}

static struct limiter *with(uint32_t requests, uint32_t latency_ms)
{
	struct limiter *l;

	assert_int_equal(limiter_create(false, &l), 0);
	limiter_set(l, &(struct limiter_rules){ requests, latency_ms, 0 });
	return l;
}

static bool go(struct limiter *l)
{
	uint64_t again = 0;
	bool may = limiter_go(l, 0, &again) != 0;

	assert_true(may || again > now);
	return may;
}

/* So many as may go now. */
static unsigned int go_all(struct limiter *l, unsigned int most)
{
	unsigned int n = 0;

	while (n < most && go(l))
		n++;
	return n;
}

static void answer(struct limiter *l, uint64_t sent_us, uint64_t bytes)
{
	limiter_answered(l, 0, sent_us, bytes);
	limiter_over(l, 0, 1);
}

/* Until an answer has said how long one takes. */
static void at_first_all_may_go(void **state)
{
	struct limiter *l = with(0, 0);
	struct limiter_state s;

	assert_int_equal(go_all(l, 10000), 4096);
	limiter_state(l, &s);
	assert_int_equal(s.calls, 4096);
	assert_false(s.backs_off);
	assert_int_equal(s.latency_us, 0);
	limiter_destroy(l);
	assert_false(limiter_counts(NULL, true));
	assert_false(limiter_holds(NULL));
	limiter_heard(NULL, 0);
	limiter_over(NULL, 0, 1);
	limiter_another(NULL);
	limiter_answered(NULL, 0, 0, 0);
	limiter_set(NULL, &(struct limiter_rules){ 1, 1, 1 });
	limiter_destroy(NULL);
}

static void what_counts(void **state)
{
	struct limiter *l = with(1, 0), *all;

	assert_int_equal(limiter_create(true, &all), 0);
	assert_true(limiter_counts(l, true));
	assert_false(limiter_counts(l, false));
	assert_true(limiter_counts(all, true));
	assert_true(limiter_counts(all, false));
	limiter_destroy(l);
	limiter_destroy(all);
}

/* Not more than the rate, however it is asked; and not less, if who asks comes late. */
static void so_many_in_a_second(void **state)
{
	static const uint32_t rates[] = { 1, 7, 100, 3000, 1000000 };

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct limiter *l = with(rates[i], 0);
		uint64_t began = now, n = 0, seconds = 20;

		while (now < began + seconds * 1000000) {
			for (; go(l); n++)
				limiter_over(l, 0, 1);
			now += 9973;
		}
		assert_in_range(n, rates[i] * seconds - rates[i] / 20 - 1,
				rates[i] * seconds + rates[i] / 10 + 2);
		limiter_destroy(l);
	}
}

/* After a rest they do not come all at once. */
static void a_rest_is_not_saved_up(void **state)
{
	struct limiter *l = with(100, 0);

	go_all(l, 1000);
	now += 3600000000;
	assert_in_range(go_all(l, 1000), 1, 7);
	limiter_destroy(l);
}

static void more_requests_of_one_are_counted(void **state)
{
	struct limiter *l = with(10, 0);

	go_all(l, 100);
	now += 10000000;
	assert_true(go(l));
	for (int i = 0; i < 20; i++)
		limiter_another(l);
	now += 1500000;
	assert_false(go(l));
	now += 1000000;
	assert_true(go(l));
	limiter_destroy(l);
}

static void a_new_rate_counts_at_once(void **state)
{
	struct limiter *l = with(1, 0);

	go_all(l, 100);
	assert_false(go(l));
	limiter_set(l, &(struct limiter_rules){ 0, 0, 0 });
	assert_int_equal(go_all(l, 100), 100);
	limiter_destroy(l);
}

/*
 * An old server that answers one after the other, in @each_us: for @seconds, with as many under way as may
 * be, of @want.  Returns the most in the last five seconds.
 */
static unsigned int serve(struct limiter *l, uint64_t each_us, uint64_t bytes, unsigned int seconds,
			  unsigned int want)
{
	uint64_t sent[512], end = now + seconds * 1000000ull;
	unsigned int n = 0, most = 0;

	while (now < end || n) {
		while (now < end && n < want && go(l))
			sent[n++] = now;
		if (now + 5000000 >= end && n > most)
			most = n;
		now += n ? each_us : 10000;
		if (!n)
			continue;
		answer(l, sent[0], bytes);
		for (unsigned int i = 1; i < n; i++)
			sent[i - 1] = sent[i];
		n--;
	}
	return most;
}

/* 2 ms each, 20 ms wanted: ten of them. */
static void as_many_as_the_set_point_allows(void **state)
{
	struct limiter *l = with(0, 20);
	struct limiter_state s;

	assert_in_range(serve(l, 2000, 0, 30, 500), 5, 13);
	limiter_state(l, &s);
	assert_true(s.backs_off);
	assert_in_range(s.latency_us, 5000, 25000);
	/* it gets quick: nothing holds them any more */
	assert_int_equal(serve(l, 10, 0, 60, 500), 500);
	now += 2000000;
	limiter_state(l, &s);
	assert_false(s.backs_off);
	limiter_destroy(l);
}

/* Where even one takes longer, there are pauses; but it never ends. */
static void pauses_where_one_is_too_many(void **state)
{
	struct limiter *l = with(0, 20);
	uint64_t began, gaps = 0, over;
	unsigned int n = 0;

	assert_int_equal(serve(l, 100000, 0, 120, 500), 1);
	began = now;
	while (now < began + 60000000) {
		if (!go(l)) {
			now += 1000;
			continue;
		}
		now += 100000;
		answer(l, now - 100000, 0);
		over = now;
		while (!go(l))
			now += 1000;
		gaps += now - over;
		limiter_over(l, 0, 1);
		n++;
	}
	assert_in_range(n, 15, 60);		 /* of 600 that would follow each other */
	assert_in_range(gaps / n, 1400000, 1600000); /* 15 times their own time */
	limiter_destroy(l);
}

/* 1 MiB in 16 times the set point is right; and listings do not count. */
static void data_counts_by_its_size(void **state)
{
	struct limiter *l = with(0, 20);
	struct limiter_state s;

	assert_int_equal(serve(l, 600, 1 << 20, 30, 400), 400); /* 240 ms of 320 */
	limiter_state(l, &s);
	assert_false(s.backs_off);
	assert_in_range(s.latency_us, 14000, 16000);
	assert_true(go(l));
	now += 50000000;
	limiter_heard(l, 0);
	limiter_over(l, 0, 1);
	limiter_state(l, &s);
	assert_in_range(s.latency_us, 14000, 16000);
	limiter_destroy(l);
}

/* No answer is no quick answer. */
static void silence_holds_what_follows(void **state)
{
	struct limiter *l = with(0, 20);

	assert_int_equal(go_all(l, 10), 10);
	now += 900000;
	assert_true(go(l));
	now += 200000;
	assert_false(go(l));
	assert_true(limiter_holds(l));
	limiter_heard(l, 0);
	assert_true(go(l));
	now += 11000000;
	assert_false(go(l));
	assert_false(limiter_holds(l)); /* it is the old server that holds it */
	for (int i = 0; i < 12; i++)
		limiter_over(l, 0, 1);
	assert_true(go(l)); /* nothing is under way: it is tried */
	limiter_destroy(l);
}

static void both_rules_count(void **state)
{
	struct limiter *l = with(5, 20);
	uint64_t began = now, n = 0;

	while (now < began + 20000000) {
		if (go(l)) {
			n++;
			now += 1000;
			answer(l, now - 1000, 0);
		}
		now += 1000;
	}
	assert_in_range(n, 98, 103);
	limiter_destroy(l);
}

static unsigned int calls(struct limiter *l)
{
	struct limiter_state s;

	limiter_state(l, &s);
	return s.calls;
}

/* An old server that has @each_us of work for each, one after the other, at the end of a line of @line_us, when
 * so many want to go as may. */
static void work(struct limiter *l, uint64_t each_us, uint64_t line_us, unsigned int seconds)
{
	static uint64_t sent[LIMITER_CALLS_MAX], due[LIMITER_CALLS_MAX];
	uint64_t end = now + seconds * 1000000ull, free_us = now;
	unsigned int first = 0, n = 0;

	for (; now < end || n; now += 50) {
		while (now < end && n < LIMITER_CALLS_MAX && go(l)) {
			unsigned int last = (first + n++) % LIMITER_CALLS_MAX;

			free_us = (free_us > now ? free_us : now) + each_us;
			sent[last] = now;
			due[last] = free_us + line_us;
		}
		for (; n && due[first] <= now; n--, first = (first + 1) % LIMITER_CALLS_MAX)
			answer(l, sent[first], 0);
	}
}

static void a_few_near_the_old_server(void **state)
{
	struct limiter *l = with(0, 0);

	limiter_answered(l, 0, now - 200, 0); /* of who connects */
	go_all(l, 1);
	assert_int_equal(calls(l), 16);
	work(l, 100, 100, 2);
	assert_in_range(calls(l), 2, 4);
	limiter_destroy(l);
}

static void hundreds_at_the_end_of_a_long_line(void **state)
{
	struct limiter *l = with(0, 0);

	limiter_answered(l, 0, now - 10000, 0);
	go_all(l, 1);
	assert_int_equal(calls(l), 200); /* from the first moment */
	work(l, 100, 10000, 2);
	assert_in_range(calls(l), 100, 400);
	limiter_destroy(l);
}

/* What a cache answers at once says nothing of its disks, which are many. */
static void more_than_the_first_answer_says(void **state)
{
	struct limiter *l = with(0, 0);

	limiter_answered(l, 0, now - 100, 0);
	work(l, 100, 20000, 2);
	assert_in_range(calls(l), 100, 800);
	limiter_destroy(l);
}

/* What is never answered does not keep the others for good, and has its places back in the end. */
static void what_hangs_is_not_counted(void **state)
{
	struct limiter *l = with(0, 0);
	uint64_t again, began;
	unsigned int flight = 0;

	limiter_answered(l, 0, now - 200, 0);
	assert_int_equal(go_all(l, 1000), 16);
	now += 900000;
	assert_false(go(l));
	now += 200000;
	assert_int_equal(go_all(l, 1000), 16); /* the first 16 hang */
	for (int i = 0; i < 15; i++) {
		now += 900000;
		limiter_over(l, 0, 2);
		assert_true(go(l)); /* something moves: one for one */
		assert_false(go(l));
	}
	now += 1100000;
	assert_int_equal(go_all(l, 1000), 16); /* these, too */
	for (int i = 0; i < 16; i++) {
		limiter_over(l, 0, 1);
		assert_false(go(l));
	}
	for (int i = 0; i < 16; i++) {
		limiter_over(l, 0, 2);
		assert_false(go(l));
	}
	limiter_over(l, 0, 3);
	flight = limiter_go(l, 0, &again);
	assert_int_equal(flight, 3);
	assert_false(go(l));
	began = now;
	limiter_set(l, &(struct limiter_rules){ 0, 0, 16 }); /* a number that was set is never passed */
	now = began + 60000000;
	assert_false(go(l));
	limiter_destroy(l);
}

#define TURNS 20000

static void *takes_places(void *arg)
{
	struct limiter *l = arg;
	unsigned int flight[8], n = 0;
	uint64_t again, others = 0;

	for (int i = 0; i < TURNS; i++) {
		while (n < 8 && (flight[n] = limiter_go(l, 0, &again)) != 0)
			others += flight[n++] != 1;
		while (n)
			limiter_over(l, 0, flight[--n]);
	}
	return (void *)others;
}

/* Who has looked at the clock before another thread does not take its call for one that hangs. */
static void many_threads_look_at_the_clock(void **state)
{
	struct limiter *l = with(0, 0);
	pthread_t t[4];
	void *others;

	limiter_answered(l, 0, now - 200, 0);
	step = 1; /* far from a second in all */
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, takes_places, l), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(t[i], &others), 0);
		assert_null(others);
	}
	step = 0;
	limiter_destroy(l);
}

/* Connections that are full say so. */
static void not_more_than_there_is_room_for(void **state)
{
	struct limiter *l = with(0, 0);

	limiter_full(l, 0); /* nothing is known yet */
	limiter_answered(l, 0, now - 10000, 0);
	assert_int_equal(go_all(l, 100), 100);
	assert_int_equal(calls(l), 200);
	limiter_full(l, 0);
	assert_int_equal(calls(l), 100);
	assert_false(go(l));
	limiter_full(NULL, 0);
	limiter_destroy(l);
}

/* The one that is quick does not take the places of the other. */
static void halves_are_counted_apart(void **state)
{
	struct limiter *l = with(0, 0);
	uint64_t again;

	limiter_answered(l, 0, now - 200, 0);
	limiter_answered(l, 1, now - 5000, 0);
	assert_int_equal(go_all(l, 1000), 16);
	assert_int_equal(calls(l), 16);
	for (int i = 0; i < 100; i++)
		assert_true(limiter_go(l, 1, &again));
	assert_false(limiter_go(l, 1, &again));
	assert_int_equal(calls(l), 100);
	limiter_over(l, 1, 1);
	assert_false(go(l));
	assert_true(limiter_go(l, 1, &again));
	limiter_set(l, &(struct limiter_rules){ 0, 20, 0 }); /* what is under way counts */
	assert_false(go(l));
	assert_false(limiter_go(l, 1, &again));
	limiter_destroy(l);
}

static void as_many_as_are_set(void **state)
{
	struct limiter *l;

	assert_int_equal(limiter_create(false, &l), 0);
	limiter_set(l, &(struct limiter_rules){ 0, 0, 7 });
	limiter_answered(l, 0, now - 10000, 0);
	work(l, 10, 10000, 2);
	assert_int_equal(calls(l), 7);
	assert_int_equal(go_all(l, 100), 7);
	limiter_destroy(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_first_all_may_go),
		cmocka_unit_test(what_counts),
		cmocka_unit_test(so_many_in_a_second),
		cmocka_unit_test(a_rest_is_not_saved_up),
		cmocka_unit_test(more_requests_of_one_are_counted),
		cmocka_unit_test(a_new_rate_counts_at_once),
		cmocka_unit_test(as_many_as_the_set_point_allows),
		cmocka_unit_test(pauses_where_one_is_too_many),
		cmocka_unit_test(data_counts_by_its_size),
		cmocka_unit_test(silence_holds_what_follows),
		cmocka_unit_test(both_rules_count),
		cmocka_unit_test(a_few_near_the_old_server),
		cmocka_unit_test(hundreds_at_the_end_of_a_long_line),
		cmocka_unit_test(more_than_the_first_answer_says),
		cmocka_unit_test(what_hangs_is_not_counted),
		cmocka_unit_test(many_threads_look_at_the_clock),
		cmocka_unit_test(not_more_than_there_is_room_for),
		cmocka_unit_test(halves_are_counted_apart),
		cmocka_unit_test(as_many_as_are_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
