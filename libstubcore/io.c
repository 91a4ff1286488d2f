/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * io.c - full-length I/O, in one place.
 */
#include <fcntl.h>
#include <sys/file.h>

#include "internal.h"

STUB_PUBLIC int stub_io_pwrite(int fd, const void *buf, size_t len, uint64_t offset)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = pwrite(fd, p, len, (off_t)offset);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			return -EIO;
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int stub_io_flock(int fd)
{
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int stub_io_read_file(int dirfd, const char *name, char *buf, size_t size)
{
	int fd CLEANUP_CLOSE = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t done = 0;

	if (fd < 0)
		return -errno;
	while (done < size) {
		ssize_t n = read(fd, buf + done, size - done);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0) {
			buf[done] = '\0';
			return (int)done;
		}
		done += (size_t)n;
	}
	return -EFBIG;
}

int stub_io_write_file(int dirfd, const char *name, const char *text)
{
	int fd CLEANUP_CLOSE =
		openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = stub_io_pwrite(fd, text, strlen(text), 0);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

STUB_PUBLIC uint64_t stub_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

STUB_PUBLIC uint64_t stub_now_ms(void)
{
	return stub_now_us() / 1000;
}

STUB_PUBLIC void stub_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

STUB_PUBLIC int stub_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ms)
{
	struct timespec t = { (time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000 };

	return -pthread_cond_timedwait(cond, lock, &t);
}
