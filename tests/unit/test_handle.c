/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_handle.c - objects opened by handle; what the kernel answers is changed on the way. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

static int fail_with; /* errno of the next calls */
static int fails;     /* how many of them */
static int calls;

int __real_open_by_handle_at(int mount_fd, struct file_handle *h, int flags);
int __wrap_open_by_handle_at(int mount_fd, struct file_handle *h, int flags);

int __wrap_open_by_handle_at(int mount_fd, struct file_handle *h, int flags)
{
	calls++;
	if (fails) {
		fails--;
		errno = fail_with;
		return -1;
	}
	return __real_open_by_handle_at(mount_fd, h, flags);
}

static void fail_next(int error, int n)
{
	fail_with = error;
	fails = n;
	calls = 0;
}

static struct stub_handle made(struct fixture *x)
{
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 4);

	fixture_list(x, &e, 1);
	return fixture_handle(x, "f");
}

static void opens_what_is_there(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = made(x), again;
	int fd = stub_handle_open(x->v, &h, O_PATH);

	assert_true(fd >= 0);
	assert_int_equal(stub_handle_of_fd(fd, &again), 0);
	assert_true(stub_handle_equal(&h, &again));
	close(fd);
	assert_int_equal(unlinkat(x->v->fd, "f", 0), 0);
	assert_int_equal(stub_handle_open(x->v, &h, O_PATH), -ESTALE);
}

/* A new inode is just being made with the number of one that is gone (ext4). */
static void a_number_that_is_given_away_is_asked_again(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = made(x);

	assert_int_equal(unlinkat(x->v->fd, "f", 0), 0);
	fail_next(ENOMEM, 3);
	assert_int_equal(stub_handle_open(x->v, &h, O_PATH), -ESTALE);
	assert_int_equal(calls, 4);
}

static void lack_of_memory_is_told(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = made(x);

	fail_next(ENOMEM, 1000);
	assert_int_equal(stub_handle_open(x->v, &h, O_PATH), -ENOMEM);
	assert_true(calls < 100);
	fails = 0;
}

static void others_are_told_at_once(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = made(x);

	fail_next(EIO, 1);
	assert_int_equal(stub_handle_open(x->v, &h, O_PATH), -EIO);
	assert_int_equal(calls, 1);
	fail_next(ENOENT, 1);
	assert_int_equal(stub_handle_open(x->v, &h, O_PATH), -ESTALE);
	h.len = 0;
	assert_int_equal(stub_handle_open(x->v, &h, O_PATH), -EINVAL);
}

/* Whether names may come out of what cannot be looked at just now is found out later. */
static void nothing_is_concluded_without_memory(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[2] = { fixture_entry("bad", S_IFREG | 0644, 4),
				   fixture_entry("f", S_IFREG | 0644, 4) };
	struct stub_journal_entry links = { .kind = STUB_JOURNAL_LINKS };
	struct stub_journal_counts n;
	struct stub_names s = { 0 };
	struct stub_handle bad;

	fixture_list(x, e, 2);
	bad = fixture_handle(x, "bad");
	links.h = fixture_handle(x, "f");
	assert_int_equal(stub_journal_add(x->j, &links, 1), 0);
	assert_int_equal(stub_journal_fail(x->j, &bad, STUB_PARK_ERROR, EIO, "broken"), 0);
	assert_int_equal(stub_journal_counts(x->j, &n), 0);
	fail_next(ENOMEM, 1000);
	assert_int_equal(stub_names_may_come(x->v, x->j, &s, &n), -ENOMEM);
	fails = 0;
	for (int i = 0; i < 2; i++)
		if (stub_names_may_come(x->v, x->j, &s, &n) == 0)
			return;
	fail_msg("a file brings no names");
}

#define with_volume(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_volume(opens_what_is_there),
		with_volume(a_number_that_is_given_away_is_asked_again),
		with_volume(lack_of_memory_is_told),
		with_volume(others_are_told_at_once),
		with_volume(nothing_is_concluded_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
