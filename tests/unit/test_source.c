// SPDX-License-Identifier: GPL-3.0-or-later
/* test_source.c - retriever/source/source.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "source/source_ops.h"

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

/* ---- a name that is not shown ---- */

/* Every directory has these, listed in batches of three. */
static const char *const names[] = { "ours", "a", "ours", "b",   "ours",
				     "our",  "c", "ourselves", "ours" };
#define NAMES (sizeof(names) / sizeof(names[0]))

static int list_names(struct source *s, enum source_priority p, const struct stub_origin *dir,
		      const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct stub_entry e[NAMES] = { 0 };
	int r = 0;

	for (size_t i = 0; i < NAMES; i++) {
		e[i].name = names[i];
		e[i].name_len = strlen(names[i]);
	}
	for (size_t i = 0; i < NAMES && r == 0; i += 3)
		r = fn(arg, e + i, NAMES - i < 3 ? NAMES - i : 3);
	return r;
}

static int lookup_name(struct source *s, enum source_priority p, const struct stub_origin *dir,
		       const struct source_id *as, const char *name, size_t len,
		       struct stub_origin *out, struct stub_attr *attr)
{
	return 0;
}

static const struct source_ops some_ops = { .list = list_names, .lookup = lookup_name };
static const struct source_id root = { 7, 1 }, below = { 7, 2 }, other = { 8, 1 };

struct seen {
	size_t n;
	char names[64];
	int end; /* what to return at "b" */
};

static int see(void *arg, const struct stub_entry *e, size_t n)
{
	struct seen *s = arg;
	int r = 0;

	assert_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		r = !strcmp(e[i].name, "b") ? s->end : r;
		strcat(strcat(s->names, e[i].name), " ");
	}
	s->n += n;
	return r;
}

static void ours_is_not_shown_in_the_root(void **state)
{
	struct source s = { .ops = &some_ops, .hides = "ours", .root = root };
	const struct source_id *const elsewhere[] = { &below, &other, NULL };
	struct stub_origin o = { 0 };
	struct stub_attr a;
	struct seen seen = { 0 };

	assert_int_equal(source_list(&s, SOURCE_DEMAND, &o, &root, see, &seen), 0);
	assert_string_equal(seen.names, "a b our c ourselves ");
	assert_int_equal(source_lookup(&s, SOURCE_DEMAND, &o, &root, "ours", 4, &o, &a), -ENOENT);
	assert_int_equal(source_lookup(&s, SOURCE_DEMAND, &o, &root, "our", 3, &o, &a), 0);
	assert_int_equal(source_lookup(&s, SOURCE_DEMAND, &o, &root, "ourselves", 9, &o, &a), 0);
	for (size_t i = 0; i < 3; i++) { /* another directory's is the users' */
		seen = (struct seen){ 0 };
		assert_int_equal(source_list(&s, SOURCE_DEMAND, &o, elsewhere[i], see, &seen), 0);
		assert_int_equal(seen.n, NAMES);
		assert_int_equal(source_lookup(&s, SOURCE_DEMAND, &o, elsewhere[i], "ours", 4, &o, &a), 0);
	}
	seen = (struct seen){ .end = -ECANCELED };
	assert_int_equal(source_list(&s, SOURCE_DEMAND, &o, &root, see, &seen), -ECANCELED);
	assert_string_equal(seen.names, "a b ");
	s.hides[0] = '\0';
	seen = (struct seen){ 0 };
	assert_int_equal(source_list(&s, SOURCE_DEMAND, &o, &root, see, &seen), 0);
	assert_int_equal(seen.n, NAMES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_of_one_entry_is_its_own),
		cmocka_unit_test(what_may_be_over_soon_is_not),
		cmocka_unit_test(ours_is_not_shown_in_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
