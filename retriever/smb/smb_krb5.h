/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_krb5.h - one exchange with libkrb5: what smb_ticket.c does over and over. */
#ifndef SMB_KRB5_H
#define SMB_KRB5_H

#include <stddef.h>
#include <stdint.h>

#define SMB_KRB5_MAX (1u << 20) /* bytes of a credential cache */

struct smb_krb5_tickets {
	uint8_t *bytes; /* a credential cache's file; smb_krb5_free() */
	size_t len;
	int64_t left_s; /* how long they are good for, > 0 */
	char user[256]; /* name@REALM, as libsmbclient wants it beside them */
};

struct smb_krb5_from { /* "": none */
	const char *keytab;
	const char *principal; /* "": of the keytab's first entry */
	const char *cache;     /* only without a keytab */
	const char *host;      /* who is to be talked with */
};

/*
 * A ticket for the file server @host, and that with which it was got: with the keytab,
 * or out of the cache.  Blocks, as long as libkrb5 likes.  Any thread.
 * Errors as of smb_ticket_write(), and -EINVAL: it is no file; one line in @why.
 */
int smb_krb5_get(const struct smb_krb5_from *from, struct smb_krb5_tickets *out, char *why,
		 size_t why_size);
void smb_krb5_free(struct smb_krb5_tickets *t);

/* Can it be done with this keytab, as far as one can know without asking anybody?
 *   -EACCES, -ENOENT, -EINVAL: see smb_ticket_create() */
int smb_krb5_check(const char *keytab, const char *principal, char *why, size_t why_size);

#endif
