/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * fold.c - what was written or filled becomes durable without anybody's COMMIT.
 *
 * The map `durable` of a record follows a client's COMMIT.  Without one it would lag behind
 * for ever: even after an orderly reboot the source's bytes would be fetched again, over what
 * a client wrote and what is on the disk.  NFS clients send it again; local writers do not.
 *
 * So each process that changes files remembers which records lag.  A thread of the
 * volume, started by the first of them, makes one syncfs every FOLD_MS for all and folds
 * their maps, as a COMMIT does; closing the volume does so at once.  The records need no
 * sync of their own: an older one is right too.
 *
 * No note is ever dropped.  It stands in a file too, before the record lags (lagging.c),
 * and what a dead process has left is folded by those who live: with each round, when
 * they close the volume, and by a process that keeps the volume (STUB_OPEN_KEEP) every
 * FOLD_MS.  If it cannot be noted the writer makes it durable at once.
 *
 * Lock order: the lock here is a leaf, with the list's file under it.
 */
#include <signal.h>

#include "lagging.h"
#include "volume.h"

#define FOLD_MS	 5000
#define FOLD_MAX 1024 /* so many objects do not wait for FOLD_MS */
#define BUCKETS	 1024

struct batch {
	uint32_t n, cap;
	uint32_t bucket[BUCKETS]; /* index + 1 of the first, 0: none */
	uint32_t *next;
	struct stub_handle *h;
	struct stub_lagging list;
};

struct stub_folder {
	struct stub_volume *v;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool running, stop, keeper;
	struct batch *batch; /* being gathered */
	struct batch *spare; /* the thread's in a round */
};

/* ---- batches ---- */

static struct batch *batch_new(void)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (b)
		b->list.fd = -1;
	return b;
}

static void batch_free(struct batch *b)
{
	if (!b)
		return;
	stub_lagging_leave(&b->list);
	free(b->next);
	free(b->h);
	free(b);
}

static bool batch_grow(struct batch *b)
{
	uint32_t cap = b->cap ? b->cap * 2 : 64;
	struct stub_handle *h = realloc(b->h, cap * sizeof(*h));
	uint32_t *next;

	if (!h)
		return false;
	b->h = h;
	next = realloc(b->next, cap * sizeof(*next));
	if (!next)
		return false;
	b->next = next;
	b->cap = cap;
	return true;
}

static bool batch_knows(const struct batch *b, const struct stub_handle *h, unsigned int bucket)
{
	for (uint32_t i = b->bucket[bucket]; i; i = b->next[i - 1])
		if (stub_handle_equal(&b->h[i - 1], h))
			return true;
	return false;
}

static int batch_add(const struct stub_volume *v, struct batch *b, const struct stub_handle *h)
{
	unsigned int bucket = stub_handle_sum(h) % BUCKETS;
	int r;

	if (batch_knows(b, h, bucket))
		return 0;
	if (b->n == b->cap && !batch_grow(b))
		return -ENOMEM;
	r = stub_lagging_add(v, &b->list, h);
	if (r < 0)
		return r;
	b->h[b->n] = *h;
	b->next[b->n] = b->bucket[bucket];
	b->bucket[bucket] = ++b->n;
	return 0;
}

/* ---- a round ---- */

/* The first @left objects could not be folded: they join the batch being gathered.  @b's list on
 * disk is removed only once they are in that batch's list. */
static void keep(struct stub_folder *f, struct batch *b, size_t left)
{
	bool all = true;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < left; i++)
		all &= batch_add(f->v, f->batch, &b->h[i]) == 0;
	pthread_mutex_unlock(&f->lock);
	if (all)
		stub_lagging_end(f->v, &b->list);
	else
		stub_lagging_leave(&b->list); /* our own next round adopts it */
}

/* Returns how many could not be folded. */
static size_t round_of(struct stub_folder *f, struct batch *b)
{
	size_t left = stub_lagging_fold(f->v, b->h, b->n);

	if (left == 0)
		stub_lagging_end(f->v, &b->list);
	else
		keep(f, b, left);
	stub_lagging_adopt(f->v, false);
	memset(b->bucket, 0, sizeof(b->bucket));
	b->n = 0;
	return left;
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
	size_t left = 0;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		struct batch *b;

		while (!f->stop && f->batch->n == 0 && !f->keeper)
			pthread_cond_wait(&f->wake, &f->lock);
		wait_a_while(f);
		/* when stopping, what cannot be folded is left to other processes */
		if (f->stop && (f->batch->n == 0 || left > 0))
			break;
		b = f->batch;
		f->batch = f->spare;
		f->spare = b;
		pthread_mutex_unlock(&f->lock);
		left = round_of(f, b);
		pthread_mutex_lock(&f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* ---- remembering ---- */

/* Start the thread, once there is something to do: a server may fork after it has opened. */
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

/* The record @r of @h is about to be stored, under the exclusion: note it to be folded, if it
 * lags.  -errno: it could not be noted, so it must not lag. */
static int note(struct stub_folder *f, const struct stub_handle *h, const struct stub_record *r)
{
	int e;

	/* `now` is a part of `durable`: if they have as many bytes they are equal */
	if (!f || stub_map_bytes(&r->now) == stub_map_bytes(&r->durable))
		return 0;
	pthread_mutex_lock(&f->lock);
	e = start(f) ? batch_add(f->v, f->batch, h) : -ENOMEM;
	if (e == 0 && (f->batch->n == 1 || f->batch->n == FOLD_MAX))
		pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
	return e;
}

int stub_record_store_lagging(struct stub_volume *v, int fd, const struct stub_handle *h,
			      struct stub_record *r)
{
	int e = 0;

	if (note(v->folder, h, r) < 0)
		e = stub_record_sync(v, h, r);
	return e < 0 ? e : stub_record_store_fitting(v, fd, h, r);
}

/* ---- life ---- */

int stub_folder_create(struct stub_volume *v, bool keeper, struct stub_folder **out)
{
	struct stub_folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->v = v;
	f->keeper = keeper;
	f->batch = batch_new();
	f->spare = batch_new();
	pthread_mutex_init(&f->lock, NULL);
	stub_cond_init(&f->wake);
	if (!f->batch || !f->spare || (keeper && !start(f))) {
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
	stub_lagging_adopt(f->v, false); /* nobody may come after us */
	pthread_cond_destroy(&f->wake);
	pthread_mutex_destroy(&f->lock);
	batch_free(f->batch);
	batch_free(f->spare);
	free(f);
}
