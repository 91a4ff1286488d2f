/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * resolve.c - the ways out for a parked object that only an administrator can choose.
 *
 * theirs: the old server's present version, from its beginning.  The record becomes a
 * dummy's again, of that version: one step, made durable, the only one backwards.  What
 * relies on a map that never grows must not meet it:
 *   - a READ of the version before is still on its way: stub_fill_data() compares the
 *     versions and stores nothing;
 *   - a commit or fold that began before: it compares them too, and folds nothing;
 *   - a reader has looked at the map, and not read yet.  It finds the bytes of the
 *     version before: they are overwritten in place and never punched (STUB_FLAG_OVER).
 *
 * here: what lies here is the file, and nothing is missing any more.
 *
 * The decision is written down first: the caller's note() is called in the exclusion.
 */
#include <fcntl.h>

#include "internal.h"

#define BLOCK 4096

/* May all that is here be given up for @attr?  Only if the change time is still the old
 * server's: every bracket of a client moves it.  (If it was in the future there it never was
 * the old server's (stage.c), and nothing is given up.) */
static int may_give_up(const struct stub_record *rec, const struct stat *st,
		       const struct stub_attr *attr)
{
	bool same = attr->fsid == rec->fsid && attr->fileid == rec->fileid;

	if ((attr->mode & S_IFMT) != (st->st_mode & S_IFMT))
		return -ESTALE;
	if (attr->size > INT64_MAX)
		return -EBADMSG;
	if (!same && (rec->flags & STUB_FLAG_LINKS))
		return -EMLINK;
	if (rec->flags & STUB_FLAG_DUMMY)
		return 0;
	if (S_ISREG(st->st_mode) && rec->now.n == 0)
		return -ENOENT;
	if (!S_ISREG(st->st_mode))
		return -EISDIR;
	return stub_time_cmp(rec->ctime, rec->src_ctime) == 0 ? 0 : -EBUSY;
}

/* Stored, and on the disk before anything of the new version is. */
static int store_synced(struct stub_volume *v, const struct stub_object *o,
			struct stub_record *rec)
{
	int r = stub_record_store(v, o->fd, rec);

	if (r == 0 && fsync(o->fd) < 0) {
		r = -errno;
		stub_volume_new_era(v);
	}
	return r;
}

/* Is any byte of it here that somebody may be reading? */
static bool has_some(const struct stub_record *rec, const struct stat *st)
{
	return !(rec->flags & STUB_FLAG_DUMMY) &&
	       stub_map_bytes(&rec->now) < (uint64_t)st->st_size;
}

STUB_PUBLIC int stub_resolve_theirs(struct stub_volume *v, const struct stub_object *o,
				    const struct stub_attr *attr, stub_resolve_fn note, void *arg)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	uint64_t ino;
	int r = rec ? stub_lock_record(v, o, &ino, &st, rec) : -ENOMEM;

	if (r < 0)
		return r;
	r = may_give_up(rec, &st, attr);
	if (r == 0)
		r = note(arg, &rec->now);
	if (r == 0) {
		if (has_some(rec, &st))
			rec->flags |= STUB_FLAG_OVER;
		rec->flags |= STUB_FLAG_DUMMY;
		rec->boot = stub_volume_boot(v);
		rec->fsid = attr->fsid;
		rec->fileid = attr->fileid;
		rec->size = stub_size_kept(attr);
		rec->src_mtime = attr->mtime;
		rec->src_ctime = attr->ctime;
		stub_map_init(&rec->now, S_ISREG(st.st_mode) ? rec->size : 0);
		stub_map_copy(&rec->durable, &rec->now);
		r = store_synced(v, o, rec);
		stub_digest_forget(v, ino);
		if (r == 0) /* nothing local counts any more (local.c) */
			r = stub_times_restore(o->fd, rec);
	}
	stub_unlock(&v->locks, &ino, 1);
	if (r == 0)
		stub_news_post(v, &o->h, STUB_NEWS_ATTRS);
	return r;
}

/* Of a file system that calls holes data (CephFS): a block of zeros may be one.  -ENODATA */
static int no_zeros(int fd, uint64_t from, uint64_t to)
{
	char block[BLOCK];

	while (from < to) {
		ssize_t n = pread(fd, block, to - from < BLOCK ? to - from : BLOCK, (off_t)from);

		if (n < 0)
			return -errno;
		if (stub_is_zero(block, (size_t)n)) /* or none is there */
			return -ENODATA;
		from += (uint64_t)n;
	}
	return 0;
}

/* Has somebody written, around the servers, all that is missing?  A missing range has nothing
 * local (clear.c): if it has no hole it was written. */
static int is_here(int fd, const struct stub_map *missing, bool holes_are_told)
{
	int r = 0;

	for (uint32_t i = 0; i < missing->n && r == 0; i++) {
		off_t hole = lseek(fd, (off_t)missing->r[i].start, SEEK_HOLE);

		if (hole < 0 || (uint64_t)hole < missing->r[i].end)
			r = -ENODATA;
		else if (!holes_are_told)
			r = no_zeros(fd, missing->r[i].start, missing->r[i].end);
	}
	return r;
}

static int here_store(struct stub_volume *v, const struct stub_object *o, const struct stat *st,
		      struct stub_record *rec)
{
	struct timespec now;

	/* what was written is on the disk before the record says so */
	if (fsync(o->fd) < 0) {
		int r = -errno;

		stub_volume_new_era(v);
		return r;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	rec->flags &= (uint16_t)~(STUB_FLAG_DUMMY | STUB_FLAG_OVER);
	rec->now.n = rec->durable.n = 0;
	rec->mtime = st->st_mtim;
	if (stub_time_cmp(rec->ctime, now) < 0) /* so that clients drop what they have cached */
		rec->ctime = now;
	return stub_record_store(v, o->fd, rec);
}

STUB_PUBLIC int stub_resolve_here(struct stub_volume *v, const struct stub_object *o, bool lost,
				  stub_resolve_fn note, void *arg)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	uint64_t ino;
	int r = rec ? stub_lock_record(v, o, &ino, &st, rec) : -ENOMEM;

	if (r < 0)
		return r;
	if (!lost && (rec->flags & (STUB_FLAG_DUMMY | STUB_FLAG_UNLISTED | STUB_FLAG_REFUSED)))
		r = -ENODATA;
	if (r == 0 && (rec->flags & STUB_FLAG_DUMMY) && S_ISREG(st.st_mode))
		stub_map_init(&rec->now, (uint64_t)st.st_size);
	if (r == 0 && !lost)
		r = is_here(o->fd, &rec->now, !v->only_named);
	if (r == 0)
		r = note(arg, &rec->now);
	if (r == 0)
		r = here_store(v, o, &st, rec);
	stub_unlock(&v->locks, &ino, 1);
	if (r == 0)
		stub_news_post(v, &o->h, STUB_NEWS_ATTRS);
	return r;
}
