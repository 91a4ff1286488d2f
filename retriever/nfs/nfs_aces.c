// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_aces.c - POSIX ACLs as the ACL protocol takes them: what nfs_acl.c reads, the other way round.
 *
 * As Linux's client says them: the owner's and the group's entries have their ids, an ACL without a
 * mask gets one that is like the group's entry (Solaris wants it; Linux's server drops it
 * again), and entries of default ACLs are marked as such.
 */
#include <errno.h>
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs.h"
#include "source/posix_acl.h"

static uint32_t id_of(const struct posix_acl_entry *e, const struct stub_attr *a)
{
	switch (e->tag) {
	case ACL_USER_OBJ:
		return a->uid;
	case ACL_GROUP_OBJ:
		return a->gid;
	case ACL_USER:
	case ACL_GROUP:
		return e->id;
	default:
		return 0;
	}
}

/* Owner, group and others, as a mode says them. */
static void of_mode(uint32_t mode, struct posix_acl *out)
{
	out->n = 3;
	out->e[0] = (struct posix_acl_entry){ ACL_USER_OBJ, mode >> 6 & 7, ACL_UNDEFINED_ID };
	out->e[1] = (struct posix_acl_entry){ ACL_GROUP_OBJ, mode >> 3 & 7, ACL_UNDEFINED_ID };
	out->e[2] = (struct posix_acl_entry){ ACL_OTHER, mode & 7, ACL_UNDEFINED_ID };
}

static void add_mask(struct posix_acl *acl)
{
	if (acl->n != 3)
		return;
	acl->e[3] = acl->e[2];
	acl->e[2] = (struct posix_acl_entry){ ACL_MASK, acl->e[1].perm, ACL_UNDEFINED_ID };
	acl->n = 4;
}

static int wire(struct posix_acl *acl, const struct stub_attr *a, unsigned int of,
		struct nfs_aces *out)
{
	if (acl->n)
		add_mask(acl);
	if (acl->n > NFS_ACES_MAX)
		return -EINVAL;
	out->e = calloc(acl->n ? acl->n : 1, sizeof(*out->e));
	if (!out->e)
		return -ENOMEM;
	out->n = (unsigned int)acl->n;
	for (size_t i = 0; i < acl->n; i++)
		out->e[i] = (nfsacl_ace){ (enum nfsacl_type)(acl->e[i].tag | of),
					  id_of(&acl->e[i], a), acl->e[i].perm };
	return 0;
}

static bool is_there(const struct stub_xattr *x)
{
	return x && x->len;
}

int nfs_aces_access(const struct stub_xattr *x, const struct stub_attr *a, struct nfs_aces *out)
{
	struct posix_acl acl;
	int r = 0;

	*out = (struct nfs_aces){ 0 };
	if (is_there(x))
		r = posix_acl_unpack(x->value, x->len, &acl);
	else
		of_mode(a->mode, &acl);
	return r ? r : wire(&acl, a, 0, out);
}

int nfs_aces_default(const struct stub_xattr *x, const struct stub_attr *a, struct nfs_aces *out)
{
	struct posix_acl acl;
	int r = 0;

	*out = (struct nfs_aces){ 0 };
	if (is_there(x))
		r = posix_acl_unpack(x->value, x->len, &acl);
	else
		acl.n = 0;
	return r ? r : wire(&acl, a, NFSACL_TYPE_DEFAULT, out);
}
