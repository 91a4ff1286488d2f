/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs4_posix.h - what an ACL of NFSv4 lets users do, as POSIX ACLs.
 *
 * Over there the entries count in their order: the first one that speaks of somebody and names a
 * bit decides on it, and what none allows is denied (RFC 7530, section 6.2.1).  A POSIX ACL has one
 * entry for each user, and those of all groups of who is no user of it.  So each entry of ours has
 * what everybody has over there to whom it applies, whatever groups he is in:
 *
 *   right    file                         directory
 *   r        READ_DATA                    LIST_DIRECTORY
 *   w        WRITE_DATA, APPEND_DATA      ADD_FILE, ADD_SUBDIRECTORY
 *   x        EXECUTE                      (look-ups)
 *
 * Both bits of w must be allowed.  Who is in which group is not asked.  So it is certain,
 * impossible, or possible that an entry speaks of somebody: one that allows counts if it is
 * certain, one that denies also if it is possible.
 *
 *   OWNER@      certain for the owner, impossible for all others
 *   a user      certain for him, also if he owns the object; impossible for all others
 *   GROUP@      certain for its members, impossible for who is in no group of the ACL, else
 *               possible
 *   a group     likewise; the owning group's number is GROUP@
 *   EVERYONE@   certain
 *   not known   nobody, or (denied) possible for all
 *
 * Whoever is named with any of these bits has an entry of his own, so that "impossible" holds.
 *
 * w on a directory is the right to delete what others have made there.  Who is denied DELETE_CHILD
 * in so many words, but has w, makes the directory sticky.
 *
 * A directory's default ACL has what both files and directories inherit at all depths.  Who makes
 * something owns it, and may give himself what he likes: only what is said of OWNER@ and EVERYONE@
 * counts for him, and if nothing is said of OWNER@ he gets what he asks for.
 */
#ifndef NFS4_POSIX_H
#define NFS4_POSIX_H

#include "source/posix_acl.h"

#define NFS4_ACES_MAX 2048 /* all of them named, they still fit a struct posix_acl */

enum nfs4_ace_type { NFS4_ALLOW, NFS4_DENY, NFS4_AUDIT, NFS4_ALARM };

enum nfs4_ace_flag {
	NFS4_BY_FILES = 0x1, /* files inherit it */
	NFS4_BY_DIRS = 0x2,
	NFS4_ONE_LEVEL = 0x4,
	NFS4_INHERIT_ONLY = 0x8,
	NFS4_IS_GROUP = 0x40,
};

enum nfs4_ace_mask {
	NFS4_READ_DATA = 0x1,
	NFS4_WRITE_DATA = 0x2,
	NFS4_APPEND_DATA = 0x4,
	NFS4_EXECUTE = 0x20,
	NFS4_DELETE_CHILD = 0x40,
	NFS4_READ_ATTRIBUTES = 0x80,
	NFS4_WRITE_ATTRIBUTES = 0x100,
	NFS4_DELETE = 0x10000,
	NFS4_READ_ACL = 0x20000,
	NFS4_WRITE_ACL = 0x40000,
	NFS4_WRITE_OWNER = 0x80000,
};

enum nfs4_who { NFS4_OWNER, NFS4_GROUP, NFS4_EVERYONE, NFS4_A_USER, NFS4_A_GROUP, NFS4_STRANGER };

struct nfs4_ace {
	uint32_t type, flags, mask;
	enum nfs4_who who;
	uint32_t id; /* of a user or group */
};

struct nfs4_acl {
	uint32_t n; /* at least 1 */
	struct nfs4_ace e[NFS4_ACES_MAX];
};

struct nfs4_posix {
	uint32_t mode; /* with the type, as stat() shows it with the ACL */
	struct posix_acl access; /* 3 entries: no more than the mode */
	struct posix_acl def; /* of directories; n 0: there is none */
	/* They do not say the same as the ACL: somebody gets less, or there is something in it that
	 * they cannot say. */
	bool near;
};

/* @a: the object's type, mode, owner and group.  Owner, group and others get no more than the mode
 * gives them. */
void nfs4_posix_make(const struct nfs4_acl *acl, const struct stub_attr *a, struct nfs4_posix *out);

/* ---- nfs4_ntacl.c ---- */

/* The value of security.NTACL that says what @acl does, of an object for which @px was made and is
 * stored.  malloc'ed.  -E2BIG: more entries than Samba takes; -ENOMEM */
int nfs4_ntacl(const struct nfs4_acl *acl, const struct stub_attr *a, const struct nfs4_posix *px,
	       void **value, size_t *len);

#endif
