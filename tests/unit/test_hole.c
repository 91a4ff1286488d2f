/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_hole.c - libstubcore/fill.c: ranges of which the old server has no data */
#include "fixture.h"

#include <sys/syscall.h>

#define HUGE ((uint64_t)4 << 40)
#define MIB  ((uint64_t)1 << 20)

static int punch_error; /* with which nothing can be punched, 0: it can */

/* The program's own comes before the C library's. */
int fallocate(int fd, int mode, off_t offset, off_t len)
{
	if (punch_error) {
		errno = punch_error;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

static int setup(void **state)
{
	struct stub_entry e;

	punch_error = 0;
	if (fixture_setup(state) < 0)
		return -1;
	e = fixture_entry("f", S_IFREG | 0644, HUGE + 5);
	fixture_list(*state, &e, 1);
	return 0;
}

static int64_t hole(struct fixture *x, uint64_t offset, uint64_t end)
{
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_object o;
	int64_t r;

	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	r = stub_fill_hole(x->v, &o, offset, end);
	stub_object_close(&o);
	return r;
}

static void client_write(struct fixture *x, uint64_t offset, const char *bytes)
{
	struct stub_handle h = fixture_handle(x, "f");
	const struct stub_handle *hs[] = { &h };
	int fd = fixture_open(x, "f", O_RDWR);
	struct stub_change c;

	assert_int_equal(stub_change_begin(x->v, hs, 1, &c), 0);
	assert_int_equal(stub_io_pwrite(fd, bytes, strlen(bytes), offset), 0);
	assert_int_equal(stub_change_written(&c, 0, offset, strlen(bytes)), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	close(fd);
}

static void client_truncate(struct fixture *x, uint64_t size)
{
	struct stub_handle h = fixture_handle(x, "f");
	const struct stub_handle *hs[] = { &h };
	int fd = fixture_open(x, "f", O_RDWR);
	struct stub_change c;

	assert_int_equal(stub_change_begin(x->v, hs, 1, &c), 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	close(fd);
}

/* Bytes in a missing range, as a failed sync leaves them. */
static void leave_over(struct fixture *x, uint64_t offset, const char *bytes)
{
	int fd = fixture_open(x, "f", O_RDWR);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pwrite(fd, bytes, strlen(bytes), (off_t)offset), strlen(bytes));
	assert_int_equal(futimens(fd, (struct timespec[2]){ st.st_atim, st.st_mtim }), 0);
	close(fd);
}

static bool reads(struct fixture *x, uint64_t offset, const char *bytes, size_t len)
{
	int fd = fixture_open(x, "f", O_RDONLY);
	char got[64];

	assert_true(len <= sizeof(got));
	assert_int_equal(pread(fd, got, len, (off_t)offset), len);
	close(fd);
	return !memcmp(got, bytes, len);
}

static int ready(struct fixture *x, uint64_t offset, uint64_t len)
{
	struct stub_handle h = fixture_handle(x, "f");

	return stub_data_ready(x->v, &h, offset, len);
}

static struct stat stat_of(struct fixture *x)
{
	struct stat st;

	assert_int_equal(fstatat(x->v->fd, "f", &st, 0), 0);
	return st;
}

/* ---- what it does ---- */

static void test_all_of_a_huge_file_at_once(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stat before = stat_of(x), after;

	assert_int_equal(hole(x, 0, HUGE + 5), 0);
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_FINISH);
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "f").needs, 0);
	after = stat_of(x);
	assert_true(after.st_size == HUGE + 5);
	assert_true(after.st_blocks <= before.st_blocks);
	assert_int_equal(stub_time_cmp(before.st_mtim, after.st_mtim), 0);
	assert_true(reads(x, HUGE, "\0\0\0\0\0", 5));
}

/* What is left of the map does not grow with the file. */
static void test_data_between_holes(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_object o;

	assert_int_equal(hole(x, 0, HUGE / 2), HUGE / 2 + 5);
	assert_int_equal(hole(x, HUGE / 2 + MIB, HUGE + 5), MIB);
	assert_int_equal(ready(x, HUGE / 2 + MIB, HUGE), 1);
	assert_int_equal(ready(x, HUGE / 2, 1), 0);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(o.missing.start == HUGE / 2 && o.missing.end == HUGE / 2 + MIB);
	assert_int_equal(stub_fill_data(x->v, &o, HUGE / 2, "old", 3), MIB - 3);
	stub_object_close(&o);
	assert_true(reads(x, HUGE / 2 - 2, "\0\0old\0", 6));
}

static void test_never_over_what_a_client_wrote(void **state)
{
	struct fixture *x = *state;

	client_write(x, 10 * MIB + 77, "client");
	assert_int_equal(hole(x, 0, HUGE), 5);
	assert_true(reads(x, 10 * MIB + 75, "\0\0client\0\0", 10));
	assert_true(stat_of(x).st_blocks * 512 < (blkcnt_t)MIB);
}

/* Beyond a cut nothing is missing, whatever the file's size is now. */
static void test_what_was_cut_off_is_the_clients(void **state)
{
	struct fixture *x = *state;

	client_truncate(x, 1000);
	client_truncate(x, HUGE);
	client_write(x, 5000, "client");
	assert_int_equal(hole(x, 0, HUGE + 5), 0);
	assert_true(reads(x, 4998, "\0\0client\0", 9));
	assert_true(reads(x, 998, "\0\0\0\0", 4));
}

/* ---- what lies in its place ---- */

static void test_what_a_failed_sync_left_goes(void **state)
{
	struct fixture *x = *state;

	leave_over(x, 300000, "left over");
	leave_over(x, HUGE, "left");
	assert_int_equal(hole(x, 0, HUGE + 5), 0);
	assert_true(reads(x, 300000, "\0\0\0\0\0\0\0\0\0", 9));
	assert_true(reads(x, HUGE, "\0\0\0\0\0", 5));
	assert_true(stat_of(x).st_blocks * 512 < (blkcnt_t)MIB);
}

/* A block of which a part is missing is no hole: that part is written. */
static void test_parts_of_blocks_are_written(void **state)
{
	struct fixture *x = *state;

	leave_over(x, 5000, "left over, in a block that is not missing as a whole");
	leave_over(x, 700000, "left over");
	assert_int_equal(hole(x, 5000, 700004), HUGE + 5 - (700004 - 5000));
	assert_int_equal(ready(x, 5000, 700004 - 5000), 1);
	assert_int_equal(ready(x, 4999, 1), 0);
	assert_int_equal(ready(x, 700004, 1), 0);
	assert_true(reads(x, 5000, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20));
	assert_true(reads(x, 700000, "\0\0\0\0", 4));
	/* in one block, between two writes */
	client_write(x, 20 * MIB + 10, "a");
	client_write(x, 20 * MIB + 90, "z");
	leave_over(x, 20 * MIB + 40, "left over");
	assert_true(hole(x, 20 * MIB + 11, 20 * MIB + 90) > 0);
	assert_true(reads(x, 20 * MIB + 10, "a", 1));
	assert_true(reads(x, 20 * MIB + 38, "\0\0\0\0\0\0\0\0\0\0\0\0", 12));
	assert_true(reads(x, 20 * MIB + 89, "\0z", 2));
}

static void test_not_on_a_guess(void **state)
{
	struct fixture *x = *state;

	leave_over(x, 300000, "left over");
	punch_error = EOPNOTSUPP;
	assert_int_equal(hole(x, 0, HUGE), -EOPNOTSUPP);
	assert_int_equal(ready(x, 0, 1), 0);
	punch_error = EIO;
	assert_int_equal(hole(x, 0, HUGE), -EIO);
	assert_int_equal(ready(x, 0, 1), 0);
	punch_error = 0;
	assert_int_equal(hole(x, 0, HUGE), 5);
}

/* Not durable: in the next era it is missing again, and is left again. */
static void test_an_era_ends(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(hole(x, 0, HUGE), 5);
	assert_int_equal(ready(x, 0, HUGE), 1);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(ready(x, 0, 1), 0);
	assert_int_equal(hole(x, 0, HUGE + 5), 0);
}

/* ---- what it refuses ---- */

static void test_refused(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_object o;

	assert_int_equal(hole(x, 5, 4), -EINVAL);
	assert_int_equal(hole(x, 0, UINT64_MAX), -EINVAL);
	assert_int_equal(hole(x, 5, 5), HUGE + 5);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	o.size++; /* of another version */
	assert_int_equal(stub_fill_hole(x->v, &o, 0, HUGE), -EAGAIN);
	o.size--;
	assert_int_equal(ready(x, 0, 1), 0);
	assert_int_equal(stub_fill_hole(x->v, &o, 0, INT64_MAX), 0); /* to the end, and not beyond */
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(stub_fill_hole(x->v, &o, 0, HUGE), -ENOENT);
	stub_object_close(&o);
}

static void test_changed_around_the_servers(void **state)
{
	struct fixture *x = *state;
	int fd;

	fd = fixture_open(x, "f", O_RDWR);
	assert_int_equal(pwrite(fd, "local", 5, 300000), 5);
	close(fd);
	assert_int_equal(hole(x, 0, HUGE + 5), -EBUSY);
	assert_true(reads(x, 300000, "local", 5));
}

#define T(t) cmocka_unit_test_setup_teardown(t, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_all_of_a_huge_file_at_once),
		T(test_data_between_holes),
		T(test_never_over_what_a_client_wrote),
		T(test_what_was_cut_off_is_the_clients),
		T(test_what_a_failed_sync_left_goes),
		T(test_parts_of_blocks_are_written),
		T(test_not_on_a_guess),
		T(test_an_era_ends),
		T(test_refused),
		T(test_changed_around_the_servers),
	};

	return cmocka_run_group_tests_name("hole", tests, NULL, NULL);
}
