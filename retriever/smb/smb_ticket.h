/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_ticket.h - Kerberos tickets for the SMB source: from a keytab, by ourselves, or
 * from a credential cache that somebody else keeps filled.
 *
 * A thread of its own gets tickets and, when half of their life is over, newer ones; an
 * exchange with a KDC that is away takes as long as libkrb5 likes, and no other thread waits
 * for it.  The tickets are kept as the bytes of a credential cache, which every new worker
 * finds in its home: workers never need a password or a key, and never change any cache.
 */
#ifndef SMB_TICKET_H
#define SMB_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/source.h"

struct smb_ticket;

struct smb_ticket_config {
	const char *keytab;    /* path; NULL or "": not with a keytab */
	const char *principal; /* NULL or "": of the keytab's first entry */
	const char *cache;     /* as KRB5CCNAME; only without a keytab */
	const char *host;      /* the file server */
	/* From the thread: newer tickets are there.  It must not call smb_ticket_*(). */
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
int smb_ticket_create(const struct smb_ticket_config *c, struct smb_ticket **out, char *why,
		      size_t why_size);

/* Nothing is called back any more, nobody waits any more.  NULL is fine. */
void smb_ticket_stop(struct smb_ticket *t);

/* After smb_ticket_stop(); the thread ends when the KDC lets it.  NULL is fine. */
void smb_ticket_destroy(struct smb_ticket *t);

/* Do not wait any more after a refusal.  NULL is fine. */
void smb_ticket_hurry(struct smb_ticket *t);

/* When the next attempt is, if the last one was refused; else 0.  0 for NULL. */
uint64_t smb_ticket_refused(const struct smb_ticket *t);

/* A number for the newest tickets, which grows.  0 for NULL, and before the first ones. */
uint64_t smb_ticket_serial(const struct smb_ticket *t);

struct smb_ticket_written {
	uint64_t serial;
	char user[256]; /* see smb_krb5.h */
};

/*
 * Write the newest tickets into the new file @path, mode 0600; waits at most @wait_ms for
 * the first attempt to get some.  @out: their serial, and whose they are.
 *   -EACCES        refused: key, principal, clock; no ticket, or one that is over
 *   -EHOSTUNREACH  no KDC answers, or is known
 *   -ETIMEDOUT     no answer yet
 *   -ECANCELED     smb_ticket_stop()
 *   -EPROTO ...    anything else, or as open() and write()
 * with one line in @why.
 */
int smb_ticket_write(struct smb_ticket *t, const char *path, unsigned int wait_ms,
		     struct smb_ticket_written *out, char *why, size_t why_size);

#endif
