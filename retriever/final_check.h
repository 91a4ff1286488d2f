/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * final_check.h - is anything missing that the journal knows nothing of?
 *
 * Counter 0 says that all is here that the retriever ever made.  A stub that somebody has
 * copied inside the volume, as root or from a backup, is in no journal: before the volume
 * is complete, when the servers stop looking for records, every object is looked at once
 * (docs/decisions/0027).
 */
#ifndef RETRIEVER_FINAL_CHECK_H
#define RETRIEVER_FINAL_CHECK_H

#include <limits.h>

#include "control.h"

#define FINAL_PATHS 8 /* objects that are named */

enum final_state {
	FINAL_DUE,	/* not begun, or to be done again */
	FINAL_RUNNING,
	FINAL_WHOLE,	/* nothing is missing */
	FINAL_FOUND,	/* something is */
	FINAL_FAILED,	/* it broke off; becomes due by itself */
};

struct final_found {
	enum final_state state;
	uint64_t copies;  /* records that are another inode's */
	uint64_t damaged; /* records */
	uint64_t stubs;	  /* that the journal ought to know */
	unsigned int n;
	char path[FINAL_PATHS][PATH_MAX]; /* of copies and damaged ones, below the volume */
};

/* All of them may be called from any thread. */
struct final_check;
int final_check_create(const struct control_config *c, struct final_check **out);
void final_check_destroy(struct final_check *f); /* a check that is running breaks off */

/* Begins if it is due; returns the state. */
enum final_state final_check_run(struct final_check *f);
/* What was found may be gone by now: then it is due again.  Cheap, for every tick. */
void final_check_tick(struct final_check *f);
/* Due again, if it is not running. */
void final_check_again(struct final_check *f);
/* A check that is running may end within its first @ms: waits for that.  True: it did. */
bool final_check_wait(struct final_check *f, unsigned int ms);
void final_check_found(struct final_check *f, struct final_found *out);

#endif
