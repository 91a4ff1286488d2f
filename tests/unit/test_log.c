/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_log.c - libstubcore/log.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "internal.h"

struct said {
	unsigned int lines;
	enum stub_log_level level;
	char last[STUB_LOG_MAX + 2];
};

static void take(void *arg, enum stub_log_level level, const char *msg)
{
	struct said *s = arg;

	s->lines++;
	s->level = level;
	snprintf(s->last, sizeof(s->last), "%s", msg);
}

/* ---- stub_log_to ---- */

static void a_line_is_made_as_by_printf(void **state)
{
	struct said s = { 0 };

	stub_log_to(take, &s, STUB_LOG_WARN, "%s: %d of %u", "here", -1, 2u);
	assert_int_equal(s.lines, 1);
	assert_int_equal(s.level, STUB_LOG_WARN);
	assert_string_equal(s.last, "here: -1 of 2");
}

static void what_is_too_long_is_cut(void **state)
{
	struct said s = { 0 };
	char *text = malloc(STUB_LOG_MAX + 100);

	memset(text, 'x', STUB_LOG_MAX + 99);
	text[STUB_LOG_MAX + 99] = '\0';
	stub_log_to(take, &s, STUB_LOG_INFO, "%s", text);
	free(text);
	assert_int_equal(strlen(s.last), STUB_LOG_MAX);
}

static void the_longest_path_is_told_whole(void **state)
{
	assert_true(STUB_LOG_MAX >= 4096 + 128);
}

static void nobody_need_listen(void **state)
{
	const struct stub_log none = { NULL, NULL };

	stub_log_to(NULL, NULL, STUB_LOG_ERROR, "%s", "lost");
	stub_log(NULL, STUB_LOG_ERROR, "%s", "lost");
	stub_log(&none, STUB_LOG_ERROR, "%s", "lost");
}

/* ---- stub_printable ---- */

static void a_hostile_name_stays_in_its_quotes(void **state)
{
	static const char name[] = "a\n\"b\" \\ \x1b[2J\0\xff";
	char out[64], small[8];

	stub_printable(name, sizeof(name) - 1, out, sizeof(out));
	assert_string_equal(out, "a\\x0a\\x22b\\x22 \\x5c \\x1b[2J\\x00\\xff");
	stub_printable("abcdefghij", 10, small, sizeof(small)); /* cut, and ended */
	assert_string_equal(small, "abc");
	stub_printable(NULL, 0, small, sizeof(small));
	assert_string_equal(small, "");
}

/* ---- stub_log_seldom ---- */

static void the_second_of_a_minute_is_counted(void **state)
{
	struct stub_log_rate rate = { 0 };
	struct said s = { 0 };
	const struct stub_log l = { take, &s };

	for (int i = 0; i < 3; i++)
		stub_log_seldom(&rate, &l, STUB_LOG_ERROR, "bad %d", i);
	assert_int_equal(s.lines, 1);
	assert_string_equal(s.last, "bad 0");
	rate.said_ms -= 60000; /* a minute ago */
	stub_log_seldom(&rate, &l, STUB_LOG_ERROR, "bad again");
	assert_int_equal(s.lines, 2);
	assert_non_null(strstr(s.last, "bad again (and 2 more in "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_made_as_by_printf),
		cmocka_unit_test(what_is_too_long_is_cut),
		cmocka_unit_test(the_longest_path_is_told_whole),
		cmocka_unit_test(nobody_need_listen),
		cmocka_unit_test(a_hostile_name_stays_in_its_quotes),
		cmocka_unit_test(the_second_of_a_minute_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
