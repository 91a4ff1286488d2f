// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_call.c - one call: encode it, judge what comes back.
 *
 * What libnfs may report, and what becomes of the call:
 *
 *   a reply        NFS3ERR_JUKEBOX: again after a back-off; else done()
 *   unusable       the connection is reset; third time: done(-EBADMSG or -EIO)
 *   RPC refused    done() with an error: asking again would not help
 *   anything else  the connection broke: the call stays in its flight, from where
 *                  nfs_conn.c takes it back
 *
 * libnfs tells these apart by text alone; the texts are the same in 4.0.0 and 5.0.2.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs.h"

/* ---- replies ---- */

enum verdict { VERDICT_LOST, VERDICT_GARBAGE, VERDICT_REFUSED };

/* The call failed below NFS: how?  *error: what it ends with, if it ends. */
static enum verdict judge(const char *text, int *error)
{
	static const struct {
		const char *text;
		enum verdict verdict;
		int error;
	} known[] = {
		/* its name for "cannot decode" */
		{ "Message rejected by server", VERDICT_GARBAGE, -EBADMSG },
		{ "RPC Packet not accepted by the server", VERDICT_REFUSED, -EACCES },
		{ "Server responded: Garbage arguments", VERDICT_REFUSED, -EBADMSG },
		{ "Server responded: Program not available", VERDICT_GARBAGE, -EIO },
		{ "Server responded: Program version mismatch", VERDICT_REFUSED, -EIO },
		{ "Server responded: Procedure not available", VERDICT_REFUSED, -EIO },
		{ "Server responded: System Error", VERDICT_GARBAGE, -EIO },
		{ "Unknown rpc response from server", VERDICT_GARBAGE, -EBADMSG },
	};
	size_t i;

	for (i = 0; text && i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i].text)) {
			*error = known[i].error;
			return known[i].verdict;
		}
	return VERDICT_LOST;
}

static void finish(struct nfs_call *c, int error, void *reply)
{
	const struct nfs_conn *on = c->conn;

	nfs_settle(c->conn, c);
	nfs_call_over(c, on, error, reply);
}

static void on_failure(struct nfs_call *c, const char *text)
{
	struct nfs_conn *conn = c->conn;
	struct nfs_source *s = conn->s;
	int error = 0;

	switch (judge(text, &error)) {
	case VERDICT_LOST:
		nfs_conn_break(conn, "connection closed");
		return;
	case VERDICT_GARBAGE:
		nfs_conn_break(conn, "unusable answer to %s: %.80s", nfs_op_name(c->op), text);
		if (++c->garbage < NFS_GARBAGE_MAX)
			return;
		break;
	case VERDICT_REFUSED:
		break;
	}
	nfs_log(s, STUB_LOG_ERROR, "source %s: %s failed: %s", s->uri.host, nfs_op_name(c->op),
		text);
	finish(c, error, NULL);
}

/* Does done() get the reply also of a failed call?  It may have attributes, or more codes. */
static bool tells_more(enum nfs_op op)
{
	return op == NFS_OP_READDIR || op == NFS_OP_READDIRPLUS || op == NFS_OP_LOOKUP ||
	       op == NFS_OP_GETACL;
}

static void on_reply(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct nfs_call *c = arg;
	struct nfs_conn *conn = c->conn;
	uint32_t nfsstat;
	int error;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS) {
		on_failure(c, status == RPC_STATUS_ERROR ? data : NULL);
		return;
	}
	conn->heard_ms = stub_now_ms();
	conn->replied = true;
	nfsstat = *(const uint32_t *)data; /* every NFSv3 result starts with it */
	if (nfsstat == NFS3ERR_JUKEBOX) {
		trace(c->trace, "source %s: JUKEBOX, connection %u", nfs_op_name(c->op),
		      conn->index);
		nfs_settle(conn, c);
		nfs_delay(conn->s, c);
		return;
	}
	if (nfsstat != NFS3_OK && tells_more(c->op)) {
		finish(c, nfs_errno(nfsstat), data);
		return;
	}
	error = nfs_errno(nfsstat);
	finish(c, error, error ? NULL : data);
}

/* ---- encoding ---- */

static int send_access(struct nfs_call *c, struct rpc_context *rpc, struct nfs_fh3 fh)
{
	struct ACCESS3args args = { fh, c->count };
	int r;

	/* Credentials are encoded when the call is queued. */
	rpc_set_auth(rpc, libnfs_authunix_create("postcopy", c->uid, c->uid, 0, NULL));
	r = rpc_nfs3_access_async(rpc, on_reply, &args, c);
	rpc_set_auth(rpc, libnfs_authunix_create("postcopy", 0, 0, 0, NULL));
	return r;
}

static int send_readdirplus(struct nfs_call *c, struct rpc_context *rpc, struct nfs_fh3 fh)
{
	struct READDIRPLUS3args args = { .dir = fh,
					 .cookie = c->offset,
					 .dircount = c->count,
					 .maxcount = c->count };

	memcpy(args.cookieverf, c->verf, sizeof(c->verf));
	return rpc_nfs3_readdirplus_async(rpc, on_reply, &args, c);
}

static int send_readdir(struct nfs_call *c, struct rpc_context *rpc, struct nfs_fh3 fh)
{
	struct READDIR3args args = { .dir = fh, .cookie = c->offset, .count = c->count };

	memcpy(args.cookieverf, c->verf, sizeof(c->verf));
	return rpc_nfs3_readdir_async(rpc, on_reply, &args, c);
}

static int queue_call(struct nfs_call *c, struct rpc_context *rpc)
{
	struct nfs_fh3 fh = { { c->fh.len, (char *)c->fh.bytes } };

	switch (c->op) {
	case NFS_OP_GETATTR: {
		struct GETATTR3args args = { fh };

		return rpc_nfs3_getattr_async(rpc, on_reply, &args, c);
	}
	case NFS_OP_LOOKUP: {
		struct LOOKUP3args args = { { fh, (char *)c->name } };

		return rpc_nfs3_lookup_async(rpc, on_reply, &args, c);
	}
	case NFS_OP_READLINK: {
		struct READLINK3args args = { fh };

		return rpc_nfs3_readlink_async(rpc, on_reply, &args, c);
	}
	case NFS_OP_READ: {
		struct READ3args args = { fh, c->offset, c->count };

		return rpc_nfs3_read_async(rpc, on_reply, &args, c);
	}
	case NFS_OP_ACCESS:
		return send_access(c, rpc, fh);
	case NFS_OP_READDIRPLUS:
		return send_readdirplus(c, rpc, fh);
	case NFS_OP_READDIR:
		return send_readdir(c, rpc, fh);
	case NFS_OP_GETACL: {
		struct GETACL3args args = { fh, c->count };

		return rpc_nfsacl_getacl_async(rpc, on_reply, &args, c);
	}
	}
	return -1;
}

int nfs_call_send(struct nfs_call *c)
{
	return queue_call(c, c->conn->rpc) ? -ENOMEM : 0;
}

/* ---- waiting ---- */

void nfs_wait_init(struct nfs_wait *w)
{
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->pending = 0;
}

void nfs_wait_finish(struct nfs_wait *w)
{
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}

void nfs_wait_add(struct nfs_wait *w)
{
	pthread_mutex_lock(&w->lock);
	w->pending++;
	pthread_mutex_unlock(&w->lock);
}

void nfs_wait_done(struct nfs_wait *w)
{
	pthread_mutex_lock(&w->lock);
	w->pending--;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void nfs_wait_below(struct nfs_wait *w, unsigned int n)
{
	pthread_mutex_lock(&w->lock);
	while (w->pending >= n)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}
