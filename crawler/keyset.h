/* SPDX-License-Identifier: GPL-3.0-or-later */
/* keyset.h - a set of keys of handles (resting_key()): which files come last. */
#ifndef CRAWLER_KEYSET_H
#define CRAWLER_KEYSET_H

#include <stdbool.h>
#include <stdint.h>

#define KEYSET_MOST 786432u /* 8 MiB */

struct keyset {
	uint64_t *key; /* 0: free */
	uint32_t slots, n;
};

/* 0; -ENOSPC: it is full; -ENOMEM */
int keyset_put(struct keyset *s, uint64_t key);
bool keyset_has(const struct keyset *s, uint64_t key);
/* Nothing is in it, and it has no memory. */
void keyset_clear(struct keyset *s);

#endif
