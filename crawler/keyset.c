/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "keyset.h"

#include <errno.h>
#include <stdlib.h>

#define LEAST 4096u /* a power of two, as all sizes are */

/* Where the key is, or would be. */
static uint32_t slot_of(const struct keyset *s, uint64_t key)
{
	uint32_t i = (uint32_t)key & (s->slots - 1);

	while (s->key[i] && s->key[i] != key)
		i = (i + 1) & (s->slots - 1);
	return i;
}

static int grow(struct keyset *s)
{
	struct keyset more = { .slots = s->slots ? 2 * s->slots : LEAST, .n = s->n };

	more.key = calloc(more.slots, sizeof(*more.key));
	if (!more.key)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->slots; i++) {
		if (s->key[i])
			more.key[slot_of(&more, s->key[i])] = s->key[i];
	}
	free(s->key);
	*s = more;
	return 0;
}

int keyset_put(struct keyset *s, uint64_t key)
{
	uint32_t i;
	int r;

	if (keyset_has(s, key))
		return 0;
	if (s->n >= KEYSET_MOST)
		return -ENOSPC;
	if (4 * (s->n + 1) > 3 * s->slots) {
		r = grow(s);
		if (r < 0)
			return r;
	}
	i = slot_of(s, key);
	s->key[i] = key;
	s->n++;
	return 0;
}

bool keyset_has(const struct keyset *s, uint64_t key)
{
	return s->slots && s->key[slot_of(s, key)] == key;
}

void keyset_clear(struct keyset *s)
{
	free(s->key);
	*s = (struct keyset){ 0 };
}
