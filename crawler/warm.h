/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * warm.h - what clients will want next: the rest of the directories in which they have just met
 * what was not here (docs/decisions/0071).
 *
 * The retriever tells which (stub_heat_get()). The last one comes first: the directory itself, which
 * may not be listed, then all that is in it. Each is gone through once each time it is told.
 *
 * A hint: what is not found here is in the queue. Memory: the handles of some directories.
 */
#ifndef CRAWLER_WARM_H
#define CRAWLER_WARM_H

#include "queue.h"

struct warm;

int warm_create(struct stub_volume *v, struct warm **out);
void warm_destroy(struct warm *w);

/* 1 and *out, which rests from now on (queue.h); 0: nothing is known, or nothing yet; -errno of
 * the journal. */
int warm_next(struct warm *w, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out);

#endif
