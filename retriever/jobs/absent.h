/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * absent.h - names that the old server said it does not have.
 *
 * Whoever asks waits only so long, is told "later", and comes back.  A name that is
 * there is there then; one that is not would be asked for again, and if the old
 * server always takes longer than they wait, for ever: nothing new could be created
 * in an unlisted directory.  So "no such name" is kept until they have come back.
 * It cannot become wrong meanwhile, since the old server is frozen.
 *
 * A second one of it keeps, for as long, which objects have just been parked: they are
 * asked for by whoever looks into their directory, and each try may cost the old server
 * seconds.  Their name is "".
 */
#ifndef ABSENT_H
#define ABSENT_H

#include <pthread.h>

#include "stubcore.h"

#define ABSENT_SLOTS 1024 /* a name that falls into a taken slot takes it over */

struct absent_name {
	uint64_t until_ms; /* CLOCK_MONOTONIC */
	struct stub_handle dir;
	uint8_t name_len;
	char name[STUB_NAME_MAX];
};

struct absent {
	pthread_mutex_t lock; /* innermost */
	struct absent_name slot[ABSENT_SLOTS];
};

void absent_init(struct absent *a);
void absent_finish(struct absent *a);
unsigned int absent_count(struct absent *a); /* how many are kept now */
void absent_forget(struct absent *a); /* all of it */

/* The old server has no @name (up to STUB_NAME_MAX bytes) in @dir.  @hash: any function of the two. */
void absent_remember(struct absent *a, uint32_t hash, const struct stub_handle *dir,
		     const char *name, size_t name_len);
bool absent_known(struct absent *a, uint32_t hash, const struct stub_handle *dir, const char *name,
		  size_t name_len);

#endif
