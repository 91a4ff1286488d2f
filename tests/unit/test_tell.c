/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_tell.c - libstubcore/tell.c: asks and results in words */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "internal.h"

static struct stub_ask ask_of(enum stub_ask_kind kind)
{
	return (struct stub_ask){ .kind = kind, .h = { .type = 129, .len = 3, .bytes = "\x01\xab\xff" },
				  .offset = 10, .length = 20 };
}

static void of_each_kind_what_it_has(void **state)
{
	struct stub_ask a = ask_of(STUB_ASK_DATA);
	char text[STUB_ASK_TEXT];

	strcpy(a.who, "alice@10.0.0.1");
	stub_ask_text(&a, text, sizeof(text));
	assert_string_equal(text, "DATA 129:01abff 10+20 for alice@10.0.0.1");
	a = ask_of(STUB_ASK_LIST);
	stub_ask_text(&a, text, sizeof(text));
	assert_string_equal(text, "LIST 129:01abff");
	a = ask_of(STUB_ASK_LOOKUP);
	a.name = "x\ny";
	a.name_len = 3;
	stub_ask_text(&a, text, sizeof(text));
	assert_string_equal(text, "LOOKUP 129:01abff \"x\\x0ay\"");
	a = ask_of((enum stub_ask_kind)99);
	stub_ask_text(&a, text, sizeof(text));
	assert_string_equal(text, "? 129:01abff");
}

/* Nothing of the largest one is cut, and nothing is written behind @size. */
static void the_largest_fits(void **state)
{
	struct stub_ask a = { .kind = STUB_ASK_LOOKUP, .h = { .type = INT32_MIN } };
	char name[STUB_NAME_MAX], text[STUB_ASK_TEXT], small[32];

	memset(name, '\n', sizeof(name));
	memset(a.who, 'w', STUB_WHO_MAX);
	a.h.len = STUB_HANDLE_MAX;
	a.name = name;
	a.name_len = sizeof(name);
	stub_ask_text(&a, text, sizeof(text));
	assert_int_equal(text[strlen(text) - 1], 'w');
	assert_true(strlen(text) > STUB_HANDLE_MAX * 2 + STUB_NAME_MAX * 4 + STUB_WHO_MAX);
	memset(small, 'z', sizeof(small));
	stub_ask_text(&a, small, 16);
	assert_int_equal(strlen(small), 15);
	assert_int_equal(small[16], 'z');
}

static void results_have_names(void **state)
{
	assert_string_equal(stub_result_text(0), "done");
	assert_string_equal(stub_result_text(-EAGAIN), "EAGAIN");
	assert_string_equal(stub_result_text(-EREMOTEIO), "EREMOTEIO");
	assert_string_equal(stub_result_text(-99999), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_each_kind_what_it_has),
		cmocka_unit_test(the_largest_fits),
		cmocka_unit_test(results_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
