// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs41_session.c - what makes, uses and ends a session, as bytes; and its slots.
 *
 * What SEQUENCE answers is compared with what was sent: an answer of another session, slot or
 * number is none to this call, and nothing behind it counts.
 */
#include <errno.h>
#include <string.h>

#include "nfs/nfs41.h"

#define SCOPE_MAX     1024 /* NFS4_OPAQUE_LIMIT */
#define SUPPORT_MOVED 0x3u /* referrals and moved file systems: we tell of them */
#define NO_PROTECTION 0u /* SP4_NONE */
#define CALL_MAX      8192
#define CB_PROGRAM    0x40000000u /* of callbacks, for which no channel is asked */

/* sr_status_flags: the others are of state, which we have none of, and of callbacks */
#define RESTART_RECLAIM_NEEDED 0x100u

/* ---- making one ---- */

void nfs41_put_exchange(struct nfs4_out *o, const char *owner, const uint8_t verifier[8])
{
	nfs4_put_op(o, NFS4_EXCHANGE_ID);
	nfs4_put_fixed(o, verifier, 8);
	nfs4_put_opaque(o, owner, strlen(owner));
	nfs4_put32(o, SUPPORT_MOVED);
	nfs4_put32(o, NO_PROTECTION);
	nfs4_put32(o, 0); /* who has written the client */
}

int nfs41_get_exchange(struct nfs4_reply *r, struct nfs41_session *s, uint32_t *sequence)
{
	int status = nfs4_next(r, NFS4_EXCHANGE_ID);
	uint32_t len;

	if (status)
		return status;
	s->client = nfs4_get64(&r->in);
	*sequence = nfs4_get32(&r->in);
	nfs4_get32(&r->in); /* flags: of parallel NFS, and what moves */
	if (nfs4_get32(&r->in) != NO_PROTECTION)
		return -EBADMSG;
	nfs4_get64(&r->in);
	nfs4_get_opaque(&r->in, SCOPE_MAX, &len); /* whose it is: we do not use several as one */
	nfs4_get_opaque(&r->in, SCOPE_MAX, &len);
	return r->in.bad ? -EBADMSG : 0; /* who has written the server is left */
}

static void put_channel(struct nfs4_out *o, uint32_t call, uint32_t reply, uint32_t ops,
			uint32_t slots)
{
	nfs4_put32(o, 0); /* padding */
	nfs4_put32(o, call);
	nfs4_put32(o, reply);
	nfs4_put32(o, 0); /* of a reply that the server should keep: we never ask for it again */
	nfs4_put32(o, ops);
	nfs4_put32(o, slots);
	nfs4_put32(o, 0); /* RDMA */
}

void nfs41_put_create(struct nfs4_out *o, const struct nfs41_session *s, uint32_t sequence,
		      uint32_t slots)
{
	nfs4_put_op(o, NFS4_CREATE_SESSION);
	nfs4_put64(o, s->client);
	nfs4_put32(o, sequence);
	nfs4_put32(o, 0); /* not to outlive the server, and no way back for callbacks */
	put_channel(o, CALL_MAX, NFS41_REPLY_MAX, NFS41_OPS, slots);
	put_channel(o, 4096, 4096, 2, 1); /* the way back, as it would be */
	nfs4_put32(o, CB_PROGRAM);
	nfs4_put32(o, 1); /* credentials there: */
	nfs4_put32(o, 0); /* AUTH_NONE */
}

struct channel {
	uint32_t call, reply, ops, slots;
};

static void get_channel(struct nfs4_in *in, struct channel *out)
{
	uint32_t rdma;

	nfs4_get32(in);
	out->call = nfs4_get32(in);
	out->reply = nfs4_get32(in);
	nfs4_get32(in);
	out->ops = nfs4_get32(in);
	out->slots = nfs4_get32(in);
	rdma = nfs4_get32(in);
	if (rdma > 1)
		in->bad = true;
	else if (rdma)
		nfs4_get32(in);
}

static const char *unfit(const struct channel *c)
{
	if (c->reply < NFS41_REPLY_LEAST)
		return "its replies may not be long enough (ca_maxresponsesize)";
	if (c->call < NFS41_CALL_LEAST)
		return "calls may not be long enough (ca_maxrequestsize)";
	if (c->ops < NFS41_OPS_LEAST)
		return "calls may not have enough operations (ca_maxoperations)";
	if (!c->slots)
		return "it has no slots";
	return NULL;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

int nfs41_get_create(struct nfs4_reply *r, struct nfs41_session *s, uint32_t sequence,
		     uint32_t slots, const char **why)
{
	int status = nfs4_next(r, NFS4_CREATE_SESSION);
	struct channel fore, back;

	*why = NULL;
	if (status)
		return status;
	nfs4_get_fixed(&r->in, s->id, sizeof(s->id));
	if (nfs4_get32(&r->in) != sequence)
		return -EBADMSG;
	nfs4_get32(&r->in); /* flags: nothing was asked for */
	get_channel(&r->in, &fore);
	get_channel(&r->in, &back);
	if (r->in.bad)
		return -EBADMSG;
	*why = unfit(&fore);
	/* whatever a server says: not more than was asked for */
	s->slots = s->allowed = least(fore.slots, least(slots, NFS41_SLOTS_MAX));
	s->reply_max = least(fore.reply, NFS41_REPLY_MAX);
	s->ops_max = least(fore.ops, NFS41_OPS);
	s->begun = false;
	for (uint32_t i = 0; i < NFS41_SLOTS_MAX; i++)
		s->slot[i] = (struct nfs41_slot){ .sequence = 1 };
	return 0;
}

/* ---- slots ---- */

static uint32_t free_slot(const struct nfs41_session *s)
{
	uint32_t i = 0;

	while (i < s->allowed && s->slot[i].busy)
		i++;
	return i;
}

bool nfs41_has_slot(const struct nfs41_session *s)
{
	return free_slot(s) < s->allowed;
}

static uint32_t highest_busy(const struct nfs41_session *s)
{
	uint32_t i = s->slots;

	while (i > 1 && !s->slot[i - 1].busy)
		i--;
	return i - 1;
}

uint32_t nfs41_put_sequence(struct nfs4_out *o, struct nfs41_session *s)
{
	uint32_t i = free_slot(s);

	s->slot[i].busy = true;
	nfs4_put_op(o, NFS4_SEQUENCE);
	nfs4_put_fixed(o, s->id, sizeof(s->id));
	nfs4_put32(o, s->slot[i].sequence);
	nfs4_put32(o, i);
	nfs4_put32(o, highest_busy(s));
	nfs4_put32(o, 0); /* the reply need not be kept */
	return i + 1;
}

void nfs41_unsent(struct nfs41_session *s, uint32_t slot)
{
	s->slot[slot - 1].busy = false;
}

struct sequenced {
	uint8_t id[16];
	uint32_t sequence, slot, target, flags;
};

static int get_sequence(struct nfs4_reply *r, struct sequenced *out)
{
	int status = nfs4_next(r, NFS4_SEQUENCE);

	if (status)
		return status;
	nfs4_get_fixed(&r->in, out->id, sizeof(out->id));
	out->sequence = nfs4_get32(&r->in);
	out->slot = nfs4_get32(&r->in);
	nfs4_get32(&r->in); /* the highest that it has */
	out->target = nfs4_get32(&r->in);
	out->flags = nfs4_get32(&r->in);
	return r->in.bad ? -EBADMSG : 0;
}

/* The server has restarted, and kept the session: what there is to be reclaimed, which is nothing,
 * is said to a new one.  Told from the beginning it is no news. */
static bool is_restart(struct nfs41_session *s, uint32_t flags)
{
	bool told = flags & RESTART_RECLAIM_NEEDED, news = told && s->begun;

	s->begun = !told;
	return news;
}

int nfs41_take_sequence(struct nfs4_reply *r, struct nfs41_session *s, uint32_t slot)
{
	struct nfs41_slot *at = &s->slot[slot - 1];
	struct sequenced q;
	int status = get_sequence(r, &q);

	if (status < 0)
		return status;
	if (status) { /* the slot's number stays */
		at->busy = false;
		return status;
	}
	if (memcmp(q.id, s->id, sizeof(q.id)) || q.slot != slot - 1 || q.sequence != at->sequence ||
	    !at->busy)
		return -EBADMSG;
	at->busy = false;
	at->sequence++;
	s->allowed = q.target < s->slots ? q.target + 1 : s->slots;
	return is_restart(s, q.flags) ? NFS4_DEADSESSION : 0;
}

int nfs41_pass_sequence(struct nfs4_reply *r)
{
	struct sequenced q;

	return get_sequence(r, &q);
}

bool nfs41_is_lost(int status)
{
	static const int lost[] = {
		NFS4_EXPIRED,	  NFS4_STALE_CLIENTID, NFS4_BADSESSION,
		NFS4_BADSLOT,	  NFS4_CONN_NOT_BOUND, NFS4_SEQ_MISORDERED,
		NFS4_SEQUENCE_POS, NFS4_RETRY_UNCACHED, NFS4_SEQ_FALSE_RETRY,
		NFS4_BAD_HIGH_SLOT, NFS4_DEADSESSION, NFS4_MINOR_VERS_MISMATCH,
	};

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		if (lost[i] == status)
			return true;
	return false;
}

uint32_t nfs41_fit(const struct nfs41_session *s, uint32_t wanted)
{
	return s ? least(wanted, s->reply_max - NFS41_BESIDE_BYTES) : wanted;
}
