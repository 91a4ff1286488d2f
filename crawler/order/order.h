/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * order.h - in which order the crawler asks for what is pending: what an administrator wants first
 * (docs/decisions/0071).
 *
 *   recent      what was changed last at the old server
 *   small       small files
 *   large       large files
 *   ahead=N     directories are listed until N objects wait; then files come first
 *   first=PATTERN  what is in these directories comes before all else (pattern.h)
 *   last=PATTERN   and this when there is nothing else to ask for
 *
 * The first word decides, the next one among those that are alike for it.  To be alike is to be of
 * one class: ages and sizes go by powers of two.  Where a directory is comes before that.
 *
 * It is a hint: what is done, and that all is done, does not depend on it.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "order/pattern.h"
#include "stubcore.h"

#define ORDER_AHEAD	  500000 /* unless something else is said */
#define ORDER_AHEAD_LEAST 1000
#define ORDER_AHEAD_MOST  1000000000
#define ORDER_PATTERNS	  16
#define ORDER_TEXT	  64
#define ORDER_LINE	  (PATTERN_SIZE + 8) /* a pattern, with what is in front */
#define ORDER_ALL	  (ORDER_TEXT + ORDER_PATTERNS * ORDER_LINE)

enum order_key {
	ORDER_RECENT,
	ORDER_SMALL,
	ORDER_LARGE,
	ORDER_KEYS,
};

enum order_when {
	ORDER_USUAL,
	ORDER_FIRST,
	ORDER_LAST,
};

struct order {
	uint8_t key[ORDER_KEYS]; /* enum order_key */
	unsigned int keys; /* 0: as the journal has them */
	uint32_t ahead;
	unsigned int patterns;
	struct {
		enum order_when when; /* not ORDER_USUAL */
		char text[PATTERN_SIZE];
	} pattern[ORDER_PATTERNS];
};

struct order_place {
	enum order_when when;
	bool below; /* another time may be meant of something below */
	bool way; /* something below comes first: this directory is to be listed first, too */
};

/* As it is where nothing was said. */
void order_init(struct order *o);
/* Take one word more.  -EINVAL and why: what is wrong, and what would be right. */
int order_take(struct order *o, const char *word, char *why, size_t size);
/* Its words without patterns, with a blank between them; "" if they are those of order_init(). */
void order_text(const struct order *o, char out[ORDER_TEXT]);
/* All of them. */
void order_all(const struct order *o, char out[ORDER_ALL]);
/* "first=PATTERN", as it is said. */
void order_line(const struct order *o, unsigned int i, char out[ORDER_LINE]);

bool order_equal(const struct order *a, const struct order *b);

/* When the directory at @path, from the volume's root ("": the root), and the files in it come.
 * The pattern counts that means the deepest directory of it and those above, and of two of these
 * the one that was said first. */
struct order_place order_place(const struct order *o, const char *path);

/* What is less comes first; of those that come at one time. */
uint64_t order_rank(const struct order *o, const struct stub_journal_entry *e, time_t now);

/* ---- .postcopy/order of the volume whose root is @root_fd (order_file.c) ---- */

/* That of order_init() if there is no such file, and after each failure.  -EBADMSG: not what
 * order_store() writes; -EPROTONOSUPPORT: a newer release has written it; other -errno. */
int order_load(int root_fd, struct order *out);
/* On the disk when it returns, whole or not at all.  -errno */
int order_store(int root_fd, const struct order *o);

#endif
