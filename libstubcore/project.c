/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * project.c - project ids (XFS, ext4), by which directory trees have quotas.
 *
 * What is made in a directory that hands its project on (chattr +P) belongs to that project,
 * and so do directories made in there.  linkat() and rename() into such a directory take
 * nothing of another project: EXDEV.  We make inodes elsewhere, in .postcopy/staging, so
 * they are made below a directory there that hands on the same project:
 *
 *   staging/.p5     hands on project 5; nothing else is ever in it than what is staged
 *
 * That works for every type, and gives what would be there if the inode had been made in
 * its directory.  What hands nothing on takes whatever comes, so staging itself and
 * provisional must not, or their project would stay on what is moved out of them.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "internal.h"

/* 1: the directory hands a project on, which is in *id; 0: not; -errno. */
static int handed_on(int fd, uint32_t *id)
{
	struct fsxattr x;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return errno == ENOTTY || errno == EOPNOTSUPP || errno == EINVAL ? 0 : -errno;
	*id = x.fsx_projid;
	return (x.fsx_xflags & FS_XFLAG_PROJINHERIT) != 0;
}

static int set(int fd, uint32_t id, bool inherit)
{
	struct fsxattr x;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return -errno;
	x.fsx_projid = id;
	x.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
	x.fsx_xflags |= inherit ? FS_XFLAG_PROJINHERIT : 0;
	return ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0 ? -errno : 0;
}

int stub_project_none(int fd)
{
	uint32_t id = 0;
	int r = handed_on(fd, &id);

	return r > 0 ? set(fd, 0, false) : r;
}

/* It gets its name when it hands that project on. */
static int make(struct stub_volume *v, uint32_t id, const char *name)
{
	char new[32];
	int r, fd CLEANUP_CLOSE = -1;

	snprintf(new, sizeof(new), ".n%" PRIu64, (uint64_t)atomic_fetch_add(&v->staged, 1));
	if (mkdirat(v->staging_fd, new, 0700) < 0)
		return -errno;
	fd = openat(v->staging_fd, new, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = fd < 0 ? -errno : set(fd, id, true);
	if (r == 0 && renameat2(v->staging_fd, new, v->staging_fd, name, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(v->staging_fd, new, AT_REMOVEDIR);
	return r == -EEXIST ? 0 : r;
}

int stub_project_staging(struct stub_volume *v, int dir_fd, char out[STUB_PROJECT_NAME])
{
	struct stat st;
	uint32_t id = 0;
	int r = handed_on(dir_fd, &id);

	strcpy(out, ".");
	if (r < 0)
		return r;
	if (r == 0) /* somebody may have set it for the whole volume */
		return stub_project_none(v->staging_fd);
	r = stub_project_none(v->staging_fd);
	snprintf(out, STUB_PROJECT_NAME, ".p%" PRIu32, id);
	if (r == 0 && fstatat(v->staging_fd, out, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? make(v, id, out) : -errno;
	return r;
}
