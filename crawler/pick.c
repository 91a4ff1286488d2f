/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pick.c - a heap with the worst on top, which the next better one replaces. */
#include "pick.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct one {
	uint64_t rank;
	uint32_t serial; /* of the offer */
	uint8_t kind;
	struct stub_handle h;
};

struct pick {
	struct one one[PICK_ROOM];
	uint32_t serial;
	unsigned int n, next;
};

int pick_create(struct pick **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void pick_destroy(struct pick *p)
{
	free(p);
}

void pick_clear(struct pick *p)
{
	p->n = p->next = 0;
	p->serial = 0;
}

static int compare(const void *a, const void *b)
{
	const struct one *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->serial < y->serial ? -1 : x->serial > y->serial;
}

static void up(struct pick *p, unsigned int i, const struct one *new)
{
	while (i > 0 && compare(&p->one[(i - 1) / 2], new) < 0) {
		p->one[i] = p->one[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	p->one[i] = *new;
}

/* In place of the worst. */
static void down(struct pick *p, const struct one *new)
{
	unsigned int i = 0, child;

	while ((child = 2 * i + 1) < p->n) {
		if (child + 1 < p->n && compare(&p->one[child], &p->one[child + 1]) < 0)
			child++;
		if (compare(&p->one[child], new) < 0)
			break;
		p->one[i] = p->one[child];
		i = child;
	}
	p->one[i] = *new;
}

bool pick_offer(struct pick *p, uint64_t rank, const struct stub_journal_entry *e)
{
	struct one new = { .rank = rank, .serial = p->serial++, .kind = e->kind, .h = e->h };

	if (p->n < PICK_ROOM) {
		up(p, p->n++, &new);
		return true;
	}
	if (compare(&new, &p->one[0]) < 0)
		down(p, &new);
	return false;
}

void pick_sort(struct pick *p)
{
	qsort(p->one, p->n, sizeof(p->one[0]), compare);
	p->next = 0;
}

bool pick_take(struct pick *p, struct stub_journal_entry *out)
{
	const struct one *one = &p->one[p->next];

	if (p->next == p->n)
		return false;
	p->next++;
	*out = (struct stub_journal_entry){ .h = one->h, .kind = one->kind };
	return true;
}
