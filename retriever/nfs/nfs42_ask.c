// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs42_ask.c - one call that a thread waits for. */
#include <errno.h>

#include "nfs/nfs42.h"

static void on_done(struct nfs_call *c, int err, const struct nfs_answer *a)
{
	struct nfs42_call *k = (struct nfs42_call *)c;

	k->a = a ? *a : (struct nfs_answer){ .said = NFS_SAID_NOTHING };
	k->err = err;
	if (!err && k->take)
		k->err = k->take(k->arg, a);
	k->a.data = NULL;
	k->a.reply = NULL;
	nfs_wait_done(&k->wait);
}

/* What no version before can say is never given to a connection, which could only break of it. */
static bool can_be_said(const struct nfs_source *s, enum nfs_op op)
{
	return s->uri.version->minor >= 2 || op == NFS_OP_READ || op == NFS_OP_GETATTR;
}

int nfs42_ask(struct nfs_source *s, struct nfs42_call *k, enum nfs_op op, enum source_priority p,
	      const struct stub_origin *o)
{
	int r;

	if (!can_be_said(s, op)) {
		k->a = (struct nfs_answer){ .said = NFS_SAID_NOTSUPP };
		return -EOPNOTSUPP;
	}
	k->call.op = op;
	k->call.prio = p;
	k->call.fh = *o;
	k->call.done = on_done;
	nfs_wait_init(&k->wait);
	nfs_wait_add(&k->wait);
	r = nfs_submit(s, &k->call);
	if (!r) {
		nfs_wait_below(&k->wait, 1);
		r = k->err;
	}
	nfs_wait_finish(&k->wait);
	if (r == -EBADMSG)
		nfs_log(s, STUB_LOG_ERROR, "source %s: impossible answer to %s", s->uri.host,
			nfs_op_name(op));
	return r;
}
