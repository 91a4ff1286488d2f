// SPDX-License-Identifier: GPL-3.0-or-later
/* depot.c - a depot of streams: its directories, and what is moved into them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "depot/depot_internal.h"

#define FANS	256
#define DEPTH_MAX 32 /* of what users may have put where streams belong */
#define FAN_LEN 5 /* "XX/YY" */
#define FAN_MODE 01777 /* everybody makes streams here, and removes only his own */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

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

int depot_enter(int at, const char *name, mode_t mode)
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
	return fd;
}

static int make_fan(int at, const char *name)
{
	int fd = depot_enter(at, name, FAN_MODE), r = fd < 0 ? fd : 0;
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

	fd = depot_enter(AT_FDCWD, dir, 0755);
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

/* Remove @name with what is in it, which is only files unless users have put something there. */
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
	struct timespec now;
	char name[64];
	int r = 0;

	if (!d)
		return -ENOMEM;
	clock_gettime(CLOCK_REALTIME, &now);
	d->id = info->depot_id;
	d->staging = -1;
	staging_name(info, name);
	d->fd = open(info->depot, DIR_FLAGS);
	if (d->fd < 0 || faccessat(d->fd, "FF/FF", F_OK, 0) < 0) /* its disk is not mounted? */
		r = -errno;
	if (r == 0) { /* what cannot be removed does no harm: names are never used again */
		remove_tree(d->fd, name, DEPTH_MAX);
		d->next = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	}
	if (r == 0)
		d->staging = depot_enter(d->fd, name, 0700);
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
	r = remove_tree(fd, name, DEPTH_MAX);
	close(fd);
	return r;
}

/* ---- placing ---- */

/* Move the item into its place.  What was there (of an object that had the inode before, or of
 * a try that a crash ended) is in staging afterwards, under the item's name. */
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
	struct stat st;
	int fd, r;

	if (!item)
		return 0;
	if (fstat(item->fd, &st) < 0)
		return -errno;
	if (!st.st_nlink) /* the object was removed meanwhile: nobody would remove its streams */
		return -ENOENT;
	depot_path(item->d->id, item->ino, path);
	path[FAN_LEN] = '\0';
	fd = openat(item->d->fd, path, DIR_FLAGS);
	if (fd < 0)
		return -errno;
	r = move(item, fd, path + FAN_LEN + 1);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	close(fd);
	return r;
}

void depot_item_free(struct depot_item *item)
{
	if (item && item->d)
		remove_tree(item->d->staging, item->name, DEPTH_MAX);
	free(item);
}
