// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_dial.c - NFSv4: from the server's root to the export's, and what is asked of that.
 *
 * There is no MOUNT: the export's path is walked from the server's root, through what it calls its
 * pseudo file system.  This is the only walk; all else goes by handle.  So handles must last.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs41.h"

#define STEPS	       8 /* names in one compound */
#define BESIDE	       4 /* SEQUENCE, PUTROOTFH or PUTFH, GETFH, GETATTR */
#define VOLATILE       0x2u /* FH4_VOLATILE_ANY: a handle may expire at any time */
#define SUPPORTS_ALLOW 0x1u /* ACL4_SUPPORT_ALLOW_ACL */

#define OF_ROOT (nfs4_of_objects | NFS4_BIT(FATTR4_FH_EXPIRE_TYPE))
#define OF_FS (NFS4_BIT(FATTR4_MAXREAD) | NFS4_BIT(FATTR4_MAXFILESIZE))
#define OF_TRAITS                                                                              \
	(NFS4_BIT(FATTR4_SUPPORTED) | NFS4_BIT(FATTR4_LINK_SUPPORT) |                          \
	 NFS4_BIT(FATTR4_SYMLINK_SUPPORT) | NFS4_BIT(FATTR4_ACLSUPPORT) |                      \
	 NFS4_BIT(FATTR4_CASE_INSENSITIVE) | NFS4_BIT(FATTR4_CASE_PRESERVING) |                \
	 NFS4_BIT(FATTR4_CHOWN_RESTRICTED) | NFS4_BIT(FATTR4_FILES_FREE) |                     \
	 NFS4_BIT(FATTR4_FILES_TOTAL) | NFS4_BIT(FATTR4_MAXFILESIZE) |                         \
	 NFS4_BIT(FATTR4_MAXLINK) | NFS4_BIT(FATTR4_MAXNAME) | NFS4_BIT(FATTR4_SPACE_FREE) |   \
	 NFS4_BIT(FATTR4_SPACE_TOTAL) | NFS4_BIT(FATTR4_TIME_DELTA) |                          \
	 NFS4_BIT(FATTR4_TIME_CREATE))

/* ---- one compound ---- */

struct asked {
	unsigned int names; /* LOOKUP, and GETFH then */
	uint32_t slot;
	uint64_t attributes;
	uint32_t third;
	int status; /* of the answer: 0, nfsstat4, -EBADMSG */
	struct stub_origin fh;
	struct nfs4_attrs attrs;
	char who[64]; /* an owner or group that is no number; "": there is none */
};

static void take(struct nfs_dial *d, void *data)
{
	const struct nfs4_bytes *name;
	struct asked *a = d->out;
	struct nfs4_reply r;

	nfs4_open(data, &r);
	a->status = d->session ? nfs41_take_sequence(&r, d->session, a->slot) : 0;
	if (!a->status)
		a->status = nfs4_next(&r, a->fh.len ? NFS4_PUTFH : NFS4_PUTROOTFH);
	for (unsigned int i = 0; i < a->names && !a->status; i++)
		a->status = nfs4_next(&r, NFS4_LOOKUP);
	if (!a->status)
		a->status = nfs4_next(&r, NFS4_GETFH);
	if (!a->status)
		a->status = nfs4_get_handle(&r, &a->fh);
	if (!a->status)
		a->status = nfs4_next(&r, NFS4_GETATTR);
	if (!a->status)
		a->status = nfs4_get_attrs3(&r.in, a->attributes, a->third, &a->attrs);
	a->who[0] = '\0';
	if (a->status || nfs4_name_ids(d->ids, &a->attrs))
		return;
	name = a->attrs.owner.data ? &a->attrs.owner : &a->attrs.group;
	stub_printable((const char *)name->data, name->len < 15 ? name->len : 15, a->who,
		       sizeof(a->who));
}

/* From a->fh (none: the server's root) along @names to an object: its handle and attributes. */
static int ask(struct nfs_dial *d, struct nfs_carrier *rpc, const char *const *names,
	       struct asked *a)
{
	struct nfs4_out o;

	nfs4_begin(&o);
	nfs4_minor(&o, d->uri->version->minor);
	if (d->session)
		a->slot = nfs41_put_sequence(&o, d->session);
	if (a->fh.len)
		nfs4_put_handle(&o, &a->fh);
	else
		nfs4_put_op(&o, NFS4_PUTROOTFH);
	for (unsigned int i = 0; i < a->names; i++) {
		nfs4_put_op(&o, NFS4_LOOKUP);
		nfs4_put_opaque(&o, names[i], strlen(names[i]));
	}
	nfs4_put_op(&o, NFS4_GETFH);
	nfs4_put_op(&o, NFS4_GETATTR);
	nfs4_put_bitmap3(&o, a->attributes, a->third);
	nfs_dial_begin(d, take, a);
	return nfs_dial_finish(d, rpc, nfs4_queue(&o, rpc, nfs_dial_on_step, d), "NFS service");
}

static int refused(struct nfs_dial *d, int status)
{
	const char *path = d->uri->path;

	switch (status) {
	case NFS4_NOENT:
	case NFS4_NOTDIR:
	case NFS4_SYMLINK:
		return nfs_dial_fail(d, -ENOENT,
				     "%.200s is not there over NFSv4, where an export's path begins "
				     "at the server's (pseudo) root",
				     path);
	case NFS4_PERM:
	case NFS4_EACCESS:
		return nfs_dial_fail(d, -EACCES, "%.200s may not be used from here", path);
	case NFS4_WRONGSEC:
		return nfs_dial_fail(d, -EACCES, "%.100s cannot be had with sec=%s: try sec=%s in the URI",
				     path, nfs_security_name(d->uri->sec),
				     d->uri->sec ? "sys, krb5, krb5i or krb5p" :
						   "krb5, krb5i or krb5p (Kerberos)");
	case NFS4_MOVED:
		return nfs_dial_fail(d, -EPROTO,
				     "%.200s is a referral: it lies on another server, which is to be "
				     "named instead",
				     path);
	case NFS4_STALE:
	case NFS4_BADHANDLE:
	case NFS4_FHEXPIRED:
		return nfs_dial_fail(d, -ESTALE,
				     "the server calls the root of %.100s stale: a disk that is not "
				     "mounted over there any more, or another fsid",
				     path);
	case NFS4_MINOR_VERS_MISMATCH:
		return nfs_dial_fail(d, -EPROTO, "%s has no %s", d->uri->host,
				     d->uri->version->name);
	case -EBADMSG:
		return nfs_dial_fail(d, -EPROTO, "impossible answer about the root of %.200s", path);
	default:
		return nfs_dial_fail(d, -EPROTO, "the root of %.100s: NFSv4 status %d", path, status);
	}
}

/* ---- the root ---- */

/* Can all that we need be had of it? */
static int check_root(struct nfs_dial *d, const struct asked *a)
{
	struct stub_attr attr;
	const char *why;

	if (a->who[0])
		return nfs_dial_fail(d, -EPROTO,
				     "the owner or group of the root of %.80s is \"%s\", no number, and "
				     "not in the table of ids: see postcopy-idmap(5), or have the old "
				     "server send numbers",
				     d->uri->path, a->who);
	if (nfs4_attr(&a->attrs, &attr, &why))
		return nfs_dial_fail(d, -EPROTO, "the root of %.100s has no %s over NFSv4",
				     d->uri->path, why);
	if (a->attrs.fh_expire & VOLATILE)
		return nfs_dial_fail(d, -EPROTO,
				     "file handles of %.100s do not last (fh_expire_type %u): use "
				     "version=3",
				     d->uri->path, a->attrs.fh_expire);
	return 0;
}

/* The next names of @path, at most @most, which is cut into them. */
static unsigned int split(char **path, const char **names, unsigned int most)
{
	unsigned int n = 0;

	while (n < most) {
		char *name = *path + strspn(*path, "/");

		if (!*name)
			break;
		*path = name + strcspn(name, "/");
		if (**path)
			*(*path)++ = '\0';
		names[n++] = name;
	}
	return n;
}

static int walk(struct nfs_dial *d, struct nfs_carrier *rpc, struct stub_origin *root)
{
	struct asked a = { .attributes = OF_ROOT };
	char text[STUB_URI_MAX + 1], *path = text;
	const char *names[STEPS];
	unsigned int most = STEPS;
	bool more = true;
	int r = 0;

	if (d->session && d->session->ops_max - BESIDE < most)
		most = d->session->ops_max - BESIDE;
	snprintf(text, sizeof(text), "%s", d->uri->path);
	while (!r && more) {
		a.names = split(&path, names, most);
		more = *(path + strspn(path, "/"));
		r = ask(d, rpc, names, &a);
		if (!r && a.status)
			r = refused(d, a.status);
	}
	if (!r)
		r = check_root(d, &a);
	*root = a.fh;
	return r;
}

static int find_root(struct nfs_dial *d, const char *address, struct stub_origin *root)
{
	struct nfs_carrier *rpc;
	int r;

	if (!nfs_zdr_compounds())
		return nfs_dial_fail(d, -EPROTO, "this libnfs is not the one we know");
	r = nfs_dial_nfs(d, address, &rpc);
	if (r)
		return r;
	r = walk(d, rpc, root);
	nfs_dial_close(d, rpc);
	return r;
}

/* ---- of the root ---- */

static int of_root(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *root,
		   uint64_t attributes, struct asked *a)
{
	int r;

	a->names = 0;
	a->attributes = attributes;
	a->third = 0;
	if (attributes == OF_TRAITS && d->uri->version->minor >= 2)
		a->third = NFS4_THIRD(FATTR4_XATTR_SUPPORT);
	a->fh = *root;
	r = ask(d, rpc, NULL, a);
	return !r && a->status ? refused(d, a->status) : r;
}

static uint32_t clip(uint64_t value, uint32_t low, uint32_t high)
{
	return value < low ? low : value > high ? high : (uint32_t)value;
}

static int ask_limits(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *root,
		      const struct source_config *config, struct source_limits *out)
{
	struct asked a;
	int r = of_root(d, rpc, root, OF_FS, &a);

	if (r)
		return r;
	/* a server that tells no limit has none */
	out->read_bytes = a.attrs.maxread ? clip(a.attrs.maxread, 512, config->read_bytes) :
					    config->read_bytes;
	if (d->session && nfs41_fit(d->session, out->read_bytes) < out->read_bytes)
		out->read_bytes = nfs41_fit(d->session, out->read_bytes) & ~4095u;
	/* an entry says more than NFSv3's, and a page should have as many */
	out->readdir_bytes = nfs41_fit(d->session, config->readdir_bytes + config->readdir_bytes / 2);
	out->max_file_size = a.attrs.maxfilesize && a.attrs.maxfilesize < INT64_MAX ?
				     a.attrs.maxfilesize :
				     INT64_MAX;
	return 0;
}

static int ask_attr(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *o,
		    struct stub_attr *out)
{
	const char *why;
	struct asked a;
	int r = of_root(d, rpc, o, OF_ROOT, &a);

	if (!r)
		r = check_root(d, &a);
	return r ? r : nfs4_attr(&a.attrs, out, &why);
}

static void take_traits(const struct nfs4_attrs *a, uint32_t minor, struct source_traits *t)
{
	t->nfs4 = true;
	t->minor = minor;
	t->born = a->have & NFS4_BIT(FATTR4_TIME_CREATE);
	t->xattrs = a->xattr_support;
	t->have_info = a->have & NFS4_BIT(FATTR4_LINK_SUPPORT);
	t->max_file_size = a->maxfilesize;
	t->time_delta = a->time_delta;
	t->hard_links = a->link_support;
	t->symlinks = a->symlink_support;
	t->have_names = a->have & NFS4_BIT(FATTR4_MAXNAME);
	t->link_max = a->maxlink;
	t->name_max = a->maxname;
	t->case_insensitive = a->case_insensitive;
	t->case_preserving = a->case_preserving;
	t->chown_restricted = a->chown_restricted;
	t->have_space = a->have & NFS4_BIT(FATTR4_SPACE_TOTAL);
	t->bytes_total = a->space_total;
	t->bytes_free = a->space_free;
	t->files_total = a->files_total;
	t->files_free = a->files_free;
	/* Ganesha 4.3 says what it would support, of a file system in which there are none, too */
	t->have_acl = a->have & NFS4_BIT(FATTR4_SUPPORTED);
	t->acl = a->supported & NFS4_BIT(FATTR4_ACL) && a->aclsupport & SUPPORTS_ALLOW;
}

static int ask_traits(struct nfs_dial *d, const char *address, const struct stub_origin *root,
		      struct source_traits *out)
{
	struct nfs_carrier *rpc;
	struct asked a;
	int r = nfs_dial_nfs(d, address, &rpc);

	if (r)
		return r;
	r = of_root(d, rpc, root, OF_TRAITS, &a);
	nfs_dial_close(d, rpc);
	if (!r)
		take_traits(&a.attrs, d->uri->version->minor, out);
	return r;
}

#define CALLS                                                                               \
	.number = 4, .port = NFS_PORT, .null = nfs4_null, .send = nfs4_send,                \
	.answer = nfs4_answer, .joins = nfs4_joins, .answers = nfs4_answers,                \
	.page = nfs4_page, .meta = nfs4_meta, .root = find_root, .limits = ask_limits,      \
	.getattr = ask_attr, .traits = ask_traits
#define SESSION .greet = nfs41_greet, .part = nfs41_part, .ping = nfs41_ping, .pinged = nfs41_pinged

const struct nfs_version nfs4_version = { .name = "NFSv4.0", .option = "4.0", CALLS };
const struct nfs_version nfs41_version = {
	.name = "NFSv4.1", .option = "4.1", .minor = 1, CALLS, SESSION
};
const struct nfs_version nfs42_version = {
	.name = "NFSv4.2", .option = "4.2", .minor = 2, CALLS, SESSION
};
