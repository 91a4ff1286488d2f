/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * fold.c - what was written or filled becomes durable without anybody's COMMIT.
 *
 * `missing_durable` of a record follows a client's COMMIT.  Without one it lags behind
 * for good, and a reboot in perfect order would fetch again, over what a client wrote,
 * what has long been on the disk.  NFS clients send it again; local writers do not.
 *
 * So each process that changes files remembers which records lag.  A thread of the
 * volume, started by the first of them, makes one syncfs every FOLD_MS for all and folds
 * their maps, as a COMMIT does; closing the volume does so at once.  The records need no
 * sync of their own: an older one is right too.  What finds no place is remembered at
 * its next change.
 *
 * Lock order: the lock here is a leaf.
 */
#include <signal.h>

#include "internal.h"
#include "volume.h"

#define FOLD_MS	 5000
#define FOLD_MAX 1024 /* objects of one round */
#define BUCKETS	 1024

struct batch {
	unsigned int n;
	uint16_t bucket[BUCKETS]; /* index + 1 of the first, 0: none */
	uint16_t next[FOLD_MAX];
	struct stub_handle h[FOLD_MAX];
};

struct stub_folder {
	struct stub_volume *v;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool running, stop;
	struct batch *batch; /* being gathered */
	struct batch *spare; /* the thread's in a round */
};

/* ---- a round ---- */

static void round_of(struct stub_volume *v, const struct batch *b)
{
	struct stub_commit *c CLEANUP_FREE = calloc(b->n, sizeof(*c));
	unsigned int n = 0;

	if (!c)
		return;
	for (unsigned int i = 0; i < b->n; i++)
		if (stub_commit_prepare(v, &b->h[i], &c[n]) == 0 && c[n].stub)
			n++;
	if (n && syncfs(v->fd) < 0) {
		stub_log(&v->log, STUB_LOG_ERROR, "sync of the volume: %s", strerror(errno));
		stub_volume_new_era(v);
	}
	for (unsigned int i = 0; i < n; i++)
		stub_commit_fold(&c[i]); /* refuses what another era has made doubtful */
}

static void wait_a_while(struct stub_folder *f)
{
	uint64_t until_ms = stub_now_ms() + FOLD_MS;

	while (!f->stop && f->batch->n < FOLD_MAX &&
	       stub_cond_wait_until(&f->wake, &f->lock, until_ms) == 0)
		;
}

static void *folder_thread(void *arg)
{
	struct stub_folder *f = arg;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		struct batch *b;

		while (!f->stop && f->batch->n == 0)
			pthread_cond_wait(&f->wake, &f->lock);
		wait_a_while(f);
		if (f->batch->n == 0)
			break;
		b = f->batch;
		f->batch = f->spare;
		f->spare = b;
		pthread_mutex_unlock(&f->lock);
		round_of(f->v, b);
		pthread_mutex_lock(&f->lock);
		memset(b->bucket, 0, sizeof(b->bucket));
		b->n = 0;
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* ---- remembering ---- */

/* With the lock held. */
static bool known(const struct batch *b, const struct stub_handle *h, unsigned int bucket)
{
	for (unsigned int i = b->bucket[bucket]; i; i = b->next[i - 1])
		if (stub_handle_equal(&b->h[i - 1], h))
			return true;
	return false;
}

/* Not before there is something to do: a server may fork after it has opened. */
static bool start(struct stub_folder *f)
{
	sigset_t all, before;

	if (f->running || f->stop)
		return f->running;
	sigfillset(&all); /* signals are for the program's own threads */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	f->running = pthread_create(&f->thread, NULL, folder_thread, f) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return f->running;
}

void stub_folder_note(struct stub_folder *f, const struct stub_handle *h,
		      const struct stub_record *r)
{
	unsigned int bucket = stub_handle_sum(h) % BUCKETS;
	struct batch *b;

	/* now is a part of durable: as many bytes, the same map */
	if (!f || stub_map_bytes(&r->now) == stub_map_bytes(&r->durable))
		return;
	pthread_mutex_lock(&f->lock);
	b = f->batch;
	if (b->n < FOLD_MAX && !known(b, h, bucket) && start(f)) {
		b->h[b->n] = *h;
		b->next[b->n] = b->bucket[bucket];
		b->bucket[bucket] = (uint16_t)++b->n;
		if (b->n == 1 || b->n == FOLD_MAX)
			pthread_cond_signal(&f->wake);
	}
	pthread_mutex_unlock(&f->lock);
}

/* ---- life ---- */

int stub_folder_create(struct stub_volume *v, struct stub_folder **out)
{
	struct stub_folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->v = v;
	f->batch = calloc(1, sizeof(*f->batch));
	f->spare = calloc(1, sizeof(*f->spare));
	pthread_mutex_init(&f->lock, NULL);
	stub_cond_init(&f->wake);
	if (!f->batch || !f->spare) {
		stub_folder_destroy(f);
		return -ENOMEM;
	}
	*out = f;
	return 0;
}

void stub_folder_destroy(struct stub_folder *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
	if (f->running)
		pthread_join(f->thread, NULL);
	pthread_cond_destroy(&f->wake);
	pthread_mutex_destroy(&f->lock);
	free(f->batch);
	free(f->spare);
	free(f);
}
