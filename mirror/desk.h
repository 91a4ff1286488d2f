/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * desk.h - which objects are being compared, and when each may be compared next.  In memory: the
 * ledger knows what is owed.
 */
#ifndef MIRROR_DESK_H
#define MIRROR_DESK_H

#include "stubcore.h"

enum desk_why { DESK_HOT, DESK_LATER, DESK_WAITS, DESK_UNPLACED, DESK_UNMADE, DESK_FULL, DESK_PARKED, DESK_WHYS };

struct desk_parked {
	struct stub_handle h;
	char *path, *what; /* bytes; of names, the name is in the path */
	int error;
};

struct desk;

int desk_create(struct desk **out);
void desk_destroy(struct desk *d);

/* May @h be compared now?  Then somebody has it until desk_rest().  *tries: how often it has rested
 * for DESK_LATER since it did for another reason; @tries may be NULL. */
bool desk_take(struct desk *d, const struct stub_handle *h, unsigned int *tries);
/* Now, although it rests; it does not rest any longer by that. */
bool desk_take_now(struct desk *d, const struct stub_handle *h);
/* Not before @ms from when it was taken; @right: nothing is owed of it, or the ledger will tell. */
void desk_rest(struct desk *d, const struct stub_handle *h, enum desk_why why, unsigned int ms,
	       bool right);
/* Why @h will be parked when it rests; several, for several names.  Told again, they are as before. */
void desk_park(struct desk *d, const struct stub_handle *h, const char *path, const char *what,
	       int error);
void desk_again(struct desk *d); /* nothing rests any more */
/* @h does not, or will not when it is put back: what it rests for may have come. */
void desk_wake(struct desk *d, const struct stub_handle *h);
void desk_sweep(struct desk *d); /* forget what rests no more, and is right */

/* How many rest for each reason; how long the longest of what is owed is known, ms. */
struct desk_counts {
	uint64_t of[DESK_WHYS], busy, oldest_ms;
	uint64_t behind_ms; /* the same of what is only waiting for its turn */
};
void desk_counts(struct desk *d, struct desk_counts *out);
/* Up to @max of those that are parked, to be freed with free_parked(): how many; all in *total. */
size_t desk_list(struct desk *d, struct desk_parked *out, size_t max, uint64_t *total);
void desk_free_parked(struct desk_parked *p, size_t n);

#endif
