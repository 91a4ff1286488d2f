/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify.h - is everything alike on both sides?  Looked at only, while clients go on.
 *
 * What differs although it is not owed, and was not when it was looked at again, is a difference.
 */
#ifndef MIRROR_VERIFY_H
#define MIRROR_VERIFY_H

#include "mirror.h"

#define VERIFY_TOLD 100 /* differences that are kept */
#define VERIFY_WHAT 96	/* bytes of what differs */

struct verify_difference {
	char path[4096 + STUB_NAME_MAX + 2]; /* below the volume's root; "": not known */
	char what[VERIFY_WHAT];
};

enum verify_state { VERIFY_NEVER, VERIFY_RUNS, VERIFY_DONE, VERIFY_STOPPED, VERIFY_FAILED };

struct verify_report {
	enum verify_state state;
	int error;	    /* of VERIFY_FAILED, -errno */
	bool repairs;	    /* what differs is owed by that */
	uint64_t ms;	    /* since it began, or what it took */
	uint64_t objects, bytes; /* that are alike; of files */
	uint64_t waiting;   /* the migration has not brought them */
	uint64_t owed;	    /* changed all the time: they could not be compared */
	uint64_t different; /* differences; the first ones are kept */
};

/* @m->ledger, target, aside are there. */
int verifier_create(struct mirror *m, struct verifier **out);
void verifier_destroy(struct verifier *v);

/* In threads of its own.
 *   -EBUSY  one runs, or has been stopped and waits for a mirror that is away
 *   -EAGAIN, -ENOMEM  no threads or memory */
int verifier_start(struct verifier *v, bool repairs);
void verifier_stop(struct verifier *v); /* without waiting for it */
/* Of the last one; @first has room for VERIFY_TOLD, or is NULL: how many are in it. */
unsigned int verifier_report(struct verifier *v, struct verify_report *out, struct verify_difference *first);

#endif
