// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_acl.c - POSIX ACLs, which the ACL protocol beside NFSv3 tells (docs/decisions/0072).
 *
 * NFSv3 shows the mode of an object with a POSIX ACL, and in that the group's bits are the
 * ACL's mask: the most that any named user or group has.  As the mode of a file without
 * an ACL they would give that to the group.  And users whom an entry keeps out would count as
 * the group's, or as others.  So a server that has the ACL protocol is asked for the ACL of
 * each object when it is met, and the mode narrowed (posix_acl_narrow()) until the ACL is here:
 *
 *   met    narrowed; if the ACL can be kept there is more to be had of it, else it is lost
 *   meta   the ACLs as the kernel stores them, beside the mode that the server shows; or, where
 *          they cannot be kept, the narrowed mode
 *
 * An ACL that is asked for and not understood gives group and others nothing.  A server
 * that offers the protocol and tells of no ACL at all is not asked: nfs_acl_ask().
 */
#include <errno.h>
#include <linux/posix_acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs.h"
#include "source/posix_acl.h"

#define ENTRIES_MAX 2048 /* Linux: 1024 */
#define OF_DEFAULT  0x1000u /* set in the types of a default ACL's entries */

struct acls {
	struct posix_acl access, def;
};

static void withhold(struct stub_attr *a)
{
	a->mode &= ~077u;
	a->acl = true;
}

/* ---- what came ---- */

static bool is_named(unsigned int tag)
{
	return tag == ACL_USER || tag == ACL_GROUP;
}

static int take_entry(const struct nfsacl_ace *from, unsigned int tag, struct posix_acl_entry *to)
{
	to->tag = tag;
	/* Solaris sets more bits in a mask; Linux's client passes over them, too */
	to->perm = tag == ACL_MASK ? from->perm & 7 : from->perm;
	to->id = is_named(tag) ? from->id : (uint32_t)ACL_UNDEFINED_ID;
	if (!tag || tag & (tag - 1) || tag > ACL_OTHER || to->perm > 7)
		return -EBADMSG;
	return is_named(tag) && to->id == (uint32_t)ACL_UNDEFINED_ID ? -EBADMSG : 0;
}

/* Linux's server makes up a mask, like the group's entry, for who has no other entries. */
static void drop_mask(struct posix_acl *acl)
{
	if (acl->n != 4 || acl->e[2].tag != ACL_MASK || acl->e[1].perm != acl->e[2].perm)
		return;
	acl->e[2] = acl->e[3];
	acl->n = 3;
}

/* @said: how many there are, as the server says besides. */
static int take_acl(const struct nfsacl_ace *from, unsigned int n, unsigned int said,
		    unsigned int of, struct posix_acl *to)
{
	unsigned int need = ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER, seen = 0;

	to->n = 0;
	if (n != said || n > ENTRIES_MAX)
		return -EBADMSG;
	if (!n)
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		if (take_entry(&from[i], (unsigned int)from[i].type & ~of, &to->e[i]))
			return -EBADMSG;
		seen |= to->e[i].tag;
	}
	qsort(to->e, n, sizeof(to->e[0]), posix_acl_compare);
	for (unsigned int i = 1; i < n; i++)
		if (!posix_acl_compare(&to->e[i - 1], &to->e[i]))
			return -EBADMSG; /* which of them counts? */
	if (seen & (ACL_USER | ACL_GROUP))
		need |= ACL_MASK;
	if ((seen & need) != need)
		return -EBADMSG;
	to->n = n;
	drop_mask(to);
	return 0;
}

/* @a becomes the attributes that came with it, if there are any. */
static int take(const struct GETACL3resok *ok, struct stub_attr *a, struct acls *out)
{
	const struct source_id as = { a->fsid, a->fileid };
	struct stub_attr now;
	bool have;
	int r;

	if (nfs_post_attr(&ok->attr, &have, &now))
		return -EBADMSG;
	if (have && !nfs_is(&as, &now))
		return -ENOMEDIUM; /* the object was replaced just after it was found */
	r = take_acl(ok->ace.ace_val, ok->ace.ace_len, ok->ace_count, 0, &out->access);
	out->def.n = 0;
	if (r == 0 && S_ISDIR(a->mode)) /* of others it was not asked for */
		r = take_acl(ok->default_ace.default_ace_val, ok->default_ace.default_ace_len,
			     ok->default_ace_count, OF_DEFAULT, &out->def);
	if (r == 0 && have && (now.mode & S_IFMT) == (a->mode & S_IFMT))
		*a = now;
	return r;
}

/* Does it say more than a mode? */
static bool is_more(const struct acls *x)
{
	return x->access.n > 3 || x->def.n;
}

void nfs_acl_met(int err, const void *reply, bool kept, struct stub_attr *a)
{
	const struct GETACL3res *res = reply;
	struct stub_attr now = *a;
	struct acls x;

	if (!err)
		err = take(&res->GETACL3res_u.resok, &now, &x);
	else if (res && res->status == NFS3ERR_NOTSUPP)
		return; /* a file system without ACLs: the mode is all there is */
	if (err) {
		withhold(a);
		return;
	}
	posix_acl_narrow_by(&x.access, a);
	if (!is_more(&x))
		return;
	if (kept && (S_ISREG(a->mode) || S_ISDIR(a->mode)))
		a->more = true;
	else
		a->acl = true;
}

int nfs_acl_meta(int err, const void *reply, bool kept, struct source_meta *out)
{
	const struct GETACL3res *res = reply;
	struct acls x;

	if (!err)
		err = take(&res->GETACL3res_u.resok, &out->attr, &x);
	else if (res && res->status == NFS3ERR_NOTSUPP)
		return 0;
	if (err == -ECANCELED || err == -ETIMEDOUT || err == -EINPROGRESS || err == -ESTALE ||
	    err == -ENOMEDIUM)
		return err;
	if (err) {
		withhold(&out->attr);
		return 0;
	}
	if (!is_more(&x) || !kept || !(S_ISREG(out->attr.mode) || S_ISDIR(out->attr.mode))) {
		posix_acl_narrow_by(&x.access, &out->attr);
		out->attr.acl = is_more(&x);
		return 0;
	}
	if (x.access.n <= 3) {
		posix_acl_narrow_by(&x.access, &out->attr);
		x.access.n = 0;
	}
	posix_acl_agree(&x.access, &out->attr);
	return posix_acl_pack(&x.access, &x.def, NULL, out);
}

/* ---- who is asked ---- */

bool nfs_acl_kept(const struct nfs_source *s)
{
	return !s->config.no_acl;
}

uint32_t nfs_acl_mask(const struct stub_attr *a)
{
	uint32_t own = NFSACL_MASK_ACL_ENTRY | NFSACL_MASK_ACL_COUNT;

	return S_ISDIR(a->mode) ?
		       own | NFSACL_MASK_ACL_DEFAULT_ENTRY | NFSACL_MASK_ACL_DEFAULT_COUNT :
		       own;
}

bool nfs_acl_wanted(struct nfs_source *s, const struct stub_attr *a)
{
	bool acl;

	pthread_mutex_lock(&s->pool.lock);
	acl = s->acl;
	pthread_mutex_unlock(&s->pool.lock);
	return acl && !S_ISLNK(a->mode);
}

static void take_root(struct nfs_dial *d, void *data)
{
	const struct GETACL3res *res = data;

	*(bool *)d->out = res->status == NFS3_OK && !res->GETACL3res_u.resok.ace.ace_len;
}

/*
 * FSINFO does not tell of the ACL protocol: its program answers NULL on a connection of NFS,
 * or the server says that there is no such program.  An ACL has at least three entries, even
 * one that is made from a mode.  A server that has the program but shows no entry of any object
 * (Ganesha) leaves it unknown whether there are ACLs.
 */
int nfs_acl_ask(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *root,
		bool *known, bool *there)
{
	struct GETACL3args args = { { { root->len, (char *)root->bytes } },
				    NFSACL_MASK_ACL_ENTRY | NFSACL_MASK_ACL_COUNT };
	bool silent = false;
	int r;

	nfs_dial_begin(d, NULL, NULL);
	r = nfs_dial_finish(d, rpc, rpc_nfsacl_null_async(rpc->libnfs, nfs_dial_on_step, d),
			    "ACL service");
	*there = !r;
	*known = !r || strstr(d->why, "Program ") || strstr(d->why, "Procedure ");
	if (r)
		return r;
	nfs_dial_begin(d, take_root, &silent);
	r = nfs_dial_finish(d, rpc, rpc_nfsacl_getacl_async(rpc->libnfs, nfs_dial_on_step, &args, d),
			    "ACL service");
	if (!r && silent) {
		snprintf(d->why, sizeof(d->why), "its ACL service shows none of any object");
		*known = *there = false;
		r = -EOPNOTSUPP;
	}
	return r == -ETIMEDOUT || r == -ECANCELED || r == -EOPNOTSUPP ? r : 0;
}

int nfs_acl_learn(struct nfs_source *s, struct nfs_dial *d, const char *address,
		  const struct stub_origin *root, unsigned int attempt)
{
	struct nfs_carrier *rpc;
	bool known, there;
	int r = nfs_dial_nfs(d, address, &rpc);

	if (r)
		return r;
	/* on a connection of its own: a reply that cannot be decoded may break it */
	r = nfs_acl_ask(d, rpc, root, &known, &there);
	nfs_carrier_destroy(rpc);
	if (r == -ECANCELED || (r == -ETIMEDOUT && attempt + 1 < NFS_ACL_TRIES))
		return r;
	if (!known)
		nfs_log(s, STUB_LOG_INFO,
			"source %s: does not tell of POSIX ACLs (%s): modes are taken as they are, in "
			"which an ACL's mask would be the group's rights",
			s->uri.host, d->why);
	pthread_mutex_lock(&s->pool.lock);
	s->acl = there;
	pthread_mutex_unlock(&s->pool.lock);
	return 0;
}
