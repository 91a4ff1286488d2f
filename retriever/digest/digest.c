/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * digest.c - see digest.h.
 *
 * Whatever goes wrong (no memory, too many pieces), a part stays unknown, and so does the
 * digest of the file: never is one made of other bytes than those of the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "digest/digest.h"

#define PIECES 16 /* parts of one file that are there in pieces; the oldest goes for another one */
#define RANGES 8 /* of one part */

/* ---- SHA-256 ---- */

struct digest_sha {
	EVP_MD *md;
	EVP_MD_CTX *ctx;
};

int digest_sha_create(struct digest_sha **out)
{
	struct digest_sha *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->md = EVP_MD_fetch(NULL, "SHA256", NULL); /* once: each look-up costs as much as 1 KiB */
	s->ctx = EVP_MD_CTX_new();
	if (!s->md || !s->ctx) {
		digest_sha_destroy(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void digest_sha_destroy(struct digest_sha *s)
{
	if (!s)
		return;
	EVP_MD_CTX_free(s->ctx);
	EVP_MD_free(s->md);
	free(s);
}

bool digest_sha_of(struct digest_sha *s, const void *bytes, size_t n, uint8_t out[DIGEST_BYTES])
{
	return EVP_DigestInit_ex2(s->ctx, s->md, NULL) == 1 &&
	       EVP_DigestUpdate(s->ctx, bytes, n) == 1 &&
	       EVP_DigestFinal_ex(s->ctx, out, NULL) == 1;
}

/* ---- a file ---- */

struct parts { /* of a stretch under way */
	uint64_t known[DIGEST_PARTS / 64];
	uint8_t digest[][DIGEST_BYTES];
};

struct stretch {
	uint32_t known; /* parts */
	bool done;
	struct parts *parts; /* NULL: none is known, or it is done */
	uint8_t digest[DIGEST_BYTES];
};

struct piece { /* a part that has not come as a whole */
	uint64_t part;
	uint64_t age;
	uint8_t *bytes; /* NULL: unused */
	unsigned int n;
	struct {
		uint32_t from, end;
	} range[RANGES]; /* what is here; apart from each other, in no order */
};

struct digest_file {
	uint64_t size, parts, stretches, left; /* stretches that are not done */
	uint64_t age;
	size_t memory;
	bool zeros_known;
	uint8_t zero_stretch[DIGEST_BYTES];
	struct piece piece[PIECES];
	struct stretch stretch[];
};

int digest_file_create(uint64_t size, struct digest_file **out)
{
	uint64_t parts = (size - 1) / DIGEST_PART + 1, n = (parts - 1) / DIGEST_PARTS + 1;
	size_t bytes = sizeof(struct digest_file) + n * sizeof(struct stretch);
	struct digest_file *f;

	if (size == 0 || size > INT64_MAX)
		return -EINVAL;
	f = calloc(1, bytes);
	if (!f)
		return -ENOMEM;
	f->size = size;
	f->parts = parts;
	f->stretches = f->left = n;
	f->memory = bytes;
	*out = f;
	return 0;
}

void digest_file_destroy(struct digest_file *f)
{
	if (!f)
		return;
	for (uint64_t i = 0; i < f->stretches; i++)
		free(f->stretch[i].parts);
	for (unsigned int i = 0; i < PIECES; i++)
		free(f->piece[i].bytes);
	free(f);
}

size_t digest_file_memory(const struct digest_file *f)
{
	return f->memory;
}

static uint32_t part_bytes(const struct digest_file *f, uint64_t part)
{
	uint64_t left = f->size - part * DIGEST_PART;

	return left < DIGEST_PART ? (uint32_t)left : DIGEST_PART;
}

static uint32_t parts_of(const struct digest_file *f, uint64_t stretch)
{
	uint64_t left = f->parts - stretch * DIGEST_PARTS;

	return left < DIGEST_PARTS ? (uint32_t)left : DIGEST_PARTS;
}

static bool is_known(const struct digest_file *f, uint64_t part)
{
	const struct stretch *s = &f->stretch[part / DIGEST_PARTS];
	uint64_t at = part % DIGEST_PARTS;

	return s->done || (s->parts && s->parts->known[at / 64] & UINT64_C(1) << at % 64);
}

static struct parts *parts_get(struct digest_file *f, struct stretch *s, uint32_t n)
{
	size_t bytes = sizeof(*s->parts) + (size_t)n * DIGEST_BYTES;

	if (!s->parts) {
		s->parts = calloc(1, bytes);
		f->memory += s->parts ? bytes : 0;
	}
	return s->parts;
}

/* The digest of @part is known now. */
static void know(struct digest_file *f, struct digest_sha *sha, uint64_t part,
		 const uint8_t digest[DIGEST_BYTES])
{
	struct stretch *s = &f->stretch[part / DIGEST_PARTS];
	uint32_t n = parts_of(f, part / DIGEST_PARTS);
	uint64_t at = part % DIGEST_PARTS;
	struct parts *p = parts_get(f, s, n);

	if (!p)
		return;
	memcpy(p->digest[at], digest, DIGEST_BYTES);
	p->known[at / 64] |= UINT64_C(1) << at % 64;
	if (++s->known < n)
		return;
	if (f->parts == 1)
		memcpy(s->digest, digest, DIGEST_BYTES);
	else if (!digest_sha_of(sha, p->digest, (size_t)n * DIGEST_BYTES, s->digest))
		return;
	s->done = true;
	s->parts = NULL;
	f->memory -= sizeof(*p) + (size_t)n * DIGEST_BYTES;
	f->left--;
	free(p);
}

/* ---- pieces ---- */

static void piece_drop(struct digest_file *f, struct piece *p)
{
	if (p->bytes)
		f->memory -= DIGEST_PART;
	free(p->bytes);
	*p = (struct piece){ 0 };
}

/* That of @part, or a new one. */
static struct piece *piece_get(struct digest_file *f, uint64_t part)
{
	struct piece *p = &f->piece[0];

	for (unsigned int i = 0; i < PIECES; i++) {
		if (f->piece[i].bytes && f->piece[i].part == part)
			return &f->piece[i];
		if (f->piece[i].age < p->age)
			p = &f->piece[i];
	}
	piece_drop(f, p);
	p->bytes = malloc(DIGEST_PART);
	if (!p->bytes)
		return NULL;
	f->memory += DIGEST_PART;
	p->part = part;
	p->age = ++f->age;
	return p;
}

/* [from, end) is here now.  False: there are too many ranges. */
static bool piece_take(struct piece *p, uint32_t from, uint32_t end)
{
	for (unsigned int i = 0; i < p->n;) {
		if (p->range[i].from > end || p->range[i].end < from) {
			i++;
			continue;
		}
		from = p->range[i].from < from ? p->range[i].from : from;
		end = p->range[i].end > end ? p->range[i].end : end;
		p->range[i] = p->range[--p->n];
	}
	if (p->n == RANGES)
		return false;
	p->range[p->n].from = from;
	p->range[p->n++].end = end;
	return true;
}

/* @bytes NULL: zeros. */
static void add_piece(struct digest_file *f, struct digest_sha *sha, uint64_t part, uint32_t from,
		      uint32_t end, const uint8_t *bytes)
{
	struct piece *p = piece_get(f, part);
	uint8_t digest[DIGEST_BYTES];

	if (!p)
		return;
	if (bytes)
		memcpy(p->bytes + from, bytes, end - from);
	else
		memset(p->bytes + from, 0, end - from);
	if (!piece_take(p, from, end)) {
		piece_drop(f, p);
		return;
	}
	if (p->n > 1 || p->range[0].from > 0 || p->range[0].end < part_bytes(f, part))
		return;
	if (digest_sha_of(sha, p->bytes, part_bytes(f, part), digest))
		know(f, sha, part, digest);
	piece_drop(f, p);
}

static void drop_pieces_of(struct digest_file *f, uint64_t part)
{
	for (unsigned int i = 0; i < PIECES; i++)
		if (f->piece[i].bytes && f->piece[i].part == part)
			piece_drop(f, &f->piece[i]);
}

/* ---- what comes ---- */

void digest_file_add(struct digest_file *f, struct digest_sha *sha, uint64_t offset,
		     const void *bytes, size_t n)
{
	uint64_t end = offset >= f->size || n > f->size - offset ? f->size : offset + n;
	uint8_t digest[DIGEST_BYTES];

	for (uint64_t at = offset; at < end;) {
		uint64_t part = at / DIGEST_PART, start = part * DIGEST_PART;
		uint64_t next = start + DIGEST_PART < end ? start + DIGEST_PART : end;
		const uint8_t *from = (const uint8_t *)bytes + (at - offset);

		if (is_known(f, part)) {
			at = next;
			continue;
		}
		if (at > start || next - start < part_bytes(f, part)) {
			add_piece(f, sha, part, (uint32_t)(at - start), (uint32_t)(next - start),
				  from);
		} else if (digest_sha_of(sha, from, next - start, digest)) {
			know(f, sha, part, digest);
			drop_pieces_of(f, part);
		}
		at = next;
	}
}

/* That of a whole stretch of zeros, of which @part is the digest of a part. */
static bool zero_stretch(struct digest_file *f, struct digest_sha *sha, const uint8_t *part)
{
	uint8_t *all = f->zeros_known ? NULL : malloc((size_t)DIGEST_PARTS * DIGEST_BYTES);

	for (unsigned int i = 0; all && i < DIGEST_PARTS; i++)
		memcpy(all + (size_t)i * DIGEST_BYTES, part, DIGEST_BYTES);
	if (all)
		f->zeros_known = digest_sha_of(sha, all, (size_t)DIGEST_PARTS * DIGEST_BYTES,
					       f->zero_stretch);
	free(all);
	return f->zeros_known;
}

/* The whole stretch that begins at @at, of which nothing is known, is zeros. */
static bool skip_stretch(struct digest_file *f, struct digest_sha *sha, uint64_t at, uint64_t end,
			 const uint8_t *part)
{
	struct stretch *s = &f->stretch[at / DIGEST_STRETCH];

	if (at % DIGEST_STRETCH || end - at < DIGEST_STRETCH || s->known || s->done ||
	    !zero_stretch(f, sha, part))
		return false;
	memcpy(s->digest, f->zero_stretch, DIGEST_BYTES);
	s->done = true;
	f->left--;
	return true;
}

void digest_file_zeros(struct digest_file *f, struct digest_sha *sha, uint64_t from, uint64_t end)
{
	static const uint8_t zeros[DIGEST_PART];
	uint8_t whole[DIGEST_BYTES];

	end = end < f->size ? end : f->size;
	if (from >= end || !digest_sha_of(sha, zeros, DIGEST_PART, whole))
		return;
	while (from < end) {
		uint64_t part = from / DIGEST_PART, start = part * DIGEST_PART;
		uint64_t next = start + DIGEST_PART < end ? start + DIGEST_PART : end;

		if (skip_stretch(f, sha, from, end, whole)) {
			from += DIGEST_STRETCH;
			continue;
		}
		if (is_known(f, part))
			;
		else if (next - from == DIGEST_PART)
			know(f, sha, part, whole);
		else
			add_piece(f, sha, part, (uint32_t)(from - start), (uint32_t)(next - start),
				  NULL);
		from = next;
	}
}

bool digest_file_end(const struct digest_file *f, struct digest_sha *s, uint8_t out[DIGEST_BYTES])
{
	uint8_t *all;
	bool r;

	if (f->left)
		return false;
	if (f->stretches == 1) {
		memcpy(out, f->stretch[0].digest, DIGEST_BYTES);
		return true;
	}
	all = malloc(f->stretches * DIGEST_BYTES);
	if (!all)
		return false;
	for (uint64_t i = 0; i < f->stretches; i++)
		memcpy(all + i * DIGEST_BYTES, f->stretch[i].digest, DIGEST_BYTES);
	r = digest_sha_of(s, all, f->stretches * DIGEST_BYTES, out);
	free(all);
	return r;
}

bool digest_of(struct digest_sha *s, const void *bytes, size_t n, uint8_t out[DIGEST_BYTES])
{
	struct digest_file *f;
	bool r;

	if (n <= DIGEST_PART)
		return digest_sha_of(s, bytes, n, out);
	if (digest_file_create(n, &f) < 0)
		return false;
	digest_file_add(f, s, 0, bytes, n);
	r = digest_file_end(f, s, out);
	digest_file_destroy(f);
	return r;
}
