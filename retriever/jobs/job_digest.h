/* SPDX-License-Identifier: GPL-3.0-or-later */
/* job_digest.h - digests of what comes: job_digest.c.  Used by jobs/ alone. */
#ifndef JOB_DIGEST_H
#define JOB_DIGEST_H

#include <pthread.h>

#include "digest/digest.h"
#include "stubcore.h"

#define DIGESTS_BUCKETS 256

struct digesting;
struct digest_later;

struct digests {
	struct stub_volume *volume; /* NULL: nobody wants any */
	pthread_mutex_t lock; /* a leaf */
	struct digesting *bucket[DIGESTS_BUCKETS]; /* by handle */
	struct digesting *first, *last; /* by when they were used, the last one first */
	size_t memory;
	pthread_mutex_t queue_lock; /* a leaf */
	pthread_cond_t wake;
	struct digest_later *queue, **queue_end; /* of clients' bytes */
	size_t queued;
	pthread_t thread;
	bool started, stop;
};

/* @volume NULL: no digests. */
int digests_start(struct digests *d, struct stub_volume *volume);
void digests_stop(struct digests *d); /* what is queued is dropped; ends threads */
void digests_finish(struct digests *d);

/* Bytes of the version of @o, which were stored.  Takes as long as it takes. */
void digests_add(struct digests *d, const struct stub_object *o, uint64_t offset, const void *bytes,
		 size_t n);
/* The same, where somebody may be waiting: done by another thread, or not at all if there is
 * much to do.  True: *bytes, of malloc(), was taken over. */
bool digests_later(struct digests *d, const struct stub_object *o, uint64_t offset, char **bytes,
		   size_t n);
/* The old server has no data in [from, end). */
void digests_zeros(struct digests *d, const struct stub_object *o, uint64_t from, uint64_t end);

#endif
