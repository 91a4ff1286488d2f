/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * rehearse_task.c - one directory is listed, one file read: the calls that a migration makes for
 * them, in the same queues of the source as the crawler's.  What comes is thrown away.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rehearse/rehearse_inside.h"

#define READS	  8 /* of one file in flight, as in retriever/jobs/job_data.c */
#define BATCH	  64 /* small files that are read one after the other */

/* What ends everything, and is not the object's fault. */
static bool is_the_end(struct run *k, int error)
{
	if (error != -ECANCELED && error != -ETIMEDOUT && error != -ENOMEM)
		return false;
	if (error != -ECANCELED && !k->error)
		k->error = error;
	k->stop = k->stop || error != -ECANCELED;
	return true;
}

/* As filling a dummy would. */
static int ask_meta(struct run *k, const struct thing *t)
{
	struct source_meta m;
	struct stub_origin o;
	int r;

	if (!t->meta)
		return 0;
	thing_origin(t, &o);
	r = source_meta(k->s, SOURCE_BACKGROUND, &o, &m);
	source_meta_free(&m);
	return r;
}

/* ---- listing ---- */

struct listing {
	struct run *k;
	enum rehearse_work work;
	const struct thing *dir;
	struct tree_content content;
	struct thing *batch; /* small files, not in the pool yet */
	unsigned int batched;
};

static void end_batch(struct listing *l)
{
	if (l->batch)
		l->k->r->dropped += pool_add(&l->k->small, l->batch, &l->k->random);
	l->batch = NULL;
	l->batched = 0;
}

static void found_dir(struct listing *l, struct thing *t)
{
	struct run *k = l->k;

	l->content.dirs++;
	k->r->directories++;
	if (l->dir->depth + 1 >= STUB_DEPTH_MAX)
		thing_destroy(t);
	else
		k->r->dropped += pool_add(&k->dirs[t->depth < TREE_DEPTHS ? t->depth :
									    TREE_DEPTHS - 1],
					  t, &k->random);
}

static void found_file(struct listing *l, const struct stub_entry *e, double share, struct thing *t)
{
	struct rehearse *r = l->k->r;
	double size = (double)e->attr.size * share;

	l->content.bytes += size;
	r->found_bytes += size;
	if (l->work == REHEARSE_LIST)
		r->now.found_bytes += size;
	if (e->attr.size >= REHEARSE_LARGE_BYTES) {
		r->large += share;
		r->large_bytes += size;
		r->dropped += pool_add(&l->k->large, t, &l->k->random);
		return;
	}
	r->small += share;
	r->small_bytes += size;
	t->next = l->batch;
	l->batch = t;
	if (++l->batched == BATCH)
		end_batch(l);
}

static int found(struct listing *l, const struct stub_entry *e)
{
	struct rehearse *r = l->k->r;
	bool is_dir = !e->error && S_ISDIR(e->attr.mode);
	bool data = !e->error && S_ISREG(e->attr.mode) && e->attr.size;
	double share = is_dir || e->attr.nlink < 2 ? 1.0 : 1.0 / e->attr.nlink;
	struct thing *t = NULL;

	if (e->error || e->origin_len > STUB_ORIGIN_MAX ||
	    stub_name_check(e->name, e->name_len) < 0) {
		r->bad_names++;
		return 0;
	}
	if (is_dir || data) {
		t = thing_create(e, l->dir->depth + 1, source_has_meta(l->k->s, &e->attr));
		if (!t)
			return -ENOMEM;
	}
	r->found += share;
	if (l->work == REHEARSE_LIST)
		r->now.found += share;
	if (is_dir) {
		found_dir(l, t);
		return 0;
	}
	l->content.files += share;
	if (data)
		found_file(l, e, share, t);
	return 0;
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct listing *l = arg;
	int r = 0;

	pthread_mutex_lock(&l->k->lock);
	for (size_t i = 0; i < n && r == 0; i++)
		r = found(l, &e[i]);
	if (r == 0 && l->k->stop)
		r = -ECANCELED;
	pthread_mutex_unlock(&l->k->lock);
	return r;
}

/* With the lock held. */
static void listed(struct run *k, struct listing *l, int error)
{
	struct rehearse *r = k->r;
	struct rehearse_phase *p = &r->phase[l->work];

	end_batch(l);
	if (error && is_the_end(k, error))
		return;
	if (error) {
		r->unlistable++;
		return;
	}
	r->listed++;
	treestat_note(&r->tree, l->dir->depth, &l->content);
	p->ops++;
	p->objects += 1 + l->content.files;
}

void task_list(struct run *k, enum rehearse_work work, struct thing *dir)
{
	struct listing l = { .k = k, .work = work, .dir = dir };
	struct stub_origin o;
	int r;

	thing_origin(dir, &o);
	r = ask_meta(k, dir);
	if (r == 0)
		r = source_list(k->s, SOURCE_BACKGROUND, &o, NULL, on_entries, &l);
	pthread_mutex_lock(&k->lock);
	listed(k, &l, r);
	pthread_mutex_unlock(&k->lock);
	thing_destroy(dir);
}

/* ---- reading ---- */

#define PART (16u << 20) /* bytes of a file that are given to the disk at once */

struct reading {
	struct run *k;
	enum rehearse_work work;
	/* guarded by k->lock */
	unsigned int inflight;
	int error;
	bool shorter; /* than its size said */
	pthread_cond_t arrived;
	struct one *have; /* to be written */
	/* the worker's own */
	bool writes;
	int fd; /* -1: none */
	uint64_t written; /* to it */
	uint64_t here_us;
};

struct one {
	struct reading *of;
	uint32_t length;
	struct one *next;
	int64_t got;
	char *data;
};

/* For the worker, which writes it. */
static bool keep(struct one *one, const struct source_read *got)
{
	struct reading *g = one->of;

	if (!g->writes || got->result <= 0)
		return false;
	one->data = malloc((size_t)got->result);
	if (!one->data) {
		g->error = -ENOMEM;
		return false;
	}
	memcpy(one->data, got->data, (size_t)got->result);
	one->got = got->result;
	one->next = g->have;
	g->have = one;
	return true;
}

/* On a thread of the source. */
static void on_read(void *arg, const struct source_read *got)
{
	struct one *one = arg;
	struct reading *g = one->of;
	struct run *k = g->k;

	pthread_mutex_lock(&k->lock);
	if (got->result < 0 && !g->error)
		g->error = (int)got->result;
	if (got->result > 0) {
		k->r->phase[g->work].bytes += (uint64_t)got->result;
		k->r->bytes += (uint64_t)got->result;
		if (g->work == REHEARSE_SMALL || g->work == REHEARSE_LARGES)
			k->r->now.done_bytes += (double)got->result;
	}
	g->shorter = g->shorter || got->result < one->length;
	if (!keep(one, got)) {
		k->asked -= one->length;
		free(one);
	}
	g->inflight--;
	pthread_cond_signal(&g->arrived);
	if (k->waiting)
		pthread_cond_broadcast(&k->room);
	pthread_mutex_unlock(&k->lock);
}

/* What is written goes to the end of the file, wherever it came from. */
static int write_one(struct reading *g, const struct one *one)
{
	struct run *k = g->k;
	int r = 0;

	if (g->fd < 0)
		r = g->fd = disk_file(k->disk);
	if (r >= 0)
		r = stub_io_pwrite(g->fd, one->data, (size_t)one->got, g->written);
	g->written += (uint64_t)one->got;
	if (r >= 0 && g->written >= PART) {
		r = disk_give(k->disk, g->fd, g->written);
		g->fd = -1;
		g->written = 0;
	}
	return r < 0 ? r : 0;
}

static void here_failed(struct reading *g, int error)
{
	if (!g->k->r->here)
		g->k->r->here = error;
	if (!g->k->error)
		g->k->error = -EIO;
	g->k->stop = true;
}

/* With the lock held, which is given up meanwhile. */
static void write_all(struct reading *g)
{
	struct run *k = g->k;
	struct one *one;

	while ((one = g->have)) {
		uint64_t since = stub_now_us();
		int r;

		g->have = one->next;
		pthread_mutex_unlock(&k->lock);
		r = write_one(g, one);
		g->here_us += stub_now_us() - since;
		pthread_mutex_lock(&k->lock);
		k->asked -= one->length;
		if (k->waiting)
			pthread_cond_broadcast(&k->room);
		if (r < 0)
			here_failed(g, r);
		free(one->data);
		free(one);
	}
}

static void write_end(struct reading *g)
{
	uint64_t since = stub_now_us();
	int r;

	if (g->fd < 0)
		return;
	r = disk_give(g->k->disk, g->fd, g->written);
	g->here_us += stub_now_us() - since;
	if (r < 0) {
		pthread_mutex_lock(&g->k->lock);
		here_failed(g, r);
		pthread_mutex_unlock(&g->k->lock);
	}
}

static bool goes_on(const struct reading *g, const struct thing *t, uint64_t end)
{
	return !g->error && !g->shorter && !g->k->stop && t->at < end &&
	       (g->k->work == g->work || t->size < REHEARSE_LARGE_BYTES);
}

/* With the lock held: wait until one more may be under way.  False: no more are wanted. */
static bool take_turn(struct reading *g, const struct thing *t, uint64_t end)
{
	struct run *k = g->k;

	while (goes_on(g, t, end)) {
		bool full = k->asked && k->asked + k->block > k->r->buffer;

		if (g->have) {
			write_all(g);
			continue;
		}
		if (g->inflight < READS && !full)
			return true;
		if (g->inflight) {
			pthread_cond_wait(&g->arrived, &k->lock);
			continue;
		}
		k->waiting++;
		pthread_cond_wait(&k->room, &k->lock);
		k->waiting--;
	}
	return false;
}

static int ask(struct reading *g, struct thing *t, const struct stub_origin *o, uint64_t end)
{
	struct one *one = malloc(sizeof(*one));
	struct run *k = g->k;
	uint64_t at = t->at;
	int r;

	if (!one)
		return -ENOMEM;
	*one = (struct one){ .of = g,
			     .length = end - at < k->block ? (uint32_t)(end - at) : k->block };
	t->at += one->length;
	k->asked += one->length;
	g->inflight++;
	pthread_mutex_unlock(&k->lock);
	r = source_read(k->s, SOURCE_BACKGROUND, o, at, one->length, on_read, one);
	pthread_mutex_lock(&k->lock);
	if (r < 0) {
		k->asked -= one->length;
		g->inflight--;
		free(one);
	}
	return r;
}

/* With the lock held. */
static void read_over(struct reading *g, const struct thing *t, uint64_t end)
{
	struct run *k = g->k;
	struct rehearse *r = k->r;
	bool first = g->work != REHEARSE_SMALL_AGAIN && g->work != REHEARSE_LARGES_AGAIN;

	if (g->error && is_the_end(k, g->error))
		return;
	if (!g->error && t->at < end && !g->shorter)
		return; /* the slice is over: it goes on in another one */
	r->phase[g->work].ops++;
	if (g->error && first) {
		r->unreadable++;
		r->denied += g->error == -EACCES;
	}
	if (!g->error && (g->work == REHEARSE_SMALL || g->work == REHEARSE_LARGES))
		r->now.done++;
}

/* All that is wanted of @t, in the order in which it comes. */
static void read_all(struct reading *g, struct thing *t, uint64_t end)
{
	struct run *k = g->k;
	struct stub_origin o;

	thing_origin(t, &o);
	while (take_turn(g, t, end)) {
		int r = ask(g, t, &o, end);

		if (r < 0 && !g->error)
			g->error = r;
	}
	while (g->inflight || g->have) {
		if (g->have)
			write_all(g);
		else
			pthread_cond_wait(&g->arrived, &k->lock);
	}
}

bool task_read(struct run *k, enum rehearse_work work, struct thing *t)
{
	struct reading g = { .k = k, .work = work, .fd = -1 };
	uint64_t end = t->size < TASK_READ_MOST ? t->size : TASK_READ_MOST;

	g.writes = k->disk && (work == REHEARSE_SMALL || work == REHEARSE_LARGES);
	g.error = t->at ? 0 : ask_meta(k, t);
	pthread_cond_init(&g.arrived, NULL);
	pthread_mutex_lock(&k->lock);
	read_all(&g, t, end);
	pthread_mutex_unlock(&k->lock);
	write_end(&g);
	pthread_mutex_lock(&k->lock);
	k->r->phase[work].here_us += g.here_us;
	if (g.error || g.shorter)
		t->at = end;
	read_over(&g, t, end);
	pthread_mutex_unlock(&k->lock);
	pthread_cond_destroy(&g.arrived);
	return !g.error;
}
