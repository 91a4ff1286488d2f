/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * budget.h - memory for data between a READ reply and the disk.
 *
 * Clients with their read-ahead and the crawler have a budget each, so that neither waits
 * for the other.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum budget_whose { BUDGET_CLIENTS, BUDGET_CRAWLER };

struct budget {
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t freed;
	uint64_t left[2]; /* bytes, by enum budget_whose */
};

void budget_init(struct budget *b, uint64_t bytes); /* of both together */
void budget_finish(struct budget *b);
void budget_take(struct budget *b, enum budget_whose w, uint32_t n); /* waits for @n bytes */
/* The same for @ms at most; false: there were none. */
bool budget_take_for(struct budget *b, enum budget_whose w, uint32_t n, unsigned int ms);
bool budget_try(struct budget *b, enum budget_whose w, uint32_t n); /* false: not now */
void budget_give(struct budget *b, enum budget_whose w, uint32_t n);

#endif
