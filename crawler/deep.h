/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * deep.h - directories deepest first, while too many are known and not listed
 * (docs/decisions/0073).
 *
 * Listing a directory takes one out of the journal and brings all that are in it. In the journal's
 * order, or any other that does not know which is in which, those that are known become as many as
 * a level of the tree has. So when they are half of what is listed ahead, those come next that are
 * in the directory that was listed last.
 *
 * A hint: what is not known here is in the queue. Memory: the handles of some directories.
 */
#ifndef CRAWLER_DEEP_H
#define CRAWLER_DEEP_H

#include "queue.h"

#define DEEP_ROOM 256 /* directories; of more the oldest is forgotten */

struct deep;

/*
 * The next directory in @dir behind *at, which is 0 at first, listed or not: 1 and *out; 0: there
 * is none any more; -EAGAIN: not found yet, go on; other -errno: as 0.
 */
typedef int (*deep_fn)(void *arg, const struct stub_handle *dir, long *at, struct stub_handle *out);

int deep_create(deep_fn next, void *arg, struct deep **out);
void deep_destroy(struct deep *d);

/* The directory was listed just now. */
void deep_listed(struct deep *d, const struct stub_handle *h);

/* 1 and *out, which rests from now on (queue.h); 0: nothing is known, or there are few;
 * -errno of the journal. */
int deep_next(struct deep *d, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out);

/* What is in a directory of the volume @arg (deep_names.c): a deep_fn. */
int deep_names(void *arg, const struct stub_handle *dir, long *at, struct stub_handle *out);

#endif
