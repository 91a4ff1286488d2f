// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs41_dial.c - the session of a connection: made, kept alive, ended.
 *
 * A connection that is made again is a client that has started again: it has the name that it had,
 * and another verifier, so that the server drops the session that was lost with the connection
 * before (RFC 8881, 18.35.4), and does not keep it for a lease.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "nfs/nfs41.h"

#define PART_MS	    1000 /* the end is not waited for any longer */
#define IDLE_MIN_MS 500

/* ---- who we are ---- */

static uint64_t any_number(void)
{
	static _Atomic uint64_t made;
	uint64_t n;

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) == sizeof(n))
		return n;
	return stub_now_us() << 16 ^ (uint64_t)getpid() << 48 ^ ++made;
}

void nfs41_owner(char out[NFS_OWNER_MAX], unsigned int index)
{
	char host[65];

	if (gethostname(host, sizeof(host)))
		strcpy(host, "?");
	host[sizeof(host) - 1] = '\0';
	snprintf(out, NFS_OWNER_MAX, "postcopy %s %ld %016llx %u", host, (long)getpid(),
		 (unsigned long long)any_number(), index);
}

/* ---- one compound ---- */

struct step {
	struct nfs41_session *s;
	enum nfs4_op op;
	uint32_t sequence, slots, slot;
	int status; /* of the answer */
	const char *unfit;
};

static void take(struct nfs_dial *d, void *data)
{
	struct step *x = d->out;
	struct nfs4_reply r;
	struct nfs4_attrs a;

	nfs4_open(data, &r);
	switch (x->op) {
	case NFS4_EXCHANGE_ID:
		x->status = nfs41_get_exchange(&r, x->s, &x->sequence);
		break;
	case NFS4_CREATE_SESSION:
		x->status = nfs41_get_create(&r, x->s, x->sequence, x->slots, &x->unfit);
		break;
	case NFS4_SEQUENCE:
		x->status = nfs41_take_sequence(&r, x->s, x->slot);
		/* what comes then is of use, and not needed */
		if (!x->status && !nfs4_next(&r, NFS4_RECLAIM_COMPLETE) &&
		    !nfs4_next(&r, NFS4_PUTROOTFH) && !nfs4_next(&r, NFS4_GETATTR) &&
		    !nfs4_get_attrs(&r.in, NFS4_BIT(FATTR4_LEASE_TIME), &a))
			x->s->lease_s = a.lease_time;
		break;
	default: /* of an end, which says nothing */
		break;
	}
}

static void begin(const struct nfs_dial *d, struct nfs4_out *o)
{
	nfs4_begin(o);
	nfs4_minor(o, d->uri->version->minor);
}

static int run(struct nfs_dial *d, struct nfs_carrier *rpc, struct step *x, enum nfs4_op op,
	       struct nfs4_out *o)
{
	int r;

	x->op = op;
	x->status = 0;
	nfs_dial_begin(d, take, x);
	r = nfs_dial_finish(d, rpc, nfs4_queue(o, rpc, nfs_dial_on_step, d), "NFS service");
	if (r || !x->status)
		return r;
	if (x->status == NFS4_MINOR_VERS_MISMATCH) {
		d->minor_refused = true;
		return nfs_dial_fail(d, -EPROTO, "%s has no %s", d->uri->host, d->uri->version->name);
	}
	if (x->status == NFS4_DELAY || x->status == NFS4_GRACE)
		return nfs_dial_fail(d, -EPROTO, "%s makes no session yet (NFSv4 status %d)",
				     d->uri->host, x->status);
	if (x->status < 0)
		return nfs_dial_fail(d, -EPROTO, "impossible answer of %s about a session",
				     d->uri->host);
	return nfs_dial_fail(d, -EPROTO,
			     "%s makes no session (NFSv4 status %d): version=4.0 needs none",
			     d->uri->host, x->status);
}

/* ---- the beginning ---- */

static int exchange(struct nfs_dial *d, struct nfs_carrier *rpc, struct step *x)
{
	uint64_t verifier = any_number();
	char owner[NFS_OWNER_MAX];
	struct nfs4_out o;

	if (!d->owner)
		nfs41_owner(owner, 0);
	begin(d, &o);
	nfs41_put_exchange(&o, d->owner ? d->owner : owner, (const uint8_t *)&verifier);
	return run(d, rpc, x, NFS4_EXCHANGE_ID, &o);
}

static int create(struct nfs_dial *d, struct nfs_carrier *rpc, struct step *x)
{
	struct nfs4_out o;
	int r;

	begin(d, &o);
	nfs41_put_create(&o, x->s, x->sequence, x->slots);
	r = run(d, rpc, x, NFS4_CREATE_SESSION, &o);
	if (!r && x->unfit)
		r = nfs_dial_fail(d, -EPROTO,
				  "a session of %s is of no use: %s; version=4.0 needs none",
				  d->uri->host, x->unfit);
	return r;
}

/* There is nothing to be reclaimed; and how long does the session live? */
static int first_call(struct nfs_dial *d, struct nfs_carrier *rpc, struct step *x)
{
	struct nfs4_out o;

	begin(d, &o);
	x->slot = nfs41_put_sequence(&o, x->s);
	nfs4_put_op(&o, NFS4_RECLAIM_COMPLETE);
	nfs4_put32(&o, 0); /* of all file systems */
	nfs4_put_op(&o, NFS4_PUTROOTFH);
	nfs4_put_op(&o, NFS4_GETATTR);
	nfs4_put_bitmap(&o, NFS4_BIT(FATTR4_LEASE_TIME));
	return run(d, rpc, x, NFS4_SEQUENCE, &o);
}

int nfs41_greet(struct nfs_dial *d, struct nfs_carrier *rpc)
{
	struct step x = { .slots = d->slots ? d->slots : 1 };
	int r;

	if (!nfs_zdr_compounds())
		return nfs_dial_fail(d, -EPROTO, "this libnfs is not the one we know");
	d->minor_refused = false;
	x.s = calloc(1, sizeof(*x.s));
	if (!x.s)
		return nfs_dial_fail(d, -ENOMEM, "out of memory");
	r = exchange(d, rpc, &x);
	if (!r)
		r = create(d, rpc, &x);
	if (!r)
		r = first_call(d, rpc, &x);
	if (r) {
		free(x.s);
		return r;
	}
	d->session = x.s;
	return 0;
}

/* ---- the end ---- */

void nfs41_part(struct nfs_dial *d, struct nfs_carrier *rpc)
{
	uint64_t soon = stub_now_ms() + PART_MS, deadline = d->deadline_ms;
	struct step x = { .s = d->session };
	struct nfs4_out o;

	if (d->deadline_ms > soon)
		d->deadline_ms = soon;
	begin(d, &o);
	nfs4_put_op(&o, NFS4_DESTROY_SESSION);
	nfs4_put_fixed(&o, x.s->id, sizeof(x.s->id));
	if (!run(d, rpc, &x, NFS4_DESTROY_SESSION, &o)) {
		begin(d, &o);
		nfs4_put_op(&o, NFS4_DESTROY_CLIENTID);
		nfs4_put64(&o, x.s->client);
		run(d, rpc, &x, NFS4_DESTROY_CLIENTID, &o);
	}
	d->deadline_ms = deadline;
	free(d->session);
	d->session = NULL;
}

/* ---- in between ---- */

uint64_t nfs41_idle_ms(const struct nfs41_session *s)
{
	uint64_t third = s && s->lease_s ? (uint64_t)s->lease_s * 1000 / 3 : NFS_PING_MS;

	return third < IDLE_MIN_MS ? IDLE_MIN_MS : third < NFS_PING_MS ? third : NFS_PING_MS;
}

/* Only sent when nothing else is in flight: slot 1 is free. */
int nfs41_ping(struct nfs_conn *c, rpc_cb cb, void *arg)
{
	struct nfs4_out o;
	uint32_t slot;
	int r;

	nfs4_begin(&o);
	nfs4_minor(&o, c->s->uri.version->minor);
	slot = nfs41_put_sequence(&o, c->session);
	r = nfs4_queue(&o, c->rpc, cb, arg);
	if (r)
		nfs41_unsent(c->session, slot);
	return r;
}

const char *nfs41_pinged(struct nfs_conn *c, const void *reply)
{
	struct nfs4_reply r;
	int status;

	nfs4_open(reply, &r);
	status = nfs41_take_sequence(&r, c->session, 1);
	if (status < 0)
		return "unusable answer to SEQUENCE";
	return nfs41_is_lost(status) ? "the server has dropped the session" : NULL;
}
