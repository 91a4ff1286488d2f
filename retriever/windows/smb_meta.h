/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_meta.h - what an SMB server knows of a file, as Samba itself would store it.
 *
 *   security descriptor	security.NTACL (acl_xattr), all of it: owner, group, DACL,
 *				SACL, control flags; and for NFS owner, group, mode,
 *				system.posix_acl_access, system.posix_acl_default (smb_acl.h)
 *   attributes, creation time	user.DOSATTRIB
 *   alternate data streams	user.DosStream.NAME:$DATA (streams_xattr), or files of a
 *				depot (streams_depot), which depot.c makes
 *   extended attributes	user.NAME
 *   times			as they are
 *
 * The result does not depend on when it is made: filling an object twice stores the
 * same bytes.  What cannot be stored is named, never dropped silently.
 *
 * Not for threads: in the worker process.
 */
#ifndef SMB_META_H
#define SMB_META_H

#include <time.h>

#include "windows/smb_acl.h"
#include "windows/smb_ndr.h"

#define SMB_META_WHY  SMB_NDR_WHY
#define SMB_XATTR_MAX 65536u /* bytes of a value: the kernel's limit, and smbd's */
#define SMB_NAME_MAX  255u /* bytes of an attribute's name, likewise */

#define SMB_STREAM_PREFIX "user.DosStream." /* then "NAME:$DATA": streams_xattr */
#define SMB_ATTR_STORED 0x27u /* READONLY, HIDDEN, SYSTEM, ARCHIVE: what Samba stores */

/* What the new file system takes. */
struct smb_limits {
	size_t value; /* bytes of one value */
	size_t all; /* bytes of all of a file's attributes together; 0: no limit */
};

struct smb_meta_config {
	const struct smb_idmap *idmap;
	bool strict_delete, traverse; /* see smb_acl.h */
	struct smb_limits limits;
	bool depot; /* streams are for streams_depot: see struct smb_meta */
};

struct smb_stream {
	const char *name; /* as the server lists it, UTF-8: ":name:$DATA"; "::$DATA" is passed over */
	uint64_t size;
	const void *data; /* NULL if it was not fetched, because size is beyond smb_stream_max() */
};

struct smb_ea {
	const char *name; /* UTF-8 */
	const void *value;
	size_t len; /* 0: there is none */
};

struct smb_meta_in {
	mode_t type; /* S_IFREG, S_IFDIR */
	/* owner, group, and set-ID and sticky bits are known from NFS: uid, gid and bits */
	bool has_numbers;
	uid_t uid;
	gid_t gid;
	mode_t bits;
	const void *sd; /* self-relative; NULL: the server has none for it */
	size_t sd_len;
	uint32_t attributes; /* FILE_ATTRIBUTE_... */
	uint64_t create_time, access_time, write_time, change_time; /* NTTIME; 0: not known */
	const struct smb_stream *streams;
	size_t n_streams;
	const struct smb_ea *eas;
	size_t n_eas;
	size_t origin_len; /* bytes of the origin in the stub's record */
};

struct smb_xattr {
	char *name;
	void *value;
	size_t len;
};

enum smb_lost_why {
	SMB_LOST_SIZE, /* the file system or Samba does not take as much */
	SMB_LOST_NAME, /* no attribute can have the name */
	SMB_LOST_KIND, /* not a data stream, an attribute that Samba does not store ... */
};

struct smb_lost {
	enum smb_lost_why why;
	char *what; /* "stream NAME", "security descriptor", "attribute COMPRESSED" ... */
	uint64_t size; /* bytes, of SMB_LOST_SIZE */
};

struct smb_meta {
	uid_t uid;
	gid_t gid;
	mode_t mode; /* with type */
	struct timespec atime, mtime, ctime, btime; /* btime: all 0 if not known */
	struct smb_xattr *x; /* to be set in this order, after chown and chmod */
	size_t n;
	/* for a depot: files to be made there, ":NAME:$DATA"; x has the attribute that marks
	 * their directory as the object's (smb_streams.c) */
	struct smb_kept {
		char *name;
		uint64_t size;
	} *streams;
	size_t n_streams;
	struct smb_lost *lost;
	size_t n_lost;
	/* for statistics and the log */
	bool owner_unknown, group_unknown, owner_rights, acl_cut;
};

/*
 * Make it.  On failure @why (SMB_META_WHY bytes) is a line for the administrator.
 *   -EBADMSG  the descriptor cannot be decoded
 *   -E2BIG    it has more entries than Samba takes
 *   -EINVAL   another type
 *   -ENOSPC   not even a short POSIX ACL fits
 *   -ENOMEM
 */
int smb_meta_make(const struct smb_meta_config *c, const struct smb_meta_in *in,
		  struct smb_meta *out, char *why);
void smb_meta_finish(struct smb_meta *m);

/* The value of user.DOSATTRIB that smb_meta_make() makes of these.  malloc'ed.  -ENOMEM */
int smb_meta_dosattrib(bool dir, uint32_t attributes, uint64_t create_time, void **value,
		       size_t *len);

/* A line of text: "stream NAME (70000 bytes): too large for ..."; returns @buf. */
char *smb_lost_text(const struct smb_lost *l, char *buf, size_t size);

/* Is @attr, "user.NAME", one that Samba keeps for itself: no extended attribute of a client's? */
bool smb_xattr_private(const char *attr);

/* Bytes of the largest stream worth fetching. */
uint64_t smb_stream_max(const struct smb_limits *l);

/* Find out what the file system of directory @dirfd takes, with an unnamed file there.
 * -EOPNOTSUPP (no extended attributes, or no O_TMPFILE), -ENOSPC, -EROFS, -EIO ... */
int smb_limits_probe(int dirfd, struct smb_limits *out);

#endif
