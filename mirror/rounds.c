/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "rounds.h"

#include <errno.h>
#include <stdlib.h>

#include "marks.h"

#define READ 512

struct round {
	struct round *next;
	uint64_t since;
	bool names;
	bool failed; /* there was no memory for one: it is never over */
	bool filling; /* the ledger is being read */
	struct marks owed, right; /* right: since it is; what was read before that is not owed any more */
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

static void add(struct round *r, const struct stub_owed *o)
{
	if (r->names && !(o->what & STUB_OWED_NAMES))
		return;
	r->failed = marks_add(&r->owed, mark_of_handle(&o->h)) < 0 || r->failed;
}

static void drop(struct round *r, const struct stub_handle *h)
{
	marks_drop(&r->owed, mark_of_handle(h));
	if (r->filling)
		r->failed = marks_add(&r->right, mark_of_handle(h)) < 0 || r->failed;
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
			if (!marks_has(&r->right, mark_of_handle(&o[i].h)))
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
	r->filling = true;
	/* first: what is owed to others from here on joins, what is struck is not met */
	pthread_mutex_lock(&m->rounds->lock);
	r->since = m->rounds->now;
	r->next = m->rounds->first;
	m->rounds->first = r;
	pthread_mutex_unlock(&m->rounds->lock);
	e = fill(m, r);
	pthread_mutex_lock(&m->rounds->lock);
	r->filling = false;
	marks_clear(&r->right);
	pthread_mutex_unlock(&m->rounds->lock);
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
	over = !r->owed.n && !r->failed;
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
	marks_clear(&r->owed);
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

void rounds_add(struct rounds *r, const struct stub_handle *by, const struct stub_owed *o, size_t n)
{
	pthread_mutex_lock(&r->lock);
	for (struct round *x = r->first; x; x = x->next) {
		if (by && !x->names && !x->filling && !marks_has(&x->owed, mark_of_handle(by)))
			continue; /* it was right since */
		for (size_t i = 0; i < n; i++)
			add(x, &o[i]);
	}
	pthread_mutex_unlock(&r->lock);
}
