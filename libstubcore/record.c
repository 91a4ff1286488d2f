/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * record.c - the stub record on disk.
 *
 * One extended attribute, written and replaced as a whole, which every supported
 * file system does atomically; there is no second attribute that could disagree
 * (docs/decisions/0001).  Little-endian; "v" is an unsigned LEB128 of at most 10
 * bytes, "t" a time: v seconds (zigzag), v nanoseconds.
 *
 *   u8 version  u8 flags  u16 source_id  v depth
 *   u64 ino  u32 handle_sum  u64 boot
 *   v origin_len  origin
 *   v size  t src_mtime  t src_ctime  v fsid  v fileid  v nlink  v nlink_shown
 *   u8 same: bit 0 mtime == src_mtime, bit 1 ctime == src_ctime, bit 2 durable == now,
 *            bit 3 durable is now and the map that follows (where that is shorter)
 *   [t mtime]  [t ctime]
 *   map now  [map of durable, or of what it has beyond now]
 *   [v refused_len  refused: u8 len, name, ...]   flag STUB_FLAG_REFUSED
 *   [u64 link_key]   flag STUB_FLAG_LINK_KEY
 *   any number of zeros (room, see stub_record_rehearse)
 *   u32 checksum of all before it (FNV-1a folded)
 *
 * A map is v n, then n times: v gap since the last end, v length.
 * Everything read is hostile: lengths, overflow, order, trailing bytes are checked.
 */
#include "internal.h"

#define RECORD_VERSION 1
#define RECORD_RESERVE 64 /* bytes by which a record may grow without its map: times */

enum { SAME_MTIME = 1, SAME_CTIME = 2, SAME_MAPS = 4, SAME_BEYOND = 8 };

struct out {
	uint8_t *p;
	size_t len, size;
};

static void put(struct out *o, const void *p, size_t n)
{
	if (o->len + n <= o->size)
		memcpy(o->p + o->len, p, n);
	o->len += n;
}

static void put_le(struct out *o, uint64_t x, unsigned int n)
{
	uint8_t b[8];

	stub_put_le(b, x, n);
	put(o, b, n);
}

static void put_v(struct out *o, uint64_t x)
{
	uint8_t b[10];
	unsigned int n = 0;

	do {
		b[n] = (uint8_t)(x & 0x7f);
		x >>= 7;
		if (x)
			b[n] |= 0x80;
		n++;
	} while (x);
	put(o, b, n);
}

static void put_time(struct out *o, struct timespec t)
{
	int64_t s = t.tv_sec;

	put_v(o, ((uint64_t)s << 1) ^ (uint64_t)(s >> 63));
	put_v(o, (uint64_t)t.tv_nsec);
}

static void put_map(struct out *o, const struct stub_map *m)
{
	uint64_t at = 0;

	put_v(o, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		put_v(o, m->r[i].start - at);
		put_v(o, m->r[i].end - m->r[i].start);
		at = m->r[i].end;
	}
}

static bool map_equal(const struct stub_map *a, const struct stub_map *b)
{
	return a->n == b->n && !memcmp(a->r, b->r, a->n * sizeof(a->r[0]));
}

static uint32_t checksum(const uint8_t *p, size_t len)
{
	uint64_t h = stub_fnv(STUB_FNV, p, len);

	return (uint32_t)(h ^ (h >> 32));
}

static size_t map_size(const struct stub_map *m)
{
	struct out o = { NULL, 0, 0 };

	put_map(&o, m);
	return o.len;
}

/* What @durable has beyond @now.  False: @now is no part of it, or it is too many ranges. */
static bool map_beyond(const struct stub_map *durable, const struct stub_map *now,
		       struct stub_map *out)
{
	return stub_map_difference(durable, now, out) == 0 &&
	       stub_map_bytes(out) + stub_map_bytes(now) == stub_map_bytes(durable);
}

/* The record with the maps @now and @durable, and @room zeros before the checksum, or as many as
 * fit. */
static size_t encode(const struct stub_record *r, const struct stub_map *now,
		     const struct stub_map *durable, uint8_t *buf, size_t size, size_t room)
{
	struct out o = { buf, 0, size };
	struct stub_map beyond;
	uint8_t same = 0;

	put_le(&o, RECORD_VERSION, 1);
	put_le(&o, r->flags, 1);
	put_le(&o, r->source_id, 2);
	put_v(&o, r->depth);
	put_le(&o, r->ino, 8);
	put_le(&o, r->handle_sum, 4);
	put_le(&o, r->boot, 8);
	put_v(&o, r->origin.len);
	put(&o, r->origin.bytes, r->origin.len);
	put_v(&o, r->size);
	put_time(&o, r->src_mtime);
	put_time(&o, r->src_ctime);
	put_v(&o, r->fsid);
	put_v(&o, r->fileid);
	put_v(&o, r->nlink);
	put_v(&o, r->nlink_shown);
	same |= stub_time_cmp(r->mtime, r->src_mtime) == 0 ? SAME_MTIME : 0;
	same |= stub_time_cmp(r->ctime, r->src_ctime) == 0 ? SAME_CTIME : 0;
	if (map_equal(now, durable))
		same |= SAME_MAPS;
	else if (map_beyond(durable, now, &beyond) && map_size(&beyond) < map_size(durable))
		same |= SAME_BEYOND;
	put_le(&o, same, 1);
	if (!(same & SAME_MTIME))
		put_time(&o, r->mtime);
	if (!(same & SAME_CTIME))
		put_time(&o, r->ctime);
	put_map(&o, now);
	if (!(same & SAME_MAPS))
		put_map(&o, same & SAME_BEYOND ? &beyond : durable);
	if (r->flags & STUB_FLAG_REFUSED) {
		put_v(&o, r->refused.len);
		put(&o, r->refused.names, r->refused.len);
	}
	if (r->flags & STUB_FLAG_LINK_KEY)
		put_le(&o, r->link_key, 8);
	if (o.len + 4 < size && room > size - o.len - 4)
		room = size - o.len - 4;
	while (room-- > 0 && o.len + 4 < size)
		put_le(&o, 0, 1);
	if (o.len + 4 <= size)
		put_le(&o, checksum(buf, o.len), 4);
	else
		o.len += 4;
	return o.len;
}

int stub_record_encode(const struct stub_record *r, uint8_t *buf, size_t size)
{
	size_t len = encode(r, &r->now, &r->durable, buf, size, 0);

	return len > size ? -E2BIG : (int)len;
}

/* What one operation of a client may add: both times, the link count, a range in each
 * map, and the durable map where it was the same as the other one. */
static size_t growth(const struct stub_record *r)
{
	return 2 * 15 + 5 + 2 * 21 + map_size(&r->durable);
}

int stub_record_encode_roomy(const struct stub_record *r, uint8_t *buf, size_t size)
{
	int len = stub_record_encode(r, buf, size);

	if (len < 0)
		return len;
	/* room must not drive the record out of the inode; but one byte there must be, as sign */
	if (len < STUB_RECORD_INLINE && size > STUB_RECORD_INLINE)
		size = STUB_RECORD_INLINE;
	return (int)encode(r, &r->now, &r->durable, buf, size, growth(r));
}

bool stub_record_fits(const struct stub_record *r, const struct stub_map *now)
{
	uint8_t buf[STUB_RECORD_MAX];

	return encode(r, now, now, buf, sizeof(buf), 0) <= sizeof(buf) - RECORD_RESERVE;
}

static uint64_t get_v(struct stub_in *i)
{
	uint64_t x = 0;

	for (unsigned int shift = 0; shift < 70; shift += 7) {
		uint8_t b = (uint8_t)stub_in_le(i, 1);

		if (shift == 63 && b > 1)
			break;
		x |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return x;
	}
	i->bad = true;
	return 0;
}

static uint64_t get_v_max(struct stub_in *i, uint64_t max)
{
	uint64_t x = get_v(i);

	if (x > max)
		i->bad = true;
	return i->bad ? 0 : x;
}

static struct timespec get_time(struct stub_in *i)
{
	uint64_t z = get_v(i);
	struct timespec t;

	t.tv_sec = (time_t)((z >> 1) ^ (~(z & 1) + 1));
	t.tv_nsec = (long)get_v_max(i, 999999999);
	return t;
}

static void get_map(struct stub_in *i, uint64_t size, struct stub_map *m)
{
	uint64_t n = get_v_max(i, STUB_MAP_MAX), at = 0;

	m->n = 0;
	for (uint64_t k = 0; k < n && !i->bad; k++) {
		uint64_t gap = get_v(i), len = get_v(i);

		/* a gap of 0 is only right at the start, or two ranges would touch */
		if ((k > 0 && gap == 0) || len == 0 || gap > size - at || len > size - at - gap) {
			i->bad = true;
			break;
		}
		m->r[m->n++] = (struct stub_range){ at + gap, at + gap + len };
		at += gap + len;
	}
}

/* Names, whole, with at least one of them. */
static void get_refused(struct stub_in *i, struct stub_refused *out)
{
	size_t at = 0;

	out->len = (uint16_t)get_v_max(i, STUB_REFUSED_MAX);
	stub_in_copy(i, out->names, out->len);
	while (at < out->len && !i->bad) {
		size_t n = out->names[at];

		if (n >= out->len - at || stub_name_check((char *)out->names + at + 1, n) < 0)
			i->bad = true;
		at += 1 + n;
	}
	if (out->len == 0)
		i->bad = true;
}

/* The second map of a record; the first is in r->now. */
static void get_durable(struct stub_in *i, uint8_t same, struct stub_record *r)
{
	struct stub_map beyond;

	if (same & SAME_MAPS) {
		stub_map_copy(&r->durable, &r->now);
	} else if (same & SAME_BEYOND) {
		get_map(i, r->size, &beyond);
		if (stub_map_union(&r->now, &beyond, &r->durable) < 0 ||
		    stub_map_bytes(&r->durable) !=
			    stub_map_bytes(&r->now) + stub_map_bytes(&beyond))
			i->bad = true;
	} else {
		get_map(i, r->size, &r->durable);
	}
}

int stub_record_decode(const uint8_t *buf, size_t len, struct stub_record *r)
{
	struct stub_in i = { buf, len, false };
	uint8_t same;

	if (len < 5 || len > STUB_RECORD_MAX)
		return -EBADMSG;
	i.left -= 4;
	if (stub_get_le(buf + len - 4, 4) != checksum(buf, len - 4))
		return -EBADMSG;
	if (stub_in_le(&i, 1) != RECORD_VERSION)
		return -EBADMSG;
	r->flags = (uint16_t)stub_in_le(&i, 1);
	r->source_id = (uint16_t)stub_in_le(&i, 2);
	r->depth = (uint16_t)get_v_max(&i, STUB_DEPTH_MAX);
	r->ino = stub_in_le(&i, 8);
	r->handle_sum = (uint32_t)stub_in_le(&i, 4);
	r->boot = stub_in_le(&i, 8);
	r->origin.len = (uint16_t)get_v_max(&i, STUB_ORIGIN_MAX);
	stub_in_copy(&i, r->origin.bytes, r->origin.len);
	r->size = get_v_max(&i, INT64_MAX);
	r->src_mtime = get_time(&i);
	r->src_ctime = get_time(&i);
	r->fsid = get_v(&i);
	r->fileid = get_v(&i);
	r->nlink = (uint32_t)get_v_max(&i, UINT32_MAX);
	r->nlink_shown = (uint32_t)get_v_max(&i, UINT32_MAX);
	same = (uint8_t)stub_in_le(&i, 1);
	r->mtime = same & SAME_MTIME ? r->src_mtime : get_time(&i);
	r->ctime = same & SAME_CTIME ? r->src_ctime : get_time(&i);
	get_map(&i, r->size, &r->now);
	get_durable(&i, same, r);
	r->refused.len = 0;
	r->refused.error = 0;
	if (r->flags & STUB_FLAG_REFUSED)
		get_refused(&i, &r->refused);
	r->link_key = r->flags & STUB_FLAG_LINK_KEY ? stub_in_le(&i, 8) : 0;
	r->roomy = i.left > 0 || len == STUB_RECORD_MAX;
	while (i.left && *i.p == 0) {
		i.p++;
		i.left--;
	}
	if (i.bad || i.left || same > 15 ||
	    (same & SAME_MAPS && same & SAME_BEYOND))
		return -EBADMSG;
	return 0;
}

unsigned int stub_record_needs(const struct stub_record *r)
{
	unsigned int needs = 0;

	if (r->flags & STUB_FLAG_DUMMY)
		needs |= STUB_NEEDS_ATTRS;
	if (r->flags & STUB_FLAG_UNLISTED)
		needs |= STUB_NEEDS_ENTRIES;
	if (r->now.n)
		needs |= STUB_NEEDS_DATA;
	if (r->flags & STUB_FLAG_LINKS)
		needs |= STUB_NEEDS_NAMES;
	if (r->flags & STUB_FLAG_REFUSED)
		needs |= STUB_NEEDS_REFUSED;
	return needs ? needs : STUB_NEEDS_FINISH;
}
