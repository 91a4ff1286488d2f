/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * digest.h - the digest of a file's content, from bytes that come in any order
 * (docs/decisions/0074).
 *
 * A file is cut into parts of 64 KiB, and 1024 parts are a stretch.  Its digest is
 *    SHA-256 of its bytes                        if it has one part
 *    SHA-256 of the digests of its parts         if it has one stretch
 *    SHA-256 of the digests of its stretches     else; a stretch's is that of its parts' digests
 * and so depends on its bytes alone.  Of a part that comes in pieces the pieces are kept until it
 * is whole; of a stretch under way 32 bytes for each part, of one that is done 32 bytes.
 */
#ifndef DIGEST_H
#define DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_BYTES	32
#define DIGEST_PART	(64u << 10)
#define DIGEST_PARTS	1024u
#define DIGEST_STRETCH	((uint64_t)DIGEST_PART * DIGEST_PARTS)

struct digest_sha; /* computes; belongs to one thread at a time */
int digest_sha_create(struct digest_sha **out); /* -ENOMEM */
void digest_sha_destroy(struct digest_sha *s);
/* SHA-256 of plain bytes.  False: it could not be computed. */
bool digest_sha_of(struct digest_sha *s, const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]);

/* The digest of a file that has just these bytes.  False: no memory for it. */
bool digest_of(struct digest_sha *s, const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]);

struct digest_file; /* what has come of one; belongs to one thread at a time */
int digest_file_create(uint64_t size, struct digest_file **out); /* -EINVAL: 0; -ENOMEM */
void digest_file_destroy(struct digest_file *f);
size_t digest_file_memory(const struct digest_file *f);
/* Bytes that have come; what has come before, or lies behind the end, is passed over. */
void digest_file_add(struct digest_file *f, struct digest_sha *s, uint64_t offset,
		     const void *bytes, size_t n);
/* [from, end) is zeros; costs next to nothing, whatever its length. */
void digest_file_zeros(struct digest_file *f, struct digest_sha *s, uint64_t from, uint64_t end);
/* True: all has come, and *out is its digest. */
bool digest_file_end(const struct digest_file *f, struct digest_sha *s, uint8_t out[DIGEST_BYTES]);

#endif
