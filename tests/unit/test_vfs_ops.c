/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_vfs_ops.c - the table of functions and the small parts of vfs_stub.
 *
 * A function that a module does not set goes to the module below.  That is right for
 * some, and for none without a thought: the table and the list of what is forwarded on
 * purpose are compared with the structure of the installed version.
 */
#include "stub_glue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SLOTS_MAX 160

typedef void (*slot_fn)(void);

static unsigned int n_names;
static char names[SLOTS_MAX][64];

/* "type (*name_fn)(" inside of "struct vfs_fn_pointers {" ... "};" */
static int names_read(void **state)
{
	FILE *f = fopen(SAMBA_VFS_H, "r");
	bool inside = false;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "(*");

		if (!strncmp(line, "struct vfs_fn_pointers {", 24))
			inside = true;
		else if (inside && !strncmp(line, "};", 2))
			break;
		else if (inside && at && strstr(at, "_fn)(")) {
			assert_true(n_names < SLOTS_MAX);
			snprintf(names[n_names++], sizeof(names[0]), "%.*s",
				 (int)strcspn(at + 2, ")") - 3, at + 2);
		}
	}
	fclose(f);
	return 0;
}

static bool is_forwarded(const char *name)
{
	for (unsigned int i = 0; stubvfs_forwarded[i]; i++)
		if (!strcmp(stubvfs_forwarded[i], name))
			return true;
	return false;
}

static void test_each_function_is_meant(void **state)
{
	unsigned int wrong = 0;

	assert_int_equal(n_names, sizeof(stubvfs_fns) / sizeof(slot_fn));
	for (unsigned int i = 0; i < n_names; i++) {
		slot_fn fn;

		memcpy(&fn, (const char *)&stubvfs_fns + i * sizeof(fn), sizeof(fn));
		if (!fn == is_forwarded(names[i]))
			continue;
		print_error("%s is %s\n", names[i],
			    fn ? "set and said to be forwarded" : "neither set nor forwarded");
		wrong++;
	}
	assert_int_equal(wrong, 0);
}

static void test_what_is_forwarded_exists(void **state)
{
	for (unsigned int i = 0; stubvfs_forwarded[i]; i++) {
		bool found = false;

		for (unsigned int k = 0; k < n_names; k++)
			found = found || !strcmp(names[k], stubvfs_forwarded[i]);
		if (!found)
			fail_msg("Samba has no %s", stubvfs_forwarded[i]);
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(stubvfs_forwarded[k], stubvfs_forwarded[i]);
	}
}

/* A _send without its _recv would give one module's state to another's function. */
static void test_pairs_are_set_together(void **state)
{
	for (unsigned int i = 0; i < n_names; i++) {
		size_t len = strlen(names[i]);
		char recv[64];

		if (len < 5 || strcmp(names[i] + len - 5, "_send"))
			continue;
		snprintf(recv, sizeof(recv), "%.*s_recv", (int)len - 5, names[i]);
		assert_int_equal(is_forwarded(names[i]), is_forwarded(recv));
	}
}

static void test_errno(void **state)
{
	static const struct {
		int r, smbd;
	} want[] = {
		{ -EAGAIN, EAGAIN }, { -ENOMEM, ENOMEM }, { -EREMOTEIO, EIO }, { -EBADMSG, EIO },
		{ -EIO, EIO },	     { -ENOSPC, ENOSPC }, { -EDQUOT, EDQUOT }, { -ESTALE, ENOENT },
		{ -ENOENT, ENOENT }, { -EROFS, EROFS },	  { -EINVAL, EINVAL },
		/* the old server's affairs */
		{ -ECONNREFUSED, EIO }, { -ETIMEDOUT, EIO }, { -EPIPE, EIO }, { -ENOLCK, EIO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(glue_errno(want[i].r), want[i].smbd);
		errno = 0;
		assert_int_equal(glue_fail(want[i].r), -1);
		assert_int_equal(errno, want[i].smbd);
	}
}

static void test_hidden_xattrs(void **state)
{
	assert_true(stubvfs_hides_xattr(STUB_XATTR));
	assert_true(stubvfs_hides_xattr(STUB_XATTR ".more"));
	assert_false(stubvfs_hides_xattr("user.postcopy"));
	assert_false(stubvfs_hides_xattr("trusted.other"));
	assert_false(stubvfs_hides_xattr(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_function_is_meant),
		cmocka_unit_test(test_what_is_forwarded_exists),
		cmocka_unit_test(test_pairs_are_set_together),
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_hidden_xattrs),
	};

	return cmocka_run_group_tests(tests, names_read, NULL);
}
