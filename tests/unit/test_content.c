/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_content.c - libstubcore/content.c: SEEK in a stub, reading what cannot be stored */
#include "front.h"

#define BLOCK 65536
#define SIZE  (8 * BLOCK)
#define LOCAL 'l' /* bytes that are here, and those of the old server (front.c) */

static struct stub_front list_file(struct front_server *s, struct fixture *x)
{
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, SIZE);

	fixture_list(x, &e, 1);
	front_server_init(s, x);
	return front_of(s, x, "file");
}

/* A client has written [from, to). */
static void write_blocks(struct stub_front *f, struct fixture *x, int from, int to)
{
	static char bytes[SIZE];
	int fd = fixture_open(x, "file", O_RDWR);
	struct stub_wait w = { 0 };
	struct stub_bracket b;
	uint64_t at = (uint64_t)from * BLOCK, len = (uint64_t)(to - from) * BLOCK;

	memset(bytes, LOCAL, sizeof(bytes));
	assert_int_equal(stub_bracket_range(f, &w, at, len, &b), 0);
	assert_int_equal(stub_io_pwrite(fd, bytes, len, at), 0);
	assert_int_equal(stub_bracket_range_end(&b, f, 0, at, len), 0);
	close(fd);
}

/* A client has punched it. */
static void punch_blocks(struct stub_front *f, struct fixture *x, int from, int to)
{
	int fd = fixture_open(x, "file", O_RDWR);
	struct stub_wait w = { 0 };
	struct stub_bracket b;
	uint64_t at = (uint64_t)from * BLOCK, len = (uint64_t)(to - from) * BLOCK;

	assert_int_equal(stub_bracket_range(f, &w, at, len, &b), 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
				   (off_t)len), 0);
	assert_int_equal(stub_bracket_range_end(&b, f, 0, at, len), 0);
	close(fd);
}

/* ---- stub_front_seek ---- */

static int seek_file(void *arg, bool data, uint64_t at, uint64_t size, uint64_t *found)
{
	off_t n = lseek(*(int *)arg, (off_t)at, data ? SEEK_DATA : SEEK_HOLE);

	if (n < 0 && errno != ENXIO)
		return -errno;
	*found = n < 0 ? size : (uint64_t)n;
	return 0;
}

static int seek(struct stub_front *f, struct fixture *x, bool data, uint64_t at)
{
	int r, fd = fixture_open(x, "file", O_RDONLY);
	uint64_t found;

	r = stub_front_seek(f, data, at, SIZE, seek_file, &fd, &found);
	close(fd);
	assert_int_equal(r, 0);
	return found % BLOCK ? -1 : (int)(found / BLOCK);
}

static void test_what_is_missing_is_data(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	struct stub_front f = list_file(&s, x);

	assert_int_equal(seek(&f, x, true, 0), 0); /* locally all of it is a hole */
	assert_int_equal(seek(&f, x, false, 0), 8);
	write_blocks(&f, x, 2, 3);
	punch_blocks(&f, x, 4, 6);
	assert_int_equal(seek(&f, x, false, 0), 4);
	assert_int_equal(seek(&f, x, true, 2 * BLOCK), 2);
	assert_int_equal(seek(&f, x, true, 4 * BLOCK), 6);
	assert_int_equal(seek(&f, x, false, 6 * BLOCK), 8);
	punch_blocks(&f, x, 6, 8);
	assert_int_equal(seek(&f, x, true, 5 * BLOCK), 8); /* no more */
	assert_int_equal(seek(&f, x, false, 7 * BLOCK), 7);
}

static int seek_fails(void *arg, bool data, uint64_t at, uint64_t size, uint64_t *found)
{
	return -EDOM;
}

static void test_what_the_file_says_is_kept(void **state)
{
	struct fixture *x = *state;
	struct front_server s;
	struct stub_front f = list_file(&s, x);
	uint64_t found;

	assert_int_equal(stub_front_seek(&f, true, 0, SIZE, seek_fails, NULL, &found), -EDOM);
	assert_int_equal(stub_front_seek(&f, false, 0, SIZE, seek_fails, NULL, &found), -EDOM);
}

/* ---- stub_front_pass ---- */

struct local {
	struct fixture *x;
	struct iovec iov[3];
	uint64_t offset;
	unsigned int reads;
	void (*before)(struct local *l); /* what comes between asking and reading */
};

static ssize_t read_file(void *arg)
{
	struct local *l = arg;
	int fd = fixture_open(l->x, "file", O_RDONLY);
	ssize_t n = preadv(fd, l->iov, 3, (off_t)l->offset);

	l->reads++;
	close(fd);
	return n < 0 ? -errno : n;
}

static int answer(void *arg, const struct stub_request *r)
{
	struct local *l = arg;

	if (l->before)
		l->before(l);
	return r->ask.kind == STUB_ASK_PASS ? 0 : -ENOSPC;
}

/* Read the file from @offset, in parts of odd sizes: how many bytes. */
static ssize_t pass(struct stub_front *f, struct local *l, char *buf, size_t len, uint64_t offset)
{
	struct stub_passing p = { .iov = l->iov, .n_iov = 3, .offset = offset, .read = read_file,
				  .arg = l };
	struct front_retriever t;
	struct stub_wait w = { 0 };
	ssize_t n;

	memset(buf, '?', len);
	l->iov[0] = (struct iovec){ buf, 1 };
	l->iov[1] = (struct iovec){ buf + 1, len / 2 };
	l->iov[2] = (struct iovec){ buf + 1 + len / 2, len - 1 - len / 2 };
	l->offset = offset;
	front_retriever_start(&t, l->x, answer, l);
	n = stub_front_pass(f, &w, &p);
	front_retriever_stop(&t);
	return n;
}

static bool all(const char *buf, size_t from, size_t to, char c)
{
	for (size_t i = from; i < to; i++)
		if (buf[i] != c)
			return false;
	return true;
}

static void test_laid_over_what_is_missing(void **state)
{
	static char buf[SIZE + 1000];
	struct fixture *x = *state;
	struct local l = { .x = x };
	struct front_server s;
	struct stub_front f = list_file(&s, x);
	struct stub_range missing;

	write_blocks(&f, x, 2, 3);
	punch_blocks(&f, x, 4, 5);
	assert_int_equal(pass(&f, &l, buf, sizeof(buf), 0), SIZE);
	assert_true(all(buf, 0, 2 * BLOCK, FRONT_PASSED));
	assert_true(all(buf, 2 * BLOCK, 3 * BLOCK, LOCAL));
	assert_true(all(buf, 3 * BLOCK, 4 * BLOCK, FRONT_PASSED));
	assert_true(all(buf, 4 * BLOCK, 5 * BLOCK, '\0'));
	assert_true(all(buf, 5 * BLOCK, SIZE, FRONT_PASSED));
	assert_int_equal(pass(&f, &l, buf, 10, SIZE), 0);
	assert_int_equal(pass(&f, &l, buf, 100, 3 * BLOCK - 50), 100);
	assert_true(all(buf, 0, 50, LOCAL) && all(buf, 50, 100, FRONT_PASSED));
	/* nothing of it was stored */
	assert_int_equal(stub_front_missing(&f, 0, SIZE, &missing), 1);
	assert_int_equal(missing.start, 0);
	assert_int_equal(missing.end, 2 * BLOCK);
}

static void write_between(struct local *l)
{
	struct stub_gate g = { .ops = &(struct stub_gate_ops){ .enter = NULL }, .volume = l->x->v };
	struct stub_front f = { .gate = &g, .maybe = true, .h = fixture_handle(l->x, "file") };

	write_blocks(&f, l->x, 1, 2);
	l->before = NULL;
}

/* What a client writes while the bytes are on their way counts. */
static void test_a_write_meanwhile(void **state)
{
	static char buf[SIZE];
	struct fixture *x = *state;
	struct local l = { .x = x, .before = write_between };
	struct front_server s;
	struct stub_front f = list_file(&s, x);

	assert_int_equal(pass(&f, &l, buf, 3 * BLOCK, 0), 3 * BLOCK);
	assert_true(all(buf, 0, BLOCK, FRONT_PASSED));
	assert_true(all(buf, BLOCK, 2 * BLOCK, LOCAL));
	assert_true(all(buf, 2 * BLOCK, 3 * BLOCK, FRONT_PASSED));
}

static void lose_between(struct local *l)
{
	assert_int_equal(stub_volume_new_era(l->x->v), 0); /* the write is missing again */
	l->before = NULL;
}

static void test_a_new_era_meanwhile(void **state)
{
	static char buf[SIZE];
	struct fixture *x = *state;
	struct local l = { .x = x, .before = lose_between };
	struct front_server s;
	struct stub_front f = list_file(&s, x);

	write_blocks(&f, x, 1, 2);
	assert_int_equal(pass(&f, &l, buf, 3 * BLOCK, 0), 3 * BLOCK);
	assert_true(all(buf, 0, 3 * BLOCK, FRONT_PASSED));
	assert_int_equal(l.reads, 2);
}

static void lose_each_time(struct local *l)
{
	assert_int_equal(stub_volume_new_era(l->x->v), 0);
}

static void test_it_ends(void **state)
{
	static char buf[SIZE];
	struct fixture *x = *state;
	struct local l = { .x = x, .before = lose_each_time };
	struct front_server s;
	struct stub_front f = list_file(&s, x);

	assert_int_equal(pass(&f, &l, buf, SIZE, 0), -EAGAIN);
	assert_true(l.reads > 1 && l.reads < 100);
}

static void test_longer_than_one_memory_file(void **state)
{
	static char buf[2 * STUB_PASS_MAX];
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, 4 * STUB_PASS_MAX);
	struct local l = { .x = x };
	struct front_server s;
	struct stub_front f;

	fixture_list(x, &e, 1);
	front_server_init(&s, x);
	f = front_of(&s, x, "file");
	assert_int_equal(pass(&f, &l, buf, sizeof(buf), 10), STUB_PASS_MAX);
	assert_true(all(buf, 0, STUB_PASS_MAX, FRONT_PASSED));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_missing_is_data),
		TEST(test_what_the_file_says_is_kept),
		TEST(test_laid_over_what_is_missing),
		TEST(test_a_write_meanwhile),
		TEST(test_a_new_era_meanwhile),
		TEST(test_it_ends),
		TEST(test_longer_than_one_memory_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
