/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_unnamed.c - libstubcore/unnamed.c, and stage.c where all has names: what CephFS is given, on any file
 * system.  (tests/cephfs has the real one.) */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#define CEPH_FIRST (UINT64_C(1) << 40) /* inode number of the first rank */

static int setup(void **state)
{
	struct fixture *x;
	int r = fixture_setup(state);

	x = *state;
	if (r == 0)
		x->v->only_named = true;
	return r;
}

/* 1: there is nothing else here. */
static int must_have_names(const struct fixture *x)
{
	bool only_named = false;

	assert_int_equal(stub_only_named(x->v->staging_fd, &only_named), 0);
	return only_named;
}

static unsigned int names_in(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fdopendir(copy);
	unsigned int n = 0;
	struct dirent *d;

	assert_non_null(dir);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void put(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void assert_text(int dir_fd, const char *name, const char *text)
{
	char here[32] = "";
	int fd = openat(dir_fd, name, O_RDONLY);

	assert_true(fd >= 0);
	assert_true(read(fd, here, sizeof(here) - 1) >= 0);
	close(fd);
	assert_string_equal(here, text);
}

static uint64_t left(struct fixture *x)
{
	uint64_t n = 0;

	assert_int_equal(stub_staging_left(x->v, &n), 0);
	return n;
}

/* ---- files ---- */

static void named_when_it_is_complete(void **state)
{
	struct fixture *x = *state;
	int dir = x->v->staging_fd, root = stub_volume_fd(x->v);
	struct stub_unnamed u;
	struct stat st;

	for (int only_named = must_have_names(x); only_named < 2; only_named++) {
		x->v->only_named = only_named;
		assert_int_equal(stub_unnamed_open(x->v, root, &u), 0);
		assert_int_equal(names_in(dir), only_named);
		assert_int_equal(write(u.fd, "new", 3), 3);
		assert_int_equal(stub_unnamed_name(x->v, &u, root, "x"), 0);
		assert_int_equal(names_in(dir), 0);
		assert_int_equal(fstat(u.fd, &st), 0);
		assert_int_equal(st.st_nlink, 1);
		stub_unnamed_drop(x->v, &u);
		assert_text(root, "x", "new");
		assert_int_equal(unlinkat(root, "x", 0), 0);
	}
}

static void never_over_another(void **state)
{
	struct fixture *x = *state;
	int dir = x->v->staging_fd, root = stub_volume_fd(x->v);
	struct stub_unnamed u;

	put(root, "x", "theirs");
	for (int only_named = must_have_names(x); only_named < 2; only_named++) {
		x->v->only_named = only_named;
		assert_int_equal(stub_unnamed_open(x->v, root, &u), 0);
		assert_int_equal(stub_unnamed_name(x->v, &u, root, "x"), -EEXIST);
		stub_unnamed_drop(x->v, &u);
		assert_int_equal(names_in(dir), 0);
		put(dir, "from", "ours");
		assert_int_equal(stub_rename_new(dir, "from", root, "x", only_named), -EEXIST);
		assert_int_equal(stub_rename_new(dir, "from", root, "y", only_named), 0);
		assert_text(root, "y", "ours");
		assert_int_equal(unlinkat(root, "y", 0), 0);
		assert_int_equal(stub_rename_new(dir, "from", root, "y", only_named), -ENOENT);
	}
	assert_text(root, "x", "theirs");
}

static void a_link_that_leads_nowhere_is_a_name(void **state)
{
	struct fixture *x = *state;
	int dir = x->v->staging_fd, root = stub_volume_fd(x->v);

	assert_int_equal(symlinkat("nowhere", root, "x"), 0);
	put(dir, "from", "ours");
	assert_int_equal(stub_rename_new(dir, "from", root, "x", true), -EEXIST);
	assert_int_equal(unlinkat(dir, "from", 0), 0);
}

static void a_scratch_leaves_nothing(void **state)
{
	struct fixture *x = *state;
	int fd = stub_scratch(x->v->staging_fd);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	close(fd);
	assert_int_equal(names_in(x->v->staging_fd), 0);
	assert_int_equal(stub_scratch(-1), -EBADF);
}

/* ---- a directory whose objects all have names in staging/ before ---- */

static void listed(void **state)
{
	struct fixture *x = *state;
	int root = stub_volume_fd(x->v);
	struct stub_entry e[] = { fixture_entry("f", S_IFREG | 0644, 9000),
				  fixture_entry("d", S_IFDIR | 0755, 0),
				  fixture_entry("empty", S_IFREG | 0600, 0),
				  fixture_entry("a", S_IFREG | 0644, 5),
				  fixture_entry("b", S_IFREG | 0644, 5) };
	struct stat a, b;

	e[3].attr.nlink = e[4].attr.nlink = 2;
	e[4].attr.fileid = e[3].attr.fileid;
	e[4].origin = e[3].origin;
	e[4].origin_len = e[3].origin_len;
	fixture_list(x, e, 5);
	assert_int_equal(left(x), 0);
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_DATA);
	assert_int_equal(fixture_view(x, "empty").needs, 0);
	assert_int_equal(fstatat(root, "f", &a, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(a.st_nlink, 1);
	assert_int_equal(a.st_size, 9000);
	assert_int_equal(fstatat(root, "a", &a, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(fstatat(root, "b", &b, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(a.st_ino, b.st_ino);
}

static void what_is_there_stays(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("f", S_IFREG | 0644, 9000),
				  fixture_entry("d", S_IFDIR | 0755, 0) };
	int root = stub_volume_fd(x->v);
	struct stub_object dir = fixture_root(x);
	struct stub_staging at CLEANUP_STAGING = { .fd = -1 };
	struct stub_staged s;

	/* after it was looked for, as a client's request that comes in between */
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(stub_stage(x->v, &dir, &at, &e[i], &s), 0);
		put(root, e[i].name, "theirs");
		assert_int_equal(stub_staged_link(x->v, &s, root, e[i].name), -EEXIST);
		stub_staged_drop(x->v, &s);
		assert_text(root, e[i].name, "theirs");
	}
	stub_object_close(&dir);
	assert_int_equal(left(x), 0);
}

static void dropped(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 5);
	struct stub_object dir = fixture_root(x);
	struct stub_staging at CLEANUP_STAGING = { .fd = -1 };
	struct stub_staged s;

	assert_int_equal(stub_stage_whole(x->v, &dir, &at, &e, "bytes", &s), 0);
	assert_int_equal(left(x), 1);
	stub_staged_drop(x->v, &s);
	assert_int_equal(left(x), 0);
	e.attr.size = UINT64_C(1) << 62; /* no file system has that */
	assert_true(stub_stage(x->v, &dir, &at, &e, &s) < 0);
	assert_int_equal(left(x), 0);
	stub_object_close(&dir);
}

/* ---- places ---- */

static void each_inode_has_a_place(void **state)
{
	const uint64_t max = (UINT64_C(1) << 40) / 128;

	(void)state;
	assert_int_equal(stub_slot(false, 0), 0);
	assert_int_equal(stub_slot(false, 77), 77);
	assert_int_equal(stub_slot(false, CEPH_FIRST), CEPH_FIRST);
	assert_int_equal(stub_slot(false, UINT64_MAX), 0);
	assert_int_equal(stub_slot(true, 1), 8);
	assert_int_equal(stub_slot(true, CEPH_FIRST), 1);
	assert_int_equal(stub_slot(true, CEPH_FIRST + 1), 9);
	assert_int_equal(stub_slot(true, 7 * CEPH_FIRST + 1), 15);
	assert_int_equal(stub_slot(true, 8 * CEPH_FIRST), 0);
	assert_true(stub_slot(true, CEPH_FIRST + max / 8 - 1) < max);
	assert_true(stub_slot(true, CEPH_FIRST + max / 8 - 1) > 0);
	assert_int_equal(stub_slot(true, CEPH_FIRST + max / 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(named_when_it_is_complete, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(never_over_another, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(a_link_that_leads_nowhere_is_a_name, setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_scratch_leaves_nothing, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(listed, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(what_is_there_stays, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(dropped, setup, fixture_teardown),
		cmocka_unit_test(each_inode_has_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
