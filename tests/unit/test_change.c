/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_change.c - libstubcore/change.c, fill.c, finish.c: clients and fills on one file */
#include "fixture.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#define SIZE 100000u
#define BIG  (1u << 30)
#define BIG_STEP ((uint64_t)3 << 20)

static int store_error;	   /* with which records cannot be stored, 0: they can */
static size_t stored_size; /* of the last record that was */

/* The program's own come before the C library's. */
int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
	if (store_error) {
		errno = store_error;
		return -1;
	}
	stored_size = size;
	return (int)syscall(SYS_fsetxattr, fd, name, value, size, flags);
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
	if (store_error) {
		errno = store_error;
		return -1;
	}
	stored_size = size;
	return (int)syscall(SYS_setxattr, path, name, value, size, flags);
}

static char old_byte(uint64_t at)
{
	return (char)('a' + at % 23);
}

static void fill(struct fixture *x, const char *name, uint64_t offset, size_t len)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_object o;
	char *data = malloc(len);

	for (size_t i = 0; i < len; i++)
		data[i] = old_byte(offset + i);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, offset, data, len) >= 0);
	stub_object_close(&o);
	free(data);
}

static void begin(struct fixture *x, const char *name, struct stub_change *c)
{
	struct stub_handle h = fixture_handle(x, name);
	const struct stub_handle *hs[] = { &h };

	assert_int_equal(stub_change_begin(x->v, hs, 1, c), 0);
}

static void client_write(struct fixture *x, const char *name, uint64_t offset, size_t len, char byte)
{
	int fd = fixture_open(x, name, O_RDWR);
	struct stub_change c;
	char *data = malloc(len);

	memset(data, byte, len);
	begin(x, name, &c);
	assert_int_equal(stub_io_pwrite(fd, data, len, offset), 0);
	assert_int_equal(stub_change_written(&c, 0, offset, len), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	free(data);
	close(fd);
}

static void client_truncate(struct fixture *x, const char *name, uint64_t size)
{
	int fd = fixture_open(x, name, O_RDWR);
	struct stub_change c;

	begin(x, name, &c);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	close(fd);
}

static char byte_at(struct fixture *x, const char *name, uint64_t at)
{
	int fd = fixture_open(x, name, O_RDONLY);
	char b = 'Z';

	assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
	close(fd);
	return b;
}

static int setup_file(void **state)
{
	struct stub_entry e;

	if (fixture_setup(state) < 0)
		return -1;
	e = fixture_entry("f", S_IFREG | 0644, SIZE);
	fixture_list(*state, &e, 1);
	return 0;
}

static struct stub_finish_stats stats_of(struct fixture *x)
{
	struct stub_finish_stats s;

	stub_finisher_stats(x->f, &s);
	return s;
}

/* ---- fill ---- */

static void test_fill_is_invisible_and_finishes(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stat before, after;

	assert_int_equal(fstatat(x->v->fd, "f", &before, 0), 0);
	fill(x, "f", 0, SIZE / 2);
	assert_int_equal(stub_data_ready(x->v, &h, 0, SIZE / 2), 1);
	assert_int_equal(stub_data_ready(x->v, &h, 0, SIZE / 2 + 1), 0);
	fill(x, "f", SIZE / 2, SIZE - SIZE / 2);
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_FINISH);
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "f").needs, 0);
	assert_int_equal(fstatat(x->v->fd, "f", &after, 0), 0);
	assert_int_equal(stub_time_cmp(before.st_mtim, after.st_mtim), 0);
	assert_int_equal(stub_time_cmp(before.st_atim, after.st_atim), 0);
	assert_int_equal(before.st_mode, after.st_mode);
	assert_int_equal(fixture_scan(x).journal, 0);
	for (uint64_t at = 0; at < SIZE; at += 997)
		assert_int_equal(byte_at(x, "f", at), old_byte(at));
}

static void test_fill_never_covers_a_write(void **state)
{
	struct fixture *x = *state;

	client_write(x, "f", 1000, 500, '!');
	fill(x, "f", 0, SIZE);
	assert_int_equal(byte_at(x, "f", 999), old_byte(999));
	assert_int_equal(byte_at(x, "f", 1000), '!');
	assert_int_equal(byte_at(x, "f", 1499), '!');
	assert_int_equal(byte_at(x, "f", 1500), old_byte(1500));
}

/* Zeros over there are a hole here, whatever a failed sync has left in their place. */
static void test_fill_leaves_holes(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "big");
	size_t len = 1u << 20, data = 300000; /* somewhere in a block */
	char *bytes = calloc(1, len);
	struct stub_object o;
	struct stat st;
	int fd = fixture_open(x, "big", O_RDWR);

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pwrite(fd, "left over", 9, 700000), 9);
	assert_int_equal(futimens(fd, (struct timespec[2]){ st.st_atim, st.st_mtim }), 0);
	client_write(x, "big", 500000, 3, '!');
	bytes[data] = 'o';
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, 0, bytes, len) >= 0);
	bytes[100] = 'o';
	assert_true(stub_fill_data(x->v, &o, BIG - len + 5, bytes, len - 5) >= 0);
	stub_object_close(&o);
	assert_int_equal(stub_data_ready(x->v, &h, 0, len), 1);
	assert_int_equal(byte_at(x, "big", data), 'o');
	assert_int_equal(byte_at(x, "big", data - 1), 0);
	assert_int_equal(byte_at(x, "big", 500002), '!');
	assert_int_equal(byte_at(x, "big", 700000), 0);
	assert_int_equal(byte_at(x, "big", BIG - len + 5 + 100), 'o');
	assert_int_equal(byte_at(x, "big", BIG - 1), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, BIG);
	assert_true(st.st_blocks * 512 <= 5 * st.st_blksize + 4096); /* and the record */
	close(fd);
	free(bytes);
}

/* Who fills need not look at the record again to know what is missing. */
static void test_fill_says_what_is_missing(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_map left;
	struct stub_object o;
	char bytes[100] = { 0 };

	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(o.missing.start, 0);
	assert_int_equal(o.missing.end, SIZE);
	assert_int_equal(stub_fill_data_left(x->v, &o, 0, bytes, 100, &left), SIZE - 100);
	assert_int_equal(left.n, 1);
	assert_int_equal(left.r[0].start, 100);
	client_write(x, "f", 200, 100, '!');
	assert_int_equal(stub_fill_data_left(x->v, &o, 0, bytes, 100, &left), SIZE - 200);
	assert_int_equal(left.n, 2);
	o.size++; /* of another version: nothing is stored, and nothing said */
	assert_int_equal(stub_fill_data_left(x->v, &o, 100, bytes, 100, &left), -EAGAIN);
	assert_int_equal(left.n, 0);
	stub_object_close(&o);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(o.missing.start, 100);
	assert_int_equal(o.missing.end, 200);
	stub_object_close(&o);
	fill(x, "f", 0, SIZE);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(o.missing.end, 0);
	stub_object_close(&o);
}

static void test_fill_of_what_was_cut_off(void **state)
{
	struct fixture *x = *state;
	struct stat st;

	client_truncate(x, "f", 10);
	client_truncate(x, "f", 50000);
	fill(x, "f", 0, SIZE);
	assert_int_equal(byte_at(x, "f", 9), old_byte(9));
	assert_int_equal(byte_at(x, "f", 10), 0); /* the client's zeros */
	assert_int_equal(byte_at(x, "f", 49999), 0);
	assert_int_equal(fstatat(x->v->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_size, 50000);
}

/* The file was cut, and we died before the record followed. */
static void test_crash_between_cut_and_record(void **state)
{
	struct fixture *x = *state;
	int fd = fixture_open(x, "f", O_RDWR);

	assert_int_equal(ftruncate(fd, 10), 0);
	close(fd);
	client_truncate(x, "f", SIZE); /* extends: must not bring the old ranges back */
	fill(x, "f", 0, SIZE);
	assert_int_equal(byte_at(x, "f", 9), old_byte(9));
	assert_int_equal(byte_at(x, "f", 10), 0);
}

/* Written, but we died before the record followed: the write was not acknowledged. */
static void test_crash_between_data_and_record(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	int fd = fixture_open(x, "f", O_RDWR);
	struct stub_change c;

	begin(x, "f", &c);
	assert_int_equal(stub_io_pwrite(fd, "!!!!", 4, 100), 0);
	stub_change_drop(&c);
	close(fd);
	assert_int_equal(stub_data_ready(x->v, &h, 100, 4), 0);
	fill(x, "f", 0, SIZE);
	assert_int_equal(byte_at(x, "f", 101), old_byte(101));
}

/* ---- times and links ---- */

static void test_clients_times_show(void **state)
{
	struct fixture *x = *state;
	struct timespec t[2] = { { 5, 6 }, { 7, 8 } };
	struct stub_view before = fixture_view(x, "f"), after;
	struct stub_change c;

	begin(x, "f", &c);
	assert_int_equal(utimensat(x->v->fd, "f", t, 0), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	after = fixture_view(x, "f");
	assert_int_equal(stub_time_cmp(after.mtime, t[1]), 0);
	assert_true(stub_time_cmp(after.ctime, before.ctime) > 0);
	fill(x, "f", 0, SIZE);
	after = fixture_view(x, "f");
	assert_int_equal(stub_time_cmp(after.mtime, t[1]), 0);
}

static void test_failed_operation_moves_nothing(void **state)
{
	struct fixture *x = *state;
	struct stub_view before = fixture_view(x, "f"), after;
	struct stub_change c;

	begin(x, "f", &c);
	assert_int_equal(stub_change_end(&c, -EPERM), 0);
	after = fixture_view(x, "f");
	assert_int_equal(stub_time_cmp(before.mtime, after.mtime), 0);
	assert_int_equal(stub_time_cmp(before.ctime, after.ctime), 0);
	assert_int_equal(before.nlink, after.nlink);
}

/* A record that cannot be stored is told before anything is done. */
static void test_no_room_is_told_before(void **state)
{
	static const int errors[] = { ENOSPC, EDQUOT, EROFS, EIO };
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	const struct stub_handle *hs[] = { &h };
	struct stub_change c;
	size_t roomy;

	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		store_error = errors[i];
		assert_int_equal(stub_change_begin(x->v, hs, 1, &c), -errors[i]);
		assert_int_equal(stub_change_look(x->v, &h, &c), 0);
		assert_int_equal(stub_map_bytes(stub_change_missing(&c, 0)), SIZE);
		stub_change_drop(&c);
	}
	store_error = 0;
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), 0);
	/* nothing is locked; and what is stored after it is not larger */
	for (uint64_t at = 100; at < 1000; at += 100) {
		begin(x, "f", &c);
		roomy = stored_size;
		assert_int_equal(stub_change_written(&c, 0, at, 50), 0);
		assert_int_equal(stub_change_end(&c, 0), 0);
		assert_true(stored_size <= roomy);
	}
}

static void test_nlink_follows_the_client(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;

	begin(x, "f", &c);
	assert_int_equal(stub_change_linking(&c, 0), 0);
	assert_int_equal(linkat(x->v->fd, "f", x->v->fd, "g", 0), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	assert_int_equal(fixture_view(x, "g").nlink, 2);
	begin(x, "f", &c);
	assert_int_equal(unlinkat(x->v->fd, "g", 0), 0);
	stub_change_links(&c, 0, -1);
	assert_int_equal(stub_change_end(&c, 0), 0);
	assert_int_equal(fixture_view(x, "f").nlink, 1);
}

/* The server dies when the name is there, and the record has not been stored. */
static void test_nlink_after_a_crash(void **state)
{
	struct fixture *x = *state;
	struct stub_change c;

	begin(x, "f", &c);
	assert_int_equal(stub_change_linking(&c, 0), 0);
	assert_int_equal(linkat(x->v->fd, "f", x->v->fd, "g", 0), 0);
	stub_change_drop(&c);
	assert_int_equal(fixture_view(x, "f").nlink, 2);
	begin(x, "f", &c);
	assert_int_equal(unlinkat(x->v->fd, "g", 0), 0);
	stub_change_links(&c, 0, -1);
	stub_change_drop(&c);
	assert_int_equal(fixture_view(x, "f").nlink, 1);
	begin(x, "f", &c);
	assert_int_equal(stub_change_written(&c, 0, 0, 10), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	assert_int_equal(fixture_view(x, "f").nlink, 1);
}

/* A bracket's objects keep their numbers, whichever of them are there; one that stands in
 * it twice is one. */
static void test_absent_and_twice(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	const struct stub_handle *const hs[] = { NULL, &h, NULL, &h };
	struct stub_change c;

	assert_int_equal(stub_change_begin(x->v, hs, 4, &c), 0);
	assert_true(stub_change_any(&c));
	for (unsigned int i = 0; i < 6; i++) {
		bool there = i == 1 || i == 3;

		assert_int_equal(stub_change_needs(&c, i), there ? STUB_NEEDS_DATA : 0);
		assert_true(!!stub_change_missing(&c, i) == there);
		assert_int_equal(stub_change_linking(&c, i), 0);
	}
	assert_int_equal(linkat(x->v->fd, "f", x->v->fd, "g", 0), 0);
	assert_int_equal(linkat(x->v->fd, "f", x->v->fd, "h", 0), 0);
	assert_ptr_equal(stub_change_missing(&c, 1), stub_change_missing(&c, 3));
	assert_int_equal(stub_change_written(&c, 0, 0, 100), 0);
	assert_int_equal(stub_change_written(&c, 3, 100, 100), 0);
	assert_int_equal(stub_change_written(&c, 3, 300, 0), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), 0);
	assert_int_equal(stub_data_ready(x->v, &h, 100, 100), 1);
	assert_int_equal(stub_data_ready(x->v, &h, 300, 1), 0);
	assert_int_equal(fixture_view(x, "f").nlink, 3);

	assert_int_equal(stub_change_begin(x->v, hs, 1, &c), 0);
	assert_false(stub_change_any(&c));
	assert_int_equal(stub_change_end(&c, 0), 0);
}

/* What is asked of it, or told, when it has ended is about nothing. */
static void test_bracket_has_ended(void **state)
{
	struct fixture *x = *state;
	struct stub_change c[3] = { 0 };

	begin(x, "f", &c[1]);
	assert_true(stub_change_any(&c[1]));
	assert_int_equal(stub_change_end(&c[1], 0), 0);
	begin(x, "f", &c[2]);
	stub_change_drop(&c[2]);
	for (size_t i = 0; i < 3; i++) {
		assert_false(stub_change_any(&c[i]));
		assert_int_equal(stub_change_needs(&c[i], 0), 0);
		assert_null(stub_change_missing(&c[i], 0));
		stub_change_links(&c[i], 0, 1);
		assert_int_equal(stub_change_linking(&c[i], 0), 0);
		assert_int_equal(stub_change_fits(&c[i], 0, 0, 1), 0);
		assert_int_equal(stub_change_clear(&c[i], 0, 0, 1), 0);
		assert_int_equal(stub_change_written(&c[i], 0, 0, 1), 0);
		assert_int_equal(stub_change_end(&c[i], 0), 0);
	}
	assert_int_equal(fixture_view(x, "f").nlink, 1);
}

/* ---- commit and power cut ---- */

static void commit(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);
	int fd = fixture_open(x, name, O_RDWR);
	struct stub_commit c;

	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(stub_commit_finish(&c, 0), 0);
	close(fd);
}

/* Another boot: what was not committed counts as missing again. */
static void test_other_boot_goes_back_to_durable(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");

	client_write(x, "f", 0, 100, '!');
	commit(x, "f");
	client_write(x, "f", 200, 100, '?');
	assert_int_equal(stub_data_ready(x->v, &h, 0, 100), 1);
	assert_int_equal(stub_data_ready(x->v, &h, 200, 100), 1);
	x->v->boot++;
	assert_int_equal(stub_data_ready(x->v, &h, 0, 100), 1);
	assert_int_equal(stub_data_ready(x->v, &h, 200, 100), 0);
	fill(x, "f", 0, SIZE);
	assert_int_equal(byte_at(x, "f", 50), '!');
	assert_int_equal(byte_at(x, "f", 250), old_byte(250));
}

static void test_failed_sync_goes_back_to_durable(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_commit c;

	fill(x, "f", 0, 5000);
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(stub_commit_finish(&c, -EIO), 0);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 10), 0);
}

/* fsync calls of the program, of any file; they are done for real (--wrap=fsync). */
static unsigned int fsyncs;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
	fsyncs++;
	return __real_fsync(fd);
}

/* The finisher drops the record between the caller's fsync and the fold.  Until that
 * is on the disk, a power cut brings the old record back, which says "missing". */
static void test_record_dropped_during_commit_is_durable(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	int fd = fixture_open(x, "f", O_RDWR);
	struct stub_commit c;

	client_write(x, "f", 0, SIZE, '!');
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(fsync(fd), 0);
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "f").needs, 0);
	fsyncs = 0;
	assert_int_equal(stub_commit_finish(&c, 0), 0);
	assert_int_equal(fsyncs, 1);
	close(fd);
}

/* ---- what a failed sync left ---- */

static void test_nothing_local_below_a_write(void **state)
{
	struct fixture *x = *state;
	int fd = fixture_open(x, "f", O_RDWR);
	char left[3 * 4096] = "";
	struct stub_change c;

	client_write(x, "f", 0, 100, '!');
	assert_int_equal(stub_io_pwrite(fd, left, 1000, 100), 0);
	assert_int_equal(stub_io_pwrite(fd, left, sizeof(left), 8192), 0);
	begin(x, "f", &c);
	assert_int_equal(stub_change_clear(&c, 0, 50, 100), 0);
	assert_int_equal(stub_change_clear(&c, 0, 9000, 10), 0);
	assert_int_equal(stub_change_end(&c, -EAGAIN), 0);
	assert_int_equal(lseek(fd, 0, SEEK_DATA), 0);
	assert_int_equal(byte_at(x, "f", 99), '!');
	assert_int_equal(lseek(fd, 8192, SEEK_DATA), 12288);
	fill(x, "f", 16384, 4096);
	assert_int_equal(byte_at(x, "f", 16384), old_byte(16384));
	assert_int_equal(lseek(fd, 8192, SEEK_DATA), 12288);
	close(fd);
}

/* ---- fragmentation ---- */

static void test_fragmented_map_asks_for_a_fetch(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_object o;
	struct stub_map fetch;
	struct stub_change c;
	bool refused = false, crowded = false;

	for (uint64_t i = 0; i < 900 && !refused; i++) {
		begin(x, "f", &c);
		refused = stub_change_fits(&c, 0, i * 100 + 50, 20) == -ENOSPC;
		assert_true(!refused || crowded);
		if (!refused)
			assert_int_equal(stub_change_written(&c, 0, i * 100 + 50, 20), 0);
		assert_int_equal(stub_change_end(&c, refused ? -EAGAIN : 0), 0);
		crowded = c.crowded;
		assert_true(i > 0 || !crowded);
	}
	assert_true(refused);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_room(x->v, &o, UINT64_MAX, &fetch), STUB_MAP_WRITES);
	stub_object_close(&o);
	assert_int_equal(fetch.n, STUB_MAP_WRITES - STUB_MAP_ROOM);
	fill(x, "f", fetch.r[0].start, fetch.r[0].end - fetch.r[0].start);
	begin(x, "f", &c);
	assert_int_equal(stub_change_fits(&c, 0, 99000, 10), 0);
	assert_int_equal(stub_change_end(&c, -EAGAIN), 0);
}

/* As stable writes leave it: both maps alike, more ranges than fit twice. */
static void fragment_big(struct fixture *x, unsigned int n)
{
	for (uint64_t i = 0; i < n; i++) {
		client_write(x, "big", BIG_STEP * i + 5000, 4096, '!');
		commit(x, "big");
	}
}

static void test_full_record_is_filled(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "big");

	fragment_big(x, STUB_MAP_MAX - 1);
	fill(x, "big", BIG_STEP * 7 + 5000 + 4096, 100);
	assert_int_equal(stub_data_ready(x->v, &h, BIG_STEP * 7 + 9096, 100), 1);
	assert_int_equal(byte_at(x, "big", BIG_STEP * 7 + 9096), old_byte(BIG_STEP * 7 + 9096));
	assert_int_equal(byte_at(x, "big", BIG_STEP * 7 + 5000), '!');
}

static void test_full_record_takes_writes(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "big");

	fragment_big(x, 200);
	for (uint64_t i = 200; i < STUB_MAP_MAX - 1; i++) /* unstable */
		client_write(x, "big", BIG_STEP * i + 5000, 4096, '?');
	for (uint64_t i = 0; i < 200; i++) /* beside the first ones */
		client_write(x, "big", BIG_STEP * i + 9096, 4096, '?');
	commit(x, "big");
	x->v->boot++;
	for (uint64_t i = 0; i < STUB_MAP_MAX - 1; i++)
		assert_int_equal(stub_data_ready(x->v, &h, BIG_STEP * i + 5000, 4096), 1);
}

static void test_commit_between_writes_to_a_full_record(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "big");
	struct stub_commit c;

	for (uint64_t i = 0; i < 290; i++)
		client_write(x, "big", BIG_STEP * i + 5000, 4096, '?');
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	for (uint64_t i = 0; i < 290; i++)
		client_write(x, "big", BIG_STEP * i + 9096, 4096, '?');
	assert_int_equal(stub_commit_finish(&c, 0), 0);
	x->v->boot++;
	for (uint64_t i = 0; i < 290; i++)
		assert_int_equal(stub_data_ready(x->v, &h, BIG_STEP * i + 5000, 4096), 1);
}

/* ---- exclusion ---- */

struct racer {
	struct fixture *x;
	_Atomic bool filled;
};

static void *fill_thread(void *arg)
{
	struct racer *r = arg;

	fill(r->x, "f", 0, SIZE);
	r->filled = true;
	return NULL;
}

static void test_bracket_keeps_fills_out(void **state)
{
	struct racer r = { .x = *state };
	struct stub_change c;
	pthread_t t;
	int fd = fixture_open(r.x, "f", O_RDWR);

	begin(r.x, "f", &c);
	assert_int_equal(pthread_create(&t, NULL, fill_thread, &r), 0);
	for (int i = 0; i < 50; i++) {
		assert_false(r.filled);
		usleep(1000); /* gives the fill its chance to be wrong; not a wait for it */
	}
	assert_int_equal(stub_io_pwrite(fd, "!", 1, 0), 0);
	assert_int_equal(stub_change_written(&c, 0, 0, 1), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	pthread_join(t, NULL);
	assert_true(r.filled);
	assert_int_equal(byte_at(r.x, "f", 0), '!');
	assert_int_equal(byte_at(r.x, "f", 1), old_byte(1));
	close(fd);
}

/* ---- hard links and the end ---- */

/* A file of which two names of three have come, h and i, and all of its data. */
static struct stub_handle make_two_of_three(struct fixture *x)
{
	struct stub_entry e = fixture_entry("h", S_IFREG | 0644, SIZE);
	struct stub_object root = fixture_root(x);

	e.attr.nlink = 3;
	assert_int_equal(stub_make_entry(x->v, &root, &e), 0);
	e.name = "i";
	assert_int_equal(stub_make_entry(x->v, &root, &e), 0);
	stub_object_close(&root);
	fixture_list(x, &e, 1);
	fill(x, "h", 0, SIZE);
	return fixture_handle(x, "h");
}

static void test_links_wait_for_names(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = make_two_of_three(x);
	struct stub_journal_counts n;
	struct stat st;

	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "h").needs, STUB_NEEDS_NAMES);
	assert_int_equal(stub_journal_counts(x->j, &n), 0);
	assert_int_equal(n.links, 1);
	stub_finisher_add_last(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_scan(x).journal, 0);
	assert_int_equal(fixture_scan(x).leftovers, 0);
	assert_int_equal(fstatat(x->v->fd, "h", &st, 0), 0);
	assert_int_equal(st.st_nlink, 2);
}

/* A client gives it one more name, and the server dies before the count is stored: that name is not one of
 * those that have to come, and does not pass for one. */
static void test_links_wait_for_names_after_a_crash(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = make_two_of_three(x);
	struct stub_change c;

	begin(x, "h", &c);
	assert_int_equal(stub_change_linking(&c, 0), 0);
	assert_int_equal(stub_change_end(&c, -EEXIST), 0);
	assert_int_equal(fixture_view(x, "h").nlink, 3);
	begin(x, "h", &c);
	assert_int_equal(stub_change_linking(&c, 0), 0);
	assert_int_equal(linkat(x->v->fd, "h", x->v->fd, "a client's", 0), 0);
	stub_change_drop(&c);
	assert_int_equal(fixture_view(x, "h").nlink, 4);
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "h").needs, STUB_NEEDS_NAMES);
	stub_finisher_add_last(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_scan(x).leftovers, 0);
}

/* In one round, and in a later one. */
static void test_handed_in_twice_counts_once(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	uint64_t before = stats_of(x).done;

	fill(x, "f", 0, SIZE);
	for (int i = 0; i < 3; i++) {
		stub_finisher_add(x->f, &h);
		stub_finisher_add(x->f, &h);
		stub_finisher_add_stale(x->f, &h);
		assert_int_equal(stub_finisher_drain(x->f), 0);
		assert_int_equal(stats_of(x).done, before + 1);
		assert_int_equal(stats_of(x).inflight, 0);
	}
}

static void test_complete_and_removed(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stat st;

	assert_int_equal(stub_volume_remove(x->v), -EBUSY);
	assert_false(stub_volume_complete(x->v));
	fill(x, "f", 0, SIZE);
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(stub_volume_set_complete(x->v), 0);
	assert_true(stub_volume_complete(x->v));
	assert_int_equal(stub_volume_remove(x->v), 0);
	assert_int_equal(fstatat(x->v->fd, STUB_DIR, &st, 0), -1);
	assert_true(stub_volume_complete(x->v)); /* for who has it open */
	assert_int_equal(byte_at(x, "f", 77), old_byte(77));
}

static int setup_big(void **state)
{
	struct stub_entry e;

	if (fixture_setup(state) < 0)
		return -1;
	e = fixture_entry("big", S_IFREG | 0644, BIG);
	fixture_list(*state, &e, 1);
	return 0;
}

#define ON_BIG(t) cmocka_unit_test_setup_teardown(t, setup_big, fixture_teardown)
#define ON_FILE(t) cmocka_unit_test_setup_teardown(t, setup_file, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_FILE(test_fill_is_invisible_and_finishes),
		ON_FILE(test_fill_never_covers_a_write),
		ON_BIG(test_fill_leaves_holes),
		ON_FILE(test_fill_says_what_is_missing),
		ON_FILE(test_fill_of_what_was_cut_off),
		ON_FILE(test_crash_between_cut_and_record),
		ON_FILE(test_crash_between_data_and_record),
		ON_FILE(test_clients_times_show),
		ON_FILE(test_failed_operation_moves_nothing),
		ON_FILE(test_no_room_is_told_before),
		ON_FILE(test_nlink_follows_the_client),
		ON_FILE(test_nlink_after_a_crash),
		ON_FILE(test_absent_and_twice),
		ON_FILE(test_bracket_has_ended),
		ON_FILE(test_other_boot_goes_back_to_durable),
		ON_FILE(test_failed_sync_goes_back_to_durable),
		ON_FILE(test_record_dropped_during_commit_is_durable),
		ON_BIG(test_full_record_is_filled),
		ON_BIG(test_full_record_takes_writes),
		ON_BIG(test_commit_between_writes_to_a_full_record),
		ON_FILE(test_nothing_local_below_a_write),
		ON_FILE(test_fragmented_map_asks_for_a_fetch),
		ON_FILE(test_bracket_keeps_fills_out),
		cmocka_unit_test_setup_teardown(test_links_wait_for_names, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_links_wait_for_names_after_a_crash, fixture_setup,
						fixture_teardown),
		ON_FILE(test_handed_in_twice_counts_once),
		ON_FILE(test_complete_and_removed),
	};

	return cmocka_run_group_tests_name("change", tests, NULL, NULL);
}
