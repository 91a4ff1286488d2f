/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * full.h - the new volume takes nothing: full, over quota, read-only, broken.
 *
 * Objects stay stubs then.  What a client reads meanwhile is passed on without being
 * stored (PASS, docs/decisions/0007), what the crawler asks for is answered with the
 * error, and tried again.  No space and read-only are states of the whole volume: for
 * a while after one nothing is fetched to be stored, since it would be thrown away.
 *
 * What was passed on is kept for a while: a client that was told to come again, because the
 * source is slow, gets it when it does.
 */
#ifndef FULL_H
#define FULL_H

#include <pthread.h>
#include <stdatomic.h>

#include "stubcore.h"

struct kept { /* bytes that were passed on a moment ago */
	struct stub_handle h;
	uint64_t offset, length, at_ms;
	int fd; /* -1: free */
};

#define KEPT_MAX 16

struct full {
	pthread_mutex_t lock; /* a leaf */
	atomic_int error; /* errno; 0: it takes data */
	uint64_t since_ms, until_ms, noted_ms;
	bool bytes; /* which it did not take; else it was names or attributes */
	struct kept kept[KEPT_MAX];
	unsigned int next_kept;
};

void full_init(struct full *f);
void full_finish(struct full *f);

enum full_what { FULL_NAMES, FULL_BYTES };

/* Storing @what failed with @error, one that says that the volume takes nothing. */
void full_note(struct full *f, enum full_what what, int error);
/* Storing @what has worked: true if it had failed before.  A volume on which there is no room for
 * bytes may take a name, so names say nothing of them unless no bytes were tried for a while. */
bool full_is_over(struct full *f, enum full_what what);
/* There may be room again: the next one of full_now() tries at once. */
void full_hint(struct full *f);
/* 0, or the error for which nothing need be fetched to be stored.  Now and then one caller gets
 * 0 and tries, whatever number of them asks. */
int full_now(struct full *f);
int full_state(struct full *f, uint64_t *for_ms); /* errno and since when; 0: it takes data */

/* The kept bytes [offset, offset+length): a descriptor of the caller's own, or -1. */
int full_find(struct full *f, const struct stub_handle *h, uint64_t offset, uint64_t length);
void full_keep(struct full *f, const struct stub_handle *h, uint64_t offset, uint64_t length,
	       int fd); /* stays the caller's */
void full_forget(struct full *f); /* all that is kept */

#endif
