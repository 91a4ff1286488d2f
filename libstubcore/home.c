/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * home.c - a volume is at home in the file system and the directory that it was made in,
 * and works nowhere else (docs/decisions/0027).
 *
 * All that it knows is bound to inodes: records, the journal's handles, provisional files.
 * In a copy made file by file, stubs are files of zeros, and the journal's handles name none
 * of them.  So volume.conf says where the volume was made, and opening it elsewhere fails:
 *
 *   home=<file system> <inode number of the root> <type>:<handle of the root in hex>
 *
 * The file system is named by its UUID where every kernel gives that (XFS), else by the fsid
 * that statfs(2) makes of it (ext4, btrfs).  The handle has the generation, so a root that
 * was made anew under the same inode number is another one.
 *
 * A copy of the whole file system, block by block, is the same volume: its inodes are the
 * same.  Two such copies on one machine have the same socket: so a retriever holds a lock in
 * the volume that it serves, and who asks looks for that lock (SERVE_LOCK).
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include "volume.h"

#define MAGIC_XFS   0x58465342
#define MAGIC_EXT4  0xef53
#define MAGIC_BTRFS 0x9123683e

/* Byte of .postcopy/lock, beside those of enter.c: held by the retriever that serves. */
#define SERVE_LOCK (INT64_MAX - 3)

/* XFS_IOC_FSGEOMETRY_V1; its header comes with xfslibs-dev, which we do not need else. */
struct xfs_geometry {
	uint32_t sizes[8];
	uint64_t blocks[4];
	uint8_t uuid[16];
	uint32_t rest[7];
};

static void hex(const uint8_t *p, size_t n, char *out)
{
	*out = '\0';
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", p[i]);
}

STUB_PUBLIC int stub_file_system(int fd, char out[STUB_FILE_SYSTEM_MAX])
{
	struct xfs_geometry g = { .sizes = { 0 } };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	switch ((unsigned long)fs.f_type) {
	case MAGIC_XFS:
		if (ioctl(fd, _IOR('X', 100, struct xfs_geometry), &g) < 0)
			return -errno;
		strcpy(out, "xfs:");
		hex(g.uuid, sizeof(g.uuid), out + 4);
		return 0;
	case MAGIC_EXT4:
	case MAGIC_BTRFS:
		snprintf(out, 64, "%s:%08x%08x", fs.f_type == MAGIC_EXT4 ? "ext4" : "btrfs",
			 (unsigned int)fs.f_fsid.__val[0], (unsigned int)fs.f_fsid.__val[1]);
		return 0;
	default: /* file systems of this type are told apart only by their roots' handles */
		snprintf(out, 64, "%lx:", (unsigned long)fs.f_type);
		return 0;
	}
}

int stub_home_of(int fd, char out[STUB_HOME_MAX + 1])
{
	char bytes[2 * STUB_HANDLE_MAX + 1], where[STUB_FILE_SYSTEM_MAX];
	struct stub_handle h;
	struct stat st;
	int r = stub_file_system(fd, where);

	if (r == 0)
		r = stub_handle_of_fd(fd, &h);
	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	hex(h.bytes, h.len, bytes);
	snprintf(out, STUB_HOME_MAX + 1, "%s %llu %d:%s", where, (unsigned long long)st.st_ino,
		 (int)h.type, bytes);
	return 0;
}

/* Is the root the same, whatever the file system's UUID? */
static bool same_root(const char *a, const char *b)
{
	const char *x = strchr(a, ' '), *y = strchr(b, ' ');

	return x && y && !strcmp(x, y);
}

int stub_home_check(const struct stub_volume *v)
{
	char now[STUB_HOME_MAX + 1];
	int r;

	if (!v->info.home[0]) /* made by an early release: stub_volume_settle() */
		return 0;
	r = stub_home_of(v->fd, now);
	if (r < 0 || !strcmp(now, v->info.home))
		return r;
	if (same_root(now, v->info.home))
		stub_log(&v->log, STUB_LOG_ERROR,
			 "the volume's file system has another UUID than when the volume was made: if "
			 "it is the only copy that is used, run 'postcopy moved'");
	else
		stub_log(&v->log, STUB_LOG_ERROR,
			 "the volume was made in another directory or file system, this is a copy of "
			 "its files, without what they miss: use the volume itself (\"Moving a volume\" "
			 "in postcopy(8))");
	return -EXDEV;
}

/*
 * Is anything of what the journal names here, and still its own stub?  1, 0, -errno.  Where the
 * volume's root is known to be the same, one that has all come will do: its handle, which has the
 * inode's generation, opens, and entries may stay a moment longer than records.
 */
static int journal_is_here(struct stub_volume *v, struct stub_journal *j)
{
	struct stub_journal_cursor at = { 0 };
	struct stub_journal_entry *e CLEANUP_FREE = calloc(256, sizeof(*e));
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	bool any = false;
	struct stat st;
	int n;

	if (!e || !rec)
		return -ENOMEM;
	while ((n = stub_journal_next(j, &at, true, e, 256)) > 0) {
		for (int i = 0; i < n; i++) {
			int r = stub_record_load_at(v, &e[i].h, &st, rec);

			if (r == 0 || (r == -ENOENT && v->info.home[0]))
				return 1;
		}
		any = true;
	}
	return n < 0 ? n : !any;
}

STUB_PUBLIC int stub_volume_settle(struct stub_volume *v, struct stub_journal *j)
{
	char now[STUB_HOME_MAX + 1];
	int r = stub_home_of(v->fd, now), learned = stub_active_learn(v->fd, &v->info);

	if (r < 0 || learned < 0)
		return r < 0 ? r : learned;
	if (!strcmp(now, v->info.home))
		return learned ? stub_conf_write(v->fd, v->dir_fd, &v->info) : 0;
	if (v->info.home[0] && !same_root(now, v->info.home))
		return -EXDEV;
	r = journal_is_here(v, j);
	if (r <= 0) {
		if (r == 0)
			stub_log(&v->log, STUB_LOG_ERROR,
				 "nothing of what the pending journal names is here: this is a copy "
				 "of a volume");
		return r < 0 ? r : -EXDEV;
	}
	strcpy(v->info.home, now);
	return stub_conf_write(v->fd, v->dir_fd, &v->info);
}

/* ---- who serves ---- */

static struct flock serve_lock(short type)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = SERVE_LOCK,
		.l_len = 1,
	};
}

int stub_home_serve(const struct stub_volume *v)
{
	/* not v->lock_fd: a lock on that one this process would not see when it asks itself */
	int fd CLEANUP_CLOSE = openat(v->dir_fd, STUB_LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct flock f = serve_lock(F_WRLCK);

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &f) < 0)
		return errno == EAGAIN || errno == EACCES ? -EADDRINUSE : -errno;
	return stub_steal_fd(&fd);
}

bool stub_home_served(const struct stub_volume *v)
{
	struct flock f = serve_lock(F_WRLCK);

	return fcntl(v->lock_fd, F_OFD_GETLK, &f) == 0 && f.l_type != F_UNLCK;
}
