/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_krb5.h - get tickets once, by libkrb5; smb_ticket.c does that again and again. */
#ifndef SMB_KRB5_H
#define SMB_KRB5_H

#include <stddef.h>
#include <stdint.h>

#define SMB_KRB5_MAX (1u << 20) /* bytes of a credential cache */

struct smb_krb5_tickets {
	uint8_t *bytes; /* a credential cache's file; smb_krb5_free() */
	size_t len;
	int64_t left_s; /* how long they are good for, > 0 */
	char user[256]; /* name@REALM, which libsmbclient wants beside the tickets */
};

struct smb_krb5_from { /* "": none */
	const char *keytab;
	const char *principal; /* "": of the keytab's first entry */
	const char *cache;     /* only without a keytab */
	const char *host;      /* the file server */
};

/*
 * Get a ticket for the file server @host, and the ticket-granting ticket that was used for
 * it, with the keytab or out of the cache.  Blocks, as long as libkrb5 likes.  Any thread.
 * Errors as of smb_ticket_write(), and -EINVAL: keytab or cache is no file; one line in @why.
 */
int smb_krb5_get(const struct smb_krb5_from *from, struct smb_krb5_tickets *out, char *why,
		 size_t why_size);
void smb_krb5_free(struct smb_krb5_tickets *t);

/* Can tickets be got with this keytab, as far as can be known without asking a KDC?
 *   -EACCES, -ENOENT, -EINVAL: see smb_ticket_create() */
int smb_krb5_check(const char *keytab, const char *principal, char *why, size_t why_size);

#endif
