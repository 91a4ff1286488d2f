/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * tickets.h - Kerberos tickets for a source: from a keytab, by ourselves, or from a credential
 * cache that somebody else keeps filled.
 *
 * A thread of its own gets tickets and, when half of their life is over, newer ones; an
 * exchange with a KDC that is away takes as long as libkrb5 likes, and no other thread waits
 * for it.  What is kept of them is the source's (struct tickets_keep).
 */
#ifndef TICKETS_H
#define TICKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "krb5/tickets_get.h"
#include "stubcore.h"

struct tickets;

struct tickets_config {
	const char *keytab;    /* path; NULL or "": not with a keytab */
	const char *principal; /* NULL or "": of the keytab's first entry */
	const char *cache;     /* as KRB5CCNAME; only without a keytab */
	const char *service, *host; /* the file server, as in struct tickets_from */
	bool hostbased;
	struct tickets_keep keep; /* may be called until the thread has ended */
	/* From the thread: newer tickets are there.  It must not call tickets_*(). */
	void (*changed)(void *arg);
	/* From the thread, one line: tickets that are there cannot be renewed, or can again. */
	void (*tell)(void *arg, enum stub_log_level level, const char *line);
	void *arg;
};

/*
 * Begin.  Copies what @c points to.
 *   -EACCES   others may read the keytab, or it has no key of the principal
 *   -ENOENT   there is no keytab
 *   -EINVAL   it is no file
 *   -ENOMEM, -EAGAIN (no thread)
 * with one line in @why.
 */
int tickets_create(const struct tickets_config *c, struct tickets **out, char *why,
		      size_t why_size);

/* Nothing is called back any more, nobody waits any more.  NULL is fine. */
void tickets_stop(struct tickets *t);

/*
 * After tickets_stop(); a thread that is in an exchange ends when the KDC lets it.  The process may
 * end before that, or without this: by exit() (_exit(), if nobody has waited for a thread, when what
 * was registered later is done and the streams are flushed).  NULL is fine.
 */
void tickets_destroy(struct tickets *t);

/* Do not wait any more after a refusal.  NULL is fine. */
void tickets_hurry(struct tickets *t);

/* When the next attempt is, if the last one was refused; else 0.  0 for NULL. */
uint64_t tickets_refused(const struct tickets *t);

/* A number for the newest tickets, which grows.  0 for NULL, and before the first ones. */
uint64_t tickets_serial(const struct tickets *t);

struct tickets_now {
	void *kept;
	uint64_t serial;
	uint64_t left_ms; /* how long they are good for still */
	const char *principal; /* whose: name@REALM */
};

/*
 * Call @use with the newest tickets, and return what it does; waits at most @wait_ms for the first
 * attempt to get some.  Until it returns nothing else is done with them, so it must be quick.
 *   -EACCES        refused: key, principal, clock; no ticket, or one that is over
 *   -EHOSTUNREACH  no KDC answers, or is known
 *   -ETIMEDOUT     no answer yet
 *   -ECANCELED     tickets_stop()
 *   -EPROTO ...    anything else
 * with one line in @why, which is also @use's.
 */
typedef int (*tickets_use_fn)(void *arg, const struct tickets_now *now, char *why,
			      size_t why_size);
int tickets_use(struct tickets *t, unsigned int wait_ms, tickets_use_fn use, void *arg, char *why,
		size_t why_size);

#endif
