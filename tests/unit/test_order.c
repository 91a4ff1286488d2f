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

static void where_it_is_decides_when_it_comes(void **state)
{
	static const char *const words[] = { "last=home/*", "first=home/anna",
					     "last=home/anna/old", "first=**/urgent", "last=a",
					     "first=*" };
	static const struct {
		const char *path;
		enum order_when when;
		bool way;
	} cases[] = {
		{ "", ORDER_USUAL, true }, { "home", ORDER_FIRST, true },
		{ "home/bert", ORDER_LAST, false }, { "home/bert/x", ORDER_LAST, false },
		{ "home/bert/urgent/x", ORDER_FIRST, false }, /* the deepest */
		{ "home/anna", ORDER_LAST, false }, /* alike: what was said first */
		{ "home/anna/old/x", ORDER_LAST, false }, { "a", ORDER_LAST, false },
		{ "b/c", ORDER_FIRST, false },
	};
	struct order o, none;
	char why[256];

	order_init(&o);
	order_init(&none);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_int_equal(order_take(&o, words[i], why, sizeof(why)), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct order_place p = order_place(&o, cases[i].path);

		if (p.when != cases[i].when || p.way != cases[i].way || !p.below)
			fail_msg("%s: %d %d %d", cases[i].path, p.when, p.way, p.below);
		assert_int_equal(order_place(&none, cases[i].path).when, ORDER_USUAL);
		assert_false(order_place(&none, cases[i].path).below);
	}
}

static void patterns_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {
		"first=", "first=/a", "first=..", "last=**", "first", "first=a\nb", "last=projects/",
		"first=projects/**", "FIRST=a", "first =a",
	};
	struct order o = order_of("first=projects"), before = o;
	char why[256], word[32];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		why[0] = '\0';
		assert_int_equal(order_take(&o, wrong[i], why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "want "));
		assert_true(order_equal(&o, &before));
	}
	for (int i = 1; i < ORDER_PATTERNS; i++) {
		snprintf(word, sizeof(word), "last=d%d", i);
		assert_int_equal(order_take(&o, word, why, sizeof(why)), 0);
	}
	assert_int_equal(order_take(&o, "last=x", why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "one too many"));
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

/* They may have blanks. */
static void patterns_are_kept_too(void **state)
{
	static const char *const damaged[] = {
		"order=2\nrecent\nend\n", "order=2\nrecent\n\nend\n",
		"order=2\nrecent\nfirst=a\n\nend\n", "order=2\nrecent\nsmall\nend\n",
		"order=2\nfirst=a\nend\n", "order=1\nfirst=a\nend\n",
		"order=2\nfirst=a\nfirst=b\nend\n", "order=2\n\nfirst=/a\nend\n",
		"order=2\n\nfirst=a\nlast=a\nend\n", "order=2\n\nfirst=a\nend",
		"order=2\n\nend\n",
	};
	char dir[] = "/tmp/test_order.XXXXXX", text[256] = "", path[64], why[256];
	struct order o = order_of("small"), got;
	int root, fd;

	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(root, ".postcopy", 0700), 0);
	snprintf(path, sizeof(path), "%s/.postcopy/order", dir);

	assert_int_equal(order_take(&o, "first=two words/**", why, sizeof(why)), 0);
	assert_int_equal(order_take(&o, "last=end", why, sizeof(why)), 0);
	assert_int_equal(order_store(root, &o), 0);
	assert_int_equal(order_load(root, &got), 0);
	assert_true(order_equal(&got, &o));
	/* these bytes are read for good */
	fd = open(path, O_RDWR);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "order=2\nsmall\nfirst=two words\nlast=end\nend\n");

	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_true(pwrite(fd, damaged[i], strlen(damaged[i]), 0) > 0);
		if (order_load(root, &got) != -EBADMSG)
			fail_msg("%s was taken", damaged[i]);
		assert_int_equal(got.patterns + got.keys, 0);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "order=3\nx\nend\n", 14, 0), 14);
	assert_int_equal(order_load(root, &got), -EPROTONOSUPPORT);
	close(fd);

	order_init(&o);
	assert_int_equal(order_store(root, &o), 0);
	assert_int_equal(access(path, F_OK), -1);
	unlinkat(root, ".postcopy", AT_REMOVEDIR);
	close(root);
	rmdir(dir);
}

static void the_longest_is_kept_whole(void **state)
{
	char dir[] = "/tmp/test_order.XXXXXX", text[ORDER_ALL], word[ORDER_LINE], why[256];
	struct order o, got;
	int root;

	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(root, ".postcopy", 0700), 0);
	order_init(&o);
	for (int i = 0; i < ORDER_PATTERNS; i++) {
		snprintf(word, sizeof(word), "first=%0*d", PATTERN_SIZE - 1, i);
		assert_int_equal(order_take(&o, word, why, sizeof(why)), 0);
	}
	assert_int_equal(order_store(root, &o), 0);
	assert_int_equal(order_load(root, &got), 0);
	assert_true(order_equal(&got, &o));
	order_all(&o, text);
	assert_int_equal(strlen(text), ORDER_PATTERNS * (strlen("first=") + PATTERN_SIZE) - 1);

	order_init(&o);
	assert_int_equal(order_store(root, &o), 0);
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
		cmocka_unit_test(where_it_is_decides_when_it_comes),
		cmocka_unit_test(patterns_that_are_none_are_refused),
		cmocka_unit_test(the_file_is_whole_or_none),
		cmocka_unit_test(patterns_are_kept_too),
		cmocka_unit_test(the_longest_is_kept_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
