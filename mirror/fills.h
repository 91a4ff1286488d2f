/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fills.h - asks the retriever, as the crawler does, for all that an object misses.  Nothing waits
 * for it: who wants something says so again each time it is looked at.
 */
#ifndef MIRROR_FILLS_H
#define MIRROR_FILLS_H

#include "mirror.h"

int fills_create(struct mirror *m, struct fills **out);
void fills_destroy(struct fills *f);
void fills_want(struct fills *f, const struct stub_handle *h);

#endif
