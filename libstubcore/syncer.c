/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * syncer.c - one syncfs for all who need one (docs/decisions/0066).
 *
 * A ticket is the number of the next sync that begins: whatever was written before it was
 * given out is on the disk when that sync has ended well.  One sync is under way at a time, so
 * those who come meanwhile share the next one.
 *
 * A sync that fails ends the era (era.c) before anybody is told of it.  The next ones may
 * succeed and prove nothing of what was written before: who waits compares the era, too.
 */
#include <fcntl.h>

#include "internal.h"

#define REST_MS 10000 /* after one that failed */

struct stub_syncer {
	struct stub_volume *v;
	pthread_t thread;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t wanted_more, ended_one;
	bool stop;
	uint64_t wanted, begun, ended, failed; /* numbers of syncs; failed: the last such */
	uint64_t rest_until_ms;
	int fd; /* of its own: the kernel tells of a failure once for each opening */
};

static void *syncer_thread(void *arg)
{
	struct stub_syncer *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		int error;

		while (!s->stop && s->wanted == s->begun)
			pthread_cond_wait(&s->wanted_more, &s->lock);
		if (s->stop)
			break;
		s->begun++;
		pthread_mutex_unlock(&s->lock);
		error = syncfs(s->fd) < 0 ? errno : 0;
		if (error) {
			stub_log(&s->v->log, STUB_LOG_ERROR, "sync of the volume: %s",
				 strerror(error));
			stub_volume_new_era(s->v);
		}
		pthread_mutex_lock(&s->lock);
		s->ended = s->begun;
		if (error) {
			s->failed = s->ended;
			s->rest_until_ms = stub_now_ms() + REST_MS;
		}
		pthread_cond_broadcast(&s->ended_one);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

STUB_PUBLIC int stub_syncer_create(struct stub_volume *v, struct stub_syncer **out)
{
	struct stub_syncer *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->v = v;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wanted_more, NULL);
	pthread_cond_init(&s->ended_one, NULL);
	s->fd = openat(v->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = s->fd < 0 ? errno : pthread_create(&s->thread, NULL, syncer_thread, s);
	if (r) {
		stub_cleanup_close(&s->fd);
		free(s);
		return -r;
	}
	*out = s;
	return 0;
}

STUB_PUBLIC void stub_syncer_destroy(struct stub_syncer *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wanted_more);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->wanted_more);
	pthread_cond_destroy(&s->ended_one);
	pthread_mutex_destroy(&s->lock);
	close(s->fd);
	free(s);
}

STUB_PUBLIC bool stub_syncer_well(struct stub_syncer *s)
{
	bool well;

	pthread_mutex_lock(&s->lock);
	well = s->failed == 0 || stub_now_ms() >= s->rest_until_ms;
	pthread_mutex_unlock(&s->lock);
	return well;
}

STUB_PUBLIC void stub_syncer_wake(struct stub_syncer *s)
{
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->ended_one);
	pthread_mutex_unlock(&s->lock);
}

uint64_t stub_syncer_ask(struct stub_syncer *s)
{
	uint64_t ticket;

	pthread_mutex_lock(&s->lock);
	ticket = s->wanted = s->begun + 1;
	pthread_cond_signal(&s->wanted_more);
	pthread_mutex_unlock(&s->lock);
	return ticket;
}

int stub_syncer_wait(struct stub_syncer *s, uint64_t ticket, bool (*hurry)(void *arg), void *arg)
{
	int r;

	pthread_mutex_lock(&s->lock);
	while (s->ended < ticket && !(hurry && hurry(arg)))
		pthread_cond_wait(&s->ended_one, &s->lock);
	r = s->ended < ticket ? -EAGAIN : s->failed >= ticket ? -EIO : 0;
	pthread_mutex_unlock(&s->lock);
	return r;
}
