/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * posix_acl.h - POSIX ACLs, and how the kernel takes them in extended attributes, for all backends.
 */
#ifndef POSIX_ACL_H
#define POSIX_ACL_H

#include "stubcore.h"

#define POSIX_ACL_ACCESS  "system.posix_acl_access"
#define POSIX_ACL_DEFAULT "system.posix_acl_default"
#define POSIX_ACL_HEAD	  4 /* bytes before the entries: the version */
#define POSIX_ACL_ENTRY	  8
#define POSIX_ACL_MAX	  2052 /* entries, more than file systems take */

struct source_meta;

struct posix_acl_entry {
	unsigned int tag, perm; /* linux/posix_acl.h */
	uint32_t id; /* ACL_UNDEFINED_ID where the tag has none */
};

struct posix_acl {
	size_t n; /* entries; 0: there is none */
	struct posix_acl_entry e[POSIX_ACL_MAX];
};

/* The kernel's order, for qsort(). */
int posix_acl_compare(const void *a, const void *b);

/*
 * The access ACL @value cannot come along with @a: narrow the mode, so that nobody gets more by it
 * than by the ACL (docs/decisions/0032).
 *
 *   group   what the group has, and every named user has too
 *   others  what the others have, and every named user and group has too
 *
 * An ACL that lacks the entries of group and others gives them nothing.
 */
void posix_acl_narrow(const uint8_t *value, size_t len, struct stub_attr *a);

/* The same, of one that is not encoded; one without entries leaves the mode. */
void posix_acl_narrow_by(const struct posix_acl *acl, struct stub_attr *a);

/*
 * Mode and ACL came one after the other, and only one of them may have been changed: what both
 * give.  The kernel makes the mode of the ACL when it stores that.
 */
void posix_acl_agree(struct posix_acl *acl, struct stub_attr *a);

/* The attributes that hold them, in the order in which they are stored, and @last behind them
 * (NULL: there is none).  -ENOMEM */
int posix_acl_pack(const struct posix_acl *access, const struct posix_acl *def,
		   const struct stub_xattr *last, struct source_meta *out);

/* What such an attribute holds, in the kernel's order.  -EINVAL: it is no ACL. */
int posix_acl_unpack(const uint8_t *value, size_t len, struct posix_acl *out);

/* Does the file system of @dirfd keep POSIX ACLs?  Only a plain "not supported" says no. */
bool posix_acl_kept(int dirfd);

#endif
