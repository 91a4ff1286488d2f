/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_progress.c - .postcopy/progress: what is written comes back, what is damaged is left out, and
 * however long it goes on, the file stays as large and knows the beginning and the last minutes.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "progress.h"

#define FILE_NAME ".postcopy/progress"

static char dir[64];
static int root;

static int make_dir(void **state)
{
	strcpy(dir, "/var/tmp/test_progress.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	root = open(dir, O_RDONLY | O_DIRECTORY);
	return mkdirat(root, ".postcopy", 0700);
}

static int remove_dir(void **state)
{
	char cmd[128];

	close(root);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static struct progress_sample sample(int64_t at)
{
	return (struct progress_sample){ .at = at, .active_ms = (uint64_t)at * 500,
					 .found = (uint64_t)at * 3, .found_bytes = (uint64_t)at * 4096,
					 .done = (uint64_t)at * 2, .done_bytes = (uint64_t)at * 4000,
					 .dirs = 7, .parked = 1 };
}

static const struct tree_depth tree[TREE_DEPTHS] = { { 1, 10, 100, 5, 25, 1e9, 1e18 },
						     { 8, 3, 5, 8, 64, 4096, 1e7 } };

static struct progress *opened(void)
{
	struct progress *p = NULL;

	assert_int_equal(progress_open(root, &p), 0);
	return p;
}

static off_t file_size(void)
{
	struct stat st;

	assert_int_equal(fstatat(root, FILE_NAME, &st, 0), 0);
	return st.st_size;
}

static void comes_back(void **state)
{
	struct progress *p = opened();
	struct progress_sample s;

	assert_int_equal(progress_data(p)->n, 0);
	for (int64_t at = 1000; at < 1100; at += 10) {
		s = sample(at);
		assert_int_equal(progress_add(p, &s, tree), 0);
	}
	progress_close(p);
	p = opened();
	assert_int_equal(progress_data(p)->n, 10);
	s = sample(1090);
	assert_memory_equal(&progress_data(p)->sample[9], &s, sizeof(s));
	assert_memory_equal(progress_data(p)->tree, tree, sizeof(tree));
	assert_int_equal(file_size(), PROGRESS_BYTES);
	progress_close(p);
}

/* For who only looks: nothing is made, and what is no file of ours is said to be none. */
static void only_looked_at(void **state)
{
	static struct progress_data d;
	struct progress_sample s = sample(1000);
	struct progress *p;

	assert_int_equal(progress_load(root, &d), -ENOENT);
	assert_int_equal(faccessat(root, FILE_NAME, F_OK, 0), -1);
	p = opened();
	assert_int_equal(progress_add(p, &s, tree), 0);
	assert_int_equal(progress_load(root, &d), 0); /* while another one writes */
	assert_int_equal(d.n, 1);
	assert_memory_equal(&d.sample[0], &s, sizeof(s));
	assert_memory_equal(d.tree, tree, sizeof(tree));
	progress_close(p);
	assert_int_equal(unlinkat(root, FILE_NAME, 0), 0);
	assert_int_equal(mkdirat(root, FILE_NAME, 0700), 0);
	assert_int_equal(progress_load(root, &d), -EPERM);
	assert_int_equal(d.n, 0);
	assert_int_equal(unlinkat(root, FILE_NAME, AT_REMOVEDIR), 0);
}

/* Ten seconds each, for four months. */
static void stays_small_and_knows_the_beginning(void **state)
{
	struct progress_data *d = calloc(1, sizeof(*d));
	int64_t end = 1000 + 120 * 86400, longest = 0;
	unsigned int late = 0;

	for (int64_t at = 1000; at < end; at += 10) {
		struct progress_sample s = sample(at);

		assert_true(progress_insert(d, &s) < PROGRESS_SAMPLES);
	}
	assert_int_equal(d->n, PROGRESS_SAMPLES);
	assert_int_equal(d->sample[0].at, 1000);
	for (unsigned int i = 1; i < d->n; i++) {
		int64_t gap = d->sample[i].at - d->sample[i - 1].at;

		assert_true(gap > 0);
		longest = gap > longest ? gap : longest;
		late += d->sample[i].at > end - 3600;
	}
	assert_true(late > 40); /* the last hour */
	assert_true(longest < 20 * 86400);
	free(d);
}

static void write_at(off_t at, const void *bytes, size_t n)
{
	int fd = openat(root, FILE_NAME, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
	close(fd);
}

static void fill_three(void)
{
	struct progress *p = opened();

	for (int64_t at = 1000; at < 1003; at++) {
		struct progress_sample s = sample(at);

		assert_int_equal(progress_add(p, &s, tree), 0);
	}
	progress_close(p);
}

static void what_is_damaged_is_left_out(void **state)
{
	struct progress *p;

	fill_three();
	write_at(2 * PROGRESS_HEADER + PROGRESS_SAMPLE + 20, "x", 1);
	write_at(PROGRESS_HEADER + 100, "x", 1); /* the header that counts: it was the first one */
	p = opened();
	assert_int_equal(progress_data(p)->n, 2);
	assert_int_equal(progress_data(p)->sample[1].at, 1002);
	assert_int_equal(progress_data(p)->tree[0].listed, 0);
	progress_close(p);
}

/* The header is torn while it is written: the one before it counts. */
static void a_torn_header(void **state)
{
	struct tree_depth later[TREE_DEPTHS];
	struct progress_sample s = sample(2000);
	struct progress *p;

	fill_three();
	memcpy(later, tree, sizeof(later));
	later[1].listed++;
	p = opened();
	assert_int_equal(progress_add(p, &s, later), 0);
	progress_close(p);
	write_at(2000, "torn", 4); /* number 2 is the first of the file */
	p = opened();
	assert_int_equal(progress_data(p)->number, 1);
	assert_memory_equal(progress_data(p)->tree, tree, sizeof(tree));
	progress_close(p);
}

static void clock_set_back(void **state)
{
	struct progress *p;
	struct progress_sample s;

	fill_three();
	p = opened();
	s = sample(1001);
	s.active_ms = s.done = 1000000; /* later in truth */
	s.found = 2000000;
	assert_int_equal(progress_add(p, &s, tree), 0);
	assert_int_equal(progress_data(p)->n, 2);
	s.at++;
	s.done = 0; /* the journal was made anew */
	assert_int_equal(progress_add(p, &s, tree), 0);
	assert_int_equal(progress_data(p)->n, 1);
	progress_close(p);
}

static void not_our_file(void **state)
{
	struct progress *p = NULL;
	int fd = openat(root, FILE_NAME, O_WRONLY | O_CREAT, 0600);

	assert_int_equal(write(fd, "short", 5), 5);
	close(fd);
	p = opened();
	assert_int_equal(progress_data(p)->n, 0);
	assert_int_equal(file_size(), PROGRESS_BYTES);
	progress_close(p);
	assert_int_equal(unlinkat(root, FILE_NAME, 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", root, FILE_NAME), 0);
	assert_int_equal(progress_open(root, &p), -ELOOP);
	assert_int_equal(unlinkat(root, FILE_NAME, 0), 0);
	assert_int_equal(mkfifoat(root, FILE_NAME, 0600), 0);
	assert_int_equal(progress_open(root, &p), -EPERM);
}

#define test(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		test(comes_back),
		test(only_looked_at),
		test(stays_small_and_knows_the_beginning),
		test(what_is_damaged_is_left_out),
		test(a_torn_header),
		test(clock_set_back),
		test(not_our_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
