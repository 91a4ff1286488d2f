/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_walk.c - every name of the source.
 *
 * Workers take directories from a stack, list them (check_visit.c) and push what they
 * find there. Only directories are kept in memory, and of these a bounded number: one
 * that has too many subdirectories goes back on the stack, below the first of them,
 * and is listed once more when these are done.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "check/check_visit.h"

#define NODES_MOST  (256 * 1024) /* directories in memory, roughly */
#define CHUNK_LEAST 64 /* subdirectories taken from one listing */
#define CHUNK_MOST  (NODES_MOST / 8)
#define PROGRESS_MS 1000

/* SIGINT and SIGTERM, and the end of the last worker, write to it. */
static int wake_fd = -1;
static volatile sig_atomic_t signalled;

static void wake(void)
{
	int saved = errno;

	eventfd_write(wake_fd, 1);
	errno = saved;
}

static void on_signal(int sig)
{
	(void)sig;
	signalled = 1;
	wake();
}

/* With the lock held. */
static void node_put(struct walker *k, struct node *n)
{
	while (n && --n->refs == 0) {
		struct node *parent = n->parent;

		k->nodes--;
		free(n);
		n = parent;
	}
}

/* ---- workers ---- */

/* The next directory and how many of its subdirectories may be taken; NULL at the end. */
static struct node *take(struct walker *k, uint64_t *chunk)
{
	struct node *n;

	pthread_mutex_lock(&k->lock);
	while (!k->top && k->busy && !k->stop)
		pthread_cond_wait(&k->changed, &k->lock);
	n = k->stop ? NULL : k->top;
	if (n) {
		k->top = n->below;
		k->busy++;
		*chunk = k->nodes < NODES_MOST ? (NODES_MOST - k->nodes) / 8 : 0;
		if (*chunk < CHUNK_LEAST)
			*chunk = CHUNK_LEAST;
		if (*chunk > CHUNK_MOST)
			*chunk = CHUNK_MOST;
		k->w->dirs += n->skip == 0;
	}
	pthread_mutex_unlock(&k->lock);
	return n;
}

static void push(struct walker *k, struct node *n)
{
	n->below = k->top;
	k->top = n;
}

static void give(struct walker *k, struct visit *v, int r)
{
	struct node *child;

	pthread_mutex_lock(&k->lock);
	k->nodes += v->n_children;
	v->dir->refs += v->n_children;
	if (r == 0 && v->more) {
		v->dir->skip += v->chunk;
		v->dir->refs++;
		push(k, v->dir);
	}
	while ((child = v->children)) {
		v->children = child->below;
		push(k, child);
	}
	if (r < 0 && !k->error)
		k->error = r;
	if (r < 0)
		k->stop = true;
	k->busy--;
	node_put(k, v->dir);
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

static void *worker(void *arg)
{
	struct walker *k = arg;
	struct visit v = { .k = k };
	bool folds = k->w->sides->limits && k->w->sides->limits->folds;
	struct check_twins *twins = NULL;
	bool wanted = folds || k->w->sides->exports & EXPORT_SMB;
	int r = 0;

	if (wanted)
		twins = check_twins_create(TWINS_MOST);
	if (wanted && !twins)
		r = -ENOMEM;
	while (r == 0 && (v.dir = take(k, &v.chunk))) {
		v.twins = twins;
		r = check_visit(&v);
		give(k, &v, r);
		v = (struct visit){ .k = k };
	}
	check_twins_destroy(twins);
	check_read_wait(k);
	pthread_mutex_lock(&k->lock);
	if (r < 0 && !k->error)
		k->error = r;
	k->stop = k->stop || r < 0;
	pthread_cond_broadcast(&k->changed);
	if (--k->running == 0)
		wake();
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* Until no worker is left. */
static void watch(struct walker *k)
{
	struct pollfd p = { .fd = wake_fd, .events = POLLIN };
	eventfd_t ignored;
	bool running = true;

	while (running) {
		int r = poll(&p, 1, PROGRESS_MS);

		if (r > 0)
			eventfd_read(wake_fd, &ignored);
		pthread_mutex_lock(&k->lock);
		running = k->running > 0;
		if (signalled && running && !k->w->stopped) {
			k->w->stopped = k->stop = true;
			pthread_cond_broadcast(&k->changed);
		}
		if (r == 0 && k->w->progress)
			k->w->progress(k->w->arg, k->w);
		r = k->stop;
		pthread_mutex_unlock(&k->lock);
		if (r)
			source_stop(k->s); /* ends whatever the workers wait for */
	}
}

static int run(struct walker *k, unsigned int workers)
{
	pthread_t thread[CHECK_WORKERS_MOST];
	unsigned int n;
	int r = 0;

	k->running = 1; /* ours, until all are started */
	for (n = 0; n < workers && r == 0; n++) {
		pthread_mutex_lock(&k->lock);
		k->running++;
		pthread_mutex_unlock(&k->lock);
		r = -pthread_create(&thread[n], NULL, worker, k);
	}
	pthread_mutex_lock(&k->lock);
	if (r < 0) {
		n--;
		k->running--;
		k->stop = true;
		pthread_cond_broadcast(&k->changed);
	}
	if (--k->running == 0)
		wake();
	pthread_mutex_unlock(&k->lock);
	watch(k);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	if (r == 0)
		r = k->error;
	return r == -ECANCELED && k->w->stopped ? 0 : r;
}

int check_walk(struct check_walk *w, struct source *s, const struct source_facts *facts)
{
	struct sigaction act = { .sa_handler = on_signal }, old[2];
	struct walker k = { .w = w, .s = s, .nodes = 1 };
	const uint8_t *inode;
	struct node *n;
	size_t len;
	int r;

	k.top = node_create(NULL, "", 0, facts->root.bytes, facts->root.len, &facts->attr);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!k.top || wake_fd < 0) {
		free(k.top);
		return -ENOMEM;
	}
	if (!strcmp(w->sides->protocol, "nfs")) {
		inode = source_inode(s, &facts->root, &len);
		k.top->handle = check_handle(inode, len);
		check_subvolume(&k, k.top->fsid, k.top->fileid, k.top->handle);
	}
	pthread_mutex_init(&k.lock, NULL);
	pthread_cond_init(&k.changed, NULL);
	signalled = 0;
	sigaction(SIGINT, &act, &old[0]);
	sigaction(SIGTERM, &act, &old[1]);
	r = run(&k, w->workers);
	sigaction(SIGINT, &old[0], NULL);
	sigaction(SIGTERM, &old[1], NULL);
	while ((n = k.top)) {
		k.top = n->below;
		node_put(&k, n);
	}
	pthread_cond_destroy(&k.changed);
	pthread_mutex_destroy(&k.lock);
	close(wake_fd);
	return r;
}
