/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * scan.c - count everything by walking the volume.  The counter's judge: it
 * believes nothing but the records, and compares them with the journal.
 *
 * Directories still to be walked are kept as handles, not as paths or open
 * descriptors, so depth and width do not matter.  Inodes with several names are
 * remembered by number: the journal has one entry for each, however many names
 * it has.  Read-only; safe at any time, exact when nothing is in flight.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "volume.h"

struct todo {
	struct stub_handle h;
	bool in_unlisted; /* an unlisted directory is above: its listing will find this one */
};

struct inode {
	uint64_t ino;
	bool uncovered; /* counted as such: a name not met yet may cover it */
};

/* Hashed with open addressing; 0 (no inode's number) is a free place. */
struct seen {
	struct inode *at;
	size_t n, cap; /* cap is 0 or a power of 2, at most half full */
};

struct scan {
	struct stub_volume *v;
	struct stub_journal *j;
	struct stub_scan *s;
	struct stub_record rec;
	struct todo *todo;
	size_t n, cap;
	struct seen seen;
	struct stub_scan_calls calls;
};

static struct inode *seen_place(const struct seen *s, uint64_t ino)
{
	size_t i = (size_t)((ino * 0x9e3779b97f4a7c15u) >> 32) & (s->cap - 1);

	while (s->at[i].ino && s->at[i].ino != ino)
		i = (i + 1) & (s->cap - 1);
	return &s->at[i];
}

static int seen_grow(struct seen *s)
{
	struct seen bigger = { .n = s->n, .cap = s->cap ? s->cap * 2 : 1024 };

	bigger.at = calloc(bigger.cap, sizeof(*bigger.at));
	if (!bigger.at)
		return -ENOMEM;
	for (size_t i = 0; i < s->cap; i++)
		if (s->at[i].ino)
			*seen_place(&bigger, s->at[i].ino) = s->at[i];
	free(s->at);
	*s = bigger;
	return 0;
}

/* 1: it was there already; 0: it is now; or -ENOMEM. */
static int seen_add(struct seen *s, uint64_t ino, struct inode **out)
{
	if (2 * (s->n + 1) > s->cap && seen_grow(s) < 0)
		return -ENOMEM;
	*out = seen_place(s, ino);
	if ((*out)->ino)
		return 1;
	(*out)->ino = ino;
	s->n++;
	return 0;
}

static int push(struct scan *c, const struct stub_handle *h, bool in_unlisted)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 1024;
		struct todo *t = realloc(c->todo, cap * sizeof(*t));

		if (!t)
			return -ENOMEM;
		c->todo = t;
		c->cap = cap;
	}
	c->todo[c->n++] = (struct todo){ *h, in_unlisted };
	return 0;
}

static void count_cover(struct scan *c, const struct stub_handle *h, bool in_unlisted)
{
	struct stub_journal_entry e;

	if (stub_journal_get(c->j, h, &e) == 0)
		c->s->covered++;
	else if (in_unlisted)
		c->s->in_unlisted++;
	else
		c->s->uncovered++;
}

static int count_object(struct scan *c, const struct stat *st)
{
	c->s->objects++;
	if (S_ISDIR(st->st_mode))
		c->s->dirs++;
	else if (S_ISREG(st->st_mode))
		c->s->files++;
	else
		c->s->others++;
	if (c->calls.progress && c->s->objects % 10000 == 0 &&
	    !c->calls.progress(c->calls.arg, c->s))
		return -ECANCELED;
	return 0;
}

/* One inode.  Returns 1 if it is an unlisted directory. */
static int look(struct scan *c, int fd, const struct stub_handle *h, bool in_unlisted,
		struct stat *st)
{
	int counted, r = stub_record_load(c->v, fd, h, st, &c->rec);

	if (r != -ENOENT && r != -EBADMSG && r < 0)
		return r;
	counted = count_object(c, st);
	if (counted < 0)
		return counted;
	if (r == -EBADMSG) {
		c->s->foreign += c->rec.foreign;
		c->s->corrupt += !c->rec.foreign;
		if (c->calls.found)
			c->calls.found(c->calls.arg, fd, h, c->rec.foreign);
		return 0;
	}
	if (r == -ENOENT)
		return 0;
	c->s->missing_bytes += stub_map_bytes(&c->rec.now);
	if (c->rec.flags & STUB_FLAG_DUMMY)
		c->s->dummies++;
	if (c->rec.flags & STUB_FLAG_UNLISTED) {
		c->s->unlisted++;
	} else if (c->rec.flags & STUB_FLAG_REFUSED) {
		c->s->stubs++;
		c->s->refused += stub_refused_count(&c->rec.refused);
	} else {
		c->s->stubs++;
		c->s->partials += !(c->rec.flags & STUB_FLAG_DUMMY);
	}
	count_cover(c, h, in_unlisted);
	return c->rec.flags & STUB_FLAG_UNLISTED ? 1 : 0;
}

/* An inode with several names is counted once, and covered if one of them is in an
 * unlisted directory: from there it goes only once that is listed. */
static int look_once(struct scan *c, int fd, const struct stub_handle *h, bool in_unlisted,
		     struct stat *st)
{
	uint64_t before = c->s->uncovered;
	struct inode *i;
	int r = seen_add(&c->seen, st->st_ino, &i);

	if (r == 0) {
		r = look(c, fd, h, in_unlisted, st);
		i->uncovered = c->s->uncovered > before;
	} else if (r > 0 && in_unlisted && i->uncovered) {
		i->uncovered = false;
		c->s->uncovered--;
		c->s->in_unlisted++;
	}
	return r;
}

static int scan_name(struct scan *c, int dir_fd, const char *name, bool in_unlisted)
{
	int r, fd CLEANUP_CLOSE = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stub_handle h;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (stub_volume_hides(c->v, st.st_ino) || st.st_dev != c->v->dev)
		return 0;
	if (!S_ISDIR(st.st_mode) && st.st_nlink == 1 && stub_record_absent(fd))
		return count_object(c, &st); /* in the end nearly all are so */
	r = stub_handle_of_fd(fd, &h);
	if (r == 0 && S_ISDIR(st.st_mode))
		return push(c, &h, in_unlisted);
	if (r == 0 && st.st_nlink > 1)
		r = look_once(c, fd, &h, in_unlisted, &st);
	else if (r == 0)
		r = look(c, fd, &h, in_unlisted, &st);
	return r < 0 ? r : 0;
}

/* All names of the directory behind @fd, which is closed. */
static int scan_names(struct scan *c, int fd, bool in_unlisted)
{
	DIR *dir = fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while (r == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			r = scan_name(c, fd, d->d_name, in_unlisted);
	closedir(dir);
	return r;
}

static int scan_dir(struct scan *c, const struct todo *t)
{
	int fd = stub_handle_open(c->v, &t->h, O_RDONLY | O_DIRECTORY | O_NOATIME);
	struct stat st;
	int r;

	if (fd < 0)
		return fd == -ESTALE ? 0 : fd;
	r = look(c, fd, &t->h, t->in_unlisted, &st);
	if (r < 0) {
		close(fd);
		return r;
	}
	return scan_names(c, fd, t->in_unlisted || r == 1);
}

/* What has no other name (clients removed those that came) is met here only.  Who makes
 * a name of it journals it first, or its directory is unlisted. */
static int scan_provisional(struct scan *c)
{
	int fd = openat(c->v->provisional_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : scan_names(c, fd, true);
}

static int count_names(int dirfd, uint64_t *out)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -errno;
	}
	while ((d = readdir(dir)))
		if (d->d_name[0] != '.')
			(*out)++;
	closedir(dir);
	return 0;
}

/* Entries whose object is gone or normal, or has no name any more: what a server has open keeps
 * its record, but neither clients nor the crawler can find it. */
static int count_stale(struct scan *c)
{
	struct stub_journal_entry *e CLEANUP_FREE = calloc(256, sizeof(*e));
	int n = 0;

	if (!e)
		return -ENOMEM;
	for (int parked = 0; parked < 2; parked++) {
		struct stub_journal_cursor cur = { 0 };

		while ((n = stub_journal_next(c->j, &cur, parked, e, 256)) > 0) {
			for (int i = 0; i < n; i++) {
				int fd CLEANUP_CLOSE = stub_handle_open(c->v, &e[i].h, O_PATH);
				struct stat st;

				if (parked && e[i].park == STUB_PARK_NONE)
					continue; /* counted in the first walk */
				c->s->parked += parked;
				if (e[i].kind == STUB_JOURNAL_FILE ||
				    (parked && e[i].kind == STUB_JOURNAL_LINKS))
					c->s->journal_bytes += e[i].size;
				if (fd < 0 ||
				    stub_record_load(c->v, fd, &e[i].h, &st, &c->rec) == -ENOENT ||
				    (fstat(fd, &st) == 0 && st.st_nlink == 0))
					c->s->stale++;
			}
		}
		if (n < 0)
			return n;
	}
	return 0;
}

static int open_journal(struct scan *c)
{
	char *path CLEANUP_FREE = NULL;

	c->j = c->calls.journal;
	if (c->j)
		return 0;
	if (asprintf(&path, "/proc/self/fd/%d/" STUB_JOURNAL, c->v->dir_fd) < 0)
		return -ENOMEM;
	return stub_journal_open(path, STUB_JOURNAL_READONLY, c->v->log.fn, c->v->log.arg, &c->j);
}

STUB_PUBLIC int stub_scan_calling(struct stub_volume *v, const struct stub_scan_calls *calls,
				  struct stub_scan *out)
{
	struct scan *c CLEANUP_FREE = calloc(1, sizeof(*c));
	struct stub_journal_counts counts;
	int r;

	memset(out, 0, sizeof(*out));
	if (!c)
		return -ENOMEM;
	*c = (struct scan){ .v = v, .s = out, .calls = *calls };
	r = open_journal(c);
	if (r < 0)
		return r;
	r = push(c, &v->root, false);
	while (r == 0 && c->n > 0) {
		struct todo t = c->todo[--c->n];

		r = scan_dir(c, &t);
	}
	if (r == 0)
		r = scan_provisional(c);
	if (r == 0)
		r = count_stale(c);
	if (r == 0) {
		r = stub_journal_audit(c->j);
		out->miscounted = r == -EUCLEAN;
		r = r == -EUCLEAN || r == -ENODATA ? 0 : r;
	}
	if (r == 0)
		r = stub_journal_counts(c->j, &counts);
	if (r == 0) {
		out->journal = counts.total;
		r = count_names(v->provisional_fd, &out->provisional);
	}
	out->leftovers = out->provisional;
	if (r == 0)
		r = stub_staging_left(v, &out->leftovers);
	if (!calls->journal)
		stub_journal_close(c->j);
	free(c->todo);
	free(c->seen.at);
	return r;
}

struct telling {
	void (*progress)(void *arg, const struct stub_scan *s);
	void *arg;
};

static bool tell(void *arg, const struct stub_scan *s)
{
	const struct telling *t = arg;

	t->progress(t->arg, s);
	return true;
}

STUB_PUBLIC int stub_scan(struct stub_volume *v,
			  void (*progress)(void *arg, const struct stub_scan *s), void *arg,
			  struct stub_scan *out)
{
	struct telling t = { progress, arg };
	struct stub_scan_calls calls = { .progress = progress ? tell : NULL, .arg = &t };

	return stub_scan_calling(v, &calls, out);
}

STUB_PUBLIC bool stub_scan_whole(const struct stub_scan *s)
{
	return !s->stubs && !s->unlisted && !s->corrupt && !s->foreign;
}
