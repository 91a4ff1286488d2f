/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_idmap.h - the administrator's table of SIDs, names, user ids and group ids.
 *
 * The file (postcopy-idmap(5)) says which Unix user or group each identity of the old
 * SMB server is here.  A SID may be a user, a group, both, or unknown.  Built in, where
 * the table does not say otherwise:
 *
 *   S-1-22-1-N    user N                 S-1-22-2-N  group N (Unix ids of a Samba server)
 *   S-1-5-18      user 0 (the system)    S-1-5-32-544  user 0 and group 0 (administrators)
 *
 * For an NFSv4 server that has names for its users and groups, "user@domain", the table says which
 * they are here.  No name is built in, and none has a default.
 *
 * A map is not changed after it was read: any thread may look things up.
 */
#ifndef SMB_IDMAP_H
#define SMB_IDMAP_H

#include <sys/types.h>

#include "windows/smb_sid.h"

#define SMB_IDMAP_PATH "/etc/postcopy/idmap"
#define SMB_IDMAP_WHY  256

struct smb_idmap;

struct smb_id {
	bool has_uid, has_gid;
	bool everyone; /* the administrator says that everybody is in this group */
	uid_t uid;
	gid_t gid;
};

/*
 * Read the table.  @path NULL: SMB_IDMAP_PATH, which may be absent (then only what is
 * built in is known).  On failure @why, of SMB_IDMAP_WHY bytes, is a line with the
 * file's name and, for -EINVAL, the line's number.
 *   -EINVAL  a line cannot be understood, or contradicts another
 *   -EPERM   somebody else than root and the caller may write it: it decides on access
 *   -ENOENT, -EACCES, -EISDIR, -EFBIG (more than 16 MiB), -ENOMEM
 */
int smb_idmap_read(const char *path, struct smb_idmap **out, char *why);

/* The same from memory; @name is what @why calls it.  -EINVAL, -ENOMEM */
int smb_idmap_parse(const char *text, size_t len, const char *name, struct smb_idmap **out,
		    char *why);

void smb_idmap_destroy(struct smb_idmap *m); /* takes NULL */

void smb_idmap_find(const struct smb_idmap *m, const struct smb_sid *sid, struct smb_id *out);

/* Is the user, or the group, of that name in the table?  @m NULL: no. */
bool smb_idmap_name(const struct smb_idmap *m, bool group, const void *name, size_t len,
		    uint32_t *id);

/* The owner and group for SIDs that are not known here; root unless the table says otherwise. */
uid_t smb_idmap_default_uid(const struct smb_idmap *m);
gid_t smb_idmap_default_gid(const struct smb_idmap *m);

#endif
