/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_heat.c - where clients meet what is not here: told to the crawler (docs/decisions/0071),
 * which brings the rest of the directory next.
 *
 * A client that opens a name in an unlisted directory, or reads a file that is not here, is at work
 * there. One that lists says less: programs that walk a whole tree do. Nobody waits for this: it is
 * done when the client has its answer, and what goes wrong is left out.
 *
 * Locking: heat.lock is a leaf.
 */
#include <fcntl.h>
#include <unistd.h>

#include "jobs/jobs_internal.h"

#define SAME_MS 1000 /* so long one directory, or file, is told once */

void heat_init(struct heat *t, int root_fd)
{
	t->on = stub_heat_open(&t->to, root_fd) == 0;
	pthread_mutex_init(&t->lock, NULL);
}

void heat_finish(struct heat *t)
{
	pthread_mutex_destroy(&t->lock);
	stub_heat_close(&t->to);
}

/* Was it the last one, a moment ago?  From now on it is. */
static bool just_now(struct heat *t, struct heat_last *last, const struct stub_handle *h)
{
	uint64_t now = stub_now_ms();
	bool was;

	pthread_mutex_lock(&t->lock);
	was = stub_handle_equal(&last->h, h) && now < last->ms + SAME_MS;
	if (!was)
		*last = (struct heat_last){ *h, now };
	pthread_mutex_unlock(&t->lock);
	return was;
}

/* The directory that the file @h is in.  -errno */
static int parent_of(const struct jobs *j, const struct stub_handle *h, struct stub_handle *out)
{
	int r, dir, fd = stub_handle_open_at(stub_volume_fd(j->c.volume), h, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return fd;
	dir = jobs_open_parent(j, fd);
	close(fd);
	if (dir < 0)
		return dir;
	r = stub_handle_of_fd(dir, out);
	close(dir);
	return r;
}

void jobs_heat(struct jobs *j, enum stub_ask_kind kind, const struct stub_handle *h)
{
	struct stub_handle dir = *h;
	struct heat *t = &j->heat;

	if (!t->on ||
	    (kind != STUB_ASK_LOOKUP && kind != STUB_ASK_DATA && kind != STUB_ASK_PASS))
		return;
	if (kind != STUB_ASK_LOOKUP &&
	    (just_now(t, &t->file, h) || parent_of(j, h, &dir) < 0))
		return;
	if (just_now(t, &t->dir, &dir))
		return;
	pthread_mutex_lock(&t->lock);
	stub_heat_put(&t->to, &dir);
	pthread_mutex_unlock(&t->lock);
}
