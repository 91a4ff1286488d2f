/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * That asks begin is not enough: on a narrow line, with much in flight, none may begin or end for
 * minutes, while bytes come all the time.  Nor is it needed: so work that waits for an answer is
 * work, whether the answer is a long one or late.  What waits for a person or for a source that is
 * away is none.
 */
#include "working.h"

bool working_between(const struct working *before, const struct working *now)
{
	if (now->lost || now->full)
		return false;
	return now->begun != before->begun || (now->in_hand && !now->paused);
}
