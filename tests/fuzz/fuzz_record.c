/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_record.c - the stub record as found on an inode.
 *
 * The bytes are decoded as they are, and once more with a right checksum, which
 * no fuzzer finds by itself.  A record that is taken must be one that can be
 * written again: not longer, and the same when read back.  Its maps must be sound,
 * and stay so under what is done to them.
 */
#include "fuzz.h"
#include "internal.h"

static void check_map(const struct stub_map *m, uint64_t size)
{
	CHECK(m->n <= STUB_MAP_MAX);
	for (uint32_t i = 0; i < m->n; i++) {
		CHECK(m->r[i].start < m->r[i].end);
		CHECK(m->r[i].end <= size);
		CHECK(i == 0 || m->r[i - 1].end < m->r[i].start);
	}
}

static void check_time(struct timespec t)
{
	CHECK(t.tv_nsec >= 0 && t.tv_nsec <= 999999999);
}

static bool map_same(const struct stub_map *a, const struct stub_map *b)
{
	return a->n == b->n && !memcmp(a->r, b->r, a->n * sizeof(a->r[0]));
}

static void check_same(const struct stub_record *a, const struct stub_record *b)
{
	CHECK(a->flags == b->flags && a->source_id == b->source_id && a->depth == b->depth);
	CHECK(a->ino == b->ino && a->handle_sum == b->handle_sum && a->boot == b->boot);
	CHECK(a->origin.len == b->origin.len);
	CHECK(!memcmp(a->origin.bytes, b->origin.bytes, a->origin.len));
	CHECK(a->size == b->size && a->fsid == b->fsid && a->fileid == b->fileid);
	CHECK(a->nlink == b->nlink && a->nlink_shown == b->nlink_shown);
	CHECK(!stub_time_cmp(a->src_mtime, b->src_mtime));
	CHECK(!stub_time_cmp(a->src_ctime, b->src_ctime));
	CHECK(!stub_time_cmp(a->mtime, b->mtime) && !stub_time_cmp(a->ctime, b->ctime));
	CHECK(map_same(&a->now, &b->now) && map_same(&a->durable, &b->durable));
	CHECK(a->refused.len == b->refused.len);
	CHECK(!memcmp(a->refused.names, b->refused.names, a->refused.len));
}

/* As a write, a truncate and a power cut do, at places that the record itself has. */
static void change(struct stub_record *r)
{
	struct stub_map before, smallest;

	stub_map_copy(&before, &r->now);
	stub_map_smallest(&r->now, r->now.n, 0, &smallest);
	if (smallest.n) {
		struct stub_range first = smallest.r[0];
		uint64_t third = (first.end - first.start) / 3;
		int e = stub_map_subtract(&r->now, first.start + third, first.end - third);

		CHECK(e == 0 || (e == -ENOSPC && map_same(&r->now, &before)));
		CHECK(e || !stub_map_overlaps(&r->now, first.start + third, first.end - third));
	}
	check_map(&r->now, r->size);
	stub_map_copy(&before, &r->now);
	if (stub_map_intersect(&r->now, &r->durable) == 0) {
		CHECK(stub_map_bytes(&r->now) <= stub_map_bytes(&before));
		CHECK(stub_map_bytes(&r->now) <= stub_map_bytes(&r->durable));
	}
	check_map(&r->now, r->size);
	stub_map_clip(&r->now, r->size / 2);
	check_map(&r->now, r->size / 2);
}

static void try_record(const uint8_t *data, size_t size)
{
	struct stub_record r, back;
	uint8_t buf[STUB_RECORD_MAX];
	unsigned int needs;
	int n;

	n = stub_record_decode(data, size, &r);
	if (n < 0) {
		CHECK(n == -EBADMSG);
		return;
	}
	CHECK(size <= STUB_RECORD_MAX && r.depth <= STUB_DEPTH_MAX);
	CHECK(r.origin.len <= STUB_ORIGIN_MAX && r.size <= INT64_MAX);
	check_time(r.src_mtime);
	check_time(r.src_ctime);
	check_time(r.mtime);
	check_time(r.ctime);
	check_map(&r.now, r.size);
	check_map(&r.durable, r.size);
	needs = stub_record_needs(&r);
	CHECK(needs != 0 && !!(needs & STUB_NEEDS_DATA) == !stub_map_empty(&r.now));
	n = stub_record_encode(&r, buf, sizeof(buf));
	CHECK(n > 0 && (size_t)n <= size);
	CHECK((size_t)n > STUB_RECORD_MAX - 64 || stub_record_fits(&r, &r.now));
	CHECK(stub_record_encode(&r, buf, (size_t)n - 1) == -E2BIG);
	CHECK(stub_record_encode(&r, buf, (size_t)n) == n);
	CHECK(stub_record_decode(buf, (size_t)n, &back) == 0);
	check_same(&r, &back);
	change(&back);
	n = stub_record_encode(&back, buf, sizeof(buf));
	CHECK(n == -E2BIG || stub_record_decode(buf, (size_t)n, &r) == 0);
	if (n > 0)
		check_same(&r, &back);
}

static void put_checksum(uint8_t *p, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	h ^= h >> 32;
	for (int i = 0; i < 4; i++)
		p[len + (size_t)i] = (uint8_t)(h >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *sound;

	try_record(data, size);
	if (size > STUB_RECORD_MAX)
		return 0;
	sound = malloc(size + 4);
	CHECK(sound);
	memcpy(sound, data, size);
	put_checksum(sound, size);
	try_record(sound, size + 4);
	free(sound);
	return 0;
}
