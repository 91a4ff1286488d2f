/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * final_check.h - is anything missing that the journal knows nothing of?
 *
 * Counter 0 says that nothing is missing in what the retriever has made.  A stub that
 * somebody has copied inside the volume, as root or from a backup, is in no journal.  When the
 * volume is complete the servers stop looking for records; so before that every object is
 * looked at once (docs/decisions/0027).
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
	uint64_t stubs;	  /* that are not in the journal, and ought to be */
	unsigned int n;
	char path[FINAL_PATHS][PATH_MAX]; /* of copies and damaged ones, below the volume */
};

/* All of them may be called from any thread. */
struct final_check;
int final_check_create(const struct control_config *c, struct final_check **out);
void final_check_destroy(struct final_check *f); /* a check that is running breaks off */

/* Begin the check if it is due; returns the state. */
enum final_state final_check_run(struct final_check *f);
/* If what was found is gone by now, the check is due again.  Cheap, for every tick. */
void final_check_tick(struct final_check *f);
/* Make it due again, if it is not running. */
void final_check_again(struct final_check *f);
/* A check that is running may end within its first @ms: waits for that.  True: it did. */
bool final_check_wait(struct final_check *f, unsigned int ms);
void final_check_found(struct final_check *f, struct final_found *out);

#endif
