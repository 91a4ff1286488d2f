/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_table.h - all jobs: found by what is asked, in their queues, with those who wait.
 *
 * A job is in the table, under its key, from its first ask until its last answer; an ask
 * for the same key meanwhile becomes one more waiter.  The lock covers the table, both
 * queues, what holds jobs back (job_held.c) and all lists of waiters; no source call, no
 * disk access and no answer happens under it (answers are collected first).
 */
#ifndef JOB_TABLE_H
#define JOB_TABLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "stubcore.h"

struct waiter {
	struct waiter *next;
	struct stub_request *r;
};

struct job {
	/* what: the key by which asks join */
	enum stub_ask_kind kind;
	struct stub_handle h;
	uint64_t block; /* DATA: number of the block; PASS: first byte */
	uint64_t length; /* PASS: bytes */
	char *name;	/* LOOKUP */
	size_t name_len;
	uint32_t hash;
	uint64_t trace; /* what it is called in the log: the ask that it began with (trace.h) */
	struct job *hash_next;
	/* who waits */
	struct waiter *waiters;
	int pass_fd; /* PASS: what they get, -1 else; the job's */
	/* where */
	struct job *queue_next;
	bool background;
	bool running;
	atomic_bool wanted; /* a client joined while it ran in the background */
	uint64_t first; /* DATA: byte of the first ask */
	uint64_t end; /* DATA, once it runs: it brings what is before that, of the next block too */
	bool wants_more; /* a client has asked for bytes behind that */
	/* called then, under the lock; NULL: nothing */
	void (*hurry)(void *arg);
	void *hurry_arg;
	bool held; /* in held.jobs */
	unsigned int later_ms; /* for how long it was put off last; 0: it never was */
	bool retried; /* in held.retries */
	uint64_t asked_ms; /* time of the last ask that joined */
	bool ahead; /* job_ahead.c waits for its end */
	struct brought *brought; /* FILL: bytes that have come with the attributes; the job's; or NULL */
	uint64_t due_us; /* when it may go on, if it is or was held; 0: it never was */
	char who[STUB_WHO_MAX + 1]; /* DATA: whose recall budget pays; changes only while held */
};

struct queue {
	struct job *head, **tail;
	pthread_cond_t wake;
	unsigned int length;
	unsigned int idle; /* workers that wait for one */
	unsigned int workers, workers_max; /* that there are, and that there may be */
	void (*more)(void *arg, struct queue *q); /* more jobs wait than workers do; or NULL */
	void *more_arg;
	uint64_t taken; /* jobs, by workers */
	uint64_t seen; /* job_table_moves(): taken at its last look */
};

#define JOB_BUCKETS 4096

struct job_table {
	pthread_mutex_t lock;
	/* guarded by lock */
	struct queue demand, fill; /* for waiting clients, for the crawler */
	struct job *bucket[JOB_BUCKETS];
	uint32_t active; /* in a worker's hands */
	bool stop;
};

void job_table_init(struct job_table *t);
void job_table_finish(struct job_table *t);
/*
 * Looked at again and again: false if jobs wait, workers wait, and none has taken one since the
 * last look.  Workers that are all busy say nothing: what they wait for may be away for long.
 * True at one look more proves nothing; blocks if the lock is never given back.
 */
bool job_table_moves(struct job_table *t);

/* @block_bytes: unit of DATA.  NULL: out of memory. */
struct job *job_create(const struct stub_ask *ask, uint32_t block_bytes);
void job_free(struct job *job); /* one that nobody waits for, and not in the table */

/* The calls below are made with the lock held. */

struct job *job_find(struct job_table *t, const struct job *key); /* NULL: there is none */
struct job *job_of_block(struct job_table *t, const struct stub_handle *h, uint64_t block); /* likewise, of DATA */
void job_add(struct job_table *t, struct job *job);
void job_remove(struct job_table *t, struct job *job);
void job_join(struct job *other, struct job *job); /* @other has the waiters of @job, too */
/* Change @job's kind to @kind, and with it its key. */
void job_rename(struct job_table *t, struct job *job, enum stub_ask_kind kind);

void job_queue(struct job_table *t, struct job *job); /* into demand, or fill if background */
void job_demand(struct job_table *t, struct job *job); /* into demand in any case */
struct job *job_pop(struct queue *q); /* NULL: empty */
/* A client asks for what only the crawler wanted so far: move @job to demand; if it runs, it is
 * told to hurry. */
void job_promote(struct job_table *t, struct job *job);

/* The calls below are made without the lock. */

/* Answer all of @w, which is freed.  @fd goes with a result of 0, -1: none. */
void job_answer(struct waiter *w, int result, int fd);
/* Answer those waiters of @job who have what they wait for, now that @left is the missing map:
 * their bytes (DATA), room in the record (ROOM). */
void job_answer_ready(struct job_table *t, struct job *job, const struct stub_map *left);

#endif
