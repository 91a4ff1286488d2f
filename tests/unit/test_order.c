/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_order.c - what is asked for first: as text, as a number for each entry, and kept. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "order/order.h"

#define NOW  ((time_t)1700000000)
#define HOUR 3600
#define DAY  (24 * HOUR)

/* The order of @words, which have blanks between them. */
static struct order order_of(const char *words)
{
	char why[256], copy[256], *rest = copy, *word;
	struct order o;

	order_init(&o);
	snprintf(copy, sizeof(copy), "%s", words);
	while (*words && (word = strsep(&rest, " ")))
		assert_int_equal(order_take(&o, word, why, sizeof(why)), 0);
	return o;
}

static struct stub_journal_entry file(uint64_t size, int64_t age)
{
	return (struct stub_journal_entry){ .kind = STUB_JOURNAL_FILE, .size = size,
					    .mtime = NOW - age };
}

static bool first(const struct order *o, struct stub_journal_entry a, struct stub_journal_entry b)
{
	return order_rank(o, &a, NOW) < order_rank(o, &b, NOW);
}

static bool alike(const struct order *o, struct stub_journal_entry a, struct stub_journal_entry b)
{
	return order_rank(o, &a, NOW) == order_rank(o, &b, NOW);
}

static void text_is_taken_and_given_back(void **state)
{
	static const char *const texts[] = {
		"", "recent", "small", "large", "recent small", "small recent", "large recent",
		"ahead=1000", "recent large ahead=1000000000",
	};
	char text[ORDER_TEXT];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct order o = order_of(texts[i]);

		order_text(&o, text);
		assert_string_equal(text, texts[i]);
	}
	struct order o = order_of("ahead=500000 small"); /* what is so anyway is not said */

	order_text(&o, text);
	assert_string_equal(text, "small");
}

static void wrong_words_are_refused_with_what_is_right(void **state)
{
	static const char *const words[] = {
		"", "Recent", "recent ", "new", "ahead", "ahead=", "ahead=0", "ahead=999",
		"ahead=1000000001", "ahead=-5000", "ahead=+5000", "ahead= 5000", "ahead=5000x",
		"ahead=99999999999999999999999999", "default",
	};
	static const char *const twice[][2] = {
		{ "recent", "recent" }, { "small", "small" }, { "small", "large" },
		{ "large", "small" },
	};
	struct order o = order_of("recent"), before = o;
	char why[256];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		why[0] = '\0';
		assert_int_equal(order_take(&o, words[i], why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "want "));
		assert_true(order_equal(&o, &before));
	}
	for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
		o = order_of(twice[i][0]);
		assert_int_equal(order_take(&o, twice[i][1], why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "each word once"));
	}
}

static void the_first_word_decides_and_the_next_among_those_alike(void **state)
{
	struct order recent = order_of("recent"), small = order_of("small");
	struct order both = order_of("recent small"), other = order_of("small recent");
	struct order large = order_of("large recent");

	assert_true(first(&recent, file(1 << 20, HOUR), file(1, DAY)));
	assert_true(alike(&recent, file(1 << 20, 20 * HOUR), file(1, 30 * HOUR)));
	assert_true(first(&small, file(1, DAY), file(1 << 20, HOUR)));
	assert_true(alike(&small, file(1, DAY), file(4095, HOUR)));
	assert_true(first(&both, file(1, 30 * HOUR), file(1 << 20, 20 * HOUR)));
	assert_true(first(&both, file(1 << 20, HOUR), file(1, DAY)));
	assert_true(first(&other, file(1, DAY), file(4095, 30 * DAY)));
	assert_true(first(&other, file(1, 30 * DAY), file(1 << 20, HOUR)));
	assert_true(first(&large, file(1 << 30, DAY), file(1 << 20, HOUR)));
}

static void lies_have_a_place_too(void **state)
{
	struct order o = order_of("recent small");
	struct stub_journal_entry future = file(1, 0), past = file(1, 0), oldest = file(1, 0);

	future.mtime = INT64_MAX;
	past.mtime = -1;
	oldest.mtime = INT64_MIN;
	assert_true(alike(&o, future, file(1, 0)));
	assert_true(first(&o, file(1, DAY), past));
	assert_true(first(&o, past, oldest));
	assert_true(first(&o, file(UINT64_MAX, 0), file(0, DAY)));
	assert_true(first(&o, file(UINT64_MAX / 2, DAY), file(UINT64_MAX, DAY)));
}

/* What brings more to choose from, what is there, what waits for its names. */
static void directories_files_links(void **state)
{
	static const char *const orders[] = { "", "recent", "large", "small recent" };

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct order o = order_of(orders[i]);
		struct stub_journal_entry dir = file(4096, 9999 * DAY), link = file(0, 0);
		struct stub_journal_entry failed = file(0, 0);

		dir.kind = STUB_JOURNAL_DIR;
		link.kind = STUB_JOURNAL_LINKS;
		failed.tries = 1;
		assert_true(first(&o, dir, file(0, 0)));
		assert_true(first(&o, file(UINT64_MAX, 9999 * DAY), link));
		assert_true(first(&o, file(UINT64_MAX, 9999 * DAY), failed));
		assert_true(first(&o, failed, link));
	}
}

static void the_file_is_whole_or_none(void **state)
{
	char dir[] = "/tmp/test_order.XXXXXX", text[256] = "", path[64];
	struct order o = order_of("small recent ahead=20000"), got, usual;
	int root, fd;
	ssize_t n;

	order_init(&usual);
	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(root, ".postcopy", 0700), 0);
	assert_int_equal(order_load(root, &got), 0);
	assert_true(order_equal(&got, &usual));

	assert_int_equal(order_store(root, &o), 0);
	assert_int_equal(order_load(root, &got), 0);
	assert_true(order_equal(&got, &o));

	/* these bytes are read for good */
	snprintf(path, sizeof(path), "%s/.postcopy/order", dir);
	fd = open(path, O_RDWR);
	n = read(fd, text, sizeof(text) - 1);
	assert_string_equal(text, "order=1\nsmall recent ahead=20000\nend\n");
	for (ssize_t cut = 0; cut < n; cut++) {
		assert_int_equal(ftruncate(fd, cut), 0);
		assert_int_equal(order_load(root, &got), -EBADMSG);
		assert_true(order_equal(&got, &usual));
	}
	assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
	assert_int_equal(pwrite(fd, "order=2", 7, 0), 7); /* of a newer release */
	assert_int_equal(order_load(root, &got), -EBADMSG);
	assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
	assert_int_equal(pwrite(fd, "\0", 1, 20), 1);
	assert_int_equal(order_load(root, &got), -EBADMSG);
	close(fd);

	assert_int_equal(order_store(root, &usual), 0);
	assert_int_equal(order_store(root, &usual), 0);
	assert_int_equal(access(path, F_OK), -1);
	unlinkat(root, ".postcopy", AT_REMOVEDIR);
	close(root);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_taken_and_given_back),
		cmocka_unit_test(wrong_words_are_refused_with_what_is_right),
		cmocka_unit_test(the_first_word_decides_and_the_next_among_those_alike),
		cmocka_unit_test(lies_have_a_place_too),
		cmocka_unit_test(directories_files_links),
		cmocka_unit_test(the_file_is_whole_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
