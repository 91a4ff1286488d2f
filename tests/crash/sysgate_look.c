/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sysgate_look.c - what a process that waits is about to do, and to what.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sysgate.h"

/* A string of the process's memory; never longer than PATH_MAX. */
static bool read_string(pid_t tid, unsigned long long at, char *out)
{
	size_t n = 0;

	while (n < PATH_MAX) {
		size_t part = 4096 - (at + n) % 4096;
		struct iovec here = { out + n, part < PATH_MAX - n ? part : PATH_MAX - n };
		struct iovec there = { (void *)(uintptr_t)(at + n), here.iov_len };
		ssize_t got = process_vm_readv(tid, &here, 1, &there, 1, 0);

		if (got <= 0)
			return false;
		if (memchr(out + n, '\0', (size_t)got))
			return true;
		n += (size_t)got;
	}
	return false;
}

bool proc_read(pid_t id, const char *file, char *out, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", id, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, out, size - 1);
	close(fd);
	out[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

void call_identify(struct call *c)
{
	char text[4096], *at;

	c->pid = c->tid;
	if (proc_read(c->tid, "status", text, sizeof(text)) && (at = strstr(text, "\nTgid:")))
		c->pid = atoi(at + 6);
	if (!proc_read(c->pid, "comm", c->name, sizeof(c->name)))
		strcpy(c->name, "?");
	c->name[strcspn(c->name, "\n")] = '\0';
}

/* Where the name of a directory entry is found from here. */
static void entry_path(const struct call *c, int dirfd, const char *name, char *out)
{
	if (!strncmp(name, "/proc/self/", 11))
		snprintf(out, PATH_ROOM, "/proc/%d/%s", c->tid, name + 11);
	else if (name[0] == '/')
		snprintf(out, PATH_ROOM, "/proc/%d/root%s", c->tid, name);
	else if (dirfd == AT_FDCWD)
		snprintf(out, PATH_ROOM, "/proc/%d/cwd/%s", c->tid, name);
	else
		snprintf(out, PATH_ROOM, "/proc/%d/fd/%d/%s", c->tid, dirfd, name);
}

/* "DIR/NAME" as the log shows it: the directory without links of /proc. */
static void show_name(char *path)
{
	char full[PATH_MAX], *slash = strrchr(path, '/');

	*slash = '\0';
	if (realpath(path, full)) {
		char *last = strdup(slash + 1);

		snprintf(path, PATH_ROOM, "%s/%s", full, last ? last : "?");
		free(last);
	} else {
		*slash = '/';
	}
}

static bool on_volume_fd(const struct call *c, dev_t dev, int fd, char *path)
{
	char link[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(path, PATH_ROOM, "/proc/%d/fd/%d", c->tid, fd);
	if (stat(path, &st) < 0 || st.st_dev != dev)
		return false;
	n = readlink(path, link, sizeof(link) - 1);
	if (n > 0) {
		link[n] = '\0';
		strcpy(path, link);
	}
	return true;
}

static bool on_volume_name(const struct call *c, dev_t dev, int dirfd,
			   unsigned long long at, char *path)
{
	char name[PATH_MAX], *slash;
	struct stat st;
	bool on;

	if (!at) /* utimensat() of a descriptor */
		return on_volume_fd(c, dev, dirfd, path);
	if (!read_string(c->tid, at, name))
		return false;
	if (!name[0])
		return on_volume_fd(c, dev, dirfd, path);
	entry_path(c, dirfd, name, path);
	on = (strstr(name, "/proc/self/") == name ? stat(path, &st) : lstat(path, &st)) == 0 &&
	     st.st_dev == dev;
	slash = strrchr(path, '/');
	if (!on && slash) { /* it is yet to be made: in which directory? */
		*slash = '\0';
		on = stat(path, &st) == 0 && st.st_dev == dev;
		*slash = '/';
	}
	if (on)
		show_name(path);
	return on;
}

bool call_on_volume(struct call *c, dev_t dev)
{
	const unsigned long long *a = c->args;
	bool first, second = false;

	c->path[0][0] = c->path[1][0] = '\0';
	if (c->what->object == OBJECT_FD)
		return on_volume_fd(c, dev, (int)a[c->what->arg], c->path[0]);
	if (c->what->object == OBJECT_PATH)
		first = on_volume_name(c, dev, AT_FDCWD, a[c->what->arg], c->path[0]);
	else
		first = on_volume_name(c, dev, (int)a[c->what->arg], a[c->what->arg + 1], c->path[0]);
	if (c->what->object == OBJECT_AT_TWO)
		second = on_volume_name(c, dev, (int)a[2], a[3], c->path[1]);
	else if (c->what->object == OBJECT_PATH && c->what->two)
		second = on_volume_name(c, dev, AT_FDCWD, a[1], c->path[1]);
	return first || second;
}
