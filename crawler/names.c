/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

DIR *names_of_fd(int fd)
{
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

DIR *names_of(struct stub_volume *v, const struct stub_handle *h)
{
	return names_of_fd(stub_handle_open_at(stub_volume_fd(v), h, NAMES_OPEN));
}

struct dirent *names_next(DIR *dir)
{
	struct dirent *d;

	do
		d = readdir(dir);
	while (d && (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
		     !strcmp(d->d_name, STUB_DIR)));
	return d;
}

int names_open(DIR *dir, const char *name, int flags, struct stub_handle *out)
{
	int r, fd = openat(dirfd(dir), name, O_PATH | O_NOFOLLOW | O_CLOEXEC | flags);

	if (fd < 0)
		return -errno;
	r = stub_handle_of_fd(fd, out);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}
