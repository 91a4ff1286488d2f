/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_alone.c - is content on the volume's disk what the source gave?  Without the source: by
 * the digests that were kept when it came (docs/decisions/0074).
 *
 * Names and attributes have nothing to be compared with.  A file that nobody has changed must
 * have the bytes of its digest; one that somebody has may have others if its size or write
 * time are others, too.  Where nothing is known of a file, that is counted, and told.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify/verify_inside.h"

#define CHUNK 128 /* names that one worker takes */
#define TRIES 3	  /* of a file that is changed while it is read */

static int tell(struct run *k, const char *path, enum verify_class class, unsigned int what,
		const char *why)
{
	struct verify_found f = { .class = class, .what = what, .path = path, .why = why };

	run_tell(k, &f);
	return 0;
}

/* ---- files that have several names ---- */

/* With the lock: where @ino is, or would be. */
static size_t place_of(const struct run *k, uint64_t ino)
{
	size_t at = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (k->cap_read - 1);

	while (k->read[at] && k->read[at] != ino)
		at = (at + 1) & (k->cap_read - 1);
	return at;
}

/* With the lock. */
static bool grow(struct run *k)
{
	size_t cap = k->cap_read;
	uint64_t *was = k->read, *more = calloc(cap ? cap * 2 : 1024, sizeof(*more));

	if (!more)
		return false;
	k->read = more;
	k->cap_read = cap ? cap * 2 : 1024;
	for (size_t i = 0; i < cap; i++)
		if (was[i])
			more[place_of(k, was[i])] = was[i];
	free(was);
	return true;
}

static void note_read(struct run *k, const struct here *h)
{
	if (h->st.st_nlink < 2)
		return;
	pthread_mutex_lock(&k->lock);
	if (k->n_read * 2 < k->cap_read || grow(k)) { /* else it is read once more */
		size_t at = place_of(k, h->st.st_ino);

		k->n_read += !k->read[at];
		k->read[at] = h->st.st_ino;
	}
	pthread_mutex_unlock(&k->lock);
}

/* Was it found right by another name? */
static bool was_read(struct run *k, const struct here *h)
{
	bool was;

	if (h->st.st_nlink < 2)
		return false;
	pthread_mutex_lock(&k->lock);
	was = k->cap_read && k->read[place_of(k, h->st.st_ino)];
	pthread_mutex_unlock(&k->lock);
	return was;
}

/* ---- one object ---- */

static int prove(struct run *k, const struct here *h, const char *path, const uint8_t *sha256)
{
	struct verify_proven p = { .path = path, .st = &h->st, .sha256 = sha256 };
	char target[STUB_TARGET_MAX + 1];
	ssize_t n = 0;

	if (!k->v->proven || h->trust != TRUST_KEPT)
		return 0;
	if (S_ISLNK(h->st.st_mode)) {
		n = readlinkat(h->fd, "", target, sizeof(target) - 1);
		if (n < 0)
			return tell(k, path, VERIFY_DIFFERENT, VERIFY_UNREAD, strerror(errno));
		target[n] = '\0';
		p.target = target;
	}
	pthread_mutex_lock(&k->lock);
	k->v->proven(k->v->arg, &p);
	pthread_mutex_unlock(&k->lock);
	return 0;
}

/* What of it is not that of the version whose bytes the digest is of. */
static unsigned int other_version(const struct run *k, const struct stub_digest *d,
				  const struct here *h)
{
	unsigned int what = d->size != (uint64_t)h->st.st_size ? VERIFY_SIZE : 0;

	return what | (time_cmp(time_expressed(k, d->mtime), h->st.st_mtim) ? VERIFY_MTIME : 0);
}

/* Nothing says what its bytes should be. */
static int unknown(struct run *k, struct dir *d, const struct here *h, const char *path)
{
	bool born_here = h->born.tv_sec && time_cmp(h->st.st_mtim, h->born) >= 0;
	enum trust trust = h->noted ? TRUST_NONE : dir_trust(k, d);

	if (h->trust == TRUST_TOUCHED && born_here) /* it was written to */
		return tell(k, path, VERIFY_CHANGED, VERIFY_MTIME, NULL);
	if (trust == TRUST_KEPT && here_younger(h, d))
		return tell(k, path, VERIFY_DIFFERENT, VERIFY_EXTRA,
			    "nobody has made it, nor has it come from the source");
	run_count(k, trust == TRUST_TOUCHED ? &k->v->n.made : &k->v->n.unproven, 1);
	return 0;
}

/* It has the digest @want, or should have.  1: look again, it was changed meanwhile. */
static int compare(struct run *k, struct here *h, const char *path, const struct stub_digest *want)
{
	struct verify_digests got = { .plain = k->v->proven };
	const char *why = NULL;
	struct here now;
	int r;

	if (was_read(k, h) && !k->v->proven) {
		run_count(k, &k->v->n.earlier, 1);
		run_count(k, &k->v->n.right, 1);
		return 0;
	}
	r = verify_disk(k, h, &got, &why);
	if (r < 0)
		return r;
	run_count(k, &k->v->n.read, 1);
	run_count(k, &k->v->n.bytes, (uint64_t)h->st.st_size);
	if (r == 0 && !memcmp(got.tree, want->digest, STUB_DIGEST)) {
		note_read(k, h);
		run_count(k, &k->v->n.right, 1);
		return prove(k, h, path, got.sha256);
	}
	r = here_look(k, -1, NULL, &h->h, &now);
	if (r < 0)
		return r == -ESTALE ? 0 : r; /* removed meanwhile */
	r = time_cmp(now.st.st_ctim, h->st.st_ctim) != 0;
	here_close(h);
	*h = now;
	if (r)
		return 1;
	return tell(k, path, h->trust == TRUST_KEPT ? VERIFY_DIFFERENT : VERIFY_UNCLEAR,
		    VERIFY_CONTENT, why);
}

static int alone_file(struct run *k, struct dir *d, struct here *h, const char *path)
{
	struct stub_digest want;
	unsigned int what;
	int r = 1;

	for (unsigned int tries = 0; r == 1 && tries < TRIES; tries++) {
		if (h->stub) {
			run_count(k, &k->v->n.pending, 1);
			return 0;
		}
		r = stub_digest_get(k->v->volume, h->st.st_ino, &h->h, &want);
		if (r == -ENOENT)
			return unknown(k, d, h, path);
		if (r < 0)
			return r;
		what = other_version(k, &want, h);
		if (what && h->trust == TRUST_TOUCHED)
			return tell(k, path, VERIFY_CHANGED, what, NULL);
		if (what) {
			run_count(k, &k->v->n.unproven, 1);
			return 0;
		}
		r = compare(k, h, path, &want);
	}
	if (r == 1)
		r = tell(k, path, VERIFY_UNCLEAR, VERIFY_CONTENT, "it is changed again and again");
	return r;
}

static int alone_object(struct run *k, struct dir *d, struct here *h, const char *path)
{
	if (h->stub) {
		run_count(k, &k->v->n.pending, 1);
		return 0;
	}
	if (S_ISREG(h->st.st_mode) && h->st.st_size)
		return alone_file(k, d, h, path);
	if (!h->noted && dir_trust(k, d) == TRUST_TOUCHED) {
		run_count(k, &k->v->n.made, 1);
		return 0;
	}
	run_count(k, &k->v->n.listed, 1);
	return prove(k, h, path, S_ISREG(h->st.st_mode) ? verify_empty : NULL);
}

/* ---- directories ---- */

static int tell_unread(struct run *k, const char *path, int error)
{
	char why[128];

	if (run_fatal(error))
		return error;
	snprintf(why, sizeof(why), "the volume does not give it: %s", strerror(-error));
	return tell(k, path, VERIFY_DIFFERENT, VERIFY_UNREAD, why);
}

static int go_below(struct run *k, const struct here *h, const char *path)
{
	struct dir *below = dir_create(h, NULL, NULL, path);

	return below ? task_push(k, below, NULL) : -ENOMEM;
}

/* A name of @d, whose descriptor is @fd. */
static int one(struct run *k, struct dir *d, int fd, const char *name)
{
	char *path = path_join(d->path, name);
	struct here h;
	int r = path ? here_look(k, fd, name, NULL, &h) : -ENOMEM;

	if (r == -ENOENT || r == -EXDEV || r == -ENOMEM) {
		free(path); /* removed meanwhile; another file system that is mounted there */
		return r == -ENOMEM ? r : 0;
	}
	run_count(k, &k->v->n.objects, 1);
	if (r < 0) {
		r = tell_unread(k, path, r);
	} else {
		r = alone_object(k, d, &h, path);
		if (r == 0 && S_ISDIR(h.st.st_mode) && !h.stub)
			r = go_below(k, &h, path);
		here_close(&h);
	}
	free(path);
	return r;
}

int alone_items(struct run *k, struct dir *d, struct item *items)
{
	int r = 0, fd = stub_handle_open_at(k->volume_fd, &d->h, O_RDONLY | O_DIRECTORY | O_NOATIME);
	struct item *i;

	if (fd < 0 && fd != -ESTALE)
		r = tell_unread(k, d->path, fd);
	while ((i = items)) {
		items = i->next;
		if (r == 0 && fd >= 0)
			r = one(k, d, fd, item_name(i));
		free(i);
	}
	if (fd >= 0)
		close(fd);
	return r;
}

static int give(struct run *k, struct dir *d, struct item **items, size_t *n)
{
	struct item *all = *items;

	*items = NULL;
	*n = 0;
	return all ? task_push(k, dir_get(k, d), all) : 0;
}

static int names_of(struct run *k, struct dir *d, DIR *dir)
{
	bool root = !strcmp(d->path, ".");
	struct item *items = NULL;
	struct dirent *e;
	size_t n = 0;
	int r = 0;

	while (r == 0 && (errno = 0, e = readdir(dir))) {
		size_t len = strlen(e->d_name);
		struct item *i;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (root && !strcmp(e->d_name, STUB_DIR)))
			continue;
		i = calloc(1, sizeof(*i) + len + 2);
		if (!i) {
			r = -ENOMEM;
			break;
		}
		i->name_len = (uint16_t)len;
		memcpy(i->bytes, e->d_name, len);
		i->next = items;
		items = i;
		if (++n == CHUNK)
			r = give(k, d, &items, &n);
	}
	if (r == 0 && errno)
		r = tell_unread(k, d->path, -errno);
	if (r == 0)
		r = give(k, d, &items, &n);
	items_free(items);
	return r;
}

int alone_dir(struct run *k, struct dir *d)
{
	int r, fd = stub_handle_open_at(k->volume_fd, &d->h, O_RDONLY | O_DIRECTORY | O_NOATIME);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		r = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		return r == -ESTALE ? 0 : tell_unread(k, d->path, r);
	}
	r = names_of(k, d, dir);
	closedir(dir);
	return r;
}

int alone_begin(struct run *k)
{
	struct here h;
	int r = here_look(k, -1, NULL, stub_volume_root(k->v->volume), &h);

	if (r < 0)
		return r;
	if (h.stub)
		run_count(k, &k->v->n.pending, 1);
	else
		r = prove(k, &h, ".", NULL);
	if (r == 0 && !h.stub)
		r = go_below(k, &h, ".");
	here_close(&h);
	return r;
}
