// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_watch.c - the threads that look at root and clock.
 *
 * The looking thread opens the root, and sees every second (without work every 15) whether it is
 * still what the path leads to.  It may be caught in the kernel like any other.  The clock
 * thread touches nothing over there: it notices who does not come back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "file/file.h"

/* ---- looking ---- */

/* Wait until it is time to look again; @next_ms: then at the latest.  Is it to be a deep look? */
static bool wait_to_look(struct file_source *s, uint64_t since_ms)
{
	while (!s->pool.stop && s->look_want == s->look_have) {
		uint64_t pause = !s->mount || s->busy ? FILE_LOOK_MS : FILE_IDLE_LOOK_MS;

		if (stub_now_ms() >= since_ms + pause)
			break;
		/* in short waits: work may begin meanwhile */
		stub_cond_wait_until(&s->look, &s->pool.lock, stub_now_ms() + FILE_LOOK_MS);
	}
	return s->look_want != s->look_have;
}

static void trouble(struct file_source *s, const char *why)
{
	if (!source_pool_trouble(&s->pool, why))
		return;
	pthread_mutex_unlock(&s->pool.lock);
	file_log(s, STUB_LOG_WARN, "source lost: %s; trying again", why);
	pthread_mutex_lock(&s->pool.lock);
}

static void found(struct file_source *s, struct file_mount *m)
{
	if (s->pool.known &&
	    (m->root.len != s->root.len || memcmp(m->root.bytes, s->root.bytes, m->root.len))) {
		/* the same inode number, but used anew */
		file_mount_put(s, m);
		trouble(s, "the root is another directory than before, made under the same number");
		return;
	}
	s->mount = m;
	s->root = m->root;
	s->root_attr = m->attr;
	source_pool_known(&s->pool);
	pthread_cond_broadcast(&s->work);
	pthread_cond_signal(&s->tick);
}

static void look(struct file_source *s, bool deep)
{
	struct file_mount *m = file_mount_get(s), *opened = NULL;
	const struct source_id *as = s->config.root_known ? &s->config.root : NULL;
	char why[FILE_WHY_MAX] = "";
	int r = 0;

	s->look_began_ms = stub_now_ms();
	pthread_mutex_unlock(&s->pool.lock);
	if (m)
		r = file_mount_look(m, s->uri.path, deep, why, sizeof(why));
	if (!m || r < 0)
		r = file_mount_open(s->uri.path, as, &opened, why, sizeof(why));
	pthread_mutex_lock(&s->pool.lock);
	s->look_began_ms = 0;
	if (m && (r < 0 || opened)) { /* it is lost, or another mount of the same */
		s->mount = NULL;
		file_mount_put(s, m);
	}
	if (opened)
		found(s, opened);
	else if (r < 0)
		trouble(s, why);
	pthread_cond_signal(&s->tick);
	file_mount_put(s, m);
}

void *file_look_thread(void *arg)
{
	struct file_source *s = arg;
	uint64_t want, since_ms = 0;
	bool deep;

	pthread_mutex_lock(&s->pool.lock);
	while (!s->pool.stop) {
		deep = wait_to_look(s, since_ms);
		if (s->pool.stop)
			break;
		want = s->look_want;
		s->busy = !TAILQ_EMPTY(&s->running);
		look(s, deep);
		since_ms = stub_now_ms();
		s->look_have = want;
		pthread_cond_broadcast(&s->looked);
	}
	s->threads--;
	pthread_cond_broadcast(&s->looked);
	pthread_mutex_unlock(&s->pool.lock);
	file_source_put(s);
	return NULL;
}

/* The look must have begun after the call, or it says nothing. */
int file_source_verify(struct source *base)
{
	struct file_source *s = file_of(base);
	uint64_t mine, end = stub_now_ms() + 2 * s->config.call_timeout_ms;
	bool there;

	pthread_mutex_lock(&s->pool.lock);
	mine = ++s->look_want;
	pthread_cond_signal(&s->look);
	while (!s->pool.stop && s->look_have < mine && stub_now_ms() < end)
		stub_cond_wait_until(&s->looked, &s->pool.lock, end);
	there = !s->pool.stop && s->look_have >= mine && s->mount;
	pthread_mutex_unlock(&s->pool.lock);
	return there ? 0 : -ENOMEDIUM;
}

/* ---- the clock ---- */

/* Since when does nobody come back?  0: somebody does. */
static uint64_t silent_since(struct file_source *s, uint64_t now)
{
	uint64_t limit = s->config.call_timeout_ms, since = now;
	unsigned int stuck = 0;
	struct file_call *c;

	if (s->look_began_ms && now - s->look_began_ms >= limit)
		return s->look_began_ms;
	TAILQ_FOREACH(c, &s->running, link)
	{
		if (now - c->began_ms < limit)
			continue;
		stuck++;
		if (c->began_ms < since)
			since = c->began_ms;
	}
	return stuck >= s->n ? since : 0;
}

static void tick(struct file_source *s)
{
	uint64_t now = stub_now_ms(), silent = silent_since(s, now);
	bool ok = s->mount && !silent;
	struct file_calls ended = TAILQ_HEAD_INITIALIZER(ended);

	if (ok != s->up) {
		s->up = ok;
		if (ok)
			source_pool_up(&s->pool, s->ever);
		else
			source_pool_down(&s->pool, silent ? now - silent : 0);
		s->ever = true;
		if (ok) {
			pthread_mutex_unlock(&s->pool.lock);
			file_log(s, STUB_LOG_INFO, "source is there");
			pthread_mutex_lock(&s->pool.lock);
		}
	}
	if (silent)
		trouble(s,
			"the file system does not answer: calls into the kernel do not come back");
	if (source_pool_gave_up(&s->pool)) {
		if (source_pool_give_up(&s->pool)) {
			pthread_mutex_unlock(&s->pool.lock);
			file_log(s, STUB_LOG_WARN,
				 "lost for longer than give_up_after: calls fail");
			pthread_mutex_lock(&s->pool.lock);
		}
		file_take_all(s, &ended);
	} else if (s->config.give_up_ms && now > s->config.give_up_ms) {
		file_take_stuck(s, now - s->config.give_up_ms, &ended);
	}
	pthread_mutex_unlock(&s->pool.lock);
	file_tell_all(s, &ended, -ETIMEDOUT);
	pthread_mutex_lock(&s->pool.lock);
}

void *file_clock_thread(void *arg)
{
	struct file_source *s = arg;
	uint64_t pause = s->config.call_timeout_ms / 4;

	if (pause > 1000)
		pause = 1000;
	pthread_mutex_lock(&s->pool.lock);
	while (!s->pool.stop) {
		tick(s);
		if (s->pool.stop)
			break;
		if (TAILQ_EMPTY(&s->running) && s->up && !s->look_began_ms)
			stub_cond_wait_until(&s->tick, &s->pool.lock, stub_now_ms() + 1000);
		else
			stub_cond_wait_until(&s->tick, &s->pool.lock, stub_now_ms() + pause);
	}
	s->threads--;
	pthread_cond_broadcast(&s->looked);
	pthread_mutex_unlock(&s->pool.lock);
	file_source_put(s);
	return NULL;
}
