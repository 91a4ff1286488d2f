/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * compare_file.c - bytes.  What is behind the size that the file had over there reads as zeros
 * when it is larger, and is not read.  A size is set before if it is smaller, behind if no write made it.  What differs
 * is written unstable, and committed; if the server has begun anew in between, what it has is compared once more.  What
 * is one call's is written durable at once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kept.h"
#include "mirror.h"
#include "recent.h"

#define BLOCK  (1u << 20)
#define PAGE   4096u
#define LARGE  65536u /* of a file up to this all is compared, whatever is waited for, if anything is */
#define ROUNDS 4 /* a server that begins anew so often meanwhile gets time */

struct copying {
	struct task *t;
	uint64_t size;	/* here */
	uint64_t from, to; /* is looked at */
	uint64_t known; /* what is behind it over there is zeros */
	uint32_t read_max, write_max;
	uint64_t end; /* of what was written */
	uint64_t verf;
	bool lone; /* all that is looked at is written by one call, if any, which makes it durable */
	bool wrote, torn; /* by two lives of the server */
	bool anyway; /* what is looked at has just been written here: it is written there, unread */
	uint8_t *here, *there;
};

/* ---- reading over there ---- */

struct reading {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool over;
	uint8_t *buf;
	uint32_t len;
	int64_t result;
};

static void on_read(void *arg, const struct source_read *r)
{
	struct reading *w = arg;

	pthread_mutex_lock(&w->lock);
	w->result = r->result;
	if (r->result > (int64_t)w->len)
		w->result = -EBADMSG;
	else if (r->result > 0)
		memcpy(w->buf, r->data, (size_t)r->result);
	w->over = true;
	pthread_cond_signal(&w->done);
	pthread_mutex_unlock(&w->lock);
}

/* What the file lacks of it is zeros. */
static int read_there(struct copying *c, uint64_t at, uint32_t len)
{
	struct reading w = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .buf = c->there,
			     .len = len };
	int r = source_read(c->t->m->target, SOURCE_BACKGROUND, &c->t->place, at, len, on_read, &w);

	if (r == 0) {
		pthread_mutex_lock(&w.lock);
		while (!w.over)
			pthread_cond_wait(&w.done, &w.lock);
		pthread_mutex_unlock(&w.lock);
		r = w.result < 0 ? (int)w.result : 0;
	}
	if (r == 0)
		memset(c->there + w.result, 0, len - (size_t)w.result);
	pthread_cond_destroy(&w.done);
	pthread_mutex_destroy(&w.lock);
	return r;
}

static int read_here(struct copying *c, uint64_t at, uint32_t len)
{
	uint32_t have = 0;

	while (have < len) {
		ssize_t n = pread(c->t->fd, c->here + have, len - have, (off_t)(at + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) /* shorter by now: it is owed again */
			break;
		have += (uint32_t)n;
	}
	memset(c->here + have, 0, len - have);
	return 0;
}

/* ---- what differs ---- */

static int write_one(struct copying *c, uint64_t at, const uint8_t *buf, uint32_t n)
{
	struct source *target = c->t->m->target;
	uint64_t verf = c->verf;
	int r = c->lone ? target_keep(target, &c->t->place, at, buf, n) :
			  target_write(target, &c->t->place, at, buf, n, &verf);

	if (r < 0)
		return r;
	c->torn |= c->wrote && verf != c->verf;
	c->verf = verf;
	c->wrote = true;
	if (c->end < at + n)
		c->end = at + n;
	atomic_fetch_add(&c->t->m->bytes, n);
	return 0;
}

static int write_there(struct copying *c, uint64_t at, uint32_t from, uint32_t to)
{
	int r = 0;

	if (c->t->look)
		return from < to ? DIFFERS : 0;
	while (from < to && r == 0) {
		uint32_t n = to - from < c->write_max ? to - from : c->write_max;

		r = write_one(c, at + from, c->here + from, n);
		from += n;
	}
	return r;
}

/* Equal pages at both ends stay as they are, and so do holes at the end of what was longer here. */
static int write_difference(struct copying *c, uint64_t at, uint32_t len)
{
	uint32_t from = 0, to = len, step;

	while (from < to) {
		step = to - from < PAGE ? to - from : PAGE;
		if (memcmp(c->here + from, c->there + from, step) != 0)
			break;
		from += step;
	}
	while (to > from) {
		step = (to - 1) % PAGE + 1 < to - from ? (to - 1) % PAGE + 1 : to - from;
		if (memcmp(c->here + to - step, c->there + to - step, step) != 0)
			break;
		to -= step;
	}
	return write_there(c, at, from, to);
}

static int compare_block(struct copying *c, uint64_t at, uint32_t len)
{
	int r = read_here(c, at, len);

	c->t->what = "data";
	if (r < 0) {
		c->t->what = "this side's data";
		return r;
	}
	if (c->anyway)
		return write_there(c, at, 0, len);
	if (at < c->known)
		r = read_there(c, at, len);
	else
		memset(c->there, 0, len);
	return r < 0 ? r : write_difference(c, at, len);
}

/* The next byte from @at on that must be looked at. */
static uint64_t next_byte(const struct copying *c, uint64_t at)
{
	off_t data;

	if (at < c->known || at >= c->to)
		return at;
	data = lseek(c->t->fd, (off_t)at, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? c->size : at;
	return (uint64_t)data;
}

static uint32_t block(const struct copying *c)
{
	return c->read_max < BLOCK ? c->read_max : BLOCK;
}

/* Is it one block, which is read, or not, as a whole, and fits into one call? */
static bool is_lone(const struct copying *c)
{
	uint64_t end = c->to < c->size ? c->to : c->size;

	return c->from < end && c->from / block(c) == (end - 1) / block(c) && end - c->from <= c->write_max &&
	       (c->known <= c->from || c->known >= end);
}

static int compare_bytes(struct copying *c)
{
	uint32_t most = block(c);
	uint64_t at = next_byte(c, c->from);
	int r = 0;

	while (at < c->size && at < c->to && r == 0 && !c->torn) {
		uint64_t end = at - at % most + most, stop = at < c->known ? c->known : c->size;

		end = end < stop ? end : stop;
		end = end < c->size ? end : c->size;
		end = end < c->to ? end : c->to;
		r = compare_block(c, at, (uint32_t)(end - at));
		if (atomic_load(&c->t->m->stopping))
			r = -ECANCELED;
		at = next_byte(c, end);
	}
	return r;
}

/* ---- the file ---- */

static int set_size(struct copying *c, const struct stub_attr *want)
{
	c->t->what = "size";
	return c->t->look ? DIFFERS : target_setattr(c->t->m->target, &c->t->place, TARGET_SIZE, want);
}

/* Once: 1 if the server has begun anew, so that it is to be done again. */
static int copy_once(struct copying *c, const struct stub_attr *now, const struct stub_attr *want)
{
	uint64_t verf;
	int r = 0;

	c->known = now->size < c->size ? now->size : c->size;
	c->lone = is_lone(c);
	c->wrote = c->torn = false;
	c->end = now->size;
	if (now->size > c->size)
		r = set_size(c, want);
	if (r == 0)
		r = compare_bytes(c);
	if (r == 0 && c->end < c->size)
		r = set_size(c, want);
	if (r < 0 || !c->wrote || c->lone)
		return r;
	c->t->what = "data";
	r = target_commit(c->t->m->target, &c->t->place, &verf);
	return r < 0 ? r : c->torn || verf != c->verf;
}

static int limits(struct copying *c)
{
	struct source_limits l;
	int r = source_limits(c->t->m->target, &l);

	if (r < 0)
		return r;
	c->read_max = l.read_bytes ? l.read_bytes : PAGE;
	c->write_max = target_write_max(c->t->m->target);
	c->write_max = c->write_max ? c->write_max : PAGE;
	c->here = malloc(BLOCK);
	c->there = malloc(BLOCK);
	return c->here && c->there ? 0 : -ENOMEM;
}

/* What it has over there is not only in memory, whoever wrote it: from there on equal bytes are there for good.
 * An empty file has nothing to lose. */
static int keep(struct task *t, const struct stub_attr *now)
{
	uint64_t verf;

	if (t->look || kept_take(t->m->kept, &t->o.h) || !now->size)
		return 0;
	t->what = "data";
	return target_commit(t->m->target, &t->place, &verf);
}

/* @moved: it was written. */
static int compare_data(struct task *t, struct stub_attr *now, bool *moved)
{
	struct copying c = { .t = t, .size = (uint64_t)t->st.st_size, .to = UINT64_MAX };
	struct stub_attr want;
	int r = limits(&c);

	if (r == 0)
		r = keep(t, now);
	if (r == 0 && t->look && now->size != c.size) {
		t->what = "size";
		r = DIFFERS;
	}
	if (t->to > t->from && (c.size > LARGE || t->guessed)) {
		t->partly = c.anyway = true;
		c.from = t->from;
		c.to = t->to;
	}

	attr_of(&t->st, &t->view, &want);
	for (int i = 0; r == 0; i++) {
		r = copy_once(&c, now, &want);
		*moved |= c.wrote || now->size != c.size;
		if (r != 1)
			break;
		r = i < ROUNDS ? source_getattr(t->m->target, SOURCE_BACKGROUND, &t->place, now) : -EAGAIN;
	}
	if (r == 0 && !t->look)
		kept_put(t->m->kept, &t->o.h);
	free(c.here);
	free(c.there);
	return r;
}

/* It is @meta over there. */
static int compare_with(struct task *t, struct source_meta *meta)
{
	struct stub_attr now = meta->attr;
	bool moved = false;
	int r = S_ISREG(now.mode) ? 0 : -EBADMSG;

	/* another size although nobody here has changed it: somebody over there has */
	if (r == 0 && !(t->o.what & STUB_OWED_DATA) && now.size != (uint64_t)t->st.st_size)
		atomic_fetch_add(&t->m->foreign, 1);
	if (r == 0 && (t->o.what & STUB_OWED_DATA || now.size != (uint64_t)t->st.st_size))
		r = compare_data(t, &now, &moved);
	return r < 0 ? mirror_verdict(t->m, r) : compare_attr_of(t, meta, moved);
}

/* What it is over there; or, where somebody waits for it, what it was a moment ago: of that the share cannot be
 * told the file id. */
static int meta_of(struct task *t, struct source_meta *meta)
{
	memset(meta, 0, sizeof(*meta));
	t->guessed = t->awaited && !t->m->share && recent_take(t->m->recent, &t->o.h, &meta->attr);
	t->partly |= t->guessed;
	return t->guessed ? 0 : source_meta(t->m->target, SOURCE_BACKGROUND, &t->place, meta);
}

int compare_file(struct task *t)
{
	struct source_meta meta;
	struct stub_attr now;
	int r;

	r = task_open(t);
	if (r != EQUAL || t->fd < 0)
		return r;
	t->what = "attributes";
	r = meta_of(t, &meta);
	r = r < 0 ? mirror_verdict(t->m, r) : compare_with(t, &meta);
	source_meta_free(&meta);
	if (r == EQUAL && !t->look && !t->acl) {
		attr_of(&t->st, &t->view, &now);
		recent_put(t->m->recent, &t->o.h, &now);
	}
	return r;
}
