// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_disk.c - does the disk below a file system answer?
 *
 * A disk that is gone shows itself file by file: what the kernel has cached is there, the rest is
 * EIO.  Before objects are blamed for that, one block is read past the caches.  /dev and /sys tell
 * the device of a file system; where they do not (btrfs, tmpfs), nothing can be said.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file/file.h"

#define BLOCK 4096

/* "DEVNAME=dm-0" of the device's uevent. */
static int device_name(dev_t dev, char *out, size_t size)
{
	char path[64], line[128];
	int r = -ENOENT;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major(dev), minor(dev));
	f = fopen(path, "re");
	while (f && r < 0 && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "DEVNAME=", 8)) {
			snprintf(out, size, "/dev/%s", line + 8);
			r = 0;
		}
	}
	if (f)
		fclose(f);
	return r;
}

int file_disk_answers(dev_t dev)
{
	char path[160];
	struct stat st;
	void *block = NULL;
	int fd, r = 0;

	if (device_name(dev, path, sizeof(path)) < 0)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT | O_NONBLOCK);
	if (fd < 0)
		return errno == ENXIO || errno == EIO || errno == ENODEV ? -errno : 0;
	if (fstat(fd, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == dev &&
	    posix_memalign(&block, BLOCK, BLOCK) == 0 && pread(fd, block, BLOCK, 0) < 0 &&
	    errno != EINVAL)
		r = -errno;
	free(block);
	close(fd);
	return r;
}
