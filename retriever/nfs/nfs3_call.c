// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs3_call.c - NFSv3 (RFC 1813): how a call is said, and what its reply says. */
#include <errno.h>
#include <string.h>

#include "nfs/nfs_page.h"

/* ---- calls ---- */

int nfs3_null(struct nfs_carrier *rpc, rpc_cb cb, void *arg)
{
	return rpc_nfs3_null_async(rpc->libnfs, cb, arg);
}

static int send_access(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb, struct nfs_fh3 fh)
{
	struct ACCESS3args args = { fh, c->count };
	int r;

	/* Credentials are encoded when the call is queued. */
	rpc_set_auth(rpc->libnfs, libnfs_authunix_create("postcopy", c->uid, c->uid, 0, NULL));
	r = rpc_nfs3_access_async(rpc->libnfs, cb, &args, c);
	rpc_set_auth(rpc->libnfs, libnfs_authunix_create("postcopy", 0, 0, 0, NULL));
	return r;
}

static int send_readdirplus(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb,
			    struct nfs_fh3 fh)
{
	struct READDIRPLUS3args args = { .dir = fh,
					 .cookie = c->offset,
					 .dircount = c->count,
					 .maxcount = c->count };

	memcpy(args.cookieverf, c->verf, sizeof(c->verf));
	return rpc_nfs3_readdirplus_async(rpc->libnfs, cb, &args, c);
}

static int send_readdir(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb, struct nfs_fh3 fh)
{
	struct READDIR3args args = { .dir = fh, .cookie = c->offset, .count = c->count };

	memcpy(args.cookieverf, c->verf, sizeof(c->verf));
	return rpc_nfs3_readdir_async(rpc->libnfs, cb, &args, c);
}

int nfs3_send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb)
{
	struct nfs_fh3 fh = { { c->fh.len, (char *)c->fh.bytes } };

	switch (c->op) {
	case NFS_OP_GETATTR: {
		struct GETATTR3args args = { fh };

		return rpc_nfs3_getattr_async(rpc->libnfs, cb, &args, c);
	}
	case NFS_OP_LOOKUP: {
		struct LOOKUP3args args = { { fh, (char *)c->name } };

		return rpc_nfs3_lookup_async(rpc->libnfs, cb, &args, c);
	}
	case NFS_OP_READLINK: {
		struct READLINK3args args = { fh };

		return rpc_nfs3_readlink_async(rpc->libnfs, cb, &args, c);
	}
	case NFS_OP_READ: {
		struct READ3args args = { fh, c->offset, c->count };

		return rpc_nfs3_read_async(rpc->libnfs, cb, &args, c);
	}
	case NFS_OP_ACCESS:
		return send_access(c, rpc, cb, fh);
	case NFS_OP_READDIRPLUS:
		return send_readdirplus(c, rpc, cb, fh);
	case NFS_OP_READDIR:
		return send_readdir(c, rpc, cb, fh);
	case NFS_OP_GETACL: {
		struct GETACL3args args = { fh, c->count };

		return rpc_nfsacl_getacl_async(rpc->libnfs, cb, &args, c);
	}
	default:
		return nfs3_change_send(c, rpc, cb);
	}
}

/* ---- answers ---- */

static int take_attr(const struct post_op_attr *from, struct nfs_answer *a)
{
	return nfs_post_attr(from, &a->have_attr, &a->attr);
}

static int take_dir(const struct post_op_attr *from, struct nfs_answer *a)
{
	return nfs_post_attr(from, &a->have_dir, &a->dir);
}

static int take_getattr(const struct GETATTR3res *res, struct nfs_answer *a)
{
	if (a->error)
		return 0;
	a->have_attr = true;
	return nfs_attr(&res->GETATTR3res_u.resok.obj_attributes, &a->attr);
}

static int take_lookup(const struct LOOKUP3res *res, struct nfs_answer *a)
{
	const struct LOOKUP3resok *ok = &res->LOOKUP3res_u.resok;

	if (a->error)
		return take_dir(&res->LOOKUP3res_u.resfail.dir_attributes, a);
	if (nfs_origin(&ok->object, &a->origin) || take_attr(&ok->obj_attributes, a))
		return -EBADMSG;
	return take_dir(&ok->dir_attributes, a);
}

static int take_readlink(const struct READLINK3res *res, struct nfs_answer *a)
{
	if (a->error)
		return 0;
	a->data = res->READLINK3res_u.resok.data;
	a->len = (uint32_t)strlen(a->data);
	return take_attr(&res->READLINK3res_u.resok.symlink_attributes, a);
}

static int take_read(const struct nfs_call *c, const struct READ3res *res, struct nfs_answer *a)
{
	const struct READ3resok *ok = &res->READ3res_u.resok;

	if (a->error)
		return 0;
	a->data = ok->data.data_val;
	a->len = ok->data.data_len;
	a->eof = ok->eof;
	if (a->len > c->count || ok->count != a->len)
		return -EBADMSG;
	return take_attr(&ok->file_attributes, a);
}

static enum nfs_said said(uint32_t status)
{
	switch (status) {
	case NFS3ERR_TOOSMALL:
		return NFS_SAID_TOOSMALL;
	case NFS3ERR_NOTSUPP:
		return NFS_SAID_NOTSUPP;
	case NFS3ERR_BAD_COOKIE:
	case NFS3ERR_NOT_SYNC:
		return NFS_SAID_COOKIE;
	default:
		return NFS_SAID_NOTHING;
	}
}

void nfs3_answer(struct nfs_source *s, const struct nfs_call *c, const void *reply,
		 struct nfs_answer *out)
{
	uint32_t status = *(const uint32_t *)reply; /* every result starts with it */
	int r = 0;

	(void)s;
	*out = (struct nfs_answer){ .error = nfs_errno(status), .said = said(status), .reply = reply };
	switch (c->op) {
	case NFS_OP_GETATTR:
		r = take_getattr(reply, out);
		break;
	case NFS_OP_LOOKUP:
		r = take_lookup(reply, out);
		break;
	case NFS_OP_READLINK:
		r = take_readlink(reply, out);
		break;
	case NFS_OP_ACCESS:
		if (!out->error)
			out->granted =
				((const struct ACCESS3res *)reply)->ACCESS3res_u.resok.access;
		break;
	case NFS_OP_READ:
		r = take_read(c, reply, out);
		break;
	case NFS_OP_READDIRPLUS:
	case NFS_OP_READDIR: /* nfs3_page() */
	case NFS_OP_GETACL: /* nfs_acl.c */
		break;
	default:
		r = nfs3_change_answer(c, reply, out);
		break;
	}
	if (r) {
		out->error = r;
		out->have_attr = out->have_dir = false;
	}
}

int nfs3_page(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
	      struct nfs_page *out, const char **why)
{
	const void *reply = a->reply;

	(void)s;
	if (c->op == NFS_OP_READDIRPLUS)
		return nfs_page_plus(
			&((const struct READDIRPLUS3res *)reply)->READDIRPLUS3res_u.resok, out,
			why);
	return nfs_page_plain(&((const struct READDIR3res *)reply)->READDIR3res_u.resok, out, why);
}
