/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * called.h - how long the old server took to answer: from the moment in which a call was on its
 * way to the one in which its answer was here, without the time for which it waited for its
 * turn.  An answer that says "later" (JUKEBOX) is one, too.  Of the whole process.
 */
#ifndef SOURCE_CALLED_H
#define SOURCE_CALLED_H

#include "source/histogram.h"

enum called {
	CALLED_LOOKUP,
	CALLED_LISTING, /* NFS: one page; SMB and file://: a directory */
	CALLED_ATTRIBUTES,
	CALLED_READ,
	CALLED_OTHER,
	CALLED_KINDS
};

extern struct histogram called_times[CALLED_KINDS];
extern const struct histogram_steps called_steps;

void called(enum called kind, uint64_t since_us); /* since_us: stub_now_us() then */
const char *called_name(enum called kind);

#endif
