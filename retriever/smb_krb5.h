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

/*
 * Get tickets for @principal ("": the first entry's) with @keytab, or, if that is "", take
 * those in @cache.  Blocks, as long as libkrb5 likes.  Any thread.
 * Errors as of smb_ticket_write(), and -EINVAL: it is no file; one line in @why.
 */
int smb_krb5_get(const char *keytab, const char *principal, const char *cache,
		 struct smb_krb5_tickets *out, char *why, size_t why_size);
void smb_krb5_free(struct smb_krb5_tickets *t);

/* Can it be done with this keytab, as far as one can know without asking anybody?
 *   -EACCES, -ENOENT, -EINVAL: see smb_ticket_create() */
int smb_krb5_check(const char *keytab, const char *principal, char *why, size_t why_size);

#endif
