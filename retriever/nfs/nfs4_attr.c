// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_attr.c - NFSv4's codes and attributes (RFC 7530) into ours.
 *
 * A fattr4 is a bitmap, and the values in the order of their numbers without lengths: what
 * was not asked for cannot be passed over, and is impossible.  What a server does not have it
 * leaves out.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "nfs/nfs4.h"
#include "windows/smb_idmap.h"

#define WHO_MAX 1024

/* ---- codes ---- */

/* Only what source.h lists leaves here. */
static const struct {
	int status, error;
} errors[] = {
	{ 0, 0 },
	{ NFS4_PERM, -EACCES },
	{ NFS4_NOENT, -ENOENT },
	{ NFS4_EIO, -EIO },
	{ NFS4_EACCESS, -EACCES },
	{ NFS4_NOTDIR, -ENOTDIR },
	{ NFS4_SYMLINK, -ENOTDIR },
	{ NFS4_NAMETOOLONG, -ENAMETOOLONG },
	{ NFS4_STALE, -ESTALE },
	{ NFS4_BADHANDLE, -ESTALE },
	{ NFS4_FHEXPIRED, -ESTALE },
	{ NFS4_WRONGSEC, -EACCES },
	{ NFS4_MOVED, -EXDEV }, /* what is there lies on another server */
	/* later: a file that somebody has locked or opened for himself, too */
	{ NFS4_DELAY, -EAGAIN },
	{ NFS4_GRACE, -EAGAIN },
	{ NFS4_RESOURCE, -EAGAIN },
	{ NFS4_LOCKED, -EAGAIN },
	{ NFS4_SHARE_DENIED, -EAGAIN },
};

int nfs4_errno(int status)
{
	if (status < 0)
		return status;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].status == status)
			return errors[i].error;
	return -EIO;
}

enum nfs_said nfs4_said(int status)
{
	switch (status) {
	case NFS4_TOOSMALL:
	case NFS4_XATTR2BIG:
	case NFS4_REP_TOO_BIG:
		return NFS_SAID_TOOSMALL;
	case NFS4_NOXATTR:
		return NFS_SAID_NOXATTR;
	case NFS4_BAD_COOKIE:
	case NFS4_NOT_SAME:
		return NFS_SAID_COOKIE;
	case NFS4_INVAL:
	case NFS4_NOTSUPP:
	case NFS4_ATTRNOTSUPP:
	case NFS4_OP_ILLEGAL:
	case NFS4_UNION_NOTSUPP:
	case NFS4_BAD_STATEID:
	case NFS4_WRONG_TYPE:
		return NFS_SAID_NOTSUPP;
	default:
		return NFS_SAID_NOTHING;
	}
}

/* ---- values ---- */

const uint64_t nfs4_of_objects =
	NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_SIZE) | NFS4_BIT(FATTR4_FSID) |
	NFS4_BIT(FATTR4_ACL) | NFS4_BIT(FATTR4_FILEID) | NFS4_BIT(FATTR4_MODE) |
	NFS4_BIT(FATTR4_NUMLINKS) | NFS4_BIT(FATTR4_OWNER) | NFS4_BIT(FATTR4_OWNER_GROUP) |
	NFS4_BIT(FATTR4_RAWDEV) | NFS4_BIT(FATTR4_SPACE_USED) | NFS4_BIT(FATTR4_TIME_ACCESS) |
	NFS4_BIT(FATTR4_TIME_METADATA) | NFS4_BIT(FATTR4_TIME_MODIFY);

static int get_supported(struct nfs4_in *in, struct nfs4_attrs *out)
{
	out->supported = nfs4_get_bitmap(in, true);
	return 0;
}

static int get_fsid(struct nfs4_in *in, struct nfs4_attrs *out)
{
	uint64_t major = nfs4_get64(in), minor = nfs4_get64(in);

	out->fsid = major ^ (minor << 32 | minor >> 32);
	return 0;
}

static int get_handle(struct nfs4_in *in, struct nfs4_attrs *out)
{
	out->fh = nfs4_get_opaque(in, NFS_HANDLE_MAX, &out->fh_len);
	return 0;
}

static int get_rawdev(struct nfs4_in *in, struct nfs4_attrs *out)
{
	out->rdev_major = nfs4_get32(in);
	out->rdev_minor = nfs4_get32(in);
	return 0;
}

static int get_who(struct nfs4_in *in, struct nfs4_bytes *name, uint32_t *id)
{
	uint32_t len;
	const uint8_t *p = nfs4_get_opaque(in, WHO_MAX, &len);

	if (p && !nfs4_number(p, len, id))
		*name = (struct nfs4_bytes){ p, len };
	return 0;
}

static int get_owner(struct nfs4_in *in, struct nfs4_attrs *out)
{
	return get_who(in, &out->owner, &out->uid);
}

static int get_group(struct nfs4_in *in, struct nfs4_attrs *out)
{
	return get_who(in, &out->group, &out->gid);
}

enum kind { UNKNOWN, WORD, LONG, TIME };
#define WORD_AT(f) { WORD, offsetof(struct nfs4_attrs, f), NULL }
#define LONG_AT(f) { LONG, offsetof(struct nfs4_attrs, f), NULL }
#define TIME_AT(f) { TIME, offsetof(struct nfs4_attrs, f), NULL }
#define BY(get)	   { UNKNOWN, 0, get }

static const struct value {
	enum kind kind;
	size_t at;
	int (*get)(struct nfs4_in *in, struct nfs4_attrs *out);
} values[64] = {
	[FATTR4_SUPPORTED] = BY(get_supported),
	[FATTR4_TYPE] = WORD_AT(type),
	[FATTR4_FH_EXPIRE_TYPE] = WORD_AT(fh_expire),
	[FATTR4_SIZE] = LONG_AT(size),
	[FATTR4_LINK_SUPPORT] = WORD_AT(link_support),
	[FATTR4_SYMLINK_SUPPORT] = WORD_AT(symlink_support),
	[FATTR4_FSID] = BY(get_fsid),
	[FATTR4_LEASE_TIME] = WORD_AT(lease_time),
	[FATTR4_RDATTR_ERROR] = WORD_AT(rdattr_error),
	[FATTR4_ACL] = BY(nfs4_get_acl),
	[FATTR4_ACLSUPPORT] = WORD_AT(aclsupport),
	[FATTR4_CASE_INSENSITIVE] = WORD_AT(case_insensitive),
	[FATTR4_CASE_PRESERVING] = WORD_AT(case_preserving),
	[FATTR4_CHOWN_RESTRICTED] = WORD_AT(chown_restricted),
	[FATTR4_FILEHANDLE] = BY(get_handle),
	[FATTR4_FILEID] = LONG_AT(fileid),
	[FATTR4_FILES_FREE] = LONG_AT(files_free),
	[FATTR4_FILES_TOTAL] = LONG_AT(files_total),
	[FATTR4_MAXFILESIZE] = LONG_AT(maxfilesize),
	[FATTR4_MAXLINK] = WORD_AT(maxlink),
	[FATTR4_MAXNAME] = WORD_AT(maxname),
	[FATTR4_MAXREAD] = LONG_AT(maxread),
	[FATTR4_MODE] = WORD_AT(mode),
	[FATTR4_NUMLINKS] = WORD_AT(numlinks),
	[FATTR4_OWNER] = BY(get_owner),
	[FATTR4_OWNER_GROUP] = BY(get_group),
	[FATTR4_RAWDEV] = BY(get_rawdev),
	[FATTR4_SPACE_FREE] = LONG_AT(space_free),
	[FATTR4_SPACE_TOTAL] = LONG_AT(space_total),
	[FATTR4_SPACE_USED] = LONG_AT(space_used),
	[FATTR4_TIME_ACCESS] = TIME_AT(atime),
	[FATTR4_TIME_CREATE] = TIME_AT(born),
	[FATTR4_TIME_DELTA] = TIME_AT(time_delta),
	[FATTR4_TIME_METADATA] = TIME_AT(ctime),
	[FATTR4_TIME_MODIFY] = TIME_AT(mtime),
};

static int get_time(struct nfs4_in *in, struct timespec *out)
{
	out->tv_sec = (time_t)(int64_t)nfs4_get64(in);
	out->tv_nsec = nfs4_get32(in);
	return out->tv_nsec > 999999999 ? -EBADMSG : 0;
}

static int get_value(struct nfs4_in *in, const struct value *v, struct nfs4_attrs *out)
{
	char *at = (char *)out + v->at;

	switch (v->kind) {
	case WORD:
		*(uint32_t *)(void *)at = nfs4_get32(in);
		return 0;
	case LONG:
		*(uint64_t *)(void *)at = nfs4_get64(in);
		return 0;
	case TIME:
		return get_time(in, (struct timespec *)(void *)at);
	case UNKNOWN:
		break;
	}
	return v->get ? v->get(in, out) : -EBADMSG;
}

int nfs4_get_attrs(struct nfs4_in *in, uint64_t asked, struct nfs4_attrs *out)
{
	return nfs4_get_attrs3(in, asked, 0, out);
}

int nfs4_get_attrs3(struct nfs4_in *in, uint64_t asked, uint32_t third, struct nfs4_attrs *out)
{
	struct nfs4_in v = { 0 };
	uint32_t len;
	int r = 0;

	memset(out, 0, sizeof(*out));
	out->have = nfs4_get_bitmap3(in, false, &out->third);
	v.p = nfs4_get_opaque(in, UINT32_MAX, &len);
	v.left = len;
	if (in->bad || out->have & ~asked || out->third & ~third)
		return -EBADMSG;
	for (unsigned int i = 0; i < 64 && !r; i++)
		if (out->have & NFS4_BIT(i))
			r = get_value(&v, &values[i], out);
	if (out->third & ~NFS4_THIRD(FATTR4_XATTR_SUPPORT))
		return -EBADMSG; /* we ask for no other there */
	if (out->third)
		out->xattr_support = nfs4_get32(&v);
	return v.bad || v.left ? -EBADMSG : r;
}

/* ---- attributes ---- */

bool nfs4_name_ids(const struct smb_idmap *ids, struct nfs4_attrs *a)
{
	if (a->owner.data && smb_idmap_name(ids, false, a->owner.data, a->owner.len, &a->uid))
		a->owner.data = NULL;
	if (a->group.data && smb_idmap_name(ids, true, a->group.data, a->group.len, &a->gid))
		a->group.data = NULL;
	return !a->owner.data && !a->group.data;
}

static const struct {
	enum nfs4_attribute which;
	const char *name;
} needed[] = {
	{ FATTR4_TYPE, "type" },	  { FATTR4_SIZE, "size" },
	{ FATTR4_FSID, "file system" },	  { FATTR4_FILEID, "file id" },
	{ FATTR4_MODE, "mode" },	  { FATTR4_NUMLINKS, "number of links" },
	{ FATTR4_OWNER, "owner" },	  { FATTR4_OWNER_GROUP, "group" },
	{ FATTR4_TIME_MODIFY, "modification time" },
};

/* Of what was @asked for. */
static bool is_complete(const struct nfs4_attrs *from, uint64_t asked, const char **why)
{
	*why = NULL;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (from->have & NFS4_BIT(needed[i].which) ||
		    !(asked & NFS4_BIT(needed[i].which)))
			continue;
		*why = needed[i].name;
		return false;
	}
	if (from->owner.data || from->group.data)
		*why = "owner's number";
	else if (!nfs_type(from->type))
		*why = "type that NFS has";
	return !*why;
}

static void take_version(const struct nfs4_attrs *from, struct stub_attr *out)
{
	memset(out, 0, sizeof(*out));
	out->mode = nfs_type(from->type);
	out->size = from->size;
	out->fsid = from->fsid;
	out->fileid = from->fileid;
	out->mtime = from->mtime;
	out->ctime = from->have & NFS4_BIT(FATTR4_TIME_METADATA) ? from->ctime : from->mtime;
}

int nfs4_attr_version(const struct nfs4_attrs *from, struct stub_attr *out)
{
	const char *why;

	take_version(from, out);
	return is_complete(from, NFS4_OF_VERSION, &why) ? 0 : -EBADMSG;
}

int nfs4_attr(const struct nfs4_attrs *from, struct stub_attr *out, const char **why)
{
	take_version(from, out);
	if (!is_complete(from, nfs4_of_objects, why))
		return -EBADMSG;
	out->mode |= from->mode & 07777;
	out->nlink = from->numlinks;
	out->uid = from->uid;
	out->gid = from->gid;
	out->used = from->space_used;
	if (from->type == NF3BLK || from->type == NF3CHR) {
		out->rdev_major = from->rdev_major;
		out->rdev_minor = from->rdev_minor;
	}
	out->atime = from->have & NFS4_BIT(FATTR4_TIME_ACCESS) ? from->atime : from->mtime;
	return 0;
}
