/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_held.c - fetches that are over their client's budget (recall.h).
 *
 * A held job is in the table, so that others join it, but in no queue and on no worker's
 * hands: however much one client asks for, the workers are there for the others.  A
 * thread puts it back when it is due; a worker then looks anew whether it may begin.
 *
 * Only the first fetch of a file is held: what has been begun by anybody goes on.  Who
 * joins pays nothing, unless the job is held: then the newcomer's budget may let it go
 * at once, and the earlier of both turns counts.
 *
 * Put off in the same way is what the old server says "later" of (JUKEBOX; from a tape it may take
 * minutes): after half a second, then twice as long each time, and few of them at a time.
 * It is never an error.  The crawler is answered at once, and comes back to it.
 */
#include "jobs/jobs_internal.h"

#define LATER_LEAST_MS 500 /* between two asks for what the old server says "later" of */
#define LATER_MOST_MS  15000
#define RETRIES_MOST   4 /* of these at a time: the other workers are for the others */
#define FORGOTTEN_MS   90000 /* NFS clients come back every 15 s: nobody wants it any more */

/* Is nothing of it here?  A file that a client has changed has been begun. */
static bool untouched(struct jobs *j, const struct stub_object *o)
{
	struct stub_range first;

	return stub_fill_next(j->c.volume, o, 0, &first) == 1 && first.start == 0 &&
	       first.end >= o->size;
}

bool jobs_hold(struct jobs *j, struct job *job, const struct stub_object *o)
{
	uint64_t now, due;
	bool stop;

	if (!job->who[0] || !untouched(j, o))
		return false;
	now = stub_now_us();
	if (job->due_us && job->due_us <= now) /* it has been held, and paid for */
		return false;
	due = recalls_take(j->recalls, job->who, &job->h, now);
	if (job->due_us && job->due_us < due)
		due = job->due_us;
	if (due <= now)
		return false;
	pthread_mutex_lock(&j->lock);
	stop = j->stop;
	if (!stop) {
		job->due_us = due;
		job->held = true;
		job->running = false;
		job->queue_next = j->held;
		j->held = job;
		j->active--;
		pthread_cond_signal(&j->held_wake);
	}
	pthread_mutex_unlock(&j->lock);
	return !stop; /* the source is stopped: it ends by itself */
}

bool jobs_put_off(struct jobs *j, struct job *job)
{
	bool stop;

	job->later_ms = job->later_ms ? job->later_ms * 2 : LATER_LEAST_MS;
	if (job->later_ms > LATER_MOST_MS)
		job->later_ms = LATER_MOST_MS;
	pthread_mutex_lock(&j->lock);
	stop = j->stop || stub_now_ms() - job->asked_ms > FORGOTTEN_MS;
	if (!stop) {
		j->retries -= job->retried;
		job->retried = false;
		job->due_us = stub_now_us() + job->later_ms * 1000ull;
		job->held = true;
		job->running = false;
		job->queue_next = j->held;
		j->held = job;
		j->active--;
		pthread_cond_signal(&j->held_wake);
	}
	pthread_mutex_unlock(&j->lock);
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
		j->retries++;
	}
	jobs_queue(j, job);
}

void jobs_held_joined(struct jobs *j, struct job *job, const char *who)
{
	struct job **at = &j->held;

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
	struct job **at = &j->held;
	uint64_t next = UINT64_MAX;

	while (*at) {
		uint64_t due = (*at)->due_us;

		if (due <= now && (*at)->later_ms && j->retries >= RETRIES_MOST) {
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

	pthread_mutex_lock(&j->lock);
	while (!j->stop) {
		uint64_t next = release_due(j, stub_now_us());
		struct timespec until = { (time_t)(next / 1000000),
					  (long)(next % 1000000 * 1000) };

		if (next == UINT64_MAX)
			pthread_cond_wait(&j->held_wake, &j->lock);
		else
			pthread_cond_timedwait(&j->held_wake, &j->lock, &until);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

int jobs_held_start(struct jobs *j)
{
	int r = -pthread_create(&j->held_thread, NULL, held_thread, j);

	j->held_started = r == 0;
	return r;
}

void jobs_held_stop(struct jobs *j)
{
	if (!j->held_started)
		return;
	pthread_mutex_lock(&j->lock);
	pthread_cond_signal(&j->held_wake);
	pthread_mutex_unlock(&j->lock);
	pthread_join(j->held_thread, NULL);
	j->held_started = false;
	while (j->held)
		release(j, &j->held);
}

unsigned int jobs_recalls(struct jobs *j, struct recall_client out[RECALL_CLIENTS])
{
	return recalls_clients(j->recalls, out);
}
