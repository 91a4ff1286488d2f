// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "krb5/private_file.h"

int private_file_fd(int fd, const char *path, char *why, size_t size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, size, "%.150s is not a file", path);
		return -EINVAL;
	}
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 077) {
		snprintf(why, size, "%.150s can be read by others: chown root, chmod 600", path);
		return -EACCES;
	}
	return 0;
}

int private_file(const char *path, char *why, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), r;

	why[0] = '\0';
	r = fd < 0 ? -errno : private_file_fd(fd, path, why, size);
	if (r < 0 && !why[0])
		snprintf(why, size, "cannot read %.150s: %s", path, strerror(-r));
	if (fd >= 0)
		close(fd);
	return r;
}
