// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs42_call.c - how extended attributes are asked for, and what a reply says of them (RFC 8276). */
#include <errno.h>

#include "nfs/nfs42.h"

void nfs42_put_list(struct nfs4_out *o, uint64_t cookie, uint32_t bytes)
{
	nfs4_put_op(o, NFS4_LISTXATTRS);
	nfs4_put64(o, cookie);
	nfs4_put32(o, bytes);
}

void nfs42_met(int err, const struct nfs_answer *a, struct stub_attr *attr)
{
	if (!err)
		attr->more = attr->more || a->granted;
	else if (!a || a->said != NFS_SAID_NOTSUPP)
		attr->more = true; /* source_meta() finds out, and what is wrong is the object's own */
}

/* The names in a->data; eof comes behind them. */
static int get_names(struct nfs4_reply *r, struct nfs_answer *a)
{
	uint32_t len;

	a->at = nfs4_get64(&r->in);
	a->granted = nfs4_get32(&r->in);
	a->data = (const char *)r->in.p;
	for (uint32_t i = 0; i < a->granted && !r->in.bad; i++)
		nfs4_get_opaque(&r->in, UINT32_MAX, &len);
	a->len = (uint32_t)(r->in.p - (const uint8_t *)a->data);
	a->eof = nfs4_get32(&r->in);
	return r->in.bad ? -EBADMSG : 0;
}

int nfs42_take_list(struct nfs4_reply *r, struct nfs_answer *a)
{
	int status = nfs4_next(r, NFS4_LISTXATTRS);

	a->said = nfs4_said(status);
	return status ? nfs4_errno(status) : get_names(r, a);
}

/* What was found is there, whatever is said of its extended attributes. */
int nfs42_look_behind(struct nfs4_reply *r, struct nfs_answer *a)
{
	int e = nfs42_take_list(r, a);

	/* an error says nothing where the file system has none anyway */
	if (e != -EBADMSG && e != -EAGAIN && (!e || a->xattrs) &&
	    (S_ISREG(a->attr.mode) || S_ISDIR(a->attr.mode)))
		nfs42_met(e, a, &a->attr);
	a->said = NFS_SAID_NOTHING;
	return e == -EBADMSG || e == -EAGAIN ? e : 0;
}

int nfs42_take_value(struct nfs4_reply *r, struct nfs_answer *a)
{
	int status = nfs4_next(r, NFS4_GETXATTR);

	a->said = nfs4_said(status);
	if (status)
		return nfs4_errno(status);
	a->data = (const char *)nfs4_get_opaque(&r->in, UINT32_MAX, &a->len);
	return a->data ? 0 : -EBADMSG;
}
