/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* volume.c - what all users of an open volume share. */
#include <fcntl.h>

#include "volume.h"
#include "wire.h"

uint64_t stub_boot_id(void)
{
	char text[64];

	if (stub_io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text) - 1) <= 0)
		return 0;
	return stub_fnv(STUB_FNV, text, strlen(text));
}

STUB_PUBLIC bool stub_volume_gone(const struct stub_volume *v)
{
	struct stat st;

	return fstatat(v->dir_fd, STUB_CONF, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

STUB_PUBLIC const struct stub_volume_info *stub_volume_info(const struct stub_volume *v)
{
	return &v->info;
}

STUB_PUBLIC int stub_volume_fd(const struct stub_volume *v)
{
	return v->fd;
}

STUB_PUBLIC const struct stub_handle *stub_volume_root(const struct stub_volume *v)
{
	return &v->root;
}

STUB_PUBLIC uint64_t stub_volume_root_ino(const struct stub_volume *v)
{
	return v->root_ino;
}

struct stub_ask_pool *stub_volume_pool(struct stub_volume *v)
{
	return v->pool;
}

STUB_PUBLIC bool stub_volume_complete(const struct stub_volume *v)
{
	return atomic_load_explicit(&v->state->complete, memory_order_acquire) != 0;
}

STUB_PUBLIC bool stub_volume_hides(const struct stub_volume *v, uint64_t ino)
{
	for (unsigned int i = 0; i < v->n_hidden; i++)
		if (v->hidden[i] == ino)
			return true;
	return false;
}

STUB_PUBLIC bool stub_volume_hides_name(const struct stub_volume *v, uint64_t dir_ino,
					const char *name)
{
	return dir_ino == v->root_ino && !strcmp(name, STUB_DIR);
}
