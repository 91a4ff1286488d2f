// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * noaclshim: a file system without POSIX ACLs, to one program.
 *
 * Preloaded (LD_PRELOAD), this library has the attributes system.posix_acl_* fail with
 * EOPNOTSUPP. Kernels of today have no option left to mount ext4 or XFS so. For tests only.
 *
 *   cc -D_GNU_SOURCE -shared -fPIC -O2 -o noaclshim.so noaclshim.c
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN ssize_t getxattr(const char *path, const char *name, void *value, size_t size);
SHOWN ssize_t fgetxattr(int fd, const char *name, void *value, size_t size);
SHOWN int setxattr(const char *path, const char *name, const void *value, size_t size, int flags);
SHOWN int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);

static int refused(const char *name)
{
	if (strncmp(name, "system.posix_acl_", 17))
		return 0;
	errno = EOPNOTSUPP;
	return 1;
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	ssize_t (*next)(const char *, const char *, void *, size_t);

	*(void **)&next = dlsym(RTLD_NEXT, "getxattr");
	return refused(name) ? -1 : next(path, name, value, size);
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
	ssize_t (*next)(int, const char *, void *, size_t);

	*(void **)&next = dlsym(RTLD_NEXT, "fgetxattr");
	return refused(name) ? -1 : next(fd, name, value, size);
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
	int (*next)(const char *, const char *, const void *, size_t, int);

	*(void **)&next = dlsym(RTLD_NEXT, "setxattr");
	return refused(name) ? -1 : next(path, name, value, size, flags);
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
	int (*next)(int, const char *, const void *, size_t, int);

	*(void **)&next = dlsym(RTLD_NEXT, "fsetxattr");
	return refused(name) ? -1 : next(fd, name, value, size, flags);
}
