/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * again.h - what was un-parked by hand is asked for, also if no crawler runs.
 */
#ifndef RETRIEVER_AGAIN_H
#define RETRIEVER_AGAIN_H

#include "control.h"

#define AGAIN_MAX 65536 /* objects that are remembered: 9 MB */

struct again;

int again_create(const struct control_config *c, struct again **out);
void again_destroy(struct again *a);

/* The first AGAIN_MAX handles parked in one of the ways of @mask (1 << STUB_PARK_...), to be
 * freed by the caller; how many. */
size_t again_parked(struct again *a, unsigned int mask, struct stub_handle **out);

/* @h have just been un-parked.  Returns for how many there was room: the others wait for a
 * crawler.  Thread-safe. */
size_t again_add(struct again *a, const struct stub_handle *h, size_t n);

/* Twice a second, by one thread. */
void again_tick(struct again *a);

#endif
