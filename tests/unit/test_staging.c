/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_staging.c - where inodes are made; projects are tests/conformance/test_projects.py's. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fixture.h"

static uint64_t ino_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void the_nearest_is_taken(void **state)
{
	struct fixture *x = *state;
	struct stub_object root = fixture_root(x);
	struct stub_staging at = { .fd = -1 };
	unsigned int others = 0;
	uint64_t taken;

	assert_int_equal(stub_staging_open(x->v, &root, &at), 0);
	assert_memory_equal(at.name, "./.a", 4);
	taken = ino_of(at.fd);
	for (int i = 0; i < STUB_SPREAD; i++) {
		struct stat st;
		char name[16];

		snprintf(name, sizeof(name), ".a%d", i);
		assert_int_equal(fstatat(x->v->staging_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_true(distance(st.st_ino, root.ino) >= distance(taken, root.ino));
		others += st.st_ino != taken;
	}
	assert_int_equal(others, STUB_SPREAD - 1);
	/* of a directory that lies where one of them does, that one */
	for (int i = 0; i < STUB_SPREAD; i++) {
		struct stub_object o = root;
		struct stub_staging near = { .fd = -1 };
		char name[16];
		int fd;

		snprintf(name, sizeof(name), ".a%d", i);
		fd = openat(x->v->staging_fd, name, O_RDONLY | O_DIRECTORY);
		o.ino = ino_of(fd);
		assert_int_equal(stub_staging_open(x->v, &o, &near), 0);
		assert_int_equal(ino_of(near.fd), o.ino);
		stub_staging_close(&near);
		close(fd);
	}
	stub_staging_close(&at);
	stub_object_close(&root);
}

static void it_is_opened_once(void **state)
{
	struct fixture *x = *state;
	struct stub_object root = fixture_root(x);
	struct stub_staging at = { .fd = -1 };
	int fd;

	assert_int_equal(stub_staging_open(x->v, &root, &at), 0);
	fd = at.fd;
	assert_int_equal(stub_staging_open(x->v, &root, &at), 0);
	assert_int_equal(at.fd, fd);
	stub_staging_close(&at);
	assert_int_equal(at.fd, -1);
	stub_staging_close(&at);
	stub_object_close(&root);
}

/* By another process, which does not tell. */
static void emptied_meanwhile(void **state)
{
	struct fixture *x = *state;
	struct stub_object root = fixture_root(x);
	struct stub_staging at = { .fd = -1 };
	char name[16];

	assert_int_equal(stub_staging_open(x->v, &root, &at), 0);
	stub_staging_close(&at);
	for (int i = 0; i < STUB_SPREAD; i++) {
		snprintf(name, sizeof(name), ".a%d", i);
		assert_int_equal(unlinkat(x->v->staging_fd, name, AT_REMOVEDIR), 0);
	}
	assert_int_equal(stub_staging_open(x->v, &root, &at), 0);
	assert_int_equal(faccessat(at.fd, ".", W_OK, 0), 0);
	stub_staging_close(&at);
	stub_object_close(&root);
}

static void what_is_left_is_counted_and_removed(void **state)
{
	struct fixture *x = *state;
	struct stub_object root = fixture_root(x);
	struct stub_staging at = { .fd = -1 };
	struct stub_entry e[] = { fixture_entry("d", S_IFDIR | 0755, 0), fixture_entry("p", S_IFIFO | 0644, 0) };
	struct stub_staged s[2];
	uint64_t left = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(stub_stage(x->v, &root, &at, &e[i], &s[i]), 0);
	stub_staging_close(&at);
	assert_int_equal(stub_staging_left(x->v, &left), 0);
	assert_int_equal(left, 2);
	assert_int_equal(fixture_scan(x).leftovers, 2);
	assert_int_equal(stub_staging_clean(x->v), 0);
	assert_int_equal(fixture_scan(x).leftovers, 0);
	assert_int_equal(faccessat(x->v->staging_fd, ".a0", F_OK, 0), -1);
	/* and it goes on */
	assert_int_equal(stub_stage(x->v, &root, &at, &e[0], &s[0]), 0);
	stub_staged_drop(x->v, &s[0]);
	assert_int_equal(fixture_scan(x).leftovers, 0);
	stub_staging_close(&at);
	stub_object_close(&root);
}

#define ON_VOLUME(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(the_nearest_is_taken),
		ON_VOLUME(it_is_opened_once),
		ON_VOLUME(emptied_meanwhile),
		ON_VOLUME(what_is_left_is_counted_and_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
