/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_find.c - libstubcore/find.c: what is of the volume of a server, and what is not */
#include "fixture.h"

#include <limits.h>
#include <sys/xattr.h>

struct outside {
	struct fixture *x;
	char dir[64]; /* in no volume */
	int fd;
	char path[PATH_MAX]; /* what was said */
};

static int setup(void **state)
{
	struct outside *o = calloc(1, sizeof(*o));

	if (!o || fixture_setup(state) < 0)
		return -1;
	o->x = *state;
	snprintf(o->dir, sizeof(o->dir), "/var/tmp/postcopy-unit-XXXXXX");
	o->fd = mkdtemp(o->dir) ? open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	*state = o;
	return o->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct outside *o = *state;

	close(o->fd);
	rmdir(o->dir);
	*state = o->x;
	free(o);
	return fixture_teardown(state);
}

static int foreign(struct outside *o, const struct stub_volume *own, int fd)
{
	strcpy(o->path, "nothing was said");
	return stub_dir_foreign(own, fd, o->path, sizeof(o->path));
}

static void edit_conf(struct outside *o, const char *with)
{
	int fd = openat(stub_volume_fd(o->x->v), STUB_DIR "/" STUB_CONF, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, with, strlen(with)), (ssize_t)strlen(with));
	close(fd);
}

static void test_in_no_volume(void **state)
{
	struct outside *o = *state;

	assert_int_equal(foreign(o, NULL, o->fd), 0);
	assert_int_equal(foreign(o, o->x->v, o->fd), 0);
}

static void test_a_stub_in_no_volume(void **state)
{
	struct outside *o = *state;

	assert_int_equal(fsetxattr(o->fd, STUB_XATTR, "any", 3, 0), 0);
	assert_int_equal(foreign(o, NULL, o->fd), STUB_FOREIGN_STUB);
	assert_string_equal(o->path, o->dir);
	assert_int_equal(foreign(o, o->x->v, o->fd), STUB_FOREIGN_STUB);
}

static void test_a_volume_and_below(void **state)
{
	struct outside *o = *state;
	int top = stub_volume_fd(o->x->v), d, e;

	assert_int_equal(mkdirat(top, "d", 0755), 0);
	assert_int_equal(mkdirat(top, "d/e", 0755), 0);
	d = openat(top, "d", O_PATH);
	e = openat(d, "e", O_RDONLY | O_DIRECTORY);
	for (int fd = 0; fd < 3; fd++) {
		assert_int_equal(foreign(o, NULL, (int[]){ top, d, e }[fd]), STUB_FOREIGN_VOLUME);
		assert_string_equal(o->path, o->x->dir);
	}
	close(d);
	close(e);
}

/* As in a snapshot: what is whole is shown, what is not has nobody who fills it. */
static void test_ones_own(void **state)
{
	struct outside *o = *state;
	int top = stub_volume_fd(o->x->v), d;

	assert_int_equal(mkdirat(top, "d", 0755), 0);
	d = openat(top, "d", O_PATH);
	assert_int_equal(foreign(o, o->x->v, d), 0);
	close(d);
	assert_int_equal(stub_marked(top), 1);
	assert_int_equal(foreign(o, o->x->v, top), STUB_FOREIGN_STUB);
	assert_string_equal(o->path, o->x->dir);
}

static void test_a_volume_that_cannot_be_read(void **state)
{
	struct outside *o = *state;
	int top = stub_volume_fd(o->x->v);

	edit_conf(o, "nonsense");
	assert_int_equal(foreign(o, o->x->v, top), STUB_FOREIGN_VOLUME);
	assert_string_equal(o->path, o->x->dir);
	edit_conf(o, "version = 999\n");
	assert_int_equal(foreign(o, NULL, top), STUB_FOREIGN_VOLUME);
}

static void test_a_users_directory_of_that_name(void **state)
{
	struct outside *o = *state;

	assert_int_equal(mkdirat(o->fd, STUB_DIR, 0755), 0);
	assert_int_equal(fchownat(o->fd, STUB_DIR, 1001, 1001, 0), 0);
	assert_int_equal(foreign(o, NULL, o->fd), 0);
	assert_int_equal(unlinkat(o->fd, STUB_DIR, AT_REMOVEDIR), 0);
}

static void test_no_directory(void **state)
{
	struct outside *o = *state;
	int fd = openat(o->fd, "f", O_RDWR | O_CREAT, 0600);

	assert_int_equal(foreign(o, NULL, fd), -ENOTDIR);
	assert_int_equal(foreign(o, NULL, -1), -EBADF);
	close(fd);
	unlinkat(o->fd, "f", 0);
}

static void test_a_path_that_does_not_fit(void **state)
{
	struct outside *o = *state;

	assert_int_equal(stub_dir_foreign(NULL, stub_volume_fd(o->x->v), o->path, 6),
			 STUB_FOREIGN_VOLUME);
	assert_string_equal(o->path, "/var/");
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(in_no_volume),
		TEST(a_stub_in_no_volume),
		TEST(a_volume_and_below),
		TEST(ones_own),
		TEST(a_volume_that_cannot_be_read),
		TEST(a_users_directory_of_that_name),
		TEST(no_directory),
		TEST(a_path_that_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
