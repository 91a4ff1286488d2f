/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_books.c - what is told of a job besides its answer: the log, and the journal's
 * entry of an object that failed.
 */
#include <stdio.h>

#include "jobs/jobs_internal.h"

bool jobs_may_warn(struct jobs *j)
{
	uint64_t now = stub_now_ms(), last = atomic_load(&j->books.warned_ms);

	return (last == 0 || now - last > 60000) &&
	       atomic_compare_exchange_strong(&j->books.warned_ms, &last, now);
}

bool jobs_parked_now(struct jobs *j, const struct stub_handle *h)
{
	return absent_known(&j->books.parked, stub_handle_sum(h), h, "", 0);
}

bool jobs_later(struct jobs *j, const struct stub_handle *h)
{
	return absent_known(&j->books.later, stub_handle_sum(h), h, "", 0);
}

void jobs_note_later(struct jobs *j, const struct stub_handle *h)
{
	absent_remember(&j->books.later, stub_handle_sum(h), h, "", 0);
}

void jobs_retry(struct jobs *j)
{
	absent_forget(&j->books.parked);
}

static void park(struct jobs *j, const struct stub_handle *h, enum stub_park how, int error,
		 const char *reason)
{
	int r = stub_journal_fail(j->c.journal, h, how, error, reason);

	trace(trace_of, "%s%s", reason, how == STUB_PARK_NONE ? "" : "; parked");
	if (how != STUB_PARK_NONE)
		absent_remember(&j->books.parked, stub_handle_sum(h), h, "", 0);
	if (r < 0 && r != -ENOENT)
		jobs_log(j, STUB_LOG_ERROR, "journal: cannot note \"%s\": %s", reason,
			 strerror(-r));
}

int jobs_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what)
{
	switch (error) {
	case -EINPROGRESS: /* "later" of this object is no error: run() puts the job off */
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

	atomic_fetch_add(&j->n.errors, 1);
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

	atomic_fetch_add(&j->n.errors, 1);
	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(-error));
	park(j, h, STUB_PARK_ERROR, -error, reason);
	jobs_tell(j, STUB_LOG_WARN, h, reason, "; parked");
	return -EREMOTEIO;
}

int jobs_conflict(struct jobs *j, const struct stub_handle *h, const char *reason)
{
	bool again = jobs_parked_now(j, h); /* each READ comes as far as here: it is told once */

	if (source_verify(j->c.source) == -ENOMEDIUM)
		return -EAGAIN; /* the source is lost: not this object was replaced, but all */
	atomic_fetch_add(&j->n.conflicts, 1);
	park(j, h, STUB_PARK_CONFLICT, ESTALE, reason);
	if (!again)
		jobs_tell(j, STUB_LOG_WARN, h, reason, "; parked as conflict");
	return -EREMOTEIO;
}

/* ---- storing ---- */

int jobs_store_failed(struct jobs *j, const struct stub_handle *h, enum full_what stored, int error,
		      const char *what)
{
	char own[160];

	if (error == -E2BIG || error == -EOVERFLOW) { /* this object only: the volume is not full */
		snprintf(own, sizeof(own), "%s: its attributes do not fit beside each other", what);
		return jobs_failed(j, h, error, own);
	}
	if (error != -ENOSPC && error != -EDQUOT && error != -EROFS && error != -EIO)
		return jobs_failed(j, h, error, what);
	full_note(&j->full, stored, error);
	if (error == -EIO) { /* perhaps the object's own: it counts as a try */
		snprintf(own, sizeof(own), "new volume, %s", what);
		jobs_blame(j, h, error, own);
		return -EIO;
	}
	if (jobs_may_warn(j))
		jobs_log(j, STUB_LOG_WARN,
			 "%s: the new volume takes no data (%s); objects stay stubs, reads are passed on",
			 what, strerror(-error));
	return error;
}

void jobs_stored(struct jobs *j, enum full_what stored)
{
	if (full_is_over(&j->full, stored))
		jobs_log(j, STUB_LOG_INFO, "the new volume takes data again");
}

/* ---- life ---- */

void jobs_books_init(struct job_books *b)
{
	absent_init(&b->parked);
	absent_init(&b->later);
}

void jobs_books_finish(struct job_books *b)
{
	absent_finish(&b->parked);
	absent_finish(&b->later);
}
