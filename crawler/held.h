/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * held.h - the entries that are not to be asked for again just now.
 *
 * A table of fixed size, so that the crawler's memory does not depend on the
 * journal. It keeps a 64-bit fingerprint of the handle and a time, not the handle:
 *   - two handles with one fingerprint: one of them waits a few seconds longer
 *   - table crowded: the entry that would be let go first is forgotten early and
 *     asked for twice, which the retriever answers at once
 * Neither loses anything.
 */
#ifndef CRAWLER_HELD_H
#define CRAWLER_HELD_H

#include "stubcore.h"

#define HELD_FOREVER UINT64_MAX /* in flight: until the answer says otherwise */

struct held;

int held_create(struct held **out); /* 0 or -ENOMEM */
void held_destroy(struct held *t);

uint64_t held_key(const struct stub_handle *h);

/* Not before @until_ms. Replaces what was said of this key before. */
void held_put(struct held *t, uint64_t key, uint64_t until_ms);
void held_clear(struct held *t); /* nothing is held any more */
bool held_is(const struct held *t, uint64_t key, uint64_t now_ms);

#endif
