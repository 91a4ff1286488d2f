/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_smb_home.c - retriever/smb/smb_home.c: in an empty $TMPDIR */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "smb/smb_home.h"

static char top[] = "/tmp/test_smb_home.XXXXXX";

#define FILLERS 4

/* How many more homes another process sweeps away just before they are held. */
static unsigned int stolen;

int __real_flock(int fd, int lock);
int __wrap_flock(int fd, int lock);

int __wrap_flock(int fd, int lock)
{
	char link[64], path[512];
	ssize_t n;

	if (stolen && lock == LOCK_SH) {
		stolen--;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, path, sizeof(path) - 1);
		assert_true(n > 0);
		path[n] = '\0';
		assert_int_equal(rmdir(path), 0);
	}
	return __real_flock(fd, lock);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(strrchr(top, '.'), ".XXXXXX");
	return mkdtemp(top) ? setenv("TMPDIR", top, 1) : -1;
}

/* Nothing is left. */
static int tear_down(void **state)
{
	(void)state;
	return rmdir(top);
}

static bool is_there(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0)
		return true;
	assert_int_equal(errno, ENOENT);
	return false;
}

/* snprintf() into a buffer that always does. */
static const char *in(const char *dir, const char *name)
{
	static _Thread_local char path[1024];

	assert_true(snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path));
	return path;
}

static void fill(const char *home)
{
	char sub[600];
	int fd;

	for (int i = 0; i < 8; i++) {
		snprintf(sub, sizeof(sub), "%s/dir-%d", home, i);
		assert_int_equal(mkdir(sub, 0700), 0);
		fd = open(in(sub, "file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
}

static int make(char *home, size_t size)
{
	int fd = smb_home_make(home, size);

	assert_true(fd >= 0);
	assert_true(is_there(home));
	return fd;
}

static void leave(const char *home, int fd)
{
	smb_home_remove(home);
	close(fd);
}

/* One that is made and left: what nobody has goes with it. */
static void sweep_others(void)
{
	char home[512];
	int fd = make(home, sizeof(home));

	leave(home, fd);
}

static void made_and_removed(void **state)
{
	char home[512], small[16], other[600];
	struct stat st;
	int fd = make(home, sizeof(home));

	(void)state;
	assert_memory_equal(home, top, strlen(top));
	assert_int_equal(lstat(home, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fill(home);
	leave(home, fd);
	assert_false(is_there(home));
	smb_home_remove(home);
	assert_int_equal(smb_home_hold(home), -ENOENT);

	assert_int_equal(smb_home_make(small, sizeof(small)), -ENAMETOOLONG);
	strcpy(other, in(top, "another"));
	assert_int_equal(mkdir(other, 0700), 0);
	smb_home_remove(other);
	assert_int_equal(rmdir(other), 0);
}

/* What somebody has stays; what nobody has goes with the next that is made. */
static void swept(void **state)
{
	char held[512], left[512];
	int h = make(held, sizeof(held)), l = make(left, sizeof(left)), again;

	(void)state;
	fill(left);
	again = smb_home_hold(left);
	assert_true(again >= 0);
	close(l);
	sweep_others();
	assert_true(is_there(held));
	assert_true(is_there(left));

	close(again);
	sweep_others();
	assert_true(is_there(held));
	assert_false(is_there(left));
	leave(held, h);
}

static void swept_after_a_kill(void **state)
{
	char home[512];
	int pipes[2];
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever is asserted */
		if (smb_home_make(home, sizeof(home)) < 0 ||
		    write(pipes[1], home, sizeof(home)) != sizeof(home))
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], home, sizeof(home)), sizeof(home));
	sweep_others();
	assert_true(is_there(home));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(read(pipes[0], &c, 1), 0);
	close(pipes[0]);
	sweep_others();
	assert_false(is_there(home));
}

/* In /tmp anybody can make what looks like ours. */
static void not_swept(void **state)
{
	static const char *const names[] = {
		"postcopy-smb-000001", /* open to others */
		"postcopy-smb-000002", /* another's */
		"postcopy-smb-12345", "postcopy-smb-1234567", "postcopy-000000",
	};
	char link[600], target[600];
	int fd;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(mkdir(in(top, names[i]), i == 0 ? 0755 : 0700), 0);
	assert_int_equal(chown(in(top, names[1]), 65534, 65534), 0);
	strcpy(target, in(top, "target"));
	strcpy(link, in(top, "postcopy-smb-000003"));
	assert_int_equal(mkdir(target, 0700), 0);
	assert_int_equal(symlink(target, link), 0);
	fill(target);
	fd = open(in(top, "postcopy-smb-000004"), O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	close(fd);

	assert_int_equal(smb_home_hold(in(top, names[0])), -EPERM);
	assert_int_equal(smb_home_hold(in(top, names[1])), -EPERM);
	sweep_others();
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(rmdir(in(top, names[i])), 0);
	assert_int_equal(unlink(in(top, "postcopy-smb-000004")), 0);
	assert_int_equal(unlink(link), 0);
	assert_true(is_there(in(target, "dir-7/file")));
	assert_int_equal(rename(target, link), 0);
	smb_home_remove(link);
}

static void *remove_it(void *arg)
{
	const char *home = arg;

	smb_home_remove(home);
	return is_there(home) ? arg : NULL;
}

/* It is gone when either is back. */
static void removed_by_two(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		char home[512];
		int fd = make(home, sizeof(home));
		pthread_t t;
		void *left;

		fill(home);
		assert_int_equal(pthread_create(&t, NULL, remove_it, home), 0);
		assert_null(remove_it(home));
		assert_int_equal(pthread_join(t, &left), 0);
		assert_null(left);
		close(fd);
	}
}

static void *fill_it(void *arg)
{
	const char *home = arg;
	char path[700];
	int fd;

	for (unsigned int i = 0;; i++) {
		snprintf(path, sizeof(path), "%s/%u", home, i);
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			return errno == ENOENT ? NULL : arg;
		close(fd);
	}
}

/* However many fill it: one who removes a file at a time never catches up with them. */
static void removed_while_they_fill(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		char home[512], names[FILLERS][600];
		int fd = make(home, sizeof(home));
		pthread_t t[FILLERS];
		void *failed;

		for (int j = 0; j < FILLERS; j++) {
			snprintf(names[j], sizeof(names[j]), "%s/%d", home, j);
			assert_int_equal(mkdir(names[j], 0700), 0);
			assert_int_equal(pthread_create(&t[j], NULL, fill_it, names[j]), 0);
		}
		while (!is_there(in(names[0], "0")))
			sched_yield();
		smb_home_remove(home);
		assert_false(is_there(home));
		for (int j = 0; j < FILLERS; j++) {
			assert_int_equal(pthread_join(t[j], &failed), 0);
			assert_null(failed);
		}
		close(fd);
	}
}

static void stolen_before_it_is_held(void **state)
{
	char home[512];
	int fd;

	(void)state;
	stolen = 3;
	fd = make(home, sizeof(home));
	assert_int_equal(stolen, 0);
	leave(home, fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(made_and_removed), CASE(swept),
		CASE(swept_after_a_kill), CASE(not_swept),
		CASE(removed_by_two), CASE(removed_while_they_fill),
		CASE(stolen_before_it_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
