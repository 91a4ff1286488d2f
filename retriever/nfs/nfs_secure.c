// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_secure.c - a connection whose server has answered NULL, and with Kerberos has a context.
 *
 * With sec=sys libnfs carries it.  Else rpc/onc.h does, and nothing but NULL is ever sent without a
 * context: a server that takes AUTH_SYS, too, is none the wiser who we are.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "krb5/tickets_gss.h"
#include "nfs/nfs.h"
#include "rpc/onc.h"

#define ROOM (128 * 1024) /* in a reply, beside what was read */

_Static_assert((int)NFS_SEC_KRB5 == (int)ONC_AUTHENTIC &&
		       (int)NFS_SEC_KRB5I == (int)ONC_INTEGRITY &&
		       (int)NFS_SEC_KRB5P == (int)ONC_PRIVACY,
	       "services have the same numbers");

static unsigned int left_ms(const struct nfs_dial *d)
{
	uint64_t now = stub_now_ms();

	return d->deadline_ms > now ? (unsigned int)(d->deadline_ms - now) : 0;
}

/* For calls of the connection, whenever its context is to be renewed: nobody may wait. */
static int begin_context(void *arg, struct onc_begun *out, char *why, size_t size)
{
	return tickets_gss_begin(arg, 0, out, why, size);
}

static void on_step(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	struct nfs_dial *d = arg;

	(void)results;
	(void)why;
	d->error = -error;
	nfs_dial_on_step(NULL, error ? RPC_STATUS_ERROR : RPC_STATUS_SUCCESS, NULL, d);
}

static int connect_own(struct nfs_dial *d, struct nfs_carrier *carrier, const char *address,
		       int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *at;
	char text[8];
	int r;

	snprintf(text, sizeof(text), "%d", port);
	if (getaddrinfo(address, text, &hints, &at))
		return nfs_dial_fail(d, -EHOSTUNREACH, "host %s has no address", d->uri->host);
	nfs_dial_begin(d, NULL, NULL);
	r = onc_connect(carrier->own, at->ai_addr, at->ai_addrlen, on_step, d);
	freeaddrinfo(at);
	if (r)
		return nfs_dial_connect_error(d, -r, "NFS service", address, port);
	r = nfs_dial_run(d, carrier, "NFS service");
	if (!r && d->status != RPC_STATUS_SUCCESS)
		r = nfs_dial_connect_error(d, d->error, "NFS service", address, port);
	return r;
}

static int dial_own(struct nfs_dial *d, const char *address, int port, struct nfs_carrier **out)
{
	const struct onc_config config = {
		.program = NFS_PROGRAM,
		.version = d->uri->version->number,
		.reply_max = NFS_READ_MAX + ROOM,
		.flavor = ONC_GSS,
		.service = (enum onc_service)d->uri->sec,
		.begin = begin_context,
		.arg = d->tickets,
	};
	struct nfs_carrier *carrier = NULL;
	struct onc_conn *own;
	int r = tickets_wait(d->tickets, left_ms(d), &d->serial, d->why, sizeof(d->why));

	if (r)
		return r;
	if (!onc_create(&config, &own))
		carrier = nfs_carrier_make(NULL, own);
	if (!carrier)
		return nfs_dial_fail(d, -ENOMEM, "out of memory");
	r = connect_own(d, carrier, address, port);
	if (r)
		nfs_carrier_destroy(carrier);
	else
		*out = carrier;
	return r;
}

static int secure(struct nfs_dial *d, struct nfs_carrier *carrier)
{
	nfs_dial_begin(d, NULL, NULL);
	onc_secure(carrier->own, on_step, d);
	return nfs_dial_finish(d, carrier, 0, "NFS service");
}

int nfs_dial_nfs(struct nfs_dial *d, const char *address, struct nfs_carrier **out)
{
	const struct nfs_version *v = d->uri->version;
	uint16_t port = d->uri->nfsport ? d->uri->nfsport : v->port;
	struct nfs_carrier *carrier;
	bool own = d->uri->sec != NFS_SEC_SYS;
	int r = own ? dial_own(d, address, port, &carrier) :
		      nfs_dial_program(d, address, port, NFS_PROGRAM, v->number, "NFS service",
				       &carrier);

	if (r)
		return r;
	nfs_dial_begin(d, NULL, NULL);
	r = nfs_dial_finish(d, carrier, v->null(carrier, nfs_dial_on_step, d), "NFS service");
	if (!r && own)
		r = secure(d, carrier);
	if (!r && v->greet)
		r = v->greet(d, carrier);
	if (r)
		nfs_carrier_destroy(carrier);
	else
		*out = carrier;
	return r;
}
