/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * places.h - what an order says of directories: these first, those last (docs/decisions/0073).
 *
 * The journal knows no path.  But that of a directory is known from its handle, so of each one that
 * is listed or given out it is looked whether a pattern means it, and what it means is gone
 * through: names that come first are asked for, files that come last are noted.  Besides, what the
 * patterns mean is gone through from the root every so often, for what was listed before the
 * order was said, was moved, or was listed by clients.
 *
 * Paths are those of now, at the new server: what a client moves is from then on where it is.
 *
 * A hint, as warm.h: what is not found here is in the queue. Memory: the handles of some
 * directories, the best of what was found, and of the files that come last 8 bytes each, twice, of
 * KEYSET_MOST at most.
 */
#ifndef CRAWLER_PLACES_H
#define CRAWLER_PLACES_H

#include "order/order.h"
#include "queue.h"

struct places;

int places_create(struct stub_volume *v, stub_log_fn log, void *log_arg, struct places **out);
void places_destroy(struct places *p);

/* From now on. 0; -ENOMEM: it has no patterns then. */
int places_order(struct places *p, const struct order *o);

/* What comes first: 1 and *out, which rests from now on (queue.h); 0: nothing is known now; -errno
 * of the journal.  It looks at some names. */
int places_next(struct places *p, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out);
/* Is there more to look at, now? */
bool places_busy(const struct places *p, uint64_t now_ms);

/* The directory was listed just now. */
void places_listed(struct places *p, const struct stub_handle *h);

/* For queue_last(). */
bool places_last(void *places, const struct stub_journal_entry *e);
uint64_t places_last_files(void *places);

#endif
