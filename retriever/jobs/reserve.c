/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reserve.c - room on the volume that is kept for removals.
 *
 * People make room by removing, and in an unlisted directory a name that the old server
 * has can only be removed after the directory is listed, which takes room.  So a little is
 * held by .postcopy/reserve, and released for such a listing alone when the volume is full.
 * It is taken back as soon as there is room again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "jobs/reserve.h"
#include "stubcore.h"

#define NAME "reserve"
#define AGAIN_MS 2000 /* between two tries to have it */
#define MOST (64u << 20)
#define PART 64 /* of the file system, at most */

static int reserve_open(const struct reserve *r, int flags)
{
	return openat(r->dir_fd, NAME, flags | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static uint64_t reserved(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

/* Reserve the room, if it is not yet.  True: it is reserved.  It is left to others if they
 * would have less than as much. */
static bool keep(const struct reserve *r)
{
	int fd = reserve_open(r, O_CREAT);
	struct statvfs fs;
	uint64_t want;
	bool kept = false;

	if (fd < 0)
		return false;
	if (fstatvfs(fd, &fs) == 0) {
		want = (uint64_t)fs.f_blocks * fs.f_frsize / PART;
		want = want > MOST ? MOST : want;
		kept = reserved(fd) >= want || ((uint64_t)fs.f_bavail * fs.f_frsize >= 2 * want &&
					    fallocate(fd, 0, 0, (off_t)want) == 0);
	}
	close(fd);
	return kept;
}

static void *reserve_thread(void *arg)
{
	struct reserve *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		r->lacking = !keep(r);
		if (r->lacking)
			stub_cond_wait_until(&r->wake, &r->lock, stub_now_ms() + AGAIN_MS);
		else
			pthread_cond_wait(&r->wake, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

int reserve_start(struct reserve *r, int volume_fd)
{
	int error;

	pthread_mutex_init(&r->lock, NULL);
	stub_cond_init(&r->wake);
	r->dir_fd = openat(volume_fd, STUB_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r->dir_fd < 0)
		return -errno;
	error = pthread_create(&r->thread, NULL, reserve_thread, r);
	if (error) {
		close(r->dir_fd);
		return -error;
	}
	r->started = true;
	return 0;
}

void reserve_stop(struct reserve *r)
{
	if (!r->started)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	close(r->dir_fd);
	r->started = false;
}

bool reserve_release(struct reserve *r)
{
	bool some = false;
	int fd;

	pthread_mutex_lock(&r->lock);
	fd = reserve_open(r, 0);
	if (fd >= 0) {
		/* synced: some file systems give freed blocks out again only after that */
		some = reserved(fd) > 0 && ftruncate(fd, 0) == 0 && fsync(fd) == 0;
		close(fd);
	}
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	return some;
}
