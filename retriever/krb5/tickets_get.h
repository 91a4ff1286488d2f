/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tickets_get.h - get Kerberos tickets once, by libkrb5; tickets.c does that again and again. */
#ifndef TICKETS_GET_H
#define TICKETS_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <krb5.h>

struct tickets_from { /* "": none */
	const char *keytab;
	const char *principal; /* "": of the keytab's first entry */
	const char *cache;     /* only without a keytab */
	const char *service, *host; /* the file server: "cifs", "nfs"; its name */
	/* The name is a host's, for which krb5.conf may have another, as GSSAPI takes it; else it is
	 * taken as it is. */
	bool hostbased;
};

/* What becomes of tickets. */
struct tickets_keep {
	/* Make of those in @cache, which goes away then, something that is kept.  0, or -errno with
	 * one line in @why. */
	int (*make)(const struct tickets_from *from, krb5_context k, krb5_ccache cache,
		    void **kept, char *why, size_t why_size);
	void (*drop)(void *kept);
};

struct tickets_got {
	void *kept;
	int64_t left_s; /* how long they are good for, > 0 */
	char principal[256]; /* whose: name@REALM */
};

/*
 * Get a ticket for the file server, and the ticket-granting ticket that was used for it, with the
 * keytab or out of the cache.  Blocks, as long as libkrb5 likes.  Any thread.
 * Errors as of tickets_use(), and -EINVAL: keytab or cache is no file; one line in @why.
 */
int tickets_get(const struct tickets_from *from, const struct tickets_keep *keep,
		struct tickets_got *out, char *why, size_t why_size);

/* Can tickets be got with this keytab, as far as can be known without asking a KDC?
 *   -EACCES, -ENOENT, -EINVAL: see tickets_create() */
int tickets_check(const char *keytab, const char *principal, char *why, size_t why_size);

/* All of @from into @to, which has nothing else then.  0, or libkrb5's error. */
krb5_error_code tickets_copy(krb5_context k, krb5_ccache from, krb5_ccache to);

#endif
