/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_refused.c - libstubcore/refused.c: what the file system will not have */
#include "fixture.h"

/* A device with a major number that no file system here takes. */
static struct stub_entry refused_entry(const char *name)
{
	struct stub_entry e = fixture_entry(name, S_IFCHR | 0600, 0);

	e.attr.rdev_major = 1u << 20;
	return e;
}

static bool there(struct fixture *x, const char *name)
{
	struct stat st;

	return fstatat(x->v->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* List the root; what is refused stays in its record. */
static void list_with(struct fixture *x, const struct stub_entry *e, size_t n)
{
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	size_t bad;

	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, n, &refused, &bad), 0);
	assert_int_equal(refused.error, -EINVAL);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
	stub_object_close(&o);
}

static void list_three(struct fixture *x)
{
	struct stub_entry e[] = { fixture_entry("file", S_IFREG | 0644, 10), refused_entry("dev"),
				  fixture_entry("dir", S_IFDIR | 0755, 0), refused_entry("tty") };

	list_with(x, e, ARRAY_LEN(e));
}

static int make(struct fixture *x, const char *name, const struct stub_entry *e)
{
	struct stub_object o = fixture_root(x);
	int r = stub_refused_make(x->v, x->j, &o, name, strlen(name), e);

	stub_object_close(&o);
	return r;
}

/* ---- stub_list_batch, stub_list_finish ---- */

static void test_the_others_are_listed(void **state)
{
	struct fixture *x = *state;
	struct stub_refused refused;
	const char *name;
	size_t at = 0, len;

	list_three(x);
	assert_true(there(x, "file") && there(x, "dir"));
	assert_false(there(x, "dev") || there(x, "tty"));
	assert_int_equal(fixture_view(x, ".").needs, STUB_NEEDS_REFUSED);
	assert_int_equal(fixture_scan(x).refused, 2);
	assert_int_equal(fixture_scan(x).uncovered, 0);
	assert_int_equal(fixture_scan(x).leftovers, 0);
	fixture_reopen(x);
	assert_int_equal(stub_refused_load(x->v, stub_volume_root(x->v), &refused), 0);
	assert_true(stub_refused_next(&refused, &at, &name, &len));
	assert_int_equal(len, 3);
	assert_memory_equal(name, "dev", 3);
	assert_true(stub_refused_next(&refused, &at, &name, &len));
	assert_memory_equal(name, "tty", 3);
	assert_false(stub_refused_next(&refused, &at, &name, &len));
}

static void test_too_many(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	size_t bad, n = STUB_REFUSED_MAX / (STUB_NAME_MAX + 1);
	struct stub_entry e[STUB_REFUSED_MAX / (STUB_NAME_MAX + 1) + 1];
	char name[ARRAY_LEN(e)][STUB_NAME_MAX];

	for (size_t i = 0; i < ARRAY_LEN(e); i++) {
		memset(name[i], 'a' + (int)i, sizeof(name[i]));
		e[i] = refused_entry("x");
		e[i].name = name[i];
		e[i].name_len = sizeof(name[i]);
	}
	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, n, &refused, &bad), 0);
	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, n, &refused, &bad), 0); /* again */
	assert_int_equal(stub_list_batch(x->v, x->j, &o, e + 1, n, &refused, &bad), -EINVAL);
	assert_int_equal(bad, n - 1);
	assert_int_equal(fixture_view(x, ".").needs, STUB_NEEDS_ENTRIES);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0); /* a full list fits */
	assert_int_equal(fixture_scan(x).refused, n);
	stub_object_close(&o);
}

/* A second listing, under way when the first was done: clients have removed names since. */
static void test_a_late_listing_makes_nothing(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, 10);
	struct stub_object o = fixture_root(x);
	struct stub_refused none = { 0 };
	size_t bad;

	list_three(x);
	assert_int_equal(unlinkat(x->v->fd, "file", 0), 0);
	assert_int_equal(stub_list_batch(x->v, x->j, &o, &e, 1, &none, &bad), -ENOENT);
	assert_false(there(x, "file"));
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &none, false), 0);
	assert_int_equal(fixture_scan(x).refused, 2);
	stub_object_close(&o);
}

/* ---- origins ---- */

static struct stub_entry long_origin(const char *name, char *path, size_t len)
{
	struct stub_entry e = fixture_entry(name, S_IFDIR | 0755, 0);

	memset(path, 'p', len);
	e.origin = (const uint8_t *)path;
	e.origin_len = len;
	return e;
}

static void test_a_long_origin(void **state)
{
	struct fixture *x = *state;
	char fits[STUB_ORIGIN_MAX], over[STUB_ORIGIN_MAX + 1];
	struct stub_entry e[] = { long_origin("fits", fits, sizeof(fits)),
				  long_origin("over", over, sizeof(over)) };
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	struct stub_handle h;
	size_t bad;

	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, 2, &refused, &bad), 0);
	assert_int_equal(refused.error, -EOVERFLOW);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
	stub_object_close(&o);
	assert_true(there(x, "fits"));
	assert_false(there(x, "over"));
	assert_int_equal(stub_refused_has(x->v, stub_volume_root(x->v), "over"), 1);
	h = fixture_handle(x, "fits");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(o.origin.len, STUB_ORIGIN_MAX);
	assert_memory_equal(o.origin.bytes, fits, sizeof(fits));
	stub_object_close(&o);
}

/* More names than fit beside the origin are refused as more than fit a record are. */
static void test_many_names_beside_a_long_origin(void **state)
{
	struct fixture *x = *state;
	char path[STUB_ORIGIN_MAX];
	struct stub_entry e = long_origin("dir", path, sizeof(path)), sub;
	struct stub_refused refused = { 0 };
	struct stub_object o;
	struct stub_handle h;
	char name[200];
	size_t bad;

	fixture_list(x, &e, 1);
	h = fixture_handle(x, "dir");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	memset(name, 'n', sizeof(name));
	sub = refused_entry("dev");
	sub.name = name;
	sub.name_len = sizeof(name);
	for (int i = 0; i < 12; i++) {
		name[0] = (char)('a' + i);
		assert_int_equal(stub_list_batch(x->v, x->j, &o, &sub, 1, &refused, &bad), 0);
	}
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), -EINVAL);
	stub_object_close(&o);
	assert_true(fixture_view(x, "dir").needs & STUB_NEEDS_ENTRIES);
}

/* ---- stub_refused_has ---- */

static void test_has(void **state)
{
	struct fixture *x = *state;
	struct stub_handle file;

	list_three(x);
	file = fixture_handle(x, "file");
	assert_int_equal(stub_refused_has(x->v, stub_volume_root(x->v), "dev"), 1);
	assert_int_equal(stub_refused_has(x->v, stub_volume_root(x->v), "tty"), 1);
	assert_int_equal(stub_refused_has(x->v, stub_volume_root(x->v), "de"), 0);
	assert_int_equal(stub_refused_has(x->v, stub_volume_root(x->v), "device"), 0);
	assert_int_equal(stub_refused_has(x->v, stub_volume_root(x->v), ""), 0);
	assert_int_equal(stub_refused_has(x->v, &file, "dev"), 0);
	assert_int_equal(unlinkat(x->v->fd, "file", 0), 0);
	assert_int_equal(stub_refused_has(x->v, &file, "dev"), -ESTALE);
}

/* ---- stub_refused_make ---- */

static void test_made_later(void **state)
{
	struct fixture *x = *state;
	struct stub_entry now = fixture_entry("dev", S_IFREG | 0644, 77);
	struct stub_journal_entry e;
	struct stub_object o;
	struct stub_handle h;
	struct stat st;

	list_three(x);
	o = fixture_root(x);
	assert_int_equal(unlinkat(x->v->fd, "file", 0), 0); /* a client's doing */
	assert_int_equal(make(x, "dev", &now), 0);
	h = fixture_handle(x, "dev");
	assert_int_equal(stub_journal_get(x->j, &h, &e), 0);
	assert_int_equal(fixture_view(x, "dev").needs, STUB_NEEDS_DATA);
	assert_int_equal(fixture_view(x, ".").needs, STUB_NEEDS_REFUSED);
	now = fixture_entry("tty", S_IFIFO | 0644, 0);
	assert_int_equal(make(x, "tty", &now), 0);
	assert_int_equal(fixture_view(x, ".").needs, 0);
	assert_false(there(x, "file"));
	assert_int_equal(fstat(x->v->fd, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000); /* the record's */
	assert_int_equal(stub_refused_make(x->v, x->j, &o, "tty", 3, &now), -ENOENT);
	stub_object_close(&o);
}

static void test_refused_again(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = refused_entry("dev");

	list_three(x);
	assert_int_equal(make(x, "dev", &e), -EINVAL);
	assert_int_equal(fixture_scan(x).refused, 2);
	assert_int_equal(fixture_scan(x).leftovers, 0);
}

static void test_forgotten(void **state)
{
	struct fixture *x = *state;

	list_three(x);
	assert_int_equal(make(x, "tty", NULL), 0);
	assert_int_equal(fixture_scan(x).refused, 1);
	assert_int_equal(make(x, "dev", NULL), 0);
	assert_int_equal(fixture_view(x, ".").needs, 0);
	assert_false(there(x, "dev") || there(x, "tty"));
}

/* A name that was never refused, or not any more, is the clients'. */
static void test_other_names_are_not_made(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, 10);

	list_three(x);
	assert_int_equal(unlinkat(x->v->fd, "file", 0), 0);
	assert_int_equal(make(x, "file", &e), 0);
	assert_false(there(x, "file"));
	assert_int_equal(fixture_scan(x).refused, 2);
}

static void test_a_taken_name_stays(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("dev", S_IFREG | 0644, 10);

	list_three(x);
	assert_int_equal(mkdirat(x->v->fd, "dev", 0700), 0);
	assert_int_equal(make(x, "dev", &e), 0);
	assert_int_equal(fixture_view(x, "dev").needs, 0);
	assert_int_equal(fixture_scan(x).refused, 1);
	assert_int_equal(fixture_scan(x).leftovers, 0);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(test_a_long_origin),
		ON_VOLUME(test_many_names_beside_a_long_origin),
		ON_VOLUME(test_the_others_are_listed),
		ON_VOLUME(test_too_many),
		ON_VOLUME(test_a_late_listing_makes_nothing),
		ON_VOLUME(test_has),
		ON_VOLUME(test_made_later),
		ON_VOLUME(test_refused_again),
		ON_VOLUME(test_forgotten),
		ON_VOLUME(test_other_names_are_not_made),
		ON_VOLUME(test_a_taken_name_stays),
	};

	return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
