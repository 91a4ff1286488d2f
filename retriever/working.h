/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * working.h - was the crawler's work done lately?  By that the time of a migration is counted from
 * which its end is predicted (history.c).
 */
#ifndef RETRIEVER_WORKING_H
#define RETRIEVER_WORKING_H

#include <stdbool.h>
#include <stdint.h>

struct working { /* as it is at a moment */
	uint64_t begun; /* asks of the crawler that workers have taken up, ever */
	uint32_t in_hand; /* those that they have now */
	bool paused;
	bool lost; /* nothing comes from the old server */
	bool full; /* nothing goes onto the volume */
};

/* Between @before and @now. */
bool working_between(const struct working *before, const struct working *now);

#endif
