/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_tasks.c - what there is to do, what was found, and what waits for its counterpart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "verify/verify_inside.h"

const char *const verify_what[VERIFY_WHATS] = {
	"missing", "extra",  "other-object", "type",  "owner", "mode",	 "mtime",    "size",
	"content", "target", "device",	     "links", "acl",   "stream", "attribute", "unreadable",
};

const char *const verify_class[VERIFY_CLASSES] = { "different", "unclear", "changed" };

/* ---- directories and tasks ---- */

struct dir *dir_create(const struct here *h, const struct stub_origin *origin,
		       const struct stub_attr *a, const char *path)
{
	struct dir *d = calloc(1, sizeof(*d) + strlen(path) + 1);

	if (!d)
		return NULL;
	d->refs = 1;
	strcpy(d->path, path);
	d->trust = TRUST_NONE;
	if (h) {
		d->here = true;
		d->h = h->h;
		d->trust = h->trust;
		if (h->noted)
			d->since = h->note.ctime;
	}
	if (origin) {
		d->there = true;
		d->id = (struct source_id){ a->fsid, a->fileid };
		d->origin = malloc(sizeof(*origin));
		if (!d->origin) {
			free(d);
			return NULL;
		}
		*d->origin = *origin;
	}
	return d;
}

struct dir *dir_get(struct run *k, struct dir *d)
{
	pthread_mutex_lock(&k->lock);
	d->refs++;
	pthread_mutex_unlock(&k->lock);
	return d;
}

void dir_put(struct run *k, struct dir *d)
{
	bool last;

	if (!d)
		return;
	pthread_mutex_lock(&k->lock);
	last = --d->refs == 0;
	pthread_mutex_unlock(&k->lock);
	if (last) {
		free(d->origin);
		free(d->at);
		free(d);
	}
}

char *path_join(const char *dir, const char *name)
{
	char *path = malloc(strlen(dir) + strlen(name) + 2);

	if (path && !strcmp(dir, "."))
		strcpy(path, name);
	else if (path)
		stpcpy(stpcpy(stpcpy(path, dir), "/"), name);
	return path;
}

void items_free(struct item *i)
{
	struct item *next;

	for (; i; i = next) {
		next = i->next;
		free(i);
	}
}

static int push(struct run *k, const struct task *task)
{
	struct task *t = malloc(sizeof(*t));

	if (!t) {
		items_free(task->items);
		dir_put(k, task->dir);
		return -ENOMEM;
	}
	*t = *task;
	pthread_mutex_lock(&k->lock);
	t->below = k->top;
	k->top = t;
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
	return 0;
}

int task_push(struct run *k, struct dir *d, struct item *items)
{
	return push(k, &(struct task){ .dir = d, .items = items });
}

int task_push_moved(struct run *k, struct dir *d, struct item *item, const struct stub_handle *h,
		    const char *now)
{
	return push(k, &(struct task){ .dir = d, .items = item, .h = *h, .now = now });
}

/* ---- what is found ---- */

bool run_fatal(int r)
{
	return r == -ECANCELED || r == -ETIMEDOUT || r == -ENOMEDIUM || r == -ENOMEM;
}

void run_count(struct run *k, uint64_t *what, uint64_t n)
{
	pthread_mutex_lock(&k->lock);
	*what += n;
	pthread_mutex_unlock(&k->lock);
}

void run_tell(struct run *k, const struct verify_found *f)
{
	pthread_mutex_lock(&k->lock);
	k->v->n.found[f->class]++;
	k->v->found(k->v->arg, f);
	pthread_mutex_unlock(&k->lock);
}

/* ---- a sample ---- */

/* Those of the smallest hashes: each file has the same chance, and a comparison that goes on
 * chooses the same ones again. */
static uint64_t rank_of(const struct run *k, const struct item *i)
{
	uint64_t h = stub_fnv(STUB_FNV, &k->v->number, sizeof(k->v->number));

	h = stub_fnv(h, i->bytes, i->origin_len);
	h ^= h >> 33; /* FNV's upper bits depend too little on the last bytes */
	h *= UINT64_C(0xff51afd7ed558ccd);
	h ^= h >> 33;
	h *= UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

static void sift_up(struct lost *c, size_t at)
{
	for (; at && c[(at - 1) / 2].item->rank < c[at].item->rank; at = (at - 1) / 2) {
		struct lost was = c[at];

		c[at] = c[(at - 1) / 2];
		c[(at - 1) / 2] = was;
	}
}

static void sift_down(struct lost *c, size_t n)
{
	size_t at = 0, big;

	for (;; at = big) {
		struct lost was = c[at];

		big = 2 * at + 1;
		if (big + 1 < n && c[big + 1].item->rank > c[big].item->rank)
			big++;
		if (big >= n || c[big].item->rank <= c[at].item->rank)
			return;
		c[at] = c[big];
		c[big] = was;
	}
}

/* With the lock.  False: no memory. */
static bool chosen_room(struct run *k)
{
	size_t cap = k->cap_chosen ? k->cap_chosen * 2 : 1024;
	struct lost *c;

	if (k->n_chosen < k->cap_chosen)
		return true;
	c = realloc(k->chosen, cap * sizeof(*c));
	if (!c)
		return false;
	k->chosen = c;
	k->cap_chosen = cap;
	return true;
}

int run_choose(struct run *k, struct dir *d, struct item *i, bool *mine)
{
	struct lost out = { 0 };
	int r = 0;

	if (!k->v->sample || i->chosen || i->error || !S_ISREG(i->attr.mode) || !i->attr.size)
		return 0;
	i->rank = rank_of(k, i);
	pthread_mutex_lock(&k->lock);
	if (k->n_chosen < k->v->sample) {
		if (chosen_room(k)) {
			d->refs++;
			k->chosen[k->n_chosen++] = (struct lost){ d, i };
			sift_up(k->chosen, k->n_chosen - 1);
			*mine = false;
		} else {
			r = -ENOMEM;
		}
	} else if (k->chosen[0].item->rank > i->rank) {
		out = k->chosen[0];
		d->refs++;
		k->chosen[0] = (struct lost){ d, i };
		sift_down(k->chosen, k->n_chosen);
		*mine = false;
	}
	pthread_mutex_unlock(&k->lock);
	free(out.item);
	dir_put(k, out.dir);
	return r;
}

/* ---- what is not where it was ---- */

#define MOST (1u << 22) /* of each kind; more are counted, not compared */

static void *room(void *p, size_t *cap, size_t n, size_t size)
{
	size_t want = *cap ? *cap * 2 : 256;

	if (n < *cap)
		return p;
	p = realloc(p, want * size);
	if (p)
		*cap = want;
	return p;
}

int moved_lost(struct run *k, struct dir *d, struct item *i)
{
	struct lost *p = NULL;

	pthread_mutex_lock(&k->lock);
	if (k->n_lost < MOST)
		p = room(k->lost, &k->cap_lost, k->n_lost, sizeof(*p));
	if (p) {
		k->lost = p;
		d->refs++;
		p[k->n_lost++] = (struct lost){ d, i };
	} else {
		k->v->n.gone++;
	}
	pthread_mutex_unlock(&k->lock);
	if (!p)
		free(i);
	return 0;
}

int moved_stray(struct run *k, const struct here *h, const char *path)
{
	struct stray *p = NULL;
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&k->lock);
	if (k->n_strays < MOST)
		p = room(k->strays, &k->cap_strays, k->n_strays, sizeof(*p));
	if (p) {
		k->strays = p;
		p[k->n_strays++] = (struct stray){
			.h = h->h, .fileid = h->note.fileid, .path = copy,
			.linked = !S_ISDIR(h->st.st_mode) && h->st.st_nlink > 1,
			.now = h->st.st_ctim.tv_sec >= k->began,
		};
	} else {
		k->v->n.found[VERIFY_UNCLEAR]++;
	}
	pthread_mutex_unlock(&k->lock);
	if (!p)
		free(copy);
	return 0;
}

void lost_forget(struct run *k, struct lost *l)
{
	free(l->item);
	dir_put(k, l->dir);
	*l = (struct lost){ 0 };
}

void moved_free(struct run *k)
{
	for (size_t n = 0; n < k->n_lost; n++)
		lost_forget(k, &k->lost[n]);
	free(k->lost);
	for (size_t n = 0; n < k->n_strays; n++)
		free(k->strays[n].path);
	free(k->strays);
}
