/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * find.c - where a volume is: .postcopy/ in a directory, or in one above it; and what
 * is in a volume that a server does not serve.
 *
 * Only root makes volumes: a .postcopy that somebody else owns, or may write to, is a
 * user's directory of that name, whatever is in it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/xattr.h>

#include "internal.h"
#include "volume.h"

int stub_dir_open(int fd)
{
	int dir CLEANUP_CLOSE =
		openat(fd, STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (dir < 0)
		return errno == ENOTDIR || errno == ELOOP ? -ENOENT : -errno;
	if (fstat(dir, &st) < 0)
		return -errno;
	return st.st_uid != 0 || st.st_mode & 022 ? -ENOENT : stub_steal_fd(&dir);
}

int stub_dir_up(int *fd, int flags)
{
	struct stat here, up;
	int parent = openat(*fd, "..", flags | O_DIRECTORY | O_CLOEXEC);

	if (parent < 0)
		return -errno;
	if (fstat(*fd, &here) < 0 || fstat(parent, &up) < 0 || here.st_dev != up.st_dev ||
	    here.st_ino == up.st_ino) {
		close(parent);
		return -ENOENT; /* a volume never spans file systems */
	}
	close(*fd);
	*fd = parent;
	return 0;
}

static int find_here(int fd, struct stub_volume_info *info)
{
	const struct stub_log quiet = { NULL, NULL };
	int dir CLEANUP_CLOSE = stub_dir_open(fd);

	memset(info, 0, sizeof(*info));
	return dir < 0 ? dir : stub_conf_load(dir, &quiet, info);
}

static void name_of(int fd, char *out, size_t size)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, size - 1);
	out[n < 0 ? 0 : n] = '\0';
}

/* The volume that the directory @fd is in; the path of its root. */
static int volume_of(int dir_fd, struct stub_volume_info *info, char *path, size_t size)
{
	int r, fd CLEANUP_CLOSE = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while ((r = find_here(fd, info)) == -ENOENT) {
		r = stub_dir_up(&fd, O_PATH);
		if (r < 0)
			return r;
	}
	name_of(fd, path, size);
	return r;
}

STUB_PUBLIC int stub_dir_foreign(const struct stub_volume *own, int dir_fd, char *path, size_t size)
{
	struct stub_volume_info *info CLEANUP_FREE = malloc(sizeof(*info));
	int r = info ? volume_of(dir_fd, info, path, size) : -ENOMEM;

	if (r == 0 && own && !strcmp(info->uuid, own->info.uuid))
		r = -ENOENT; /* a snapshot of @own */
	if (r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT)
		return STUB_FOREIGN_VOLUME;
	if (r != -ENOENT)
		return r;
	if (stub_marked(dir_fd) == 0)
		return 0;
	name_of(dir_fd, path, size);
	return STUB_FOREIGN_STUB;
}

/* ---- a volume that is expected ---- */

#define UUID_LEN 36

static bool is_uuid(const char *s)
{
	if (strlen(s) != UUID_LEN)
		return false;
	for (int i = 0; i < UUID_LEN; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? s[i] != '-' :
							      !strchr("0123456789abcdefABCDEF", s[i]))
			return false;
	return true;
}

/* Has the migration of the volume @uuid ended in this directory?  1, 0, -errno. */
static int ended_here(int fd, const char *uuid)
{
	char text[UUID_LEN + 1];
	ssize_t n = fgetxattr(fd, STUB_XATTR_DONE, text, UUID_LEN);

	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP || errno == ERANGE ? 0 : -errno;
	text[n] = '\0';
	return !strcasecmp(text, uuid);
}

/* The deepest directory of @path that exists: a share may lie below names that never came. */
static int open_deepest(const char *path)
{
	char *at CLEANUP_FREE = strdup(path), *slash;
	int fd;

	if (!at)
		return -ENOMEM;
	while ((fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		slash = strrchr(at, '/');
		if ((errno != ENOENT && errno != ENOTDIR) || !slash || slash == at)
			return -errno;
		*slash = '\0';
	}
	return fd;
}

STUB_PUBLIC int stub_volume_expect(const struct stub_volume *v, const char *path, const char *uuid)
{
	int r, fd CLEANUP_CLOSE = -1;

	if (!is_uuid(uuid))
		return -EINVAL;
	if (v)
		return strcasecmp(v->info.uuid, uuid) ? -ENODEV : 0;
	fd = open_deepest(path);
	if (fd < 0)
		return fd == -ENOENT ? -ENODEV : fd;
	while ((r = ended_here(fd, uuid)) == 0) {
		r = stub_dir_up(&fd, O_RDONLY);
		if (r < 0)
			return r == -ENOENT ? -ENODEV : r;
	}
	return r < 0 ? r : 0;
}
