/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * lock.c - one holder per inode, across threads and processes.
 *
 * Between processes: OFD locks on .postcopy/lock, where byte N stands for inode
 * number N.  The kernel drops them when a process dies.  They are on a file of
 * our own because clients' byte-range locks live on theirs.
 * Between threads: OFD locks of one open file do not exclude each other, so a
 * thread first takes one of STUB_LOCK_SHARDS mutexes, chosen by inode number.
 *
 * Order, the same in every process: by (shard, inode number).  Two callers that
 * lock several inodes therefore never wait for each other in a circle.
 */
#include <fcntl.h>

#include "internal.h"

static unsigned int shard_of(uint64_t ino)
{
	return (unsigned int)((ino * 0x9e3779b97f4a7c15u) >> 56) % STUB_LOCK_SHARDS;
}

static int by_shard(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	unsigned int sx = shard_of(x), sy = shard_of(y);

	if (sx != sy)
		return sx < sy ? -1 : 1;
	return x < y ? -1 : x > y;
}

int stub_locks_init(struct stub_locks *l, int fd)
{
	l->fd = fd;
	for (unsigned int i = 0; i < STUB_LOCK_SHARDS; i++)
		pthread_mutex_init(&l->shard[i], NULL);
	return 0;
}

void stub_locks_finish(struct stub_locks *l)
{
	for (unsigned int i = 0; i < STUB_LOCK_SHARDS; i++)
		pthread_mutex_destroy(&l->shard[i]);
}

static int ofd(struct stub_locks *l, uint64_t ino, short type)
{
	struct flock f = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(ino & INT64_MAX),
		.l_len = 1,
	};

	while (fcntl(l->fd, F_OFD_SETLKW, &f) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void unlock_first(struct stub_locks *l, const uint64_t *ino, unsigned int n)
{
	while (n-- > 0) {
		ofd(l, ino[n], F_UNLCK);
		if (n == 0 || shard_of(ino[n - 1]) != shard_of(ino[n]))
			pthread_mutex_unlock(&l->shard[shard_of(ino[n])]);
	}
}

int stub_lock(struct stub_locks *l, uint64_t *ino, unsigned int n, unsigned int *n_out)
{
	unsigned int k = 0;

	qsort(ino, n, sizeof(ino[0]), by_shard);
	for (unsigned int i = 0; i < n; i++)
		if (k == 0 || ino[i] != ino[k - 1])
			ino[k++] = ino[i];
	for (unsigned int i = 0; i < k; i++) {
		bool new_shard = i == 0 || shard_of(ino[i]) != shard_of(ino[i - 1]);
		int r;

		if (new_shard)
			pthread_mutex_lock(&l->shard[shard_of(ino[i])]);
		r = ofd(l, ino[i], F_WRLCK);
		if (r < 0) {
			if (new_shard)
				pthread_mutex_unlock(&l->shard[shard_of(ino[i])]);
			unlock_first(l, ino, i);
			return r;
		}
	}
	*n_out = k;
	return 0;
}

void stub_unlock(struct stub_locks *l, const uint64_t *ino, unsigned int n)
{
	unlock_first(l, ino, n);
}
