/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "jobs/partly.h"

#include <errno.h>
#include <string.h>

void partly_init(struct partly *p)
{
	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
}

void partly_finish(struct partly *p)
{
	pthread_mutex_destroy(&p->lock);
}

static bool same(const struct stub_handle *a, const struct stub_handle *b)
{
	return a->type == b->type && a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

/* The slot of @h, or p->n.  With the lock held. */
static unsigned int find(const struct partly *p, const struct stub_handle *h)
{
	unsigned int i = 0;

	while (i < p->n && !same(&p->file[i].h, h))
		i++;
	return i;
}

void partly_note(struct partly *p, const struct stub_handle *h, uint64_t size, uint64_t left)
{
	unsigned int i;

	if (size < PARTLY_BYTES)
		return;
	pthread_mutex_lock(&p->lock);
	i = find(p, h);
	if (i == p->n && p->n < PARTLY_FILES)
		p->n++;
	else if (i == p->n)
		i = p->next++ % PARTLY_FILES;
	p->file[i].h = *h;
	p->file[i].here = left < size ? size - left : 0;
	pthread_mutex_unlock(&p->lock);
}

static void forget(struct partly *p, const struct stub_handle *h)
{
	unsigned int i;

	pthread_mutex_lock(&p->lock);
	i = find(p, h);
	if (i < p->n)
		p->file[i] = p->file[--p->n];
	pthread_mutex_unlock(&p->lock);
}

uint64_t partly_sum(struct partly *p, struct stub_journal *j)
{
	struct stub_handle all[PARTLY_FILES];
	uint64_t here[PARTLY_FILES], sum = 0;
	struct stub_journal_entry e;
	unsigned int n;

	pthread_mutex_lock(&p->lock);
	n = p->n;
	for (unsigned int i = 0; i < n; i++) {
		all[i] = p->file[i].h;
		here[i] = p->file[i].here;
	}
	pthread_mutex_unlock(&p->lock);
	for (unsigned int i = 0; i < n; i++) {
		int r = stub_journal_get(j, &all[i], &e);

		if (r == 0 && e.kind == STUB_JOURNAL_FILE && e.park == STUB_PARK_NONE)
			sum += here[i] < e.size ? here[i] : e.size;
		else if (r != -EIO)
			forget(p, &all[i]);
	}
	return sum;
}
