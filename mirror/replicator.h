/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * replicator.h - carries what is owed over, until it is stopped.
 */
#ifndef MIRROR_REPLICATOR_H
#define MIRROR_REPLICATOR_H

#include "mirror.h"

struct replicator;

int replicator_create(struct mirror *m, struct replicator **out);
/* The target is stopped before (source_stop()), so that nothing waits for it. */
void replicator_destroy(struct replicator *r);
void replicator_wake(struct replicator *r); /* look now */
uint64_t replicator_turns(struct replicator *r); /* for a watchdog: they grow */

#endif
