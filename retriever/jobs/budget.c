/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>

#include "jobs/budget.h"
#include "stubcore.h"

void budget_init(struct budget *b, uint64_t bytes)
{
	pthread_mutex_init(&b->lock, NULL);
	stub_cond_init(&b->freed);
	b->left[BUDGET_CLIENTS] = bytes / 3;
	b->left[BUDGET_CRAWLER] = bytes - bytes / 3;
}

void budget_finish(struct budget *b)
{
	pthread_cond_destroy(&b->freed);
	pthread_mutex_destroy(&b->lock);
}

void budget_take(struct budget *b, enum budget_whose w, uint32_t n)
{
	pthread_mutex_lock(&b->lock);
	while (b->left[w] < n)
		pthread_cond_wait(&b->freed, &b->lock);
	b->left[w] -= n;
	pthread_mutex_unlock(&b->lock);
}

bool budget_take_for(struct budget *b, enum budget_whose w, uint32_t n, unsigned int ms)
{
	uint64_t until_ms = stub_now_ms() + ms;
	bool ok;

	pthread_mutex_lock(&b->lock);
	while (b->left[w] < n && stub_cond_wait_until(&b->freed, &b->lock, until_ms) == 0)
		;
	ok = b->left[w] >= n;
	if (ok)
		b->left[w] -= n;
	pthread_mutex_unlock(&b->lock);
	return ok;
}

bool budget_try(struct budget *b, enum budget_whose w, uint32_t n)
{
	bool ok;

	pthread_mutex_lock(&b->lock);
	ok = b->left[w] >= n;
	if (ok)
		b->left[w] -= n;
	pthread_mutex_unlock(&b->lock);
	return ok;
}

void budget_give(struct budget *b, enum budget_whose w, uint32_t n)
{
	pthread_mutex_lock(&b->lock);
	b->left[w] += n;
	pthread_cond_broadcast(&b->freed);
	pthread_mutex_unlock(&b->lock);
}
