/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * fill.c - attributes and bytes of the old server go into a stub.
 *
 * Invariant 2 (docs/design.md), never old over new: under the inode's exclusion the record
 * is read again, and bytes are written where it still says "missing" and the file still
 * reaches, nowhere else.  A range is marked present only after its bytes are in.
 * Fetching happens before, without any lock: what a client wrote, truncated or
 * punched meanwhile is no longer in the map and is left alone.
 *
 * What was changed around the servers is not written to at all (local.c).
 *
 * Blocks of zeros are not written: a file with holes over there costs here what its data
 * needs.  A block that is missing as a whole has nothing local once clear.c was there,
 * and the file has its size.  So a range of which the old server says that it has no data is
 * marked present in one step, whatever its length (stub_fill_hole).
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "internal.h"

static int attr_same_object(const struct stub_object *o, const struct stub_attr *a)
{
	if ((a->mode & S_IFMT) != o->type || a->fsid != o->fsid || a->fileid != o->fileid)
		return -ESTALE;
	if (a->uid == UINT32_MAX || a->gid == UINT32_MAX || a->size > INT64_MAX)
		return -EBADMSG;
	return 0;
}

/* What clients are shown: the old server's, and what they did to the names before it was known. */
static uint32_t names_shown(const struct stub_record *rec, const struct stub_attr *a)
{
	int64_t nlink = (int64_t)a->nlink + rec->nlink_shown - rec->nlink;

	return nlink < 0 ? 0 : nlink > UINT32_MAX ? UINT32_MAX : (uint32_t)nlink;
}

static int attr_store(struct stub_volume *v, const struct stub_object *o,
		      const struct stub_attr *a, const struct timespec *times,
		      const struct stub_xattr *x, size_t n, size_t *bad, struct stub_record *rec)
{
	struct timespec own[2] = { a->atime, a->mtime }, now;
	int r;

	if (fchown(o->fd, a->uid, a->gid) < 0 || fchmod(o->fd, stub_mode_at_first(a, x, n)) < 0)
		return -errno;
	r = stub_xattrs_store(v, o->fd, x, n, bad);
	if (r < 0)
		return r;
	if (o->type == S_IFREG) {
		if (ftruncate(o->fd, (off_t)a->size) < 0)
			return errno == EFBIG ? -EBADMSG : -errno;
		rec->size = a->size;
		stub_map_init(&rec->now, a->size);
		stub_map_copy(&rec->durable, &rec->now);
	}
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (!times)
		times = own;
	rec->src_mtime = a->mtime;
	rec->mtime = times[1];
	rec->src_ctime = a->ctime;
	rec->ctime = stub_time_cmp(a->ctime, now) > 0 ? now : a->ctime;
	rec->nlink_shown = names_shown(rec, a);
	rec->nlink = a->nlink;
	rec->flags &= (uint16_t)~STUB_FLAG_DUMMY;
	if (futimens(o->fd, times) < 0)
		return -errno;
	return stub_record_store(v, o->fd, rec);
}

/* -EBUSY: somebody has changed it around the servers. */
static int check_local(const struct stub_volume *v, const struct stub_object *o,
		       const struct stat *st, const struct stub_record *rec)
{
	int r = S_ISREG(st->st_mode) ? stub_changed_locally(v, o->fd, st, rec) : 0;

	return r > 0 ? -EBUSY : r;
}

/* Something failed: set the write time back to @was, which clients are shown. */
static void times_back(struct stub_volume *v, int fd, struct timespec was)
{
	struct timespec t[2] = { { 0, UTIME_OMIT }, was };
	struct stat st;

	if (fstat(fd, &st) == 0 && stub_time_cmp(st.st_mtim, was) == 0)
		return;
	if (utimensat(fd, "", t, AT_EMPTY_PATH) < 0)
		stub_local_forget(v);
}

STUB_PUBLIC int stub_fill_attr_and(struct stub_volume *v, const struct stub_object *o,
				   const struct stub_attr *attr, const struct timespec *times,
				   const struct stub_xattr *x, size_t n, size_t *bad,
				   int (*place)(void *arg), void *arg)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct timespec was;
	struct stat st;
	size_t at = n;
	uint64_t ino;
	bool filled = false;
	int r;

	if (bad)
		*bad = n;
	if (!rec)
		return -ENOMEM;
	r = attr_same_object(o, attr);
	if (r == 0)
		r = stub_lock_record(v, o, &ino, &st, rec);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (rec->flags & STUB_FLAG_DUMMY)
		r = check_local(v, o, &st, rec);
	if (r == 0 && (rec->flags & STUB_FLAG_DUMMY)) {
		was = rec->mtime;
		r = place ? place(arg) : 0;
		if (r == 0)
			r = attr_store(v, o, attr, times, x, n, &at, rec);
		if (r < 0)
			times_back(v, o->fd, was);
		filled = r == 0;
	}
	if (bad && r < 0)
		*bad = at;
	stub_unlock(&v->locks, &ino, 1);
	if (filled)
		stub_news_post(v, &o->h, STUB_NEWS_ATTRS);
	return r == -ENOENT ? 0 : r;
}

STUB_PUBLIC int stub_fill_attr(struct stub_volume *v, const struct stub_object *o,
			       const struct stub_attr *attr, const struct timespec *times,
			       const struct stub_xattr *x, size_t n, size_t *bad)
{
	return stub_fill_attr_and(v, o, attr, times, x, n, bad, NULL, NULL);
}

STUB_PUBLIC int stub_object_move(struct stub_volume *v, struct stub_object *o,
				 const struct stub_origin *origin)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	uint64_t ino;
	int r;

	if (!rec)
		return -ENOMEM;
	r = stub_lock_record(v, o, &ino, &st, rec);
	if (r < 0)
		return r;
	rec->origin = *origin;
	r = stub_record_store(v, o->fd, rec);
	stub_unlock(&v->locks, &ino, 1);
	if (r == 0)
		o->origin = *origin;
	return r;
}

/* Write @part but for its blocks of zeros: whole ones, and the file's last. */
static int write_sparse(int fd, const struct stat *st, struct stub_range part, const char *data)
{
	uint64_t block = (uint64_t)st->st_blksize, from = part.start, at = from, next;
	int r = 0;

	for (; at < part.end && r == 0; at = next) {
		next = at - at % block + block;
		if (next > part.end)
			next = part.end;
		if (at % block || (next % block && next < (uint64_t)st->st_size) ||
		    !stub_is_zero(data + (at - part.start), next - at))
			continue;
		r = stub_io_pwrite(fd, data + (from - part.start), at - from, from);
		from = next;
	}
	return r < 0 ? r : stub_io_pwrite(fd, data + (from - part.start), part.end - from, from);
}

static int write_zeros(int fd, uint64_t from, uint64_t end)
{
	static const char zeros[4096];
	size_t n;
	int r = 0;

	for (; from < end && r == 0; from += n) {
		n = end - from < sizeof(zeros) ? (size_t)(end - from) : sizeof(zeros);
		r = stub_io_pwrite(fd, zeros, n, from);
	}
	return r;
}

/* @part is to read as zeros, and its whole blocks do: write the rest of it. */
static int write_edges(int fd, const struct stat *st, struct stub_range part)
{
	uint64_t block = (uint64_t)st->st_blksize;
	uint64_t first = (part.start + block - 1) / block * block;
	uint64_t last = part.end - part.end % block;
	int r;

	if (part.end >= (uint64_t)st->st_size) /* the last block as a whole, too */
		last = part.end;
	if (first >= last)
		return write_zeros(fd, part.start, part.end);
	r = write_zeros(fd, part.start, first);
	return r < 0 ? r : write_zeros(fd, last, part.end);
}

/* Nothing but zeros is missing in [offset, end). */
static int leave_hole(const struct stub_object *o, const struct stat *st,
		      const struct stub_record *rec, uint64_t offset, uint64_t end)
{
	struct stub_range part;
	int r = 0;

	while (r == 0 && stub_map_first(&rec->now, offset, end, &part)) {
		r = write_edges(o->fd, st, part);
		offset = part.end;
	}
	return r;
}

/*
 * Write the parts of [offset, offset+length) that are missing.  What is zeros over there
 * stays a hole here, where it is certain that it reads as zeros.  @data NULL: all of it is.
 */
static int write_missing(const struct stub_object *o, const struct stat *st,
			 const struct stub_record *rec, uint64_t offset, const char *data,
			 uint64_t length)
{
	int r, clear = stub_missing_clear(o->fd, st, rec, offset, offset + length);
	struct stub_range part;
	uint64_t at = offset;

	if (clear < 0)
		return clear;
	if (!data)
		return clear ? leave_hole(o, st, rec, offset, offset + length) : -EOPNOTSUPP;
	while (stub_map_first(&rec->now, at, offset + length, &part)) {
		const char *bytes = data + (part.start - offset);

		r = clear ? write_sparse(o->fd, st, part, bytes) :
			    stub_io_pwrite(o->fd, bytes, part.end - part.start, part.start);
		if (r < 0)
			return r;
		at = part.end;
	}
	return 0;
}

/* Take [offset, end) out of the map.  -E2BIG: the record has no room for what is left. */
static int take_out(struct stub_record *rec, uint64_t offset, uint64_t end)
{
	struct stub_map now;

	stub_map_copy(&now, &rec->now);
	if (stub_map_subtract(&now, offset, end) < 0)
		return -E2BIG;
	if (now.n > rec->now.n && !stub_record_fits(rec, &now))
		return -E2BIG;
	stub_map_copy(&rec->now, &now);
	return 0;
}

/* Are the bytes fetched for @o of the version that the record wants? */
static bool same_version(const struct stub_object *o, const struct stub_record *rec)
{
	return o->size == rec->size && stub_time_cmp(o->mtime, rec->src_mtime) == 0 &&
	       stub_time_cmp(o->ctime, rec->src_ctime) == 0;
}

/* What is put into [offset, end) of a file, where it is missing there. */
struct put {
	/* Does it, and takes what is there now out of the record's map. */
	int (*fn)(const struct put *p, const struct stub_object *o, const struct stat *st,
		  struct stub_record *rec);
	uint64_t offset, end;
	const char *data; /* of put_data(); NULL: zeros */
	int from;	  /* of put_clone() */
};

static int put_data(const struct put *p, const struct stub_object *o, const struct stat *st,
		    struct stub_record *rec)
{
	int r = write_missing(o, st, rec, p->offset, p->data, p->end - p->offset);

	if (r == -EBADF) /* stub_object_open() could open it for reading only */
		return -EROFS;
	return r < 0 ? r : take_out(rec, p->offset, p->end);
}

/* Under the exclusion; something is missing in the range.  Who was here before us, around the
 * servers, is known by the write time alone: nothing is set back before that was looked at. */
static int put(struct stub_volume *v, const struct stub_object *o, const struct stat *st,
	       struct stub_record *rec, const struct put *p)
{
	int times, r = check_local(v, o, st, rec);

	if (r < 0)
		return r;
	r = p->fn(p, o, st, rec);
	times = stub_times_restore(o->fd, rec);
	if (times < 0)
		stub_local_forget(v);
	if (r == 0)
		r = times;
	if (r == 0) /* a whole file need not be folded: the finisher syncs it */
		r = rec->now.n ? stub_record_store_lagging(v, o->fd, &o->h, rec) :
				 stub_record_store_fitting(v, o->fd, &o->h, rec);
	return r;
}

static int64_t fill(struct stub_volume *v, const struct stub_object *o, const struct put *p,
		    struct stub_map *left)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	uint64_t ino;
	int64_t r;

	if (left)
		left->n = 0;
	if (!rec)
		return -ENOMEM;
	r = stub_lock_record(v, o, &ino, &st, rec);
	if (r < 0)
		return r;
	if (rec->flags & STUB_FLAG_DUMMY || !same_version(o, rec))
		r = -EAGAIN;
	if (r == 0 && stub_map_overlaps(&rec->now, p->offset, p->end))
		r = put(v, o, &st, rec, p);
	if (r == 0 && left)
		stub_map_copy(left, &rec->now);
	if (r == 0)
		r = (int64_t)stub_map_bytes(&rec->now);
	stub_unlock(&v->locks, &ino, 1);
	return r;
}

STUB_PUBLIC int64_t stub_fill_data(struct stub_volume *v, const struct stub_object *o,
				   uint64_t offset, const void *data, size_t length)
{
	return stub_fill_data_left(v, o, offset, data, length, NULL);
}

STUB_PUBLIC int64_t stub_fill_data_left(struct stub_volume *v, const struct stub_object *o,
					uint64_t offset, const void *data, size_t length,
					struct stub_map *left)
{
	struct put p = { .fn = put_data, .offset = offset, .end = offset + length, .data = data };

	return fill(v, o, &p, left);
}

STUB_PUBLIC int64_t stub_fill_hole(struct stub_volume *v, const struct stub_object *o,
				   uint64_t offset, uint64_t end)
{
	struct put p = { .fn = put_data, .offset = offset, .end = end };

	return end < offset || end > INT64_MAX ? -EINVAL : fill(v, o, &p, NULL);
}

/* ---- blocks shared with a file of the same file system ---- */

/* Is the file @from of the version that is wanted? */
static int check_from(int from, const struct stub_record *rec)
{
	struct stat st;

	if (fstat(from, &st) < 0)
		return -errno;
	return (uint64_t)st.st_size == rec->size && stub_time_cmp(st.st_mtim, rec->src_mtime) == 0 ?
		       0 :
		       -ESTALE;
}

static int clone_error(int error)
{
	switch (error) {
	case EXDEV:
	case EOPNOTSUPP:
	case ENOTTY:
		return -EXDEV;
	case EINVAL:
	case EPERM:
	case ETXTBSY:
		return -EOPNOTSUPP;
	default:
		return -error;
	}
}

/* Share the whole blocks of @part, and the last one if both files end in it; *part becomes what was
 * shared.  1; 0: there are none. */
static int clone_part(int fd, const struct stat *st, int from, uint64_t size, struct stub_range *part)
{
	uint64_t block = (uint64_t)st->st_blksize;
	struct file_clone_range c = { .src_fd = from };

	part->start = (part->start + block - 1) / block * block;
	if (part->end != size || (uint64_t)st->st_size != size)
		part->end -= part->end % block;
	if (part->start >= part->end)
		return 0;
	c.src_offset = c.dest_offset = part->start;
	c.src_length = part->end - part->start;
	return ioctl(fd, FICLONERANGE, &c) < 0 ? clone_error(errno) : 1;
}

/* Share what is missing, then take it out of the map.  The version is looked at
 * after the sharing, too: what came between stays missing. */
static int put_clone(const struct put *p, const struct stub_object *o, const struct stat *st,
		     struct stub_record *rec)
{
	struct stub_map got = { .n = 0 };
	uint64_t next, offset = p->offset;
	struct stub_range part;
	int r = check_from(p->from, rec);

	for (; r >= 0 && stub_map_first(&rec->now, offset, p->end, &part); offset = next) {
		next = part.end;
		r = clone_part(o->fd, st, p->from, rec->size, &part);
		if (r > 0)
			got.r[got.n++] = part;
	}
	if (r >= 0)
		r = check_from(p->from, rec);
	for (uint32_t i = 0; i < got.n && r == 0; i++)
		r = take_out(rec, got.r[i].start, got.r[i].end);
	return r;
}

STUB_PUBLIC int64_t stub_fill_clone(struct stub_volume *v, const struct stub_object *o, int from,
				    uint64_t offset, uint64_t end, struct stub_map *left)
{
	struct put p = { .fn = put_clone, .offset = offset, .end = end, .from = from };

	return fill(v, o, &p, left);
}

STUB_PUBLIC int stub_fill_next(struct stub_volume *v, const struct stub_object *o, uint64_t offset,
			       struct stub_range *out)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	int r;

	if (!rec)
		return -ENOMEM;
	r = stub_record_load(v, o->fd, &o->h, &st, rec);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	return stub_map_first(&rec->now, offset, UINT64_MAX, out);
}

STUB_PUBLIC int stub_fill_room(struct stub_volume *v, const struct stub_object *o, uint64_t bytes,
			       struct stub_map *out)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	int r;

	out->n = 0;
	if (!rec)
		return -ENOMEM;
	r = stub_record_load(v, o->fd, &o->h, &st, rec);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	stub_map_smallest(&rec->now, STUB_MAP_ROOM, bytes, out);
	return (int)rec->now.n;
}
