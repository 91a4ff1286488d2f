/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_pattern.c - which directories a pattern means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "order/pattern.h"

static void what_says_nothing_is_left_out(void **state)
{
	static const char *const cases[][2] = {
		{ "projects", "projects" }, { "projects/", "projects" },
		{ "projects/**", "projects" }, { "a/b/**/**", "a/b" }, { "a/**/", "a" },
		{ "**/cache/**", "**/cache" }, { "*", "*" }, { "with blank = x", "with blank = x" },
		{ "\xff\xfe", "\xff\xfe" }, { "...", "..." }, { "a/**/b", "a/**/b" },
		{ "[", "[" },
	};
	char out[PATTERN_SIZE];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(pattern_take(cases[i][0], out));
		assert_string_equal(out, cases[i][1]);
	}
}

static void what_is_none_is_refused(void **state)
{
	static const char *const wrong[] = {
		"", "/", "/projects", "a//b", "//", "**", "**/**", "**/", ".", "..", "../a", "a/..",
		"a/./b", "a**", "**a/b", "a/***", "**/a/**/b/**/c", "a\nb", "a\x7f", "\x01",
		"a*b*c*d*e", "a\\", "a\\/b", "a/b\\",
		"1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3",
	};
	char out[PATTERN_SIZE], text[PATTERN_SIZE + 1];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (!pattern_take(wrong[i], out))
			fail_msg("'%s' was taken", wrong[i]);
	}
	memset(text, 'a', PATTERN_SIZE);
	text[PATTERN_SIZE] = '\0';
	assert_non_null(pattern_take(text, out));
	text[PATTERN_SIZE - 1] = '\0';
	assert_null(pattern_take(text, out));
}

static void a_directory_and_all_below_is_meant(void **state)
{
	static const struct {
		const char *pattern, *path;
		unsigned int depth;
		bool below;
	} cases[] = {
		{ "projects", "", 0, true },
		{ "projects", "projects", 1, false },
		{ "projects", "projects/a/b", 1, false },
		{ "projects", "project", 0, false },
		{ "projects", "Projects", 0, false },
		{ "projects", "a/projects", 0, false },
		{ "a/b", "a", 0, true },
		{ "a/b", "a/b", 2, false },
		{ "a/b", "a/c", 0, false },
		{ "a/b", "a/c/b", 0, false },
		{ "home/*/mail", "home/x/mail/in", 3, false },
		{ "home/*/mail", "home/x", 0, true },
		{ "home/*/mail", "home/x/y/mail", 0, false },
		{ "home/*", "home", 0, true },
		{ "*.d", ".d", 1, false }, /* a dot is as other characters */
		{ "[ab]?", "b1/x", 1, false },
		{ "\\*", "*", 1, false },
		{ "\\*", "x", 0, false },
		{ "**/cache", "cache", 1, true },
		{ "**/cache", "a/b/cache/c", 3, true },
		{ "**/cache", "cache/a/cache", 3, true }, /* the longest */
		{ "**/cache", "", 0, true },
		{ "a/**/b", "a/b", 2, true },
		{ "a/**/b", "a/x/y/b", 4, true },
		{ "a/**/b", "x/b", 0, false },
		{ "**/a/**/b", "x/a/y/b/z", 4, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pattern_met met = pattern_meets(cases[i].pattern, cases[i].path);

		if (met.depth != cases[i].depth || met.below != cases[i].below)
			fail_msg("%s of %s: %u %d", cases[i].pattern, cases[i].path, met.depth,
				 met.below);
	}
}

/* The worst that is taken ends soon. */
static void hostile_names_cost_little(void **state)
{
	const char *pattern = "**/*a*a*b/**/*a*a*c";
	char path[4096], out[PATTERN_SIZE];
	clock_t begin = clock();

	assert_null(pattern_take(pattern, out));
	memset(path, 'a', sizeof(path));
	for (size_t i = 255; i < sizeof(path); i += 256)
		path[i] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(pattern_meets(out, path).depth, 0);
	for (size_t i = 1; i < sizeof(path) - 1; i += 2)
		path[i] = '/';
	assert_int_equal(pattern_meets(out, path).depth, 0);
	/* processor time, and a hundred times what it takes */
	assert_true(clock() - begin < CLOCKS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_says_nothing_is_left_out),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(a_directory_and_all_below_is_meant),
		cmocka_unit_test(hostile_names_cost_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
