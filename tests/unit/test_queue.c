/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_queue.c - the crawler's work queue: what rests, and until when. */
#include "journal_util.h"

#include "queue_util.h"

#define LONG_MS 10000

static struct queue *queue_of_three(void)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e[3];
	struct queue *q;

	for (uint32_t i = 0; i < 3; i++)
		e[i] = entry_of(i, STUB_JOURNAL_FILE, 100);
	assert_int_equal(stub_journal_add(j, e, 3), 0);
	stub_journal_close(j);
	assert_int_equal(queue_create(journal_dir, count_log, NULL, &q), 0);
	return q;
}

/* Entries that the queue gives out in a pass at @now; they rest then. */
static int take_all(struct queue *q, uint64_t now)
{
	struct stub_journal_entry e;
	int n = 0;

	while (queue_next(q, now, &e) == 1)
		n++;
	return n;
}

static void an_entry_is_given_out_once(void **state)
{
	struct queue *q = queue_of_three();

	assert_int_equal(take_all(q, 1000), 3);
	assert_int_equal(take_all(q, 1000 + LONG_MS), 0);
	queue_destroy(q);
}

static void an_entry_comes_back_when_its_time_is_over(void **state)
{
	struct queue *q = queue_of_three();
	struct stub_handle h = handle_of(1);

	take_all(q, 1000);
	queue_rest(q, &h, 1000 + LONG_MS);
	assert_int_equal(take_all(q, 1000 + LONG_MS - 1), 0);
	assert_int_equal(take_all(q, 1000 + 2 * LONG_MS), 1);
	queue_destroy(q);
}

/* The retriever has died: what it said was done need not be, what was on its way is
 * not under way any more. */
static void all_come_back_when_they_are_forgotten(void **state)
{
	struct queue *q = queue_of_three();
	struct stub_handle h = handle_of(1);

	take_all(q, 1000);
	queue_rest(q, &h, 1000 + LONG_MS);
	queue_forget(q, 1000);
	assert_int_equal(take_all(q, 1000), 3);
	queue_destroy(q);
}

/* ---- order ---- */

static void the_order_says_what_comes_first(void **state)
{
	static const struct {
		const char *word;
		uint32_t numbers[6];
	} cases[] = {
		{ NULL, { 2, 0, 1, 3, 5, 4 } }, /* directories, small, large, links */
		{ "small", { 2, 3, 0, 1, 5, 4 } },
		{ "large", { 2, 5, 1, 0, 3, 4 } },
		{ "recent", { 2, 1, 3, 0, 5, 4 } },
	};
	static const uint64_t sizes[] = { 5000, 900000, 0, 100, 10, 1 << 21 };
	static const int64_t hours[] = { 20, 1, 100, 2, 0, 3000 };
	struct stub_journal_entry e[6], got;
	struct queue *q;

	for (uint32_t i = 0; i < 6; i++) {
		e[i] = entry_of(i, STUB_JOURNAL_FILE, sizes[i]);
		e[i].mtime = time(NULL) - hours[i] * 3600 - 1800;
	}
	e[2].kind = STUB_JOURNAL_DIR;
	e[4].kind = STUB_JOURNAL_LINKS;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct stub_journal *j;

		q = queue_with(e, 6, cases[c].word, ORDER_AHEAD);
		for (int i = 0; i < 5; i++) {
			assert_int_equal(queue_next(q, 1000, &got), 1);
			assert_int_equal(number_of(&got.h), cases[c].numbers[i]);
			assert_int_equal(got.kind, e[number_of(&got.h)].kind);
		}
		assert_int_equal(queue_next(q, 1000, &got), 0); /* links wait for directories */
		j = open_journal(0);
		assert_int_equal(stub_journal_remove(j, &e[2].h, 1), 0);
		stub_journal_close(j);
		assert_int_equal(queue_next(q, 9000, &got), 1);
		assert_int_equal(number_of(&got.h), 4);
		queue_destroy(q);
	}
}

/* More than are picked at a time: the best of all come first, and all come once. */
static void all_come_whatever_the_order(void **state)
{
	enum { MANY = 3 * 4096 };
	static struct stub_journal_entry e[MANY];
	static bool seen[MANY];
	struct stub_journal_entry got;
	uint64_t now = 1000;
	struct queue *q;
	int n = 0;

	for (uint32_t i = 0; i < MANY; i++)
		e[i] = entry_of(i, STUB_JOURNAL_FILE, i % 3 ? 10 : 8192);
	q = queue_with(e, MANY, "large", ORDER_AHEAD);
	for (; n < MANY && now < 1000000; now += 500) {
		while (queue_next(q, now, &got) == 1) {
			uint32_t i = number_of(&got.h);

			assert_true(i < MANY && !seen[i]);
			seen[i] = true;
			assert_int_equal(i % 3 == 0, n < MANY / 3);
			n++;
		}
	}
	assert_int_equal(n, MANY);
	assert_int_equal(take_all(q, now + LONG_MS), 0);
	queue_destroy(q);
}

/* They fail and come back at once, all the time: others come nevertheless. */
static void what_comes_back_again_and_again_does_not_starve_others(void **state)
{
	enum { MANY = 2 * 4096 + 100 };
	static struct stub_journal_entry e[MANY];
	struct stub_journal_entry got;
	bool others = false;
	struct queue *q;

	for (uint32_t i = 0; i < MANY; i++)
		e[i] = entry_of(i, STUB_JOURNAL_FILE, i < 100 ? 10 : 8192);
	q = queue_with(e, MANY, "large", ORDER_AHEAD);
	for (uint64_t now = 1000; now < 200000 && !others; now++) {
		for (int i = 0; i < 200 && queue_next(q, now, &got) == 1; i++) {
			others = number_of(&got.h) < 100;
			if (others)
				break;
			queue_rest(q, &got.h, now);
		}
	}
	assert_true(others);
	queue_destroy(q);
}

static void another_order_counts_at_once(void **state)
{
	struct stub_journal_entry e[300], got;
	struct order o;
	struct queue *q;

	for (uint32_t i = 0; i < 300; i++)
		e[i] = entry_of(i, STUB_JOURNAL_FILE, i == 299 ? 100000 : 10);
	q = queue_with(e, 300, "small", ORDER_AHEAD);
	assert_int_equal(queue_next(q, 1000, &got), 1);
	assert_int_equal(number_of(&got.h), 0);
	order_init(&o);
	o.key[0] = ORDER_LARGE;
	o.keys = 1;
	queue_order(q, &o);
	assert_int_equal(queue_next(q, 1000, &got), 1);
	assert_int_equal(number_of(&got.h), 299);
	queue_order(q, &o); /* the same: nothing begins anew */
	for (uint32_t i = 1; i < 299; i++) {
		assert_int_equal(queue_next(q, 1000, &got), 1);
		assert_int_equal(number_of(&got.h), i);
	}
	queue_destroy(q);
}

/* By its handle: once while it rests, also if it was picked already. */
static void one_that_is_asked_for_by_its_handle(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct stub_journal_entry e[5], got;
		struct stub_handle none = handle_of(99);
		struct stub_journal *j;
		struct queue *q;

		for (uint32_t n = 0; n < 5; n++)
			e[n] = entry_of(n, STUB_JOURNAL_FILE, 10);
		e[4].kind = STUB_JOURNAL_LINKS;
		q = queue_with(e, 5, i ? "small" : NULL, ORDER_AHEAD);
		j = open_journal(0);
		assert_int_equal(stub_journal_fail(j, &e[3].h, STUB_PARK_ERROR, -5, "broken"), 0);
		stub_journal_close(j);
		assert_int_equal(queue_next(q, 1000, &got), 1);
		assert_int_equal(number_of(&got.h), 0);
		assert_int_equal(queue_ask(q, &e[0].h, false, 1000, &got), QUEUE_RESTS);
		assert_int_equal(queue_ask(q, &e[1].h, false, 1000, &got), 1);
		assert_int_equal(number_of(&got.h), 1);
		assert_int_equal(queue_ask(q, &e[1].h, false, 1000, &got), QUEUE_RESTS);
		assert_int_equal(queue_ask(q, &e[3].h, false, 1000, &got), 0);
		assert_int_equal(queue_ask(q, &e[4].h, false, 1000, &got), 0);
		assert_int_equal(queue_ask(q, &none, false, 1000, &got), 0);
		assert_int_equal(queue_ask(q, &none, true, 1000, &got), 1);
		assert_int_equal(number_of(&got.h), 99);
		assert_int_equal(queue_ask(q, &none, true, 1000, &got), QUEUE_RESTS);
		assert_int_equal(queue_ask(q, &e[3].h, true, 1000, &got), 0);
		assert_int_equal(queue_next(q, 1000, &got), 1);
		assert_int_equal(number_of(&got.h), 2);
		queue_destroy(q);
	}
}

/* ---- how far listing goes ahead ---- */

enum { DIRS = 100, FILES = 200 };

static struct queue *queue_of_both(const char *word, uint32_t ahead)
{
	struct stub_journal_entry e[DIRS + FILES];

	for (uint32_t i = 0; i < DIRS + FILES; i++)
		e[i] = entry_of(i, i < DIRS ? STUB_JOURNAL_DIR : STUB_JOURNAL_FILE, 10);
	return queue_with(e, DIRS + FILES, word, ahead);
}

/* How many of the kind come one after another? */
static int run_of(struct queue *q, uint64_t now, uint8_t kind, int most)
{
	struct stub_journal_entry e;
	int n = 0;

	while (n < most && queue_next(q, now, &e) == 1) {
		assert_int_equal(e.kind, kind);
		n++;
	}
	return n;
}

static const char *const with[] = { NULL, "small" };

static void directories_come_first_until_enough_is_listed(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct queue *q = queue_of_both(with[i], DIRS + FILES + 1);

		assert_int_equal(run_of(q, 1000, STUB_JOURNAL_DIR, DIRS), DIRS);
		assert_int_equal(run_of(q, 1000, STUB_JOURNAL_FILE, FILES), FILES);
		queue_destroy(q);
		q = queue_of_both(with[i], DIRS + FILES);
		assert_int_equal(run_of(q, 1000, STUB_JOURNAL_FILE, FILES), FILES);
		queue_destroy(q);
	}
}

/* A quarter of it is done: directories again, in the middle of a pass. */
static void there_is_room_again(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct queue *q = queue_of_both(with[i], DIRS + FILES);
		struct stub_journal_entry e;
		struct stub_journal *j;
		int n = 0;

		assert_int_equal(run_of(q, 1000, STUB_JOURNAL_FILE, 20), 20);
		j = open_journal(0);
		for (uint32_t f = 0; f < 76; f++) {
			struct stub_handle h = handle_of(DIRS + f);

			assert_int_equal(stub_journal_remove(j, &h, 1), 0);
		}
		stub_journal_close(j);
		while (queue_next(q, 1000, &e) == 1 && e.kind == STUB_JOURNAL_FILE)
			n++;
		assert_in_range(n, 0, 64); /* it looks at each 64th */
		assert_int_equal(e.kind, STUB_JOURNAL_DIR);
		queue_destroy(q);
	}
}

/* All files wait for their source, which may take for ever: some directories, now and then. */
static void files_that_wait_do_not_keep_all_from_being_listed(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct queue *q = queue_of_both(with[i], DIRS + FILES);
		uint64_t now = 1000;
		int n = 0;

		assert_int_equal(run_of(q, now, STUB_JOURNAL_FILE, FILES), FILES);
		for (; now < 1000 + 4900; now += 100)
			assert_int_equal(run_of(q, now, STUB_JOURNAL_DIR, DIRS), 0);
		for (; now < 1000 + 15000 && n == 0; now += 100)
			n = run_of(q, now, STUB_JOURNAL_DIR, DIRS);
		assert_int_equal(n, 64);
		queue_destroy(q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(the_order_says_what_comes_first),
		journal_test(all_come_whatever_the_order),
		journal_test(what_comes_back_again_and_again_does_not_starve_others),
		journal_test(another_order_counts_at_once),
		journal_test(one_that_is_asked_for_by_its_handle),
		journal_test(directories_come_first_until_enough_is_listed),
		journal_test(there_is_room_again),
		journal_test(files_that_wait_do_not_keep_all_from_being_listed),
		journal_test(an_entry_is_given_out_once),
		journal_test(an_entry_comes_back_when_its_time_is_over),
		journal_test(all_come_back_when_they_are_forgotten),
	};

	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
