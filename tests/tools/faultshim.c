// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * faultshim: a file system that fails, for one program.
 *
 * Preloaded (LD_PRELOAD), it lets calls that store fail with the errno found in a
 * shared page, the file $FAULTSHIM: one 32-bit number for each call, in the order of
 * enum fault, 0 for "works".  A number with bit 31 set counts for one call only.
 * pwrite fails on the files of the volume only: those that have a stub record.
 *
 *   cc -shared -fPIC -O2 -o faultshim.so faultshim.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum fault { FAULT_PWRITE, FAULT_SETXATTR, FAULT_SYNCFS, FAULTS };

#define ONCE 0x80000000u

static _Atomic uint32_t *page;

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("FAULTSHIM");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, FAULTS * sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		page = p;
	close(fd);
}

/* The errno with which this call fails, or 0. */
static int fault(enum fault what)
{
	uint32_t v = page ? atomic_load(&page[what]) : 0;

	if (v & ONCE && !atomic_compare_exchange_strong(&page[what], &v, 0))
		return 0;
	return (int)(v & ~ONCE);
}

static int fail(int error)
{
	errno = error;
	return -1;
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *buf, size_t n,
							off64_t offset)
{
	int error = page && atomic_load(&page[FAULT_PWRITE]) &&
				    fgetxattr(fd, "trusted.postcopy", NULL, 0) > 0 ?
			    fault(FAULT_PWRITE) :
			    0;

	return error ? fail(error) : syscall(SYS_pwrite64, fd, buf, n, offset);
}

__attribute__((visibility("default"))) int fsetxattr(int fd, const char *name, const void *value,
						     size_t size, int flags)
{
	int error = fault(FAULT_SETXATTR);

	return error ? fail(error) : (int)syscall(SYS_fsetxattr, fd, name, value, size, flags);
}

__attribute__((visibility("default"))) int syncfs(int fd)
{
	int error = fault(FAULT_SYNCFS);

	return error ? fail(error) : (int)syscall(SYS_syncfs, fd);
}
