/* SPDX-License-Identifier: GPL-3.0-or-later */
/* deep_names.c - the directories in one of the volume. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "deep.h"
#include "names.h"

#define NAMES 256 /* that are looked at in one call */

static int find(DIR *dir, long *at, struct stub_handle *out)
{
	if (*at)
		seekdir(dir, *at);
	for (int i = 0; i < NAMES; i++) {
		struct dirent *d = names_next(dir);
		int fd;

		if (!d)
			return 0;
		*at = telldir(dir);
		if (d->d_type != DT_DIR && d->d_type != DT_UNKNOWN)
			continue;
		fd = names_open(dir, d->d_name, O_DIRECTORY, out);
		if (fd < 0)
			continue;
		close(fd);
		return 1;
	}
	return -EAGAIN;
}

int deep_names(void *arg, const struct stub_handle *dir, long *at, struct stub_handle *out)
{
	DIR *d = names_of(arg, dir);
	int r;

	if (!d)
		return 0;
	r = find(d, at, out);
	closedir(d);
	return r;
}
