/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * bytes.h - numbers to bytes and back, and a hash over bytes: for whatever goes to a disk
 * or through a socket.  Inline throughout: who includes it need not link the library.
 */
#ifndef STUBCORE_BYTES_H
#define STUBCORE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Little endian, 1 to 8 bytes. */
static inline void stub_put_le(uint8_t *p, uint64_t v, unsigned int width)
{
	for (unsigned int i = 0; i < width; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}
static inline uint64_t stub_get_le(const uint8_t *p, unsigned int width)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < width; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

/* Bytes that are read from front to back as hostile.  Whoever asks for more than there is
 * gets nothing, then and from then on, and `bad` is set: to be looked at once, at the end. */
struct stub_in {
	const uint8_t *p;
	size_t left;
	bool bad;
};

/* The next @n bytes where they are, or NULL. */
static inline const uint8_t *stub_in_take(struct stub_in *i, size_t n)
{
	const uint8_t *p = i->p;

	if (i->bad || i->left < n) {
		i->bad = true;
		return NULL;
	}
	i->p += n;
	i->left -= n;
	return p;
}

/* The same, copied; zeros for nothing. */
static inline void stub_in_copy(struct stub_in *i, void *to, size_t n)
{
	const uint8_t *p = stub_in_take(i, n);

	if (!p)
		memset(to, 0, n);
	else if (n)
		memcpy(to, p, n);
}

/* A number of 1 to 8 bytes; 0 for nothing. */
static inline uint64_t stub_in_le(struct stub_in *i, unsigned int width)
{
	const uint8_t *p = stub_in_take(i, width);

	return p ? stub_get_le(p, width) : 0;
}

/*
 * FNV-1a over 64 bits: begin with STUB_FNV, go on with what came out.  No protection
 * against whoever wants two things to have the same one.  Its values are on disks: boot
 * ids, checksums of records, names of provisional files.
 */
#define STUB_FNV UINT64_C(0xcbf29ce484222325)

static inline uint64_t stub_fnv(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = (const uint8_t *)p;

	while (n--)
		h = (h ^ *b++) * UINT64_C(0x100000001b3);
	return h;
}

#endif

