// SPDX-License-Identifier: GPL-3.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "smb/smb_home.h"

#define NAME   "postcopy-smb-"
#define RANDOM "XXXXXX"
#define ROUNDS 100 /* tries, while other processes remove the same home */

static const char *parent(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir == '/' ? dir : "/tmp";
}

static bool is_home(const char *name)
{
	return !strncmp(name, NAME, strlen(NAME)) && strlen(name) == strlen(NAME RANDOM);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	remove(path);
	return 0;
}

/* A new home's name in @path and its directory, nobody's yet: 0, -ENAMETOOLONG, -errno. */
static int make(char *path, size_t size)
{
	int n = snprintf(path, size, "%s/" NAME RANDOM, parent());

	if (n < 0 || (size_t)n >= size)
		return -ENAMETOOLONG;
	return mkdtemp(path) ? 0 : -errno;
}

void smb_home_remove(const char *path)
{
	const char *name = strrchr(path, '/');
	char aside[512];
	struct stat st;

	if (!name || !is_home(name + 1))
		return;
	/*
	 * Who still fills it by its name would not let it become empty, so that goes first.  The
	 * new one is a home's as well: what a remover that is killed leaves is swept.
	 */
	if (make(aside, sizeof(aside)) == 0) {
		if (rename(path, aside) == 0)
			path = aside;
		else
			rmdir(aside);
	}
	/* nftw() gives up where somebody else has just removed a directory */
	for (int i = 0; i < ROUNDS && lstat(path, &st) == 0; i++)
		nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Open @path and lock it, if it is a home of ours and the name still stands for it then. */
static int hold(const char *path, int lock)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, now;
	int r;

	if (fd < 0)
		return -errno;
	do
		r = flock(fd, lock) < 0 ? -errno : 0;
	while (r == -EINTR);
	if (r == 0 && (fstat(fd, &st) < 0 || lstat(path, &now) < 0))
		r = -errno;
	if (r == 0 && (st.st_dev != now.st_dev || st.st_ino != now.st_ino))
		r = -ENOENT;
	if (r == 0 && (st.st_uid != geteuid() || (st.st_mode & 0777) != 0700))
		r = -EPERM;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* Remove the homes on which no process holds a lock any more. */
static void sweep(void)
{
	DIR *dir = opendir(parent());
	struct dirent *e;
	char path[512];
	int n, fd;

	while (dir && (e = readdir(dir))) {
		if (!is_home(e->d_name))
			continue;
		n = snprintf(path, sizeof(path), "%s/%s", parent(), e->d_name);
		if (n < 0 || (size_t)n >= sizeof(path))
			continue;
		fd = hold(path, LOCK_EX | LOCK_NB);
		if (fd < 0)
			continue;
		smb_home_remove(path);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

int smb_home_make(char *path, size_t size)
{
	int fd = -ENOENT;

	sweep();
	/* another process may sweep the new home away before it is locked */
	for (int i = 0; i < ROUNDS && fd == -ENOENT; i++) {
		int r = make(path, size);

		if (r < 0)
			return r;
		fd = smb_home_hold(path);
		if (fd < 0)
			smb_home_remove(path);
	}
	return fd;
}

int smb_home_hold(const char *path)
{
	return hold(path, LOCK_SH);
}
