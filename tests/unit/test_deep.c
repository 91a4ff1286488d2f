/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_deep.c - directories deepest first: those known and not listed do not grow with the tree. */
#define WORK_TOP "/dev/shm" /* a sync for each listing */
#include "journal_util.h"

#include "deep.h"

#define AHEAD  1000
#define BRANCH 10
#define MOST   25000

/* Directories, all of them with as many in them, down to a depth. */
static struct {
	uint32_t first[MOST]; /* the first one in it; 0: it is not listed */
	uint8_t depth[MOST];
	uint32_t found;
	uint8_t levels;
} tree;

static int next_dir(void *arg, const struct stub_handle *dir, long *at, struct stub_handle *out)
{
	uint32_t of = number_of(dir);

	if (*at == 3)
		return ++*at, -EAGAIN;
	for (; tree.first[of] && *at < BRANCH && tree.depth[of] < tree.levels;) {
		uint32_t in = tree.first[of] + (uint32_t)(*at)++;

		if (tree.first[in])
			continue;
		*out = handle_of(in);
		return 1;
	}
	return 0;
}

/* With a file in each directory that has no other. */
static void list(struct stub_journal *j, uint32_t of)
{
	struct stub_journal_entry e[BRANCH + 1];
	size_t n = 0;

	tree.first[of] = tree.found;
	for (int i = 0; i < BRANCH && tree.depth[of] < tree.levels; i++) {
		tree.depth[tree.found] = tree.depth[of] + 1;
		e[n++] = entry_of(tree.found++, STUB_JOURNAL_DIR, 0);
	}
	if (!n)
		e[n++] = entry_of(tree.found++, STUB_JOURNAL_FILE, 10);
	assert_true(tree.found < MOST);
	assert_int_equal(stub_journal_add(j, e, n), 0);
}

/* The largest that the journal becomes. */
static uint64_t crawl(uint8_t levels, bool deep, const char *word)
{
	struct stub_journal_counts c = { .total = 1 };
	struct stub_journal_entry e = entry_of(0, STUB_JOURNAL_DIR, 0);
	struct stub_journal *j;
	struct order o;
	struct queue *q;
	struct deep *d;
	uint64_t most = 0;
	char why[256];

	memset(&tree, 0, sizeof(tree));
	tree.levels = levels;
	tree.found = 1;
	assert_int_equal(deep_create(next_dir, NULL, &d), 0);
	j = open_journal(0);
	assert_int_equal(stub_journal_add(j, &e, 1), 0);
	assert_int_equal(queue_create(journal_dir, count_log, NULL, &q), 0);
	order_init(&o);
	o.ahead = AHEAD;
	if (word)
		assert_int_equal(order_take(&o, word, why, sizeof(why)), 0);
	queue_order(q, &o);
	for (uint64_t now = 1000; c.total; now++) {
		int r = deep_next(d, q, now, &e);

		if (r == 0)
			r = queue_next(q, now, &e);
		assert_in_range(r, 0, 1);
		if (r && e.kind == STUB_JOURNAL_DIR) {
			list(j, number_of(&e.h));
			if (deep)
				deep_listed(d, &e.h);
		}
		if (r)
			assert_int_equal(stub_journal_remove(j, &e.h, 1), 0);
		assert_int_equal(stub_journal_counts(j, &c), 0);
		if (c.total > most)
			most = c.total;
	}
	queue_destroy(q);
	deep_destroy(d);
	stub_journal_close(j);
	return most;
}

static void the_journal_does_not_grow_with_the_tree(void **state)
{
	static const char *const words[] = { NULL, "recent" };

	for (int w = 0; w < 2; w++) {
		uint64_t small = crawl(3, true, words[w]), large = crawl(4, true, words[w]);

		assert_in_range(small, 500, AHEAD + AHEAD / 2);
		assert_in_range(large, 500, AHEAD + AHEAD / 2);
		/* that is what it is for */
		assert_true(crawl(4, false, words[w]) > 2 * AHEAD);
	}
}

/* What is forgotten, because there was no room, comes nevertheless. */
static void more_than_there_is_room_for(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e, got;
	struct queue *q;
	struct order o;
	struct deep *d;

	memset(&tree, 0, sizeof(tree));
	tree.levels = 1;
	tree.found = 2 * DEEP_ROOM + 1;
	assert_int_equal(deep_create(next_dir, NULL, &d), 0);
	for (uint32_t i = 0; i < 2 * DEEP_ROOM; i++) {
		list(j, i);
		deep_listed(d, &(struct stub_handle){ 0 });
	}
	for (uint32_t i = 0; i < 2 * DEEP_ROOM; i++) {
		e = entry_of(i, STUB_JOURNAL_DIR, 0);
		deep_listed(d, &e.h);
	}
	assert_int_equal(queue_create(journal_dir, count_log, NULL, &q), 0);
	assert_int_equal(deep_next(d, q, 1000, &got), 0); /* there are not so many */
	order_init(&o);
	o.ahead = 6000;
	queue_order(q, &o);
	assert_int_equal(queue_next(q, 1000, &got), 1);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(deep_next(d, q, 1000, &got), 1);
		assert_in_range(number_of(&got.h), tree.first[2 * DEEP_ROOM - 1 - i / 9],
				tree.found - 1);
	}
	queue_destroy(q);
	deep_destroy(d);
	stub_journal_close(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(the_journal_does_not_grow_with_the_tree),
		journal_test(more_than_there_is_room_for),
	};

	return cmocka_run_group_tests_name("deep", tests, NULL, NULL);
}
