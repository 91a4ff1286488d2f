/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_map.c - sequences of operations on a missing map, against a model of one
 * byte per cell.  A cell is 1 byte or 2^53 bytes of the file, so that sums come
 * close to the largest file too.
 */
#include "fuzz.h"
#include "internal.h"

#define CELLS 1024 /* more than STUB_MAP_MAX ranges fit */

struct model {
	uint64_t unit;
	bool missing[CELLS];
};

static uint32_t count_ranges(const struct model *m)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < CELLS; i++)
		n += m->missing[i] && (i == 0 || !m->missing[i - 1]);
	return n;
}

/* Sound, and the same bytes as the model: one walk over both. */
static void compare(const struct stub_map *map, const struct model *m)
{
	uint64_t bytes = 0;
	unsigned int cell = 0;

	for (uint32_t i = 0; i < map->n; i++) {
		while (cell < CELLS && !m->missing[cell])
			cell++;
		CHECK(cell < CELLS && map->r[i].start == cell * m->unit);
		while (cell < CELLS && m->missing[cell])
			cell++, bytes += m->unit;
		CHECK(map->r[i].end == cell * m->unit);
	}
	while (cell < CELLS && !m->missing[cell])
		cell++;
	CHECK(cell == CELLS && stub_map_bytes(map) == bytes);
	CHECK(stub_map_empty(map) == (bytes == 0));
}

/* A boundary of cells, or one beyond them all. */
static uint64_t place(struct fuzz_in *in, const struct model *m, unsigned int *cell)
{
	uint64_t x = fuzz_take(in, 2);

	*cell = x < CELLS ? (unsigned int)x : CELLS;
	return x < CELLS ? x * m->unit : x % 2 ? UINT64_MAX : CELLS * m->unit + x;
}

static void subtract(struct fuzz_in *in, struct stub_map *map, struct model *m)
{
	struct stub_map before;
	struct model after = *m;
	unsigned int a, b;
	uint64_t start = place(in, m, &a), end = place(in, m, &b);
	int r;

	stub_map_copy(&before, map);
	for (unsigned int i = a; i < b; i++)
		after.missing[i] = false;
	r = stub_map_subtract(map, start, end);
	if (r == 0) {
		*m = after;
		return;
	}
	CHECK(r == -ENOSPC && count_ranges(&after) > STUB_MAP_MAX);
	CHECK(before.n == map->n && !memcmp(before.r, map->r, map->n * sizeof(map->r[0])));
}

/* Every other cell of [a, b): the way to many ranges. */
static void comb(struct fuzz_in *in, struct stub_map *map, struct model *m)
{
	unsigned int a, b;

	place(in, m, &a);
	place(in, m, &b);
	for (unsigned int i = a; i < b; i += 2) {
		if (stub_map_subtract(map, i * m->unit, (i + 1) * m->unit) == 0)
			m->missing[i] = false;
		else
			CHECK(map->n == STUB_MAP_MAX);
	}
}

static void look(struct fuzz_in *in, const struct stub_map *map, const struct model *m)
{
	struct stub_range got = { 0, 0 };
	unsigned int a, b, first, last;
	uint64_t start = place(in, m, &a), end = place(in, m, &b);
	bool found = stub_map_first(map, start, end, &got);

	CHECK(found == stub_map_overlaps(map, start, end));
	for (first = a; first < b && !m->missing[first]; first++)
		;
	CHECK(found == (first < b));
	if (!found)
		return;
	for (last = first; last < b && m->missing[last]; last++)
		;
	CHECK(got.start == first * m->unit && got.end == last * m->unit);
}

static void smallest(const struct stub_map *map, const struct model *m)
{
	struct stub_map some, rest, all;
	uint64_t longest = 0;

	stub_map_smallest(map, map->n / 3, UINT64_MAX, &some);
	CHECK(some.n == (map->n < 2 ? map->n : map->n - map->n / 3));
	for (uint32_t i = 0; i < some.n; i++)
		if (some.r[i].end - some.r[i].start > longest)
			longest = some.r[i].end - some.r[i].start;
	CHECK(stub_map_difference(map, &some, &rest) == 0 && rest.n + some.n == map->n);
	for (uint32_t i = 0; i < rest.n; i++)
		CHECK(rest.r[i].end - rest.r[i].start >= longest);
	CHECK(stub_map_union(&some, &rest, &all) == 0);
	CHECK(all.n == map->n && !memcmp(all.r, map->r, map->n * sizeof(map->r[0])));
}

static void intersect(struct stub_map *a, struct model *ma, const struct stub_map *b,
		      const struct model *mb)
{
	struct stub_map before;
	struct model both = *ma;
	int r;

	stub_map_copy(&before, a);
	for (unsigned int i = 0; i < CELLS; i++)
		both.missing[i] = ma->missing[i] && mb->missing[i];
	r = stub_map_intersect(a, b);
	if (r == 0) {
		*ma = both;
		return;
	}
	CHECK(r == -ENOSPC && count_ranges(&both) > STUB_MAP_MAX);
	CHECK(before.n == a->n && !memcmp(before.r, a->r, a->n * sizeof(a->r[0])));
}

static void init(struct fuzz_in *in, struct stub_map *map, struct model *m)
{
	unsigned int cells;

	place(in, m, &cells);
	stub_map_init(map, cells * m->unit);
	for (unsigned int i = 0; i < CELLS; i++)
		m->missing[i] = i < cells;
}

static void clip(struct fuzz_in *in, struct stub_map *map, struct model *m)
{
	unsigned int cell;

	stub_map_clip(map, place(in, m, &cell));
	for (unsigned int i = cell; i < CELLS; i++)
		m->missing[i] = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct stub_map map[2];
	struct model m[2];
	uint64_t unit = fuzz_take(&in, 1) % 2 ? 1 : 1ull << 53;

	for (int i = 0; i < 2; i++) {
		memset(&m[i], 0, sizeof(m[i]));
		m[i].unit = unit;
		memset(m[i].missing, 1, sizeof(m[i].missing));
		stub_map_init(&map[i], CELLS * unit);
	}
	for (int steps = 0; in.left && steps < 200; steps++) {
		uint64_t op = fuzz_take(&in, 1);
		int i = op & 1;

		switch (op >> 1 & 7) {
		case 0:
			init(&in, &map[i], &m[i]);
			break;
		case 1:
			clip(&in, &map[i], &m[i]);
			break;
		case 2:
			intersect(&map[i], &m[i], &map[!i], &m[!i]);
			break;
		case 3:
			smallest(&map[i], &m[i]);
			break;
		case 4:
			look(&in, &map[i], &m[i]);
			break;
		case 5:
			comb(&in, &map[i], &m[i]);
			break;
		default:
			subtract(&in, &map[i], &m[i]);
		}
		compare(&map[i], &m[i]);
	}
	return 0;
}
