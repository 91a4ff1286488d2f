// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "smb_home.h"

#define NAME "postcopy-smb-"

int smb_home_make(char *path, size_t size)
{
	const char *dir = getenv("TMPDIR");
	int n = snprintf(path, size, "%s/" NAME "XXXXXX", dir && *dir == '/' ? dir : "/tmp");

	if (n < 0 || (size_t)n >= size)
		return -ENAMETOOLONG;
	return mkdtemp(path) ? 0 : -errno;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	remove(path);
	return 0;
}

void smb_home_remove(const char *path)
{
	const char *name = strrchr(path, '/');

	if (name && !strncmp(name + 1, NAME, strlen(NAME)) && strlen(name + 1) == strlen(NAME) + 6)
		nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
