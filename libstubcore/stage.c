/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stage.c - one inode, complete as a stub, before anybody can see it.
 *
 * Invariant 3 (docs/design.md): inode and record become visible in one step.  Regular files are
 * unnamed inodes (O_TMPFILE) that linkat() makes visible; what cannot be unnamed
 * (directories, symlinks, special files, and all on CephFS: unnamed.c) is prepared under a name in
 * .postcopy/staging/ and renamed into place.  Everything is made in .postcopy/,
 * never in the directory itself, where a watcher would see it, but with the project that
 * it would have there, and close to it (staging.c).
 *
 * Order for one inode: owner (clears setuid), mode, size, record, times.  If the source is also the
 * mirror, the place of the inode over there is noted before: it is durable before the record goes,
 * and before a name of what was made whole is.
 *
 * A small file whose bytes are at hand already is made whole: data, owner, mode, attributes, times.  It has
 * no record, so it must not get its name before all of that was synced (list.c).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "internal.h"

#define DIR_SIZE 4096 /* shown of a directory whose size is not known: a block */
#define ZEROS	 4096 /* so many of them, aligned, are left a hole */

static bool time_ok(struct timespec t)
{
	return t.tv_nsec >= 0 && t.tv_nsec <= 999999999;
}

int stub_entry_check(const struct stub_object *dir, const struct stub_entry *e)
{
	const struct stub_attr *a = &e->attr;
	int r = stub_name_check(e->name, e->name_len);

	if (r < 0)
		return r;
	if (dir->depth >= STUB_DEPTH_MAX)
		return -EMLINK;
	if (e->error || e->origin_len == 0)
		return -EBADMSG;
	if (!time_ok(a->atime) || !time_ok(a->mtime) || !time_ok(a->ctime))
		return -EBADMSG;
	if (a->uid == UINT32_MAX || a->gid == UINT32_MAX) /* chown's "leave alone" */
		return -EBADMSG;
	r = e->origin_len > STUB_ORIGIN_MAX ? -EOVERFLOW : 0;
	switch (a->mode & S_IFMT) {
	case S_IFREG:
		return a->size > INT64_MAX ? -EBADMSG : r;
	case S_IFLNK:
		return !e->target || e->target_len == 0 || e->target_len > STUB_TARGET_MAX ||
				       memchr(e->target, '\0', e->target_len) ?
			       -EBADMSG :
			       r;
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFBLK:
	case S_IFCHR:
		return r;
	}
	return -EBADMSG;
}

bool stub_entry_linked(const struct stub_entry *e)
{
	return !S_ISDIR(e->attr.mode) && e->attr.nlink > 1;
}

static void entry_fill(const struct stub_entry *e, const struct stub_handle *h,
		       struct stub_journal_entry *out)
{
	*out = (struct stub_journal_entry){
		.h = *h,
		.kind = S_ISDIR(e->attr.mode) ? STUB_JOURNAL_DIR : STUB_JOURNAL_FILE,
		.size = S_ISREG(e->attr.mode) ? e->attr.size : 0,
		.mtime = e->attr.mtime.tv_sec,
	};
}

uint64_t stub_size_kept(const struct stub_attr *a)
{
	if (S_ISREG(a->mode))
		return a->size;
	if (!S_ISDIR(a->mode))
		return 0;
	/* SMB servers do not tell it, and a hostile server may tell anything */
	return a->size > 0 && a->size <= INT64_MAX ? a->size : DIR_SIZE;
}

static void record_fill(const struct stub_volume *v, const struct stub_object *dir,
			const struct stub_entry *e, struct stub_record *rec)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	rec->flags = (e->dummy ? STUB_FLAG_DUMMY : 0) |
		     (S_ISDIR(e->attr.mode) ? STUB_FLAG_UNLISTED : 0) |
		     (stub_entry_linked(e) ? STUB_FLAG_LINKS | STUB_FLAG_LINK_KEY : 0);
	rec->source_id = v->info.source_id;
	rec->depth = (uint16_t)(dir->depth + 1);
	rec->boot = stub_volume_boot(v);
	rec->origin.len = (uint16_t)e->origin_len;
	memcpy(rec->origin.bytes, e->origin, e->origin_len);
	rec->size = stub_size_kept(&e->attr);
	rec->src_mtime = rec->mtime = e->attr.mtime;
	rec->src_ctime = e->attr.ctime;
	/* if the old server's clock was ahead, the change time would go back when the
	 * record is dropped and the local one is shown */
	rec->ctime = stub_time_cmp(e->attr.ctime, now) > 0 ? now : e->attr.ctime;
	rec->fsid = e->attr.fsid;
	rec->fileid = e->attr.fileid;
	rec->link_key = stub_entry_linked(e) ? stub_link_key(e) : 0;
	rec->nlink = rec->nlink_shown = e->attr.nlink;
	rec->refused.len = 0;
	stub_map_init(&rec->now, S_ISREG(e->attr.mode) ? rec->size : 0);
	stub_map_copy(&rec->durable, &rec->now);
}

/* Owner, mode, attributes, record and times of the staged inode behind @fd (O_PATH if it
 * cannot be opened). */
static int dress(struct stub_volume *v, const struct stub_object *dir, const struct stub_entry *e,
		 int fd, bool stub, struct stub_handle *h)
{
	const struct timespec own[2] = { e->attr.atime, e->attr.mtime };
	struct stub_record *rec CLEANUP_FREE = NULL;
	mode_t mode = stub_mode_at_first(&e->attr, e->xattrs, e->n_xattrs);
	size_t bad;
	struct stat st;
	int r = stub_place_note(v, fd, e->origin, e->origin_len);

	if (r < 0)
		return r;
	if (fchownat(fd, "", e->attr.uid, e->attr.gid, AT_EMPTY_PATH) < 0)
		return -errno;
	if (!S_ISLNK(e->attr.mode) && fchmod(fd, mode) < 0) {
		char path[32];

		if (errno != EBADF)
			return -errno;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (chmod(path, mode) < 0)
			return -errno;
	}
	r = stub_xattrs_store(v, fd, e->xattrs, e->n_xattrs, &bad);
	if (r < 0)
		return r;
	if (e->dummy && e->told) /* without it the attributes are asked for a little earlier */
		stub_xattr_try(fd, e->told->name, e->told->value, e->told->len);
	if (stub) {
		rec = malloc(sizeof(*rec));
		if (!rec)
			return -ENOMEM;
		if (fstat(fd, &st) < 0)
			return -errno;
		r = stub_handle_of_fd(fd, h);
		if (r < 0)
			return r;
		record_fill(v, dir, e, rec);
		rec->ino = st.st_ino;
		rec->handle_sum = stub_handle_sum(h);
		r = stub_record_store(v, fd, rec);
		if (r < 0)
			return r;
	}
	return utimensat(fd, "", e->times ? e->times : own, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* What the file has as a name in staging/, if it needs one. */
static int unnamed(struct stub_volume *v, const struct stub_staging *at, struct stub_staged *out)
{
	struct stub_unnamed u;
	int r = stub_unnamed_open(v, at->fd, &u);

	if (r < 0)
		return r;
	out->kind = STUB_STAGED_FD;
	out->fd = u.fd;
	snprintf(out->name, sizeof(out->name), "%s", u.name);
	return 0;
}

static int stage_file(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *at,
		      const struct stub_entry *e, struct stub_staged *out)
{
	bool stub = e->attr.size > 0 || e->dummy || stub_entry_linked(e);
	struct stub_handle h;
	int r = stub_staging_open(v, dir, at);

	if (r == 0)
		r = unnamed(v, at, out);
	if (r < 0)
		return r;
	if (e->attr.size > 0 && ftruncate(out->fd, (off_t)e->attr.size) < 0)
		return errno == EFBIG || errno == EINVAL ? -EFBIG : -errno;
	r = dress(v, dir, e, out->fd, stub, &h);
	if (r < 0)
		return r;
	out->journalled = stub;
	if (stub)
		entry_fill(e, &h, &out->entry);
	return 0;
}

/* All of a new file. */
static int write_whole(int fd, const char *data, size_t size)
{
	size_t at, next, from = 0;
	int r = 0;

	for (at = 0; at < size && r == 0; at = next) {
		next = size - at > ZEROS ? at + ZEROS : size;
		if (!stub_is_zero(data + at, next - at))
			continue;
		r = stub_io_pwrite(fd, data + from, at - from, from);
		from = next;
	}
	if (r == 0)
		r = stub_io_pwrite(fd, data + from, size - from, from);
	if (r == 0 && from == size)
		r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
	return r;
}

int stub_stage_whole(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *at,
		     const struct stub_entry *e, const void *data, struct stub_staged *out)
{
	uint64_t boot = stub_volume_boot(v); /* of before the first byte */
	int r = stub_staging_open(v, dir, at);

	*out = (struct stub_staged){ .fd = -1, .whole = true, .boot = boot };
	if (r == 0)
		r = unnamed(v, at, out);
	if (r == 0)
		r = write_whole(out->fd, data, e->attr.size);
	if (r == 0)
		r = dress(v, dir, e, out->fd, false, NULL);
	if (r < 0)
		stub_staged_drop(v, out);
	return r;
}

int stub_staged_hurry(struct stub_volume *v, const struct stub_object *dir,
		      const struct stub_entry *e, struct stub_staged *s)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stub_handle h;
	struct stat st;
	int r;

	if (!rec)
		return -ENOMEM;
	r = stub_handle_of_fd(s->fd, &h);
	if (r == 0 && fstat(s->fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	record_fill(v, dir, e, rec);
	rec->ino = st.st_ino;
	rec->handle_sum = stub_handle_sum(&h);
	rec->boot = s->boot;
	stub_map_init(&rec->now, 0);
	r = stub_record_store(v, s->fd, rec);
	if (r < 0)
		return r;
	entry_fill(e, &h, &s->entry);
	s->whole = false;
	s->here = s->journalled = true;
	return 0;
}

static int make_named(int dirfd, const char *name, const struct stub_entry *e)
{
	char target[STUB_TARGET_MAX + 1];
	dev_t dev = makedev(e->attr.rdev_major, e->attr.rdev_minor);

	switch (e->attr.mode & S_IFMT) {
	case S_IFDIR:
		return mkdirat(dirfd, name, 0700) < 0 ? -errno : 0;
	case S_IFLNK:
		memcpy(target, e->target, e->target_len);
		target[e->target_len] = '\0';
		return symlinkat(target, dirfd, name) < 0 ? -errno : 0;
	default:
		return mknodat(dirfd, name, (e->attr.mode & S_IFMT) | 0600, dev) < 0 ? -errno : 0;
	}
}

static int stage_named(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *at,
		       const struct stub_entry *e, struct stub_staged *out)
{
	bool stub = S_ISDIR(e->attr.mode) || stub_entry_linked(e);
	struct stub_handle h;
	int r = stub_staging_open(v, dir, at), fd CLEANUP_CLOSE = -1;

	if (r < 0)
		return r;
	snprintf(out->name, sizeof(out->name), "%s/%" PRIu64, at->name,
		 (uint64_t)atomic_fetch_add(&v->staged, 1));
	r = make_named(v->staging_fd, out->name, e);
	if (r < 0)
		return r;
	out->kind = STUB_STAGED_NAME;
	fd = openat(v->staging_fd, out->name,
		    (S_ISDIR(e->attr.mode) ? O_RDONLY : O_PATH) | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = dress(v, dir, e, fd, stub, &h);
	if (r == 0 && stub) {
		out->journalled = true;
		entry_fill(e, &h, &out->entry);
	}
	return r;
}

static int stage_known_link(struct stub_volume *v, const struct stub_entry *e,
			    struct stub_staged *out)
{
	struct stub_handle h;
	int r, fd CLEANUP_CLOSE = -1;

	stub_provisional_of_entry(e, out->name);
	fd = openat(v->provisional_fd, out->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = stub_handle_of_fd(fd, &h);
	if (r < 0)
		return r;
	out->kind = STUB_STAGED_LINK;
	out->journalled = true;
	entry_fill(e, &h, &out->entry);
	return 0;
}

int stub_stage_entry(struct stub_volume *v, const struct stub_entry *e,
		     struct stub_journal_entry *out)
{
	struct stub_staged s = { .fd = -1 };
	int r = stub_entry_linked(e) ? stage_known_link(v, e, &s) : -ENOENT;

	if (r == 0)
		*out = s.entry;
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

/* The first name of a hard-linked inode: it becomes the provisional file. */
static int make_provisional(struct stub_volume *v, const struct stub_entry *e,
			    struct stub_staged *s)
{
	char name[STUB_PROVISIONAL_NAME];
	int r;

	stub_provisional_of_entry(e, name);
	r = stub_project_none(v->provisional_fd);
	if (r == 0 && v->only_named) /* no exclusion is for this directory */
		r = linkat(v->staging_fd, s->name, v->provisional_fd, name, 0) < 0 ? -errno : 0;
	else if (r == 0)
		r = stub_staged_link(v, s, v->provisional_fd, name);
	stub_staged_drop(v, s);
	return r == -EEXIST ? 0 : r; /* another directory's listing was first */
}

int stub_stage(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *at,
	       const struct stub_entry *e, struct stub_staged *out)
{
	int r;

	*out = (struct stub_staged){ .fd = -1 };
	if (stub_entry_linked(e)) {
		r = stage_known_link(v, e, out);
		if (r != -ENOENT)
			return r;
	}
	r = S_ISREG(e->attr.mode) ? stage_file(v, dir, at, e, out) : stage_named(v, dir, at, e, out);
	if (r < 0) {
		stub_staged_drop(v, out);
		return r;
	}
	if (stub_entry_linked(e)) {
		r = make_provisional(v, e, out);
		if (r == 0)
			r = stage_known_link(v, e, out);
	}
	return r;
}

int stub_staged_link(struct stub_volume *v, struct stub_staged *s, int dir_fd, const char *name)
{
	int r;

	switch (s->kind) {
	case STUB_STAGED_FD:
		if (!s->name[0])
			return linkat(s->fd, "", dir_fd, name, AT_EMPTY_PATH) < 0 ? -errno : 0;
		r = stub_rename_new(v->staging_fd, s->name, dir_fd, name, v->only_named);
		if (r == 0)
			s->name[0] = '\0';
		return r;
	case STUB_STAGED_LINK:
		return linkat(v->provisional_fd, s->name, dir_fd, name, 0) < 0 ? -errno : 0;
	case STUB_STAGED_NAME:
		r = stub_rename_new(v->staging_fd, s->name, dir_fd, name, v->only_named);
		if (r == 0)
			s->kind = STUB_STAGED_NONE;
		return r;
	case STUB_STAGED_NONE:
		break;
	}
	return -EINVAL;
}

void stub_staged_drop(struct stub_volume *v, struct stub_staged *s)
{
	if (s->kind == STUB_STAGED_NAME && unlinkat(v->staging_fd, s->name, 0) < 0 &&
	    errno == EISDIR)
		unlinkat(v->staging_fd, s->name, AT_REMOVEDIR);
	if (s->kind == STUB_STAGED_FD && s->name[0])
		unlinkat(v->staging_fd, s->name, 0);
	if (s->fd >= 0)
		close(stub_steal_fd(&s->fd));
	s->kind = STUB_STAGED_NONE;
}
