// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_call.c - the queue, and the threads that work it off.
 *
 * A quarter of the threads takes nothing of the crawler's: clients do not wait for it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"

void file_log(struct file_source *s, enum stub_log_level level, const char *fmt, ...)
{
	char line[1024];
	bool stop;
	va_list ap;

	pthread_mutex_lock(&s->pool.lock);
	stop = s->pool.stop; /* who logs may be gone */
	pthread_mutex_unlock(&s->pool.lock);
	if (stop)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	stub_log_to(s->config.log, s->config.log_arg, level, "%s", line);
}

/* ---- calls ---- */

struct file_call *file_call_new(struct file_source *s, enum called kind, const char *what,
				enum source_priority p, const struct stub_origin *o)
{
	struct file_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->s = s;
	c->prio = p;
	c->origin = *o;
	c->fd = -1;
	c->refs = 1;
	c->kind = kind;
	c->what = what;
	c->trace = trace_of;
	pthread_cond_init(&c->changed, NULL);
	return c;
}

static void call_free(struct file_call *c)
{
	source_meta_free(&c->meta);
	free(c->target);
	free(c->holes.hole);
	if (c->fd >= 0)
		close(c->fd);
	if (c->dir)
		c->free_dir(c->dir);
	pthread_cond_destroy(&c->changed);
	free(c);
}

void file_call_put(struct file_call *c)
{
	pthread_mutex_t *lock;
	bool last;

	if (!c)
		return;
	lock = &c->s->pool.lock;
	pthread_mutex_lock(lock);
	last = --c->refs == 0;
	pthread_mutex_unlock(lock);
	if (last)
		call_free(c);
}

int file_submit(struct file_call *c)
{
	struct file_source *s = c->s;
	int r = 0;

	pthread_mutex_lock(&s->pool.lock);
	if (s->pool.stop)
		r = -ECANCELED;
	else if (source_pool_gave_up(&s->pool))
		r = -ETIMEDOUT;
	if (r == 0) {
		s->pool.n.calls++;
		s->busy = true;
		c->refs++;
		TAILQ_INSERT_TAIL(&s->queue[c->prio], c, link);
		pthread_cond_signal(&s->work);
		pthread_cond_signal(&s->tick);
	}
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

void file_hurry(struct file_source *s, uint64_t trace)
{
	struct file_call *c, *next;

	pthread_mutex_lock(&s->pool.lock);
	for (c = TAILQ_FIRST(&s->queue[SOURCE_BACKGROUND]); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->trace != trace)
			continue;
		TAILQ_REMOVE(&s->queue[SOURCE_BACKGROUND], c, link);
		TAILQ_INSERT_TAIL(&s->queue[SOURCE_DEMAND], c, link);
		c->prio = SOURCE_DEMAND;
		pthread_cond_signal(&s->work);
	}
	pthread_mutex_unlock(&s->pool.lock);
}

int file_run(struct file_call *c, bool *mine)
{
	struct file_source *s = c->s;
	int r = file_submit(c);

	*mine = true;
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->pool.lock);
	while (!c->over)
		pthread_cond_wait(&c->changed, &s->pool.lock);
	r = c->err;
	*mine = !c->abandoned;
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

/* ---- ending ---- */

static void over(struct file_source *s, struct file_call *c, int err)
{
	pthread_mutex_lock(&s->pool.lock);
	c->err = err;
	c->over = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&s->pool.lock);
}

/* Take @c away from whom it waits for, with the lock held; it comes into @out. */
static void take(struct file_source *s, struct file_call *c, struct file_calls *out)
{
	if (c->running) {
		c->abandoned = true;
		c->refs++; /* its thread has one */
		TAILQ_REMOVE(&s->running, c, link);
	} else {
		TAILQ_REMOVE(&s->queue[c->prio], c, link);
	}
	TAILQ_INSERT_TAIL(out, c, link);
}

void file_take_all(struct file_source *s, struct file_calls *out)
{
	struct file_call *c;

	while ((c = TAILQ_FIRST(&s->queue[0])) || (c = TAILQ_FIRST(&s->queue[1])) ||
	       (c = TAILQ_FIRST(&s->running)))
		take(s, c, out);
}

void file_take_stuck(struct file_source *s, uint64_t since_ms, struct file_calls *out)
{
	struct file_call *c, *next;

	for (c = TAILQ_FIRST(&s->running); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->began_ms <= since_ms)
			take(s, c, out);
	}
}

void file_tell_all(struct file_source *s, struct file_calls *calls, int err)
{
	struct file_call *c;

	while ((c = TAILQ_FIRST(calls))) {
		TAILQ_REMOVE(calls, c, link);
		if (c->done)
			c->done(c, err);
		else
			over(s, c, err);
		file_call_put(c);
	}
}

/* ---- mounts and sources in use ---- */

struct file_mount *file_mount_get(struct file_source *s)
{
	if (s->mount)
		s->mount->refs++;
	return s->mount;
}

void file_mount_put(struct file_source *s, struct file_mount *m)
{
	bool last;

	if (!m)
		return;
	last = --m->refs == 0;
	if (!last)
		return;
	pthread_mutex_unlock(&s->pool.lock);
	file_mount_close(m);
	pthread_mutex_lock(&s->pool.lock);
}

void file_source_put(struct file_source *s)
{
	bool last;

	pthread_mutex_lock(&s->pool.lock);
	last = --s->refs == 0;
	pthread_mutex_unlock(&s->pool.lock);
	if (!last)
		return;
	file_mount_close(s->mount);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->tick);
	pthread_cond_destroy(&s->look);
	pthread_cond_destroy(&s->looked);
	source_pool_finish(&s->pool);
	free(s);
}

/* ---- threads ---- */

/* *again_us: what there is waits for the limiter until then. */
static struct file_call *next_call(struct file_source *s, uint64_t *again_us)
{
	struct file_call *c = TAILQ_FIRST(&s->queue[SOURCE_DEMAND]);

	if (!s->mount)
		return NULL;
	if (!c && s->background < s->wanted - s->wanted / 4)
		c = TAILQ_FIRST(&s->queue[SOURCE_BACKGROUND]);
	else if (!c && TAILQ_FIRST(&s->queue[SOURCE_BACKGROUND]))
		limiter_full(s->pool.limiter, s->pool.lane);
	if (c) {
		c->flight = 0;
		if (limiter_counts(s->pool.limiter, c->prio == SOURCE_BACKGROUND) &&
		    !(c->flight = limiter_go(s->pool.limiter, s->pool.lane, again_us)))
			return NULL;
	}
	return c;
}

/* How long it took. */
static void note(const struct file_call *c, uint64_t began_us)
{
	const struct source_pool *p = &c->s->pool;

	called(c->kind, began_us);
	if (c->kind == CALLED_LISTING)
		limiter_heard(p->limiter, p->lane);
	else
		limiter_answered(p->limiter, p->lane, began_us,
				 c->kind == CALLED_READ && c->got > 0 ? (uint64_t)c->got : 0);
}

/* @c, which has failed, is tried again, if it was not its object's fault. */
static bool again(struct file_source *s, struct file_call *c, const struct file_mount *m, int err)
{
	if (err == 0 || err == -ENOMEM || m == s->mount || s->pool.stop || c->abandoned)
		return false;
	s->pool.n.retries++;
	TAILQ_REMOVE(&s->running, c, link);
	TAILQ_INSERT_HEAD(&s->queue[c->prio], c, link);
	return true;
}

/* The work is done: who waits is told, unless that was done already.  With the lock held. */
static void settle(struct file_source *s, struct file_call *c, int err)
{
	bool tell = !c->abandoned;

	if (tell)
		TAILQ_REMOVE(&s->running, c, link);
	c->running = false;
	pthread_mutex_unlock(&s->pool.lock);
	if (tell && c->done)
		c->done(c, err);
	else if (tell)
		over(s, c, err);
	file_call_put(c);
	pthread_mutex_lock(&s->pool.lock);
}

/* What of its object and answer may be told. */
static void tell(const struct file_call *c, int err, uint64_t began_us)
{
	char origin[STUB_ORIGIN_MAX * 2 + 1] = "", name[STUB_NAME_MAX * 4 + 1], what[64] = "";

	for (unsigned int i = 0; i < c->origin.len; i++)
		snprintf(origin + 2 * i, 3, "%02x", c->origin.bytes[i]);
	stub_printable(c->name, strlen(c->name), name, sizeof(name));
	if (c->length)
		snprintf(what, sizeof(what), " %llu+%u", (unsigned long long)c->offset, c->length);
	trace_line(c->trace, "source %s %s%s%s%s%s: %s, %.1f ms", c->what, origin,
		   *name ? " \"" : "", name, *name ? "\"" : "", what, stub_result_text(err),
		   (double)(stub_now_us() - began_us) / 1000);
}

static void work(struct file_source *s, struct file_call *c, void *buf)
{
	uint64_t began_us = stub_now_us();
	struct file_mount *m = file_mount_get(s);
	bool background = c->prio == SOURCE_BACKGROUND;
	unsigned int flight = c->flight;
	int err;

	TAILQ_REMOVE(&s->queue[c->prio], c, link);
	TAILQ_INSERT_TAIL(&s->running, c, link);
	c->running = true;
	c->began_ms = began_us / 1000;
	s->background += background;
	pthread_mutex_unlock(&s->pool.lock);
	err = c->work(c, m, buf);
	note(c, began_us);
	if (flight)
		limiter_over(s->pool.limiter, s->pool.lane, flight);
	if (trace_on())
		tell(c, err, began_us);
	pthread_mutex_lock(&s->pool.lock);
	s->background -= background;
	if (again(s, c, m, err))
		c->running = false;
	else
		settle(s, c, err);
	pthread_cond_signal(&s->work); /* another of the crawler's may begin */
	file_mount_put(s, m);
}

void *file_thread(void *arg)
{
	struct file_source *s = arg;
	void *buf = malloc(FILE_READ_MAX);
	struct file_call *c;
	uint64_t again_us;

	pthread_mutex_lock(&s->pool.lock);
	while (!s->pool.stop) {
		again_us = 0;
		c = buf ? next_call(s, &again_us) : NULL;
		if (c)
			work(s, c, buf);
		else if (again_us)
			stub_cond_wait_until(&s->work, &s->pool.lock, again_us / 1000 + 1);
		else
			pthread_cond_wait(&s->work, &s->pool.lock);
	}
	s->threads--;
	pthread_cond_broadcast(&s->looked);
	pthread_mutex_unlock(&s->pool.lock);
	free(buf);
	file_source_put(s);
	return NULL;
}
