/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * object.c - records on inodes: load, store, look.
 *
 * Rules kept here for everybody:
 *   - a record counts only on the inode it was made for (docs/design.md, invariant 9).
 *     Another's is a copy of a stub: it misses what nobody can bring, and is never taken
 *     for whole (docs/decisions/0027);
 *   - after another boot, and in another era (era.c), the durable map is the truth;
 *   - a map is clipped to the file's size whenever it is loaded.  A truncate
 *     therefore needs no atomic pair: the file is cut first, the record follows,
 *     and whoever extends the file stores the clipped map before;
 *   - what has no names to come shows those that it has: a server that died between an
 *     operation and the record leaves no wrong link count.
 * Looking needs no lock: a record is replaced atomically, and a map only shrinks
 * after the bytes are there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "internal.h"

struct fd_path {
	char s[32];
};

/* xattr calls refuse O_PATH descriptors; their /proc name works for every type, but costs a walk
 * through /proc. */
static struct fd_path fd_path(int fd)
{
	struct fd_path p;

	snprintf(p.s, sizeof(p.s), "/proc/self/fd/%d", fd);
	return p;
}

static ssize_t record_read(int fd, bool o_path, void *buf, size_t size)
{
	ssize_t n = o_path ? -1 : fgetxattr(fd, STUB_XATTR, buf, size);

	if (o_path || (n < 0 && errno == EBADF))
		n = getxattr(fd_path(fd).s, STUB_XATTR, buf, size);
	if (n >= 0)
		return n;
	if (errno == ENODATA)
		return -ENOENT;
	if (errno == ERANGE)
		return -EBADMSG;
	return -errno;
}

STUB_PUBLIC int stub_marked(int fd)
{
	ssize_t n = record_read(fd, false, NULL, 0);

	return n > 0 ? 1 : n == 0 || n == -ENOENT || n == -EOPNOTSUPP ? 0 : (int)n;
}

bool stub_record_absent(int path_fd)
{
	return record_read(path_fd, true, NULL, 0) == -ENOENT;
}

/* Load without looking at the size. */
static int record_load_raw(const struct stub_volume *v, int fd, bool o_path,
			   const struct stub_handle *h, const struct stat *st,
			   struct stub_record *out)
{
	uint8_t buf[STUB_RECORD_MAX];
	uint64_t boot = stub_volume_boot(v); /* read first: the era may end while we load */
	ssize_t n = record_read(fd, o_path, buf, sizeof(buf));
	int r;

	if (n < 0)
		return (int)n;
	r = stub_record_decode(buf, (size_t)n, out);
	if (r < 0)
		return r;
	out->foreign = out->ino != st->st_ino || out->handle_sum != stub_handle_sum(h);
	if (out->foreign)
		return -EBADMSG; /* copied here from the stub that it was made for */
	if (out->boot != boot) {
		stub_map_copy(&out->now, &out->durable);
		out->boot = boot;
		out->flags &= (uint16_t)~STUB_FLAG_OVER;
	}
	return 0;
}

static int record_load(const struct stub_volume *v, int fd, bool o_path,
		       const struct stub_handle *h, struct stat *st, struct stub_record *out)
{
	int r;

	out->foreign = false;
	if (fstat(fd, st) < 0)
		return -errno;
	r = record_load_raw(v, fd, o_path, h, st, out);
	if (r == 0 && S_ISREG(st->st_mode) && !(out->flags & STUB_FLAG_DUMMY)) {
		stub_map_clip(&out->now, (uint64_t)st->st_size);
		stub_map_clip(&out->durable, (uint64_t)st->st_size);
	}
	if (r == 0 && !S_ISDIR(st->st_mode) && !(out->flags & STUB_FLAG_LINKS))
		out->nlink_shown = (uint32_t)st->st_nlink;
	return r;
}

int stub_record_load(const struct stub_volume *v, int fd, const struct stub_handle *h,
		     struct stat *st, struct stub_record *out)
{
	return record_load(v, fd, false, h, st, out);
}

int stub_record_load_path(const struct stub_volume *v, int fd, const struct stub_handle *h,
			  struct stat *st, struct stub_record *out)
{
	return record_load(v, fd, true, h, st, out);
}

int stub_record_load_at(struct stub_volume *v, const struct stub_handle *h, struct stat *st,
			struct stub_record *out)
{
	int fd CLEANUP_CLOSE = stub_handle_open(v, h, O_PATH);

	return fd < 0 ? fd : stub_record_load_path(v, fd, h, st, out);
}

int stub_lock_inode(struct stub_volume *v, int fd, uint64_t *ino, struct stat *st)
{
	unsigned int n;

	if (fstat(fd, st) < 0)
		return -errno;
	*ino = st->st_ino;
	return stub_lock(&v->locks, ino, 1, &n);
}

int stub_record_load_settled(const struct stub_volume *v, int fd, const struct stub_handle *h,
			     struct stat *st, struct stub_record *rec)
{
	int r = stub_record_load(v, fd, h, st, rec);

	if (r < 0 || !rec->roomy)
		return r;
	if (stub_time_cmp(st->st_mtim, rec->mtime) != 0) {
		r = stub_times_restore(fd, rec);
		if (r == 0 && fstat(fd, st) < 0)
			r = -errno;
	}
	rec->roomy = false;
	return r;
}

int stub_lock_record(struct stub_volume *v, const struct stub_object *o, uint64_t *ino,
		     struct stat *st, struct stub_record *rec)
{
	unsigned int n;
	int r;

	*ino = o->ino;
	r = stub_lock(&v->locks, ino, 1, &n);
	if (r < 0)
		return r;
	r = stub_record_load_settled(v, o->fd, &o->h, st, rec);
	if (r < 0)
		stub_unlock(&v->locks, ino, 1);
	return r;
}

int stub_xattr_try(int fd, const char *name, const void *value, size_t len)
{
	if (fsetxattr(fd, name, value, len, 0) == 0)
		return 0;
	if (errno == EBADF && setxattr(fd_path(fd).s, name, value, len, 0) == 0)
		return 0;
	return -errno;
}

/* Can another file store an attribute that does not fit into its inode?  The value is unique,
 * since ext4 keeps equal blocks of attributes only once. */
static bool has_room(const struct stub_volume *v)
{
	int fd CLEANUP_CLOSE = stub_scratch(v->staging_fd);
	uint8_t value[700] = { 0 };
	uint64_t now = stub_now_ms();

	memcpy(value, &now, sizeof(now));
	memcpy(value + sizeof(now), &fd, sizeof(fd));
	return fd >= 0 && fsetxattr(fd, STUB_XATTR, value, sizeof(value), 0) == 0;
}

int stub_xattr_store(const struct stub_volume *v, int fd, const char *name, const void *value,
		     size_t len)
{
	for (int tries = 0;; tries++) {
		int r = stub_xattr_try(fd, name, value, len);

		if (r != -ENOSPC || !v || !has_room(v))
			return r;
		if (tries > 0) /* twice: it is not that room has come only since the write */
			return -EOVERFLOW;
	}
}

/* A record is ours alone to write, and so is all of its namespace (invariant 9). */
static bool xattr_is_ours(const struct stub_xattr *x)
{
	return !strncmp(x->name, "trusted.", 8);
}

int stub_xattrs_store(const struct stub_volume *v, int fd, const struct stub_xattr *x, size_t n,
		      size_t *bad)
{
	int r = 0;

	for (*bad = 0; *bad < n; ++*bad, x++) {
		r = xattr_is_ours(x) ? -EBADMSG :
				       stub_xattr_store(v, fd, x->name, x->value, x->len);
		if (r < 0)
			break;
	}
	return r == -EOVERFLOW ? -E2BIG : r;
}

mode_t stub_mode_at_first(const struct stub_attr *a, const struct stub_xattr *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(x[i].name, "system.posix_acl_access"))
			return a->mode & 07700;
	return a->mode & 07777;
}

int stub_record_store(const struct stub_volume *v, int fd, const struct stub_record *r)
{
	uint8_t buf[STUB_RECORD_MAX];
	int n = stub_record_encode(r, buf, sizeof(buf));

	return n < 0 ? n : stub_xattr_store(v, fd, STUB_XATTR, buf, (size_t)n);
}

int stub_record_rehearse(const struct stub_volume *v, int fd, const struct stub_record *r)
{
	uint8_t buf[STUB_RECORD_MAX];
	int n = stub_record_encode_roomy(r, buf, sizeof(buf));

	(void)v;
	return n < 0 ? n : stub_xattr_try(fd, STUB_XATTR, buf, (size_t)n);
}

int stub_record_sync(struct stub_volume *v, const struct stub_handle *h, struct stub_record *r)
{
	int e, fd CLEANUP_CLOSE = stub_handle_open(v, h, O_RDONLY | O_NONBLOCK);

	if (fd < 0)
		return fd;
	if (fsync(fd) < 0) {
		e = -errno;
		stub_volume_new_era(v);
		return e;
	}
	if (stub_volume_boot(v) != r->boot) /* another sync has failed: all of `now` is doubtful */
		return -EAGAIN;
	stub_map_copy(&r->durable, &r->now);
	return 0;
}

int stub_record_store_fitting(struct stub_volume *v, int fd, const struct stub_handle *h,
			      struct stub_record *r)
{
	int e = stub_record_store(v, fd, r);

	if (e != -E2BIG && e != -EOVERFLOW)
		return e;
	e = stub_record_sync(v, h, r);
	return e < 0 ? e : stub_record_store(v, fd, r);
}

int stub_record_drop(int fd)
{
	if (fremovexattr(fd, STUB_XATTR) == 0)
		return 0;
	return errno == EBADF ? stub_record_drop_path(fd) : errno == ENODATA ? -ENOENT : -errno;
}

int stub_record_drop_path(int fd)
{
	if (removexattr(fd_path(fd).s, STUB_XATTR) == 0)
		return 0;
	return errno == ENODATA ? -ENOENT : -errno;
}

int stub_times_restore(int fd, const struct stub_record *r)
{
	struct timespec t[2] = { { 0, UTIME_OMIT }, r->mtime };

	return utimensat(fd, "", t, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static void view_of(const struct stub_record *r, const struct stat *st, struct stub_view *out)
{
	out->needs = stub_record_needs(r);
	out->mtime = r->mtime;
	out->ctime = r->ctime;
	out->nlink = r->nlink_shown;
	out->size = S_ISDIR(st->st_mode) ? r->size : 0;
}

static int view_fd(struct stub_volume *v, int fd, bool o_path, const struct stub_handle *h,
		   struct stub_view *out)
{
	struct stub_record rec;
	struct stat st;
	int r = record_load(v, fd, o_path, h, &st, &rec);

	memset(out, 0, sizeof(*out));
	if (r == -ENOENT)
		return 0;
	if (r == -EBADMSG && rec.foreign) {
		*out = (struct stub_view){ .needs = STUB_NEEDS_FOREIGN,
					   .mtime = st.st_mtim,
					   .ctime = st.st_ctim,
					   .nlink = (uint32_t)st.st_nlink };
		return 0;
	}
	if (r == 0)
		view_of(&rec, &st, out);
	return r;
}

STUB_PUBLIC bool stub_withheld(int error)
{
	static const int others[] = { 0,      EAGAIN, ENOMEM,	 EMFILE, ENFILE,
				      ESTALE, ENOENT, ECANCELED, EINTR };

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (error == -others[i])
			return false;
	return true;
}

STUB_PUBLIC int stub_view(struct stub_volume *v, const struct stub_handle *h, struct stub_view *out)
{
	int fd CLEANUP_CLOSE = stub_handle_open(v, h, O_PATH);

	if (fd < 0)
		return fd;
	return view_fd(v, fd, true, h, out);
}

int stub_view_path(struct stub_volume *v, int fd, const struct stub_handle *h, struct stub_view *out)
{
	return view_fd(v, fd, true, h, out);
}

STUB_PUBLIC int stub_view_fd(struct stub_volume *v, int fd, struct stub_view *out)
{
	struct stub_handle h;
	int r = stub_handle_of_fd(fd, &h);

	return r < 0 ? r : view_fd(v, fd, false, &h, out);
}

static uint64_t end_of(uint64_t offset, uint64_t length)
{
	return offset + length < offset ? UINT64_MAX : offset + length;
}

int stub_data_look(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
		   uint64_t length, struct stub_view *view, struct stub_range *out)
{
	struct stub_record rec;
	struct stat st;
	int r = stub_record_load_at(v, h, &st, &rec);

	memset(view, 0, sizeof(*view));
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	view_of(&rec, &st, view);
	if (rec.flags & STUB_FLAG_DUMMY) { /* nothing is known yet: all of it is missing */
		*out = (struct stub_range){ offset, end_of(offset, length ? length : 1) };
		return 1;
	}
	return stub_map_first(&rec.now, offset, end_of(offset, length), out);
}

STUB_PUBLIC int stub_data_missing(struct stub_volume *v, const struct stub_handle *h,
				  uint64_t offset, uint64_t length, struct stub_range *out)
{
	struct stub_view view;

	return stub_data_look(v, h, offset, length, &view, out);
}

STUB_PUBLIC int stub_data_ready(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
				uint64_t length)
{
	struct stub_range range;
	int r = stub_data_missing(v, h, offset, length, &range);

	return r < 0 ? r : !r;
}

STUB_PUBLIC int stub_object_open(struct stub_volume *v, const struct stub_handle *h,
				 struct stub_object *out)
{
	int fd CLEANUP_CLOSE = stub_handle_open(v, h, O_PATH);
	struct stub_record rec;
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	r = stub_record_load_path(v, fd, h, &st, &rec);
	if (r < 0)
		return r;
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		close(stub_steal_fd(&fd));
		fd = stub_handle_open(v, h, (S_ISDIR(st.st_mode) ? O_RDONLY : O_RDWR) | O_NONBLOCK);
		if (fd == -EROFS) /* it cannot be filled, but reads of it are passed on */
			fd = stub_handle_open(v, h, O_RDONLY | O_NONBLOCK);
		if (fd < 0)
			return fd;
	}
	*out = (struct stub_object){
		.h = *h,
		.ino = st.st_ino,
		.needs = stub_record_needs(&rec),
		.depth = rec.depth,
		.origin = rec.origin,
		.size = S_ISREG(st.st_mode) ? rec.size : 0,
		.mtime = rec.src_mtime,
		.ctime = rec.src_ctime,
		.fsid = rec.fsid,
		.fileid = rec.fileid,
		.nlink = rec.nlink,
		.type = st.st_mode & S_IFMT,
	};
	if (S_ISREG(st.st_mode))
		stub_map_first(&rec.now, 0, UINT64_MAX, &out->missing);
	out->fd = stub_steal_fd(&fd);
	return 0;
}

STUB_PUBLIC void stub_object_close(struct stub_object *o)
{
	if (o && o->fd >= 0)
		close(stub_steal_fd(&o->fd));
}
