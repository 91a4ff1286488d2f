/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * active.c - a volume whose disk several machines can reach is opened on one of them only: on the
 * node that holds its lease (docs/decisions/0104).
 *
 * volume.conf names the lease.  Who holds it (postcopy-active) keeps a file of the lease's name
 * locked in STUB_ACTIVE_DIR, which is memory of this machine, and says in it which file system
 * was mounted under the lease:
 *
 *   node=NAME
 *   device=MAJOR:MINOR
 *   since=SECONDS
 *
 * The lock ends with its holder, and then nobody opens the volume any more until there is another
 * one here.  A copy of the volume, block by block, names the same lease, but is another device.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "stubtools.h"
#include "volume.h"

#define TEXT_MAX 256

static struct flock whole(short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET };
}

static bool name_is_good(const char *name)
{
	return strlen(name) == STUB_LEASE_MAX && strspn(name, "0123456789abcdef-") == STUB_LEASE_MAX;
}

static int print(const struct stub_active *a, char text[TEXT_MAX])
{
	return snprintf(text, TEXT_MAX, "node=%s\ndevice=%u:%u\nsince=%llu\n", a->node, major(a->dev),
			minor(a->dev), (unsigned long long)a->since);
}

/* Only what print() says. */
static int parse(const char *text, struct stub_active *a)
{
	unsigned long long since;
	unsigned int maj, min;
	char again[TEXT_MAX];

	if (sscanf(text, "node=%64[^\n]\ndevice=%u:%u\nsince=%llu", a->node, &maj, &min, &since) != 4)
		return -EBADMSG;
	a->dev = makedev(maj, min);
	a->since = since;
	print(a, again);
	return strcmp(again, text) ? -EBADMSG : 0;
}

static int read_held(int dir, const char *name, struct stub_active *a)
{
	int fd CLEANUP_CLOSE = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct flock f = whole(F_WRLCK);
	char text[TEXT_MAX];
	int r;

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_GETLK, &f) < 0)
		return -errno;
	if (f.l_type == F_UNLCK)
		return -ENOENT;
	r = stub_io_read_file(dir, name, text, sizeof(text) - 1);
	if (r < 0)
		return r;
	memset(a, 0, sizeof(*a));
	strcpy(a->lease, name);
	return parse(text, a);
}

/* -ENOENT too if anybody but root could have put files there. */
static int dir_open(const char *path)
{
	int fd CLEANUP_CLOSE = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_uid != 0 || st.st_mode & 022 ? -ENOENT : stub_steal_fd(&fd);
}

STUB_PUBLIC int stub_active_get(const char *lease, struct stub_active *out)
{
	int dir CLEANUP_CLOSE = name_is_good(lease) ? dir_open(STUB_ACTIVE_DIR) : -ENOENT;

	return dir < 0 ? dir : read_held(dir, lease, out);
}

STUB_PUBLIC int stub_active_of(dev_t dev, struct stub_active *out)
{
	int fd = dir_open(STUB_ACTIVE_DIR), r = -ENOENT;
	struct dirent *d;
	DIR *dir;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while (r != 0 && (d = readdir(dir)))
		if (name_is_good(d->d_name) && read_held(fd, d->d_name, out) == 0 && out->dev == dev)
			r = 0;
	closedir(dir);
	return r;
}

STUB_PUBLIC int stub_active_hold(const struct stub_active *a)
{
	int dir CLEANUP_CLOSE = -1, fd CLEANUP_CLOSE = -1;
	struct flock f = whole(F_WRLCK);
	char text[TEXT_MAX];
	int len;

	if (!name_is_good(a->lease) || !a->node[0] || strchr(a->node, '\n'))
		return -EINVAL;
	if (mkdir(STUB_ACTIVE_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	dir = dir_open(STUB_ACTIVE_DIR);
	if (dir < 0)
		return dir;
	fd = openat(dir, a->lease, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &f) < 0)
		return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
	len = print(a, text);
	if (ftruncate(fd, 0) < 0)
		return -errno;
	len = stub_io_pwrite(fd, text, (size_t)len, 0);
	return len < 0 ? len : stub_steal_fd(&fd);
}

int stub_active_check(const struct stub_volume *v)
{
	struct stub_active a;
	struct stat st;
	int r;

	if (!v->info.lease[0])
		return 0;
	if (fstat(v->fd, &st) < 0)
		return -errno;
	r = stub_active_get(v->info.lease, &a);
	if (r == 0 && a.dev == st.st_dev)
		return 0;
	stub_log(&v->log, STUB_LOG_ERROR,
		 r == 0 ? "the volume's lease is held here for another device: this is a copy of its disk" :
			  "this node does not hold the volume's lease, so another one may have it open: nothing "
			  "of it is opened (postcopy-active(8))");
	return r == 0 ? -EXDEV : -ENOLCK;
}

/* What volume.conf is to say of the file system of @fd: under which lease it was mounted, if any. */
static int lease_here(int fd, char out[STUB_LEASE_MAX + 1])
{
	struct stub_active a;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : stub_active_of(st.st_dev, &a);

	strcpy(out, r == 0 ? a.lease : "");
	return r == -ENOENT ? 0 : r;
}

int stub_active_learn(int fd, struct stub_volume_info *info)
{
	char here[STUB_LEASE_MAX + 1];
	int r = lease_here(fd, here);

	if (r < 0 || !strcmp(here, info->lease))
		return r;
	if (!here[0]) /* it is under a lease elsewhere */
		return -ENOLCK;
	strcpy(info->lease, here);
	return 1;
}

STUB_PUBLIC int stub_volume_unlease(struct stub_volume *v)
{
	if (!v->info.lease[0])
		return 0;
	v->info.lease[0] = '\0';
	return stub_conf_write(v->fd, v->dir_fd, &v->info);
}
