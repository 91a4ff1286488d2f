/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bytes.h"
#include "resting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS  131072u /* 2 MiB; at 5000 files/s and 10 s each, 50 000 are in use */
#define PROBES 16u /* neighbours that one key may stand in */

struct slot {
	uint64_t key; /* 0: empty */
	uint64_t until_ms;
};

struct resting {
	struct slot slot[SLOTS];
};

int resting_create(struct resting **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void resting_destroy(struct resting *t)
{
	free(t);
}

void resting_clear(struct resting *t)
{
	memset(t, 0, sizeof(*t));
}

/* FNV-1a with a final mix: handles differ in few bits only. */
uint64_t resting_key(const struct stub_handle *h)
{
	uint64_t k = stub_fnv(STUB_FNV ^ (uint32_t)h->type, h->bytes, h->len);

	k ^= k >> 32;
	k *= 0xd6e8feb86659fd93u;
	k ^= k >> 32;
	return k ? k : 1;
}

void resting_put(struct resting *t, uint64_t key, uint64_t until_ms)
{
	struct slot *best = NULL;

	for (unsigned int i = 0; i < PROBES; i++) {
		struct slot *s = &t->slot[(key + i) % SLOTS];

		if (s->key == key) {
			best = s;
			break;
		}
		if (!best || s->until_ms < best->until_ms)
			best = s;
	}
	best->key = key;
	best->until_ms = until_ms;
}

static const struct slot *slot_of(const struct resting *t, uint64_t key)
{
	for (unsigned int i = 0; i < PROBES; i++) {
		const struct slot *s = &t->slot[(key + i) % SLOTS];

		if (s->key == key)
			return s;
	}
	return NULL;
}

bool resting_is(const struct resting *t, uint64_t key, uint64_t now_ms)
{
	const struct slot *s = slot_of(t, key);

	return s && s->until_ms > now_ms;
}

bool resting_flies(const struct resting *t, uint64_t key)
{
	const struct slot *s = slot_of(t, key);

	return s && s->until_ms == RESTS_FOREVER;
}

bool resting_knows(const struct resting *t, uint64_t key)
{
	return slot_of(t, key);
}
