/* SPDX-License-Identifier: GPL-3.0-or-later */
/* verify_dir.c - one directory of both sides, or of the one that has it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "verify/verify_inside.h"

#define CHUNK 128 /* names that one worker takes */
#define AHEAD 8	  /* of these, so many are looked at and asked for ahead of their turn */

struct listing {
	struct item *first;
	size_t n;
	uint64_t *names; /* sorted hashes of all names */
};

static uint64_t hash(const char *name, size_t len)
{
	return stub_fnv(STUB_FNV, (const uint8_t *)name, len);
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct listing *l = arg;

	for (size_t j = 0; j < n; j++, e++) {
		size_t target_len = e->error ? 0 : e->target_len;
		size_t origin_len = e->error ? 0 : e->origin_len;
		struct item *i;

		if (stub_name_check(e->name, e->name_len) < 0)
			continue; /* no file system here could have it */
		i = calloc(1, sizeof(*i) + origin_len + e->name_len + target_len + 2);
		if (!i)
			return -ENOMEM;
		i->error = origin_len > STUB_ORIGIN_MAX ? -EOVERFLOW : e->error;
		if (!e->error) {
			i->attr = e->attr;
			i->dummy = e->dummy;
		}
		i->origin_len = i->error ? 0 : (uint16_t)origin_len;
		i->name_len = (uint16_t)e->name_len;
		i->target_len = (uint16_t)target_len;
		if (!i->error)
			memcpy(i->bytes, e->origin, origin_len);
		memcpy(i->bytes + i->origin_len, e->name, e->name_len);
		if (target_len)
			memcpy(i->bytes + i->origin_len + e->name_len + 1, e->target, target_len);
		i->next = l->first;
		l->first = i;
		l->n++;
	}
	return 0;
}

static void drop(struct listing *l)
{
	while (l->first) {
		struct item *i = l->first;

		l->first = i->next;
		free(i);
	}
	free(l->names);
	memset(l, 0, sizeof(*l));
}

static int list(struct run *k, const struct dir *d, struct listing *l)
{
	int r = -EAGAIN;

	for (int tries = 0; tries < 3 && r == -EAGAIN; tries++) {
		drop(l);
		r = source_list(k->v->source, SOURCE_BACKGROUND, d->origin, &d->id, on_entries, l);
	}
	return r;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int names_of(struct listing *l)
{
	size_t n = 0;

	l->names = malloc((l->n + 1) * sizeof(*l->names));
	if (!l->names)
		return -ENOMEM;
	for (struct item *i = l->first; i; i = i->next)
		l->names[n++] = hash(item_name(i), i->name_len);
	qsort(l->names, n, sizeof(*l->names), by_hash);
	return 0;
}

/* One side does not give what is at @path: of the volume that is a damage. */
static void tell_unread(struct run *k, const char *path, bool here, int error)
{
	struct verify_found f = { .class = here ? VERIFY_DIFFERENT : VERIFY_UNCLEAR,
				  .what = VERIFY_UNREAD, .path = path };
	char why[128];

	snprintf(why, sizeof(why), "the %s does not give it: %s", here ? "volume" : "source",
		 strerror(-error));
	f.why = why;
	run_tell(k, &f);
}

/* ---- names that the source does not have ---- */

/* 0, or -errno that ends all. */
static int judge_extra(struct run *k, struct dir *d, struct here *h, const char *path)
{
	struct verify_found f = { .what = VERIFY_EXTRA, .path = path };
	enum trust trust = dir_trust(k, d);
	struct dir *below;

	if (h->stub) {
		run_count(k, &k->v->n.pending, 1);
		return 0;
	}
	if (h->noted && h->trust == TRUST_TOUCHED)
		return moved_stray(k, h, path);
	if (!h->noted && (trust == TRUST_TOUCHED || !d->there)) {
		run_count(k, &k->v->n.made, 1);
		if (!S_ISDIR(h->st.st_mode))
			return 0;
		below = dir_create(h, NULL, NULL, path); /* what is moved may be in it */
		return below ? task_push(k, below, NULL) : -ENOMEM;
	}
	f.class = h->trust == TRUST_KEPT || (trust == TRUST_KEPT && here_younger(h, d)) ?
			  VERIFY_DIFFERENT :
			  VERIFY_UNCLEAR;
	f.why = "the source does not have it";
	run_tell(k, &f);
	return 0;
}

static int look_at_extra(struct run *k, struct dir *d, int fd, const char *name)
{
	char *path = path_join(d->path, name);
	struct here h;
	int r = path ? here_look(k, fd, name, NULL, &h) : -ENOMEM;

	if (r == 0) {
		bool ours = stub_volume_root_ino(k->v->volume) == h.st.st_ino || !strcmp(path, STUB_DIR);

		if (!ours)
			r = judge_extra(k, d, &h, path);
		here_close(&h);
	} else if (r == -ENOENT || r == -EXDEV) {
		r = 0; /* removed meanwhile; another file system that is mounted there */
	} else if (path && !run_fatal(r)) {
		tell_unread(k, path, true, r);
		r = 0;
	}
	free(path);
	return r;
}

static int extras(struct run *k, struct dir *d, const struct listing *l, int dir_fd)
{
	int r = 0, fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, e = readdir(dir))) {
		uint64_t key = hash(e->d_name, strlen(e->d_name));

		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    !(l->n && bsearch(&key, l->names, l->n, sizeof(key), by_hash)))
			r = look_at_extra(k, d, fd, e->d_name);
	}
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	return r;
}

/* ---- one directory ---- */

/* Only the source has it, and something of it may be elsewhere on the volume. */
static int give_lost(struct run *k, struct dir *d, struct listing *l)
{
	struct item *i;
	int r = 0;

	while (r == 0 && (i = l->first)) {
		l->first = i->next;
		i->next = NULL;
		r = moved_lost(k, d, i);
	}
	return r;
}

static int give_items(struct run *k, struct dir *d, struct listing *l)
{
	int r = 0;

	while (r == 0 && l->first) {
		struct item *first = l->first, *last = first;

		for (unsigned int n = 1; n < CHUNK && last->next; n++)
			last = last->next;
		l->first = last->next;
		last->next = NULL;
		r = task_push(k, dir_get(k, d), first);
	}
	return r;
}

int verify_dir(struct run *k, struct dir *d)
{
	struct listing l = { 0 };
	int fd = -1, r = 0;

	if (d->here) {
		fd = stub_handle_open_at(k->volume_fd, &d->h, O_RDONLY | O_DIRECTORY | O_NOATIME);
		if (fd == -ESTALE) /* removed meanwhile */
			return 0;
		if (fd < 0) {
			tell_unread(k, d->path, true, fd);
			return run_fatal(fd) ? fd : 0;
		}
	}
	if (d->there)
		r = list(k, d, &l);
	if (r < 0 && !run_fatal(r)) {
		tell_unread(k, d->path, false, r);
		drop(&l);
		r = 0;
	} else if (r == 0) {
		r = names_of(&l);
	}
	if (r == 0 && fd >= 0 && l.names) { /* else it is not known what belongs here */
		r = extras(k, d, &l, fd);
		if (r < 0 && !run_fatal(r)) {
			tell_unread(k, d->path, true, r);
			r = 0;
		}
	}
	if (r == 0)
		r = d->here ? give_items(k, d, &l) : give_lost(k, d, &l);
	drop(&l);
	if (fd >= 0)
		close(fd);
	return r;
}

/* ---- some names of the source ---- */

static int go_below(struct run *k, const struct dir *d, const struct item *i, const struct here *h)
{
	struct stub_origin o = { .len = i->origin_len };
	char *path = path_join(d->path, item_name(i));
	struct dir *below;

	memcpy(o.bytes, i->bytes, o.len);
	below = path ? dir_create(h, &o, &i->attr, path) : NULL;
	free(path);
	if (below && d->at && !(below->at = path_join(d->at, item_name(i)))) {
		dir_put(k, below);
		below = NULL;
	}
	return below ? task_push(k, below, NULL) : -ENOMEM;
}

/* The name leads to what was made of another object than the source has there. */
static bool is_other(const struct item *i, const struct here *h)
{
	return h->noted && h->note.fileid && i->attr.fileid && h->note.fileid != i->attr.fileid;
}

/* The name is not there, or leads to something else; *mine becomes false if the item is kept. */
static int not_there(struct run *k, struct dir *d, struct item *i, const struct here *other,
		     bool *mine)
{
	struct verify_found f = { .class = VERIFY_DIFFERENT,
				  .what = other ? VERIFY_OTHER : VERIFY_MISSING };
	bool kept = dir_trust(k, d) == TRUST_KEPT || (other && other->trust == TRUST_KEPT);
	char *path = path_join(d->path, item_name(i));
	int r = path ? 0 : -ENOMEM;

	if (r == 0 && kept) {
		f.path = path;
		f.source_newer = i->attr.ctime.tv_sec > (int64_t)k->created;
		run_tell(k, &f);
	} else if (r == 0) { /* clients may have moved or removed it */
		r = other ? moved_stray(k, other, path) : 0;
		if (r == 0) {
			*mine = false;
			r = moved_lost(k, d, i);
		}
	}
	free(path);
	return r;
}

static int elsewhere(struct run *k, const struct dir *d, const struct item *i)
{
	char *path = path_join(d->path, item_name(i));
	struct verify_found f = { .class = VERIFY_UNCLEAR, .what = VERIFY_UNREAD, .path = path,
				  .why = "another file system is mounted there" };

	if (path)
		run_tell(k, &f);
	free(path);
	return path ? 0 : -ENOMEM;
}

/* A name of the source, and what it leads to here. */
struct pair {
	struct item *i;
	struct here h; /* if @error is 0, to be closed */
	int error; /* of looking at it */
};

/* Hard links are looked at when it is their turn: another name may have been read until then. */
static void look_ahead(struct run *k, int fd, struct pair *p)
{
	p->error = here_look(k, fd, item_name(p->i), NULL, &p->h);
	if (p->error == 0 && !is_other(p->i, &p->h))
		verify_ahead(k, p->i, &p->h);
}

static void look_at_links(struct run *k, int fd, struct pair *p)
{
	if (p->error || S_ISDIR(p->h.st.st_mode) || p->h.st.st_nlink < 2)
		return;
	here_close(&p->h);
	p->error = here_look(k, fd, item_name(p->i), NULL, &p->h);
}

/* *mine becomes false if the item is kept. */
static int one(struct run *k, struct dir *d, struct pair *p, bool *mine)
{
	struct here *h = &p->h;
	struct item *i = p->i;
	int r = p->error;

	if (r == -EXDEV)
		return elsewhere(k, d, i);
	if (r == -ENOENT)
		return not_there(k, d, i, NULL, mine);
	if (r < 0) {
		char *path = run_fatal(r) ? NULL : path_join(d->path, item_name(i));

		if (path) {
			tell_unread(k, path, true, r);
			free(path);
			r = 0;
		}
		return r;
	}
	if (is_other(i, h))
		return not_there(k, d, i, h, mine);
	r = verify_object(k, d, i, h, NULL);
	if (r == 0 && S_ISDIR(i->attr.mode) && S_ISDIR(h->st.st_mode) && !h->stub && !i->error)
		r = go_below(k, d, i, h);
	if (r == 0 && !h->stub)
		r = run_choose(k, d, i, mine);
	return r;
}

static struct item *pop(struct item **items)
{
	struct item *i = *items;

	*items = i->next;
	i->next = NULL;
	return i;
}

/* All of @items, which are taken over. */
static int compare_items(struct run *k, struct dir *d, int fd, struct item *items)
{
	unsigned int head = 0, tail = 0;
	struct pair ring[AHEAD];
	int r = 0;

	while (r == 0 && (items || head != tail)) {
		struct pair *p = &ring[tail % AHEAD];
		bool mine = true;

		for (; items && head - tail < AHEAD; head++) {
			ring[head % AHEAD].i = pop(&items);
			look_ahead(k, fd, &ring[head % AHEAD]);
		}
		look_at_links(k, fd, p);
		if (!p->i->chosen || !k->v->sample)
			run_count(k, &k->v->n.objects, 1);
		r = one(k, d, p, &mine);
		if (p->error == 0)
			here_close(&p->h);
		if (mine)
			free(p->i);
		tail++;
	}
	for (; tail != head; tail++) {
		if (ring[tail % AHEAD].error == 0)
			here_close(&ring[tail % AHEAD].h);
		free(ring[tail % AHEAD].i);
	}
	items_free(items);
	return r;
}

/* The directory has been removed meanwhile. */
static int give_up_items(struct run *k, struct dir *d, struct item *items)
{
	int r = 0;

	while (r == 0 && items) {
		struct item *i = pop(&items);

		if (!i->chosen || !k->v->sample)
			run_count(k, &k->v->n.objects, 1);
		r = moved_lost(k, d, i);
	}
	items_free(items);
	return r;
}

int verify_items(struct run *k, struct dir *d, struct item *items)
{
	int r, fd = stub_handle_open_at(k->volume_fd, &d->h, O_RDONLY | O_DIRECTORY | O_NOATIME);

	if (fd == -ESTALE)
		return give_up_items(k, d, items);
	if (fd < 0) {
		items_free(items);
		return fd;
	}
	r = compare_items(k, d, fd, items);
	close(fd);
	return r;
}
