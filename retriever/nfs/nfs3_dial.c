// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs3_dial.c - NFSv3: the export's root, by the MOUNT protocol over a connection of its own, and
 * what is asked of the root over one that is being made.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs.h"

#define EXPORTS_SHOWN 8

/* ---- MOUNT ---- */

struct mounted {
	uint32_t status;
	struct stub_origin root;
};

static void take_mount(struct nfs_dial *d, void *data)
{
	const struct mountres3 *res = data;
	struct mounted *m = d->out;
	struct nfs_fh3 fh;

	m->status = (uint32_t)res->fhs_status;
	m->root.len = 0;
	if (m->status != MNT3_OK)
		return;
	fh.data.data_len = res->mountres3_u.mountinfo.fhandle.fhandle3_len;
	fh.data.data_val = res->mountres3_u.mountinfo.fhandle.fhandle3_val;
	nfs_origin(&fh, &m->root);
}

/* Names come from outside: only what can be shown on a terminal. */
static size_t append(char *to, size_t size, size_t n, const char *text)
{
	for (; *text && n + 1 < size; text++)
		to[n++] = *text >= ' ' && *text < 127 ? *text : '?';
	to[n] = '\0';
	return n;
}

struct export_list {
	char text[NFS_WHY_MAX / 2];
	bool ours; /* the URI's export, or a directory above it, is in the list */
};

static bool covers(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return !strncmp(dir, path, n) && (!path[n] || path[n] == '/' || (n && dir[n - 1] == '/'));
}

static void take_exports(struct nfs_dial *d, void *data)
{
	const struct exportnode *e = *(struct exportnode **)data;
	struct export_list *l = d->out;
	unsigned int shown = 0;
	size_t n = 0;

	for (; e; e = e->ex_next) {
		const char *dir = e->ex_dir ? e->ex_dir : "";

		l->ours = l->ours || covers(dir, d->uri->path);
		if (shown < EXPORTS_SHOWN && n)
			n = append(l->text, sizeof(l->text), n, " ");
		if (shown <= EXPORTS_SHOWN)
			n = append(l->text, sizeof(l->text), n,
				   shown < EXPORTS_SHOWN ? dir : " ...");
		shown++;
	}
}

/* MOUNT was refused.  Some servers say ACCES of a path that is not exported: the list of exports
 * tells. */
static int not_exported(struct nfs_dial *d, struct nfs_carrier *rpc, int error)
{
	struct export_list l = { 0 };
	const char *says;

	nfs_dial_begin(d, take_exports, &l);
	if (nfs_dial_finish(d, rpc, rpc_mount3_export_async(rpc->libnfs, nfs_dial_on_step, d),
			    "mount service"))
		return nfs_dial_fail(d, error, "%.200s %s", d->uri->path,
			    error == -EACCES ? "may not be mounted from here" : "is not exported");
	if (error == -EACCES && !l.ours)
		error = -ENOENT;
	says = error == -EACCES ? "may not be mounted from here" : "is not exported";
	return nfs_dial_fail(d, error, "%.80s %s; exports there: %s", d->uri->path, says,
		    l.text[0] ? l.text : "none");
}

static int mount_error(struct nfs_dial *d, struct nfs_carrier *rpc, uint32_t status)
{
	switch (status) {
	case MNT3ERR_NOENT:
	case MNT3ERR_NOTDIR:
	case MNT3ERR_INVAL:
	case MNT3ERR_NAMETOOLONG:
		return not_exported(d, rpc, -ENOENT);
	case MNT3ERR_PERM:
	case MNT3ERR_ACCES:
		return not_exported(d, rpc, -EACCES);
	default:
		return nfs_dial_fail(d, -EPROTO, "MOUNT of %.100s failed with status %u",
				     d->uri->path, status);
	}
}

static int ask_root(struct nfs_dial *d, const char *address, struct stub_origin *root)
{
	struct mounted m = { 0 };
	struct nfs_carrier *rpc;
	int r = nfs_dial_program(d, address, d->uri->mountport, MOUNT_PROGRAM, MOUNT_V3,
				 "mount service", &rpc);

	if (r)
		return r;
	nfs_dial_begin(d, take_mount, &m);
	r = nfs_dial_finish(d, rpc,
			    rpc_mount3_mnt_async(rpc->libnfs, nfs_dial_on_step, (char *)d->uri->path, d),
			    "mount service");
	if (!r && m.status != MNT3_OK)
		r = mount_error(d, rpc, m.status);
	else if (!r && !m.root.len)
		r = nfs_dial_fail(d, -EPROTO, "the mount service gave an impossible file handle");
	nfs_carrier_destroy(rpc);
	*root = m.root;
	return r;
}

/* ---- of the root ---- */

struct fsinfo {
	uint32_t status, rtmax, rtpref, wtmax, wtpref;
	uint64_t max_file_size;
};

static void take_fsinfo(struct nfs_dial *d, void *data)
{
	const struct FSINFO3res *res = data;
	struct fsinfo *f = d->out;

	f->status = (uint32_t)res->status;
	if (f->status != NFS3_OK)
		return;
	f->rtmax = res->FSINFO3res_u.resok.rtmax;
	f->rtpref = res->FSINFO3res_u.resok.rtpref;
	f->wtmax = res->FSINFO3res_u.resok.wtmax;
	f->wtpref = res->FSINFO3res_u.resok.wtpref;
	f->max_file_size = res->FSINFO3res_u.resok.maxfilesize;
}

static struct nfs_fh3 handle(const struct stub_origin *o)
{
	struct nfs_fh3 fh = { { o->len, (char *)o->bytes } };

	return fh;
}

static uint32_t clip(uint32_t value, uint32_t low, uint32_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* MOUNT has given us the handle: a moment ago, or when the first connection was made. */
static int refused(struct nfs_dial *d, const char *what, uint32_t status)
{
	int error = nfs_errno(status);

	if (error == -ESTALE)
		return nfs_dial_fail(d, -ESTALE,
			    "the server has exported %.100s, but calls its root stale (%s): a "
			    "disk that is not mounted over there any more, or another fsid",
			    d->uri->path, what);
	return nfs_dial_fail(d, error == -EACCES ? -EACCES : -EPROTO,
		    "%s of the root of %.100s failed with NFS status %u", what, d->uri->path,
		    status);
}

static int ask_limits(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *root,
		      const struct source_config *config, struct source_limits *out)
{
	struct FSINFO3args args = { handle(root) };
	struct fsinfo f = { 0 };
	uint32_t reply, call;
	int r;

	nfs_dial_begin(d, take_fsinfo, &f);
	r = nfs_dial_finish(d, rpc, rpc_nfs3_fsinfo_async(rpc->libnfs, nfs_dial_on_step, &args, d),
			    "NFS service");
	if (!r && f.status != NFS3_OK)
		r = refused(d, "FSINFO", f.status);
	if (r)
		return r;
	/* dtpref is no limit (Linux says 4 KiB): servers cut a reply as they need. */
	reply = f.rtmax ? f.rtmax : f.rtpref ? f.rtpref : 32768;
	out->read_bytes = clip(reply, 512, config->read_bytes);
	call = f.wtpref && f.wtpref < f.wtmax ? f.wtpref : f.wtmax ? f.wtmax : 32768;
	out->write_bytes = clip(call, 512, NFS_WRITE_MAX);
	out->readdir_bytes = config->readdir_bytes;
	out->max_file_size = f.max_file_size ? f.max_file_size : INT64_MAX;
	return 0;
}

struct gotten {
	uint32_t status;
	int error;
	struct stub_attr attr;
};

static void take_getattr(struct nfs_dial *d, void *data)
{
	const struct GETATTR3res *res = data;
	struct gotten *g = d->out;

	g->status = (uint32_t)res->status;
	if (g->status == NFS3_OK)
		g->error = nfs_attr(&res->GETATTR3res_u.resok.obj_attributes, &g->attr);
}

static int ask_attr(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *o,
		    struct stub_attr *out)
{
	struct GETATTR3args args = { handle(o) };
	struct gotten g = { 0 };
	int r;

	nfs_dial_begin(d, take_getattr, &g);
	r = nfs_dial_finish(d, rpc, rpc_nfs3_getattr_async(rpc->libnfs, nfs_dial_on_step, &args, d),
			    "NFS service");
	if (!r && g.status != NFS3_OK)
		r = refused(d, "GETATTR", g.status);
	else if (!r && g.error)
		r = nfs_dial_fail(d, -EPROTO, "the root of %.100s has impossible attributes",
				  d->uri->path);
	*out = g.attr;
	return r;
}

const struct nfs_version nfs3_version = {
	.name = "NFSv3",
	.number = NFS_V3,
	.null = nfs3_null,
	.send = nfs3_send,
	.answer = nfs3_answer,
	.page = nfs3_page,
	.root = ask_root,
	.limits = ask_limits,
	.getattr = ask_attr,
	.traits = nfs3_traits,
	.acl_beside = true,
};
