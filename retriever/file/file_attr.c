// SPDX-License-Identifier: GPL-3.0-or-later
/* file_attr.c - the kernel's errors, attributes and handles into ours. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "file/file.h"

/* Only what source.h lists leaves here. */
int file_errno(int error)
{
	switch (error) {
	case 0:
	case ENOENT:
	case ESTALE:
	case ENOTDIR:
	case EACCES:
	case ENAMETOOLONG:
	case EXDEV:
	case ENOMEM:
		return -error;
	case EPERM:
		return -EACCES;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

void file_attr(const struct stat *st, uint64_t fsid, struct stub_attr *out)
{
	*out = (struct stub_attr){
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.fsid = fsid,
		.fileid = st->st_ino,
		.atime = st->st_atim,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};
	if (S_ISBLK(st->st_mode) || S_ISCHR(st->st_mode)) {
		out->rdev_major = major(st->st_rdev);
		out->rdev_minor = minor(st->st_rdev);
	}
}

/*
 * An origin: u8 1, u32 type of the handle (little-endian), the handle.  It has the inode's
 * generation, and nothing of the directory that it was found in.
 */
#define HEAD 5

int file_origin(int fd, struct stub_origin *out)
{
	struct stub_handle h;
	int r = stub_handle_of_fd(fd, &h);

	if (r < 0)
		return r;
	out->len = (uint16_t)(HEAD + h.len);
	out->bytes[0] = 1;
	for (int i = 0; i < 4; i++)
		out->bytes[1 + i] = (uint8_t)((uint32_t)h.type >> (8 * i));
	memcpy(out->bytes + HEAD, h.bytes, h.len);
	return 0;
}

int file_open(const struct file_mount *m, const struct stub_origin *o, int flags)
{
	struct stub_handle h = { .type = 0 };
	uint32_t type = 0;
	int r;

	if (o->len <= HEAD || o->len > HEAD + STUB_HANDLE_MAX || o->bytes[0] != 1)
		return -ESTALE;
	for (int i = 0; i < 4; i++)
		type |= (uint32_t)o->bytes[1 + i] << (8 * i);
	h.type = (int32_t)type;
	h.len = (uint8_t)(o->len - HEAD);
	memcpy(h.bytes, o->bytes + HEAD, h.len);
	r = stub_handle_open_at(m->fd, &h, flags | O_CLOEXEC | O_NOFOLLOW);
	return r == -EINVAL ? -ESTALE : r < 0 ? file_errno(-r) : r;
}
