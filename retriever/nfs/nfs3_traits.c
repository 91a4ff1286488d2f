// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs3_traits.c - NFSv3: FSINFO, PATHCONF and FSSTAT of the export's root, whether the server has the
 * ACL protocol beside NFS, and what it exports below.
 */
#include <errno.h>
#include <string.h>

#include "nfs/nfs.h"

struct asked {
	struct nfs_carrier *rpc;
	struct nfs_fh3 root;
	struct source_traits *out;
};

static void take_info(struct nfs_dial *d, void *data)
{
	const struct FSINFO3res *res = data;
	const struct FSINFO3resok *ok = &res->FSINFO3res_u.resok;
	struct source_traits *t = d->out;

	t->have_info = res->status == NFS3_OK;
	if (!t->have_info)
		return;
	t->max_file_size = ok->maxfilesize;
	if (ok->time_delta.nseconds <= 999999999) {
		t->time_delta.tv_sec = (time_t)ok->time_delta.seconds;
		t->time_delta.tv_nsec = (long)ok->time_delta.nseconds;
	}
	t->hard_links = ok->properties & FSF3_LINK;
	t->symlinks = ok->properties & FSF3_SYMLINK;
}

static void take_names(struct nfs_dial *d, void *data)
{
	const struct PATHCONF3res *res = data;
	const struct PATHCONF3resok *ok = &res->PATHCONF3res_u.resok;
	struct source_traits *t = d->out;

	t->have_names = res->status == NFS3_OK;
	if (!t->have_names)
		return;
	t->link_max = ok->linkmax;
	t->name_max = ok->name_max;
	t->case_insensitive = ok->case_insensitive;
	t->case_preserving = ok->case_preserving;
	t->chown_restricted = ok->chown_restricted;
}

static void take_space(struct nfs_dial *d, void *data)
{
	const struct FSSTAT3res *res = data;
	const struct FSSTAT3resok *ok = &res->FSSTAT3res_u.resok;
	struct source_traits *t = d->out;

	t->have_space = res->status == NFS3_OK;
	if (!t->have_space)
		return;
	t->bytes_total = ok->tbytes;
	t->bytes_free = ok->fbytes;
	t->files_total = ok->tfiles;
	t->files_free = ok->ffiles;
}

static int ask_info(struct nfs_dial *d, struct asked *a)
{
	struct FSINFO3args args = { a->root };

	nfs_dial_begin(d, take_info, a->out);
	return nfs_dial_finish(d, a->rpc,
			       rpc_nfs3_fsinfo_async(a->rpc->libnfs, nfs_dial_on_step, &args, d),
			       "NFS service");
}

static int ask_names(struct nfs_dial *d, struct asked *a)
{
	struct PATHCONF3args args = { a->root };

	nfs_dial_begin(d, take_names, a->out);
	return nfs_dial_finish(d, a->rpc,
			       rpc_nfs3_pathconf_async(a->rpc->libnfs, nfs_dial_on_step, &args, d),
			       "NFS service");
}

static int ask_space(struct nfs_dial *d, struct asked *a)
{
	struct FSSTAT3args args = { a->root };

	nfs_dial_begin(d, take_space, a->out);
	return nfs_dial_finish(d, a->rpc,
			       rpc_nfs3_fsstat_async(a->rpc->libnfs, nfs_dial_on_step, &args, d),
			       "NFS service");
}

static int ask_acl(struct nfs_dial *d, struct asked *a)
{
	struct stub_origin root;

	nfs_origin(&a->root, &root); /* cannot fail: a->root was made of an origin */
	return nfs_acl_ask(d, a->rpc, &root, &a->out->have_acl, &a->out->acl);
}

/* ---- what else it exports ---- */

/* @dir as a path from @root, which it lies below; NULL: it does not. */
static const char *path_below(const char *root, const char *dir)
{
	size_t n = strlen(root);

	if (strncmp(root, dir, n) || (dir[n] != '/' && (!n || root[n - 1] != '/')))
		return NULL;
	dir += n;
	dir += strspn(dir, "/");
	return *dir ? dir : NULL;
}

static void take_below(struct nfs_dial *d, void *data)
{
	const struct exportnode *e = *(struct exportnode **)data;
	struct source_traits *t = d->out;
	size_t used = 0;

	for (; e; e = e->ex_next) {
		const char *path = path_below(d->uri->path, e->ex_dir ? e->ex_dir : "");
		size_t len = path ? strlen(path) : 0;

		if (!path || used + len + 2 > sizeof(t->below))
			continue;
		memcpy(t->below + used, path, len + 1);
		used += len + 1;
	}
	t->below[used] = '\0';
}

/* Into out->below, if the mount service tells. */
static void ask_below(struct nfs_dial *d, const char *address, struct source_traits *out)
{
	struct nfs_carrier *rpc;

	if (nfs_dial_program(d, address, d->uri->mountport, MOUNT_PROGRAM, MOUNT_V3,
			     "mount service", &rpc))
		return;
	nfs_dial_begin(d, take_below, out);
	nfs_dial_finish(d, rpc, rpc_mount3_export_async(rpc->libnfs, nfs_dial_on_step, d),
			"mount service");
	nfs_carrier_destroy(rpc);
}

int nfs3_traits(struct nfs_dial *d, const char *address, const struct stub_origin *root,
		struct source_traits *out)
{
	static int (*const ask[])(struct nfs_dial *, struct asked *) = { ask_info, ask_names,
									 ask_space, ask_acl };
	struct asked a = { .out = out, .root = { { root->len, (char *)root->bytes } } };

	for (size_t i = 0; i < sizeof(ask) / sizeof(ask[0]); i++) {
		/* a connection for each: a reply that cannot be decoded may break it */
		int r = nfs_dial_nfs(d, address, &a.rpc);

		if (r)
			return r;
		ask[i](d, &a);
		nfs_carrier_destroy(a.rpc);
	}
	ask_below(d, address, out);
	return 0;
}
