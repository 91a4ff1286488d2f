/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "rounds.h"

#include <errno.h>
#include <stdlib.h>

#include "bytes.h"

#define FIRST 1024
#define READ  512

/* 128 bits for a handle: two that have the same do not occur. */
struct mark {
	uint64_t a, b;
};

struct round {
	struct round *next;
	uint64_t since;
	bool names;
	bool failed; /* there was no memory for one: it is never over */
	struct mark *mark; /* open addressing; {0, 0} is free */
	size_t n, room;
};

struct rounds {
	pthread_mutex_t lock;
	uint64_t now;
	struct round *first;
};

int rounds_create(struct rounds **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

void rounds_destroy(struct rounds *r)
{
	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static struct mark mark_of(const struct stub_handle *h)
{
	struct mark m = { stub_fnv(STUB_FNV, h->bytes, h->len),
			  stub_fnv(~STUB_FNV, h->bytes, h->len) };

	m.a = stub_fnv(m.a, &h->type, sizeof(h->type));
	m.b = stub_fnv(m.b, &h->type, sizeof(h->type)) | 1;
	return m;
}

static size_t place_of(const struct round *r, struct mark m)
{
	size_t i = m.a & (r->room - 1);

	while (r->mark[i].b && (r->mark[i].a != m.a || r->mark[i].b != m.b))
		i = (i + 1) & (r->room - 1);
	return i;
}

static int grow(struct round *r)
{
	struct round wider = { .room = r->room ? r->room * 2 : FIRST };

	wider.mark = calloc(wider.room, sizeof(*wider.mark));
	if (!wider.mark)
		return -ENOMEM;
	for (size_t i = 0; i < r->room; i++)
		if (r->mark[i].b)
			wider.mark[place_of(&wider, r->mark[i])] = r->mark[i];
	free(r->mark);
	r->mark = wider.mark;
	r->room = wider.room;
	return 0;
}

static void add(struct round *r, const struct stub_owed *o)
{
	struct mark m = mark_of(&o->h);
	size_t i;

	if (r->names && !(o->what & STUB_OWED_NAMES))
		return;
	if (r->n >= r->room / 2 && grow(r) < 0) {
		r->failed = true;
		return;
	}
	i = place_of(r, m);
	r->n += !r->mark[i].b;
	r->mark[i] = m;
}

/* What stands behind it in its row may have to move up. */
static void drop(struct round *r, const struct stub_handle *h)
{
	size_t i = r->room ? place_of(r, mark_of(h)) : 0, j;
	struct mark m;

	if (!r->room || !r->mark[i].b)
		return;
	r->mark[i] = (struct mark){ 0, 0 };
	r->n--;
	for (j = (i + 1) & (r->room - 1); r->mark[j].b; j = (j + 1) & (r->room - 1)) {
		m = r->mark[j];
		r->mark[j] = (struct mark){ 0, 0 };
		r->mark[place_of(r, m)] = m;
	}
}

static int fill(struct mirror *m, struct round *r)
{
	struct stub_owed *o = malloc(READ * sizeof(*o));
	uint64_t after = 0;
	int n = o ? 1 : -ENOMEM;

	while (n > 0) {
		n = stub_ledger_next(m->ledger, after, o, READ);
		if (n <= 0)
			break;
		after = o[n - 1].turn;
		pthread_mutex_lock(&m->rounds->lock);
		for (int i = 0; i < n; i++)
			add(r, &o[i]);
		pthread_mutex_unlock(&m->rounds->lock);
	}
	free(o);
	return n;
}

int round_begin(struct mirror *m, bool names, struct round **out)
{
	struct round *r = calloc(1, sizeof(*r));
	int e;

	if (!r)
		return -ENOMEM;
	r->names = names;
	/* first: what is owed to others from here on joins, what is struck is not met */
	pthread_mutex_lock(&m->rounds->lock);
	r->since = m->rounds->now;
	r->next = m->rounds->first;
	m->rounds->first = r;
	pthread_mutex_unlock(&m->rounds->lock);
	e = fill(m, r);
	if (e < 0) {
		round_end(m, r);
		return e;
	}
	*out = r;
	return 0;
}

bool round_over(struct mirror *m, struct round *r)
{
	bool over;

	pthread_mutex_lock(&m->rounds->lock);
	over = !r->n && !r->failed;
	pthread_mutex_unlock(&m->rounds->lock);
	return over;
}

void round_end(struct mirror *m, struct round *r)
{
	struct round **at;

	if (!r)
		return;
	pthread_mutex_lock(&m->rounds->lock);
	for (at = &m->rounds->first; *at != r;)
		at = &(*at)->next;
	*at = r->next;
	pthread_mutex_unlock(&m->rounds->lock);
	free(r->mark);
	free(r);
}

uint64_t rounds_now(struct rounds *r)
{
	uint64_t now;

	pthread_mutex_lock(&r->lock);
	now = ++r->now;
	pthread_mutex_unlock(&r->lock);
	return now;
}

void rounds_right(struct rounds *r, uint64_t begun, const struct stub_handle *h, bool all)
{
	pthread_mutex_lock(&r->lock);
	for (struct round *x = r->first; x; x = x->next)
		if (begun > x->since && (all || x->names))
			drop(x, h);
	pthread_mutex_unlock(&r->lock);
}

void rounds_add(struct rounds *r, const struct stub_owed *o, size_t n)
{
	pthread_mutex_lock(&r->lock);
	for (struct round *x = r->first; x; x = x->next)
		for (size_t i = 0; i < n; i++)
			add(x, &o[i]);
	pthread_mutex_unlock(&r->lock);
}
