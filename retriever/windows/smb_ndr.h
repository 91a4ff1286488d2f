/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_ndr.h - Samba's encodings, made and read by Samba's libraries.
 *
 * The only part of smb_meta that is compiled with Samba's headers: everything goes in
 * and out as plain bytes and the types of smb_acl.h.  Not for threads (talloc).
 */
#ifndef SMB_NDR_H
#define SMB_NDR_H

#include "windows/smb_acl.h"

#define SMB_NDR_WHY 128

struct smb_ndr_sd;

/*
 * Read a self-relative descriptor, as it came from the old server: hostile.
 * On failure @why (SMB_NDR_WHY bytes) says what is wrong with it.
 *   -EBADMSG  it cannot be decoded
 *   -E2BIG	   it has more entries than Samba takes (2000)
 *   -ENOMEM
 */
int smb_ndr_sd_parse(const void *data, size_t len, struct smb_ndr_sd **out, char *why);
void smb_ndr_sd_destroy(struct smb_ndr_sd *sd); /* takes NULL */

/* What smb_acl_map() needs of it; lives as long as @sd. */
const struct smb_sd *smb_ndr_sd_view(const struct smb_ndr_sd *sd);

/* Entries with more than an identity and rights (conditions, claims), which Samba 4.17
 * does not keep (4.22 does). */
unsigned int smb_ndr_sd_cut(const struct smb_ndr_sd *sd);

/*
 * The value of security.NTACL: the descriptor, tied by a hash to owner, group, mode
 * (with the type of the object in @mode) and POSIX ACLs of the file as they are when
 * @p is stored.  @time: NTTIME that is kept with it.  malloc'ed.
 *   -ENOMEM, -EINVAL (Samba's library refuses; should not happen)
 */
int smb_ndr_ntacl(const struct smb_ndr_sd *sd, const struct smb_posix *p, mode_t type,
		  uint64_t time, void **value, size_t *len);

/* The value of user.DOSATTRIB.  @create_time: NTTIME, 0 if it is not known.  malloc'ed.
 * Errors as above. */
int smb_ndr_dosattrib(uint32_t attributes, uint64_t create_time, void **value, size_t *len);

/* What user.DOSATTRIB says: attributes, FILE_ATTRIBUTE_*, and creation time, NTTIME; 0: nothing.
 *   -EBADMSG  it is none, or of a version before 3 */
int smb_ndr_dosattrib_parse(const void *value, size_t len, uint32_t *attributes, uint64_t *create_time);

/*
 * The descriptor in security.NTACL, self-relative and malloc'ed, of a file with owner, group, mode and
 * ACLs of @p, as stat() and libacl show them, the access ACL with three entries at least; @type: S_IFREG,
 * S_IFDIR.
 *   *in_force  the file is as it was when this was stored, so that smbd goes by it.  That only
 *              version 4 can tell, of acl_xattr with its usual settings; older ones: false
 *   -EBADMSG   it is none
 *   -ENOMEM
 */
int smb_ndr_ntacl_parse(const void *value, size_t len, const struct smb_posix *p, mode_t type, void **sd,
			size_t *sd_len, bool *in_force);

/* A descriptor as it is to be sent to a server that is to keep it: with what asks it to keep the flag
 * that entries are inherited.  malloc'ed.  -EBADMSG, -ENOMEM */
int smb_ndr_sd_to_send(const void *sd, size_t len, bool sacl, void **out, size_t *out_len);

/* Do these say the same?  Owner, group, DACL and whether it is protected; @sacl: and SACL.  Not the flag
 * that entries are inherited.  False also: one cannot be decoded. */
bool smb_ndr_sd_same(const void *a, size_t a_len, const void *b, size_t b_len, bool sacl);

#endif
