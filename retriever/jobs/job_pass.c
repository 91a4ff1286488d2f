/* SPDX-License-Identifier: GPL-3.0-or-later */
/* job_pass.c - PASS: data that the new volume does not take (full.h) goes on without being stored. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jobs/jobs_internal.h"

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
	job->pass_fd = full_find(&j->full, &job->h, job->block, job->length);
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
	atomic_fetch_add(&j->n.passed, job->length);
	full_keep(&j->full, &job->h, job->block, job->length, fd);
	job->pass_fd = fd;
	return 0;
}

void jobs_forget_passed(struct jobs *j)
{
	full_forget(&j->full);
}
