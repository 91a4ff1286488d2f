/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_dual_origin.c - retriever/source/dual_origin.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "source/dual_origin.h"

static const uint8_t handle[64] = { 7, 0, 255, 3 };

static struct stub_origin made(const struct stub_origin *dir, const char *name, size_t len,
			       size_t handle_len)
{
	struct dual_origin above;
	struct stub_origin o = { 0 };
	int n;

	if (dir)
		assert_int_equal(dual_origin_decode(dir, &above), 0);
	n = dual_origin_encode(dir ? &above : NULL, name, len, handle, handle_len, o.bytes);
	assert_in_range(n, 3, STUB_ORIGIN_MAX);
	o.len = (uint16_t)n;
	return o;
}

static void expect(const struct stub_origin *o, size_t handle_len, const char *path)
{
	struct dual_origin d;

	assert_int_equal(dual_origin_decode(o, &d), 0);
	assert_int_equal(d.nfs.len, handle_len);
	assert_memory_equal(d.nfs.bytes, handle, handle_len);
	assert_int_equal(d.has_path, path != NULL);
	assert_int_equal(d.path_len, path ? strlen(path) : 0);
	assert_memory_equal(d.path, path ? path : "", d.path_len);
}

static void there_and_back(void **state)
{
	struct stub_origin root = made(NULL, NULL, 0, 4), dir = made(&root, "d\xff", 2, 64),
			   file = made(&dir, "a b", 3, 1);

	(void)state;
	expect(&root, 4, "");
	expect(&dir, 64, "d\xff");
	expect(&file, 1, "d\xff/a b");
}

static void too_long_goes_without_its_path(void **state)
{
	char name[STUB_ORIGIN_MAX];
	struct stub_origin root = made(NULL, NULL, 0, 32), most, more, below;

	(void)state;
	memset(name, 'x', sizeof(name));
	most = made(&root, name, STUB_ORIGIN_MAX - 2 - 32, 32);
	assert_int_equal(most.len, STUB_ORIGIN_MAX);
	assert_int_equal(most.bytes[0], 1);
	more = made(&root, name, STUB_ORIGIN_MAX - 1 - 32, 32);
	expect(&more, 32, NULL);
	below = made(&more, "a", 1, 32); /* not the "a" of the root */
	expect(&below, 32, NULL);
	below = made(&most, "a", 1, 32);
	expect(&below, 32, NULL);
}

static void no_origin(void **state)
{
	static const struct {
		size_t len;
		uint8_t bytes[80];
	} bad[] = {
		{ 0, { 0 } },	       { 1, { 1 } },
		{ 2, { 1, 0 } },       { 3, { 1, 0, 'a' } },
		{ 3, { 2, 1, 7 } },    { 4, { 1, 3, 7, 7 } },
		{ 4, { 0, 1, 7, 'a' } }, { 80, { 1, 65 } },
		{ 32, { 'a', '/', 'b' } },
	};
	struct dual_origin d;
	uint8_t out[STUB_ORIGIN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct stub_origin o = { .len = (uint16_t)bad[i].len };

		memcpy(o.bytes, bad[i].bytes, sizeof(bad[i].bytes));
		assert_int_equal(dual_origin_decode(&o, &d), -EBADMSG);
	}
	assert_int_equal(dual_origin_encode(NULL, NULL, 0, handle, 0, out), -EBADMSG);
	assert_int_equal(dual_origin_encode(NULL, NULL, 0, handle, 65, out), -EBADMSG);
}

static void what_smb_can_say(void **state)
{
	static const char *const good[] = { "",	    "a",	"a/b c/d.",	     "CON",
					    "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "a;b=c[d]" };
	static const char *const bad[] = {
		"a:b",	    "a\\b",	"a*",		"?",	"a/\"",		   "<",
		">",	    "a|",	"a\nb",		"\x7f", "\xff",		   "\xc3",
		"\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(dual_path_speakable(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(dual_path_speakable(bad[i], strlen(bad[i])));
	assert_false(dual_path_speakable("a\0b", 3));
}

static void below_the_share(void **state)
{
	static const struct {
		const char *root, *path, *all;
	} t[] = { { "", "", "" }, { "", "a/b", "a/b" }, { "d/e", "", "d/e" }, { "d", "a/b", "d/a/b" } };
	struct dual_origin o = { .has_path = true };
	struct stub_origin root, out;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		root.len = (uint16_t)strlen(t[i].root);
		memcpy(root.bytes, t[i].root, root.len);
		o.path = t[i].path;
		o.path_len = strlen(t[i].path);
		assert_int_equal(dual_path_below(&root, &o, &out), 0);
		assert_int_equal(out.len, strlen(t[i].all));
		assert_memory_equal(out.bytes, t[i].all, out.len);
	}
	root.len = STUB_ORIGIN_MAX - 3;
	memset(root.bytes, 'r', root.len);
	assert_int_equal(dual_path_below(&root, &o, &out), -ENAMETOOLONG);
	o.path_len = 2;
	assert_int_equal(dual_path_below(&root, &o, &out), 0);
	assert_int_equal(out.len, STUB_ORIGIN_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back), cmocka_unit_test(too_long_goes_without_its_path),
		cmocka_unit_test(no_origin),	  cmocka_unit_test(what_smb_can_say),
		cmocka_unit_test(below_the_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
