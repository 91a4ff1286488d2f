/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pace.h - how many asks are in flight: found by measuring, not set.
 *
 * The number grows while that brings more answers a second by a good part of what it could
 * bring, and shrinks where fewer do as well; in between it stays, and is tried again later.
 * Near the old server a few do; at the end of a long line it takes hundreds.  What was asked
 * for in vain only makes clients wait, here and there.
 *
 * Time is measured in epochs: long enough for a rate, and with as many asks in flight as there
 * may be most of the time; others say nothing.  No thread, no clock of its own.
 */
#ifndef CRAWLER_PACE_H
#define CRAWLER_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	unsigned int window; /* so many may be in flight */
	unsigned int least, most;
	/* this epoch */
	uint64_t since_ms;
	unsigned int answers, busy; /* of them with all places taken */
	/* what is tried: another window than @usual, whose rate is known */
	enum { PACE_MEASURE, PACE_MORE, PACE_FEWER } trying;
	bool growing; /* nothing has been in vain yet */
	bool up; /* the next trial is with more */
	unsigned int usual;
	double rate; /* answers per second with @usual in flight */
	uint64_t try_at_ms;
	unsigned int rest_ms; /* between two trials */
};

/* It stays between @least and @most; equal ones: nothing is tried. */
void pace_init(struct pace *p, unsigned int least, unsigned int most);
/* An object is done; @busy: with it, as many were in flight as there may be. */
void pace_done(struct pace *p, uint64_t now_ms, bool busy);

#endif
