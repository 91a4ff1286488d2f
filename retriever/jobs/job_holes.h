/* SPDX-License-Identifier: GPL-3.0-or-later */
/* job_holes.h - holes of a file that is being filled: see job_holes.c. */
#ifndef JOB_HOLES_H
#define JOB_HOLES_H

#include "jobs/jobs_internal.h"

struct holes {
	bool wanted;
	struct source_holes known; /* the last answer */
	uint32_t at; /* of its holes, those before this one are behind us */
	uint64_t rest; /* bytes that are read after an answer without holes */
};

void holes_init(struct holes *h);
void holes_finish(struct holes *h); /* from now on everything is read */

/* There is a new answer, about what begins at @at. */
void holes_known(struct holes *h, uint64_t at);

/*
 * What does @r, which is missing and of which something is known, begin with?  True: with a
 * hole, and *@r is that, which may be longer than @r was.  False: with data, and *@r is cut to
 * what of it is no hole, and known.  @r begins where the one before did, or later.
 */
bool holes_cut(struct holes *h, struct stub_range *r);

enum holes_step {
	HOLES_READ, /* read *@r, which was perhaps cut */
	HOLES_LEFT, /* *@r was a hole, and is one here; *@left bytes are missing in the file */
	HOLES_WAIT, /* for the reads in flight, then again */
};
/* @r is missing.  @alone: nothing is in flight. */
enum holes_step holes_next(struct jobs *j, struct job *job, const struct stub_object *o,
			   struct holes *h, bool alone, struct stub_range *r, int64_t *left);

#endif
