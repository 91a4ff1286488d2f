/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_twins.c - names of one directory that differ in case only.
 *
 * A hash table with open addressing: a key of the folded name, and where the name stands in
 * one block of memory, length byte first. Both grow by doubling up to the limit.
 *
 * Case is folded as Samba and NTFS do it, code point by code point to upper case;
 * in what is not UTF-8 only ASCII letters are folded.
 */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <wctype.h>

#include "check/check.h"

#define SLOTS_MIN 1024
#define NAMES_MIN 16384
#define NAME_MOST (STUB_NAME_MAX + 1) /* in the block */

struct slot {
	uint64_t key;
	size_t at; /* of the name in the block, plus one; 0: empty */
};

struct check_twins {
	size_t most;
	uint64_t secret[2];
	locale_t unicode; /* 0: only ASCII is folded */
	unsigned int part, parts;

	struct slot *slot;
	size_t slots, used;
	char *names;
	size_t names_size, names_used;
};

struct check_twins *check_twins_create(size_t most)
{
	struct check_twins *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->most = most;
	t->parts = 1;
	t->unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (getrandom(t->secret, sizeof(t->secret), 0) != sizeof(t->secret)) {
		check_twins_destroy(t);
		return NULL;
	}
	return t;
}

void check_twins_destroy(struct check_twins *t)
{
	if (!t)
		return;
	if (t->unicode)
		freelocale(t->unicode);
	free(t->slot);
	free(t->names);
	free(t);
}

void check_twins_reset(struct check_twins *t, unsigned int part, unsigned int parts)
{
	/* a huge directory is rare: the next one need not pay for clearing its table */
	if (t->slots > SLOTS_MIN * 16) {
		free(t->slot);
		free(t->names);
		t->slot = NULL;
		t->names = NULL;
		t->slots = t->names_size = 0;
	}
	if (t->slot)
		memset(t->slot, 0, t->slots * sizeof(*t->slot));
	t->used = t->names_used = 0;
	t->part = part;
	t->parts = parts;
}

/* The micro sign, the dotless i and the long s have upper-case letters to Unicode, but
 * are letters of their own to NTFS and Samba. */
static uint32_t fold(const struct check_twins *t, uint32_t c)
{
	if (c < 0x80)
		return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
	if (!t->unicode || c == 0xb5 || c == 0x131 || c == 0x17f)
		return c;
	return towupper_l(c, t->unicode);
}

/* The next folded unit of a name; bytes that are no UTF-8 get a range of their own. */
static uint32_t next(const struct check_twins *t, const char **name, size_t *len)
{
	uint32_t c;
	unsigned int n = check_utf8(*name, *len, &c);

	if (n == 0) {
		c = 0x80000000u | (unsigned char)**name;
		n = 1;
	} else {
		c = fold(t, c);
	}
	*name += n;
	*len -= n;
	return c;
}

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= UINT64_C(0xd6e8feb86659fd93);
	h ^= h >> 29;
	return h;
}

static uint64_t key_of(const struct check_twins *t, const char *name, size_t len)
{
	uint64_t h = t->secret[0];

	while (len)
		h = mix(h + t->secret[1] + next(t, &name, &len)) * 3 + t->secret[0];
	return mix(h ^ t->secret[1]);
}

static bool same(const struct check_twins *t, const char *a, size_t a_len, const char *b,
		 size_t b_len)
{
	while (a_len && b_len) {
		if (next(t, &a, &a_len) != next(t, &b, &b_len))
			return false;
	}
	return a_len == b_len;
}

static bool may_take(const struct check_twins *t, size_t slots, size_t names_size)
{
	return slots * sizeof(struct slot) + names_size <= t->most;
}

static int grow_slots(struct check_twins *t)
{
	size_t slots = t->slots ? t->slots * 2 : SLOTS_MIN;
	struct slot *slot;

	if (!may_take(t, slots, t->names_size))
		return -ENOSPC;
	slot = calloc(slots, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (size_t i = 0; i < t->slots; i++) {
		size_t at = t->slot[i].key & (slots - 1);

		if (!t->slot[i].at)
			continue;
		while (slot[at].at)
			at = (at + 1) & (slots - 1);
		slot[at] = t->slot[i];
	}
	free(t->slot);
	t->slot = slot;
	t->slots = slots;
	return 0;
}

static int make_room(struct check_twins *t)
{
	size_t size = t->names_size ? t->names_size * 2 : NAMES_MIN;
	char *names;
	int r;

	if (t->used >= t->slots / 2) {
		r = grow_slots(t);
		if (r < 0)
			return r;
	}
	if (t->names_size - t->names_used >= NAME_MOST)
		return 0;
	if (!may_take(t, t->slots, size))
		return -ENOSPC;
	names = realloc(t->names, size);
	if (!names)
		return -ENOMEM;
	t->names = names;
	t->names_size = size;
	return 0;
}

int check_twins_add(struct check_twins *t, const char *name, size_t len, const char **first,
		    size_t *first_len)
{
	uint64_t key = key_of(t, name, len);
	size_t at;
	int r;

	if ((key >> 32) % t->parts != t->part || len > STUB_NAME_MAX)
		return 0;
	r = make_room(t);
	if (r < 0)
		return r;
	for (at = key & (t->slots - 1); t->slot[at].at; at = (at + 1) & (t->slots - 1)) {
		const char *other = t->names + t->slot[at].at - 1;
		size_t other_len = (unsigned char)other[0];

		if (t->slot[at].key != key || !same(t, name, len, other + 1, other_len))
			continue;
		if (len == other_len && !memcmp(name, other + 1, len))
			return 0;
		*first = other + 1;
		*first_len = other_len;
		return 1;
	}
	t->slot[at].key = key;
	t->slot[at].at = t->names_used + 1;
	t->used++;
	t->names[t->names_used++] = (char)(unsigned char)len;
	memcpy(t->names + t->names_used, name, len);
	t->names_used += len;
	return 0;
}
