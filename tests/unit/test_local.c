/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_local.c - libstubcore/local.c: what was changed around the servers, and what was not */
#include "fixture.h"

#include <signal.h>
#include <sys/wait.h>

#define SIZE 100000u
#define LONG_AGO ((time_t)-5000000000) /* before what some file systems can store */

/* The disk is broken: so many calls fail. */
static int times_fail;

int __real_utimensat(int dirfd, const char *path, const struct timespec t[2], int flags);
int __wrap_utimensat(int dirfd, const char *path, const struct timespec t[2], int flags);

int __wrap_utimensat(int dirfd, const char *path, const struct timespec t[2], int flags)
{
	if (times_fail > 0) {
		times_fail--;
		errno = EIO;
		return -1;
	}
	return __real_utimensat(dirfd, path, t, flags);
}

static int64_t fill(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_object o;
	char *data = malloc(SIZE);
	int64_t r;

	memset(data, 'o', SIZE);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	r = stub_fill_data(x->v, &o, 0, data, SIZE);
	stub_object_close(&o);
	free(data);
	return r;
}

static int64_t fill_attr(struct fixture *x, const char *name)
{
	struct stub_entry e = fixture_entry(name, S_IFREG | 0600, SIZE);
	struct stub_handle h = fixture_handle(x, name);
	struct stub_object o;
	int r;

	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	r = stub_fill_attr(x->v, &o, &e.attr, NULL, NULL, 0, NULL);
	stub_object_close(&o);
	return r;
}

static void write_locally(struct fixture *x, const char *name)
{
	int fd = fixture_open(x, name, O_RDWR);

	assert_int_equal(pwrite(fd, "mine", 4, 500), 4);
	close(fd);
}

static void set_mtime(struct fixture *x, const char *name, time_t sec)
{
	struct timespec t[2] = { { 0, UTIME_OMIT }, { sec, 0 } };

	assert_int_equal(utimensat(x->v->fd, name, t, 0), 0);
}

static char byte_at(struct fixture *x, const char *name, off_t at)
{
	int fd = fixture_open(x, name, O_RDONLY);
	char c;

	assert_int_equal(pread(fd, &c, 1, at), 1);
	close(fd);
	return c;
}

static void begin(struct fixture *x, const char *name, struct stub_change *c)
{
	struct stub_handle h = fixture_handle(x, name);
	const struct stub_handle *hs[] = { &h };

	assert_int_equal(stub_change_begin(x->v, hs, 1, c), 0);
}

static int setup(void **state)
{
	struct stub_entry e[3];

	if (fixture_setup(state) < 0)
		return -1;
	e[0] = fixture_entry("f", S_IFREG | 0644, SIZE);
	e[1] = fixture_entry("dummy", S_IFREG | 0644, SIZE);
	e[1].dummy = true;
	e[2] = fixture_entry("old", S_IFREG | 0644, SIZE);
	e[2].attr.mtime = (struct timespec){ LONG_AGO, 0 };
	fixture_list(*state, e, 3);
	return 0;
}

/* ---- a stranger's ---- */

static void test_a_local_write_is_not_overwritten(void **state)
{
	struct fixture *x = *state;

	write_locally(x, "f");
	for (int i = 0; i < 2; i++) /* nor when it is tried again */
		assert_int_equal(fill(x, "f"), -EBUSY);
	assert_int_equal(byte_at(x, "f", 500), 'm');
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_DATA);
}

static void test_nor_one_that_sets_the_time(void **state)
{
	struct fixture *x = *state;

	write_locally(x, "f");
	set_mtime(x, "f", -1000); /* before the volume was made */
	assert_int_equal(fill(x, "f"), -EBUSY);
	assert_int_equal(byte_at(x, "f", 500), 'm');
}

static void test_nor_that_of_a_dummy(void **state)
{
	struct fixture *x = *state;

	write_locally(x, "dummy");
	assert_int_equal(fill_attr(x, "dummy"), -EBUSY);
	assert_int_equal(fixture_view(x, "dummy").needs & STUB_NEEDS_ATTRS, STUB_NEEDS_ATTRS);
}

/* ---- our own ---- */

static void test_clients_and_fills(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;

	begin(x, "f", &c);
	write_locally(x, "f");
	assert_int_equal(stub_change_written(&c, 0, 500, 4), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	begin(x, "f", &c);
	set_mtime(x, "f", 1000);
	assert_int_equal(stub_change_end(&c, 0), 0);
	assert_int_equal(fill(x, "f"), 0);
	assert_int_equal(byte_at(x, "f", 500), 'm');
	assert_int_equal(fill_attr(x, "dummy"), 0);
	assert_int_equal(fill(x, "dummy"), 0);
}

static void test_an_operation_that_failed(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;

	begin(x, "f", &c);
	write_locally(x, "f");
	assert_int_equal(stub_change_end(&c, -ENOSPC), 0);
	assert_int_equal(fill(x, "f"), 0);
	assert_int_equal(byte_at(x, "f", 500), 'o');
}

/* Nothing could be set back: that was nobody else. */
static void test_a_fill_that_failed(void **state)
{
	struct fixture *x = *state;

	times_fail = 1;
	assert_int_equal(fill(x, "f"), -EIO);
	assert_int_equal(times_fail, 0);
	assert_int_equal(fill(x, "f"), 0);
	/* what comes later is told all the same */
	assert_int_equal(fill_attr(x, "dummy"), 0);
	usleep(20000); /* a tick of the clock that files' times are of */
	write_locally(x, "dummy");
	assert_int_equal(fill(x, "dummy"), -EBUSY);
}

static void test_an_operation_that_failed_wholly(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;

	begin(x, "f", &c);
	write_locally(x, "f");
	times_fail = 1;
	assert_int_equal(stub_change_end(&c, -EIO), 0);
	assert_int_equal(times_fail, 0);
	assert_int_equal(fill(x, "f"), 0);
	assert_int_equal(byte_at(x, "f", 500), 'o');
}

/* Killed in its bracket, between the data and the record. */
static void test_a_server_that_died(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		begin(x, "f", &c);
		write_locally(x, "f");
		set_mtime(x, "f", 1000);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(fill(x, "f"), 0);
	assert_int_equal(byte_at(x, "f", 500), 'o');
	/* the next one finds nothing of it, and is believed */
	begin(x, "f", &c);
	assert_int_equal(stub_change_end(&c, 0), 0);
}

/* The same, and then a client that does not move the write time. */
static void test_a_server_that_died_before_another(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		begin(x, "f", &c);
		write_locally(x, "f");
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	begin(x, "f", &c);
	assert_int_equal(fchmodat(x->v->fd, "f", 0600, 0), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	assert_int_equal(fill(x, "f"), 0);
}

/* A bracket that was begun, has changed the file, and does not end. */
static void leave_bracket(struct fixture *x)
{
	struct stub_change c;

	begin(x, "f", &c);
	write_locally(x, "f");
	stub_change_drop(&c);
}

static void assert_fills(struct fixture *x)
{
	assert_int_equal(fill(x, "f"), 0);
	assert_int_equal(byte_at(x, "f", 500), 'o');
}

/* The same, and then one who stores the record for another reason: no sign of it is left. */
static void test_a_server_that_died_before_a_commit(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_commit commit;

	leave_bracket(x);
	assert_int_equal(stub_commit_prepare(x->v, &h, &commit), 0);
	assert_int_equal(stub_commit_finish(&commit, 0), 0);
	assert_fills(x);
}

static void test_a_server_that_died_before_a_move(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_object o;

	leave_bracket(x);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_object_move(x->v, &o, &o.origin), 0);
	stub_object_close(&o);
	assert_fills(x);
}

/* Killed between the data and the time; the next retriever opens the volume. */
static void test_a_fill_that_died(void **state)
{
	struct fixture *x = *state;

	write_locally(x, "f");
	fixture_reopen(x);
	assert_int_equal(fill(x, "f"), 0);
	assert_int_equal(byte_at(x, "f", 500), 'o');
}

static void test_a_time_that_is_not_stored_as_it_is(void **state)
{
	struct fixture *x = *state;
	struct stat st;

	assert_int_equal(fill(x, "old"), 0);
	assert_int_equal(byte_at(x, "old", 500), 'o');
	assert_int_equal(fstatat(x->v->fd, "old", &st, 0), 0);
	if (st.st_mtim.tv_sec == LONG_AGO)
		print_message("  the file system stores it as it is\n");
}

#define ON_FILES(t) cmocka_unit_test_setup_teardown(t, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_FILES(test_a_local_write_is_not_overwritten),
		ON_FILES(test_nor_one_that_sets_the_time),
		ON_FILES(test_nor_that_of_a_dummy),
		ON_FILES(test_clients_and_fills),
		ON_FILES(test_a_fill_that_failed),
		ON_FILES(test_an_operation_that_failed),
		ON_FILES(test_an_operation_that_failed_wholly),
		ON_FILES(test_a_server_that_died),
		ON_FILES(test_a_server_that_died_before_another),
		ON_FILES(test_a_server_that_died_before_a_commit),
		ON_FILES(test_a_server_that_died_before_a_move),
		ON_FILES(test_a_fill_that_died),
		ON_FILES(test_a_time_that_is_not_stored_as_it_is),
	};

	return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
