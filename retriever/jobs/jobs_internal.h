/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * jobs_internal.h - shared by jobs.c (queues, joining, answering), job_books.c
 * (log, failures, turns), job_blame.c (whose error it is), job_held.c (the recall budget), job_ahead.c (attributes
 * before they are asked for), job_names.c (look-up,
 * listing, attributes), job_data.c (bytes) and job_pass.c (a volume that takes none).
 */
#ifndef JOBS_INTERNAL_H
#define JOBS_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/absent.h"
#include "jobs/jobs.h"
#include "jobs/reserve.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

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
	struct job *hash_next;
	/* who waits */
	struct waiter *waiters;
	int pass_fd; /* PASS: what they get, -1 else; the job's */
	/* where */
	struct job *queue_next;
	bool background;
	bool running;
	bool held; /* in jobs.held */
	unsigned int later_ms; /* the old server said "later" of it: put off for so long last time */
	bool retried; /* in jobs.retries */
	uint64_t asked_ms; /* by whoever wants it, last */
	bool ahead; /* job_ahead.c waits for its end */
	uint64_t due_us; /* held once: until then at most */
	char who[STUB_WHO_MAX + 1]; /* DATA: who pays; changes while it is held only */
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

/* Data that was passed on a moment ago. */
struct kept {
	struct stub_handle h;
	uint64_t offset, length, at_ms;
	int fd; /* -1: free */
};

#define KEPT_MAX 16

/* The new volume takes no data. */
struct full {
	pthread_mutex_t lock; /* a leaf */
	atomic_int error; /* errno; 0: it takes data */
	uint64_t since_ms, until_ms;
	struct kept kept[KEPT_MAX];
	unsigned int next_kept;
};

/* What is known of errors, see job_blame.c. */
struct blame {
	pthread_mutex_t lock; /* a leaf */
	uint64_t good_since_ms, good_ms; /* the source's root was well; 0: it was not, or is not known */
	uint64_t lost_ms; /* when it was found not to be; 0: it is well, for all that is known */
	uint64_t minute_ms; /* of told */
	unsigned int told[STUB_LOG_DEBUG + 1]; /* failures since, by the line's level */
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
	struct recalls *recalls;
	struct ahead *ahead;
	struct job *held; /* for their turns, or put off, by queue_next; under the lock */
	unsigned int retries; /* jobs that were put off and are queued or running again */
	struct absent later; /* what the crawler need not ask for now, likewise */
	pthread_cond_t held_wake;
	pthread_t held_thread;
	bool held_started;
	struct budget budget;
	struct absent absent, parked;
	struct blame blame;
	struct full full;
	struct reserve reserve;
	struct source_limits limits;
	atomic_bool limits_known;
	uint32_t active;
	/* statistics */
	atomic_uint_fast64_t fills, lookups, lists, attrs, data, joined, bytes, entries, errors,
		conflicts, passed, lost, touched, acls, times;
	atomic_uint_fast64_t warned_ms;
};

#define jobs_log(j, level, ...) stub_log_to((j)->c.log, (j)->c.log_arg, level, __VA_ARGS__)

static inline enum source_priority job_priority(const struct job *job)
{
	return job->background ? SOURCE_BACKGROUND : SOURCE_DEMAND;
}

/* Answer the waiters of @job who have now what they wait for: their bytes (DATA), room
 * in the record (ROOM). */
void job_answer_ready(struct jobs *j, struct job *job, const struct stub_object *o);

/*
 * A fetch is about to begin on behalf of job->who.  True: it is over the budget; the job
 * is off the worker's hands and comes back to the demand queue when it is due.
 */
bool jobs_hold(struct jobs *j, struct job *job, const struct stub_object *o);
/* Somebody else wants what @job is held for, and may have it sooner.  Under the lock. */
void jobs_held_joined(struct jobs *j, struct job *job, const char *who);
/* The old server said "later" of @job's object: it is off the worker's hands and comes back
 * to the queue when it is due.  False: there is no time for that any more. */
bool jobs_put_off(struct jobs *j, struct job *job);
bool jobs_later(struct jobs *j, const struct stub_handle *h); /* a moment ago, for the crawler */
void jobs_note_later(struct jobs *j, const struct stub_handle *h);
int jobs_held_start(struct jobs *j);
void jobs_held_stop(struct jobs *j); /* all held jobs are in the demand queue then */
void jobs_queue(struct jobs *j, struct job *job); /* demand; under the lock */

/* Start fetching @block of @h for nobody in particular, unless it is under way. */
void jobs_read_ahead(struct jobs *j, const struct stub_handle *h, uint64_t block);

/* A client has asked for the attributes of @o, a dummy: it may want its neighbours' next. */
void jobs_ahead_asked(struct jobs *j, const struct stub_object *o);
/* Fetch the attributes of @h for nobody in particular; jobs_ahead_done() follows. */
void jobs_attr_ahead(struct jobs *j, const struct stub_handle *h);
void jobs_ahead_done(struct jobs *j);
int jobs_ahead_start(struct jobs *j);
void jobs_ahead_stop(struct jobs *j); /* nothing is begun any more; jobs may still end */
void jobs_ahead_destroy(struct jobs *j);

/* The crawler's work stops here while paused or over the byte rate.  Read-ahead does
 * not: a client may be waiting for it by now, and there is one block of it at a time. */
void jobs_wait_turn(struct jobs *j, const struct job *job, uint64_t bytes);
void jobs_new_turns(struct jobs *j); /* all turns given out are void */

/*
 * Something went wrong with @h.  Keeps the books (journal, log, statistics) and
 * turns @error into what stub_ask() promises.  @what says what was being done.
 */
int jobs_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what);
/*
 * A worker begins something: errors of before say nothing of it.  Did the old server say
 * @error of an object (-ESTALE, -EACCES, -EIO) when it may have been in no state to: is it to be
 * asked again?  Blocks.
 */
void jobs_began(void);
bool jobs_doubted(struct jobs *j, int error);
bool jobs_source_lost(struct jobs *j); /* that is so now */
/* It is stale: does it have another handle now?  Then its record has it, too. */
bool jobs_repaired(struct jobs *j, const struct stub_handle *h);
/* Its path below the volume's root, if the kernel knows it. */
int jobs_path(struct jobs *j, const struct stub_handle *h, char *out, size_t size);
/* A line of the log about an object, by its path; not more than some in a minute. */
void jobs_tell(struct jobs *j, enum stub_log_level level, const struct stub_handle *h,
	       const char *what, const char *then);
/* A name as it may be shown in a log line or a reason. */
void jobs_printable(const char *name, size_t len, char *out, size_t size);

bool jobs_parked_now(struct jobs *j, const struct stub_handle *h); /* a moment ago */
/* The same, for what is the object's own for certain. */
int jobs_blame(struct jobs *j, const struct stub_handle *h, int error, const char *what);
int jobs_park(struct jobs *j, const struct stub_handle *h, int error, const char *what); /* at once */
bool jobs_may_warn(struct jobs *j); /* one line a minute for what repeats */
#define JOBS_LOCAL "changed on the new server itself, not through Ganesha or Samba: not overwritten"
int jobs_conflict(struct jobs *j, const struct stub_handle *h, const char *reason);

/* The work itself: 0 or what the waiters get, as documented at stub_ask(). */
int job_lookup(struct jobs *j, struct job *job);
int job_list(struct jobs *j, struct job *job, struct stub_object *o);
int job_leave(struct jobs *j, struct job *job, struct stub_object *o);
int job_refused(struct jobs *j, struct job *job, struct stub_object *o);
int job_attr(struct jobs *j, struct job *job, struct stub_object *o);
int job_data(struct jobs *j, struct job *job, struct stub_object *o);
int job_fill_file(struct jobs *j, struct job *job, struct stub_object *o);
int job_room(struct jobs *j, struct job *job, struct stub_object *o);
int job_pass(struct jobs *j, struct job *job, struct stub_object *o);

/* Read [offset, offset+length) into @fd instead of the object. */
int job_fetch(struct jobs *j, struct job *job, struct stub_object *o, uint64_t offset,
	      uint64_t length, int fd);

/* As jobs_failed(), for an @error that came from storing: what says that the volume
 * takes no data is answered as it is. */
int jobs_store_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what);
void jobs_stored(struct jobs *j); /* it takes data */
int jobs_full_now(struct jobs *j); /* 0, or why there is no use in storing now */
void jobs_full_init(struct jobs *j);
void jobs_full_finish(struct jobs *j);
void jobs_full_stats(struct jobs *j, struct jobs_stats *out);

/* Has the object's content changed over there since it was listed, as far as type, file
 * id, size and mtime tell?  Then 1 and why. */
int jobs_changed(const struct stub_object *o, const struct stub_attr *a, char *why, size_t size);
/* Has something else of it (mode, owner, access time set ...)?  Its content is taken, its
 * attributes stay those of the listing: see docs/decisions/0037. */
bool jobs_touched(const struct stub_object *o, const struct stub_attr *a);

#endif
