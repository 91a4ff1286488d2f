/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * lagging.h - the list of records that lag, which outlives its process (lagging.c).
 */
#ifndef STUBCORE_LAGGING_H
#define STUBCORE_LAGGING_H

#include "internal.h"

/* One process's list of one round.  No lock of its own: the caller's. */
struct stub_lagging {
	int fd; /* -1: there is none */
	char name[32];
	uint64_t n;
};

/* Note @h in the list.  -ENOSPC, -EROFS, -EIO, -EMFILE ...: it is not noted, and what it
 * counts as present must be made durable at once. */
int stub_lagging_add(const struct stub_volume *v, struct stub_lagging *l,
		     const struct stub_handle *h);
void stub_lagging_end(const struct stub_volume *v, struct stub_lagging *l); /* all is folded */
void stub_lagging_leave(struct stub_lagging *l); /* not all is: whoever adopts the list folds it */

/* Make durable what the @n records count as present, and fold their maps.  Returns how many
 * could not be folded: these are at the front of @h then. */
size_t stub_lagging_fold(struct stub_volume *v, struct stub_handle *h, size_t n);

/* Fold what dead processes have left.  @alone: nobody else has the volume open, so the file
 * system may have been unmounted since they died: lists of another mount are only removed. */
void stub_lagging_adopt(struct stub_volume *v, bool alone);

#endif
