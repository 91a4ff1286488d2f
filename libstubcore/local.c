/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * local.c - programs that write into a volume around the servers.
 *
 * Nobody stops a local program (cron, a backup, an administrator), and it knows nothing of
 * records.  Where it wrote, the record goes on saying "missing", and a fill would put the
 * old server's bytes over it.  So a fill looks first at the write time: outside of brackets
 * and fills it is what the record shows, for both set it back, or set the record, before
 * they let go of the exclusion.
 *
 * What one of ours that died left behind must not be taken for a stranger's change:
 *   - a bracket: its record was stored with room before the operation, and without after
 *     it (stub_record_rehearse); room is the sign of one that has not ended.  Whoever stores
 *     the record next sets the write time back (stub_record_load_settled);
 *   - a fill: it leaves the time of its death, which is before this process, the only one
 *     that fills now, has opened the volume, and after the volume was made;
 *   - a fill of this process that failed, and could not even set the write time back (a
 *     broken disk): from then on it is as if the volume was opened then (stub_local_forget).
 * Write times of such moments are let pass, and so are those in the future (the clock was
 * set); a stranger's change with such a time is not noticed.  A file system may store a time
 * otherwise than it was set: what is compared is the time as stored.
 */
#include <fcntl.h>

#include "internal.h"

#define NS 1000000000

void stub_local_forget(struct stub_volume *v)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	atomic_store(&v->filling_ns, (int64_t)now.tv_sec * NS + now.tv_nsec);
}

/* May a fill that died have left this? */
static bool may_be_ours(const struct stub_volume *v, const struct stat *st, bool dummy)
{
	int64_t ns = atomic_load(&v->filling_ns);
	struct timespec now, filling = { ns / NS, ns % NS };
	struct timespec made = { .tv_sec = (time_t)v->info.created };

	clock_gettime(CLOCK_REALTIME, &now);
	if (stub_time_cmp(st->st_mtim, now) > 0)
		return true;
	if (stub_time_cmp(st->st_mtim, filling) > 0)
		return false;
	/* of a dummy also times before that: filling attributes sets the old server's */
	return dummy || stub_time_cmp(st->st_mtim, made) >= 0;
}

int stub_changed_locally(const struct stub_volume *v, int fd, const struct stat *st,
			 const struct stub_record *rec)
{
	struct timespec back[2] = { { 0, UTIME_OMIT }, st->st_mtim };
	struct stat as_stored;
	int r;

	if (stub_time_cmp(st->st_mtim, rec->mtime) == 0 ||
	    may_be_ours(v, st, rec->flags & STUB_FLAG_DUMMY))
		return 0;
	r = stub_times_restore(fd, rec);
	if (r == 0 && fstat(fd, &as_stored) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if (stub_time_cmp(as_stored.st_mtim, st->st_mtim) == 0)
		return 0;
	/* put the change back, so that the next look finds it too */
	return utimensat(fd, "", back, AT_EMPTY_PATH) < 0 ? -errno : 1;
}
