/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_krb5.h - Kerberos tickets for workers, as the bytes of a credential cache.
 *
 * Every new worker finds them in its home: workers never need a password or a key, and never change
 * any cache.
 */
#ifndef SMB_KRB5_H
#define SMB_KRB5_H

#include "krb5/tickets.h"

extern const struct tickets_keep smb_krb5_keep;

struct smb_krb5_written {
	uint64_t serial;
	char user[256]; /* name@REALM, which libsmbclient wants beside the tickets */
};

/*
 * Write the newest tickets into the new file @path, mode 0600; waits at most @wait_ms for
 * the first attempt to get some.  @out: their serial, and whose they are.
 * Errors as of tickets_use(), open() and write(), with one line in @why.
 */
int smb_krb5_write(struct tickets *t, const char *path, unsigned int wait_ms,
		   struct smb_krb5_written *out, char *why, size_t why_size);

#endif
