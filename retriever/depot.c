// SPDX-License-Identifier: GPL-3.0-or-later
/* depot.c - a depot of streams: its directories, and what is moved into them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "depot.h"

#define FANS	256
#define FAN_MODE 01777 /* everybody's streams, nobody's but his own to remove */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define ACCESS	"system.posix_acl_access"

struct depot {
	int fd, staging;
	uint64_t id;
	atomic_uint_fast64_t next;
};

struct depot_item {
	struct depot *d;
	uint64_t ino;
	char name[24]; /* in staging */
};

/* ---- names ---- */

/* As in Samba's modules: the same streams under the same names. */
static uint64_t fsname_hash(const char *s)
{
	size_t len = strlen(s);
	uint64_t x = UINT64_C(0x238f13af) * len;

	for (size_t i = 0; i < len; i++)
		x += (uint64_t)(uint8_t)s[i] << (i * 5 % 24);
	return UINT64_C(1103515243) * x + 12345;
}

int depot_fsname(int fd, uint64_t *id)
{
	FILE *f = setmntent("/etc/mtab", "r");
	struct stat st, at;
	char text[4096];
	struct mntent m;
	int r = f ? -ENOENT : -errno;

	if (r == -ENOENT && fstat(fd, &st) < 0)
		r = -errno;
	while (r == -ENOENT && getmntent_r(f, &m, text, sizeof(text))) {
		const char *name = m.mnt_fsname;

		if (stat(m.mnt_dir, &at) < 0 || at.st_dev != st.st_dev)
			continue;
		*id = fsname_hash(strncmp(name, "/dev/", 5) ? name : name + 5);
		r = 0;
	}
	if (f)
		endmntent(f);
	return r;
}

void depot_path(uint64_t id, uint64_t ino, char out[DEPOT_PATH_MAX])
{
	uint32_t x = 0x238f13afu * 16;
	uint8_t key[16];
	int n;

	for (unsigned int i = 0; i < 8; i++) {
		key[i] = (uint8_t)(id >> (8 * i));
		key[8 + i] = (uint8_t)(ino >> (8 * i));
	}
	for (unsigned int i = 0; i < sizeof(key); i++)
		x += (uint32_t)key[i] << (i * 5 % 24);
	x = 1103515243u * x + 12345u;
	n = snprintf(out, DEPOT_PATH_MAX, "%02X/%02X/", x & 0xff, x >> 8 & 0xff);
	for (unsigned int i = 0; i < sizeof(key); i++)
		n += snprintf(out + n, DEPOT_PATH_MAX - (size_t)n, "%02X", key[i]);
}

/* ---- directories ---- */

/* A directory of @mode, whatever our umask: its descriptor, or -errno. */
static int enter(int at, const char *name, mode_t mode, bool *made)
{
	int fd, r = mkdirat(at, name, mode) < 0 ? -errno : 0;

	if (r < 0 && r != -EEXIST)
		return r;
	fd = openat(at, name, DIR_FLAGS);
	if (fd < 0)
		return -errno;
	if (r == 0 && fchmod(fd, mode) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	if (made && r == 0)
		*made = true;
	return fd;
}

static int make_fan(int at, const char *name)
{
	int fd = enter(at, name, FAN_MODE, NULL), r = fd < 0 ? fd : 0;
	char below[4];

	for (unsigned int i = 0; i < FANS && r == 0; i++) {
		snprintf(below, sizeof(below), "%02X", i);
		if (mkdirat(fd, below, FAN_MODE) < 0 && errno != EEXIST)
			r = -errno;
	}
	if (fd >= 0)
		close(fd);
	return r;
}

int depot_make(const char *dir)
{
	mode_t before = umask(0);
	char name[4];
	int fd, r;

	fd = enter(AT_FDCWD, dir, 0755, NULL);
	r = fd < 0 ? fd : 0;
	for (unsigned int i = 0; i < FANS && r == 0; i++) {
		snprintf(name, sizeof(name), "%02X", i);
		r = make_fan(fd, name);
	}
	umask(before);
	if (r == 0 && syncfs(fd) < 0)
		r = -errno;
	if (fd >= 0)
		close(fd);
	return r;
}

/* @name with what is in it, to a depth that only ours have. */
static int remove_tree(int at, const char *name, unsigned int depth)
{
	int fd = openat(at, name, DIR_FLAGS), r = 0;
	struct dirent *d;
	DIR *dir;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return unlinkat(at, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (unlinkat(fd, d->d_name, 0) == 0 || errno == ENOENT)
			continue;
		r = errno == EISDIR && depth ? remove_tree(fd, d->d_name, depth - 1) : -errno;
	}
	closedir(dir);
	if (r == 0 && unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

static void staging_name(const struct stub_volume_info *info, char out[64])
{
	snprintf(out, 64, ".postcopy-%.36s", info->uuid);
}

int depot_open(const struct stub_volume_info *info, struct depot **out)
{
	struct depot *d = calloc(1, sizeof(*d));
	char name[64];
	int r = 0;

	if (!d)
		return -ENOMEM;
	d->id = info->depot_id;
	d->staging = -1;
	staging_name(info, name);
	d->fd = open(info->depot, DIR_FLAGS);
	if (d->fd < 0)
		r = -errno;
	if (r == 0)
		r = remove_tree(d->fd, name, 2);
	if (r == 0)
		d->staging = enter(d->fd, name, 0700, NULL);
	if (r == 0 && d->staging < 0)
		r = d->staging;
	if (r < 0) {
		depot_close(d);
		return r;
	}
	*out = d;
	return 0;
}

void depot_close(struct depot *d)
{
	if (!d)
		return;
	if (d->staging >= 0)
		close(d->staging);
	if (d->fd >= 0)
		close(d->fd);
	free(d);
}

int depot_leave(const struct stub_volume_info *info)
{
	int fd = open(info->depot, DIR_FLAGS), r;
	char name[64];

	if (fd < 0)
		return -errno;
	staging_name(info, name);
	r = remove_tree(fd, name, 2);
	close(fd);
	return r;
}

/* ---- fetching ---- */

/* Who may use the object may use its streams: the object's ACL, @more allowed and nothing
 * but @most.  False: there is none, or it cannot be had here. */
static bool set_acl(int fd, const struct source_meta *m, uint8_t more, uint8_t most)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct stub_xattr *x = &m->xattrs[i];
		uint8_t *acl;
		bool ok;

		if (strcmp(x->name, ACCESS) || !x->len)
			continue;
		acl = malloc(x->len);
		if (!acl)
			return false;
		memcpy(acl, x->value, x->len);
		for (size_t at = 4; at + 8 <= x->len; at += 8) /* u16 tag, u16 perm, u32 id */
			acl[at + 2] = (uint8_t)((acl[at + 2] & most) | more);
		ok = fsetxattr(fd, ACCESS, acl, x->len, 0) == 0;
		free(acl);
		return ok;
	}
	return false;
}

static bool has_acl(const struct source_meta *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (!strcmp(m->xattrs[i].name, ACCESS))
			return true;
	}
	return false;
}

/* Owner, access and times of the object. */
static int dress(int fd, const struct source_meta *m, bool dir)
{
	const struct timespec times[2] = { m->attr.atime, m->attr.mtime };
	/* everybody may list streams, and in a directory w is of no use without x */
	const uint8_t more = dir ? 5 : 0, most = dir ? 7 : 6;
	mode_t mode = dir ? (m->attr.mode & 0222) | 0755 : m->attr.mode & 0666;

	if (has_acl(m)) /* then group means the ACL's mask, which is more than the group has */
		mode &= ~(mode_t)020 & (dir ? ~(mode_t)0 : ~(mode_t)040);
	if (fchown(fd, m->attr.uid, m->attr.gid) < 0 || fchmod(fd, mode) < 0)
		return -errno;
	set_acl(fd, m, more, most);
	return futimens(fd, times) < 0 ? -errno : 0;
}

static int store(int fd, const void *data, size_t n, uint64_t at)
{
	const char *p = data;

	while (n) {
		ssize_t w = pwrite(fd, p, n, (off_t)at);

		if (w < 0 && errno != EINTR)
			return -errno;
		if (w > 0) {
			p += w;
			at += (uint64_t)w;
			n -= (size_t)w;
		}
	}
	return 0;
}

/* @block: SOURCE_STREAM_MAX bytes */
static int fetch_bytes(struct depot_job *job, const struct source_stream *x, int fd, char *block)
{
	uint64_t at = 0, size = 0;

	do {
		int64_t n;
		int r;

		if (job->turn && at < x->size)
			job->turn(job->arg, x->size - at < SOURCE_STREAM_MAX ? x->size - at :
									       SOURCE_STREAM_MAX);
		n = source_stream(job->source, job->p, &job->o->origin, x->name, at, block,
				  SOURCE_STREAM_MAX, &size);
		if (n < 0)
			return (int)n;
		if (size != x->size || at + (uint64_t)n > size || (!n && at < size))
			return -EIO; /* it is being written over there */
		r = store(fd, block, (size_t)n, at);
		if (r < 0) {
			job->local = true;
			return r;
		}
		at += (uint64_t)n;
	} while (at < size);
	return 0;
}

/* What was just written: made the object's, and durable. */
static int settle(struct depot_job *job, int fd, bool dir)
{
	int r = dress(fd, job->m, dir);

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	job->local = r < 0;
	return r;
}

static int fetch_one(struct depot_job *job, const struct source_stream *x, int dir, char *block)
{
	int fd = openat(dir, x->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0) {
		r = -errno;
		job->local = true;
		return r;
	}
	r = fetch_bytes(job, x, fd, block);
	if (r == 0)
		r = settle(job, fd, false);
	close(fd);
	return r;
}

static int fetch_all(struct depot_job *job, const struct depot_item *item, char *block)
{
	int dir = enter(item->d->staging, item->name, 0700, NULL), r = 0;

	if (dir < 0) {
		job->local = true;
		return dir;
	}
	for (size_t i = 0; i < job->m->n_streams && r == 0; i++)
		r = fetch_one(job, &job->m->streams[i], dir, block);
	if (r == 0)
		r = settle(job, dir, true);
	close(dir);
	return r;
}

/* Between two looks at an object that is the same, and stands still. */
static int fetch_still(struct depot_job *job, const struct depot_item *item, char *block)
{
	struct stub_attr before, after;
	int r = source_getattr(job->source, job->p, &job->o->origin, &before);

	if (r == 0)
		r = fetch_all(job, item, block);
	if (r == 0)
		r = source_getattr(job->source, job->p, &job->o->origin, &after);
	if (r == 0 && (before.fileid != job->m->attr.fileid || after.fileid != before.fileid ||
		       memcmp(&before.mtime, &after.mtime, sizeof(after.mtime)) ||
		       memcmp(&before.ctime, &after.ctime, sizeof(after.ctime))))
		r = -EIO;
	return r;
}

int depot_fetch(struct depot *d, struct depot_job *job, struct depot_item **out)
{
	struct depot_item *item;
	struct stat st;
	char *block;
	int r;

	*out = NULL;
	job->local = false;
	if (!job->m->n_streams)
		return 0;
	item = calloc(1, sizeof(*item));
	block = malloc(SOURCE_STREAM_MAX);
	r = item && block ? 0 : -ENOMEM;
	if (r == 0 && fstat(job->o->fd, &st) < 0)
		r = -errno;
	if (r == 0) {
		item->d = d;
		item->ino = st.st_ino;
		snprintf(item->name, sizeof(item->name), "%" PRIu64,
			 (uint64_t)atomic_fetch_add(&d->next, 1));
		r = fetch_still(job, item, block);
	}
	free(block);
	if (r < 0) {
		depot_item_free(item);
		return r;
	}
	*out = item;
	return 0;
}

/* ---- placing ---- */

/* What was there, of an object that had the inode before or of a try that a crash ended, is
 * in staging then, under the item's name. */
static int move(const struct depot_item *item, int to, const char *name)
{
	int from = item->d->staging;

	if (renameat2(from, item->name, to, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EEXIST && renameat2(from, item->name, to, name, RENAME_EXCHANGE) == 0)
		return 0;
	return -errno;
}

int depot_place(void *arg)
{
	const struct depot_item *item = arg;
	char path[DEPOT_PATH_MAX];
	bool made[2] = { false, false };
	int first, second, r;

	if (!item || !item->d)
		return 0;
	depot_path(item->d->id, item->ino, path);
	path[2] = path[5] = '\0';
	first = enter(item->d->fd, path, FAN_MODE, &made[0]);
	if (first < 0)
		return first;
	second = enter(first, path + 3, FAN_MODE, &made[1]);
	r = second < 0 ? second : move(item, second, path + 6);
	if (r == 0 && (fsync(second) < 0 || (made[1] && fsync(first) < 0) ||
		       (made[0] && fsync(item->d->fd) < 0)))
		r = -errno;
	if (second >= 0)
		close(second);
	close(first);
	return r;
}

void depot_item_free(struct depot_item *item)
{
	if (item && item->d)
		remove_tree(item->d->staging, item->name, 1);
	free(item);
}
