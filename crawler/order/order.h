/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * order.h - in which order the crawler asks for what is pending: what an administrator wants first
 * (docs/decisions/0071).
 *
 *   recent      what was changed last at the old server
 *   small       small files
 *   large       large files
 *   ahead=N     directories are listed until N objects wait; then files come first
 *
 * The first word decides, the next one among those that are alike for it.  To be alike is to be of
 * one class: ages and sizes go by powers of two.
 *
 * It is a hint: what is done, and that all is done, does not depend on it.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "stubcore.h"

#define ORDER_AHEAD	  500000 /* unless something else is said */
#define ORDER_AHEAD_LEAST 1000
#define ORDER_AHEAD_MOST  1000000000
#define ORDER_TEXT	  64

enum order_key {
	ORDER_RECENT,
	ORDER_SMALL,
	ORDER_LARGE,
	ORDER_KEYS,
};

struct order {
	uint8_t key[ORDER_KEYS]; /* enum order_key */
	unsigned int keys; /* 0: as the journal has them */
	uint32_t ahead;
};

/* As it is where nothing was said. */
void order_init(struct order *o);
/* Take one word more.  -EINVAL and why: what is wrong, and what would be right. */
int order_take(struct order *o, const char *word, char *why, size_t size);
/* Its words, with a blank between them; "" if it is that of order_init(). */
void order_text(const struct order *o, char out[ORDER_TEXT]);

bool order_equal(const struct order *a, const struct order *b);

/* What is less comes first. */
uint64_t order_rank(const struct order *o, const struct stub_journal_entry *e, time_t now);

/* ---- .postcopy/order of the volume whose root is @root_fd (order_file.c) ---- */

/* That of order_init() if there is no such file, and after each failure.  -EBADMSG: not what
 * order_store() writes; other -errno. */
int order_load(int root_fd, struct order *out);
/* On the disk when it returns, whole or not at all.  -errno */
int order_store(int root_fd, const struct order *o);

#endif
