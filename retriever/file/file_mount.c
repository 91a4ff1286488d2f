// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_mount.c - the source's root, open: is it the one that the migration began with?
 *
 * A path names whatever is there.  So the root is known by its file system (the UUID where that
 * has one) and by its inode number, which init has written down; what else is there is no source,
 * least of all the empty directory below a mount point.  The numbers of disks change from boot to
 * boot and are not asked.
 *
 * While it is open the file system cannot be unmounted but lazily, and then goes on working; that
 * the path leads elsewhere is noticed by the mount's number.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "file/file.h"

static uint64_t hash(const char *text)
{
	uint64_t x = 14695981039346656037u; /* FNV-1a; volumes hold it: it must not change */

	for (; *text; text++)
		x = (x ^ (uint8_t)*text) * 1099511628211u;
	return x;
}

static int __attribute__((format(printf, 4, 5)))
fail(char *why, size_t size, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return error;
}

/* What names the file system over reboots, as a number. */
static int fsid_of(int fd, uint64_t *out)
{
	char name[STUB_FILE_SYSTEM_MAX + 20];
	size_t len;
	struct statfs fs;
	int r = stub_file_system(fd, name);

	if (r < 0)
		return r;
	len = strlen(name);
	if (name[len - 1] == ':') { /* only its type: as statfs tells them apart */
		if (fstatfs(fd, &fs) < 0)
			return -errno;
		if (!fs.f_fsid.__val[0] && !fs.f_fsid.__val[1])
			return -EOPNOTSUPP;
		snprintf(name + len, sizeof(name) - len, "%08x%08x",
			 (unsigned int)fs.f_fsid.__val[0], (unsigned int)fs.f_fsid.__val[1]);
	}
	*out = hash(name);
	return 0;
}

static int mount_id(int fd, const char *path, int flags, struct statx *out)
{
	if (statx(fd, path, flags, STATX_BASIC_STATS | STATX_MNT_ID, out) < 0)
		return -errno;
	return 0;
}

/* Fill @m, whose fd is open. */
static int identify(struct file_mount *m, const char *path, char *why, size_t size)
{
	struct statx x;
	struct stat st;
	int r = fsid_of(m->fd, &m->fsid);

	if (r == 0)
		r = file_origin(m->fd, &m->root);
	if (r == -EOPNOTSUPP)
		return fail(
			why, size, -EPROTO,
			"%.100s: its file system has no file handles, or no identity of its own: it "
			"cannot be a source; export it over NFS instead",
			path);
	if (r == 0)
		r = mount_id(m->fd, "", AT_EMPTY_PATH, &x);
	if (r == 0 && fstat(m->fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return fail(why, size, file_errno(-r), "%.100s: %s", path, strerror(-r));
	m->mnt_id = x.stx_mnt_id;
	m->dev = st.st_dev;
	file_attr(&st, m->fsid, &m->attr);
	r = file_xattr_look(m->fd, &m->attr);
	return r ? fail(why, size, -EPROTO,
			"%.100s belongs to a volume of postcopy that is not complete", path) :
		   0;
}

static int check(const struct file_mount *m, const char *path, const struct source_id *as,
		 char *why, size_t size)
{
	int r = file_disk_answers(m->dev);

	if (r < 0)
		return fail(why, size, -EIO, "%.100s: its disk does not answer: %s", path,
			    strerror(-r));
	if (!as || (as->fsid == m->fsid && as->fileid == m->attr.fileid))
		return 0;
	return fail(
		why, size, -ENOENT,
		as->fsid == m->fsid ?
			"%.100s is another directory (inode %" PRIu64 ") than when the migration "
			"began: is something else mounted there?" :
			"%.100s is not on the file system that the migration began with: is that "
			"not mounted?",
		path, m->attr.fileid);
}

int file_mount_open(const char *path, const struct source_id *as, struct file_mount **out,
		    char *why, size_t size)
{
	struct file_mount *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return fail(why, size, -ENOMEM, "out of memory");
	m->refs = 1;
	m->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | O_NOATIME);
	if (m->fd < 0) {
		r = errno == ENOTDIR ? -ENOENT : file_errno(errno);
		fail(why, size, 0, "%.100s: %s", path, strerror(errno));
		free(m);
		return r;
	}
	r = identify(m, path, why, size);
	if (r == 0)
		r = check(m, path, as, why, size);
	if (r < 0) {
		file_mount_close(m);
		return r;
	}
	*out = m;
	return 0;
}

int file_mount_look(const struct file_mount *m, const char *path, bool deep, char *why, size_t size)
{
	struct statx x;
	int r = mount_id(m->fd, "", AT_EMPTY_PATH, &x);

	if (r < 0)
		return fail(why, size, r, "%.100s: its file system fails: %s", path, strerror(-r));
	r = mount_id(AT_FDCWD, path, 0, &x);
	if (r < 0)
		return fail(why, size, r, "%.100s: %s", path, strerror(-r));
	if (x.stx_mnt_id != m->mnt_id || x.stx_ino != m->attr.fileid)
		return fail(why, size, -ENOENT,
			    "%.100s: it was unmounted, or something was mounted "
			    "there",
			    path);
	r = deep ? file_disk_answers(m->dev) : 0;
	return r < 0 ? fail(why, size, r, "%.100s: its disk does not answer: %s", path,
			    strerror(-r)) :
		       0;
}

void file_mount_close(struct file_mount *m)
{
	if (!m)
		return;
	close(m->fd);
	free(m);
}
