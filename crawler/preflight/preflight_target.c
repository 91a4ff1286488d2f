/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preflight_target.c - can this directory hold a volume? */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preflight/preflight.h"

#define MIB	 (UINT64_C(1) << 20)
#define ROOM_MIN (64 * MIB) /* the journal, and something to work with */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef RAMFS_MAGIC
#define RAMFS_MAGIC 0x858458f6
#endif

static const struct {
	long magic;
	const char *name;
	bool known; /* postcopy is tested on this file system */
} fstypes[] = {
	{ XFS_SUPER_MAGIC, "xfs", true },     { EXT4_SUPER_MAGIC, "ext4", true },
	{ BTRFS_SUPER_MAGIC, "btrfs", true }, { TMPFS_MAGIC, "tmpfs", false },
	{ RAMFS_MAGIC, "ramfs", false },      { OVERLAYFS_SUPER_MAGIC, "overlayfs", false },
	{ NFS_SUPER_MAGIC, "nfs", false },    { FUSE_SUPER_MAGIC, "fuse", false },
};

static int target_open(struct verdict *v, const char *dir, struct target *t)
{
	if (!realpath(dir, t->path)) {
		if (errno == ENOENT)
			return verdict_fail(v, FAIL_TARGET_MISSING,
					    "target %s does not exist: make it first", dir);
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", dir, strerror(errno));
	}
	if (stat(t->path, &t->st) < 0)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", dir, strerror(errno));
	if (!S_ISDIR(t->st.st_mode))
		return verdict_fail(v, FAIL_TARGET_NOT_DIR, "target %s is not a directory", dir);
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->fd < 0)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", dir, strerror(errno));
	return 0;
}

/* Neither a volume nor inside one. */
static int check_volume(struct verdict *v, const struct target *t)
{
	struct stub_volume *volume = NULL;
	int r;

	r = stub_volume_open(t->path, STUB_OPEN_SEARCH, NULL, NULL, &volume);
	if (r == 0)
		stub_volume_close(volume);
	if (r == 0 || r == -EPROTONOSUPPORT || r == -EBADMSG || r == -EXDEV || r == -ENOLCK)
		return verdict_fail(v, FAIL_TARGET_VOLUME,
				    "target %s is a volume already, or lies inside one: "
				    "see 'postcopy status', or choose another directory",
				    t->path);
	return 0;
}

/* Empty, but for what a broken-off init left. */
int preflight_target_empty(struct verdict *v, const struct target *t)
{
	int r, fd = openat(t->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	DIR *dir;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", t->path, strerror(errno));
	r = 0;
	while (r == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..") &&
		    strcmp(d->d_name, STUB_DIR))
			r = verdict_fail(v, FAIL_TARGET_NOT_EMPTY,
					 "target %s is not empty ('%s' is in it): choose an empty "
					 "directory, for instance a new one below it",
					 t->path, d->d_name);
	}
	closedir(dir);
	return r;
}

static int check_fstype(struct verdict *v, struct target *t)
{
	bool known = false;
	struct statfs fs;

	t->fstype = "unknown";
	if (fstatfs(t->fd, &fs) < 0)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", t->path, strerror(errno));
	for (size_t i = 0; i < sizeof(fstypes) / sizeof(fstypes[0]); i++) {
		if (fs.f_type == fstypes[i].magic) {
			t->fstype = fstypes[i].name;
			known = fstypes[i].known;
		}
	}
	if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return verdict_fail(v, FAIL_TARGET_TMPFS,
				    "target %s is on %s, which forgets everything at a restart: "
				    "use XFS or ext4",
				    t->path, t->fstype);
	if (!known)
		verdict_warn(v, "target-untested",
			     "target %s is on a file system postcopy is not tested on (%s, magic "
			     "0x%lx): use XFS or ext4",
			     t->path, t->fstype, (unsigned long)fs.f_type);
	return 0;
}

/* @xattrs: are there trusted attributes? */
static int check_identity(struct verdict *v, const struct target *t, bool xattrs)
{
	struct stub_handle h;

	if (!xattrs)
		return verdict_fail(v, FAIL_TARGET_XATTR,
				    "target %s is on %s, which has no trusted extended attributes: "
				    "use XFS or ext4",
				    t->path, t->fstype);
	if (stub_handle_of_fd(t->fd, &h) < 0)
		return verdict_fail(
			v, FAIL_TARGET_HANDLES,
			"target %s is on %s, which has no file handles: use XFS or ext4", t->path,
			t->fstype);
	return 0;
}

/* What every stub needs: an unnamed inode with a handle and a trusted xattr. */
static int check_abilities(struct verdict *v, const struct target *t)
{
	char value[64] = { 0 };
	int r, fd;

	/* to replace an attribute that is not there changes nothing; its error tells */
	r = fsetxattr(t->fd, STUB_XATTR, value, 1, XATTR_REPLACE);
	r = check_identity(v, t, r == 0 || errno != EOPNOTSUPP);
	if (r < 0)
		return r;
	fd = openat(t->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EROFS)
		return verdict_fail(v, FAIL_TARGET_READONLY,
				    "target %s is mounted read-only: mount it read-write", t->path);
	if (fd < 0 && (errno == ENOSPC || errno == EDQUOT))
		return verdict_fail(v, FAIL_TARGET_FULL, "target %s: no space left", t->path);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		return verdict_fail(v, FAIL_TARGET_TMPFILE,
				    "target %s is on %s, which has no unnamed files (O_TMPFILE): "
				    "use XFS or ext4",
				    t->path, t->fstype);
	if (fd < 0)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", t->path, strerror(errno));
	r = 0;
	if (fsetxattr(fd, STUB_XATTR, value, sizeof(value), 0) < 0)
		r = verdict_fail(v, FAIL_TARGET_XATTR,
				 "target %s is on %s, where trusted extended attributes "
				 "fail (%s): use XFS or ext4",
				 t->path, t->fstype, strerror(errno));
	close(fd);
	return r;
}

static void check_inode_size(struct verdict *v, const struct target *t)
{
	uint32_t size = t->limits.inode_size;

	if (!size || size >= 1024)
		return;
	if (!strcmp(t->fstype, "xfs"))
		verdict_warn(v, "target-inode-size",
			     "inodes of %s have %u bytes: stubs are made faster with "
			     "'mkfs.xfs -i size=1024'",
			     t->path, size);
	else if (!strcmp(t->fstype, "ext4"))
		verdict_warn(v, "target-inode-size",
			     "inodes of %s have %u bytes: each stub takes a 4 KiB block "
			     "while it lasts, less with 'mkfs.ext4 -I 1024'",
			     t->path, size);
}

static int check_room(struct verdict *v, struct target *t)
{
	struct statvfs fs;

	if (fstatvfs(t->fd, &fs) < 0)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", t->path, strerror(errno));
	t->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	t->free_inodes = fs.f_favail;
	if (t->free_bytes < ROOM_MIN)
		return verdict_fail(v, FAIL_TARGET_FULL,
				    "target %s has %llu MiB free, at least %llu MiB are needed",
				    t->path, (unsigned long long)(t->free_bytes / MIB),
				    (unsigned long long)(ROOM_MIN / MIB));
	return 0;
}

/* Names that differ in case would become one file, and .postcopy could be reached by a name
 * that no plugin hides. */
static int folds(struct verdict *v, const struct target *t)
{
	return verdict_fail(v, FAIL_TARGET_FOLDS,
			    "target %s takes names that differ in case only for one: choose a "
			    "directory without that (on ext4 one that 'chattr -F' was used on while "
			    "empty, on XFS a file system made without '-n version=ci')",
			    t->path);
}

int preflight_target_case(struct verdict *v, const struct target *t)
{
	static const char other[] = ".POSTCOPY";
	struct stat one, two;
	bool made, same;

	made = mkdirat(t->fd, STUB_DIR, 0700) == 0;
	if (!made && errno != EEXIST)
		return verdict_fail(v, FAIL_TARGET, "target %s: %s", t->path, strerror(errno));
	same = fstatat(t->fd, STUB_DIR, &one, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(t->fd, other, &two, AT_SYMLINK_NOFOLLOW) == 0 && one.st_ino == two.st_ino;
	if (made)
		unlinkat(t->fd, STUB_DIR, AT_REMOVEDIR);
	return same ? folds(v, t) : 0;
}

int preflight_target(struct verdict *v, const char *dir, struct target *t)
{
	memset(t, 0, sizeof(*t));
	t->fd = -1;
	if (target_open(v, dir, t) < 0 || check_fstype(v, t) < 0 || check_volume(v, t) < 0 ||
	    check_abilities(v, t) < 0 || check_room(v, t) < 0) {
		target_close(t);
		return -1;
	}
	target_limits(t->fd, t->fstype, t->st.st_dev, &t->limits);
	check_inode_size(v, t);
	if (t->limits.folds) {
		folds(v, t);
		target_close(t);
		return -1;
	}
	return 0;
}

/* What init would refuse, as far as it can be seen without writing anything. */
static int look_abilities(struct verdict *v, const struct target *t)
{
	return check_identity(v, t, fgetxattr(t->fd, STUB_XATTR, NULL, 0) >= 0 ||
					    errno != EOPNOTSUPP);
}

int preflight_target_look(struct verdict *v, const char *dir, struct target *t)
{
	struct statvfs fs;

	memset(t, 0, sizeof(*t));
	t->fd = -1;
	if (target_open(v, dir, t) < 0 || check_fstype(v, t) < 0 || check_volume(v, t) < 0 ||
	    look_abilities(v, t) < 0) {
		target_close(t);
		return -1;
	}
	target_limits(t->fd, t->fstype, t->st.st_dev, &t->limits);
	check_inode_size(v, t);
	if (fstatvfs(t->fd, &fs) == 0) {
		t->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		t->free_inodes = fs.f_favail;
		if (fs.f_flag & ST_RDONLY)
			verdict_warn(v, "target-read-only",
				     "target %s is mounted read-only: init will want it writable",
				     t->path);
		if (t->limits.folds)
			verdict_warn(v, "target-folds-case",
				     "target %s takes names that differ in case only for one: "
				     "init will refuse it",
				     t->path);
		if (t->free_bytes < ROOM_MIN)
			verdict_warn(v, "target-no-space",
				     "target %s has %llu MiB free: init will want %llu", t->path,
				     (unsigned long long)(t->free_bytes / MIB),
				     (unsigned long long)(ROOM_MIN / MIB));
	}
	return 0;
}

void target_close(struct target *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}
