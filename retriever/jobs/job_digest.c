/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_digest.c - digests of the bytes as they come (docs/decisions/0074).
 *
 * What has come of a file is kept in memory from transfer to transfer, until all has: then its
 * digest goes to its place (stub_digest_put()).  It is a fact of the version that was listed;
 * what clients do to the file meanwhile is not looked at here.
 *
 * For the crawler the worker that has stored the bytes does it.  What a client waits for goes
 * to a thread of its own after the client was answered.  Where there is too much of it, in the
 * queue or in memory, digests are given up, and nobody waits: such a file has none, which
 * `postcopy verify` says.  So has a file that was under way when the retriever ended.
 *
 * Locking: digesting.lock, of one file, is held while bytes are digested.  digests.lock and
 * digests.queue_lock are leaves; of all three a client's worker takes the last one only.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bytes.h"
#include "jobs/job_digest.h"

#define MEMORY_MAX (32u << 20)
#define QUEUE_MAX  (16u << 20)
#define NICE	   10 /* clients may be waiting for what others are at */

/* Which version of what. */
struct of {
	struct stub_handle h;
	uint64_t ino, size;
	struct timespec mtime;
};

struct digesting {
	struct digesting *next;		/* of the bucket */
	struct digesting *newer, *older;
	unsigned int refs;		/* users; it is listed as well */
	bool listed;
	size_t memory;			/* as it was counted */
	struct of of;
	pthread_mutex_t lock;
	struct digest_file *file;
};

struct digest_later {
	struct digest_later *next;
	struct of of;
	uint64_t offset;
	char *bytes;
	size_t n;
};

static struct of of_object(const struct stub_object *o)
{
	return (struct of){ .h = o->h, .ino = o->ino, .size = o->size, .mtime = o->mtime };
}

/* ---- files under way ---- */

static bool same_version(const struct of *a, const struct of *b)
{
	return a->size == b->size && a->mtime.tv_sec == b->mtime.tv_sec &&
	       a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static struct digesting **bucket_of(struct digests *d, const struct of *of)
{
	return &d->bucket[stub_fnv(STUB_FNV, of->h.bytes, of->h.len) % DIGESTS_BUCKETS];
}

static void destroy(struct digesting *g)
{
	digest_file_destroy(g->file);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

/* With digests.lock held, as all that follow. */
static void push_front(struct digests *d, struct digesting *g)
{
	g->newer = NULL;
	g->older = d->first;
	if (d->first)
		d->first->newer = g;
	else
		d->last = g;
	d->first = g;
}

static void take_off(struct digests *d, struct digesting *g)
{
	*(g->newer ? &g->newer->older : &d->first) = g->older;
	*(g->older ? &g->older->newer : &d->last) = g->newer;
}

/* It is not found any more; whoever uses it destroys it. */
static void unlist(struct digests *d, struct digesting *g)
{
	struct digesting **p = bucket_of(d, &g->of);

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	take_off(d, g);
	d->memory -= g->memory;
	g->listed = false;
	if (g->refs == 0)
		destroy(g);
}

static struct digesting *create(struct digests *d, const struct of *of)
{
	struct digesting **p = bucket_of(d, of), *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	if (digest_file_create(of->size, &g->file) < 0) {
		free(g);
		return NULL;
	}
	pthread_mutex_init(&g->lock, NULL);
	g->of = *of;
	g->listed = true;
	g->next = *p;
	*p = g;
	push_front(d, g);
	return g;
}

/* Without it; what is got has its own lock taken.  NULL: no memory. */
static struct digesting *get(struct digests *d, const struct of *of)
{
	struct digesting *g;

	pthread_mutex_lock(&d->lock);
	for (g = *bucket_of(d, of); g && !stub_handle_equal(&g->of.h, &of->h); g = g->next)
		;
	if (g && !same_version(&g->of, of)) {
		unlist(d, g);
		g = NULL;
	}
	if (!g)
		g = create(d, of);
	if (g) {
		take_off(d, g);
		push_front(d, g);
		g->refs++;
	}
	pthread_mutex_unlock(&d->lock);
	if (g)
		pthread_mutex_lock(&g->lock);
	return g;
}

/* With its own lock taken; @over: it has all it needs. */
static void put(struct digests *d, struct digesting *g, bool over)
{
	size_t memory = sizeof(*g) + digest_file_memory(g->file);
	struct digesting *old, *newer;

	pthread_mutex_unlock(&g->lock);
	pthread_mutex_lock(&d->lock);
	if (g->listed) {
		d->memory += memory - g->memory;
		g->memory = memory;
	}
	if (g->listed && over)
		unlist(d, g);
	if (--g->refs == 0 && !g->listed)
		destroy(g);
	for (old = d->last; old && d->memory > MEMORY_MAX; old = newer) {
		newer = old->newer;
		unlist(d, old);
	}
	pthread_mutex_unlock(&d->lock);
}

/* ---- bytes ---- */

static void keep(struct digests *d, const struct of *of, const uint8_t digest[DIGEST_BYTES])
{
	struct stub_digest k = { .size = of->size, .mtime = of->mtime };

	memcpy(k.digest, digest, sizeof(k.digest));
	stub_digest_put(d->volume, of->ino, &of->h, &k);
}

/* @bytes NULL: zeros. */
static void add(struct digests *d, struct digest_sha *sha, const struct of *of, uint64_t offset,
		const void *bytes, uint64_t n)
{
	uint8_t digest[DIGEST_BYTES];
	struct digesting *g;
	bool over;

	if (bytes && offset == 0 && n == of->size) { /* all of it: the usual case */
		if (digest_of(sha, bytes, n, digest))
			keep(d, of, digest);
		return;
	}
	g = get(d, of);
	if (!g)
		return;
	if (bytes)
		digest_file_add(g->file, sha, offset, bytes, n);
	else
		digest_file_zeros(g->file, sha, offset, offset + n);
	over = digest_file_end(g->file, sha, digest);
	put(d, g, over);
	if (over)
		keep(d, of, digest);
}

static void add_now(struct digests *d, const struct stub_object *o, uint64_t offset,
		    const void *bytes, uint64_t n)
{
	struct of of = of_object(o);
	struct digest_sha *sha;

	if (!d->volume || n == 0 || digest_sha_create(&sha) < 0)
		return;
	add(d, sha, &of, offset, bytes, n);
	digest_sha_destroy(sha);
}

void digests_add(struct digests *d, const struct stub_object *o, uint64_t offset, const void *bytes,
		 size_t n)
{
	add_now(d, o, offset, bytes, n);
}

void digests_zeros(struct digests *d, const struct stub_object *o, uint64_t from, uint64_t end)
{
	add_now(d, o, from, NULL, end - from);
}

/* ---- bytes of clients ---- */

bool digests_later(struct digests *d, const struct stub_object *o, uint64_t offset, char **bytes,
		   size_t n)
{
	struct digest_later *l = d->started ? malloc(sizeof(*l)) : NULL;
	bool taken;

	if (!l)
		return false;
	*l = (struct digest_later){ .of = of_object(o), .offset = offset, .bytes = *bytes, .n = n };
	pthread_mutex_lock(&d->queue_lock);
	taken = !d->stop && d->queued + n <= QUEUE_MAX;
	if (taken) {
		*d->queue_end = l;
		d->queue_end = &l->next;
		d->queued += n;
		pthread_cond_signal(&d->wake);
	}
	pthread_mutex_unlock(&d->queue_lock);
	if (taken)
		*bytes = NULL;
	else
		free(l);
	return taken;
}

/* With the queue's lock; NULL: it is time to stop. */
static struct digest_later *take(struct digests *d)
{
	struct digest_later *l;

	while (!d->queue && !d->stop)
		pthread_cond_wait(&d->wake, &d->queue_lock);
	l = d->stop ? NULL : d->queue;
	if (l && !(d->queue = l->next))
		d->queue_end = &d->queue;
	return l;
}

static void *later_thread(void *arg)
{
	struct digests *d = arg;
	struct digest_sha *sha = NULL;
	struct digest_later *l;

	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread, as Linux has it */
	digest_sha_create(&sha);
	pthread_mutex_lock(&d->queue_lock);
	while ((l = take(d))) {
		pthread_mutex_unlock(&d->queue_lock);
		if (sha)
			add(d, sha, &l->of, l->offset, l->bytes, l->n);
		free(l->bytes);
		pthread_mutex_lock(&d->queue_lock);
		d->queued -= l->n;
		free(l);
	}
	pthread_mutex_unlock(&d->queue_lock);
	digest_sha_destroy(sha);
	return NULL;
}

/* ---- life ---- */

int digests_start(struct digests *d, struct stub_volume *volume)
{
	int r;

	d->volume = volume;
	d->queue_end = &d->queue;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->queue_lock, NULL);
	pthread_cond_init(&d->wake, NULL);
	if (!volume)
		return 0;
	r = -pthread_create(&d->thread, NULL, later_thread, d);
	d->started = r == 0;
	return r;
}

void digests_stop(struct digests *d)
{
	struct digest_later *l;

	if (!d->started)
		return;
	pthread_mutex_lock(&d->queue_lock);
	d->stop = true;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->queue_lock);
	pthread_join(d->thread, NULL);
	d->started = false;
	while ((l = d->queue)) {
		d->queue = l->next;
		free(l->bytes);
		free(l);
	}
	d->queue_end = &d->queue;
}

void digests_finish(struct digests *d)
{
	while (d->first)
		unlist(d, d->first);
	pthread_cond_destroy(&d->wake);
	pthread_mutex_destroy(&d->queue_lock);
	pthread_mutex_destroy(&d->lock);
}
