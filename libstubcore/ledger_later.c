/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_later.c - who writes without asking for stable storage waits for the mirror at the COMMIT (docs/decisions/0095).
 *
 * What such a write changed is noted here, by process: a client that was not told that it is stable writes it once
 * more when this process is another one.  Of an object one range is noted, and one that somebody waits for just now;
 * a COMMIT waits for both.  What is noted is bounded, so that no COMMIT waits for long: at the bound who writes waits
 * for what was noted before, or for its own.
 */
#include <errno.h>

#include "ledger.h"

#define SETS  128u
#define WAYS  8u
#define BOUND (UINT64_C(8) << 20) /* bytes from the first to the last that are noted of an object */

struct range {
	uint64_t from, to; /* from == to: none */
};

struct noted {
	struct stub_handle h; /* len 0: free */
	uint64_t used;	      /* larger: written later */
	struct range fresh, awaited;
	unsigned int waits; /* for `awaited` */
};

struct stub_later {
	pthread_mutex_t lock; /* a leaf */
	uint64_t uses;
	atomic_uint any; /* places in use */
	struct noted *place; /* SETS * WAYS; NULL: nothing was noted yet */
};

int stub_later_create(struct stub_later **out)
{
	struct stub_later *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	*out = l;
	return 0;
}

void stub_later_destroy(struct stub_later *l)
{
	if (!l)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l->place);
	free(l);
}

static bool is_none(struct range r)
{
	return r.from >= r.to;
}

static struct range both(struct range a, struct range b)
{
	if (is_none(a) || is_none(b))
		return is_none(a) ? b : a;
	return (struct range){ a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to };
}

static struct noted *set_of(struct stub_later *l, const struct stub_handle *h)
{
	return &l->place[stub_handle_sum(h) % SETS * WAYS];
}

static struct noted *find(struct stub_later *l, const struct stub_handle *h)
{
	struct noted *set = l->place ? set_of(l, h) : NULL;

	for (unsigned int i = 0; set && i < WAYS; i++)
		if (set[i].h.len && stub_handle_equal(&set[i].h, h))
			return &set[i];
	return NULL;
}

/* A free place for it, or that of what was not written for longest. */
static struct noted *room(struct stub_later *l, const struct stub_handle *h)
{
	struct noted *set = set_of(l, h), *oldest = set;

	for (unsigned int i = 0; i < WAYS; i++) {
		if (!set[i].h.len)
			return &set[i];
		if (set[i].used < oldest->used)
			oldest = &set[i];
	}
	return oldest;
}

/* Whoever calls it waits for what it returns, and calls landed(). */
static struct range take(struct noted *n)
{
	n->awaited = both(n->awaited, n->fresh);
	n->fresh = (struct range){ 0, 0 };
	n->waits++;
	return n->awaited;
}

static void landed(struct stub_later *l, const struct stub_handle *h, struct range r, bool there)
{
	struct noted *n;

	pthread_mutex_lock(&l->lock);
	n = find(l, h);
	if (!there)
		n->fresh = both(n->fresh, r);
	if (--n->waits == 0)
		n->awaited = (struct range){ 0, 0 };
	if (!n->waits && is_none(n->fresh)) {
		n->h.len = 0;
		atomic_fetch_sub(&l->any, 1);
	}
	pthread_mutex_unlock(&l->lock);
}

/* Is @e noted?  Before that, or else before it is waited for itself, *@r of *@h is to be waited for, which was taken. */
static bool note(struct stub_later *l, const struct stub_entered *e, struct stub_handle *h, struct range *r)
{
	struct range own = { e->from, e->to }, with;
	struct noted *n;

	if (!l->place)
		l->place = calloc(SETS * WAYS, sizeof(*l->place));
	if (!l->place || is_none(own) || own.to - own.from > BOUND)
		return false;
	n = find(l, &e->h);
	if (!n)
		n = room(l, &e->h);
	if (!n->h.len) {
		*n = (struct noted){ .h = e->h };
		atomic_fetch_add(&l->any, 1);
	}
	*h = n->h;
	if (!stub_handle_equal(h, &e->h)) { /* the next one finds its place free */
		*r = take(n);
		return false;
	}
	with = both(n->fresh, own);
	if (with.to - with.from > BOUND) {
		if (n->waits)
			return false;
		*r = take(n);
		with = own;
	}
	n->fresh = with;
	n->used = ++l->uses;
	return true;
}

/* @r of @h was taken. */
static int await(struct stub_volume *v, const struct stub_handle *h, struct range r)
{
	const struct stub_entered e = { .what = STUB_OWED_DATA | STUB_OWED_ATTRS, .h = *h, .from = r.from, .to = r.to };
	int result = stub_ledger_await(v, &e, 1);

	landed(v->later, h, r, result == 0);
	return result;
}

STUB_PUBLIC int stub_ledger_await_later(struct stub_volume *v, const struct stub_entered *e)
{
	struct range before = { 0, 0 };
	struct stub_handle h;
	bool noted;
	int r = 0;

	if (!stub_ledger_awaits(v, e))
		return 0;
	pthread_mutex_lock(&v->later->lock);
	noted = note(v->later, e, &h, &before);
	pthread_mutex_unlock(&v->later->lock);
	if (!is_none(before))
		r = await(v, &h, before);
	return noted || r < 0 ? r : stub_ledger_await(v, e, 1);
}

STUB_PUBLIC int stub_ledger_await_noted(struct stub_volume *v, const struct stub_handle *h)
{
	struct range r = { 0, 0 };
	struct noted *n;

	if (!atomic_load(&v->later->any))
		return 0;
	pthread_mutex_lock(&v->later->lock);
	n = find(v->later, h);
	if (n)
		r = take(n);
	pthread_mutex_unlock(&v->later->lock);
	return n ? await(v, h, r) : 0;
}
