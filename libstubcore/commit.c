/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * commit.c - what is present in a stub becomes durable: a client's COMMIT, and the fold
 * that does without one (lagging.c).
 *
 * Sync the data, fold the maps, sync the record, then answer.  What is folded is what was
 * present when the sync began, of the version and in the era of then.
 */
#include <fcntl.h>

#include "internal.h"

STUB_PUBLIC int stub_commit_prepare(struct stub_volume *v, const struct stub_handle *h,
				    struct stub_commit *c)
{
	struct stub_record rec;
	struct stat st;
	int r;

	*c = (struct stub_commit){ .v = v, .h = *h, .era = stub_volume_era(v) };
	r = stub_record_load_at(v, h, &st, &rec);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	c->now = malloc(sizeof(*c->now));
	if (!c->now)
		return -ENOMEM;
	stub_map_copy(c->now, &rec.now);
	c->size = rec.size;
	c->mtime = rec.src_mtime;
	c->ctime = rec.src_ctime;
	c->stub = true;
	return 0;
}

static int commit_sync(struct stub_commit *c, int fd)
{
	int r = fsync(fd) < 0 ? -errno : 0;

	if (r < 0)
		stub_volume_new_era(c->v);
	return r;
}

/* Is it still the version that was prepared?  It may have been given up (resolve.c). */
static bool commit_same_version(const struct stub_commit *c, const struct stub_record *rec)
{
	return c->size == rec->size && stub_time_cmp(c->mtime, rec->src_mtime) == 0 &&
	       stub_time_cmp(c->ctime, rec->src_ctime) == 0;
}

/* What was present when the sync began is durable now; what came since is not. */
static int commit_fold(struct stub_commit *c, int fd, bool sync)
{
	struct stub_record rec;
	struct stat st;
	int r = stub_record_load_settled(c->v, fd, &c->h, &st, &rec);

	/* finished meanwhile: the record is dropped, but perhaps not on the disk yet, and there
	 * it may still say that what was written is missing */
	if (r == -ENOENT)
		return sync ? commit_sync(c, fd) : 0;
	if (r < 0)
		return r;
	/* what was present may be missing again, whatever our fsync returned */
	if (stub_volume_era(c->v) != c->era || !commit_same_version(c, &rec))
		return -EAGAIN;
	r = stub_map_intersect(&rec.durable, c->now);
	if (r == 0)
		r = stub_record_told(stub_record_store_fitting(c->v, fd, &c->h, &rec));
	return r < 0 || !sync ? r : commit_sync(c, fd);
}

STUB_PUBLIC void stub_commit_drop(struct stub_commit *c)
{
	free(c->now);
	c->now = NULL;
	c->stub = false;
}

/* A descriptor, with the exclusion of @h taken; or -errno. */
static int open_locked(struct stub_volume *v, const struct stub_handle *h, int flags, uint64_t *ino)
{
	int r, fd CLEANUP_CLOSE = stub_handle_open(v, h, flags);
	struct stat st;

	if (fd < 0)
		return fd;
	r = stub_lock_inode(v, fd, ino, &st);
	return r < 0 ? r : stub_steal_fd(&fd);
}

static int commit_locked(struct stub_commit *c, bool sync)
{
	uint64_t ino;
	int fd CLEANUP_CLOSE = open_locked(c->v, &c->h, O_RDONLY | O_NONBLOCK, &ino);
	int r = fd;

	if (fd >= 0) {
		r = commit_fold(c, fd, sync);
		stub_unlock(&c->v->locks, &ino, 1);
	}
	stub_commit_drop(c);
	return r;
}

int stub_commit_prepare_quiet(struct stub_volume *v, const struct stub_handle *h,
			      struct stub_commit *c)
{
	uint64_t ino;
	int r, fd CLEANUP_CLOSE = open_locked(v, h, O_PATH, &ino);

	*c = (struct stub_commit){ 0 };
	if (fd < 0)
		return fd;
	r = stub_commit_prepare(v, h, c);
	stub_unlock(&v->locks, &ino, 1);
	return r;
}

STUB_PUBLIC int stub_commit_finish(struct stub_commit *c, int result)
{
	if (!c->stub)
		return 0;
	if (result == 0)
		return commit_locked(c, true);
	/* the kernel may have dropped what it could not write: nothing since the last
	 * good sync counts as present */
	stub_commit_drop(c);
	return stub_volume_new_era(c->v);
}

int stub_commit_fold(struct stub_commit *c)
{
	return commit_locked(c, false);
}
