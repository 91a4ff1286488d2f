/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Each file is smaller than a disk block and written in place: a crash leaves the old or the
 * new settings, and a full volume takes it too.
 */
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "source/source.h"

#define SETTINGS STUB_DIR "/settings"
#define LIMITS	 STUB_DIR "/limits"
#define SIZE	 64

static int open_file(int root, const char *path, int flags)
{
	int fd = openat(root, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fd;
}

/* 1: there is something; 0: nothing was ever set. */
static int load(int root, const char *path, char text[SIZE + 1])
{
	int fd = open_file(root, path, O_RDONLY);
	ssize_t n;

	memset(text, 0, SIZE + 1);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	n = pread(fd, text, SIZE, 0);
	close(fd);
	return n < 0 ? -EIO : n == 0 ? 0 : n == SIZE ? 1 : -EBADMSG;
}

static int load_settings(int root, struct settings *out)
{
	unsigned int paused, throttled;
	uint64_t throttle;
	char text[SIZE + 1];
	int end = 0, r = load(root, SETTINGS, text);

	if (r <= 0)
		return r;
	if (sscanf(text, "paused=%1u throttled=%1u throttle=%" SCNu64 "\n%n", &paused, &throttled,
		   &throttle, &end) != 3 ||
	    end != SIZE || paused > 1 || throttled > 1)
		return -EBADMSG;
	out->paused = paused;
	out->throttled = throttled;
	out->throttle = throttle;
	return 0;
}

/* -1: not set. */
static bool take(int64_t value, int64_t least, int64_t most, struct setting *out)
{
	*out = (struct setting){ value >= 0, value >= 0 ? (uint32_t)value : 0 };
	return value == -1 || (value >= least && value <= most);
}

static int load_limits(int root, struct settings *out)
{
	struct setting requests, latency, connections;
	int64_t v[3];
	char text[SIZE + 1];
	int end = 0, r = load(root, LIMITS, text);

	if (r <= 0)
		return r;
	if (sscanf(text, "requests=%" SCNd64 " latency=%" SCNd64 " connections=%" SCNd64 "\n%n", &v[0],
		   &v[1], &v[2], &end) != 3 ||
	    end != SIZE || !take(v[0], 0, LIMITER_REQUESTS_MAX, &requests) ||
	    !take(v[1], 0, LIMITER_LATENCY_MAX, &latency) ||
	    !take(v[2], 1, SOURCE_CONNECTIONS_MAX, &connections))
		return -EBADMSG;
	out->requests = requests;
	out->latency_ms = latency;
	out->connections = connections;
	return 0;
}

int settings_load(int root, struct settings *out)
{
	int r, limits;

	memset(out, 0, sizeof(*out));
	r = load_settings(root, out);
	limits = load_limits(root, out);
	return r < 0 ? r : limits;
}

/* @n: the length of what is in @text. */
static int store(const struct stub_volume *v, const char *path, char text[SIZE + 1], int n)
{
	int r, fd = open_file(stub_volume_fd(v), path, O_WRONLY | O_CREAT);

	if (fd < 0)
		return fd;
	memset(text + n, ' ', (size_t)(SIZE - n));
	text[SIZE - 1] = '\n';
	r = stub_io_pwrite(fd, text, SIZE, 0);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int64_t given(const struct setting *s)
{
	return s->set ? (int64_t)s->value : -1;
}

int settings_store(const struct stub_volume *v, const struct settings *s)
{
	bool limits = s->requests.set || s->latency_ms.set || s->connections.set;
	char text[SIZE + 1];
	int r, n = snprintf(text, sizeof(text), "paused=%d throttled=%d throttle=%" PRIu64, s->paused,
			    s->throttled, s->throttle);

	r = store(v, SETTINGS, text, n);
	if (r < 0 || !limits)
		return r;
	n = snprintf(text, sizeof(text),
		     "requests=%" PRId64 " latency=%" PRId64 " connections=%" PRId64,
		     given(&s->requests), given(&s->latency_ms), given(&s->connections));
	return store(v, LIMITS, text, n);
}
