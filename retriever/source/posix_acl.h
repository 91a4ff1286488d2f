/* SPDX-License-Identifier: GPL-3.0-or-later */
/* posix_acl.h - POSIX ACLs as the kernel takes them in extended attributes, for all backends. */
#ifndef POSIX_ACL_H
#define POSIX_ACL_H

#include "stubcore.h"

#define POSIX_ACL_ACCESS  "system.posix_acl_access"
#define POSIX_ACL_DEFAULT "system.posix_acl_default"
#define POSIX_ACL_HEAD	  4 /* bytes before the entries: the version */
#define POSIX_ACL_ENTRY	  8

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

/* Does the file system of @dirfd keep POSIX ACLs?  Only a plain "not supported" says no. */
bool posix_acl_kept(int dirfd);

#endif
