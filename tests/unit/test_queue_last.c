/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_queue_last.c - the crawler's work queue: what is to come last. */
#include "journal_util.h"

#include "keyset.h"
#include "order/order.h"
#include "queue_util.h"
#include "resting.h"

#define LAST_MS 5000

/* Numbers from here on come last. */
struct from {
	uint32_t number;
	uint64_t files;
	unsigned int asked; /* of directories */
};

static bool is_last(void *arg, const struct stub_journal_entry *e)
{
	struct from *from = arg;

	from->asked += e->kind == STUB_JOURNAL_DIR;
	return number_of(&e->h) >= from->number;
}

static uint64_t last_files(void *arg)
{
	return ((struct from *)arg)->files;
}

static struct queue *queue_from(const struct stub_journal_entry *e, size_t n, const char *word,
				uint32_t ahead, struct from *from)
{
	struct queue *q = queue_with(e, n, word, ahead);

	queue_last(q, &(struct queue_last){ is_last, last_files, from });
	return q;
}

static const char *const words[] = { NULL, "small" };

/* All that is given out up to @until: how many, and the lowest number. */
static int given_until(struct queue *q, uint64_t *now, uint64_t until, uint32_t *least)
{
	struct stub_journal_entry e;
	int n = 0;

	*least = UINT32_MAX;
	for (; *now < until; *now += 100) {
		while (queue_next(q, *now, &e) == 1) {
			if (number_of(&e.h) < *least)
				*least = number_of(&e.h);
			n++;
		}
	}
	return n;
}

static void it_comes_when_nothing_else_did_for_a_while(void **state)
{
	for (int w = 0; w < 2; w++) {
		for (int dirs = 0; dirs < 2; dirs++) {
			struct from from = { .number = 10 };
			struct stub_journal_entry e[30];
			uint64_t now = 1000;
			struct queue *q;
			uint32_t least;

			for (uint32_t i = 0; i < 30; i++)
				e[i] = entry_of(i, dirs && i >= 10 ? STUB_JOURNAL_DIR :
						STUB_JOURNAL_FILE, 10);
			q = queue_from(e, 30, words[w], ORDER_AHEAD, &from);
			assert_int_equal(given_until(q, &now, 1000 + LAST_MS, &least), 10);
			assert_int_equal(least, 0);
			assert_int_equal(given_until(q, &now, 1000 + 2 * LAST_MS, &least), 20);
			assert_int_equal(least, 10);
			queue_destroy(q);
		}
	}
}

/* It fails and comes back, each second, or each moment. */
static void what_is_tried_again_and_again_does_not_hold_it_up(void **state)
{
	for (unsigned int every = 0; every <= 1000; every += 1000) {
		struct from from = { .number = 1 };
		struct stub_journal_entry e[2], got;
		bool other = false;
		struct queue *q;

		e[0] = entry_of(0, STUB_JOURNAL_DIR, 0);
		e[1] = entry_of(1, STUB_JOURNAL_FILE, 10);
		q = queue_from(e, 2, NULL, ORDER_AHEAD, &from);
		for (uint64_t now = 1000; now < 1000 + 4 * LAST_MS && !other; now += 100) {
			if (queue_next(q, now, &got) != 1)
				continue;
			other = number_of(&got.h) == 1;
			assert_true(!other || now >= 1000 + LAST_MS);
			queue_rest(q, &got.h, now + every);
		}
		assert_true(other);
		queue_destroy(q);
	}
}

/* When it is its turn, and another directory comes to be known: that, and what is in it. */
static void it_waits_again_for_another_directory(void **state)
{
	for (int w = 0; w < 2; w++) {
		struct from from = { .number = 10 };
		struct stub_journal_entry e[2], more[2], got;
		struct stub_journal *j;
		uint64_t now = 1000;
		struct queue *q;
		uint32_t least;

		for (uint32_t i = 0; i < 2; i++)
			e[i] = entry_of(10 + i, STUB_JOURNAL_DIR, 0);
		q = queue_from(e, 2, words[w], ORDER_AHEAD, &from);
		assert_int_equal(given_until(q, &now, 1000 + LAST_MS, &least), 0);
		while (queue_next(q, now, &got) != 1)
			now += 100;
		more[0] = entry_of(0, STUB_JOURNAL_DIR, 0);
		more[1] = entry_of(20, STUB_JOURNAL_DIR, 0);
		j = open_journal(0);
		assert_int_equal(stub_journal_add(j, more, 2), 0);
		stub_journal_close(j);
		queue_forget(q, now); /* in a pass that begins now */
		queue_rest(q, &e[0].h, UINT64_MAX);
		queue_rest(q, &e[1].h, UINT64_MAX);
		while (queue_next(q, now, &got) != 1)
			now += 100;
		assert_int_equal(number_of(&got.h), 0);
		assert_int_equal(given_until(q, &now, now + LAST_MS - 100, &least), 0);
		assert_int_equal(given_until(q, &now, now + LAST_MS, &least), 1);
		assert_int_equal(least, 20);
		queue_destroy(q);
		j = open_journal(0); /* for the next round */
		for (int i = 0; i < 2; i++)
			assert_int_equal(stub_journal_remove(j, &more[i].h, 1), 0);
		stub_journal_close(j);
	}
}

/* It does not fill what is listed ahead: other directories are listed. */
static void it_is_not_counted_as_listed_ahead(void **state)
{
	for (int counted = 0; counted < 2; counted++) {
		struct from from = { .number = 10, .files = counted ? 0 : 100 };
		struct stub_journal_entry e[110], got;
		struct queue *q;

		for (uint32_t i = 0; i < 110; i++)
			e[i] = entry_of(i, i < 10 ? STUB_JOURNAL_DIR : STUB_JOURNAL_FILE, 10);
		q = queue_from(e, 110, NULL, 100, &from);
		assert_int_equal(queue_next(q, 1000, &got), counted ? 0 : 1);
		queue_destroy(q);
	}
}

/* More directories than are picked at a time, and one other behind them. */
static void many_directories_hide_nothing(void **state)
{
	enum { MANY = 3 * 4096 };
	static struct stub_journal_entry e[MANY];

	for (int w = 0; w < 2; w++) {
		struct from from = { .number = 1 };
		struct stub_journal_entry got;
		uint64_t now = 1000;
		struct queue *q;

		for (uint32_t i = 0; i < MANY; i++)
			e[i] = entry_of(MANY - i, STUB_JOURNAL_DIR, 0);
		e[0] = entry_of(0, STUB_JOURNAL_FILE, 10);
		q = queue_from(e, MANY, words[w], ORDER_AHEAD, &from);
		while (queue_next(q, now, &got) == 0 && now < 1000 + LAST_MS)
			now += 100;
		assert_int_equal(number_of(&got.h), 0);
		assert_in_range(now, 1000, 2000);
		/* each is looked at once in so long */
		assert_in_range(from.asked, 1, MANY);
		queue_destroy(q);
	}
}

static void a_set_of_keys_is_bounded(void **state)
{
	struct keyset s = { 0 };

	assert_false(keyset_has(&s, 7));
	for (uint64_t i = 1; i <= KEYSET_MOST; i++)
		assert_int_equal(keyset_put(&s, i * 0x9e3779b97f4a7c15u), 0);
	assert_int_equal(keyset_put(&s, 0x9e3779b97f4a7c15u), 0);
	assert_int_equal(s.n, KEYSET_MOST);
	assert_int_equal(keyset_put(&s, 5), -ENOSPC);
	assert_false(keyset_has(&s, 5));
	for (uint64_t i = 1; i <= KEYSET_MOST; i++)
		assert_true(keyset_has(&s, i * 0x9e3779b97f4a7c15u));
	assert_true(s.slots * sizeof(*s.key) <= 8u << 20);
	keyset_clear(&s);
	assert_false(keyset_has(&s, 0x9e3779b97f4a7c15u));
	assert_int_equal(keyset_put(&s, 5), 0);
	keyset_clear(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(it_comes_when_nothing_else_did_for_a_while),
		journal_test(what_is_tried_again_and_again_does_not_hold_it_up),
		journal_test(it_waits_again_for_another_directory),
		journal_test(it_is_not_counted_as_listed_ahead),
		journal_test(many_directories_hide_nothing),
		cmocka_unit_test(a_set_of_keys_is_bounded),
	};

	return cmocka_run_group_tests_name("queue_last", tests, NULL, NULL);
}
