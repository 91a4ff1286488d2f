/* SPDX-License-Identifier: GPL-3.0-or-later */
/* disk.c - see disk.h. */
#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/magic.h>

/* XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN are one number; the log is not written, for a disk that
 * does not answer must not keep us from it */
#define SHUTDOWN	 _IOR('X', 125, uint32_t)
#define SHUTDOWN_NO_FLUSH 2

extern char **environ;

int disk_busy(const char *device)
{
	struct stat st;
	int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd < 0)
		return errno == EBUSY ? 1 : -errno;
	if (fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode)) {
		close(fd);
		return -ENOTBLK;
	}
	close(fd);
	return 0;
}

int disk_mounted(const char *device, const char *dir)
{
	struct stat dev, here, up;
	char parent[PATH_MAX + 4];

	snprintf(parent, sizeof(parent), "%s/..", dir);
	if (stat(device, &dev) < 0 || stat(dir, &here) < 0 || stat(parent, &up) < 0)
		return -errno;
	if (here.st_dev == up.st_dev)
		return 0;
	return S_ISBLK(dev.st_mode) && here.st_dev == dev.st_rdev ? 1 : -EEXIST;
}

int disk_mount(const char *device, const char *dir, const char *options)
{
	const char *argv[] = { "mount", "-o", options[0] ? options : "defaults", "--", device, dir, NULL };
	struct statfs fs;
	int status, e;
	pid_t pid;

	e = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (e)
		return -e;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return -EIO;
	if (statfs(dir, &fs) < 0)
		return -errno;
	if (fs.f_type == XFS_SUPER_MAGIC || fs.f_type == EXT4_SUPER_MAGIC)
		return 0;
	return disk_unmount(dir) < 0 ? -EIO : -EOPNOTSUPP;
}

int disk_unmount(const char *dir)
{
	return umount2(dir, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

/* -ENXIO: what is at @path is not of the file system on @dev */
static int shutdown_at(const char *path, dev_t dev)
{
	uint32_t how = SHUTDOWN_NO_FLUSH;
	int r, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else if (st.st_dev != dev)
		r = -ENXIO;
	else
		r = ioctl(fd, SHUTDOWN, &how) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* A path of mountinfo: blanks and the like are \ooo. */
static void unescape(char *s)
{
	char *to = s;
	unsigned int c;

	while (*s) {
		if (s[0] == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
			*to++ = (char)c;
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* In the mount namespace of the process @pid; "self": in ours. */
static int shutdown_in(const char *pid, dev_t dev)
{
	char name[64], path[2 * PATH_MAX], at[PATH_MAX], *line = NULL;
	unsigned int maj, min;
	int r = -ENXIO;
	size_t size = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%s/mountinfo", pid);
	f = fopen(name, "re");
	while (f && r != 0 && getline(&line, &size, f) > 0) {
		if (sscanf(line, "%*d %*d %u:%u %*s %4095s", &maj, &min, at) != 3 || makedev(maj, min) != dev)
			continue;
		unescape(at);
		snprintf(path, sizeof(path), "/proc/%s/root%s", pid, at);
		r = shutdown_at(path, dev);
	}
	free(line);
	if (f)
		fclose(f);
	return r;
}

int disk_shutdown(const char *device)
{
	struct dirent *d;
	struct stat st;
	DIR *proc;
	int r;

	if (stat(device, &st) < 0)
		return -errno;
	r = shutdown_in("self", st.st_rdev);
	proc = r == 0 ? NULL : opendir("/proc");
	while (proc && r != 0 && (d = readdir(proc))) {
		int one = d->d_name[0] >= '1' && d->d_name[0] <= '9' ? shutdown_in(d->d_name, st.st_rdev) : -ENXIO;

		if (one != -ENXIO)
			r = one;
	}
	if (proc)
		closedir(proc);
	return r;
}
