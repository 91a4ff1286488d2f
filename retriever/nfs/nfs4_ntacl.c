// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_ntacl.c - an ACL of NFSv4 as the security descriptor that Samba's acl_xattr keeps.
 *
 * Types, masks and inheritance are Windows's, in the same order; users and groups get Samba's own SIDs
 * for their numbers.  What is said of the owner or the group, and inherited, is said of who makes
 * something, and of his group.
 */
#include <errno.h>
#include <stdlib.h>

#include "nfs/nfs4.h"
#include "nfs/nfs4_posix.h"
#include "windows/smb_ntacl.h"

#define ACES_MAX  2000 /* Samba takes no more */
#define MASK	  0x001f01ffu /* what files have of Windows's rights */
#define INHERITS  (NFS4_BY_FILES | NFS4_BY_DIRS)
#define FLAGS	  (INHERITS | NFS4_ONE_LEVEL | NFS4_INHERIT_ONLY)
#define INHERITED 0x80u /* NFSv4.1 */
#define AS_WINDOWS 0x10u

struct list {
	struct smb_ace *e;
	size_t n;
	const struct stub_attr *a;
	bool dir;
};

static void add(struct list *l, const struct nfs4_ace *e, uint32_t flags, struct smb_sid sid)
{
	if (e->flags & INHERITED)
		flags |= AS_WINDOWS;
	if (l->n < ACES_MAX)
		l->e[l->n] = (struct smb_ace){ (uint8_t)e->type, (uint8_t)flags, e->mask & MASK,
					       sid };
	l->n++;
}

/* Of the owner or the group: of this object's, and of those of what is made in it. */
static void add_own(struct list *l, const struct nfs4_ace *e, uint32_t flags)
{
	bool owner = e->who == NFS4_OWNER;

	if (!(flags & NFS4_INHERIT_ONLY))
		add(l, e, 0, owner ? smb_sid_user(l->a->uid) : smb_sid_group(l->a->gid));
	if (flags & INHERITS)
		add(l, e, flags | NFS4_INHERIT_ONLY,
		    owner ? smb_sid_creator : smb_sid_creators_group);
}

static void add_entry(struct list *l, const struct nfs4_ace *e)
{
	uint32_t flags = l->dir ? e->flags & FLAGS : 0;

	if (e->type > NFS4_DENY || (!l->dir && e->flags & NFS4_INHERIT_ONLY))
		return;
	switch (e->who) {
	case NFS4_OWNER:
	case NFS4_GROUP:
		add_own(l, e, flags);
		break;
	case NFS4_EVERYONE:
		add(l, e, flags, smb_sid_everyone);
		break;
	case NFS4_A_USER:
		add(l, e, flags, smb_sid_user(e->id));
		break;
	case NFS4_A_GROUP:
		add(l, e, flags, smb_sid_group(e->id));
		break;
	case NFS4_STRANGER:
		break; /* what he is denied does not come so far */
	}
}

/* @e has room. */
static struct smb_posix_acl as_smb(const struct posix_acl *from, struct smb_posix_entry *e)
{
	struct smb_posix_acl to = { e, from->n };

	for (size_t i = 0; i < from->n; i++)
		e[i] = (struct smb_posix_entry){ (uint16_t)from->e[i].tag,
						 (uint16_t)from->e[i].perm, from->e[i].id };
	return to;
}

int nfs4_ntacl(const struct nfs4_acl *acl, const struct stub_attr *a, const struct nfs4_posix *px,
	       void **value, size_t *len)
{
	struct smb_posix_entry *e = malloc((px->access.n + px->def.n + 1) * sizeof(*e));
	struct list l = { malloc(ACES_MAX * sizeof(*l.e)), 0, a, S_ISDIR(a->mode) };
	struct smb_posix p = { .uid = a->uid, .gid = a->gid, .mode = px->mode & 07777 };
	struct smb_sd sd = { .has_owner = true, .has_group = true, .dacl_present = true };
	int r = e && l.e ? 0 : -ENOMEM;

	if (r == 0) {
		for (uint32_t i = 0; i < acl->n; i++)
			add_entry(&l, &acl->e[i]);
		p.access = as_smb(&px->access, e);
		p.def = as_smb(&px->def, e + px->access.n);
		sd.owner = smb_sid_user(a->uid);
		sd.group = smb_sid_group(a->gid);
		sd.aces = l.e;
		sd.n = l.n;
		r = l.n > ACES_MAX ? -E2BIG :
				     smb_ntacl_make(&sd, &p, a->mode & S_IFMT, value, len);
	}
	free(e);
	free(l.e);
	return r;
}
