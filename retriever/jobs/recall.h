/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * recall.h - who recalls files, and how fast they may.
 *
 * A recall: a client is the first to read a file of which nothing is here yet.  Recalls are
 * counted for each who (stub_who(): user and client), and paid from that who's bucket of
 * tokens: a recall over the budget is held back, never refused
 * (docs/decisions/0019-recall-budget.md).
 *
 * Times are microseconds of any clock that does not go back; the caller brings them.
 */
#ifndef RECALL_H
#define RECALL_H

#include "stubcore.h"

#define RECALL_CLIENTS	   256	    /* remembered; the one that was quiet longest goes */
#define RECALL_HOLD_MAX_US 60000000 /* nothing is held back for longer */

struct recalls;

/* @per_minute: files that each may make come, on the long run; 0: no limit.
 * @burst: files at once after a rest, at least 1.  -ENOMEM */
int recalls_create(unsigned int per_minute, unsigned int burst, struct recalls **out);
void recalls_destroy(struct recalls *r);

/*
 * @who wants data of @h, of which nothing is here.  Returns when it may be fetched:
 * @now_us at the earliest, RECALL_HOLD_MAX_US later at the latest.  Asking again for the
 * same file costs nothing and has the same answer, as long as that is remembered (the
 * last few thousand).  Without a @who (""): now, and not counted.
 */
uint64_t recalls_take(struct recalls *r, const char *who, const struct stub_handle *h,
		      uint64_t now_us);

/* @bytes came for @who. */
void recalls_bytes(struct recalls *r, const char *who, uint64_t bytes, uint64_t now_us);

struct recall_client {
	char who[STUB_WHO_MAX + 1];
	uint64_t files;	  /* recalls */
	uint64_t bytes;	  /* of file data stored on behalf of it */
	uint64_t slowed;  /* so many of these were held back */
	uint64_t last_us; /* of its last recall or byte */
};

/* The clients that are remembered, most files first.  Returns how many, RECALL_CLIENTS at most. */
unsigned int recalls_clients(struct recalls *r, struct recall_client out[RECALL_CLIENTS]);

#endif
