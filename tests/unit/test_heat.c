/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_heat.c - where clients are at work: told, kept, and damaged. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "stubcore.h"

static struct stub_heat_file file = { .fd = -1 };
static int root = -1;
static char dir[32];

static int make_root(void **state)
{
	strcpy(dir, "/tmp/test_heat.XXXXXX");
	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY);
	return mkdirat(root, ".postcopy", 0700);
}

static int remove_root(void **state)
{
	stub_heat_close(&file);
	unlinkat(root, ".postcopy/heat", 0);
	unlinkat(root, ".postcopy", AT_REMOVEDIR);
	close(root);
	return rmdir(dir);
}

static struct stub_handle handle_of(uint32_t i)
{
	struct stub_handle h = { .type = 0x81, .len = 12 };

	memcpy(h.bytes, &i, sizeof(i));
	return h;
}

static uint64_t put(uint32_t i)
{
	struct stub_handle h = handle_of(i);
	uint64_t before = file.last;

	assert_int_equal(stub_heat_put(&file, &h), 0);
	assert_true(file.last > before);
	return file.last;
}

static uint32_t number_of(const struct stub_heat *t)
{
	uint32_t i;

	assert_int_equal(t->h.type, 0x81);
	assert_int_equal(t->h.len, 12);
	memcpy(&i, t->h.bytes, sizeof(i));
	return i;
}

static void what_is_told_is_found_by_its_number(void **state)
{
	struct stub_heat told[STUB_HEAT_PLACES];
	uint64_t first;

	assert_int_equal(stub_heat_get(root, 0, told), 0);
	assert_int_equal(stub_heat_open(&file, root), 0);
	assert_int_equal(file.last, 0);
	assert_int_equal(stub_heat_get(root, 0, told), 0);
	first = put(7);
	put(8);
	put(7); /* again: it has one place */
	assert_int_equal(stub_heat_get(root, 0, told), 2);
	assert_int_equal(number_of(&told[0]), 8);
	assert_int_equal(number_of(&told[1]), 7);
	assert_int_equal(stub_heat_get(root, first, told), 2);
	assert_int_equal(stub_heat_get(root, told[0].number, told), 1);
	assert_int_equal(stub_heat_get(root, file.last, told), 0);
}

/* However many: the file stays small, and has the last ones. */
static void numbers_grow_over_restarts(void **state)
{
	struct stub_heat told[STUB_HEAT_PLACES];
	uint64_t last = UINT64_MAX / 2; /* the clock was set back */
	struct stat st;

	assert_int_equal(stub_heat_open(&file, root), 0);
	file.last = last;
	for (uint32_t i = 0; i < 1000; i++)
		put(i);
	assert_int_equal(stub_heat_get(root, 0, told), STUB_HEAT_PLACES);
	for (uint32_t i = 0; i < STUB_HEAT_PLACES; i++)
		assert_int_equal(number_of(&told[i]), 1000 - STUB_HEAT_PLACES + i);
	assert_int_equal(fstat(file.fd, &st), 0);
	assert_true(st.st_size <= 16384);
	last = file.last;
	stub_heat_close(&file);
	assert_int_equal(stub_heat_open(&file, root), 0);
	assert_true(file.last == last);
	put(999); /* it has its place still */
	assert_int_equal(stub_heat_get(root, 0, told), STUB_HEAT_PLACES);
	assert_int_equal(number_of(&told[0]), 1000 - STUB_HEAT_PLACES);
}

static void what_is_damaged_is_left_out(void **state)
{
	struct stub_heat told[STUB_HEAT_PLACES];
	uint8_t bytes[16384];
	ssize_t n;
	int fd;

	assert_int_equal(stub_heat_open(&file, root), 0);
	put(5);
	fd = openat(root, ".postcopy/heat", O_RDWR);
	n = pread(fd, bytes, sizeof(bytes), 0);
	assert_true(n >= 152);
	for (ssize_t i = n - 152; i < n; i++) { /* of the only one there is, at the end */
		uint8_t other = bytes[i] ^ 0x10;

		assert_int_equal(pwrite(fd, &other, 1, i), 1);
		assert_int_equal(stub_heat_get(root, 0, told), 0);
		assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
	}
	assert_int_equal(stub_heat_get(root, 0, told), 1);
	assert_int_equal(ftruncate(fd, n - 8), 0); /* its sum: of each 256 one ends in the zero that is read there */
	assert_int_equal(stub_heat_get(root, 0, told), 0);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes)); /* larger than it is */
	assert_int_equal(stub_heat_get(root, 0, told), 0);
	close(fd);
}

#define heat_test(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		heat_test(what_is_told_is_found_by_its_number),
		heat_test(numbers_grow_over_restarts),
		heat_test(what_is_damaged_is_left_out),
	};

	return cmocka_run_group_tests_name("heat", tests, NULL, NULL);
}
