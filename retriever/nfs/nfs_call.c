// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_call.c - one call: send it, judge what comes back.
 *
 * What libnfs may report, and what becomes of the call:
 *
 *   a reply        NFS3ERR_JUKEBOX: again after a back-off; else done()
 *   unusable       the connection is reset; third time: done(-EBADMSG or -EIO)
 *   no session     (NFSv4.1) the connection is reset; the call is not to blame, however often
 *   RPC refused    done() with an error: asking again would not help.  (NFSv4.1) Nothing of the
 *                  call was looked at: its slot may be used again, with the same number
 *   never sent     done(-EOPNOTSUPP): this version of the protocol has no such call
 *   anything else  the connection broke: the call stays in its flight, from where
 *                  nfs_conn.c takes it back
 *
 * libnfs tells these apart by text alone; the texts are the same in 4.0.0 and 5.0.2.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs41.h"
#include "source/called.h"

/* ---- one ---- */

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

static void finish(struct nfs_call *c, int error, const struct nfs_answer *a)
{
	const struct nfs_conn *on = c->conn;

	nfs_settle(c->conn, c);
	nfs_call_over(c, on, error, a);
}

/* Whatever is wrong may be one's of those that went together: whose it is, and what it means, is
 * seen when each is sent alone. */
static void part(struct nfs_call *first)
{
	for (struct nfs_call *c = first; c; c = c->with)
		c->alone = true;
}

/* Those that went together, each alone. */
static void send_apart(struct nfs_call *first)
{
	struct nfs_call *c, *next;

	part(first);
	for (c = first; c; c = next) {
		next = c->with;
		nfs_again(c->conn, c);
	}
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
		nfs_conn_break(conn, "unusable answer to %s: %.80s",
			       c->with ? "several calls" : nfs_op_name(c->op), text);
		if (c->with) {
			part(c);
			return;
		}
		if (++c->garbage < NFS_GARBAGE_MAX)
			return;
		break;
	case VERDICT_REFUSED:
		if (c->slot)
			nfs41_unsent(conn->session, c->slot);
		break;
	}
	if (c->with) {
		send_apart(c);
		return;
	}
	nfs_log(s, STUB_LOG_ERROR, "source %s: %s failed: %s", s->uri.host, nfs_op_name(c->op),
		text);
	finish(c, error, NULL);
}

static enum called kind_of(enum nfs_op op)
{
	switch (op) {
	case NFS_OP_LOOKUP:
		return CALLED_LOOKUP;
	case NFS_OP_READDIRPLUS:
	case NFS_OP_READDIR:
		return CALLED_LISTING;
	case NFS_OP_GETATTR:
		return CALLED_ATTRIBUTES;
	case NFS_OP_READ:
		return CALLED_READ;
	default:
		return CALLED_OTHER;
	}
}

/* How long the answer took. */
static void note(const struct nfs_call *c, const struct nfs_answer *a)
{
	const struct source_pool *p = &c->conn->s->pool;
	enum called kind = kind_of(c->op);

	called(kind, c->sent_us);
	if (kind == CALLED_LISTING)
		limiter_heard(p->limiter, p->lane);
	else
		limiter_answered(p->limiter, p->lane, c->sent_us,
				 kind == CALLED_READ && !a->error ? a->len : 0);
}

/* What came is no answer to the call. */
static void on_fault(struct nfs_call *c, const struct nfs_answer *a)
{
	struct nfs_conn *conn = c->conn;

	if (a->fault == NFS_FAULT_SESSION) {
		conn->blameless = true;
		nfs_conn_break(conn, "%s", a->why);
		return;
	}
	nfs_conn_break(conn, "unusable answer to %s: %s", nfs_op_name(c->op), a->why);
	if (++c->garbage < NFS_GARBAGE_MAX)
		return;
	nfs_log(conn->s, STUB_LOG_ERROR, "source %s: %s failed: %s", conn->s->uri.host,
		nfs_op_name(c->op), a->why);
	finish(c, -EBADMSG, NULL);
}

/* ---- several in one message ---- */

static void take_one(struct nfs_call *c, const struct nfs_answer *a)
{
	if (a)
		note(c, a);
	if (a && !a->error) {
		finish(c, 0, a);
		return;
	}
	c->alone = c->alone || a;
	nfs_again(c->conn, c);
}

static void on_replies(struct nfs_call *first, const void *reply)
{
	struct nfs_conn *conn = first->conn;
	struct nfs_answer a;

	conn->heard_ms = stub_now_ms();
	conn->s->uri.version->answers(conn->s, first, reply, &a, take_one);
	if (!a.fault) {
		conn->replied = true;
		return;
	}
	part(first);
	conn->blameless = a.fault == NFS_FAULT_SESSION;
	nfs_conn_break(conn, "%s", a.why);
}

/* ---- replies ---- */

static void on_reply(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct nfs_call *c = arg;
	struct nfs_conn *conn = c->conn;
	struct nfs_answer a;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS) {
		on_failure(c, status == RPC_STATUS_ERROR ? data : NULL);
		return;
	}
	if (c->with) {
		on_replies(c, data);
		return;
	}
	conn->heard_ms = stub_now_ms();
	conn->s->uri.version->answer(conn->s, c, data, &a);
	if (a.fault) {
		on_fault(c, &a);
		return;
	}
	note(c, &a);
	conn->replied = true;
	if (a.error == -EAGAIN) {
		trace(c->trace, "source %s: JUKEBOX, connection %u", nfs_op_name(c->op),
		      conn->index);
		nfs_settle(conn, c);
		nfs_delay(conn->s, c);
		return;
	}
	finish(c, a.error, &a);
}

int nfs_call_send(struct nfs_call *c)
{
	int r = c->conn->s->uri.version->send(c, c->conn->rpc, on_reply);

	if (r == -EOPNOTSUPP) {
		finish(c, r, NULL);
		return 0;
	}
	return r ? -ENOMEM : 0;
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
