/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The file is smaller than a disk block and written in place: a crash leaves the old or the
 * new settings, and a full volume takes it too.
 */
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH STUB_DIR "/settings"
#define SIZE 64

static int settings_open(int root, int flags)
{
	int fd = openat(root, PATH, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fd;
}

int settings_load(int root, struct settings *out)
{
	int fd = settings_open(root, O_RDONLY), end = 0;
	char text[SIZE + 1] = "";
	unsigned int paused, throttled;
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	n = pread(fd, text, SIZE, 0);
	close(fd);
	if (n <= 0)
		return n < 0 ? -EIO : 0;
	if (sscanf(text, "paused=%1u throttled=%1u throttle=%" SCNu64 "\n%n", &paused, &throttled,
		   &out->throttle, &end) != 3 ||
	    n != SIZE || end != SIZE || paused > 1 || throttled > 1)
		return -EBADMSG;
	out->paused = paused;
	out->throttled = throttled;
	return 0;
}

int settings_store(const struct stub_volume *v, const struct settings *s)
{
	int n, r, fd = settings_open(stub_volume_fd(v), O_WRONLY | O_CREAT);
	char text[SIZE + 1];

	if (fd < 0)
		return fd;
	n = snprintf(text, sizeof(text), "paused=%d throttled=%d throttle=%" PRIu64, s->paused,
		     s->throttled, s->throttle);
	memset(text + n, ' ', (size_t)(SIZE - n));
	text[SIZE - 1] = '\n';
	r = stub_io_pwrite(fd, text, SIZE, 0);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	close(fd);
	return r;
}
