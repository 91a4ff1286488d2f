// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_acl.c - the ACL that comes with an object's attributes (docs/decisions/0076).
 *
 * What it lets users do, nfs4_posix.c makes POSIX ACLs of.  Beside an ACL the mode that a server
 * shows may give the group the ACL's mask, and whom an entry keeps out would count as one of the
 * group, or of the others.  So the mode is narrowed until the ACL is here:
 *
 *   met    narrowed; if there is more than a mode in it, and it can be kept, there is more to be
 *          had of the object, else it is lost
 *   meta   the ACLs as the kernel stores them, and the mode that they make; where shares of the
 *          volume have acl_xattr, the whole ACL for that, behind them
 *
 * An entry for somebody who is not in the table of ids gives nothing to anybody.  Does it deny
 * something, then nobody knows whom, and the object does not come before he is in the table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs4.h"
#include "nfs/nfs4_posix.h"
#include "windows/smb_idmap.h"

#define WHO_MAX 1024
#define COUNTS                                                                     \
	(NFS4_READ_DATA | NFS4_WRITE_DATA | NFS4_APPEND_DATA | NFS4_EXECUTE |      \
	 NFS4_DELETE_CHILD)

/* Names without a number, in the reply; data NULL: there is none. */
struct strangers {
	struct nfs4_bytes allowed, denied;
};

/* ---- entries ---- */

static void get_ace(struct nfs4_in *in, struct nfs4_ace *e, struct nfs4_bytes *who)
{
	e->type = nfs4_get32(in);
	e->flags = nfs4_get32(in);
	e->mask = nfs4_get32(in);
	who->data = nfs4_get_opaque(in, WHO_MAX, &who->len);
	if (e->type > NFS4_ALARM)
		in->bad = true;
}

int nfs4_get_acl(struct nfs4_in *in, struct nfs4_attrs *out)
{
	uint32_t n = nfs4_get32(in);
	struct nfs4_bytes who;
	struct nfs4_ace e;

	out->acl = (struct nfs4_bytes){ in->p, 0 };
	if (n > NFS4_ACES_MAX)
		in->bad = true;
	for (uint32_t i = 0; i < n && !in->bad; i++)
		get_ace(in, &e, &who);
	if (in->bad)
		return -EBADMSG;
	out->acl.len = (uint32_t)(in->p - out->acl.data);
	out->aces = n;
	return 0;
}

static enum nfs4_who who_is(const struct smb_idmap *ids, const struct nfs4_bytes *who,
			    uint32_t flags, uint32_t *id)
{
	static const char *const names[] = { "OWNER@", "GROUP@", "EVERYONE@" };
	bool group = flags & NFS4_IS_GROUP;

	for (unsigned int i = 0; i < 3; i++)
		if (who->len == strlen(names[i]) && !memcmp(who->data, names[i], who->len))
			return (enum nfs4_who)i;
	if (!nfs4_number(who->data, who->len, id) &&
	    !smb_idmap_name(ids, group, who->data, who->len, id))
		return NFS4_STRANGER;
	return group ? NFS4_A_GROUP : NFS4_A_USER;
}

/* Does it say anything of r, w, x of this object, or of what is made in it? */
static bool matters(const struct nfs4_ace *e, bool dir)
{
	return e->mask & COUNTS && (dir || !(e->flags & NFS4_INHERIT_ONLY));
}

static void take(const struct smb_idmap *ids, const struct nfs4_attrs *from, bool dir,
		 struct nfs4_acl *to, struct strangers *out)
{
	struct nfs4_in in = { from->acl.data, from->acl.len, false };
	struct nfs4_bytes who;

	memset(out, 0, sizeof(*out));
	for (to->n = 0; to->n < from->aces; to->n++) {
		struct nfs4_ace *e = &to->e[to->n];

		get_ace(&in, e, &who);
		e->who = who_is(ids, &who, e->flags, &e->id);
		if (e->who != NFS4_STRANGER)
			continue;
		if (e->type == NFS4_ALLOW)
			out->allowed = who;
		else if (e->type == NFS4_DENY && matters(e, dir))
			out->denied = who;
	}
}

static void tell(struct nfs_source *s, const struct strangers *of)
{
	bool denied = of->denied.data;
	const struct nfs4_bytes *who = denied ? &of->denied : &of->allowed;
	char text[128];

	if (!who->data || !s ||
	    !nfs4_nameless(s, denied ? NFS4_NAMELESS_DENIED : NFS4_NAMELESS_ALLOWED))
		return;
	stub_printable((const char *)who->data, who->len < 30 ? who->len : 30, text, sizeof(text));
	if (denied)
		nfs_log(s, STUB_LOG_ERROR,
			"source %s: an ACL over there denies rights to \"%s\", who is no number, "
			"and not in the table of ids: such objects cannot come (postcopy-idmap(5))",
			s->uri.host, text);
	else
		nfs_log(s, STUB_LOG_WARN,
			"source %s: an ACL over there has an entry for \"%s\", who is no number, "
			"and not in the table of ids: he gets nothing by it (postcopy-idmap(5))",
			s->uri.host, text);
}

/* ---- what is made of it ---- */

struct made {
	struct nfs4_acl acl;
	struct nfs4_posix posix;
	struct strangers who;
	bool more; /* it says more than a mode */
	bool kept; /* ... and that can be had */
};

/* False: there is no ACL; an empty one stands for none. */
static bool make(struct nfs_source *s, const struct nfs4_attrs *from, const struct stub_attr *a,
		 struct made *out)
{
	if (!(from->have & NFS4_BIT(FATTR4_ACL)) || !from->aces || S_ISLNK(a->mode))
		return false;
	take(s ? s->ids : NULL, from, S_ISDIR(a->mode), &out->acl, &out->who);
	nfs4_posix_make(&out->acl, a, &out->posix);
	out->more = out->posix.access.n > 3 || out->posix.def.n || out->who.denied.data;
	out->kept = (!s || nfs_acl_kept(s)) && (S_ISREG(a->mode) || S_ISDIR(a->mode));
	if (s && s->config.ntacl && out->kept)
		out->more = out->more || out->posix.near;
	tell(s, &out->who);
	return true;
}

static void narrow(const struct made *m, struct stub_attr *a)
{
	a->mode = m->posix.mode;
	posix_acl_narrow_by(&m->posix.access, a);
	a->more = a->more || (m->more && m->kept);
	a->acl = m->more && !m->kept;
	a->acl_near = m->posix.near && !a->acl;
}

void nfs4_acl_met(struct nfs_source *s, const struct nfs4_attrs *from, struct stub_attr *a)
{
	struct made m;

	if (make(s, from, a, &m))
		narrow(&m, a);
}

/* All that is stored; the attribute for Samba has a hash of the others. */
static int pack(const struct nfs_source *s, struct made *m, struct source_meta *out)
{
	struct stub_xattr nt = { "security.NTACL", NULL, 0 };
	void *value = NULL;
	int r = 0;

	if (s && s->config.ntacl)
		r = nfs4_ntacl(&m->acl, &out->attr, &m->posix, &value, &nt.len);
	if (r == -E2BIG) {
		out->lost = "security descriptor: more entries than Samba takes\n";
		r = 0;
	}
	nt.value = value;
	if (m->posix.access.n <= 3)
		m->posix.access.n = 0;
	if (r == 0)
		r = posix_acl_pack(&m->posix.access, &m->posix.def, value ? &nt : NULL, out);
	free(value);
	return r;
}

int nfs4_acl_meta(struct nfs_source *s, const struct nfs4_attrs *from, struct source_meta *out)
{
	struct made m;

	if (!make(s, from, &out->attr, &m))
		return 0;
	if (!m.more || !m.kept) {
		narrow(&m, &out->attr);
		return 0;
	}
	if (m.who.denied.data)
		return -EBADMSG; /* it was told whom */
	out->attr.mode = m.posix.mode;
	out->attr.acl_near = m.posix.near;
	return pack(s, &m, out);
}
