/* SPDX-License-Identifier: GPL-3.0-or-later */
/* job_look.c - what is seen of an object: has it changed over there, and how it is shown. */
#include <inttypes.h>
#include <stdio.h>

#include "jobs/jobs_internal.h"

int jobs_changed(const struct stub_object *o, const struct stub_attr *a, char *why, size_t size)
{
	if ((a->mode & S_IFMT) != o->type || a->fileid != o->fileid || a->fsid != o->fsid)
		snprintf(why, size, "replaced on the old server: file id %" PRIu64 " -> %" PRIu64,
			 o->fileid, a->fileid);
	else if (a->size != o->size)
		snprintf(why, size, "changed on the old server: size %" PRIu64 " -> %" PRIu64
			 " bytes", o->size, a->size);
	else if (a->mtime.tv_sec != o->mtime.tv_sec || a->mtime.tv_nsec != o->mtime.tv_nsec)
		snprintf(why, size, "changed on the old server: mtime %lld.%09ld -> %lld.%09ld",
			 (long long)o->mtime.tv_sec, o->mtime.tv_nsec,
			 (long long)a->mtime.tv_sec, a->mtime.tv_nsec);
	else
		return 0;
	return 1;
}

bool jobs_touched(const struct stub_object *o, const struct stub_attr *a)
{
	return a->ctime.tv_sec != o->ctime.tv_sec || a->ctime.tv_nsec != o->ctime.tv_nsec;
}
