/* SPDX-License-Identifier: GPL-3.0-or-later */
/* deep_names.c - the directories in one of the volume. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "deep.h"

#define NAMES 256 /* that are looked at in one call */

static bool is_dir(int dir_fd, const char *name, struct stub_handle *out)
{
	int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return false;
	r = stub_handle_of_fd(fd, out);
	close(fd);
	return r == 0;
}

static int find(DIR *dir, long *at, struct stub_handle *out)
{
	if (*at)
		seekdir(dir, *at);
	for (int i = 0; i < NAMES; i++) {
		struct dirent *d = readdir(dir);

		if (!d)
			return 0;
		*at = telldir(dir);
		if ((d->d_type != DT_DIR && d->d_type != DT_UNKNOWN) || !strcmp(d->d_name, ".") ||
		    !strcmp(d->d_name, "..") || !strcmp(d->d_name, STUB_DIR))
			continue;
		if (is_dir(dirfd(dir), d->d_name, out))
			return 1;
	}
	return -EAGAIN;
}

int deep_names(void *arg, const struct stub_handle *dir, long *at, struct stub_handle *out)
{
	struct stub_volume *v = arg;
	int r, fd = stub_handle_open_at(stub_volume_fd(v), dir,
					O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	r = find(d, at, out);
	closedir(d);
	return r;
}
