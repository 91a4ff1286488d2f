/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "desk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SUMS	  (1u << 16)
#define NAMES_MAX 64 /* told of one directory */
#define TOLD_MAX  100000 /* of all; others are parked, and told when there is room */
#define SEATS_MAX 200000 /* with so many, those that wait for a fill are not kept */

struct told {
	struct told *next;
	struct desk_parked p;
};

struct seat {
	struct seat *next;
	struct stub_handle h;
	bool busy, right, woken;
	enum desk_why why;
	uint64_t first_ms, taken_ms, until_ms;
	uint64_t due_ms; /* it was taken although it rests, until then; 0: it did not */
	struct told *told, *news; /* of before; of the comparison that is under way */
	unsigned int n_news, tries;
};

struct desk {
	pthread_mutex_t lock;
	size_t told, seats;
	struct seat *at[SUMS];
};

int desk_create(struct desk **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

static void free_told(struct desk *d, struct told **list)
{
	struct told *t;

	while ((t = *list)) {
		*list = t->next;
		desk_free_parked(&t->p, 1);
		free(t);
		d->told--;
	}
}

static void free_seat(struct desk *d, struct seat *s)
{
	free_told(d, &s->told);
	free_told(d, &s->news);
	free(s);
	d->seats--;
}

void desk_destroy(struct desk *d)
{
	struct seat *s;

	if (!d)
		return;
	for (size_t i = 0; i < SUMS; i++)
		while ((s = d->at[i])) {
			d->at[i] = s->next;
			free_seat(d, s);
		}
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Where @h sits, or would. */
static struct seat **find(struct desk *d, const struct stub_handle *h)
{
	struct seat **at = &d->at[stub_handle_sum(h) & (SUMS - 1)];

	while (*at && !stub_handle_equal(&(*at)->h, h))
		at = &(*at)->next;
	return at;
}

static bool take(struct desk *d, const struct stub_handle *h, bool at_once, unsigned int *tries)
{
	uint64_t now = stub_now_ms();
	struct seat **at, *s;
	bool free_now = false;

	pthread_mutex_lock(&d->lock);
	at = find(d, h);
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at) {
			(*at)->h = *h;
			(*at)->first_ms = now;
			d->seats++;
		}
	}
	s = *at;
	if (s && !s->busy && (at_once || now >= s->until_ms)) {
		s->busy = free_now = true;
		s->taken_ms = now;
		s->due_ms = at_once ? s->until_ms : 0;
		if (s->right) { /* not before: what asks may be older than what was found right */
			s->right = false;
			s->first_ms = now;
		}
		if (tries)
			*tries = s->tries;
	}
	pthread_mutex_unlock(&d->lock);
	return free_now;
}

bool desk_take(struct desk *d, const struct stub_handle *h, unsigned int *tries)
{
	return take(d, h, false, tries);
}

bool desk_take_now(struct desk *d, const struct stub_handle *h)
{
	return take(d, h, true, NULL);
}

void desk_rest(struct desk *d, const struct stub_handle *h, enum desk_why why, unsigned int ms,
	       bool right)
{
	struct seat **at, *s;

	pthread_mutex_lock(&d->lock);
	at = find(d, h);
	s = *at;
	if (s && why == DESK_WAITS && d->seats > SEATS_MAX) {
		*at = s->next;
		free_seat(d, s);
	} else if (s) {
		free_told(d, &s->told);
		s->told = s->news;
		s->news = NULL;
		s->n_news = 0;
		s->busy = false;
		s->right = right;
		s->why = why;
		s->tries = why == DESK_LATER ? s->tries + 1 : why == DESK_PARKED ? s->tries : 0;
		s->until_ms = s->woken ? 0 : s->taken_ms + ms;
		if (s->due_ms && s->due_ms < s->until_ms) /* who waits for a part puts the whole off no further */
			s->until_ms = s->due_ms;
		s->woken = false;
	}
	pthread_mutex_unlock(&d->lock);
}

void desk_park(struct desk *d, const struct stub_handle *h, const char *path, const char *what,
	       int error)
{
	struct told *t = calloc(1, sizeof(*t));
	struct seat *s;

	if (!t)
		return;
	t->p = (struct desk_parked){ *h, strdup(path), strdup(what), error };
	pthread_mutex_lock(&d->lock);
	s = *find(d, h);
	if (s && t->p.path && t->p.what && s->n_news < NAMES_MAX && d->told < TOLD_MAX) {
		t->next = s->news;
		s->news = t;
		s->n_news++;
		d->told++;
		t = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	if (t) {
		desk_free_parked(&t->p, 1);
		free(t);
	}
}

void desk_again(struct desk *d)
{
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < SUMS; i++)
		for (struct seat *s = d->at[i]; s; s = s->next)
			s->until_ms = 0;
	pthread_mutex_unlock(&d->lock);
}

void desk_wake(struct desk *d, const struct stub_handle *h)
{
	struct seat *s;

	pthread_mutex_lock(&d->lock);
	s = *find(d, h);
	if (s && s->busy)
		s->woken = true;
	else if (s)
		s->until_ms = 0;
	pthread_mutex_unlock(&d->lock);
}

void desk_sweep(struct desk *d)
{
	uint64_t now = stub_now_ms();
	struct seat **at, *s;

	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < SUMS; i++)
		for (at = &d->at[i]; (s = *at);) {
			if (s->busy || !s->right || now < s->until_ms) {
				at = &s->next;
				continue;
			}
			*at = s->next;
			free_seat(d, s);
		}
	pthread_mutex_unlock(&d->lock);
}

void desk_counts(struct desk *d, struct desk_counts *out)
{
	uint64_t now = stub_now_ms();

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < SUMS; i++)
		for (struct seat *s = d->at[i]; s; s = s->next) {
			if (s->right)
				continue;
			/* an object that is tried again counts for what it was, until it is known */
			if (s->until_ms || !s->busy)
				out->of[s->why]++;
			out->busy += s->busy;
			if (now - s->first_ms > out->oldest_ms)
				out->oldest_ms = now - s->first_ms;
			if ((s->why == DESK_HOT || s->why == DESK_LATER) && now - s->first_ms > out->behind_ms)
				out->behind_ms = now - s->first_ms;
		}
	pthread_mutex_unlock(&d->lock);
}

static bool copy(const struct desk_parked *p, struct desk_parked *out)
{
	*out = *p;
	out->path = strdup(p->path);
	out->what = strdup(p->what);
	if (out->path && out->what)
		return true;
	desk_free_parked(out, 1);
	return false;
}

size_t desk_list(struct desk *d, struct desk_parked *out, size_t max, uint64_t *total)
{
	size_t n = 0;

	*total = 0;
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < SUMS; i++)
		for (struct seat *s = d->at[i]; s; s = s->next) {
			for (struct told *t = s->told; t; t = t->next) {
				++*total;
				if (n < max && copy(&t->p, &out[n]))
					n++;
			}
		}
	pthread_mutex_unlock(&d->lock);
	return n;
}

void desk_free_parked(struct desk_parked *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(p[i].path);
		free(p[i].what);
	}
}
