/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kept/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "stubcore.h"

#define NAME_LEN 32

int kept_load(int root_fd, const char *name, char *text, size_t size)
{
	char path[sizeof(STUB_DIR) + NAME_LEN];
	ssize_t n;
	int fd, r;

	snprintf(path, sizeof(path), STUB_DIR "/%s", name);
	fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	n = pread(fd, text, size, 0);
	r = n < 0 ? -errno : (int)n;
	close(fd);
	if (r < 0)
		return r;
	text[r] = '\0';
	/* an empty one is damaged, too: nobody has written it */
	return r > 0 && strlen(text) == (size_t)r ? r : -EBADMSG;
}

static int replace(int dir_fd, const char *name, const char *text)
{
	char part[NAME_LEN];
	int fd, r;

	snprintf(part, sizeof(part), "%s.part", name);
	fd = openat(dir_fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = stub_io_pwrite(fd, text, strlen(text), 0);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	close(fd);
	if (r == 0 && renameat(dir_fd, part, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir_fd, part, 0);
	return r;
}

int kept_store(int root_fd, const char *name, const char *text)
{
	int dir_fd = openat(root_fd, STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), r = 0;

	if (dir_fd < 0)
		return -errno;
	if (flock(dir_fd, LOCK_EX) < 0) /* one command at a time */
		r = -errno;
	else if (*text)
		r = replace(dir_fd, name, text);
	else if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	close(dir_fd);
	return r;
}
