/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_parked.c - what is parked, and whether names may still come out of it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

#define FILES 600 /* more than one call looks at */

static struct stub_journal_counts counts(struct fixture *x)
{
	struct stub_journal_counts n;

	assert_int_equal(stub_journal_counts(x->j, &n), 0);
	return n;
}

static int may_come(struct fixture *x, struct stub_names *s)
{
	struct stub_journal_counts n = counts(x);

	return stub_names_may_come(x->v, x->j, s, &n);
}

/* Called until it is known, how often: not more than @calls. */
static int known(struct fixture *x, struct stub_names *s, int calls)
{
	int r = -EAGAIN;

	for (int i = 0; i < calls && r == -EAGAIN; i++)
		r = may_come(x, s);
	return r;
}

static void park(struct fixture *x, const struct stub_handle *h)
{
	assert_int_equal(stub_journal_fail(x->j, h, STUB_PARK_ERROR, EIO, "broken"), 0);
}

static void add_links(struct fixture *x, const struct stub_handle *h)
{
	struct stub_journal_entry e = { .kind = STUB_JOURNAL_LINKS, .h = *h };

	assert_int_equal(stub_journal_add(x->j, &e, 1), 0);
}

static void files_have_no_names(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[FILES + 1];
	struct stub_names s = { 0 };
	struct stub_handle h;
	char names[FILES + 1][8];

	for (int i = 0; i <= FILES; i++) {
		snprintf(names[i], sizeof(names[i]), "%d", i);
		e[i] = fixture_entry(names[i], S_IFREG | 0644, 4);
	}
	fixture_list(x, e, FILES + 1);
	for (int i = 0; i < FILES; i++) {
		h = fixture_handle(x, names[i]);
		park(x, &h);
	}
	h = fixture_handle(x, names[FILES]);
	assert_int_equal(may_come(x, &s), 1); /* a file that is not parked is pending */
	add_links(x, &h);
	assert_int_equal(counts(x).links, 1);
	assert_int_equal(may_come(x, &s), -EAGAIN);
	assert_int_equal(known(x, &s, 10), 0);
	assert_int_equal(may_come(x, &s), 0);
}

static void directories_may_have_them(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[2] = { fixture_entry("d", S_IFDIR | 0755, 0),
				   fixture_entry("f", S_IFREG | 0644, 4) };
	struct stub_names s = { 0 };
	struct stub_handle d, f;
	int fd;

	fixture_list(x, e, 2);
	d = fixture_handle(x, "d");
	f = fixture_handle(x, "f");
	add_links(x, &f);
	assert_int_equal(may_come(x, &s), 1); /* it will be listed */
	park(x, &d);
	assert_int_equal(known(x, &s, 10), 1);
	assert_int_equal(may_come(x, &s), 1);
	fd = fixture_open(x, "d", O_RDONLY | O_DIRECTORY);
	assert_int_equal(unlinkat(x->v->fd, "d", AT_REMOVEDIR), 0);
	s = (struct stub_names){ 0 };
	assert_int_equal(known(x, &s, 10), 0); /* also while somebody has it open */
	close(fd);
	s = (struct stub_names){ 0 };
	assert_int_equal(known(x, &s, 10), 0);
}

/* Whose record cannot be read may be a directory for all that is known. */
static void what_is_damaged_may_have_them(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[2] = { fixture_entry("bad", S_IFREG | 0644, 4),
				   fixture_entry("f", S_IFREG | 0644, 4) };
	struct stub_names s = { 0 };
	struct stub_handle bad, f;
	int fd;

	fixture_list(x, e, 2);
	bad = fixture_handle(x, "bad");
	f = fixture_handle(x, "f");
	add_links(x, &f);
	park(x, &bad);
	fd = fixture_open(x, "bad", O_RDONLY);
	assert_int_equal(fsetxattr(fd, STUB_XATTR, "damaged", 7, 0), 0);
	close(fd);
	assert_int_equal(known(x, &s, 10), 1);
}

#define with_volume(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_volume(files_have_no_names),
		with_volume(directories_may_have_them),
		with_volume(what_is_damaged_may_have_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
