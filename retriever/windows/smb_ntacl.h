/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_ntacl.h - security.NTACL, as smbd's module acl_xattr stores it, without Samba's libraries.
 *
 * For descriptors that are made here, and not read from an SMB server: of any thread, and where no
 * Samba is installed.  The bytes are those of smb_ndr_ntacl() (test_smb_ntacl.c), which has the
 * same of a descriptor that came.
 */
#ifndef SMB_NTACL_H
#define SMB_NTACL_H

#include "windows/smb_acl.h"

/* SIDs of Samba: user and group by number, and Everyone. */
struct smb_sid smb_sid_user(uint32_t uid);
struct smb_sid smb_sid_group(uint32_t gid);
extern const struct smb_sid smb_sid_everyone, smb_sid_creator, smb_sid_creators_group;

/*
 * @sd has an owner, a group and a DACL, which is not NULL; @p is the file's, as stat() and libacl show
 * it once all is stored, both ACLs sorted, the access ACL with three entries at least; @type: S_IFREG,
 * S_IFDIR.  malloc'ed.
 *   -E2BIG   more entries than a descriptor of 64 KiB has room for
 *   -ENOMEM
 */
int smb_ntacl_make(const struct smb_sd *sd, const struct smb_posix *p, mode_t type, void **value,
		   size_t *len);

#endif
