/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * jobs_internal.h - what the files of jobs/ share.
 *
 * Parts that know nothing of the others: job_table.c (by what is asked, queues, waiters),
 * turns.c (pause and byte rate), budget.c (memory), full.c (a volume that takes nothing),
 * recall.c, absent.c, reserve.c, partly.c, treestat.c, job_digest.c (digests of what comes).  Above them, each on those before:
 *
 *   job_look.c    has an object changed over there, and how it is shown
 *   job_blame.c   whose error it is
 *   job_books.c   log, failures, the journal's entries
 *   job_held.c    jobs held back: over the recall budget, or put off
 *   job_submit.c  an ask becomes a job
 *   job_ahead.c   attributes before they are asked for
 *   job_whole.c   bytes of small files, while their directory is listed
 *   job_names.c   look-up, listing, attributes
 *   job_holes.c   what of a file has none
 *   job_brought.c bytes that came with attributes
 *   job_data.c    bytes
 *   job_pass.c    bytes for a volume that takes none
 *   jobs.c        the workers
 */
#ifndef JOBS_INTERNAL_H
#define JOBS_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/absent.h"
#include "jobs/budget.h"
#include "jobs/full.h"
#include "jobs/job_digest.h"
#include "jobs/job_table.h"
#include "jobs/jobs.h"
#include "jobs/partly.h"
#include "jobs/reserve.h"
#include "jobs/treestat.h"
#include "jobs/turns.h"
#include "source/limiter.h"
#include "source/trace.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* What is known of errors, see job_blame.c. */
struct blame {
	pthread_mutex_t lock; /* a leaf */
	/* from when, and until when, the source's root is known to have been right; since 0: not */
	uint64_t good_since_ms, good_ms;
	uint64_t lost_ms; /* when the root was found to be wrong; 0: it was not, at the last look */
	uint64_t minute_ms; /* of told */
	unsigned int told[STUB_LOG_DEBUG + 1]; /* failures since, by the line's level */
};

/* See job_books.c. */
struct job_books {
	struct absent parked; /* objects that were parked a moment ago */
	struct absent later; /* objects that the crawler need not ask for now */
	atomic_uint_fast64_t warned_ms;
};

/* See job_held.c; under the table's lock. */
struct held {
	struct job *jobs; /* held back, or put off; linked by queue_next */
	unsigned int retries; /* jobs that were put off and are queued or running again */
	pthread_cond_t wake;
	pthread_t thread;
	bool started;
	struct recalls *recalls; /* has a lock of its own */
};

/* See job_whole.c. */
struct wholes {
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t none;
	unsigned int inflight; /* READs, late ones too */
	atomic_uint_fast64_t rests_until_ms; /* the source did not answer */
	atomic_uint skip; /* listings in which nothing is made whole */
};

struct job_counts {
	atomic_uint_fast64_t fills, lookups, lists, attrs, data, joined, bytes, entries, errors,
		conflicts, passed, lost, touched, acls, near, times, holes, whole;
};

/* of job_heat.c */
struct heat_last {
	struct stub_handle h;
	uint64_t ms;
};

struct heat {
	pthread_mutex_t lock; /* a leaf */
	struct heat_last file, dir;
	bool on;
	struct stub_heat_file to;
};

struct jobs {
	struct jobs_config c;
	atomic_bool stopping;
	/* the parts, each with its own lock */
	struct job_table table;
	struct held held;
	struct turns turns;
	struct budget budget;
	struct full full;
	struct reserve reserve;
	struct partly partly;
	struct treestat tree;
	struct wholes wholes;
	struct digests digests;
	struct job_books books;
	struct blame blame;
	struct ahead *ahead;
	struct heat heat;
	struct absent absent; /* names: job_names.c */
	struct job_counts n;
	/* of job_data.c */
	struct source_limits limits;
	atomic_bool limits_known;
	atomic_bool shares_nothing; /* no blocks, between source and volume */
	/* of jobs.c */
	pthread_t *threads;
	unsigned int n_threads;
};

#define jobs_log(j, level, ...) stub_log_to((j)->c.log, (j)->c.log_arg, level, __VA_ARGS__)

static inline enum source_priority job_priority(const struct job *job)
{
	return job->background && !atomic_load(&job->wanted) ? SOURCE_BACKGROUND : SOURCE_DEMAND;
}

/* The crawler's work stops here while paused or over the byte rate.  Read-ahead does
 * not: a client may be waiting for it by now, and there is one block of it at a time. */
static inline void job_wait_turn(struct jobs *j, const struct job *job, uint64_t bytes)
{
	if (job->kind == STUB_ASK_FILL)
		turns_wait(&j->turns, bytes);
}

/*
 * A fetch is about to begin on behalf of job->who.  True: it is over the budget; the job
 * is off the worker's hands and comes back to the demand queue when it is due.
 */
bool jobs_hold(struct jobs *j, struct job *job, const struct stub_object *o);
/* @who asks for what @job fetches, which is held: it goes on if @who's budget lets it.  Under the
 * lock. */
void jobs_held_joined(struct jobs *j, struct job *job, const char *who);
/* The old server said "later" of @job's object: it is off the worker's hands and comes back
 * to the queue when it is due.  False: nobody has asked for long, or we are stopping. */
bool jobs_put_off(struct jobs *j, struct job *job);
bool jobs_later(struct jobs *j, const struct stub_handle *h); /* a moment ago, for the crawler */
void jobs_note_later(struct jobs *j, const struct stub_handle *h);
int jobs_held_start(struct jobs *j);
void jobs_held_stop(struct jobs *j); /* all held jobs are in the demand queue then */
void jobs_held_destroy(struct jobs *j);
void jobs_held_stats(struct jobs *j, struct jobs_stats *out); /* under the lock */

/* Start fetching @block of @o for nobody in particular, unless it is under way. */
void jobs_read_ahead(struct jobs *j, const struct stub_object *o, uint64_t block);

/* A client has asked for the attributes of @o, a dummy: it may want those of the next entries. */
void jobs_ahead_asked(struct jobs *j, const struct stub_object *o);
/* Fetch the attributes of @h for nobody in particular; jobs_ahead_done() follows.  False: no
 * such job was begun (perhaps one for a client runs already). */
bool jobs_attr_ahead(struct jobs *j, const struct stub_handle *h);
void jobs_ahead_done(struct jobs *j);
/* The directory that the kernel has the open object in, or -errno. */
int jobs_open_parent(const struct jobs *j, int fd);
int jobs_ahead_start(struct jobs *j);
void jobs_ahead_stop(struct jobs *j); /* nothing is begun any more; jobs may still end */
void jobs_ahead_destroy(struct jobs *j);

/* A client was answered that has asked for @h. */
void jobs_heat(struct jobs *j, enum stub_ask_kind kind, const struct stub_handle *h);
void heat_init(struct heat *t, int root_fd);
void heat_finish(struct heat *t);

/*
 * Something went wrong with @h.  Keeps the books (journal, log, statistics) and
 * turns @error into what stub_ask() promises.  @what says what was being done.
 */
int jobs_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what);
/* A worker calls this when it begins a job. */
void jobs_began(void);
/* The old server has said @error of an object.  Is it one (-ESTALE, -EACCES, -EIO) that need not
 * be the object's own, since the source may not have been well: ask again?  Blocks. */
bool jobs_doubted(struct jobs *j, int error);
bool jobs_source_lost(struct jobs *j); /* was the root found to be wrong a moment ago? */
/* @h's origin is stale.  True: the object has got another one, which is in its record now. */
bool jobs_repaired(struct jobs *j, const struct stub_handle *h);
/* The path of @h below the volume's root, if the kernel knows it. */
int jobs_path(struct jobs *j, const struct stub_handle *h, char *out, size_t size);
/* A line of the log about an object, by its path; not more than some in a minute. */
void jobs_tell(struct jobs *j, enum stub_log_level level, const struct stub_handle *h,
	       const char *what, const char *then);

bool jobs_parked_now(struct jobs *j, const struct stub_handle *h); /* a moment ago */
/* jobs_failed() for an @error that is the object's own for certain. */
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

int jobs_know_limits(struct jobs *j); /* j->limits is known then */

/* Read [offset, offset+length) into @fd instead of the object. */
int job_fetch(struct jobs *j, struct job *job, struct stub_object *o, uint64_t offset,
	      uint64_t length, int fd);

/* As jobs_failed(), for an @error that came from storing: what says that the volume
 * takes no data is answered as it is. */
int jobs_store_failed(struct jobs *j, const struct stub_handle *h, enum full_what stored, int error,
		      const char *what);
void jobs_stored(struct jobs *j, enum full_what stored); /* it takes them */
void wholes_init(struct wholes *s);
void wholes_wait(struct wholes *s); /* until no READ is in flight */
void wholes_finish(struct wholes *s);
void jobs_books_init(struct job_books *b);
void jobs_books_finish(struct job_books *b);

/* All bytes of a small file, which have come with its attributes (docs/decisions/0091). */
struct brought {
	uint32_t charge; /* of the crawler's budget */
	struct stub_attr attr;
	uint32_t len;
	void *bytes;
};
/* How many bytes of @o, a dummy, are wanted with its attributes; if any, they are in *out, with their
 * memory and their turn. */
uint32_t jobs_brought_begin(struct jobs *j, const struct job *job, const struct stub_object *o,
			    struct brought **out);
/* They have come with @m, or have not. */
void jobs_brought_end(struct jobs *j, struct job *job, struct brought *b, struct source_meta *m);
void jobs_brought_free(struct jobs *j, struct brought *b);

/* Has the object's content changed over there since it was listed, as far as type, file
 * id, size and mtime tell?  Then 1 and why. */
int jobs_changed(const struct stub_object *o, const struct stub_attr *a, char *why, size_t size);
/* Has something else of it (mode, owner, access time set ...)?  Its content is taken, its
 * attributes stay those of the listing: see docs/decisions/0037. */
bool jobs_touched(const struct stub_object *o, const struct stub_attr *a);

#endif
