/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * tickets_gss.h - contexts of GSSAPI, begun with the newest tickets.
 *
 * What is kept of tickets is a credential cache in memory, which only this process sees, and the
 * server's name.
 */
#ifndef TICKETS_GSS_H
#define TICKETS_GSS_H

#include "krb5/tickets.h"
#include "rpc/onc.h"

extern const struct tickets_keep tickets_gss_keep;

/* For tickets kept so: begin a context with the server.  Waits at most @wait_ms for tickets, and
 * for no network else.  Errors as of tickets_use(), with one line in @why. */
int tickets_gss_begin(struct tickets *t, unsigned int wait_ms, struct onc_begun *out, char *why,
		      size_t why_size);

/* Wait at most @wait_ms until there are tickets: 0 with their serial, or an error as above. */
int tickets_wait(struct tickets *t, unsigned int wait_ms, uint64_t *serial, char *why,
		 size_t why_size);

#endif
