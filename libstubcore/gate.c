/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * gate.c - waiting for the old server, as long as the server whose gate it is allows.
 *
 * An ask is repeated in slices, between which the gate is asked whether to go on: a
 * shutdown, a client that has left and a retriever that is lost for good are noticed.  The
 * work that was asked for goes on in the retriever when the wait ends.
 */
#include <fcntl.h>

#include "gate.h"

#define SLICE_MS  500u /* longest single wait */
#define RETRY_MS  50u /* pause while no retriever is running */
#define FORGET_MS 60000 /* after so long without a look an absence counts from 0 again */

STUB_PUBLIC bool stub_gate_migrating(const struct stub_gate *g)
{
	return g->volume && !stub_volume_complete(g->volume);
}

STUB_PUBLIC bool stub_gate_mirrored(const struct stub_gate *g)
{
	return g->volume && stub_ledger_is(g->volume);
}

STUB_PUBLIC uint64_t stub_gate_era(const struct stub_gate *g)
{
	return g->volume ? stub_volume_era(g->volume) : 0;
}

STUB_PUBLIC bool stub_gate_hides(struct stub_gate *g)
{
	struct stat st;

	if (atomic_load(&g->finished))
		return false;
	if (!stub_volume_complete(g->volume) ||
	    fstatat(g->volume->fd, STUB_DIR, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return true;
	atomic_store(&g->finished, true);
	return false;
}

/* ---- is there a retriever? ---- */

static bool retriever_runs(struct stub_gate *g)
{
	struct stub_link *link;
	int r;

	AS_ROOT(g, r, stub_link_create(g->volume, &link));
	if (r == 0)
		stub_link_destroy(link);
	return r == 0;
}

STUB_PUBLIC uint64_t stub_gate_absent_ms(struct stub_gate *g)
{
	int64_t now = (int64_t)stub_now_ms(), since;

	if (retriever_runs(g)) {
		atomic_store(&g->absent, 0);
		return 0;
	}
	since = atomic_load(&g->absent);
	if (since == 0 || now - atomic_exchange(&g->absent_seen, now) > FORGET_MS) {
		atomic_store(&g->absent_seen, now);
		atomic_store(&g->absent, now);
		return 0;
	}
	return (uint64_t)(now - since);
}

STUB_PUBLIC bool stub_gate_absent(const struct stub_gate *g)
{
	return atomic_load(&g->absent) != 0;
}

/* ---- asking ---- */

static void sleep_ms(uint64_t ms)
{
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/*
 * Lines about asks in the server's log (docs/decisions/0048).  They are only made while its
 * level is debug.
 */
STUB_PUBLIC uint64_t stub_gate_asks(struct stub_gate *g, struct stub_ask *ask)
{
	ask->id = stub_ask_id(g->volume);
	return g->ops->debugs && g->ops->debugs(g) ? stub_now_us() : 0;
}

STUB_PUBLIC void stub_gate_answered(struct stub_gate *g, const struct stub_ask *ask,
				    uint64_t since_us, int result)
{
	char text[STUB_ASK_TEXT];

	if (!since_us)
		return;
	stub_ask_text(ask, text, sizeof(text));
	stub_log(&g->volume->log, STUB_LOG_DEBUG, "ask %08x: %s: %s, %.1f ms", ask->id, text,
		 stub_result_text(result), (double)(stub_now_us() - since_us) / 1000);
}

/* @fd: where a PASS puts its memory file; NULL for other asks */
static int ask_once(struct stub_gate *g, const struct stub_ask *ask, uint64_t ms, int *fd)
{
	unsigned int wait = (unsigned int)(ms < SLICE_MS ? ms : SLICE_MS);

	return fd ? stub_pass(g->volume, ask, wait, fd) : stub_ask(g->volume, ask, wait);
}

STUB_PUBLIC uint64_t stub_wait_left(struct stub_gate *g, const struct stub_wait *w)
{
	uint64_t now = stub_now_ms();

	if (g->ops->wait_left)
		return g->ops->wait_left(g, w);
	return w->until > now ? w->until - now : 0;
}

static int ask_within(struct stub_gate *g, struct stub_wait *w, const struct stub_ask *ask,
		      int *fd)
{
	for (;;) {
		uint64_t left = stub_wait_left(g, w), began = stub_now_ms(), took;
		int r = ask_once(g, ask, left, fd);

		if (r != -EAGAIN) {
			atomic_store(&g->absent, 0);
			return r;
		}
		r = g->ops->wait_on(g, w);
		left = stub_wait_left(g, w);
		if (r < 0 || left == 0)
			return r < 0 ? r : -EAGAIN;
		took = stub_now_ms() - began;
		if (took < RETRY_MS)
			sleep_ms(left < RETRY_MS - took ? left : RETRY_MS - took);
	}
}

static int ask_for(struct stub_gate *g, struct stub_wait *w, const struct stub_ask *ask, int *fd)
{
	struct stub_ask named = *ask;
	uint64_t since;
	bool place;
	int r;

	if (g->alone && g->brackets)
		return -EAGAIN;
	since = stub_gate_asks(g, &named);
	place = g->ops->wait_begin(g, w);
	if (place)
		AS_ROOT(g, r, ask_within(g, w, &named, fd));
	else
		AS_ROOT(g, r, ask_once(g, &named, 0, fd));
	if (place && g->ops->wait_end)
		g->ops->wait_end(g, w);
	stub_gate_answered(g, &named, since, r);
	return r;
}

STUB_PUBLIC int stub_gate_ask(struct stub_gate *g, struct stub_wait *w, const struct stub_ask *ask)
{
	return ask_for(g, w, ask, NULL);
}

STUB_PUBLIC int stub_gate_pass(struct stub_gate *g, struct stub_wait *w,
			       const struct stub_ask *ask, int *fd)
{
	return ask_for(g, w, ask, fd);
}

STUB_PUBLIC bool stub_takes_no_data(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EROFS || error == -EIO;
}
