/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_acl.h - what a security descriptor lets users do, as POSIX mode and ACL.
 *
 * Never more than the descriptor grants: each entry holds what everybody to whom it applies
 * is granted, whatever groups he is in.  What a POSIX ACL cannot express is not granted.
 *
 *   right    file                                   directory
 *   r        READ_DATA, READ_EA                     LIST_DIRECTORY, READ_EA
 *   w        WRITE_DATA, APPEND_DATA, WRITE_EA,     ADD_FILE, ADD_SUBDIRECTORY, WRITE_EA,
 *            WRITE_ATTRIBUTES                       WRITE_ATTRIBUTES
 *   x        EXECUTE                                TRAVERSE
 *
 * All of a right's bits must be granted; generic rights count as those they stand for.
 * The first access control entry (ACE) that names a bit decides on it, as on the old server.
 *
 * That an ACE applies to somebody is certain, impossible, or possible (a group whose members
 * are not known; a SID that is not in the table).  An ACE that allows counts if that is
 * certain, one that denies also if it is possible.
 *
 *   user SID      certain for that user, impossible for all others
 *   group SID     certain for members, impossible for those who match no group entry
 *   Everyone      certain; NETWORK and what the table calls "everyone" too
 *   Authenticated Users   certain for users and groups of the table, possible for others
 *   OWNER RIGHTS  certain for the owner, or the members of the group that owns it; if
 *		   that is an unknown SID, possible for all
 *   unknown SID   possible, for all; certain for the owner if it is the descriptor's owner
 *		   and his number is known from elsewhere (smb_sd.has_numbers)
 *   local logons (INTERACTIVE, SYSTEM ...), CREATOR OWNER in an ACE in force: impossible
 *   conditional and object ACEs   allow nothing, deny everybody they may speak of
 *
 * So that "impossible" holds, a user or group that is denied anything has an entry of
 * its own, even if it is empty.  One exception: the owner also gets what the groups of the
 * table are allowed, since he may change the descriptor, as POSIX owners may.  If OWNER
 * RIGHTS take that from him, the file belongs to root and he gets a user's entry.
 *
 * w on a directory includes deleting what others put there.  Where somebody gets w who
 * neither has DELETE_CHILD nor passes DELETE on to all that inherits from there, the
 * directory becomes sticky (STRICT_DELETE: also where he does pass it on).
 *
 * SMB servers let everybody pass through directories on the way to what he has rights on
 * ("bypass traverse checking"), so that x is often missing where it was not needed.  With
 * TRAVERSE all directories have x for everybody; that shows the attributes of what is in
 * them, but not its names, to those who could not see them before.
 *
 * A directory's default ACL grants what both files and directories inherit; if neither
 * inherits any ACE there is no default ACL.  An ACE that is inherited by one level only allows
 * nothing in it.  Who makes something in the directory owns it, and gets rwx.
 */
#ifndef SMB_ACL_H
#define SMB_ACL_H

#include "windows/smb_idmap.h"

/* As they are in descriptors; 64 KiB hold no more ACEs. */
#define SMB_ACES_MAX 4096

enum smb_ace_type {
	SMB_ACE_ALLOW = 0,
	SMB_ACE_DENY = 1,
	SMB_ACE_DENY_OBJECT = 6,
	SMB_ACE_DENY_IF = 10, /* with a condition */
	SMB_ACE_DENY_OBJECT_IF = 12, /* its SID is at another place, and not looked at */
};

enum smb_ace_flag {
	SMB_ACE_FILES = 0x01, /* files inherit it */
	SMB_ACE_DIRS = 0x02, /* directories inherit it */
	SMB_ACE_ONE_LEVEL = 0x04,
	SMB_ACE_INHERIT_ONLY = 0x08,
};

struct smb_ace {
	uint8_t type; /* enum smb_ace_type, or one that is not known here */
	uint8_t flags;
	uint32_t mask;
	struct smb_sid sid;
};

struct smb_sd {
	bool has_owner, has_group;
	bool dacl_present; /* the control flag */
	bool dacl_null; /* if present: everybody may do everything; if not: nothing is said */
	struct smb_sid owner, group;
	const struct smb_ace *aces;
	size_t n;
	/* The object's owner and group are known from elsewhere (NFS): @uid and @gid are taken, and
	 * not the table's.  What they may do still follows from the table. */
	bool has_numbers;
	uint32_t uid, gid;
};

enum smb_posix_tag { /* as the kernel numbers them */
		     SMB_USER_OBJ = 0x01,
		     SMB_USER = 0x02,
		     SMB_GROUP_OBJ = 0x04,
		     SMB_GROUP = 0x08,
		     SMB_MASK = 0x10,
		     SMB_OTHER = 0x20,
};

struct smb_posix_entry {
	uint16_t tag;
	uint16_t perm; /* 4 r, 2 w, 1 x */
	uint32_t id; /* UINT32_MAX where the tag has none */
};

/* Sorted as the kernel and libacl want it.  n: 0 (none), 3 (no more than a mode), or more. */
struct smb_posix_acl {
	struct smb_posix_entry *e;
	size_t n;
};

struct smb_posix {
	uid_t uid;
	gid_t gid;
	mode_t mode; /* permissions and sticky bit, as stat() shows it with the ACL */
	struct smb_posix_acl access, def;
	/* for messages to the administrator */
	bool owner_unknown, group_unknown;
	bool owner_rights; /* belongs to root because of OWNER RIGHTS */
	bool cut; /* more entries than @max: only the owner has access, or some are left out */
};

enum smb_acl_flag { SMB_ACL_DIR = 1, SMB_ACL_STRICT_DELETE = 2, SMB_ACL_TRAVERSE = 4 };

/*
 * @flags: enum smb_acl_flag; DIR: the descriptor is a directory's.  @max: entries of an ACL that
 * the file system takes at most.
 * -ENOMEM, -E2BIG (more than SMB_ACES_MAX)
 */
int smb_acl_map(const struct smb_idmap *map, const struct smb_sd *sd, unsigned int flags,
		size_t max, struct smb_posix *out);
void smb_posix_finish(struct smb_posix *p);

/* The value of system.posix_acl_access or _default: 4 + 8 bytes an entry, malloc'ed. -ENOMEM */
int smb_acl_encode(const struct smb_posix_acl *acl, void **value, size_t *len);

#endif
