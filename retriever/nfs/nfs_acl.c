// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_acl.c - no more rights than before, where an ACL does not come along.
 *
 * NFSv3 shows the mode of an object with a POSIX ACL, and in that the group's bits are the
 * ACL's mask: the most that any named user or group has.  As the mode of a file without
 * an ACL they would give that to the group.  And users whom an entry keeps out would count as
 * the group's, or as others.  So a server that has the ACL protocol beside NFS is asked
 * for the ACL of each object, and its mode narrowed (docs/decisions/0032):
 *
 *   group   what the group has, and every named user has too
 *   others  what the others have, and every named user and group has too
 *
 * An ACL that is asked for and not understood gives group and others nothing.  A server
 * that offers the protocol and tells of no ACL at all is not asked: nfs_acl_ask().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs.h"

#define ENTRIES_MAX 2048 /* Linux: 1024 */

/* Of our own: in libnfs's header the names are not the protocol's, where 0x20 is OTHER. */
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 0x10, OTHER = 0x20 };

static void withhold(struct stub_attr *a)
{
	a->mode &= ~077u;
	a->acl = true;
}

static int narrow(const struct nfsacl_ace *e, unsigned int n, struct stub_attr *a)
{
	unsigned int mask = 7, group = 0, users = 7, named = 7, other = 0, seen = 0, i;

	for (i = 0; i < n; i++) {
		unsigned int type = (unsigned int)e[i].type, perm = e[i].perm;

		if (perm > 7)
			return -EBADMSG;
		if (type != USER && type != GROUP && seen & type)
			return -EBADMSG;
		seen |= type;
		switch (type) {
		case USER_OBJ:
			break;
		case USER:
			users &= perm;
			break;
		case GROUP_OBJ:
			group = perm;
			break;
		case GROUP:
			named &= perm;
			break;
		case MASK:
			mask = perm;
			break;
		case OTHER:
			other = perm;
			break;
		default:
			return -EBADMSG;
		}
	}
	if (!(seen & GROUP_OBJ) || !(seen & OTHER))
		return -EBADMSG;
	if (seen & (USER | GROUP) || (seen & MASK && mask != group))
		a->acl = true;
	if (seen & USER) {
		group &= users & mask;
		other &= users & mask;
	}
	if (seen & GROUP)
		other &= named & mask;
	a->mode &= ~077u | (group & mask) << 3 | other;
	return 0;
}

static int take(const struct GETACL3resok *ok, struct stub_attr *a)
{
	const struct source_id as = { a->fsid, a->fileid };
	struct stub_attr now;
	bool have;

	if (nfs_post_attr(&ok->attr, &have, &now))
		return -EBADMSG;
	if (have && !nfs_is(&as, &now))
		return -EAGAIN; /* the object was replaced just after it was found */
	if (ok->ace.ace_len > ENTRIES_MAX || ok->default_ace.default_ace_len > ENTRIES_MAX)
		return -EBADMSG;
	if (ok->default_ace.default_ace_len)
		a->acl = true;
	return ok->ace.ace_len ? narrow(ok->ace.ace_val, ok->ace.ace_len, a) : 0;
}

void nfs_acl_result(int err, const void *reply, struct stub_attr *a)
{
	const struct GETACL3res *res = reply;

	if (!err)
		err = take(&res->GETACL3res_u.resok, a);
	else if (res && res->status == NFS3ERR_NOTSUPP)
		err = 0; /* a file system without ACLs: the mode is all there is */
	if (err)
		withhold(a);
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
int nfs_acl_ask(struct nfs_dial *d, struct rpc_context *rpc, const struct stub_origin *root,
		bool *known, bool *there)
{
	struct GETACL3args args = { { { root->len, (char *)root->bytes } },
				    NFSACL_MASK_ACL_ENTRY | NFSACL_MASK_ACL_COUNT };
	bool silent = false;
	int r;

	nfs_dial_begin(d, NULL, NULL);
	r = nfs_dial_finish(d, rpc, rpc_nfsacl_null_async(rpc, nfs_dial_on_step, d),
			    "ACL service");
	*there = !r;
	*known = !r || strstr(d->why, "Program ") || strstr(d->why, "Procedure ");
	if (r)
		return r;
	nfs_dial_begin(d, take_root, &silent);
	r = nfs_dial_finish(d, rpc, rpc_nfsacl_getacl_async(rpc, nfs_dial_on_step, &args, d),
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
	struct rpc_context *rpc;
	bool known, there;
	int r = nfs_dial_nfs(d, address, &rpc);

	if (r)
		return r;
	/* on a connection of its own: a reply that cannot be decoded may break it */
	r = nfs_acl_ask(d, rpc, root, &known, &there);
	rpc_destroy_context(rpc);
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
