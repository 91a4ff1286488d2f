/* SPDX-License-Identifier: GPL-3.0-or-later */
/* job_whole.h - small files that come with their directory's listing: job_whole.c */
#ifndef JOB_WHOLE_H
#define JOB_WHOLE_H

#include "jobs/jobs_internal.h"

struct whole; /* of one listing; its worker's */

/* NULL: nothing is made whole in this listing. */
struct whole *jobs_whole_begin(struct jobs *j, struct job *job, const struct stub_object *dir);
void jobs_whole_end(struct whole *w, struct job *job);

/* May the next batch be fetched? */
bool jobs_whole_wanted(const struct whole *w);
/* Fetch the bytes of what is small of @e[0..n): returns of how many entries from the first on the
 * batch is, and *out is for stub_list_whole(); jobs_whole_made() follows. */
size_t jobs_whole_fetch(struct whole *w, int dir_fd, const struct stub_entry *e, size_t n,
			struct stub_whole *out);
void jobs_whole_made(struct whole *w, const struct stub_whole *batch);

#endif
