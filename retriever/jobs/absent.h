/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * absent.h - names that the old server said it does not have.
 *
 * A client waits only for a while, is told "later", and asks again.  By then a name that
 * exists has been made; one that does not would be asked for at the old server again, and
 * if that always takes longer than the client waits, for ever: nothing new could be created
 * in an unlisted directory.  So "no such name" is kept until the client has asked again.
 * It cannot become wrong meanwhile, since the old server is frozen.
 *
 * Other tables of this type keep objects, by the name "": those that have just been parked
 * (whoever looks into their directory asks for them, and each try may cost the old server
 * seconds), and those that the crawler need not ask for now.
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
void absent_forget(struct absent *a); /* empties the table */

/* The old server has no @name (up to STUB_NAME_MAX bytes) in @dir.  @hash: any function of the two. */
void absent_remember(struct absent *a, uint32_t hash, const struct stub_handle *dir,
		     const char *name, size_t name_len);
bool absent_known(struct absent *a, uint32_t hash, const struct stub_handle *dir, const char *name,
		  size_t name_len);

#endif
