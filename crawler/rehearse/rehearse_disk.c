/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * rehearse_disk.c - files on the new file system: does it take them as fast as they come?
 *
 * They never have a name, so there is nothing to remove: what has no name is gone with its last
 * descriptor, however this process ends.  A file is closed when it is on disk; until then it
 * counts, and who has another one waits when there are many.  One sync of the whole file system
 * serves all that came before it, as in a volume.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "rehearse/rehearse_inside.h"

#define HELD_FILES 512
#define HELD_BYTES (128u << 20)
#define GATHER_MS  150 /* as libstubcore/finish.c */
#define RECORD	   200 /* bytes, about as much as a stub's */

struct disk {
	int dir;
	pthread_t thread;
	pthread_mutex_t lock; /* below struct run.lock; guards the rest */
	pthread_cond_t given, synced;
	int fd[HELD_FILES];
	unsigned int n;
	uint64_t bytes; /* in these, and in those that are being synced */
	bool stop;
	int error;
};

static void close_all(int *fd, unsigned int n)
{
	while (n)
		close(fd[--n]);
}

static void *syncer(void *arg)
{
	struct disk *d = arg;
	int fd[HELD_FILES];

	pthread_mutex_lock(&d->lock);
	while (!d->stop) {
		uint64_t bytes = d->bytes;
		unsigned int n = d->n;
		int r;

		if (!n) {
			pthread_cond_wait(&d->given, &d->lock);
			continue;
		}
		memcpy(fd, d->fd, n * sizeof(fd[0]));
		d->n = 0;
		pthread_mutex_unlock(&d->lock);
		r = syncfs(d->dir) < 0 ? -errno : 0;
		close_all(fd, n);
		pthread_mutex_lock(&d->lock);
		d->bytes -= bytes;
		if (r < 0 && !d->error)
			d->error = r;
		pthread_cond_broadcast(&d->synced);
		if (!d->stop && d->n < HELD_FILES / 2 && d->bytes < HELD_BYTES / 2)
			stub_cond_wait_until(&d->given, &d->lock, stub_now_ms() + GATHER_MS);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

int disk_create(int dir, struct disk **out)
{
	struct disk *d = calloc(1, sizeof(*d));
	int fd, r;

	if (!d)
		return -ENOMEM;
	d->dir = dir;
	fd = disk_file(d);
	if (fd < 0) {
		free(d);
		return fd;
	}
	close(fd);
	pthread_mutex_init(&d->lock, NULL);
	stub_cond_init(&d->given);
	pthread_cond_init(&d->synced, NULL);
	r = -pthread_create(&d->thread, NULL, syncer, d);
	if (r < 0) {
		pthread_mutex_destroy(&d->lock);
		free(d);
		return r;
	}
	*out = d;
	return 0;
}

void disk_destroy(struct disk *d)
{
	if (!d)
		return;
	disk_stop(d);
	pthread_join(d->thread, NULL);
	close_all(d->fd, d->n);
	pthread_cond_destroy(&d->given);
	pthread_cond_destroy(&d->synced);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

int disk_file(struct disk *d)
{
	static const char record[RECORD];
	int fd = openat(d->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	/* not every file system has these, nor everybody the right; it is only about the room */
	(void)!fsetxattr(fd, "user.postcopy.rehearsal", record, sizeof(record), 0);
	return fd;
}

int disk_give(struct disk *d, int fd, uint64_t bytes)
{
	int r;

	pthread_mutex_lock(&d->lock);
	while (!d->stop && !d->error && (d->n == HELD_FILES || d->bytes >= HELD_BYTES))
		pthread_cond_wait(&d->synced, &d->lock);
	r = d->error;
	if (d->stop || r) {
		close(fd);
	} else {
		d->fd[d->n++] = fd;
		d->bytes += bytes;
		pthread_cond_signal(&d->given);
	}
	pthread_mutex_unlock(&d->lock);
	return r;
}

void disk_stop(struct disk *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_broadcast(&d->given);
	pthread_cond_broadcast(&d->synced);
	pthread_mutex_unlock(&d->lock);
}
