// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A rehearsal of trees that no real server here has: this source makes them up.  What a real one
 * gives is tests/conformance's.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rehearse/rehearse_inside.h"

#define MIB   (1u << 20)
#define BLOCK (64u * 1024)

/* ---- the source: an origin is a number ---- */

enum { ROOT, ENDLESS, STUCK, BROKEN, DIRS }; /* directories; others are ENDLESS, too */

struct source {
	const struct {
		uint64_t id; /* of a directory */
		bool is_dir;
		uint64_t size;
		unsigned int nlink;
		int error;
	} *root; /* what is in the root */
	size_t n;
	int read_error; /* of every read */
	bool raise; /* a signal, when something is read */
	atomic_bool stop;
	atomic_ulong reads, deepest; /* deepest: last byte that was asked for */
	atomic_size_t peak; /* bytes of memory */
};

static uint64_t id_of(const struct stub_origin *o)
{
	uint64_t id;

	memcpy(&id, o->bytes, sizeof(id));
	return id;
}

int source_root(struct source *s, struct stub_origin *out, struct stub_attr *attr)
{
	uint64_t id = s->root ? ROOT : ENDLESS;

	*attr = (struct stub_attr){ .mode = S_IFDIR | 0755, .nlink = 2 };
	out->len = sizeof(id);
	memcpy(out->bytes, &id, sizeof(id));
	return 0;
}

int source_limits(struct source *s, struct source_limits *out)
{
	*out = (struct source_limits){ BLOCK, BLOCK, INT64_MAX, 0 };
	return 0;
}

void source_state(struct source *s, struct source_state *out)
{
	*out = (struct source_state){ .connected = true, .calls = s->reads };
}

void source_stop(struct source *s)
{
	s->stop = true;
}

bool source_has_meta(const struct source *s, const struct stub_attr *a)
{
	return false;
}

int source_meta(struct source *s, enum source_priority p, const struct stub_origin *o,
		struct source_meta *out)
{
	return -EIO; /* it was said that there is none */
}

void source_meta_free(struct source_meta *m)
{
}

static int tell(source_entries_fn fn, void *arg, uint64_t id, unsigned int nlink, mode_t mode,
		uint64_t size, int error)
{
	struct stub_entry e = { .name = "name", .name_len = 4, .origin = (const uint8_t *)&id,
				.origin_len = sizeof(id), .error = error,
				.attr = { .mode = mode, .nlink = nlink, .size = size } };

	return fn(arg, &e, 1);
}

/* 30 directories, each with as much in it, and files. */
static int list_endless(struct source *s, source_entries_fn fn, void *arg)
{
	struct mallinfo2 m = mallinfo2();
	size_t had = s->peak, now = m.uordblks + m.hblkhd;
	int r = 0;

	while (now > had && !atomic_compare_exchange_weak(&s->peak, &had, now))
		;
	for (unsigned int i = 0; i < 30 && r == 0; i++)
		r = tell(fn, arg, DIRS + i, 2, S_IFDIR | 0755, 4096, 0);
	for (unsigned int i = 0; i < 100 && r == 0; i++)
		r = tell(fn, arg, 1000 + i, 1, S_IFREG | 0644, 100, 0);
	return r;
}

int source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
		const struct source_id *as, source_entries_fn fn, void *arg)
{
	uint64_t id = id_of(dir);
	int r = 0;

	if (s->stop)
		return -ECANCELED;
	while (id == STUCK && !s->stop)
		usleep(1000);
	if (id == STUCK || id == BROKEN)
		return id == STUCK ? -ECANCELED : -EIO;
	if (id != ROOT)
		return list_endless(s, fn, arg);
	for (size_t i = 0; i < s->n && r == 0; i++)
		r = tell(fn, arg, s->root[i].id, s->root[i].nlink,
			 s->root[i].is_dir ? S_IFDIR | 0755 : S_IFREG | 0644, s->root[i].size,
			 s->root[i].error);
	return r;
}

int source_read(struct source *s, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	static char data[BLOCK];
	struct source_read r = { .result = s->read_error ? s->read_error : (int64_t)length,
				 .data = data };
	unsigned long had = s->deepest;

	if (s->stop)
		return -ECANCELED;
	while (offset + length > had &&
	       !atomic_compare_exchange_weak(&s->deepest, &had, offset + length))
		;
	if (s->raise)
		raise(SIGTERM);
	s->reads++;
	fn(arg, &r);
	return 0;
}

/* ---- */

static int dir = -1; /* where it writes */

static struct rehearse *run(struct source *s, uint64_t ms, int expected)
{
	static struct rehearse r;

	memset(&r, 0, sizeof(r));
	r.ms = ms;
	r.workers = 32;
	r.buffer = MIB;
	r.dir = dir;
	assert_int_equal(rehearse(&r, s), expected);
	return &r;
}

#define ENTRIES(...) .root = __VA_ARGS__, .n = sizeof(__VA_ARGS__) / sizeof((__VA_ARGS__)[0])

static void test_small_tree(void **state)
{
	struct source s = { ENTRIES((typeof(*s.root)[]){
		{ .id = 1000, .size = 10 }, { .id = 1001, .size = 3 * BLOCK + 1, .nlink = 1 },
		{ .id = 1002, .size = 0 }, { .id = 1003, .size = 2 * MIB },
		{ .id = 1004, .size = 1000, .nlink = 2 }, { .id = 1004, .size = 1000, .nlink = 2 },
		{ .error = -EIO } }) };
	struct rehearse *r = run(&s, 60000, 0);

	assert_true(r->complete);
	assert_false(r->stopped);
	assert_true(r->found == 6 && r->now.found == 6);
	assert_true(r->found_bytes == 10 + 3 * BLOCK + 1 + 2 * MIB + 1000);
	assert_true(r->small == 3 && r->large == 1);
	assert_int_equal(r->bad_names, 1);
	assert_int_equal(r->directories, 1);
	assert_int_equal(r->listed, 1);
	assert_true(r->now.done == 5); /* both names were read */
	assert_true(r->now.done_bytes == 10 + 3 * BLOCK + 1 + 2 * MIB + 2 * 1000);
	assert_true(r->tree.at[0].listed == 1 && r->tree.at[0].files == 5);
	assert_true(r->samples >= 1);
	assert_int_equal(r->dropped, 0);
}

static void test_a_part_of_a_huge_file(void **state)
{
	struct source s = { ENTRIES((typeof(*s.root)[]){ { .id = 1000, .size = 1ull << 50 } }) };
	struct rehearse *r = run(&s, 60000, 0);

	assert_true(r->complete);
	assert_int_equal(s.deepest, TASK_READ_MOST);
	assert_true(r->now.done == 1 && r->now.done_bytes == TASK_READ_MOST);
	assert_true(r->found_bytes == (double)(1ull << 50));
}

static void test_endless(void **state)
{
	struct source s = { 0 };
	struct rehearse *r = run(&s, 1500, 0);

	assert_false(r->complete);
	assert_true(r->listed > 30);
	for (unsigned int i = 0; i < 4; i++) /* of all depths */
		assert_true(r->tree.at[i].listed);
	assert_true(r->tree.at[2].listed < 30 * 30 || r->tree.at[3].listed);
	assert_true(s.peak < 160u * MIB);
	assert_true(r->directories >= r->listed);
}

static void test_a_listing_that_takes_for_ever(void **state)
{
	struct source s = { ENTRIES((typeof(*s.root)[]){
		{ .id = STUCK, .is_dir = true }, { .id = BROKEN, .is_dir = true },
		{ .id = 1000, .size = 10 } }) };
	struct rehearse *r = run(&s, 5000, 0);

	assert_true(r->now.done == 1); /* others are read meanwhile */
	assert_int_equal(r->unlistable, 1);
	assert_int_equal(r->listed, 1);
	assert_false(r->complete);
}

static void test_errors(void **state)
{
	struct source s = { ENTRIES((typeof(*s.root)[]){ { .id = 1000, .size = 10 },
							 { .id = 1001, .size = 2 * MIB } }),
			    .read_error = -EACCES };
	struct rehearse *r = run(&s, 60000, 0);

	assert_true(r->complete);
	assert_int_equal(r->unreadable, 2);
	assert_int_equal(r->denied, 2);
	assert_true(r->now.done == 0);

	s.stop = false;
	s.read_error = -ETIMEDOUT; /* the source's, not the file's */
	r = run(&s, 60000, -ETIMEDOUT);
	assert_false(r->complete);
	assert_true(r->found == 3);
}

static void test_signal(void **state)
{
	struct source s = { .raise = true };
	struct rehearse *r = run(&s, 60000, 0);

	assert_true(r->stopped);
	assert_true(r->took_ms < 60000);
}

/* Files without a name, as long as it takes. */
static void test_written(void **state)
{
	struct source s = { ENTRIES((typeof(*s.root)[]){ { .id = 1000, .size = 3 * BLOCK + 1 },
							 { .id = 1001, .size = 40 * MIB } }) };
	struct rehearse *r;

	dir = open(P_tmpdir, O_RDONLY | O_DIRECTORY);
	assert_true(dir >= 0);
	r = run(&s, 60000, 0);
	close(dir);
	assert_true(r->complete);
	assert_int_equal(r->here, 0);
	assert_true(r->now.done_bytes == 3 * BLOCK + 1 + 40 * MIB);
	assert_true(r->phase[REHEARSE_LARGES].here_us > 0);
	assert_true(r->phase[REHEARSE_LARGES].here_us <= r->phase[REHEARSE_LARGES].busy_us);
	assert_true(r->phase[REHEARSE_LARGES_AGAIN].here_us == 0);

	s.stop = false;
	dir = open("/proc", O_RDONLY | O_DIRECTORY);
	r = run(&s, 60000, -EIO);
	close(dir);
	dir = -1;
	assert_true(r->here < 0);
}

static void test_pool(void **state)
{
	uint64_t random = 42, dropped = 0;
	size_t bytes = 0;
	struct pool p = { .bytes = &bytes, .most = 20000 };
	struct thing *t;
	double sum = 0;
	size_t n = 0;

	assert_null(pool_take(&p, &random));
	for (uint64_t i = 0; i < 10000; i++) {
		struct stub_entry e = { .origin = (const uint8_t *)&i, .origin_len = sizeof(i),
					.attr.size = i };

		dropped += pool_add(&p, thing_create(&e, 1, false), &random);
		assert_true(bytes < 20000 + sizeof(*t) + 64);
	}
	while ((t = pool_take(&p, &random))) {
		sum += (double)t->size;
		n++;
		thing_destroy(t);
	}
	assert_int_equal(n + dropped, 10000);
	assert_true(n > 100);
	/* the late ones have the same chance: half of 10000 on average, and n is more than 100 */
	assert_true(sum / (double)n > 4000 && sum / (double)n < 6000);
	assert_int_equal(bytes, 0);
	pool_finish(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_tree),
		cmocka_unit_test(test_a_part_of_a_huge_file),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_a_listing_that_takes_for_ever),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
