/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_limits.c - how much a file system keeps in extended attributes: tried out.
 *
 * XFS takes any number of values of up to 64 KiB; btrfs values that fit in a tree node; ext4
 * all attributes of a file together in a 4 KiB block, or with ea_inode in files.  That
 * depends on how the file system was made, and no call tells.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "windows/smb_meta.h"

#define FIRST  "user.postcopy.probe1"
#define SECOND "user.postcopy.probe2"

static bool too_large(int error)
{
	return error == E2BIG || error == ENOSPC || error == ERANGE;
}

/* The largest value, between 0 and SMB_XATTR_MAX. */
static int largest(int fd, const char *bytes, size_t *out)
{
	size_t low = 0, high = SMB_XATTR_MAX;

	while (low < high) {
		size_t mid = low + (high - low + 1) / 2;

		if (fsetxattr(fd, FIRST, bytes, mid, 0) == 0)
			low = mid;
		else if (too_large(errno))
			high = mid - 1;
		else
			return -errno;
	}
	*out = low;
	return low ? 0 : -ENOSPC;
}

/* Is there room for more beside it? */
static int alone(int fd, const char *bytes, size_t value, bool *out)
{
	if (fsetxattr(fd, FIRST, bytes, value, 0) < 0)
		return -errno;
	*out = fsetxattr(fd, SECOND, bytes, value, 0) < 0;
	return *out && !too_large(errno) ? -errno : 0;
}

int smb_limits_probe(int dirfd, struct smb_limits *out)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), r;
	char *bytes = calloc(1, SMB_XATTR_MAX);
	bool shared;

	if (fd < 0)
		r = -errno;
	else
		r = bytes ? largest(fd, bytes, &out->value) : -ENOMEM;
	if (r == 0)
		r = alone(fd, bytes, out->value, &shared);
	if (r == 0)
		out->all = shared ? out->value : 0;
	free(bytes);
	if (fd >= 0)
		close(fd);
	return r;
}
