// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs3_change.c - NFSv3 (RFC 1813), and the ACL protocol beside it: how calls that change something
 * are said, and what their replies say.
 *
 * Of attributes before and after a change ("wcc") nothing is taken: who changes something looks at it
 * again.
 */
#include <errno.h>
#include <string.h>

#include "nfs/nfs.h"
#include "source/target.h"

/* ---- calls ---- */

static struct nfs_fh3 handle(const struct stub_origin *o)
{
	return (struct nfs_fh3){ { o->len, (char *)o->bytes } };
}

static struct diropargs3 named(const struct stub_origin *dir, const char *name)
{
	return (struct diropargs3){ handle(dir), (char *)name };
}

static struct nfstime3 wire_time(const struct timespec *t)
{
	return (struct nfstime3){ (uint32_t)t->tv_sec, (uint32_t)t->tv_nsec };
}

static struct sattr3 settable(const struct nfs_call *c)
{
	const struct stub_attr *a = c->change->attr;
	unsigned int what = c->change->what;
	struct sattr3 s;

	memset(&s, 0, sizeof(s));
	if (what & TARGET_MODE) {
		s.mode.set_it = 1;
		s.mode.set_mode3_u.mode = a->mode & 07777;
	}
	if (what & TARGET_OWNER) {
		s.uid.set_it = s.gid.set_it = 1;
		s.uid.set_uid3_u.uid = a->uid;
		s.gid.set_gid3_u.gid = a->gid;
	}
	if (what & TARGET_SIZE) {
		s.size.set_it = 1;
		s.size.set_size3_u.size = a->size;
	}
	if (what & TARGET_TIMES) {
		s.atime.set_it = s.mtime.set_it = SET_TO_CLIENT_TIME;
		s.atime.set_atime_u.atime = wire_time(&a->atime);
		s.mtime.set_mtime_u.mtime = wire_time(&a->mtime);
	}
	return s;
}

typedef int send_fn(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb);

static int send_setattr(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct SETATTR3args args = { .object = handle(&c->fh), .new_attributes = settable(c) };

	return rpc_nfs3_setattr_async(rpc, cb, &args, c);
}

static int send_write(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct WRITE3args args = { .file = handle(&c->fh),
				   .offset = c->offset,
				   .count = c->count,
				   .stable = c->change->keep ? FILE_SYNC : UNSTABLE,
				   .data = { c->count, (char *)c->change->data } };

	return rpc_nfs3_write_async(rpc, cb, &args, c);
}

static int send_commit(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct COMMIT3args args = { .file = handle(&c->fh) }; /* all of it */

	return rpc_nfs3_commit_async(rpc, cb, &args, c);
}

static int send_create(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct CREATE3args args = { .where = named(&c->fh, c->name), .how.mode = GUARDED };

	args.how.createhow3_u.g_obj_attributes = settable(c);
	return rpc_nfs3_create_async(rpc, cb, &args, c);
}

static int send_mkdir(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct MKDIR3args args = { named(&c->fh, c->name), settable(c) };

	return rpc_nfs3_mkdir_async(rpc, cb, &args, c);
}

static int send_symlink(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct SYMLINK3args args = { named(&c->fh, c->name),
				     { settable(c), (char *)c->change->to } };

	return rpc_nfs3_symlink_async(rpc, cb, &args, c);
}

static int send_mknod(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	const struct stub_attr *a = c->change->attr;
	struct devicedata3 device = { settable(c), { a->rdev_major, a->rdev_minor } };
	struct MKNOD3args args = { .where = named(&c->fh, c->name) };

	if (S_ISCHR(a->mode)) {
		args.what.type = NF3CHR;
		args.what.mknoddata3_u.chr_device = device;
	} else if (S_ISBLK(a->mode)) {
		args.what.type = NF3BLK;
		args.what.mknoddata3_u.blk_device = device;
	} else if (S_ISSOCK(a->mode)) {
		args.what.type = NF3SOCK;
		args.what.mknoddata3_u.sock_attributes = device.dev_attributes;
	} else {
		args.what.type = NF3FIFO;
		args.what.mknoddata3_u.pipe_attributes = device.dev_attributes;
	}
	return rpc_nfs3_mknod_async(rpc, cb, &args, c);
}

static int send_remove(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct REMOVE3args args = { named(&c->fh, c->name) };

	return rpc_nfs3_remove_async(rpc, cb, &args, c);
}

static int send_rmdir(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct RMDIR3args args = { named(&c->fh, c->name) };

	return rpc_nfs3_rmdir_async(rpc, cb, &args, c);
}

static int send_rename(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct RENAME3args args = { named(&c->fh, c->name),
				    named(c->change->dir, c->change->to) };

	return rpc_nfs3_rename_async(rpc, cb, &args, c);
}

static int send_link(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	struct LINK3args args = { handle(&c->fh), named(c->change->dir, c->change->to) };

	return rpc_nfs3_link_async(rpc, cb, &args, c);
}

static int send_setacl(struct nfs_call *c, struct rpc_context *rpc, rpc_cb cb)
{
	const struct nfs_change *x = c->change;
	struct SETACL3args args = { .dir = handle(&c->fh),
				    .mask = c->count,
				    .ace_count = x->access.n,
				    .ace = { x->access.n, x->access.e },
				    .default_ace_count = x->def.n,
				    .default_ace = { x->def.n, x->def.e } };

	return rpc_nfsacl_setacl_async(rpc, cb, &args, c);
}

/* ---- answers ---- */

typedef int take_fn(const struct nfs_call *c, const void *reply, struct nfs_answer *a);

static int take_write(const struct nfs_call *c, const void *reply, struct nfs_answer *a)
{
	const struct WRITE3resok *ok = &((const struct WRITE3res *)reply)->WRITE3res_u.resok;
	uint32_t committed = (uint32_t)ok->committed;

	if (ok->count > c->count || committed > FILE_SYNC)
		return -EBADMSG;
	a->len = ok->count;
	a->stable = committed == FILE_SYNC;
	memcpy(&a->verf, ok->verf, sizeof(a->verf));
	return 0;
}

static int take_commit(const struct nfs_call *c, const void *reply, struct nfs_answer *a)
{
	const struct COMMIT3resok *ok = &((const struct COMMIT3res *)reply)->COMMIT3res_u.resok;

	(void)c;
	memcpy(&a->verf, ok->verf, sizeof(a->verf));
	return 0;
}

/* A server need not say either of them. */
static int take_new(const struct post_op_fh3 *fh, const struct post_op_attr *attr,
		    struct nfs_answer *a)
{
	if (fh->handle_follows && nfs_origin(&fh->post_op_fh3_u.handle, &a->origin))
		return -EBADMSG;
	return nfs_post_attr(attr, &a->have_attr, &a->attr);
}

static int take_create(const struct nfs_call *c, const void *reply, struct nfs_answer *a)
{
	const struct CREATE3resok *ok = &((const struct CREATE3res *)reply)->CREATE3res_u.resok;

	(void)c;
	return take_new(&ok->obj, &ok->obj_attributes, a);
}

static int take_mkdir(const struct nfs_call *c, const void *reply, struct nfs_answer *a)
{
	const struct MKDIR3resok *ok = &((const struct MKDIR3res *)reply)->MKDIR3res_u.resok;

	(void)c;
	return take_new(&ok->obj, &ok->obj_attributes, a);
}

static int take_symlink(const struct nfs_call *c, const void *reply, struct nfs_answer *a)
{
	const struct SYMLINK3resok *ok = &((const struct SYMLINK3res *)reply)->SYMLINK3res_u.resok;

	(void)c;
	return take_new(&ok->obj, &ok->obj_attributes, a);
}

static int take_mknod(const struct nfs_call *c, const void *reply, struct nfs_answer *a)
{
	const struct MKNOD3resok *ok = &((const struct MKNOD3res *)reply)->MKNOD3res_u.resok;

	(void)c;
	return take_new(&ok->obj, &ok->obj_attributes, a);
}

/* ---- all of them ---- */

static const struct {
	send_fn *send;
	take_fn *take; /* of success; NULL: that it was one is all */
} calls[] = {
	[NFS_OP_SETATTR] = { send_setattr, NULL },
	[NFS_OP_WRITE] = { send_write, take_write },
	[NFS_OP_COMMIT] = { send_commit, take_commit },
	[NFS_OP_CREATE] = { send_create, take_create },
	[NFS_OP_MKDIR] = { send_mkdir, take_mkdir },
	[NFS_OP_SYMLINK] = { send_symlink, take_symlink },
	[NFS_OP_MKNOD] = { send_mknod, take_mknod },
	[NFS_OP_REMOVE] = { send_remove, NULL },
	[NFS_OP_RMDIR] = { send_rmdir, NULL },
	[NFS_OP_RENAME] = { send_rename, NULL },
	[NFS_OP_LINK] = { send_link, NULL },
	[NFS_OP_SETACL] = { send_setacl, NULL },
};

int nfs3_change_send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb)
{
	if (c->op >= sizeof(calls) / sizeof(calls[0]) || !calls[c->op].send)
		return -EOPNOTSUPP;
	return calls[c->op].send(c, rpc->libnfs, cb);
}

int nfs3_change_answer(const struct nfs_call *c, const void *reply, struct nfs_answer *out)
{
	uint32_t status = *(const uint32_t *)reply;

	if (c->op >= sizeof(calls) / sizeof(calls[0]) || !calls[c->op].send)
		return -EBADMSG;
	out->error = nfs_change_errno(status);
	/* rmdir() may say either, and so do the servers of some systems */
	if (c->op == NFS_OP_RMDIR && out->error == -EEXIST)
		out->error = -ENOTEMPTY;
	return out->error || !calls[c->op].take ? 0 : calls[c->op].take(c, reply, out);
}
