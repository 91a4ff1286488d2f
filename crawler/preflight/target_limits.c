/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * target_limits.c - what fits into the target's file system.
 *
 * There is no call for most of it. What is said here of XFS, ext4 and btrfs is what
 * the kernel does with the geometry that they show.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preflight/preflight.h"

#define SECONDS_1901 (-(INT64_C(1) << 31))
#define SECONDS_2038 ((INT64_C(1) << 31) - 1)
#define SECONDS_2446 ((INT64_C(1) << 34) + SECONDS_1901 - 1) /* ext4: two more bits */
#define SECONDS_2486 INT64_C(16299260424) /* XFS bigtime: 64 bits of ns since 1901 */

#ifndef FS_CASEFOLD_FL
#define FS_CASEFOLD_FL 0x40000000
#endif

/* XFS_IOC_FSGEOMETRY_V1; its header comes with xfslibs-dev, which we do not need else. */
struct xfs_geometry {
	uint32_t blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, inodesize, imaxpct;
	uint64_t blocks[4];
	uint8_t uuid[16];
	uint32_t sunit, swidth, version, flags, logsectsize, rtsectsize, dirblocksize;
};

#define XFS_FLAG_FOLDS	 (1u << 12) /* XFS_FSOP_GEOM_FLAGS_DIRV2CI */
#define XFS_FLAG_BIGTIME (1u << 21) /* XFS_FSOP_GEOM_FLAGS_BIGTIME */

static void xfs_limits(int fd, dev_t dev, struct target_limits *out)
{
	struct xfs_geometry g = { 0 };

	(void)dev;
	out->symlink_max = 1023;
	out->file_max = INT64_MAX;
	out->time_unit = 1;
	out->major_max = 0x1ff;
	out->minor_max = 0x3ffff;
	if (ioctl(fd, _IOR('X', 100, struct xfs_geometry), &g) < 0)
		return;
	out->inode_size = g.inodesize;
	out->times_known = true;
	out->time_min = SECONDS_1901;
	out->time_max = g.flags & XFS_FLAG_BIGTIME ? SECONDS_2486 : SECONDS_2038;
	out->folds = g.flags & XFS_FLAG_FOLDS;
}

/* The super block on the device. */
static bool ext4_super(dev_t dev, uint8_t super[1024])
{
	char path[64], link[PATH_MAX], device[PATH_MAX + 8];
	char *name;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return false;
	link[n] = '\0';
	name = strrchr(link, '/');
	snprintf(device, sizeof(device), "/dev/%s", name ? name + 1 : link);
	fd = open(device, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = pread(fd, super, 1024, 1024);
	close(fd);
	return n == 1024 && super[56] == 0x53 && super[57] == 0xef;
}

static void ext4_limits(int fd, dev_t dev, struct target_limits *out)
{
	uint8_t super[1024];
	struct statvfs fs;

	if (fstatvfs(fd, &fs) < 0)
		return;
	/* with its NUL it fits one block, and the kernel's longest path */
	out->symlink_max = (uint32_t)(fs.f_bsize < PATH_MAX ? fs.f_bsize : PATH_MAX) - 1;
	if (!ext4_super(dev, super))
		return;
	out->inode_size = (uint32_t)super[88] | (uint32_t)super[89] << 8;
	if (!(super[0x61] & 0x04)) /* not ea_inode: one block, beside what the inode has room for */
		out->xattrs_max = (uint32_t)fs.f_bsize;
	if (super[0x60] & 0x40) /* extents: block numbers within a file have 32 bits */
		out->file_max = (uint64_t)UINT32_MAX * fs.f_bsize;
	out->times_known = true;
	out->time_min = SECONDS_1901;
	out->time_max = out->inode_size > 128 ? SECONDS_2446 : SECONDS_2038;
	out->time_unit = out->inode_size > 128 ? 1 : 1000000000;
}

static void btrfs_limits(int fd, dev_t dev, struct target_limits *out)
{
	(void)fd;
	(void)dev;
	out->file_max = INT64_MAX;
	out->times_known = true;
	out->time_min = INT64_MIN;
	out->time_max = INT64_MAX;
	out->time_unit = 1;
}

static const struct {
	const char *fstype;
	void (*read)(int fd, dev_t dev, struct target_limits *out);
} readers[] = {
	{ "xfs", xfs_limits },
	{ "ext4", ext4_limits },
	{ "btrfs", btrfs_limits },
};

static bool has_xattr(int fd, const char *name)
{
	return fgetxattr(fd, name, NULL, 0) >= 0 || errno == ENODATA;
}

void target_limits(int fd, const char *fstype, dev_t dev, struct target_limits *out)
{
	long n;
	int flags;

	memset(out, 0, sizeof(*out));
	out->major_max = TARGET_MAJOR_MAX;
	out->minor_max = TARGET_MINOR_MAX;
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		if (!strcmp(readers[i].fstype, fstype))
			readers[i].read(fd, dev, out);
	}
	n = fpathconf(fd, _PC_NAME_MAX);
	out->name_max = n > 0 ? (uint32_t)n : 0;
	n = fpathconf(fd, _PC_LINK_MAX);
	out->link_max = n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
	out->acl = has_xattr(fd, "system.posix_acl_default");
	out->user_xattrs = has_xattr(fd, "user.postcopy");
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_CASEFOLD_FL)
		out->folds = true;
}
