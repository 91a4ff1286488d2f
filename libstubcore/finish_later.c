/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * finish_later.c - objects that are finished some time after a client asked for them last.
 *
 * Finishing moves the change time that clients see, once.  GNU tar, borg and others look at
 * it before and after they read a file, and report a file that changed meanwhile.  The
 * retriever does not see reads of what is here, only asks; so it remembers which objects were
 * asked for, in the order of the last ask, and these are finished when that is long ago.
 *
 * Nothing depends on this memory: an object that is kept has its journal entry still, and
 * is finished by whoever meets it after a restart.  It is bounded; beyond ENTRIES_MAX the
 * oldest is forgotten, and finished if it waits for that.
 */
#include <stdlib.h>

#include "finish_later.h"

#define BUCKETS	    4096
#define ENTRIES_MAX 32768
#define AGAIN_PART  16 /* of the delay: how often a directory is looked at again */

struct later_entry {
	struct later_entry *bucket_next, *older, *newer;
	uint64_t touched_ms;
	bool kept;
	int how;
	struct stub_handle h;
};

static struct later_entry **place(const struct stub_later *l, const struct stub_handle *h)
{
	struct later_entry **e;

	for (e = &l->bucket[stub_handle_sum(h) % BUCKETS]; *e && !stub_handle_equal(&(*e)->h, h);)
		e = &(*e)->bucket_next;
	return e;
}

static void ring_remove(struct stub_later *l, struct later_entry *e)
{
	*(e->older ? &e->older->newer : &l->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &l->newest) = e->older;
}

/* Put @e where its last touch belongs: almost always it is the newest. */
static void ring_add(struct stub_later *l, struct later_entry *e)
{
	e->newer = NULL;
	e->older = l->newest;
	while (e->older && e->older->touched_ms > e->touched_ms) {
		e->newer = e->older;
		e->older = e->older->older;
	}
	*(e->older ? &e->older->newer : &l->oldest) = e;
	*(e->newer ? &e->newer->older : &l->newest) = e;
}

static void forget(struct stub_later *l, struct later_entry *e)
{
	struct later_entry **p = place(l, &e->h);

	*p = e->bucket_next;
	ring_remove(l, e);
	l->n--;
	if (e->kept)
		l->kept--;
	free(e);
}

static bool is_due(const struct stub_later *l, const struct later_entry *e)
{
	return l->n > ENTRIES_MAX || stub_now_ms() - e->touched_ms >= l->delay_ms;
}

/* The entry of @h, made if there is none, as touched at @touched_ms; NULL: no memory. */
static struct later_entry *entry_at(struct stub_later *l, const struct stub_handle *h,
				    uint64_t touched_ms)
{
	struct later_entry **p = place(l, h), *e = *p;

	if (e) {
		ring_remove(l, e);
	} else {
		e = calloc(1, sizeof(*e));
		if (!e)
			return NULL;
		e->h = *h;
		*p = e;
		l->n++;
	}
	e->touched_ms = touched_ms;
	ring_add(l, e);
	return e;
}

bool stub_later_touch(struct stub_later *l, const struct stub_handle *h)
{
	if (!l->delay_ms)
		return false;
	if (!l->bucket)
		l->bucket = calloc(BUCKETS, sizeof(*l->bucket));
	if (!l->bucket)
		return false;
	while (l->oldest && !l->oldest->kept && is_due(l, l->oldest))
		forget(l, l->oldest);
	entry_at(l, h, stub_now_ms());
	return l->n > ENTRIES_MAX;
}

bool stub_later_keep(struct stub_later *l, const struct stub_handle *h, int how)
{
	struct later_entry *e = l->n ? *place(l, h) : NULL;

	if (!e || (!e->kept && is_due(l, e)))
		return false;
	if (!e->kept)
		l->kept++;
	e->kept = true;
	e->how = how;
	return true;
}

uint64_t stub_later_touched(const struct stub_later *l, const struct stub_handle *h)
{
	const struct later_entry *e = l->n ? *place(l, h) : NULL;

	return e && (e->kept || stub_now_ms() - e->touched_ms < l->delay_ms) ? e->touched_ms : 0;
}

bool stub_later_again(struct stub_later *l, const struct stub_handle *h, int how,
		      uint64_t touched_ms)
{
	uint64_t least_ms = stub_now_ms() + l->delay_ms / AGAIN_PART;

	least_ms = least_ms > l->delay_ms ? least_ms - l->delay_ms : 0;
	if (stub_later_keep(l, h, how))
		return true; /* asked for itself meanwhile */
	if (!l->bucket || l->n >= ENTRIES_MAX ||
	    !entry_at(l, h, touched_ms > least_ms ? touched_ms : least_ms))
		return false;
	return stub_later_keep(l, h, how);
}

bool stub_later_due(struct stub_later *l, bool all, struct stub_handle *h, int *how)
{
	while (l->oldest && (all || is_due(l, l->oldest))) {
		bool kept = l->oldest->kept;

		*h = l->oldest->h;
		*how = l->oldest->how;
		forget(l, l->oldest);
		if (kept)
			return true;
	}
	return false;
}

uint64_t stub_later_next_ms(const struct stub_later *l)
{
	return l->kept ? l->oldest->touched_ms + l->delay_ms : 0;
}

void stub_later_finish(struct stub_later *l)
{
	while (l->oldest)
		forget(l, l->oldest);
	free(l->bucket);
}
