/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "deep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 64 /* directories that are asked for a name in one call */

struct place {
	struct stub_handle h;
	long at; /* how far it was gone through */
};

struct deep {
	deep_fn next;
	void *arg;
	struct place dirs[DEEP_ROOM]; /* a ring */
	unsigned int top, n; /* the one that was listed last is before top */
};

int deep_create(deep_fn next, void *arg, struct deep **out)
{
	struct deep *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->next = next;
	d->arg = arg;
	*out = d;
	return 0;
}

void deep_destroy(struct deep *d)
{
	free(d);
}

void deep_listed(struct deep *d, const struct stub_handle *h)
{
	d->dirs[d->top] = (struct place){ .h = *h };
	d->top = (d->top + 1) % DEEP_ROOM;
	if (d->n < DEEP_ROOM)
		d->n++;
}

int deep_next(struct deep *d, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	int r = queue_deep(q, now_ms);

	for (unsigned int i = 0; r > 0 && i < STEPS && d->n; i++) {
		struct place *p = &d->dirs[(d->top + DEEP_ROOM - 1) % DEEP_ROOM];
		struct stub_handle h;
		int found = d->next(d->arg, &p->h, &p->at, &h);

		if (found == -EAGAIN)
			continue;
		if (found <= 0) {
			d->top = (d->top + DEEP_ROOM - 1) % DEEP_ROOM;
			d->n--;
			continue;
		}
		r = queue_ask(q, &h, false, now_ms, out);
		if (r == 1 || r < 0)
			return r;
		r = 1;
	}
	return r < 0 ? r : 0;
}
