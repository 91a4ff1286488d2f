// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_answer.c - the answer to a compound: of one call, or of several that went together.
 *
 * The crawler's small calls (READ of a small file, LISTXATTRS of an entry) are a few hundred bytes
 * each, and cost both sides more in messages, system calls and threads that wake each other than
 * in what they do.  So up to MANY of those that a connection has to send go in one compound:
 *
 *      SEQUENCE  PUTFH READ GETATTR  PUTFH READ GETATTR  ...
 *
 * A server ends a compound with the first operation that fails, and does nothing of what is behind
 * it.  What an error means for a call is therefore never found out here: a call that fails among
 * others is sent once more, alone, and those behind it are sent again (nfs_call.c).  So nobody is
 * blamed for another one's error, and one answer to each call is all that anybody else sees.
 *
 * Few go together, since a server works on a compound one operation at a time, and its disks want
 * several to do; and no call that a client waits for.
 */
#include <errno.h>
#include <stdio.h>

#include "nfs/nfs41.h"
#include "nfs/nfs42.h"

#define MANY	  4
#define MANY_OPS  3 /* of each, at most */
#define SMALL_MAX (64u * 1024) /* bytes that a call may bring */

/* ---- one ---- */

/* What SEQUENCE says.  Not 0: of what comes then nothing was done. */
static int take_sequence(const struct nfs_call *c, struct nfs4_reply *r, struct nfs_answer *a)
{
	int status = c->slot ? nfs41_take_sequence(r, nfs4_session(c), c->slot) : 0;

	if (status < 0) {
		a->fault = NFS_FAULT_GARBAGE;
		snprintf(a->why, sizeof(a->why), "SEQUENCE is of another call");
	} else if (nfs41_is_lost(status)) {
		a->fault = NFS_FAULT_SESSION;
		snprintf(a->why, sizeof(a->why), "the server has dropped the session (status %d)",
			 status);
	}
	return nfs4_errno(status);
}

void nfs4_answer(struct nfs_source *s, const struct nfs_call *c, const void *reply,
		 struct nfs_answer *out)
{
	struct nfs4_reply r;

	*out = (struct nfs_answer){ .said = NFS_SAID_NOTHING, .reply = reply };
	nfs4_open(reply, &r);
	out->error = take_sequence(c, &r, out);
	if (!out->error)
		out->error = nfs4_take(s, c, &r, out);
	if (out->error == -EBADMSG)
		out->have_attr = out->have_dir = false;
}

/* ---- several ---- */

static bool is_small(const struct nfs_call *c)
{
	bool may = c->prio == SOURCE_BACKGROUND && !c->alone && !c->suspect && !c->losses &&
		   !c->garbage;

	return may && (c->op == NFS_OP_READ || c->op == NFS_OP_LISTXATTRS) && c->count <= SMALL_MAX;
}

bool nfs4_joins(const struct nfs_conn *conn, const struct nfs_call *first,
		const struct nfs_call *next)
{
	const struct nfs41_session *s = conn->session;
	uint32_t n = 1, bytes = nfs_call_load(next);

	if (conn->each_alone || !is_small(first) || !is_small(next))
		return false;
	for (const struct nfs_call *c = first; c; c = c->with) {
		bytes += nfs_call_load(c);
		n++;
	}
	return n <= MANY && (!s || 1 + n * MANY_OPS <= s->ops_max) && nfs41_fit(s, bytes) == bytes;
}

/* Was it more than the server takes at once? */
static bool is_too_much(uint32_t status)
{
	return status == NFS4_RESOURCE || status == NFS4_REQ_TOO_BIG ||
	       status == NFS4_REP_TOO_BIG || status == NFS4_TOO_MANY_OPS;
}

void nfs4_answers(struct nfs_source *s, struct nfs_call *first, const void *reply,
		  struct nfs_answer *a, void (*take)(struct nfs_call *c, const struct nfs_answer *a))
{
	struct nfs_call *c, *next;
	struct nfs4_reply r;
	int e;

	*a = (struct nfs_answer){ .said = NFS_SAID_NOTHING };
	nfs4_open(reply, &r);
	if (is_too_much(r.status))
		first->conn->each_alone = true;
	e = take_sequence(first, &r, a);
	if (a->fault)
		return;
	for (c = first; c; c = next) {
		struct nfs_answer own = { .error = e, .said = NFS_SAID_NOTHING, .reply = reply };
		bool said = !e || c == first;

		next = c->with; /* before it may be freed */
		if (!e)
			e = own.error = nfs4_take(s, c, &r, &own);
		take(c, said ? &own : NULL);
	}
}
