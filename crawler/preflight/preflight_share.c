/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight_share.c - is what an SMB server shares the same tree as what it exports, and does it keep what
 * only SMB carries?  Tried with a directory that was made over NFS, and belongs to somebody else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "preflight/preflight.h"
#include "preflight/preflight_mirror.h"
#include "source/dos_attrib.h"
#include "source/target.h"
#include "windows/smb_ntacl.h"

#define ALL_RIGHTS 0x001f01ffu
#define BORN	   1000000000 /* seconds since 1970 */

#define NEEDS \
	"a Samba there needs the modules acl_xattr and streams_xattr, and to store DOS attributes; or leave --smb out"

static int fail(struct verdict *v, const struct mirror_trial *t, int error)
{
	if (error == -ENOENT || error == -ESTALE)
		return verdict_fail(v, FAIL_MIRROR,
				    "share %s does not show what is made in %s, or with other file ids: name the share, and the "
				    "directory in it, that is exported; or leave --smb out", t->share_uri, t->uri);
	if (error == -EACCES)
		return verdict_fail(v, FAIL_DENIED,
				    "share %s: what belongs to others cannot be changed: the account (smb_credentials) must "
				    "be an administrator there", t->share_uri);
	return verdict_fail(v, FAIL_MIRROR, "share %s: what only SMB carries cannot be set there: %s: " NEEDS, t->share_uri,
			    strerror(-error));
}

static int other(struct verdict *v, const struct mirror_trial *t, uint32_t differs)
{
	return verdict_fail(v, FAIL_MIRROR, "share %s does not keep%s%s%s%s as it is given them: " NEEDS, t->share_uri,
			    differs & TARGET_ATTRIBUTES ? " DOS attributes" : "",
			    differs & TARGET_STREAMS ? " streams" : "", differs & TARGET_EAS ? " extended attributes" : "",
			    differs & TARGET_DESCRIPTOR ? " descriptors" : "");
}

/* As acl_xattr would store it of that directory. */
static int descriptor(const struct stub_attr *a, void **value, size_t *len)
{
	struct smb_ace ace = { .mask = ALL_RIGHTS, .sid = smb_sid_user(a->uid) };
	const struct smb_sd sd = { .has_owner = true, .has_group = true, .dacl_present = true,
				   .owner = smb_sid_user(a->uid), .group = smb_sid_group(a->gid), .aces = &ace, .n = 1 };
	struct smb_posix_entry e[] = { { SMB_USER_OBJ, a->mode >> 6 & 7, UINT32_MAX },
				       { SMB_GROUP_OBJ, a->mode >> 3 & 7, UINT32_MAX },
				       { SMB_OTHER, a->mode & 7, UINT32_MAX } };
	const struct smb_posix p = { .uid = a->uid, .gid = a->gid, .mode = a->mode & 07777, .access = { e, 3 } };

	return smb_ntacl_make(&sd, &p, S_IFDIR, value, len);
}

static int put(const struct mirror_trial *t, const struct stub_origin *o, const struct stub_attr *a, void *acl,
	       size_t acl_len, struct target_put *out)
{
	static const struct timespec born = { BORN, 0 };
	uint8_t attributes[DOS_ATTRIB_BYTES];
	const struct stub_xattr x[] = { { DOS_ATTRIB, attributes, sizeof(attributes) },
					{ "user.DosStream.postcopy:$DATA", "tried", sizeof("tried") },
					{ "user.POSTCOPY", "tried", strlen("tried") },
					{ "security.NTACL", acl, acl_len } };
	const struct target_windows w = { .fileid = a->fileid, .uid = a->uid, .gid = a->gid, .mode = a->mode,
					  .x = x, .n = sizeof(x) / sizeof(x[0]) };

	dos_attrib_born(true, &born, attributes);
	return target_put(t->share, o, &w, false, out);
}

int share_trial(struct verdict *v, const struct mirror_trial *t, const struct stub_attr *made)
{
	struct target_put out = { 0 };
	struct stub_origin o;
	struct stub_attr root;
	void *acl = NULL;
	size_t len;
	int n, r = source_root(t->share, &o, &root);

	if (r < 0)
		return fail(v, t, r);
	n = snprintf((char *)o.bytes + o.len, sizeof(o.bytes) - o.len, "%s%s", o.len ? "/" : "", t->name);
	if (n < 0 || (size_t)n >= sizeof(o.bytes) - o.len)
		return fail(v, t, -ENAMETOOLONG);
	o.len = (uint16_t)(o.len + n);
	r = descriptor(made, &acl, &len);
	if (r == 0)
		r = put(t, &o, made, acl, len, &out);
	free(acl);
	return r < 0 ? fail(v, t, r) : out.differs ? other(v, t, out.differs) : 0;
}
