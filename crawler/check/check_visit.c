/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_visit.c - one directory of the source: its entries are judged, its
 * subdirectories collected.
 *
 * If the names of a huge directory do not fit the table of twins, it is listed once more
 * for each part of them. Twins that the first listing has reported are not reported again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "check/check_visit.h"

#define SUBVOLUMES_DEEP 32

/* ---- nodes ---- */

struct node *node_create(struct node *parent, const char *name, size_t len,
			 const uint8_t *origin, size_t origin_len, const struct stub_attr *a)
{
	struct node *n = calloc(1, sizeof(*n) + origin_len + len);

	if (!n)
		return NULL;
	n->refs = 1;
	n->fsid = a->fsid;
	n->fileid = a->fileid;
	n->origin_len = origin_len;
	n->name_len = len;
	memcpy(n->bytes, origin, origin_len);
	memcpy(n->bytes + origin_len, name, len);
	n->parent = parent;
	if (parent) {
		n->depth = parent->depth + 1;
		n->path_len = parent->path_len + (parent->parent ? 1 : 0) + len;
	}
	return n;
}

static size_t path_below(const struct node *dir, size_t len)
{
	return dir->path_len + (dir->parent ? 1 : 0) + len;
}

/* Path of @name in @dir; of @dir itself if @name is NULL. The caller frees it. */
static char *path_of(const struct node *dir, const char *name, size_t len)
{
	size_t at = name ? path_below(dir, len) : dir->path_len;
	char *path = malloc(at + 1);

	if (!path)
		return NULL;
	path[at] = '\0';
	if (name) {
		at -= len;
		memcpy(path + at, name, len);
		if (dir->parent)
			path[--at] = '/';
	}
	for (; dir->parent; dir = dir->parent) {
		at -= dir->name_len;
		memcpy(path + at, dir->bytes + dir->origin_len, dir->name_len);
		if (dir->parent->parent)
			path[--at] = '/';
	}
	return path;
}

uint64_t check_handle(const uint8_t *inode, size_t len)
{
	return inode ? stub_fnv(STUB_FNV, inode, len) | 1 : 0;
}

bool check_subvolume(struct walker *k, uint64_t fsid, uint64_t fileid, uint64_t handle)
{
	if (fileid != BTRFS_ROOT || !handle)
		return false;
	for (unsigned int i = 0; i < k->n_roots; i++) {
		if (k->roots[i].fsid == fsid)
			return k->roots[i].handle != handle;
	}
	if (k->n_roots < FIRST_ROOTS) {
		k->roots[k->n_roots].fsid = fsid;
		k->roots[k->n_roots++].handle = handle;
	}
	return false;
}

/*
 * Does the entry have the fsid and file id of a directory above it?  With the same file handle,
 * or without handles, it is that directory: CHECK_CYCLE.  With another handle it is another
 * directory, as of a subvolume in a subvolume; but too many of these, nested, are a cycle too.
 */
static enum check_kind looks_like(const struct node *dir, const struct stub_attr *a,
				  uint64_t handle)
{
	enum check_kind kind = CHECK_KINDS;
	unsigned int others = 0;

	for (; dir; dir = dir->parent) {
		if (dir->fileid != a->fileid || dir->fsid != a->fsid)
			continue;
		if (!handle || dir->handle == handle || ++others > SUBVOLUMES_DEEP)
			return CHECK_CYCLE;
		kind = CHECK_SUBVOLUME;
	}
	return kind;
}

/* ---- what is found ---- */

static int report(struct walker *k, enum check_kind kind, const struct node *dir, const char *name,
		  size_t len, const char *why, const char *twin)
{
	char *path = path_of(dir, name, len);
	struct check_found f = { .kind = kind, .why = why, .twin = twin };

	if (!path)
		return -ENOMEM;
	f.path = path[0] ? path : ".";
	pthread_mutex_lock(&k->lock);
	k->w->count[kind]++;
	k->w->found(k->w->arg, &f);
	pthread_mutex_unlock(&k->lock);
	free(path);
	return 0;
}

/* ---- one directory ---- */

static int look_for_twin(struct visit *v, const struct stub_entry *e)
{
	char twin[STUB_NAME_MAX + 1];
	const char *first;
	size_t len;
	int r;

	if (!v->twins || v->full)
		return 0;
	r = check_twins_add(v->twins, e->name, e->name_len, &first, &len);
	if (r == -ENOSPC) {
		v->full = true;
		v->told = v->index;
		return 0;
	}
	if (r <= 0 || (v->want == ONLY_TWINS && v->index < v->told))
		return r < 0 ? r : 0;
	memcpy(twin, first, len);
	twin[len] = '\0';
	return report(v->k, CHECK_TWIN, v->dir, e->name, e->name_len, "", twin);
}

/* Only NFS tells of file systems.  (What has the numbers of another directory is a subvolume.) */
static bool is_border(const struct visit *v, const struct stub_entry *e)
{
	return !strcmp(v->k->w->sides->protocol, "nfs") && e->attr.fsid != v->dir->fsid;
}

static int take_dir(struct visit *v, const struct stub_entry *e)
{
	uint64_t number = v->dirs++;
	uint64_t handle = check_handle(e->inode, e->inode_len);
	enum check_kind kind;
	struct node *n;
	int r;

	if (number < v->dir->skip)
		return 0;
	if (number - v->dir->skip >= v->chunk) {
		v->more = true;
		return v->want == MORE_DIRS; /* a listing for MORE_DIRS ends here */
	}
	if (e->origin_len > STUB_ORIGIN_MAX)
		return 0; /* was reported: refused */
	kind = v->dir->depth + 1 >= STUB_DEPTH_MAX ? CHECK_CYCLE :
						     looks_like(v->dir, &e->attr, handle);
	if (kind == CHECK_KINDS) {
		pthread_mutex_lock(&v->k->lock);
		if (check_subvolume(v->k, e->attr.fsid, e->attr.fileid, handle))
			kind = CHECK_SUBVOLUME;
		pthread_mutex_unlock(&v->k->lock);
	}
	if (kind == CHECK_KINDS && is_border(v, e))
		kind = CHECK_BORDER;
	r = kind == CHECK_KINDS ? 0 : report(v->k, kind, v->dir, e->name, e->name_len, "", NULL);
	if (r < 0 || kind == CHECK_CYCLE)
		return r;
	n = node_create(v->dir, e->name, e->name_len, e->origin, e->origin_len, &e->attr);
	if (!n)
		return -ENOMEM;
	n->handle = handle;
	n->below = v->children;
	v->children = n;
	v->n_children++;
	return 0;
}

static bool tells_why(enum check_kind kind)
{
	return kind == CHECK_REFUSED || kind == CHECK_IMPOSSIBLE || kind == CHECK_NOT_JOINED;
}

static int look_at(struct visit *v, const struct stub_entry *e)
{
	size_t path_len = path_below(v->dir, e->name_len);
	char why[CHECK_WHY_MAX];
	uint32_t kinds = e->error ? 1u << CHECK_IMPOSSIBLE :
				    check_name(v->k->w->sides, e, path_len, why);
	int r = 0;

	if (e->error)
		snprintf(why, sizeof(why), "listed, and no more is said of it: %s",
			 strerror(-e->error));

	for (unsigned int kind = 0; kind < CHECK_KINDS && r == 0; kind++) {
		if (kinds & 1u << kind)
			r = report(v->k, kind, v->dir, e->name, e->name_len,
				   tells_why(kind) ? why : "", NULL);
	}
	return r;
}

static int try_to_read(struct visit *v, const struct stub_entry *e)
{
	char *path;
	int r;

	if (!v->k->w->reads || !S_ISREG(e->attr.mode) || e->origin_len > STUB_ORIGIN_MAX ||
	    stub_name_check(e->name, e->name_len) < 0)
		return 0;
	path = path_of(v->dir, e->name, e->name_len);
	r = path ? check_read(v->k, path, e) : -ENOMEM;
	free(path);
	return r;
}

#define SPARSE_LEAST (1u << 20) /* bytes; files with fewer holes cost little */

/* With the lock held.  That a file takes less room than its size is no more than a hint: it
 * has holes, or is compressed, or its server counts otherwise. */
static void count_sparse(struct check_walk *w, const struct stub_entry *e)
{
	const struct stub_attr *a = &e->attr;

	if (e->error || !S_ISREG(a->mode) || a->used >= a->size || a->size - a->used < SPARSE_LEAST)
		return;
	w->sparse++;
	w->sparse_bytes += a->size - a->used;
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct visit *v = arg;
	int r = 0;

	if (v->want == ALL) {
		pthread_mutex_lock(&v->k->lock);
		v->k->w->objects += n;
		for (size_t i = 0; i < n && !strcmp(v->k->w->sides->protocol, "nfs"); i++)
			count_sparse(v->k->w, &e[i]);
		pthread_mutex_unlock(&v->k->lock);
	}
	for (size_t i = 0; i < n && r == 0; i++) {
		if (v->want == ALL)
			r = look_at(v, &e[i]);
		if (r == 0 && v->want == ALL)
			r = try_to_read(v, &e[i]);
		if (r == 0 && v->want != MORE_DIRS)
			r = look_for_twin(v, &e[i]);
		if (r == 0 && v->want != ONLY_TWINS && !e[i].error && S_ISDIR(e[i].attr.mode) &&
		    stub_name_check(e[i].name, e[i].name_len) == 0)
			r = take_dir(v, &e[i]);
		v->index++;
		v->bytes += e[i].name_len;
	}
	return r;
}

static int list(struct visit *v)
{
	struct stub_origin o = { 0 };
	int r;

	v->index = v->bytes = 0;
	o.len = (typeof(o.len))v->dir->origin_len;
	memcpy(o.bytes, v->dir->bytes, v->dir->origin_len);
	r = source_list(v->k->s, SOURCE_BACKGROUND, &o, NULL, on_entries, v);
	return r > 0 ? 0 : r;
}

/* The names did not fit: listed again, part by part. */
static int list_parts(struct visit *v)
{
	/* slots are at most four times, the block twice as large as what is in it */
	unsigned int parts =
		(unsigned int)((v->index * 64 + v->bytes * 2 + v->index * 2) / TWINS_MOST + 2);
	uint64_t told = v->told;
	int r = 0;

	v->want = ONLY_TWINS;
	for (unsigned int i = 0; i < parts && r == 0; i++) {
		check_twins_reset(v->twins, i, parts);
		v->full = false;
		v->told = told;
		r = list(v);
		if (r == 0 && v->full)
			r = -EAGAIN; /* the directory has grown */
	}
	return r;
}

int check_visit(struct visit *v)
{
	int r;

	v->want = v->dir->skip ? MORE_DIRS : ALL;
	if (v->twins && v->want == ALL)
		check_twins_reset(v->twins, 0, 1);
	r = list(v);
	if (r == 0 && v->full)
		r = list_parts(v);
	switch (r) {
	case 0:
	case -ECANCELED:
	case -ETIMEDOUT:
	case -ENOMEM:
		return r;
	default:
		return report(v->k, CHECK_UNLISTED, v->dir, NULL, 0,
			      r == -EAGAIN  ? "it changed while it was listed" :
			      r == -EBADMSG ? "the old server's list is impossible" :
					      strerror(-r),
			      NULL);
	}
}
