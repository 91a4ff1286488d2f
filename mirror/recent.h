/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * recent.h - what files were over there when this replicator last had to do with them, some seconds ago.
 *
 * For those that somebody waits for: what is not asked for is not waited for.  It may be wrong, where somebody else
 * has changed the file over there, so who goes by it leaves the file owed, to be compared in earnest.
 */
#ifndef MIRROR_RECENT_H
#define MIRROR_RECENT_H

#include "mirror.h"

struct recent;

int recent_create(struct recent **out);
void recent_destroy(struct recent *r);
/* Was it @a, without an ACL?  It is forgotten: what is done to it now may fail half. */
bool recent_take(struct recent *r, const struct stub_handle *h, struct stub_attr *a);
void recent_put(struct recent *r, const struct stub_handle *h, const struct stub_attr *a);

#endif
