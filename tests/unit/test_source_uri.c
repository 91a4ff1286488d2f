// SPDX-License-Identifier: GPL-3.0-or-later
/* test_source_uri.c - retriever/source/uri.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "source/uri.h"

/* ---- source_uri_kind ---- */

static void the_scheme_tells_the_kind(void **state)
{
	assert_int_equal(source_uri_kind("nfs://old/export"), SOURCE_NFS);
	assert_int_equal(source_uri_kind("smb://old/share"), SOURCE_SMB);
}

static void all_else_is_unknown(void **state)
{
	static const char *const none[] = { "", "nfs", "nfs:/", "NFS://h/e", " nfs://h/e", "smb:h",
					    "smbx://h/s", "old:/export", "//old/share" };

	assert_int_equal(source_uri_kind(NULL), SOURCE_UNKNOWN);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(source_uri_kind(none[i]), SOURCE_UNKNOWN);
}

/* ---- source_uri_unescape ---- */

static int unescape(const char *text)
{
	return source_uri_unescape(text, text + strlen(text));
}

static void two_digits_are_a_byte(void **state)
{
	assert_int_equal(unescape("%20"), 0x20);
	assert_int_equal(unescape("%fFx"), 0xff);
	assert_int_equal(unescape("%00"), 0);
}

static void fewer_are_none(void **state)
{
	static const char short_one[] = "%41";

	assert_int_equal(unescape("%"), -EINVAL);
	assert_int_equal(unescape("%4"), -EINVAL);
	assert_int_equal(unescape("%4g"), -EINVAL);
	assert_int_equal(unescape("%g4"), -EINVAL);
	assert_int_equal(source_uri_unescape(short_one, short_one + 2), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_scheme_tells_the_kind),
		cmocka_unit_test(all_else_is_unknown),
		cmocka_unit_test(two_digits_are_a_byte),
		cmocka_unit_test(fewer_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
