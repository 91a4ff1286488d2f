/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * unnamed.c - files without a name until they are complete, and names that replace none.
 *
 * CephFS has neither O_TMPFILE nor RENAME_NOREPLACE.  There a file has a name in staging/ first,
 * which it is renamed from: not linked and unlinked, after which the MDS has to bring the inode back
 * from where it keeps what lost its first name, and which a crash may leave with two.  The name is
 * looked for before.  That is safe in a directory whose record is locked: clients' operations are
 * brackets there (change.c), and whoever makes names has that lock too.  What is made elsewhere, and
 * seldom, is linked and unlinked; a crash in between leaves a second name in staging/, which is
 * emptied before the retriever serves.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "internal.h"

#define CEPH_MAGIC 0x00c36400 /* CEPH_SUPER_MAGIC, which no header has */
#define TRIES	   16

#define SLOT_MAX  128 /* bytes of the largest slot */
#define SLOTS_MAX ((uint64_t)INT64_MAX / SLOT_MAX)
#define CEPH_SLOTS_MAX ((UINT64_C(1) << 40) / SLOT_MAX) /* in max_file_size, as it is by default */
#define RANK_BITS 40 /* the inode numbers of MDS rank N begin at (N + 1) << 40 */
#define RANKS	  7 /* 0 is that of the root and of what is the MDS's own */

int stub_only_named(int fd, bool *only)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	*only = fs.f_type == CEPH_MAGIC;
	return 0;
}

uint64_t stub_slot(bool only_named, uint64_t ino)
{
	uint64_t rank = ino >> RANK_BITS, i = ino & ((UINT64_C(1) << RANK_BITS) - 1);

	if (!only_named)
		return ino < SLOTS_MAX ? ino : 0;
	return rank <= RANKS && i < CEPH_SLOTS_MAX / (RANKS + 1) ? i * (RANKS + 1) + rank : 0;
}

/* An empty file under a name of its own in the directory @dir_fd. */
static int make_named(int dir_fd, char name[STUB_UNNAMED_NAME])
{
	int fd = -1;
	uint64_t n;

	for (int i = 0; i < TRIES && fd < 0; i++) {
		if (getrandom(&n, sizeof(n), 0) != sizeof(n))
			return -EIO;
		snprintf(name, STUB_UNNAMED_NAME, "u%016" PRIx64, n);
		fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd < 0 ? -errno : fd;
}

static int make_unnamed(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int stub_unnamed_open(const struct stub_volume *v, int dir_fd, struct stub_unnamed *u)
{
	u->fd = v->only_named ? make_named(v->staging_fd, u->name) : make_unnamed(dir_fd);
	if (u->fd < 0 || !v->only_named)
		u->name[0] = '\0';
	return u->fd < 0 ? u->fd : 0;
}

int stub_unnamed_name(const struct stub_volume *v, struct stub_unnamed *u, int dir_fd, const char *name)
{
	char self[32];

	if (u->name[0]) {
		if (linkat(v->staging_fd, u->name, dir_fd, name, 0) < 0)
			return -errno;
		unlinkat(v->staging_fd, u->name, 0);
		u->name[0] = '\0';
		return 0;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", u->fd);
	return linkat(AT_FDCWD, self, dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

int stub_unnamed_number(const struct stub_volume *v, struct stub_unnamed *u, int dir_fd, char *name,
			size_t size)
{
	int r = -EEXIST;

	for (unsigned int i = 0; r == -EEXIST; i++) {
		snprintf(name, size, "%d-%u", (int)getpid(), i);
		r = stub_unnamed_name(v, u, dir_fd, name);
	}
	return r;
}

void stub_unnamed_drop(const struct stub_volume *v, struct stub_unnamed *u)
{
	if (u->name[0])
		unlinkat(v->staging_fd, u->name, 0);
	u->name[0] = '\0';
	stub_cleanup_close(&u->fd);
	u->fd = -1;
}

int stub_scratch(int dir_fd)
{
	char name[STUB_UNNAMED_NAME];
	bool only_named = false;
	int r = stub_only_named(dir_fd, &only_named);

	if (r < 0 || !only_named)
		return r < 0 ? r : make_unnamed(dir_fd);
	r = make_named(dir_fd, name);
	if (r >= 0)
		unlinkat(dir_fd, name, 0);
	return r;
}

int stub_rename_new(int from_fd, const char *from, int to_fd, const char *to, bool only_named)
{
	struct stat st;

	if (!only_named)
		return renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
	if (fstatat(to_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	if (errno != ENOENT)
		return -errno;
	return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}
