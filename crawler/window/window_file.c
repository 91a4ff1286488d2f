/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * window_file.c - .postcopy/window: "windows=1", a window a line, "end".
 *
 * A file of its own: volume.conf takes no key that an earlier release does not know, and settings
 * is the retriever's, of a fixed form.  An earlier release does not look at it, and crawls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "stubcore.h"
#include "window/window.h"

#define NAME "window"
#define PART "window.part"
#define HEAD "windows=1\n"
#define TAIL "end\n"
#define SIZE (sizeof(HEAD) + sizeof(TAIL) + WINDOWS_MAX * (WINDOW_TEXT + 1))

static int parse(char *text, struct windows *out)
{
	char why[256], *line = text, *end;

	if (strncmp(line, HEAD, strlen(HEAD)))
		return -EBADMSG;
	for (line += strlen(HEAD); (end = strchr(line, '\n')); line = end + 1) {
		if (!strcmp(line, TAIL))
			return out->n ? 0 : -EBADMSG;
		*end = '\0';
		if (out->n == WINDOWS_MAX ||
		    window_parse(line, &out->w[out->n++], why, sizeof(why)) < 0)
			return -EBADMSG;
	}
	return -EBADMSG;
}

int windows_load(int root_fd, struct windows *out)
{
	int fd = openat(root_fd, STUB_DIR "/" NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), r;
	char text[SIZE + 1];
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	n = pread(fd, text, SIZE, 0);
	r = n < 0 ? -errno : 0;
	close(fd);
	if (r < 0)
		return r;
	text[n] = '\0';
	return strlen(text) == (size_t)n ? parse(text, out) : -EBADMSG;
}

static int write_part(int fd, const struct windows *w)
{
	char text[SIZE] = HEAD, one[WINDOW_TEXT];
	size_t n = strlen(text);
	int r;

	for (unsigned int i = 0; i < w->n; i++) {
		window_text(&w->w[i], one);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", one);
	}
	n += (size_t)snprintf(text + n, sizeof(text) - n, TAIL);
	r = stub_io_pwrite(fd, text, n, 0);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int replace(int dir_fd, const struct windows *w)
{
	int fd = openat(dir_fd, PART, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = write_part(fd, w);
	close(fd);
	if (r == 0 && renameat(dir_fd, PART, dir_fd, NAME) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir_fd, PART, 0);
	return r;
}

int windows_store(int root_fd, const struct windows *w)
{
	int dir_fd = openat(root_fd, STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), r = 0;

	if (dir_fd < 0)
		return -errno;
	if (flock(dir_fd, LOCK_EX) < 0) /* one command at a time */
		r = -errno;
	else if (w->n)
		r = replace(dir_fd, w);
	else if (unlinkat(dir_fd, NAME, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	close(dir_fd);
	return r;
}
