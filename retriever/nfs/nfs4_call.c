// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_call.c - NFSv4: how a call is said, and what its reply says.
 *
 * Each call is one compound, by file handle (from NFSv4.1 on behind SEQUENCE), or a part of one:
 * small ones go together (nfs4_answer.c).
 *
 *   GETATTR    PUTFH  GETATTR
 *   LOOKUP     PUTFH  GETATTR (of the directory)  LOOKUP  GETFH  GETATTR; NFSv4.2: LISTXATTRS,
 *              which tells whether there is more, and may fail
 *   READLINK   PUTFH  GETATTR (which object)  READLINK
 *   ACCESS     PUTFH  ACCESS
 *   READ       PUTFH  READ  GETATTR (which version)
 *   SEEK       PUTFH  SEEK  GETATTR (likewise; NFSv4.2, as LISTXATTRS and GETXATTR, which are
 *              alone)
 *   READDIR    PUTFH  GETATTR (of the directory)  READDIR, with handles and attributes; or with
 *              none, where the server does not take that (Ganesha 6.5 has no ACLs of what lies in
 *              its pseudo file system, and says INVAL): then each entry is looked up
 *
 * READ names no open file (the anonymous stateid): nothing is opened or locked over there, so
 * there is no lease to be kept and nothing to be reclaimed after a restart, and no delegation is
 * ever given to us.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs41.h"
#include "nfs/nfs42.h"
#include "nfs/nfs_page.h"

#define TARGET_MAX     (64 * 1024)
#define NAME_BYTES_MAX (64 * 1024)
#define OF_ENTRIES \
	(nfs4_of_objects | NFS4_BIT(FATTR4_RDATTR_ERROR) | NFS4_BIT(FATTR4_FILEHANDLE))
#define OF_NAMES       NFS4_BIT(FATTR4_FILEID)

/* ---- calls ---- */

int nfs4_null(struct nfs_carrier *rpc, rpc_cb cb, void *arg)
{
	if (rpc->own)
		return nfs_carrier_call(rpc, 0, NULL, 0, cb, arg);
	return rpc_nfs4_null_async(rpc->libnfs, cb, arg);
}

void nfs4_put_handle(struct nfs4_out *o, const struct stub_origin *fh)
{
	nfs4_put_op(o, NFS4_PUTFH);
	nfs4_put_opaque(o, fh->bytes, fh->len);
}

void nfs4_put_getattr(struct nfs4_out *o, uint64_t attributes)
{
	nfs4_put_op(o, NFS4_GETATTR);
	nfs4_put_bitmap(o, attributes);
}

/* What is asked of objects beside nfs4_of_objects. */
static uint64_t more_of(const struct nfs_source *s)
{
	return s && s->config.born ? NFS4_BIT(FATTR4_TIME_CREATE) : 0;
}

static uint32_t minor_of(const struct nfs_source *s)
{
	return s ? s->uri.version->minor : 0;
}

static const struct nfs_source *source_of(const struct nfs_call *c)
{
	return c->conn ? c->conn->s : NULL;
}

static uint32_t third_of(const struct nfs_source *s)
{
	return minor_of(s) >= 2 ? NFS4_THIRD(FATTR4_XATTR_SUPPORT) : 0;
}

/* Of one object, with what says whether there is more to be had of it. */
static void put_whole(struct nfs4_out *o, const struct nfs_call *c)
{
	nfs4_put_op(o, NFS4_GETATTR);
	nfs4_put_bitmap3(o, nfs4_of_objects | more_of(source_of(c)), third_of(source_of(c)));
}

static void put_lookup(struct nfs4_out *o, const struct nfs_call *c)
{
	nfs4_put_getattr(o, NFS4_OF_DIRS);
	nfs4_put_op(o, NFS4_LOOKUP);
	nfs4_put_opaque(o, c->name, strlen(c->name));
	nfs4_put_op(o, NFS4_GETFH);
	put_whole(o, c);
	if (minor_of(source_of(c)) >= 2)
		nfs42_put_list(o, 0, NFS42_LOOK_BYTES);
}

/* The anonymous stateid: no open file. */
static void put_stateid(struct nfs4_out *o)
{
	static const uint8_t anonymous[16];

	nfs4_put_fixed(o, anonymous, sizeof(anonymous));
}

static void put_seek(struct nfs4_out *o, const struct nfs_call *c)
{
	nfs4_put_op(o, NFS4_SEEK);
	put_stateid(o);
	nfs4_put64(o, c->offset);
	nfs4_put32(o, c->count);
	nfs4_put_getattr(o, NFS4_OF_VERSION);
}

static void put_read(struct nfs4_out *o, const struct nfs_call *c)
{
	nfs4_put_op(o, NFS4_READ);
	put_stateid(o);
	nfs4_put64(o, c->offset);
	nfs4_put32(o, nfs41_fit(nfs4_session(c), c->count)); /* the rest is asked for then */
	nfs4_put_getattr(o, NFS4_OF_VERSION);
}

static void put_readdir(struct nfs4_out *o, const struct nfs_call *c)
{
	uint32_t bytes = nfs41_fit(nfs4_session(c), c->count);
	uint64_t verf;

	memcpy(&verf, c->verf, sizeof(verf));
	nfs4_put_getattr(o, NFS4_OF_DIRS);
	nfs4_put_op(o, NFS4_READDIR);
	nfs4_put64(o, c->offset);
	nfs4_put64(o, be64toh(verf));
	nfs4_put32(o, bytes); /* of names and cookies; of all */
	nfs4_put32(o, bytes);
	if (c->op == NFS_OP_READDIR)
		nfs4_put_bitmap(o, OF_NAMES);
	else
		nfs4_put_bitmap3(o, OF_ENTRIES | more_of(source_of(c)), third_of(source_of(c)));
}

/* Credentials are encoded when the call is queued.  With Kerberos they are ours, whoever is meant
 * (nfs_source.c knows). */
static int send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb, struct nfs4_out *o)
{
	int r;

	if (rpc->own || c->op != NFS_OP_ACCESS)
		return nfs4_queue(o, rpc, cb, c);
	rpc_set_auth(rpc->libnfs, libnfs_authunix_create("postcopy", c->uid, c->uid, 0, NULL));
	r = nfs4_queue(o, rpc, cb, c);
	rpc_set_auth(rpc->libnfs, libnfs_authunix_create("postcopy", 0, 0, 0, NULL));
	return r;
}

/* Begin the compound of @c, on a slot of its connection's session. */
static void begin(struct nfs_call *c, struct nfs4_out *o)
{
	struct nfs41_session *s = nfs4_session(c);

	nfs4_begin(o);
	c->slot = 0;
	if (s) {
		nfs4_minor(o, c->conn->s->uri.version->minor);
		c->slot = nfs41_put_sequence(o, s);
	}
}

static int put(const struct nfs_call *c, struct nfs4_out *o)
{
	nfs4_put_handle(o, &c->fh);
	switch (c->op) {
	case NFS_OP_GETATTR:
		put_whole(o, c);
		break;
	case NFS_OP_LOOKUP:
		put_lookup(o, c);
		break;
	case NFS_OP_READLINK:
		nfs4_put_getattr(o, NFS4_OF_VERSION);
		nfs4_put_op(o, NFS4_READLINK);
		break;
	case NFS_OP_ACCESS:
		nfs4_put_op(o, NFS4_ACCESS);
		nfs4_put32(o, c->count);
		break;
	case NFS_OP_READ:
		put_read(o, c);
		break;
	case NFS_OP_READDIRPLUS:
	case NFS_OP_READDIR:
		put_readdir(o, c);
		break;
	case NFS_OP_SEEK:
		put_seek(o, c);
		break;
	case NFS_OP_LISTXATTRS:
		nfs42_put_list(o, c->offset, nfs41_fit(nfs4_session(c), c->count));
		break;
	case NFS_OP_GETXATTR:
		nfs4_put_op(o, NFS4_GETXATTR);
		nfs4_put_opaque(o, c->name, strlen(c->name));
		break;
	default: /* of NFSv3 alone */
		return -EOPNOTSUPP;
	}
	return 0;
}

int nfs4_send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb)
{
	struct nfs4_out o;
	int r = 0;

	begin(c, &o);
	for (const struct nfs_call *k = c; k && !r; k = k->with)
		r = put(k, &o);
	if (!r)
		r = send(c, rpc, cb, &o);
	if (r && c->slot)
		nfs41_unsent(nfs4_session(c), c->slot);
	return r;
}

/* ---- answers ---- */

/* Who owns it, by number.  Is that not known: say so, since the administrator can mend it. */
static void find_owner(struct nfs_source *s, struct nfs4_attrs *a)
{
	const struct nfs4_bytes *name;
	char who[128];

	if (nfs4_name_ids(s ? s->ids : NULL, a) || !s)
		return;
	name = a->owner.data ? &a->owner : &a->group;
	stub_printable((const char *)name->data, name->len < 30 ? name->len : 30, who, sizeof(who));
	if (nfs4_nameless(s, NFS4_NAMELESS_OWNER))
		nfs_log(s, STUB_LOG_ERROR,
			"source %s: %s over there is \"%s\", no number, and not in the table of ids: "
			"such objects cannot come (postcopy-idmap(5); or have the old server send "
			"numbers)",
			s->uri.host, a->owner.data ? "an owner" : "a group", who);
}

/* Files and directories have a place for it here: it comes with source_meta(). */
static bool has_born(const struct nfs4_attrs *attrs, const struct stub_attr *attr)
{
	return attrs->have & NFS4_BIT(FATTR4_TIME_CREATE) &&
	       (S_ISREG(attr->mode) || S_ISDIR(attr->mode));
}

static void take_born(const struct nfs4_attrs *attrs, struct nfs_answer *a)
{
	a->have_born = has_born(attrs, &a->attr);
	a->born = attrs->born;
	a->xattrs = attrs->xattr_support;
	a->attr.more = a->attr.more || a->have_born;
}

static int take_attr(struct nfs_source *s, struct nfs4_reply *r, struct nfs_answer *a)
{
	int status = nfs4_next(r, NFS4_GETATTR);
	struct nfs4_attrs attrs;
	const char *why;

	if (status)
		return nfs4_errno(status);
	if (nfs4_get_attrs3(&r->in, nfs4_of_objects | more_of(s), third_of(s), &attrs))
		return -EBADMSG;
	find_owner(s, &attrs);
	if (nfs4_attr(&attrs, &a->attr, &why))
		return -EBADMSG;
	nfs4_acl_met(s, &attrs, &a->attr);
	a->have_attr = true;
	take_born(&attrs, a);
	return 0;
}

static int take_version(struct nfs4_reply *r, struct nfs_answer *a)
{
	int status = nfs4_next(r, NFS4_GETATTR);
	struct nfs4_attrs attrs;

	if (status)
		return nfs4_errno(status);
	if (nfs4_get_attrs(&r->in, NFS4_OF_VERSION, &attrs) || nfs4_attr_version(&attrs, &a->attr))
		return -EBADMSG;
	a->have_attr = true;
	return 0;
}

static int take_dir(struct nfs4_reply *r, struct stub_attr *out)
{
	int status = nfs4_next(r, NFS4_GETATTR);
	struct nfs4_attrs attrs;

	if (status)
		return nfs4_errno(status);
	if (nfs4_get_attrs(&r->in, NFS4_OF_DIRS, &attrs) || attrs.have != NFS4_OF_DIRS)
		return -EBADMSG;
	memset(out, 0, sizeof(*out));
	out->mode = S_IFDIR;
	out->fsid = attrs.fsid;
	out->fileid = attrs.fileid;
	return 0;
}

int nfs4_get_handle(struct nfs4_reply *r, struct stub_origin *out)
{
	const uint8_t *p;
	uint32_t len;

	p = nfs4_get_opaque(&r->in, NFS_HANDLE_MAX, &len);
	if (!p || !len)
		return -EBADMSG;
	out->len = (uint16_t)len;
	memcpy(out->bytes, p, len);
	return 0;
}

static int take_lookup(struct nfs_source *s, struct nfs4_reply *r, struct nfs_answer *a)
{
	int e = take_dir(r, &a->dir);

	if (e)
		return e;
	a->have_dir = true;
	e = nfs4_errno(nfs4_next(r, NFS4_LOOKUP));
	if (!e)
		e = nfs4_errno(nfs4_next(r, NFS4_GETFH));
	if (!e)
		e = nfs4_get_handle(r, &a->origin);
	if (!e)
		e = take_attr(s, r, a);
	return e || minor_of(s) < 2 ? e : nfs42_look_behind(r, a);
}

static int take_readlink(struct nfs4_reply *r, struct nfs_answer *a)
{
	int e = take_version(r, a);

	if (!e)
		e = nfs4_errno(nfs4_next(r, NFS4_READLINK));
	if (e)
		return e;
	a->data = (const char *)nfs4_get_opaque(&r->in, TARGET_MAX, &a->len);
	return a->data && !memchr(a->data, '\0', a->len) ? 0 : -EBADMSG;
}

static int take_read(const struct nfs_call *c, struct nfs4_reply *r, struct nfs_answer *a)
{
	int e = nfs4_errno(nfs4_next(r, NFS4_READ));

	if (e)
		return e;
	a->eof = nfs4_get32(&r->in);
	a->data = (const char *)nfs4_get_opaque(&r->in, c->count, &a->len);
	return a->data ? take_version(r, a) : -EBADMSG;
}

static int take_seek(struct nfs4_reply *r, struct nfs_answer *a)
{
	int status = nfs4_next(r, NFS4_SEEK);

	a->eof = status == NFS4_NXIO;
	a->at = UINT64_MAX;
	a->said = nfs4_said(status);
	if (status)
		return a->eof ? 0 : nfs4_errno(status); /* nothing of the kind to the file's end */
	a->eof = nfs4_get32(&r->in);
	a->at = nfs4_get64(&r->in);
	return r->in.bad ? -EBADMSG : take_version(r, a);
}

static int take_access(struct nfs4_reply *r, struct nfs_answer *a)
{
	int e = nfs4_errno(nfs4_next(r, NFS4_ACCESS));

	if (e)
		return e;
	nfs4_get32(&r->in); /* which of them it can tell */
	a->granted = nfs4_get32(&r->in);
	return r->in.bad ? -EBADMSG : 0;
}

static int take_readdir(struct nfs4_reply *r, struct nfs_answer *a)
{
	int e = take_dir(r, &a->dir), status;

	if (e)
		return e;
	a->have_dir = true;
	status = nfs4_next(r, NFS4_READDIR);
	a->said = nfs4_said(status);
	return nfs4_errno(status); /* the entries: nfs4_page() */
}

int nfs4_take(struct nfs_source *s, const struct nfs_call *c, struct nfs4_reply *r,
	      struct nfs_answer *a)
{
	int e = nfs4_errno(nfs4_next(r, NFS4_PUTFH));

	if (e)
		return e;
	switch (c->op) {
	case NFS_OP_GETATTR:
		return take_attr(s, r, a);
	case NFS_OP_LOOKUP:
		return take_lookup(s, r, a);
	case NFS_OP_READLINK:
		return take_readlink(r, a);
	case NFS_OP_ACCESS:
		return take_access(r, a);
	case NFS_OP_READ:
		return take_read(c, r, a);
	case NFS_OP_READDIRPLUS:
	case NFS_OP_READDIR:
		return take_readdir(r, a);
	case NFS_OP_SEEK:
		return take_seek(r, a);
	case NFS_OP_LISTXATTRS:
		return nfs42_take_list(r, a);
	case NFS_OP_GETXATTR:
		return nfs42_take_value(r, a);
	default:
		break;
	}
	return -EBADMSG;
}

int nfs4_meta(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
	      struct source_meta *out)
{
	struct nfs4_attrs attrs;
	struct nfs4_reply r;
	const char *why;

	nfs4_open(a->reply, &r);
	if (c->slot && nfs41_pass_sequence(&r))
		return -EBADMSG;
	if (nfs4_next(&r, NFS4_PUTFH) || nfs4_next(&r, NFS4_GETATTR) ||
	    nfs4_get_attrs3(&r.in, nfs4_of_objects | more_of(s), third_of(s), &attrs))
		return -EBADMSG; /* nfs4_answer() has seen that it is not so */
	if (!nfs4_name_ids(s ? s->ids : NULL, &attrs) || nfs4_attr(&attrs, &out->attr, &why))
		return -EBADMSG;
	return nfs4_acl_meta(s, &attrs, out);
}

/* ---- entries ---- */

/* The attributes of an entry, if they are all there. */
static void take_entry(struct nfs_source *s, struct nfs4_attrs *attrs, struct nfs_item *i)
{
	const char *why;
	int r;

	if (attrs->rdattr_error) {
		r = nfs4_errno((int)(attrs->rdattr_error & INT32_MAX));
		i->error = r == -EAGAIN ? 0 : r; /* later: it is looked up, which takes its time */
		return;
	}
	i->have_handle = attrs->have & NFS4_BIT(FATTR4_FILEHANDLE);
	i->handle = attrs->fh;
	i->handle_len = attrs->fh_len;
	find_owner(s, attrs);
	i->have_attr = !nfs4_attr(attrs, &i->attr, &why);
	if (i->have_attr)
		nfs4_acl_met(s, attrs, &i->attr);
	else
		i->error = -EBADMSG;
	i->attr.more = i->attr.more || (i->have_attr && has_born(attrs, &i->attr));
	i->maybe = attrs->xattr_support && (S_ISREG(i->attr.mode) || S_ISDIR(i->attr.mode));
}

static int get_item(struct nfs_source *s, const struct nfs_call *c, struct nfs4_in *in,
		    struct nfs_item *i)
{
	bool plain = c->op == NFS_OP_READDIR;
	struct nfs4_attrs attrs;
	uint32_t len;
	int r;

	memset(i, 0, sizeof(*i));
	i->cookie = nfs4_get64(in);
	i->name = (const char *)nfs4_get_opaque(in, NAME_BYTES_MAX, &len);
	i->len = len;
	r = plain ? nfs4_get_attrs(in, OF_NAMES, &attrs) :
		    nfs4_get_attrs3(in, OF_ENTRIES | more_of(s), third_of(s), &attrs);
	if (in->bad)
		return -EBADMSG;
	if (r || memchr(i->name, '\0', len))
		i->error = -EBADMSG;
	else if (!plain)
		take_entry(s, &attrs, i);
	return 0;
}

/* How many entries there are, and bytes of their names. */
static void measure(struct nfs4_in in, size_t *n, size_t *text)
{
	uint32_t len, values, third;

	*n = *text = 0;
	while (nfs4_get32(&in)) {
		nfs4_get64(&in);
		nfs4_get_opaque(&in, NAME_BYTES_MAX, &len);
		nfs4_get_bitmap3(&in, false, &third);
		nfs4_get_opaque(&in, UINT32_MAX, &values);
		++*n;
		*text += len;
	}
}

static int add_all(struct nfs_source *s, const struct nfs_call *c, struct nfs4_in *in,
		   struct nfs_page *out, const char **why)
{
	struct nfs_item i;
	int r = 0;

	while (!r && nfs4_get32(in)) {
		r = get_item(s, c, in, &i);
		if (!r)
			r = nfs_page_add(out, &i, why);
	}
	out->eof = nfs4_get32(in);
	if (!r && !in->bad)
		return 0;
	if (!*why)
		*why = "a page that ends too early";
	return -EBADMSG;
}

int nfs4_page(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
	      struct nfs_page *out, const char **why)
{
	struct nfs4_reply r;
	struct stub_attr dir;
	size_t n, text;
	uint64_t verf;
	int e;

	*why = NULL;
	nfs4_open(a->reply, &r);
	if (c->slot && nfs41_pass_sequence(&r))
		return -EBADMSG;
	if (nfs4_next(&r, NFS4_PUTFH) || take_dir(&r, &dir) || nfs4_next(&r, NFS4_READDIR))
		return -EBADMSG; /* nfs4_answer() has seen that it is not so */
	verf = htobe64(nfs4_get64(&r.in));
	measure(r.in, &n, &text);
	e = nfs_page_reserve(out, n, text);
	if (e)
		return e;
	out->have_dir = true;
	out->dir = dir;
	memcpy(out->verf, &verf, sizeof(out->verf));
	e = add_all(s, c, &r.in, out, why);
	if (e)
		nfs_page_finish(out);
	return e;
}
