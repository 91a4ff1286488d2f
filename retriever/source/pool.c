// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source/pool.h"

void source_pool_init(struct source_pool *p, uint64_t give_up_ms)
{
	memset(p, 0, sizeof(*p));
	p->give_up_ms = give_up_ms;
	p->lost_since_ms = stub_now_ms();
	pthread_mutex_init(&p->lock, NULL);
	stub_cond_init(&p->ready);
}

void source_pool_finish(struct source_pool *p)
{
	pthread_cond_destroy(&p->ready);
	pthread_mutex_destroy(&p->lock);
}

void source_pool_up(struct source_pool *p, bool again)
{
	if (!p->usable++) {
		p->lost_since_ms = 0;
		p->given_up = false;
		p->trouble[0] = '\0';
	}
	p->n.reconnects += again;
}

void source_pool_down(struct source_pool *p, uint64_t silent_ms)
{
	if (!--p->usable)
		p->lost_since_ms = stub_now_ms() - silent_ms;
}

void source_pool_known(struct source_pool *p)
{
	p->known = true;
	pthread_cond_broadcast(&p->ready);
}

int source_pool_wait_known(struct source_pool *p, pthread_cond_t *nudge)
{
	while (!p->known) {
		if (p->stop)
			return -ECANCELED;
		if (source_pool_gave_up(p))
			return -ETIMEDOUT;
		if (nudge)
			pthread_cond_signal(nudge);
		pthread_cond_wait(&p->ready, &p->lock);
	}
	return 0;
}

bool source_pool_gave_up(const struct source_pool *p)
{
	return p->lost_since_ms && p->give_up_ms &&
	       stub_now_ms() - p->lost_since_ms >= p->give_up_ms;
}

bool source_pool_give_up(struct source_pool *p)
{
	bool tell = !p->given_up;

	p->given_up = true;
	pthread_cond_broadcast(&p->ready);
	return tell;
}

bool source_pool_trouble(struct source_pool *p, const char *why)
{
	if (p->stop || !strcmp(p->trouble, why))
		return false;
	snprintf(p->trouble, sizeof(p->trouble), "%s", why);
	return true;
}

void source_pool_state(const struct source_pool *p, struct source_state *out)
{
	out->connected = p->usable > 0;
	out->lost_since_ms = p->lost_since_ms;
	out->reconnects = p->n.reconnects;
	out->calls = p->n.calls;
	out->lookups = p->n.lookups;
	out->readdirs = p->n.readdirs;
	out->reads = p->n.reads;
	out->read_bytes = p->n.read_bytes;
	out->retries = p->n.retries;
	snprintf(out->trouble, sizeof(out->trouble), "%s", p->trouble);
}
