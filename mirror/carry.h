/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * carry.h - one object that is owed: compared, and struck, or put back to be compared later.
 */
#ifndef MIRROR_CARRY_H
#define MIRROR_CARRY_H

#include "mirror.h"

struct carried {
	struct mirror *m;
	struct stub_owed o; /* the caller has it from the desk */
	unsigned int tries;
	/* somebody waits for it (express.c): it is compared whether it stands in the ledger or not */
	bool awaited;
	uint64_t from, to;   /* of these bytes only, if it is large; 0, 0: of all */
	const char *const *name; /* of a directory, of these names only; none: of all */
	unsigned int names;
	bool only_times;     /* nobody waits for other attributes of it */
	struct made *made;   /* what is made by that is noted; NULL: it is not */
	/* out */
	bool begun;
	bool newer; /* AGAIN only because of changes since it began */
};

/* What became of it; what has failed is REFUSED, and parked. */
int carry(struct carried *c);

#endif
