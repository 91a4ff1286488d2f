/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "paused.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define DIR_PATH STUB_DIR "/mirror"
#define NAME	 "paused"

bool paused_load(const struct stub_volume *v)
{
	struct stat st;

	return fstatat(stub_volume_fd(v), DIR_PATH "/" NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int store(int dir, bool paused)
{
	int fd;

	if (!paused)
		return unlinkat(dir, NAME, 0) < 0 && errno != ENOENT ? -errno : 0;
	fd = openat(dir, NAME, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int paused_store(const struct stub_volume *v, bool paused)
{
	int r, dir = openat(stub_volume_fd(v), DIR_PATH,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir < 0)
		return -errno;
	r = store(dir, paused);
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	close(dir);
	return r;
}
