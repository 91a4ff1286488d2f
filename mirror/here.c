/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "here.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int here_each(struct mirror *m, int fd, int (*fn)(void *arg, const char *name, uint64_t ino),
	      void *arg)
{
	int r = 0, own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;
	struct stat st;

	if (!d || fstat(own, &st) < 0) {
		r = -errno;
		if (d)
			closedir(d);
		else if (own >= 0)
			close(own);
		return r;
	}
	while (r == 0 && (errno = 0, e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    stub_volume_hides_name(m->volume, st.st_ino, e->d_name))
			continue;
		r = fn(arg, e->d_name, e->d_ino);
	}
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

int here_open(const struct mirror *m, int dir_fd, const char *name, struct here_object *out)
{
	int r = 0;

	out->fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (out->fd < 0)
		return errno == ENOENT ? 1 : -errno;
	if (fstat(out->fd, &out->st) < 0)
		r = -errno;
	else if (out->st.st_dev != m->dev)
		r = 1;
	else
		r = stub_handle_of_fd(out->fd, &out->h);
	if (r != 0)
		here_close(out);
	return r;
}

void here_close(struct here_object *o)
{
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
}
