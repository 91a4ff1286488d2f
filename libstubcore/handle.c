/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * handle.c - kernel file handles: identity of an inode for every process.
 */
#include <fcntl.h>
#include <time.h>

#include "internal.h"

#define BEING_MADE_TRIES 20 /* a millisecond between them */

union kernel_handle {
	struct file_handle h;
	char space[sizeof(struct file_handle) + STUB_HANDLE_MAX];
};

STUB_PUBLIC int stub_handle_of_fd(int fd, struct stub_handle *out)
{
	union kernel_handle k;
	int mount_id;

	k.h.handle_bytes = STUB_HANDLE_MAX;
	if (name_to_handle_at(fd, "", &k.h, &mount_id, AT_EMPTY_PATH) < 0)
		return -errno;
	if (k.h.handle_bytes == 0 || k.h.handle_bytes > STUB_HANDLE_MAX)
		return -EOVERFLOW;
	out->type = k.h.handle_type;
	out->len = (uint8_t)k.h.handle_bytes;
	memcpy(out->bytes, k.h.f_handle, k.h.handle_bytes);
	return 0;
}

STUB_PUBLIC bool stub_handle_equal(const struct stub_handle *a, const struct stub_handle *b)
{
	return a->type == b->type && a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

/* FNV-1a over 32 bits, of type and bytes: changes with the inode's generation.  Records
 * hold it, and whatever keeps handles in a table may use it. */
STUB_PUBLIC uint32_t stub_handle_sum(const struct stub_handle *h)
{
	uint32_t x = 2166136261u;

	x = (x ^ (uint32_t)h->type) * 16777619u;
	for (unsigned int i = 0; i < h->len; i++)
		x = (x ^ h->bytes[i]) * 16777619u;
	return x;
}

/* ext4 says ENOMEM of a handle whose inode number another inode is just being made with (Linux
 * since 4.19: it meets what nobody may have yet).  A moment later it says what is true. */
static int open_at(int mount_fd, union kernel_handle *k, int flags)
{
	const struct timespec moment = { 0, 1000000 };
	int fd;

	for (int i = 0;; i++) {
		fd = open_by_handle_at(mount_fd, &k->h, flags);
		if (fd >= 0 || errno != ENOMEM || i == BEING_MADE_TRIES)
			return fd;
		nanosleep(&moment, NULL);
	}
}

STUB_PUBLIC int stub_handle_open_at(int mount_fd, const struct stub_handle *h, int flags)
{
	union kernel_handle k;
	int fd;

	if (h->len == 0 || h->len > STUB_HANDLE_MAX)
		return -EINVAL;
	k.h.handle_type = h->type;
	k.h.handle_bytes = h->len;
	memcpy(k.h.f_handle, h->bytes, h->len);
	fd = open_at(mount_fd, &k, flags | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	return fd;
}

int stub_handle_open(const struct stub_volume *v, const struct stub_handle *h, int flags)
{
	return stub_handle_open_at(v->fd, h, flags);
}
