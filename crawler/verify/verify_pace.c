/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_pace.c - a comparison reads the source no faster than the crawl may: by the limits that
 * `postcopy throttle` has set, not while it is paused, and only in the crawler's windows.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "settings.h"
#include "verify/verify.h"
#include "window/window.h"

#define LOOK_MS 1000

struct verify_pace {
	int root_fd;
	const struct config *config;
	struct limiter *limiter;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
	uint64_t look_ms, rate;
	uint64_t free_us; /* from then on bytes may be read */
	_Atomic(const char *) waits;
};

/* With the lock. */
static void look(struct verify_pace *p)
{
	struct limiter_rules rules;
	struct settings s;
	struct windows w;
	const char *waits = NULL;

	if (stub_now_ms() < p->look_ms)
		return;
	p->look_ms = stub_now_ms() + LOOK_MS;
	settings_load(p->root_fd, &s); /* what cannot be read is not set */
	p->rate = settings_rate(&s, p->config);
	rules = settings_rules(&s, p->config);
	limiter_set(p->limiter, &rules);
	if (s.paused)
		waits = "paused ('postcopy resume')";
	if (!waits && windows_load(p->root_fd, &w) == 0 && !windows_open(&w, time(NULL)))
		waits = "outside of the crawler's hours ('postcopy window')";
	atomic_store(&p->waits, waits);
}

int verify_pace_turn(struct verify_pace *p, uint64_t bytes)
{
	uint64_t now;
	int r;

	pthread_mutex_lock(&p->lock);
	for (look(p); !p->stop && atomic_load(&p->waits); look(p))
		stub_cond_wait_until(&p->changed, &p->lock, stub_now_ms() + LOOK_MS / 4);
	now = stub_now_us();
	if (p->free_us < now)
		p->free_us = now;
	while (!p->stop && p->rate && p->free_us > stub_now_us()) {
		/* in small steps: the rate may be raised meanwhile */
		now = (p->free_us - stub_now_us()) / 1000 + 1;
		stub_cond_wait_until(&p->changed, &p->lock,
				     stub_now_ms() + (now < LOOK_MS ? now : LOOK_MS));
		look(p);
	}
	if (p->rate) /* who comes next waits for these */
		p->free_us += bytes * 1000000 / p->rate;
	r = p->stop ? -ECANCELED : 0;
	pthread_mutex_unlock(&p->lock);
	return r;
}

void verify_pace_stop(struct verify_pace *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

const char *verify_pace_waits(const struct verify_pace *p)
{
	return atomic_load(&p->waits);
}

int verify_pace_create(int root_fd, const struct config *c, struct limiter *limiter,
		       struct verify_pace **out)
{
	struct verify_pace *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->root_fd = root_fd;
	p->config = c;
	p->limiter = limiter;
	pthread_mutex_init(&p->lock, NULL);
	stub_cond_init(&p->changed);
	look(p);
	*out = p;
	return 0;
}

void verify_pace_destroy(struct verify_pace *p)
{
	if (!p)
		return;
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
