// SPDX-License-Identifier: GPL-3.0-or-later
/* test_source.c - retriever/source/source.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "source/source.h"

/* ---- source_entrys_own ---- */

static void what_is_said_of_one_entry_is_its_own(void **state)
{
	static const int own[] = { -ENOENT, -ESTALE, -ENOTDIR,	   -EACCES,
				   -EBADMSG, -EIO,    -ENAMETOOLONG, -EXDEV };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_true(source_entrys_own(own[i]));
}

static void what_may_be_over_soon_is_not(void **state)
{
	static const int others[] = { 0,	 -ETIMEDOUT, -ECANCELED, -EINPROGRESS,
				      -ENOMEDIUM, -EOVERFLOW, -ENOMEM,	  EIO };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(source_entrys_own(others[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_of_one_entry_is_its_own),
		cmocka_unit_test(what_may_be_over_soon_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
