/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_resolve.c - libstubcore/resolve.c: the ways out for a parked object */
#include "fixture.h"

#define SIZE 65536

static int noted;
static struct stub_map note_map;

static int note(void *arg, const struct stub_map *missing)
{
	stub_map_copy(&note_map, missing);
	noted++;
	return arg ? *(int *)arg : 0;
}

/* A listed file of which the first half is here. */
static struct stub_object half(struct fixture *x, struct stub_entry *e)
{
	static char bytes[SIZE / 2];
	struct stub_object o;
	struct stub_handle h;

	*e = fixture_entry("f", S_IFREG | 0644, SIZE);
	fixture_list(x, e, 1);
	h = fixture_handle(x, "f");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	memset(bytes, 'o', sizeof(bytes));
	assert_int_equal(stub_fill_data(x->v, &o, 0, bytes, sizeof(bytes)), SIZE / 2);
	noted = 0;
	return o;
}

static int64_t fill(struct fixture *x, const struct stub_object *o, char c)
{
	static char bytes[SIZE];

	memset(bytes, c, sizeof(bytes));
	return stub_fill_data(x->v, o, 0, bytes, o->size);
}

static void assert_all(struct fixture *x, char c, size_t size)
{
	int fd CLEANUP_CLOSE = fixture_open(x, "f", O_RDONLY);
	char *buf CLEANUP_FREE = malloc(SIZE + 1);

	assert_int_equal(pread(fd, buf, SIZE + 1, 0), size);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(buf[i], c);
}

/* All is missing again, and what was fetched of the version before is not stored. */
static void test_theirs(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object before = half(x, &e), o;
	struct stub_handle h = before.h;
	struct stub_attr a = e.attr;

	a.mtime.tv_sec++;
	a.size = SIZE - 5;
	assert_int_equal(stub_resolve_theirs(x->v, &before, &a, note, NULL), 0);
	assert_int_equal(noted, 1);
	assert_int_equal(note_map.r[0].start, SIZE / 2);
	assert_int_equal(fixture_view(x, "f").needs & STUB_NEEDS_ATTRS, STUB_NEEDS_ATTRS);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), 0);
	assert_int_equal(fill(x, &before, 'o'), -EAGAIN);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), 0);
	stub_object_close(&o);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), 0);
	assert_int_equal(fill(x, &before, 'o'), -EAGAIN);
	assert_int_equal(fill(x, &o, 'n'), 0);
	assert_all(x, 'n', SIZE - 5);
	stub_object_close(&before);
	stub_object_close(&o);
}

/* Who has looked and not read yet finds the version before, never a hole. */
static void test_theirs_leaves_no_hole(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = half(x, &e);
	struct stub_handle h = o.h;
	struct stub_attr a = e.attr;
	char byte = 'n', got;

	a.mtime.tv_sec++;
	assert_int_equal(stub_resolve_theirs(x->v, &o, &a, note, NULL), 0);
	stub_object_close(&o);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), 0);
	stub_object_close(&o);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_data(x->v, &o, 0, &byte, 1), SIZE - 1);
	assert_int_equal(pread(o.fd, &got, 1, 100), 1);
	assert_int_equal(got, 'o');
	stub_object_close(&o);
}

/* A commit that began before must not call durable what is missing again. */
static void test_theirs_and_a_commit(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = half(x, &e);
	struct stub_handle h = o.h;
	struct stub_attr a = e.attr;
	struct stub_commit c;

	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	a.mtime.tv_sec++;
	assert_int_equal(stub_resolve_theirs(x->v, &o, &a, note, NULL), 0);
	assert_int_equal(stub_commit_finish(&c, 0), -EAGAIN);
	stub_object_close(&o);
	assert_int_equal(stub_volume_new_era(x->v), 0); /* what is durable counts */
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), 0);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), 0);
	stub_object_close(&o);
}

static void change_f(struct fixture *x, const struct stub_handle *h)
{
	const struct stub_handle *list[] = { h };
	struct stub_change c;

	assert_int_equal(stub_change_begin(x->v, list, 1, &c), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
}

static void test_theirs_refused(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = half(x, &e);
	struct stub_attr a = e.attr;
	int full = -ENOSPC;

	a.mtime.tv_sec++;
	assert_int_equal(stub_resolve_theirs(x->v, &o, &a, note, &full), -ENOSPC);
	a.mode = S_IFDIR | 0755;
	assert_int_equal(stub_resolve_theirs(x->v, &o, &a, note, NULL), -ESTALE);
	a.mode = e.attr.mode;
	change_f(x, &o.h);
	assert_int_equal(stub_resolve_theirs(x->v, &o, &a, note, NULL), -EBUSY);
	assert_int_equal(noted, 1);
	assert_int_equal(stub_data_ready(x->v, &o.h, 0, SIZE / 2), 1);
	stub_object_close(&o);
}

static void test_here(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = half(x, &e);
	char bytes[SIZE / 2];

	assert_int_equal(stub_resolve_here(x->v, &o, false, note, NULL), -ENODATA);
	assert_int_equal(noted, 0);
	memset(bytes, 'o', sizeof(bytes));
	assert_int_equal(stub_io_pwrite(o.fd, bytes, sizeof(bytes), SIZE / 2), 0);
	assert_int_equal(stub_resolve_here(x->v, &o, false, note, NULL), 0);
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_FINISH);
	assert_all(x, 'o', SIZE);
	stub_object_close(&o);
}

static void test_lost(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = half(x, &e);
	int full = -ENOSPC;

	assert_int_equal(stub_resolve_here(x->v, &o, true, note, &full), -ENOSPC);
	assert_int_equal(stub_data_ready(x->v, &o.h, SIZE / 2, 1), 0);
	assert_int_equal(stub_resolve_here(x->v, &o, true, note, NULL), 0);
	assert_int_equal(note_map.n, 1);
	assert_int_equal(note_map.r[0].start, SIZE / 2);
	assert_int_equal(note_map.r[0].end, SIZE);
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_FINISH);
	stub_object_close(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_theirs, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_theirs_leaves_no_hole, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_theirs_and_a_commit, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_theirs_refused, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_here, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_lost, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
