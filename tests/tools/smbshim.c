// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smbshim: lets a stock smbd load a VFS module that is not installed.
 *
 * smbd takes modules from its own directory only, and "preload modules" keeps it
 * from registering its built-in ones.  Preloaded (LD_PRELOAD), this library opens
 * $POSTCOPY_VFS_DIR/NAME.so, if there is one, instead of the distribution's
 * .../vfs/NAME.so.  For tests and the demonstration only: never ship it.
 *
 *   cc -D_GNU_SOURCE -shared -fPIC -O2 -o smbshim.so smbshim.c
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) void *dlopen(const char *path, int flags)
{
	static void *(*next)(const char *, int);
	const char *dir = getenv("POSTCOPY_VFS_DIR");
	const char *name = path ? strrchr(path, '/') : NULL;
	char ours[PATH_MAX];
	int n;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "dlopen");
	if (dir && name && name - path >= 4 && strncmp(name - 4, "/vfs", 4) == 0) {
		n = snprintf(ours, sizeof(ours), "%s%s", dir, name);
		if (n > 0 && (size_t)n < sizeof(ours) && access(ours, R_OK) == 0)
			path = ours;
	}
	return next(path, flags);
}
