/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_trace.c - retriever/source/trace.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "source/trace.h"

static unsigned int said, worked_out;
static char last[STUB_LOG_MAX + 1];

static void take(void *arg, enum stub_log_level level, const char *msg)
{
	assert_int_equal(level, STUB_LOG_DEBUG);
	snprintf(last, sizeof(last), "%s", msg);
	said++;
}

static int work_out(void)
{
	return (int)++worked_out;
}

static void off_nothing_is_worked_out(void **state)
{
	trace_to(take, NULL);
	trace(1, "%d", work_out());
	trace_set(true);
	trace(0x2a, "%d", work_out());
	assert_string_equal(last, "ask 0000002a: 1");
	trace_set(false);
	trace(1, "%d", work_out());
	assert_int_equal(said, 1);
	assert_int_equal(worked_out, 1);
}

static void each_has_its_name(void **state)
{
	char name[TRACE_NAME];
	uint64_t own = trace_own();

	assert_int_not_equal(own, trace_own());
	assert_string_equal(trace_name(0xffffffffu, name), "ask ffffffff");
	assert_string_equal(trace_name(own, name), "own 00000000");
	assert_string_equal(trace_name(0, name), "-");
	assert_int_equal(trace_of, 0);
}

static void what_is_too_long_is_cut(void **state)
{
	static char text[STUB_LOG_MAX * 2];

	memset(text, 'x', sizeof(text) - 1);
	trace_set(true);
	trace(1, "%s", text);
	trace_set(false);
	assert_true(strlen(last) <= STUB_LOG_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(off_nothing_is_worked_out),
		cmocka_unit_test(each_has_its_name),
		cmocka_unit_test(what_is_too_long_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
