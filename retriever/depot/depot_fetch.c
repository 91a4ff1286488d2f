// SPDX-License-Identifier: GPL-3.0-or-later
/* depot_fetch.c - the streams of one object, from the old server into the depot's staging. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "depot/depot_internal.h"

#define ACCESS "system.posix_acl_access"

/* The object's ACL, NULL: it has none. */
static const struct stub_xattr *acl_of(const struct source_meta *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (!strcmp(m->xattrs[i].name, ACCESS))
			return &m->xattrs[i];
	}
	return NULL;
}

/* Give the stream the object's ACL, with @more rights in each entry and none beyond @most.  If
 * the depot's file system takes no ACL, only the mode counts. */
static void set_acl(int fd, const struct stub_xattr *x, uint8_t more, uint8_t most)
{
	uint8_t *acl = x->len ? malloc(x->len) : NULL;

	if (!acl)
		return;
	memcpy(acl, x->value, x->len);
	for (size_t at = 4; at + 8 <= x->len; at += 8) /* u16 tag, u16 perm, u32 id */
		acl[at + 2] = (uint8_t)((acl[at + 2] & most) | more);
	(void)fsetxattr(fd, ACCESS, acl, x->len, 0);
	free(acl);
}

/* Give @fd the object's owner, access rights and times. */
static int dress(int fd, const struct source_meta *m, bool dir)
{
	const struct timespec times[2] = { m->attr.atime, m->attr.mtime };
	/* everybody may list streams, and in a directory w is of no use without x */
	const uint8_t more = dir ? 5 : 0, most = dir ? 7 : 6;
	mode_t mode = dir ? (m->attr.mode & 0222) | 0755 : m->attr.mode & 0666;
	const struct stub_xattr *acl = acl_of(m);

	if (acl) /* the mode's group bits are the ACL's mask: more than the group may have */
		mode &= ~(mode_t)020 & (dir ? ~(mode_t)0 : ~(mode_t)040);
	if (fchown(fd, m->attr.uid, m->attr.gid) < 0 || fchmod(fd, mode) < 0)
		return -errno;
	if (acl)
		set_acl(fd, acl, more, most);
	return futimens(fd, times) < 0 ? -errno : 0;
}

/* @block: SOURCE_STREAM_MAX bytes */
static int fetch_bytes(struct depot_job *job, const struct source_stream *x, int fd, char *block)
{
	uint64_t at = 0, size = 0;

	do {
		int64_t n;
		int r;

		if (job->turn && at < x->size)
			job->turn(job->arg, x->size - at < SOURCE_STREAM_MAX ? x->size - at :
									       SOURCE_STREAM_MAX);
		n = source_stream(job->source, job->p, &job->o->origin, x->name, at, block,
				  SOURCE_STREAM_MAX, &size);
		if (n < 0)
			return (int)n;
		if (size != x->size || at + (uint64_t)n > size || (!n && at < size))
			return -EIO; /* the stream is being written at the old server */
		r = stub_io_pwrite(fd, block, (size_t)n, at);
		if (r < 0) {
			job->local = true;
			return r;
		}
		at += (uint64_t)n;
	} while (at < size);
	return 0;
}

/* Give what was just written the object's owner and rights, and make it durable. */
static int settle(struct depot_job *job, int fd, bool dir)
{
	int r = dress(fd, job->m, dir);

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	job->local = r < 0;
	return r;
}

static int fetch_one(struct depot_job *job, const struct source_stream *x, int dir, char *block)
{
	int fd = openat(dir, x->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0) {
		r = -errno;
		job->local = true;
		return r;
	}
	r = fetch_bytes(job, x, fd, block);
	if (r == 0)
		r = settle(job, fd, false);
	close(fd);
	return r;
}

static int fetch_all(struct depot_job *job, const struct depot_item *item, char *block)
{
	int dir = depot_enter(item->d->staging, item->name, 0700), r = 0;

	if (dir < 0) {
		job->local = true;
		return dir;
	}
	for (size_t i = 0; i < job->m->n_streams && r == 0; i++)
		r = fetch_one(job, &job->m->streams[i], dir, block);
	if (r == 0)
		r = settle(job, dir, true);
	close(dir);
	return r;
}

/* Fetch the streams between two looks at the object, which must not differ. */
static int fetch_still(struct depot_job *job, const struct depot_item *item, char *block)
{
	struct stub_attr before, after;
	int r = source_getattr(job->source, job->p, &job->o->origin, &before);

	if (r == 0)
		r = fetch_all(job, item, block);
	if (r == 0)
		r = source_getattr(job->source, job->p, &job->o->origin, &after);
	if (r == 0 && (before.fileid != job->m->attr.fileid || after.fileid != before.fileid ||
		       memcmp(&before.mtime, &after.mtime, sizeof(after.mtime)) ||
		       memcmp(&before.ctime, &after.ctime, sizeof(after.ctime))))
		r = -EIO;
	return r;
}

int depot_fetch(struct depot *d, struct depot_job *job, struct depot_item **out)
{
	struct depot_item *item;
	struct stat st;
	char *block;
	int r;

	*out = NULL;
	job->local = false;
	if (!job->m->n_streams)
		return 0;
	item = calloc(1, sizeof(*item));
	block = malloc(SOURCE_STREAM_MAX);
	r = item && block ? 0 : -ENOMEM;
	if (r == 0 && fstat(job->o->fd, &st) < 0)
		r = -errno;
	if (r == 0) {
		item->d = d;
		item->fd = job->o->fd;
		item->ino = st.st_ino;
		snprintf(item->name, sizeof(item->name), "%" PRIu64,
			 (uint64_t)atomic_fetch_add(&d->next, 1));
		r = fetch_still(job, item, block);
	}
	free(block);
	if (r < 0) {
		depot_item_free(item);
		return r;
	}
	*out = item;
	return 0;
}
