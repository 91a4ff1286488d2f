/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_held.c - fetches that are over their client's budget (recall.h).
 *
 * A held job is in the table, so that others join it, but in no queue and on no worker's
 * hands: however much one client asks for, the workers are there for the others.  A
 * thread puts it back when it is due; a worker then looks anew whether it may begin.
 *
 * Only the first fetch of a file is held: a file that anybody has begun with goes on.  Who
 * joins a job pays nothing, unless the job is held: then the newcomer's budget may let it go
 * at once, and the earlier of both turns counts.
 *
 * A job of whose object the old server says "later" (JUKEBOX; from a tape it may take minutes)
 * is put off in the same way: for half a second, then twice as long each time, and few of them
 * are tried at a time.  It is never an error.  The crawler is answered at once, and asks again.
 */
#include "jobs/jobs_internal.h"

#define LATER_LEAST_MS 500 /* between two asks for what the old server says "later" of */
#define LATER_MOST_MS  15000
#define RETRIES_MOST   4 /* of these at a time: the other workers are for other jobs */
#define FORGOTTEN_MS   90000 /* NFS clients ask every 15 s: after this nobody wants it any more */

/* Is nothing of the file here?  (What a client has written is.) */
static bool untouched(const struct stub_object *o)
{
	return o->missing.end && o->missing.start == 0 && o->missing.end >= o->size;
}

/* Take @job from its worker, and put it into no queue; under the lock. */
static void hold(struct jobs *j, struct job *job, uint64_t due_us)
{
	job->due_us = due_us;
	job->held = true;
	job->running = false;
	job->queue_next = j->held.jobs;
	j->held.jobs = job;
	j->table.active--;
	pthread_cond_signal(&j->held.wake);
}

bool jobs_hold(struct jobs *j, struct job *job, const struct stub_object *o)
{
	uint64_t now, due;
	bool stop;

	if (!job->who[0] || !untouched(o))
		return false;
	now = stub_now_us();
	if (job->due_us && job->due_us <= now) /* it has been held, and paid for */
		return false;
	due = recalls_take(j->held.recalls, job->who, &job->h, now);
	if (job->due_us && job->due_us < due)
		due = job->due_us;
	if (due <= now)
		return false;
	trace(job->trace, "held: %s is over its recall budget; %llu ms at most", job->who,
	      (unsigned long long)((due - now) / 1000));
	pthread_mutex_lock(&j->table.lock);
	stop = j->table.stop;
	if (!stop)
		hold(j, job, due);
	pthread_mutex_unlock(&j->table.lock);
	return !stop; /* with the source stopped, the job fails by itself */
}

bool jobs_put_off(struct jobs *j, struct job *job)
{
	bool stop;

	job->later_ms = job->later_ms ? job->later_ms * 2 : LATER_LEAST_MS;
	if (job->later_ms > LATER_MOST_MS)
		job->later_ms = LATER_MOST_MS;
	trace(job->trace, "put off for %u ms: the old server says \"later\"", job->later_ms);
	pthread_mutex_lock(&j->table.lock);
	stop = j->table.stop || stub_now_ms() - job->asked_ms > FORGOTTEN_MS;
	if (!stop) {
		j->held.retries -= job->retried;
		job->retried = false;
		hold(j, job, stub_now_us() + job->later_ms * 1000ull);
	}
	pthread_mutex_unlock(&j->table.lock);
	return !stop;
}

/* Back to the workers; *@at is @job's place in the list. */
static void release(struct jobs *j, struct job **at)
{
	struct job *job = *at;

	*at = job->queue_next;
	job->held = false;
	if (job->later_ms) {
		job->retried = true;
		j->held.retries++;
	}
	job_demand(&j->table, job);
}

void jobs_held_joined(struct jobs *j, struct job *job, const char *who)
{
	struct job **at = &j->held.jobs;

	if (job->later_ms || !strcmp(job->who, who))
		return;
	strcpy(job->who, who);
	while (*at != job)
		at = &(*at)->queue_next;
	release(j, at);
}

/* Lets go what is due; returns when the next is, UINT64_MAX: none is held. */
static uint64_t release_due(struct jobs *j, uint64_t now)
{
	struct job **at = &j->held.jobs;
	uint64_t next = UINT64_MAX;

	while (*at) {
		uint64_t due = (*at)->due_us;

		if (due <= now && (*at)->later_ms && j->held.retries >= RETRIES_MOST) {
			due = now + LATER_LEAST_MS * 1000ull;
		} else if (due <= now) {
			release(j, at);
			continue;
		}
		if (due < next)
			next = due;
		at = &(*at)->queue_next;
	}
	return next;
}

static void *held_thread(void *arg)
{
	struct jobs *j = arg;

	pthread_mutex_lock(&j->table.lock);
	while (!j->table.stop) {
		uint64_t next = release_due(j, stub_now_us());
		struct timespec until = { (time_t)(next / 1000000),
					  (long)(next % 1000000 * 1000) };

		if (next == UINT64_MAX)
			pthread_cond_wait(&j->held.wake, &j->table.lock);
		else
			pthread_cond_timedwait(&j->held.wake, &j->table.lock, &until);
	}
	pthread_mutex_unlock(&j->table.lock);
	return NULL;
}

int jobs_held_start(struct jobs *j)
{
	int r;

	stub_cond_init(&j->held.wake);
	r = recalls_create(j->c.recall_files_per_minute, j->c.recall_burst, &j->held.recalls);
	if (r == 0)
		r = -pthread_create(&j->held.thread, NULL, held_thread, j);
	j->held.started = r == 0;
	return r;
}

void jobs_held_stop(struct jobs *j)
{
	if (!j->held.started)
		return;
	pthread_mutex_lock(&j->table.lock);
	pthread_cond_signal(&j->held.wake);
	pthread_mutex_unlock(&j->table.lock);
	pthread_join(j->held.thread, NULL);
	j->held.started = false;
	while (j->held.jobs)
		release(j, &j->held.jobs);
}

void jobs_held_destroy(struct jobs *j)
{
	recalls_destroy(j->held.recalls);
	pthread_cond_destroy(&j->held.wake);
}

void jobs_held_stats(struct jobs *j, struct jobs_stats *out)
{
	for (const struct job *job = j->held.jobs; job; job = job->queue_next)
		*(job->later_ms ? &out->later : &out->held) += 1;
	out->later += j->held.retries;
}

unsigned int jobs_recalls(struct jobs *j, struct recall_client out[RECALL_CLIENTS])
{
	return recalls_clients(j->held.recalls, out);
}
