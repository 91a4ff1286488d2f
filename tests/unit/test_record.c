/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_record.c - libstubcore/record.c: what is written is read, nothing else is believed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "internal.h"

static struct stub_record sample(void)
{
	struct stub_record r;

	memset(&r, 0, sizeof(r));
	r.flags = STUB_FLAG_LINKS | STUB_FLAG_LINK_KEY;
	r.link_key = UINT64_MAX - 2;
	r.source_id = 7;
	r.depth = 300;
	r.ino = 0x123456789abcdef0u;
	r.handle_sum = 0xdeadbeef;
	r.boot = 42;
	r.origin.len = 64; /* the longest NFS file handle */
	memset(r.origin.bytes, 0xa5, STUB_ORIGIN_MAX);
	r.size = 1ull << 40;
	r.src_mtime = (struct timespec){ 1700000000, 999999999 };
	r.src_ctime = (struct timespec){ -5, 1 };
	r.mtime = r.src_mtime;
	r.ctime = r.src_ctime;
	r.fsid = UINT64_MAX;
	r.fileid = UINT64_MAX - 1;
	r.nlink = 3;
	r.nlink_shown = 2;
	stub_map_init(&r.now, r.size);
	stub_map_copy(&r.durable, &r.now);
	return r;
}

static void assert_same(const struct stub_record *a, const struct stub_record *b)
{
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->source_id, b->source_id);
	assert_int_equal(a->depth, b->depth);
	assert_int_equal(a->ino, b->ino);
	assert_int_equal(a->handle_sum, b->handle_sum);
	assert_int_equal(a->boot, b->boot);
	assert_int_equal(a->origin.len, b->origin.len);
	assert_memory_equal(a->origin.bytes, b->origin.bytes, a->origin.len);
	assert_int_equal(a->size, b->size);
	assert_int_equal(stub_time_cmp(a->src_mtime, b->src_mtime), 0);
	assert_int_equal(stub_time_cmp(a->src_ctime, b->src_ctime), 0);
	assert_int_equal(stub_time_cmp(a->mtime, b->mtime), 0);
	assert_int_equal(stub_time_cmp(a->ctime, b->ctime), 0);
	assert_int_equal(a->fsid, b->fsid);
	assert_int_equal(a->fileid, b->fileid);
	if (a->flags & STUB_FLAG_LINK_KEY)
		assert_int_equal(a->link_key, b->link_key);
	assert_int_equal(a->nlink, b->nlink);
	assert_int_equal(a->nlink_shown, b->nlink_shown);
	assert_int_equal(a->now.n, b->now.n);
	assert_memory_equal(a->now.r, b->now.r, a->now.n * sizeof(a->now.r[0]));
	assert_int_equal(a->durable.n, b->durable.n);
	assert_memory_equal(a->durable.r, b->durable.r, a->durable.n * sizeof(a->durable.r[0]));
	assert_int_equal(a->refused.len, b->refused.len);
	assert_memory_equal(a->refused.names, b->refused.names, a->refused.len);
}

/* ---- encode, decode ---- */

/* A length below 128 is one byte, as in the records of before. */
static void test_origin_lengths(void **state)
{
	static const unsigned int lengths[] = { 0, 1, 64, 127, 128, 129, STUB_ORIGIN_MAX };
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];
	int n, before = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		r.origin.len = (uint16_t)lengths[i];
		n = stub_record_encode(&r, buf, sizeof(buf));
		assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
		assert_same(&r, &back);
		if (i)
			assert_int_equal(n - before, lengths[i] - lengths[i - 1] +
							     (lengths[i] == 128));
		before = n;
	}
}

/* Room is no part of what it says, and fits what an operation may add. */
static void test_room(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX], big[STUB_RECORD_MAX];
	int n, roomy;

	r.origin.len = 28;
	r.fileid = 77;
	n = stub_record_encode(&r, buf, sizeof(buf));
	roomy = stub_record_encode_roomy(&r, big, sizeof(big));
	assert_true(roomy > n && roomy <= STUB_RECORD_INLINE);
	assert_int_equal(stub_record_decode(big, (size_t)roomy, &back), 0);
	assert_same(&r, &back);
	assert_int_equal(stub_map_subtract(&back.now, 1ull << 35, (1ull << 36) - 1), 0);
	back.mtime = (struct timespec){ 1ll << 33, 999999999 };
	back.ctime = (struct timespec){ 1ll << 33, 999999998 };
	back.nlink_shown++;
	assert_true(stub_record_encode(&back, buf, sizeof(buf)) <= roomy);
	/* anything but zeros in there is damage */
	big[roomy - 5] = 1;
	assert_int_equal(stub_record_decode(big, (size_t)roomy, &back), -EBADMSG);
	/* a record at its limit has no room, and one that is too large none either */
	r.now.n = 0;
	for (uint32_t i = 0; stub_record_encode(&r, buf, sizeof(buf)) > 0 && i < STUB_MAP_MAX; i++)
		r.now.r[r.now.n++] = (struct stub_range){ i * 4000000000000ull,
							  i * 4000000000000ull + 2000000000000ull };
	n = stub_record_encode(&r, buf, sizeof(buf));
	roomy = stub_record_encode_roomy(&r, big, sizeof(big));
	assert_true(n < 0 ? roomy == n : roomy >= n);
}

/* What STUB_ASK_ROOM leaves of a file of 16 TiB fits beside the longest path. */
static void test_room_beside_a_long_origin(void **state)
{
	struct stub_record r = sample();

	(void)state;
	r.origin.len = STUB_ORIGIN_MAX;
	r.size = 1ull << 44;
	for (uint32_t i = 0; i < STUB_MAP_ROOM; i++)
		r.now.r[i] = (struct stub_range){ (uint64_t)i << 37,
						  ((uint64_t)i << 37) + (1ull << 36) };
	r.now.n = STUB_MAP_ROOM;
	assert_true(stub_record_fits(&r, &r.now));
}

static void test_round_trip(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];
	int n = stub_record_encode(&r, buf, sizeof(buf));

	assert_in_range(n, 1, STUB_RECORD_INLINE); /* even with the longest NFS handle */
	assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
	assert_same(&r, &back);

	r.mtime.tv_sec++;
	r.ctime.tv_nsec++;
	for (uint64_t i = 1; i < 50; i++)
		assert_int_equal(stub_map_subtract(&r.now, i << 20, (i << 20) + 4096), 0);
	n = stub_record_encode(&r, buf, sizeof(buf));
	assert_true(n > 0);
	assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
	assert_same(&r, &back);
}

/* A directory has no maps: the longest list of refused names fits beside all else. */
static void test_refused_names(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];
	int n;

	r.flags = STUB_FLAG_REFUSED;
	r.size = 0;
	r.now.n = r.durable.n = 0;
	r.mtime.tv_sec--;
	r.ctime.tv_sec--;
	memcpy(r.refused.names, "\3abc\1d", 6);
	r.refused.len = 6;
	n = stub_record_encode(&r, buf, sizeof(buf));
	assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
	assert_same(&r, &back);
	memset(r.refused.names, 9, sizeof(r.refused.names));
	r.refused.len = sizeof(r.refused.names);
	n = stub_record_encode(&r, buf, sizeof(buf));
	assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
	assert_same(&r, &back);
}

static void test_budget(void **state)
{
	struct stub_record r = sample();
	uint8_t buf[STUB_RECORD_MAX];

	for (uint64_t i = 1; r.now.n < STUB_MAP_MAX; i++)
		assert_int_equal(stub_map_subtract(&r.now, i << 24, (i << 24) + (1 << 20)), 0);
	stub_map_copy(&r.durable, &r.now);
	assert_true(stub_record_encode(&r, buf, sizeof(buf)) > 0);
	assert_true(stub_record_fits(&r, &r.now));
	for (uint32_t i = 0; i < r.now.n; i++) /* as long as the boot did not change */
		r.now.r[i].end--;
	assert_int_equal(stub_record_encode(&r, buf, sizeof(buf)), -E2BIG);
	assert_true(stub_record_fits(&r, &r.now)); /* once it is durable */
	for (uint32_t i = 1; i < r.now.n; i++) /* the longest numbers */
		r.now.r[i] = (struct stub_range){ (uint64_t)i << 54, ((uint64_t)i << 54) + (1ull << 53) };
	assert_false(stub_record_fits(&r, &r.now));
	r.now.n = 1;
	assert_true(stub_record_fits(&r, &r.now));
}

/* The second map is kept as what it has beyond the first: a full record has place for it. */
static void test_durable_beyond_now(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];
	int n;

	for (uint64_t i = 1; r.durable.n < STUB_MAP_MAX; i++)
		assert_int_equal(stub_map_subtract(&r.durable, i << 21, (i << 21) + 4096), 0);
	stub_map_copy(&r.now, &r.durable);
	assert_int_equal(stub_map_subtract(&r.now, 5, 10), -ENOSPC);
	assert_int_equal(stub_map_subtract(&r.now, 0, 10), 0);
	for (uint64_t i = 1; i < 60; i++) /* an end, a start, a whole range */
		assert_int_equal(stub_map_subtract(&r.now, (i << 21) - (i % 3 == 0 ? 1 << 22 : 9),
						   (i << 21) + (i % 3 == 1 ? 5000 : 0)), 0);
	n = stub_record_encode(&r, buf, sizeof(buf));
	assert_true(n > 0);
	assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
	assert_same(&r, &back);

	r.now.r[0].end = r.now.r[1].end; /* no part of the durable one: both are written */
	memmove(&r.now.r[1], &r.now.r[2], (r.now.n - 2) * sizeof(r.now.r[0]));
	r.now.n = r.durable.n = 100;
	n = stub_record_encode(&r, buf, sizeof(buf));
	assert_true(n > 0);
	assert_int_equal(stub_record_decode(buf, (size_t)n, &back), 0);
	assert_same(&r, &back);
}

/* ---- hostile bytes ---- */

static void test_every_truncation_is_refused(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];
	int n = stub_record_encode(&r, buf, sizeof(buf));

	for (int i = 0; i < n; i++)
		assert_int_equal(stub_record_decode(buf, (size_t)i, &back), -EBADMSG);
}

static void test_every_changed_bit_is_refused(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];
	int n = stub_record_encode(&r, buf, sizeof(buf));

	for (int i = 0; i < n * 8; i++) {
		buf[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(stub_record_decode(buf, (size_t)n, &back), -EBADMSG);
		buf[i / 8] ^= (uint8_t)(1 << i % 8);
	}
}

static void test_trailing_bytes_are_refused(void **state)
{
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX] = { 0 };
	int n = stub_record_encode(&r, buf, sizeof(buf));

	assert_int_equal(stub_record_decode(buf, (size_t)n + 1, &back), -EBADMSG);
}

static void test_hostile_refused_names(void **state)
{
	static const struct {
		const char *names;
		uint16_t len;
	} bad[] = { { "", 0 },	     { "\0", 1 },	  { "\1", 1 },	   { "\4abc", 4 },
		    { "\3a/b", 4 },  { "\2..", 3 },  { "\1.", 2 }, { "\3a\0b", 4 },
		    { "\1a\2b", 4 }, { "\1a\0", 3 }, { "\377a", 2 } };
	struct stub_record r = sample(), back;
	uint8_t buf[STUB_RECORD_MAX];

	r.flags = STUB_FLAG_REFUSED;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int n;

		memcpy(r.refused.names, bad[i].names, bad[i].len);
		r.refused.len = bad[i].len;
		n = stub_record_encode(&r, buf, sizeof(buf));
		assert_int_equal(stub_record_decode(buf, (size_t)n, &back), -EBADMSG);
	}
}

/* ---- needs ---- */

static void test_needs(void **state)
{
	struct stub_record r;

	memset(&r, 0, sizeof(r));
	assert_int_equal(stub_record_needs(&r), STUB_NEEDS_FINISH);
	r.flags = STUB_FLAG_UNLISTED | STUB_FLAG_LOOKUPS;
	assert_int_equal(stub_record_needs(&r), STUB_NEEDS_ENTRIES);
	r.flags = STUB_FLAG_REFUSED;
	assert_int_equal(stub_record_needs(&r), STUB_NEEDS_REFUSED);
	r.flags = STUB_FLAG_DUMMY | STUB_FLAG_LINKS;
	stub_map_init(&r.now, 1);
	assert_int_equal(stub_record_needs(&r),
			 STUB_NEEDS_ATTRS | STUB_NEEDS_NAMES | STUB_NEEDS_DATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_origin_lengths),
		cmocka_unit_test(test_room_beside_a_long_origin),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_refused_names),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_durable_beyond_now),
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_every_changed_bit_is_refused),
		cmocka_unit_test(test_trailing_bytes_are_refused),
		cmocka_unit_test(test_hostile_refused_names),
		cmocka_unit_test(test_needs),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
