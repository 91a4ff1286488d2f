/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * walk.c - directories are owed before what is in them, so that they are compared in this order, and
 * what is new over there is made from the top.
 */
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "here.h"

#define BATCH	    256
#define LOOK_MS	    500	  /* does the ledger know? */
#define FAILED_MS   10000
#define STRAYS_MAX  65536 /* in one search; others come in the next one */
#define SEARCH_REST 10	  /* times of what a search takes are between two */

struct walker {
	struct mirror *m;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping, search, all;
	atomic_bool walking;
	uint64_t *stray;   /* under lock */
	size_t n_strays;
	uint64_t search_ms; /* not before */
};

struct walk {
	struct walker *w;
	struct stub_handle *dir; /* a stack of what is to be gone through */
	size_t n, room;
	struct stub_owed owed[BATCH];
	unsigned int n_owed;
	/* a search: sorted inode numbers; NULL: everything is owed */
	const uint64_t *find;
	size_t n_find;
	int fd; /* of the directory that is gone through, with its handle */
	struct stub_handle h;
	bool has_one;
};

/* ---- one walk ---- */

static int flush(struct walk *k)
{
	int r = k->n_owed ? mirror_owe(k->w->m, NULL, k->owed, k->n_owed) : 0;

	if (r == 0)
		k->n_owed = 0;
	return r;
}

static int owe(struct walk *k, const struct stub_handle *h, uint32_t what)
{
	k->owed[k->n_owed++] = (struct stub_owed){ .h = *h, .what = what };
	return k->n_owed == BATCH ? flush(k) : 0;
}

static int push(struct walk *k, const struct stub_handle *h)
{
	if (k->n == k->room) {
		size_t room = k->room ? k->room * 2 : BATCH;
		struct stub_handle *more = reallocarray(k->dir, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		k->dir = more;
		k->room = room;
	}
	k->dir[k->n++] = *h;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int on_name(void *arg, const char *name, uint64_t ino)
{
	struct walk *k = arg;
	struct here_object o;
	int r;

	if (atomic_load(&k->w->m->stopping))
		return -ECANCELED;
	r = here_open(k->w->m, k->fd, name, &o);
	if (r != 0)
		return r == 1 ? 0 : r;
	if (S_ISDIR(o.st.st_mode))
		r = push(k, &o.h);
	else if (!k->find)
		r = owe(k, &o.h, STUB_OWED_DATA | STUB_OWED_ATTRS);
	else
		k->has_one |= bsearch(&ino, k->find, k->n_find, sizeof(ino), by_number) != NULL;
	here_close(&o);
	return r;
}

/* It may have gone meanwhile. */
static int visit(struct walk *k)
{
	int r = 0, fd = stub_handle_open_at(stub_volume_fd(k->w->m->volume), &k->h,
					    O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);

	if (fd < 0)
		return fd == -ESTALE ? 0 : fd;
	k->fd = fd;
	k->has_one = false;
	if (!k->find)
		r = owe(k, &k->h, STUB_OWED_NAMES | STUB_OWED_ATTRS);
	if (r == 0)
		r = here_each(k->w->m, fd, on_name, k);
	if (r == 0 && k->has_one)
		r = owe(k, &k->h, STUB_OWED_NAMES);
	close(fd);
	return r;
}

static int walk(struct walker *w, const uint64_t *find, size_t n_find)
{
	struct walk *k = calloc(1, sizeof(*k));
	int r = k ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	k->w = w;
	k->find = find;
	k->n_find = n_find;
	r = push(k, stub_volume_root(w->m->volume));
	while (r == 0 && k->n) {
		k->h = k->dir[--k->n];
		r = visit(k);
	}
	if (r == 0)
		r = flush(k);
	free(k->dir);
	free(k);
	return r;
}

/* ---- the thread ---- */

static int walk_all(struct walker *w)
{
	uint64_t number = stub_ledger_unknown(w->m->ledger);
	int r;

	mirror_log(w->m, STUB_LOG_INFO, "all is to be compared with the mirror: walking through the volume");
	r = walk(w, NULL, 0);
	if (r == 0 && number)
		r = stub_ledger_walked(w->m->ledger, number);
	if (r < 0 && r != -ECANCELED)
		mirror_log(w->m, STUB_LOG_ERROR, "the walk through the volume failed: %s", strerror(-r));
	return r < 0 ? r : 0; /* 1: unknown again, which the next look sees */
}

static int find_strays(struct walker *w)
{
	uint64_t *find, begun = stub_now_ms();
	size_t n;
	int r;

	pthread_mutex_lock(&w->lock);
	find = w->stray;
	n = w->n_strays;
	w->stray = NULL;
	w->n_strays = 0;
	pthread_mutex_unlock(&w->lock);
	if (n)
		qsort(find, n, sizeof(*find), by_number);
	r = n ? walk(w, find, n) : 0;
	free(find);
	pthread_mutex_lock(&w->lock);
	w->search_ms = stub_now_ms() + (stub_now_ms() - begun) * SEARCH_REST;
	pthread_mutex_unlock(&w->lock);
	return r;
}

static void rest(struct walker *w, unsigned int ms)
{
	uint64_t until = stub_now_ms() + ms;

	pthread_mutex_lock(&w->lock);
	while (!w->stopping && !(w->search || w->all) &&
	       stub_cond_wait_until(&w->wake, &w->lock, until) == 0)
		continue;
	pthread_mutex_unlock(&w->lock);
}

static void *walker_thread(void *arg)
{
	struct walker *w = arg;
	bool search, all, stopping;
	int r;

	for (;;) {
		pthread_mutex_lock(&w->lock);
		stopping = w->stopping;
		search = w->search;
		all = w->all;
		w->search = w->all = false;
		pthread_mutex_unlock(&w->lock);
		if (stopping)
			return NULL;
		r = 0;
		if (all || stub_ledger_unknown(w->m->ledger)) {
			atomic_store(&w->walking, true);
			r = walk_all(w);
			atomic_store(&w->walking, false);
		} else if (search) {
			r = find_strays(w);
		}
		rest(w, r < 0 ? FAILED_MS : LOOK_MS);
	}
}

/* ---- what others call ---- */

void walker_stray(struct walker *w, uint64_t ino)
{
	pthread_mutex_lock(&w->lock);
	if (!w->stray)
		w->stray = calloc(STRAYS_MAX, sizeof(*w->stray));
	if (w->stray && w->n_strays < STRAYS_MAX)
		w->stray[w->n_strays++] = ino;
	pthread_mutex_unlock(&w->lock);
}

void walker_find_strays(struct walker *w)
{
	pthread_mutex_lock(&w->lock);
	if (w->n_strays && stub_now_ms() >= w->search_ms) {
		w->search = true;
		pthread_cond_signal(&w->wake);
	}
	pthread_mutex_unlock(&w->lock);
}

void walker_all(struct walker *w)
{
	pthread_mutex_lock(&w->lock);
	w->all = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

bool walker_walks(struct walker *w)
{
	return atomic_load(&w->walking);
}

int walker_create(struct mirror *m, struct walker **out)
{
	struct walker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->m = m;
	pthread_mutex_init(&w->lock, NULL);
	stub_cond_init(&w->wake);
	r = -pthread_create(&w->thread, NULL, walker_thread, w);
	if (r < 0) {
		free(w);
		return r;
	}
	*out = w;
	return 0;
}

void walker_destroy(struct walker *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w->stray);
	free(w);
}
