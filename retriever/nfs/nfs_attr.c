// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs_attr.c - NFSv3's codes and attributes (RFC 1813) into ours. */
#include <errno.h>
#include <string.h>

#include "nfs/nfs.h"

/* Only what source.h lists leaves here, and of calls that change something what target.h does. */
static const struct {
	uint32_t status;
	int error, change;
} errors[] = {
	{ NFS3_OK, 0, 0 },
	{ NFS3ERR_PERM, -EACCES, -EPERM },
	{ NFS3ERR_NOENT, -ENOENT, -ENOENT },
	{ NFS3ERR_IO, -EIO, -EIO },
	{ NFS3ERR_ACCES, -EACCES, -EACCES },
	{ NFS3ERR_EXIST, -EIO, -EEXIST },
	{ NFS3ERR_XDEV, -EIO, -EXDEV },
	{ NFS3ERR_NOTDIR, -ENOTDIR, -ENOTDIR },
	{ NFS3ERR_ISDIR, -EIO, -EISDIR },
	{ NFS3ERR_INVAL, -EIO, -EINVAL },
	{ NFS3ERR_FBIG, -EIO, -EFBIG },
	{ NFS3ERR_NOSPC, -EIO, -ENOSPC },
	{ NFS3ERR_ROFS, -EIO, -EROFS },
	{ NFS3ERR_MLINK, -EIO, -EMLINK },
	{ NFS3ERR_NAMETOOLONG, -ENAMETOOLONG, -ENAMETOOLONG },
	{ NFS3ERR_NOTEMPTY, -EIO, -ENOTEMPTY },
	{ NFS3ERR_DQUOT, -EIO, -EDQUOT },
	{ NFS3ERR_STALE, -ESTALE, -ESTALE },
	{ NFS3ERR_BADHANDLE, -ESTALE, -ESTALE },
	{ NFS3ERR_NOT_SYNC, -EIO, -EBADMSG }, /* no call of ours has a guard */
	{ NFS3ERR_NOTSUPP, -EIO, -EOPNOTSUPP },
	{ NFS3ERR_BADTYPE, -EIO, -EOPNOTSUPP },
	{ NFS3ERR_JUKEBOX, -EAGAIN, -EAGAIN },
};

#define UNKNOWN (sizeof(errors) / sizeof(errors[0]))

static size_t find(uint32_t status)
{
	size_t i = 0;

	while (i < UNKNOWN && errors[i].status != status)
		i++;
	return i;
}

int nfs_errno(uint32_t status)
{
	size_t i = find(status);

	return i < UNKNOWN ? errors[i].error : -EIO;
}

int nfs_change_errno(uint32_t status)
{
	size_t i = find(status);

	return i < UNKNOWN ? errors[i].change : -EIO;
}

static const uint32_t types[] = {
	[NF3REG] = S_IFREG, [NF3DIR] = S_IFDIR,	  [NF3BLK] = S_IFBLK,  [NF3CHR] = S_IFCHR,
	[NF3LNK] = S_IFLNK, [NF3SOCK] = S_IFSOCK, [NF3FIFO] = S_IFIFO,
};

uint32_t nfs_type(uint32_t type)
{
	return type < sizeof(types) / sizeof(types[0]) ? types[type] : 0;
}

/* Seconds are unsigned (RFC 1813 section 2.5), but many servers send the lower half of a
 * signed number: what is beyond INT32_MAX is a time after 2038, or one from 1901 to 1969.
 * It is taken as the protocol says, as Linux clients of that server showed it, and marked
 * as unsure. */
static int get_time(const struct nfstime3 *from, struct timespec *out)
{
	if (from->nseconds > 999999999)
		return -EBADMSG;
	out->tv_sec = (time_t)from->seconds;
	out->tv_nsec = (long)from->nseconds;
	return 0;
}

int nfs_attr(const struct fattr3 *from, struct stub_attr *out)
{
	uint32_t type = (uint32_t)from->type;

	memset(out, 0, sizeof(*out));
	if (!nfs_type(type))
		return -EBADMSG;
	out->mode = nfs_type(type) | (from->mode & 07777);
	out->nlink = from->nlink;
	out->uid = from->uid;
	out->gid = from->gid;
	out->size = from->size;
	out->used = from->used;
	out->fsid = from->fsid;
	out->fileid = from->fileid;
	if (type == NF3BLK || type == NF3CHR) {
		out->rdev_major = from->rdev.specdata1;
		out->rdev_minor = from->rdev.specdata2;
	}
	if (get_time(&from->atime, &out->atime) || get_time(&from->mtime, &out->mtime) ||
	    get_time(&from->ctime, &out->ctime))
		return -EBADMSG;
	out->time_unsure = out->atime.tv_sec > INT32_MAX || out->mtime.tv_sec > INT32_MAX;
	return 0;
}

int nfs_origin(const struct nfs_fh3 *from, struct stub_origin *out)
{
	memset(out, 0, sizeof(*out));
	if (from->data.data_len < 1 || from->data.data_len > NFS3_FHSIZE)
		return -EBADMSG;
	out->len = (uint16_t)from->data.data_len;
	memcpy(out->bytes, from->data.data_val, out->len);
	return 0;
}

int nfs_post_attr(const struct post_op_attr *from, bool *have, struct stub_attr *out)
{
	*have = from->attributes_follow;
	if (!*have) {
		memset(out, 0, sizeof(*out));
		return 0;
	}
	return nfs_attr(&from->post_op_attr_u.attributes, out);
}
