/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pace.h - how many are in flight, asks of the crawler or calls at the old server: found by
 * measuring, not set.
 *
 * The number grows while that brings more answers a second by a good part of what it could
 * bring, and shrinks where fewer do as well; in between it stays, and is tried again later.
 * Near the old server a few do; at the end of a long line it takes hundreds.  What was asked
 * for in vain only makes clients wait, here and there.
 *
 * Time is measured in epochs: long enough for a rate, and with as many in flight as there
 * may be most of the time; others say nothing.  No thread, no clock of its own.
 */
#ifndef SOURCE_PACE_H
#define SOURCE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	unsigned int window; /* so many may be in flight */
	unsigned int begin, least, most;
	/* this epoch */
	uint64_t since_ms, last_ms;
	uint64_t work;	    /* of the answers */
	unsigned int answers, busy; /* of them with all places taken */
	/* what is tried: another window than @usual, whose rate is known */
	enum { PACE_MEASURE, PACE_MORE, PACE_FEWER } trying;
	enum { PACE_GROWS, PACE_SHRINKS, PACE_SETTLED } phase; /* to begin with, until one trial was in vain */
	bool up; /* the next trial is with more */
	unsigned int usual;
	double rate; /* work per second with @usual in flight */
	uint64_t try_at_ms;
	unsigned int rest_ms; /* between two trials */
};

/* It begins with @least, and stays between that and @most; equal ones: nothing is tried. */
void pace_init(struct pace *p, unsigned int least, unsigned int most);
/* From another number, between them.  If more of it bring nothing, fewer are tried at once. */
void pace_begin(struct pace *p, unsigned int window);
/* Not more than @room can be in flight, whatever the window. */
void pace_room(struct pace *p, uint64_t now_ms, unsigned int room);
/* An object is done, or a call answered, that was so much @work, 1 or more; @busy: with it, as many were in
 * flight as there may be. */
void pace_done(struct pace *p, uint64_t now_ms, uint64_t work, bool busy);

#endif
