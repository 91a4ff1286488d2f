/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * kept.h - files of which the mirror has nothing that it could lose.
 *
 * What is written unstable and not committed reads as if it were right, until the mirror loses its power: a comparison
 * that finds a file equal proves nothing, unless this replicator knows that what was written before is kept.  It does
 * of those that it has brought to an end itself; of all others there may be something that one before it wrote.
 */
#ifndef MIRROR_KEPT_H
#define MIRROR_KEPT_H

#include "mirror.h"

struct kept;

int kept_create(struct kept **out);
void kept_destroy(struct kept *k);
/* Was it?  It is not any more: something will be written. */
bool kept_take(struct kept *k, const struct stub_handle *h);
/* All that was written is durable over there.  Without memory it is forgotten, which costs a commit. */
void kept_put(struct kept *k, const struct stub_handle *h);

#endif
