/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_pass.c - the new volume takes nothing: full, over quota, read-only, broken.
 *
 * Objects stay stubs then.  What a client reads meanwhile is passed on without being
 * stored (PASS, docs/decisions/0007), what the crawler asks for is answered with the
 * error, and tried again.  No space and read-only are states of the whole volume: for
 * HOLD_MS after one nothing is fetched to be stored, since it would be thrown away.
 *
 * A PASS is kept for a while after its answer: a client that was told to come again
 * because the source is slow finds it then.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "jobs/jobs_internal.h"

#define HOLD_MS 1000
#define KEEP_MS 10000

/* ---- books ---- */

static bool is_whole_volume(int error)
{
	return error == -ENOSPC || error == -EROFS;
}

int jobs_store_failed(struct jobs *j, const struct stub_handle *h, int error, const char *what)
{
	uint64_t now = stub_now_ms();
	char own[160];

	if (error == -E2BIG || error == -EOVERFLOW) { /* its own: how full the volume is says nothing */
		snprintf(own, sizeof(own), "%s: its attributes do not fit beside each other", what);
		return jobs_failed(j, h, error, own);
	}
	if (error != -ENOSPC && error != -EDQUOT && error != -EROFS && error != -EIO)
		return jobs_failed(j, h, error, what);
	pthread_mutex_lock(&j->full.lock);
	if (!j->full.error)
		j->full.since_ms = now;
	j->full.error = -error;
	if (is_whole_volume(error))
		j->full.until_ms = now + HOLD_MS;
	pthread_mutex_unlock(&j->full.lock);
	if (error == -EIO) { /* one of the object's own, perhaps: it counts as a try */
		jobs_blame(j, h, error, what);
		return -EIO;
	}
	if (jobs_may_warn(j))
		jobs_log(j, STUB_LOG_WARN,
			 "%s: the new volume takes no data (%s); objects stay stubs, reads are passed on",
			 what, strerror(-error));
	return error;
}

void jobs_stored(struct jobs *j)
{
	bool over;

	if (!atomic_load(&j->full.error))
		return;
	pthread_mutex_lock(&j->full.lock);
	over = j->full.error != 0;
	j->full.error = 0;
	j->full.until_ms = 0;
	pthread_mutex_unlock(&j->full.lock);
	if (over)
		jobs_log(j, STUB_LOG_INFO, "the new volume takes data again");
}

int jobs_full_now(struct jobs *j)
{
	int r = 0;

	if (!atomic_load(&j->full.error))
		return 0;
	pthread_mutex_lock(&j->full.lock);
	if (stub_now_ms() < j->full.until_ms)
		r = -atomic_load(&j->full.error);
	pthread_mutex_unlock(&j->full.lock);
	return is_whole_volume(r) ? r : 0;
}

void jobs_full_stats(struct jobs *j, struct jobs_stats *out)
{
	pthread_mutex_lock(&j->full.lock);
	out->store_error = atomic_load(&j->full.error);
	out->store_error_ms = out->store_error ? stub_now_ms() - j->full.since_ms : 0;
	pthread_mutex_unlock(&j->full.lock);
	out->passed = atomic_load(&j->passed);
}

/* ---- what was passed lately ---- */

static bool kept_is(const struct kept *k, const struct job *job)
{
	return k->fd >= 0 && k->offset == job->block && k->length == job->length &&
	       stub_handle_equal(&k->h, &job->h);
}

static void kept_drop(struct kept *k)
{
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

/* A descriptor of the caller's own, or -1. */
static int kept_find(struct jobs *j, const struct job *job)
{
	uint64_t now = stub_now_ms();
	int fd = -1;

	pthread_mutex_lock(&j->full.lock);
	for (unsigned int i = 0; i < KEPT_MAX; i++) {
		struct kept *k = &j->full.kept[i];

		if (k->fd >= 0 && now - k->at_ms > KEEP_MS)
			kept_drop(k);
		if (kept_is(k, job))
			fd = fcntl(k->fd, F_DUPFD_CLOEXEC, 0);
	}
	pthread_mutex_unlock(&j->full.lock);
	return fd;
}

static void keep(struct jobs *j, const struct job *job, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct kept *k;

	if (copy < 0)
		return;
	pthread_mutex_lock(&j->full.lock);
	k = &j->full.kept[j->full.next_kept++ % KEPT_MAX];
	kept_drop(k);
	*k = (struct kept){ .h = job->h,
			    .offset = job->block,
			    .length = job->length,
			    .at_ms = stub_now_ms(),
			    .fd = copy };
	pthread_mutex_unlock(&j->full.lock);
}

void jobs_full_init(struct jobs *j)
{
	pthread_mutex_init(&j->full.lock, NULL);
	for (unsigned int i = 0; i < KEPT_MAX; i++)
		j->full.kept[i].fd = -1;
}

void jobs_full_finish(struct jobs *j)
{
	for (unsigned int i = 0; i < KEPT_MAX; i++)
		kept_drop(&j->full.kept[i]);
	pthread_mutex_destroy(&j->full.lock);
}

void jobs_forget_passed(struct jobs *j)
{
	pthread_mutex_lock(&j->full.lock);
	for (unsigned int i = 0; i < KEPT_MAX; i++)
		kept_drop(&j->full.kept[i]);
	pthread_mutex_unlock(&j->full.lock);
}

/* ---- passing ---- */

/* An empty memory file of the job's length, or -errno. */
static int make_file(const struct job *job)
{
	int fd = memfd_create("postcopy-pass", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)job->length) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd < 0 ? -errno : fd;
}

int job_pass(struct jobs *j, struct job *job, struct stub_object *o)
{
	int r, fd;

	if (o->type != S_IFREG || job->length > o->size || job->block > o->size - job->length)
		return -EINVAL;
	job->pass_fd = kept_find(j, job);
	if (job->pass_fd >= 0)
		return 0;
	fd = make_file(job);
	if (fd < 0)
		return jobs_failed(j, &job->h, fd, "memory for passing data on");
	r = job_fetch(j, job, o, job->block, job->length, fd);
	if (r == 0 && fcntl(fd, F_ADD_SEALS,
			    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		r = jobs_failed(j, &job->h, -errno, "sealing of data to pass on");
	if (r < 0) {
		close(fd);
		return r;
	}
	atomic_fetch_add(&j->passed, job->length);
	keep(j, job, fd);
	job->pass_fd = fd;
	return 0;
}
