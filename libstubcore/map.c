/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * map.c - the missing map: which bytes of a stub file still come from the source.
 *
 * Invariants of a map m:
 *   - ranges are sorted, not empty, and do not touch: r[i].end < r[i+1].start
 *   - a map only ever shrinks.  Filling, writing, punching and truncating are all
 *     subtraction; extending a file adds nothing.
 * A map of one range may need two ranges after a subtraction; that is the only
 * operation that can run out of room, and it then changes nothing.
 */
#include "internal.h"

void stub_map_init(struct stub_map *m, uint64_t size)
{
	m->n = 0;
	if (size > 0)
		m->r[m->n++] = (struct stub_range){ 0, size };
}

void stub_map_copy(struct stub_map *dst, const struct stub_map *src)
{
	dst->n = src->n;
	memcpy(dst->r, src->r, src->n * sizeof(src->r[0]));
}

bool stub_map_empty(const struct stub_map *m)
{
	return m->n == 0;
}

uint64_t stub_map_bytes(const struct stub_map *m)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < m->n; i++)
		sum += m->r[i].end - m->r[i].start;
	return sum;
}

/* Index of the first range that ends after @at. */
static uint32_t map_find(const struct stub_map *m, uint64_t at)
{
	uint32_t lo = 0, hi = m->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->r[mid].end > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

bool stub_map_first(const struct stub_map *m, uint64_t start, uint64_t end, struct stub_range *out)
{
	uint32_t i = map_find(m, start);

	if (start >= end || i == m->n || m->r[i].start >= end)
		return false;
	out->start = m->r[i].start > start ? m->r[i].start : start;
	out->end = m->r[i].end < end ? m->r[i].end : end;
	return true;
}

bool stub_map_overlaps(const struct stub_map *m, uint64_t start, uint64_t end)
{
	struct stub_range r;

	return stub_map_first(m, start, end, &r);
}

int stub_map_subtract(struct stub_map *m, uint64_t start, uint64_t end)
{
	uint32_t i, last;

	if (start >= end)
		return 0;
	i = map_find(m, start);
	if (i == m->n || m->r[i].start >= end)
		return 0;

	if (m->r[i].start < start && m->r[i].end > end) { /* a hole in the middle */
		if (m->n == STUB_MAP_MAX)
			return -ENOSPC;
		memmove(&m->r[i + 1], &m->r[i], (m->n - i) * sizeof(m->r[0]));
		m->n++;
		m->r[i].end = start;
		m->r[i + 1].start = end;
		return 0;
	}
	if (m->r[i].start < start) { /* keep its head */
		m->r[i].end = start;
		i++;
	}
	for (last = i; last < m->n && m->r[last].end <= end; last++)
		;
	memmove(&m->r[i], &m->r[last], (m->n - last) * sizeof(m->r[0]));
	m->n -= last - i;
	if (i < m->n && m->r[i].start < end) /* keep its tail */
		m->r[i].start = end;
	return 0;
}

void stub_map_clip(struct stub_map *m, uint64_t size)
{
	uint32_t i = map_find(m, size);

	if (i < m->n && m->r[i].start < size) {
		m->r[i].end = size;
		i++;
	}
	if (i < m->n)
		m->n = i;
}

int stub_map_intersect(struct stub_map *a, const struct stub_map *b)
{
	struct stub_map out;
	uint32_t i = 0, k = 0;

	out.n = 0;
	while (i < a->n && k < b->n) {
		uint64_t start = a->r[i].start > b->r[k].start ? a->r[i].start : b->r[k].start;
		uint64_t end = a->r[i].end < b->r[k].end ? a->r[i].end : b->r[k].end;

		if (start < end) {
			if (out.n == STUB_MAP_MAX)
				return -ENOSPC;
			out.r[out.n++] = (struct stub_range){ start, end };
		}
		if (a->r[i].end < b->r[k].end)
			i++;
		else
			k++;
	}
	stub_map_copy(a, &out);
	return 0;
}

static int map_add(struct stub_map *m, uint64_t start, uint64_t end)
{
	if (m->n && m->r[m->n - 1].end >= start) { /* touches the last one */
		if (m->r[m->n - 1].end < end)
			m->r[m->n - 1].end = end;
		return 0;
	}
	if (m->n == STUB_MAP_MAX)
		return -ENOSPC;
	m->r[m->n++] = (struct stub_range){ start, end };
	return 0;
}

int stub_map_difference(const struct stub_map *a, const struct stub_map *b, struct stub_map *out)
{
	out->n = 0;
	for (uint32_t i = 0; i < a->n; i++) {
		uint64_t at = a->r[i].start;

		for (uint32_t k = map_find(b, at); k < b->n && b->r[k].start < a->r[i].end; k++) {
			if (b->r[k].start > at && map_add(out, at, b->r[k].start) < 0)
				return -ENOSPC;
			at = b->r[k].end;
		}
		if (at < a->r[i].end && map_add(out, at, a->r[i].end) < 0)
			return -ENOSPC;
	}
	return 0;
}

int stub_map_union(const struct stub_map *a, const struct stub_map *b, struct stub_map *out)
{
	uint32_t i = 0, k = 0;

	out->n = 0;
	while (i < a->n || k < b->n) {
		bool from_a = k == b->n || (i < a->n && a->r[i].start <= b->r[k].start);
		const struct stub_range *r = from_a ? &a->r[i++] : &b->r[k++];

		if (map_add(out, r->start, r->end) < 0)
			return -ENOSPC;
	}
	return 0;
}

static int by_length(const void *a, const void *b)
{
	const struct stub_range *x = a, *y = b;
	uint64_t p = x->end - x->start, q = y->end - y->start;

	return p < q ? -1 : p > q;
}

static int by_start(const void *a, const void *b)
{
	const struct stub_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void stub_map_smallest(const struct stub_map *m, uint32_t keep, uint64_t bytes,
		       struct stub_map *out)
{
	uint32_t n = 0, most = m->n > keep ? m->n - keep : 1;
	uint64_t sum = 0;

	stub_map_copy(out, m);
	qsort(out->r, out->n, sizeof(out->r[0]), by_length);
	while (n < out->n && n < most && (n == 0 || sum < bytes)) {
		sum += out->r[n].end - out->r[n].start;
		n++;
	}
	out->n = n;
	qsort(out->r, n, sizeof(out->r[0]), by_start);
}
