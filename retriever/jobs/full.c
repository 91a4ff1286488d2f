/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "jobs/full.h"

#define HOLD_MS 1000
#define KEEP_MS 10000
#define TRIED_MS 10000 /* bytes are tried each second while there are any */

void full_init(struct full *f)
{
	pthread_mutex_init(&f->lock, NULL);
	for (unsigned int i = 0; i < KEPT_MAX; i++)
		f->kept[i].fd = -1;
}

static void drop(struct kept *k)
{
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

void full_finish(struct full *f)
{
	for (unsigned int i = 0; i < KEPT_MAX; i++)
		drop(&f->kept[i]);
	pthread_mutex_destroy(&f->lock);
}

/* ---- does it take data? ---- */

static bool is_whole_volume(int error)
{
	return error == -ENOSPC || error == -EROFS;
}

void full_note(struct full *f, enum full_what what, int error)
{
	uint64_t now = stub_now_ms();

	pthread_mutex_lock(&f->lock);
	if (!f->error)
		f->since_ms = now;
	f->error = -error;
	f->noted_ms = now;
	f->bytes |= what == FULL_BYTES;
	if (is_whole_volume(error))
		f->until_ms = now + HOLD_MS;
	pthread_mutex_unlock(&f->lock);
}

bool full_is_over(struct full *f, enum full_what what)
{
	bool over;

	if (!atomic_load(&f->error))
		return false;
	pthread_mutex_lock(&f->lock);
	over = f->error != 0 && (what == FULL_BYTES || !f->bytes ||
				 f->noted_ms + TRIED_MS < stub_now_ms());
	if (over) {
		f->error = 0;
		f->until_ms = 0;
		f->bytes = false;
	}
	pthread_mutex_unlock(&f->lock);
	return over;
}

void full_hint(struct full *f)
{
	pthread_mutex_lock(&f->lock);
	f->until_ms = 0;
	pthread_mutex_unlock(&f->lock);
}

int full_now(struct full *f)
{
	int r = 0;

	if (!atomic_load(&f->error))
		return 0;
	pthread_mutex_lock(&f->lock);
	if (is_whole_volume(-atomic_load(&f->error))) {
		uint64_t now = stub_now_ms();

		if (now < f->until_ms)
			r = -atomic_load(&f->error);
		else
			f->until_ms = now + HOLD_MS; /* this one tries, the others wait */
	}
	pthread_mutex_unlock(&f->lock);
	return r;
}

int full_state(struct full *f, uint64_t *for_ms)
{
	int error;

	pthread_mutex_lock(&f->lock);
	error = atomic_load(&f->error);
	*for_ms = error ? stub_now_ms() - f->since_ms : 0;
	pthread_mutex_unlock(&f->lock);
	return error;
}

/* ---- what was passed lately ---- */

static bool kept_is(const struct kept *k, const struct stub_handle *h, uint64_t offset,
		    uint64_t length)
{
	return k->fd >= 0 && k->offset == offset && k->length == length &&
	       stub_handle_equal(&k->h, h);
}

int full_find(struct full *f, const struct stub_handle *h, uint64_t offset, uint64_t length)
{
	uint64_t now = stub_now_ms();
	int fd = -1;

	pthread_mutex_lock(&f->lock);
	for (unsigned int i = 0; i < KEPT_MAX; i++) {
		struct kept *k = &f->kept[i];

		if (k->fd >= 0 && now - k->at_ms > KEEP_MS)
			drop(k);
		if (kept_is(k, h, offset, length))
			fd = fcntl(k->fd, F_DUPFD_CLOEXEC, 0);
	}
	pthread_mutex_unlock(&f->lock);
	return fd;
}

void full_keep(struct full *f, const struct stub_handle *h, uint64_t offset, uint64_t length,
	       int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct kept *k;

	if (copy < 0)
		return;
	pthread_mutex_lock(&f->lock);
	k = &f->kept[f->next_kept++ % KEPT_MAX];
	drop(k);
	*k = (struct kept){ .h = *h,
			    .offset = offset,
			    .length = length,
			    .at_ms = stub_now_ms(),
			    .fd = copy };
	pthread_mutex_unlock(&f->lock);
}

void full_forget(struct full *f)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned int i = 0; i < KEPT_MAX; i++)
		drop(&f->kept[i]);
	pthread_mutex_unlock(&f->lock);
}
