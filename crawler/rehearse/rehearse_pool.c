/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "rehearse/rehearse_inside.h"

uint64_t random_below(uint64_t *random, uint64_t n)
{
	uint64_t x = *random;

	x ^= x << 13; /* xorshift64 */
	x ^= x >> 7;
	x ^= x << 17;
	*random = x;
	return x % n;
}

struct thing *thing_create(const struct stub_entry *e, unsigned int depth, bool meta)
{
	struct thing *t = malloc(sizeof(*t) + e->origin_len);

	if (!t)
		return NULL;
	*t = (struct thing){ .size = e->attr.size, .depth = depth, .meta = meta,
			     .origin_len = (uint16_t)e->origin_len };
	memcpy(t->origin, e->origin, e->origin_len);
	return t;
}

void thing_destroy(struct thing *t)
{
	while (t) {
		struct thing *next = t->next;

		free(t);
		t = next;
	}
}

void thing_origin(const struct thing *t, struct stub_origin *out)
{
	out->len = t->origin_len;
	memcpy(out->bytes, t->origin, t->origin_len);
}

static size_t bytes_of(const struct thing *t)
{
	size_t n = 0;

	for (; t; t = t->next)
		n += sizeof(*t) + t->origin_len + 2 * sizeof(void *);
	return n;
}

static bool grow(struct pool *p)
{
	size_t room = p->room ? p->room * 2 : 64;
	struct thing **more = reallocarray(p->thing, room, sizeof(struct thing *));

	if (!more)
		return false;
	p->thing = more;
	p->room = room;
	return true;
}

uint64_t pool_add(struct pool *p, struct thing *t, uint64_t *random)
{
	uint64_t i;

	p->seen++;
	if (*p->bytes < p->most && (p->n < p->room || grow(p))) {
		*p->bytes += bytes_of(t);
		p->thing[p->n++] = t;
		return 0;
	}
	i = random_below(random, p->seen);
	if (i < p->n) {
		struct thing *old = p->thing[i];

		*p->bytes += bytes_of(t) - bytes_of(old);
		p->thing[i] = t;
		t = old;
	}
	thing_destroy(t);
	return 1;
}

struct thing *pool_take(struct pool *p, uint64_t *random)
{
	struct thing *t;
	size_t i;

	if (!p->n)
		return NULL;
	i = random_below(random, p->n);
	t = p->thing[i];
	p->thing[i] = p->thing[--p->n];
	*p->bytes -= bytes_of(t);
	return t;
}

void pool_finish(struct pool *p)
{
	for (size_t i = 0; i < p->n; i++)
		thing_destroy(p->thing[i]);
	free(p->thing);
}
