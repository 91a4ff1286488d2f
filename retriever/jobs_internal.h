/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * jobs_internal.h - shared by jobs.c (queues, joining, answering), job_names.c
 * (look-up, listing, attributes) and job_data.c (bytes).
 */
#ifndef JOBS_INTERNAL_H
#define JOBS_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "absent.h"
#include "jobs.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct waiter {
	struct waiter *next;
	struct stub_request *r;
};

struct job {
	/* what: the key by which asks join */
	enum stub_ask_kind kind;
	struct stub_handle h;
	uint64_t block; /* DATA: number of the block */
	char *name;	/* LOOKUP */
	size_t name_len;
	uint32_t hash;
	struct job *hash_next;
	/* who waits */
	struct waiter *waiters;
	/* where */
	struct job *queue_next;
	bool background;
	bool running;
};

struct queue {
	struct job *head, **tail;
	pthread_cond_t wake;
	unsigned int length;
};

/* Memory for data between a READ reply and the disk. */
struct budget {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint64_t left[2]; /* SOURCE_DEMAND for clients with their read-ahead, SOURCE_BACKGROUND
			   * for the crawler, so that neither waits for the other */
};

#define JOB_BUCKETS 4096

struct jobs {
	struct jobs_config c;
	pthread_mutex_t lock; /* queues, table, waiters of all jobs */
	struct queue demand, fill;
	struct job *table[JOB_BUCKETS];
	pthread_t *threads;
	unsigned int n_threads;
	bool stop;
	atomic_bool stopping;
	atomic_bool paused;
	atomic_uint_fast64_t throttle;
	atomic_uint_fast64_t turn_changes; /* who waits for a turn of before asks anew */
	pthread_mutex_t throttle_lock;
	uint64_t throttle_next_us;
	struct budget budget;
	struct absent absent;
	struct source_limits limits;
	atomic_bool limits_known;
	uint32_t active;
	/* statistics */
	atomic_uint_fast64_t fills, lookups, lists, attrs, data, joined, bytes, entries, errors,
		conflicts;
	atomic_uint_fast64_t warned_ms;
};

void jobs_log(struct jobs *j, enum stub_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static inline enum source_priority job_priority(const struct job *job)
{
	return job->background ? SOURCE_BACKGROUND : SOURCE_DEMAND;
}

/* Answer the waiters of @job who have now what they wait for: their bytes (DATA), room
 * in the record (ROOM). */
void job_answer_ready(struct jobs *j, struct job *job, const struct stub_object *o);

/* Start fetching @block of @h for nobody in particular, unless it is under way. */
void jobs_read_ahead(struct jobs *j, const struct stub_handle *h, uint64_t block);

/* The crawler's work stops here while paused or over the byte rate.  Read-ahead does
 * not: a client may be waiting for it by now, and there is one block of it at a time. */
void jobs_wait_turn(struct jobs *j, const struct job *job, uint64_t bytes);

/*
 * Something went wrong with @h.  Keeps the books (journal, log, statistics) and
 * turns @error into what stub_ask() promises.  @what says what was being done.
 */
int jobs_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what);
int jobs_park(struct jobs *j, const struct stub_handle *h, int error, const char *what); /* at once */
int jobs_conflict(struct jobs *j, const struct stub_handle *h, const char *reason);

/* The work itself: 0 or what the waiters get, as documented at stub_ask(). */
int job_lookup(struct jobs *j, struct job *job);
int job_list(struct jobs *j, struct job *job, struct stub_object *o);
int job_refused(struct jobs *j, struct job *job, struct stub_object *o);
int job_attr(struct jobs *j, struct job *job, struct stub_object *o);
int job_data(struct jobs *j, struct job *job, struct stub_object *o);
int job_fill_file(struct jobs *j, struct job *job, struct stub_object *o);
int job_room(struct jobs *j, struct job *job, struct stub_object *o);

/* Has the object changed over there since it was listed?  Then 1 and why. */
int jobs_changed(const struct stub_object *o, const struct stub_attr *a, char *why, size_t size);

#endif
