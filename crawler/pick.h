/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pick.h - the best of many entries: as many as there is room for, whatever is offered.
 *
 * Offer all, sort once, then take them, the best first; those that are alike come in the order in
 * which they were offered.  No clock, no journal.
 */
#ifndef CRAWLER_PICK_H
#define CRAWLER_PICK_H

#include "stubcore.h"

#define PICK_ROOM 4096

struct pick;

int pick_create(struct pick **out);
void pick_destroy(struct pick *p);
void pick_clear(struct pick *p);

/* What has a lower rank comes first.  False: it, or one before it, was left out. */
bool pick_offer(struct pick *p, uint64_t rank, const struct stub_journal_entry *e);
void pick_sort(struct pick *p);
/* After pick_sort().  False: none is left.  Of *out only handle and kind are set. */
bool pick_take(struct pick *p, struct stub_journal_entry *out);

#endif
