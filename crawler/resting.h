/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * resting.h - the entries that are not to be asked for again just now.
 *
 * A table of fixed size, so that the crawler's memory does not depend on the
 * journal. It keeps a 64-bit fingerprint of the handle and a time, not the handle:
 *   - two handles with one fingerprint: one of them waits a few seconds longer
 *   - table crowded: the entry that would be let go first is forgotten early and
 *     asked for twice, which the retriever answers at once
 * Neither loses anything.
 */
#ifndef CRAWLER_RESTING_H
#define CRAWLER_RESTING_H

#include "stubcore.h"

#define RESTS_FOREVER UINT64_MAX /* in flight: until the answer says otherwise */

struct resting;

int resting_create(struct resting **out); /* 0 or -ENOMEM */
void resting_destroy(struct resting *t);

uint64_t resting_key(const struct stub_handle *h);

/* Not before @until_ms. Replaces what was said of this key before. */
void resting_put(struct resting *t, uint64_t key, uint64_t until_ms);
void resting_clear(struct resting *t); /* nothing rests any more */
bool resting_is(const struct resting *t, uint64_t key, uint64_t now_ms);
bool resting_flies(const struct resting *t, uint64_t key); /* it does, RESTS_FOREVER */
/* It does, or did, and its place was not needed since. */
bool resting_knows(const struct resting *t, uint64_t key);

#endif
