/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_books.c - what is told of a job besides its answer: the log, the journal's
 * entry of an object that failed, and whose turn it is by the crawler's byte rate.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "jobs/jobs_internal.h"

bool jobs_may_warn(struct jobs *j)
{
	uint64_t now = stub_now_ms(), last = atomic_load(&j->warned_ms);

	return (last == 0 || now - last > 60000) &&
	       atomic_compare_exchange_strong(&j->warned_ms, &last, now);
}

bool jobs_parked_now(struct jobs *j, const struct stub_handle *h)
{
	return absent_known(&j->parked, stub_handle_sum(h), h, "", 0);
}

bool jobs_later(struct jobs *j, const struct stub_handle *h)
{
	return absent_known(&j->later, stub_handle_sum(h), h, "", 0);
}

void jobs_note_later(struct jobs *j, const struct stub_handle *h)
{
	absent_remember(&j->later, stub_handle_sum(h), h, "", 0);
}

void jobs_retry(struct jobs *j)
{
	absent_forget(&j->parked);
}

static void park(struct jobs *j, const struct stub_handle *h, enum stub_park how, int error,
		 const char *reason)
{
	int r = stub_journal_fail(j->c.journal, h, how, error, reason);

	if (how != STUB_PARK_NONE)
		absent_remember(&j->parked, stub_handle_sum(h), h, "", 0);
	if (r < 0 && r != -ENOENT)
		jobs_log(j, STUB_LOG_ERROR, "journal: cannot note \"%s\": %s", reason,
			 strerror(-r));
}

int jobs_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what)
{
	switch (error) {
	case -EINPROGRESS: /* the object's, and no error: run() puts the job off */
		return -EINPROGRESS;
	case -EAGAIN:
	case -ECANCELED:
	case -ENOMEDIUM: /* the source tells of it */
		return -EAGAIN;
	case -ETIMEDOUT: /* the policy limit: says nothing about the object */
		return -EREMOTEIO;
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
		if (jobs_may_warn(j))
			jobs_log(j, STUB_LOG_WARN, "%s: %s; trying again", what, strerror(-error));
		return -EAGAIN;
	}
	if (jobs_doubted(j, error) || (error == -ESTALE && jobs_repaired(j, h)))
		return -EAGAIN;
	return jobs_blame(j, h, error, what);
}

int jobs_blame(struct jobs *j, const struct stub_handle *h, int error, const char *what)
{
	struct stub_journal_entry e;
	char reason[STUB_REASON_MAX + 1];
	bool last;

	atomic_fetch_add(&j->errors, 1);
	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(-error));
	last = error == -EBADMSG || error == -EMLINK ||
	       (stub_journal_get(j->c.journal, h, &e) == 0 && e.tries + 1u >= j->c.max_tries);
	park(j, h, last ? STUB_PARK_ERROR : STUB_PARK_NONE, -error, reason);
	jobs_tell(j, last ? STUB_LOG_WARN : STUB_LOG_INFO, h, reason,
		  last ? "; parked" : "; will be tried again");
	return -EREMOTEIO;
}

int jobs_park(struct jobs *j, const struct stub_handle *h, int error, const char *what)
{
	char reason[STUB_REASON_MAX + 1];

	atomic_fetch_add(&j->errors, 1);
	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(-error));
	park(j, h, STUB_PARK_ERROR, -error, reason);
	jobs_tell(j, STUB_LOG_WARN, h, reason, "; parked");
	return -EREMOTEIO;
}

int jobs_conflict(struct jobs *j, const struct stub_handle *h, const char *reason)
{
	if (source_verify(j->c.source) == -ENOMEDIUM)
		return -EAGAIN; /* it is not the object that was replaced */
	atomic_fetch_add(&j->conflicts, 1);
	park(j, h, STUB_PARK_CONFLICT, ESTALE, reason);
	jobs_tell(j, STUB_LOG_WARN, h, reason, "; parked as conflict");
	return -EREMOTEIO;
}

/* ---- turns ---- */

/* When may @bytes be fetched, by the rate of now? */
static uint64_t take_turn(struct jobs *j, uint64_t bytes, uint64_t *change)
{
	uint64_t rate, until = 0, now = stub_now_us();

	pthread_mutex_lock(&j->throttle_lock);
	*change = atomic_load(&j->turn_changes);
	rate = atomic_load(&j->throttle);
	if (rate > 0 && bytes > 0) {
		if (j->throttle_next_us < now)
			j->throttle_next_us = now;
		until = j->throttle_next_us;
		j->throttle_next_us += bytes * 1000000 / rate;
	}
	pthread_mutex_unlock(&j->throttle_lock);
	return until;
}

void jobs_wait_turn(struct jobs *j, const struct job *job, uint64_t bytes)
{
	uint64_t until, now, change;

	if (job->kind != STUB_ASK_FILL)
		return;
	do {
		while (atomic_load(&j->paused) && !atomic_load(&j->stopping))
			usleep(50000);
		until = take_turn(j, bytes, &change);
		while ((now = stub_now_us()) < until && change == atomic_load(&j->turn_changes) &&
		       !atomic_load(&j->stopping))
			usleep(until - now > 50000 ? 50000 : (useconds_t)(until - now));
	} while (change != atomic_load(&j->turn_changes) && !atomic_load(&j->stopping));
}

void jobs_new_turns(struct jobs *j)
{
	pthread_mutex_lock(&j->throttle_lock);
	j->throttle_next_us = 0;
	atomic_fetch_add(&j->turn_changes, 1);
	pthread_mutex_unlock(&j->throttle_lock);
}
