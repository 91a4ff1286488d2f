/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * partly.h - how much of large files is here already: for progress, which otherwise knows of a
 * file of a terabyte nothing until its last byte.
 *
 * Kept in memory for the files that were last filled, from what the fills know anyway.  Who looks
 * asks the journal which of them are still pending.
 */
#ifndef PARTLY_H
#define PARTLY_H

#include <pthread.h>

#include "stubcore.h"

#define PARTLY_FILES 128
#define PARTLY_BYTES (4u << 20) /* smaller files are not noted */

struct partly {
	pthread_mutex_t lock; /* a leaf */
	unsigned int n, next; /* slots in use; the one that goes when all are */
	struct {
		struct stub_handle h;
		uint64_t here;
	} file[PARTLY_FILES];
};

void partly_init(struct partly *p);
void partly_finish(struct partly *p);
/* Of the file @h of @size bytes @left are missing. */
void partly_note(struct partly *p, const struct stub_handle *h, uint64_t size, uint64_t left);
/* Bytes here of the files that were noted and are still pending in @j, and not parked.  The others
 * are forgotten. */
uint64_t partly_sum(struct partly *p, struct stub_journal *j);

#endif
