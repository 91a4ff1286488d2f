/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_queue.c - the crawler's work queue: what rests, and until when. */
#include "journal_util.h"

#include "queue.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(an_entry_is_given_out_once),
		journal_test(an_entry_comes_back_when_its_time_is_over),
		journal_test(all_come_back_when_they_are_forgotten),
	};

	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
