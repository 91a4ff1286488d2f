/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_right.h - what an access control list grants to somebody whose groups are only partly
 * known.  The rules are at the top of smb_acl.h; shared by smb_acl.c and smb_right.c.
 */
#ifndef SMB_RIGHT_H
#define SMB_RIGHT_H

#include "windows/smb_acl.h"

#define SMB_LIST_DIRECTORY   0x00000001u /* READ_DATA */
#define SMB_WRITE_DATA	     0x00000002u /* ADD_FILE */
#define SMB_APPEND_DATA	     0x00000004u /* ADD_SUBDIRECTORY */
#define SMB_READ_EA	     0x00000008u
#define SMB_WRITE_EA	     0x00000010u
#define SMB_EXECUTE	     0x00000020u /* TRAVERSE */
#define SMB_DELETE_CHILD     0x00000040u
#define SMB_WRITE_ATTRIBUTES 0x00000100u
#define SMB_DELETE	     0x00010000u
#define SMB_WRITE_DAC	     0x00040000u

enum smb_who {
	SMB_WHO_NOBODY, /* no user of a file server */
	SMB_WHO_EVERYONE,
	SMB_WHO_KNOWN, /* Authenticated Users */
	SMB_WHO_ANONYMOUS,
	SMB_WHO_OWNER, /* OWNER RIGHTS */
	SMB_WHO_CREATORS, /* CREATOR GROUP, in what is inherited */
	SMB_WHO_UNKNOWN,
	SMB_WHO_IDS, /* the user, the group, or both */
};

struct smb_rule {
	enum smb_who who;
	struct smb_id id; /* of SMB_WHO_IDS, and of SMB_WHO_OWNER the owner's */
	bool deny;
	bool owners; /* of SMB_WHO_UNKNOWN: it is the owner's SID, and his user id is known */
	uint8_t flags; /* enum smb_ace_flag */
	uint32_t mask; /* without generic rights */
};

struct smb_rules {
	struct smb_rule *r;
	size_t n;
};

enum smb_scope { SMB_HERE, SMB_BY_FILES, SMB_BY_DIRS };

enum smb_subject_kind {
	SMB_IS_OWNER,
	SMB_IS_USER,
	SMB_IS_GROUP, /* a member who is neither the owner nor a user with an entry */
	SMB_IS_CREATORS, /* member of the group that a new file gets */
	SMB_IS_OTHER,
};

struct smb_subject {
	enum smb_subject_kind kind;
	uint32_t id; /* of the first three */
	bool known; /* he is in the table, and did not only get the default */
	bool generous; /* what groups of the table are allowed counts as his, too */
};

/* -ENOMEM */
int smb_rules_make(const struct smb_idmap *map, const struct smb_sd *sd, struct smb_rules *out);
void smb_rules_finish(struct smb_rules *r);

/* Does an ACE count in this scope? */
bool smb_rule_counts(const struct smb_rule *r, enum smb_scope scope);

/* The bits that @s is granted for certain. */
uint32_t smb_rights(const struct smb_rules *rules, enum smb_scope scope,
		    const struct smb_subject *s);

#endif
