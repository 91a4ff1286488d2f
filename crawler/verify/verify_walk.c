/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_walk.c - everything of both sides, once.
 *
 * Workers take tasks from a stack: a directory, or some of its names.  Names lie above the
 * directories that were found with them, so that few of them are in memory; how much that is
 * depends on the widest directories, not on the tree.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_inside.h"

#define PROGRESS_MS 1000
#define WATCH_MS    200
#define ALONE_BLOCK (1u << 20) /* bytes of a READ of the disk, without a source */

static volatile sig_atomic_t signalled;

static void on_signal(int sig)
{
	signalled = sig;
}

/* ---- workers ---- */

static struct task *take(struct run *k)
{
	struct task *t;

	pthread_mutex_lock(&k->lock);
	while (!k->top && k->busy && !k->stop)
		pthread_cond_wait(&k->changed, &k->lock);
	t = k->stop ? NULL : k->top;
	if (t) {
		k->top = t->below;
		k->busy++;
	}
	pthread_mutex_unlock(&k->lock);
	return t;
}

static void *worker(void *arg)
{
	struct run *k = arg;
	struct task *t;
	int r;

	while ((t = take(k))) {
		if (k->v->source)
			r = t->now   ? verify_moved(k, t->dir, t->items, &t->h, t->now) :
			    t->items ? verify_items(k, t->dir, t->items) :
				       verify_dir(k, t->dir);
		else
			r = t->items ? alone_items(k, t->dir, t->items) : alone_dir(k, t->dir);
		dir_put(k, t->dir);
		free(t);
		pthread_mutex_lock(&k->lock);
		if (r < 0 && !k->error)
			k->error = r;
		k->stop = k->stop || r < 0;
		k->busy--;
		pthread_cond_broadcast(&k->changed);
		pthread_mutex_unlock(&k->lock);
	}
	pthread_mutex_lock(&k->lock);
	k->running--;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* Until no worker is left. */
static void watch(struct run *k)
{
	uint64_t told = stub_now_ms();

	pthread_mutex_lock(&k->lock);
	while (k->running) {
		bool stop;

		stub_cond_wait_until(&k->changed, &k->lock, stub_now_ms() + WATCH_MS);
		if (signalled && !k->v->stopped) {
			k->v->stopped = k->stop = true;
			pthread_cond_broadcast(&k->changed);
		}
		if (k->v->progress && stub_now_ms() - told >= PROGRESS_MS) {
			told = stub_now_ms();
			k->v->progress(k->v->arg, k->v);
		}
		stop = k->stop;
		pthread_mutex_unlock(&k->lock);
		if (stop) { /* ends whatever the workers wait for */
			verify_pace_stop(k->v->pace);
			if (k->v->source)
				source_stop(k->v->source);
		}
		pthread_mutex_lock(&k->lock);
	}
	pthread_mutex_unlock(&k->lock);
}

/* Until nothing is left to do, or an error ends it. */
static int run_workers(struct run *k)
{
	pthread_t thread[VERIFY_WORKERS_MOST];
	unsigned int n = 0;
	int r = 0;

	pthread_mutex_lock(&k->lock);
	while (r == 0 && n < k->v->workers) {
		r = -pthread_create(&thread[n], NULL, worker, k);
		n += r == 0;
		k->running += r == 0;
	}
	if (r < 0) {
		k->stop = true;
		k->error = k->error ? k->error : r;
	}
	pthread_mutex_unlock(&k->lock);
	watch(k);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	return k->error ? k->error : k->stop ? -ECANCELED : 0;
}

static void tasks_free(struct run *k)
{
	struct task *t;

	while ((t = k->top)) {
		k->top = t->below;
		items_free(t->items);
		dir_put(k, t->dir);
		free(t);
	}
}

/* ---- the whole ---- */

/* The root has no name to be met by. */
static int begin(struct run *k)
{
	struct stub_origin origin;
	struct item *i = calloc(1, sizeof(*i) + sizeof(origin.bytes) + 4);
	struct dir *d = NULL;
	struct here h;
	int r = i ? source_root(k->v->source, &origin, &i->attr) : -ENOMEM;

	if (r == 0 && source_has_meta(k->v->source, &i->attr))
		i->dummy = true;
	if (r == 0)
		r = here_look(k, -1, NULL, stub_volume_root(k->v->volume), &h);
	if (r < 0) {
		free(i);
		return r;
	}
	i->origin_len = origin.len;
	memcpy(i->bytes, origin.bytes, origin.len);
	i->name_len = 1;
	strcpy((char *)i->bytes + origin.len, ".");
	i->chosen = true;
	d = dir_create(&h, &origin, &i->attr, ".");
	r = d ? verify_object(k, d, i, &h, NULL) : -ENOMEM;
	free(i);
	if (r == 0 && !h.stub)
		r = task_push(k, d, NULL);
	else
		dir_put(k, d);
	here_close(&h);
	return r;
}

/* What clients have moved is compared where it is now. */
static int bring_together(struct run *k)
{
	int r;

	while ((r = moved_turn(k)) > 0) {
		r = run_workers(k);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : moved_tell(k);
}

static int read_chosen(struct run *k)
{
	int r = 0;

	while (r == 0 && k->n_chosen) {
		struct lost *c = &k->chosen[--k->n_chosen];

		c->item->chosen = true;
		c->item->next = NULL;
		r = task_push(k, c->dir, c->item);
	}
	return r == 0 ? run_workers(k) : r;
}

int verify_run(struct verify *v)
{
	struct sigaction act = { .sa_handler = on_signal }, old[2];
	struct run k = { .v = v, .volume_fd = stub_volume_fd(v->volume),
			 .created = stub_volume_info(v->volume)->created,
			 .began = (int64_t)time(NULL) };
	struct source_limits limits = { .read_bytes = ALONE_BLOCK };
	struct stat root;
	int r;

	if (fstat(k.volume_fd, &root) < 0)
		return -errno;
	k.volume_dev = root.st_dev;
	pthread_mutex_init(&k.lock, NULL);
	stub_cond_init(&k.changed);
	signalled = 0;
	sigaction(SIGINT, &act, &old[0]);
	sigaction(SIGTERM, &act, &old[1]);
	r = v->source ? source_limits(v->source, &limits) : 0;
	k.block = r == 0 ? limits.read_bytes : 0;
	if (r == 0)
		r = v->source ? begin(&k) : alone_begin(&k);
	if (r == 0)
		r = run_workers(&k);
	if (r == 0)
		r = bring_together(&k);
	if (r == 0)
		r = read_chosen(&k);
	sigaction(SIGINT, &old[0], NULL);
	sigaction(SIGTERM, &old[1], NULL);
	tasks_free(&k);
	while (k.n_chosen) {
		free(k.chosen[--k.n_chosen].item);
		dir_put(&k, k.chosen[k.n_chosen].dir);
	}
	free(k.chosen);
	free(k.read);
	moved_free(&k);
	pthread_cond_destroy(&k.changed);
	pthread_mutex_destroy(&k.lock);
	return v->stopped ? -ECANCELED : r;
}
