/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * express.h - that for which clients wait is carried over before all else (docs/decisions/0093), and clients are
 * told for how long it is worth waiting.
 */
#ifndef MIRROR_EXPRESS_H
#define MIRROR_EXPRESS_H

#include "mirror.h"

int express_create(struct mirror *m, struct express **out);
/* The target is stopped before. */
void express_destroy(struct express *e);
/* Does a client that changes something wait for the mirror, if the mode is such? */
bool express_follows(struct express *e);
/* By how much each change is slowed down, us. */
uint32_t express_delay(struct express *e);

#endif
