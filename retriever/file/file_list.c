// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_list.c - all entries of a directory, page by page: one call for each.
 *
 * The directory stays open in between.  An entry comes complete, with its handle and the target
 * of a symlink; one that has more than that (source_meta()) as a dummy.  All that is said of it
 * is said of one open inode.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file/file.h"

struct dents { /* linux_dirent64 */
	uint64_t ino;
	int64_t next;
	uint16_t len;
	uint8_t type;
	char name[];
};

#define DENTS_MIN 24 /* bytes of the shortest */

struct file_dir {
	int fd; /* -1: not open yet */
	const struct file_mount *m; /* only compared: who lost it must begin anew */
	size_t n;
	struct stub_entry *entries; /* of the page; names are in dents */
	struct stub_origin *origins;
	char *dents;
};

static void dir_free(struct file_dir *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++)
		free((char *)d->entries[i].target);
	if (d->fd >= 0)
		close(d->fd);
	free(d->entries);
	free(d->origins);
	free(d->dents);
	free(d);
}

static struct file_dir *dir_new(void)
{
	struct file_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->fd = -1;
	d->entries = calloc(FILE_DENTS_BYTES / DENTS_MIN, sizeof(*d->entries));
	d->origins = malloc(FILE_DENTS_BYTES / DENTS_MIN * sizeof(*d->origins));
	d->dents = malloc(FILE_DENTS_BYTES);
	if (d->entries && d->origins && d->dents)
		return d;
	dir_free(d);
	return NULL;
}

/* Fill @e, whose name is set. */
static int complete(const struct file_mount *m, struct file_dir *d, struct stub_entry *e,
		    struct stub_origin *origin)
{
	char *target = NULL;
	int fd, r;

	if (!e->name_len || e->name_len > STUB_NAME_MAX || memchr(e->name, '/', e->name_len))
		return -EBADMSG;
	fd = file_work_entry(m, d->fd, e->name, &e->attr);
	if (fd < 0)
		return fd;
	r = file_origin(fd, origin);
	if (r < 0)
		r = file_errno(-r);
	if (r == 0 && S_ISLNK(e->attr.mode))
		r = file_work_target(fd, &target, &e->target_len);
	close(fd);
	e->target = target;
	e->origin = origin->bytes;
	e->origin_len = origin->len;
	e->dummy = e->attr.more;
	return r;
}

static int take_page(const struct file_mount *m, struct file_dir *d, size_t bytes)
{
	for (size_t at = 0; at + DENTS_MIN <= bytes;) {
		const struct dents *n = (const struct dents *)(d->dents + at);
		struct stub_entry *e = &d->entries[d->n];
		int r;

		if (n->len < DENTS_MIN || n->len > bytes - at)
			return -EBADMSG;
		at += n->len;
		if (!strcmp(n->name, ".") || !strcmp(n->name, ".."))
			continue;
		*e = (struct stub_entry){ .name = n->name, .name_len = strlen(n->name) };
		r = complete(m, d, e, &d->origins[d->n]);
		if (r < 0) {
			free((char *)e->target);
			*e = (struct stub_entry){ .name = n->name, .name_len = strlen(n->name) };
			if (!source_entrys_own(r))
				return r;
			e->error = r;
		}
		d->n++;
	}
	return 0;
}

static int work_list(struct file_call *c, const struct file_mount *m, void *buf)
{
	struct file_dir *d = c->dir;
	long n;

	(void)buf;
	if (d->fd >= 0 && d->m != m)
		return -EAGAIN;
	if (d->fd < 0) {
		d->fd = file_work_dir(c, m);
		d->m = m;
		if (d->fd < 0)
			return d->fd;
	}
	for (size_t i = 0; i < d->n; i++)
		free((char *)d->entries[i].target);
	d->n = 0;
	/* of a directory with nothing but "." and "..", or at the end, there is no page */
	do {
		n = syscall(SYS_getdents64, d->fd, d->dents, FILE_DENTS_BYTES);
		if (n < 0)
			return errno == ENOENT ? -ESTALE : file_errno(errno);
		c->got = n;
		if (n > 0 && take_page(m, d, (size_t)n) < 0)
			return -EIO;
	} while (n > 0 && !d->n);
	return 0;
}

/* One page: 1, 0 at the end, -errno.  *d goes with a call that is abandoned. */
static int next_page(struct file_source *s, enum source_priority p, const struct stub_origin *dir,
		     const struct source_id *as, struct file_dir **d)
{
	struct file_call *c = file_call_new(s, CALLED_LISTING, "LIST", p, dir);
	bool mine;
	int r;

	if (!c)
		return -ENOMEM;
	c->has_as = as;
	if (as)
		c->as = *as;
	c->work = work_list;
	c->dir = *d;
	c->free_dir = dir_free;
	*d = NULL;
	r = file_run(c, &mine);
	if (mine) {
		*d = c->dir;
		c->dir = NULL;
		if (r == 0)
			r = c->got > 0;
	}
	file_call_put(c);
	return r;
}

int file_source_list(struct source *base, enum source_priority p, const struct stub_origin *dir,
		     const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct file_source *s = file_of(base);
	struct file_dir *d = dir_new();
	int r;

	if (!d)
		return -ENOMEM;
	pthread_mutex_lock(&s->pool.lock);
	s->pool.n.readdirs++;
	pthread_mutex_unlock(&s->pool.lock);
	while ((r = next_page(s, p, dir, as, &d)) > 0) {
		r = fn(arg, d->entries, d->n);
		if (r)
			break;
	}
	dir_free(d);
	return r;
}
