// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * foldshim: a file system that takes A and a for the same, to one program.
 *
 * Preloaded (LD_PRELOAD), this library has fstatat() look for the name in small
 * letters. Kernels that can mount such a file system are rare. For tests only.
 *
 *   cc -D_GNU_SOURCE -shared -fPIC -O2 -o foldshim.so foldshim.c
 */
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static int small(const char *symbol, int dir, const char *path, void *st, int flags)
{
	int (*next)(int, const char *, void *, int);
	char name[PATH_MAX];

	*(void **)&next = dlsym(RTLD_NEXT, symbol);
	snprintf(name, sizeof(name), "%s", path);
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return next(dir, name, st, flags);
}

__attribute__((visibility("default"))) int fstatat(int dir, const char *path, struct stat *st,
						   int flags)
{
	return small("fstatat", dir, path, st, flags);
}

__attribute__((visibility("default"))) int fstatat64(int dir, const char *path,
						     struct stat64 *st, int flags)
{
	return small("fstatat64", dir, path, st, flags);
}
