/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger.c - enter what is about to be changed, and leave it (docs/decisions/0080).
 *
 * An object that is active costs three words of memory.  One that is not is appended to this
 * process's list and synced.  leave() needs no disk: what is in flight is not struck, so it still
 * stands in the ledger, and may be made active.
 *
 * Frozen: who enters is in flight before it looks at that word.  So of those that the word did
 * not stop each one is seen by whoever sets it and looks for flights then.  It is the boot in
 * which it was set, and lies in `state`: it outlives the set's file, and no crash of the machine.
 */
#include <fcntl.h>

#include "ledger.h"

struct stub_enterer {
	pthread_mutex_t lock; /* while a map is opened */
	_Atomic(struct stub_enter_map *) now;
	struct stub_lists *lists;
	pid_t pid;
};

int stub_enterer_create(struct stub_enterer **out)
{
	struct stub_enterer *e = calloc(1, sizeof(*e));

	if (!e || stub_lists_create(&e->lists) < 0) {
		free(e);
		return -ENOMEM;
	}
	pthread_mutex_init(&e->lock, NULL);
	*out = e;
	return 0;
}

void stub_enterer_destroy(struct stub_enterer *e)
{
	struct stub_enter_map *m, *older;

	if (!e)
		return;
	for (m = atomic_load(&e->now); m; m = older) {
		older = m->older;
		stub_map_close(m);
	}
	stub_lists_destroy(e->lists);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

STUB_PUBLIC bool stub_ledger_is(const struct stub_volume *v)
{
	return atomic_load_explicit(&v->state->version, memory_order_acquire) ==
	       STUB_STATE_MIRRORED;
}

/* Older sets in which nothing of ours flies any more.  Who is about to fly there looks whether
 * it is still the one, and does not. */
static void let_go(struct stub_enter_map *m)
{
	for (m = m->older; m; m = m->older)
		if (m->owners_fd >= 0 && !stub_set_flying(m->set, m->owner))
			stub_map_let_go(m);
}

int stub_enterer_map(struct stub_volume *v, struct stub_enter_map **out)
{
	struct stub_enterer *e = v->enterer;
	struct stub_enter_map *m = atomic_load(&e->now);
	int r = 0;

	*out = m;
	if (m && stub_map_is_now(v, m))
		return 0;
	pthread_mutex_lock(&e->lock);
	*out = atomic_load(&e->now);
	if (!*out || !stub_map_is_now(v, *out)) {
		r = stub_map_open(v, true, &m);
		if (r == 0) {
			m->older = *out;
			atomic_store(&e->now, m);
			*out = m;
			let_go(m);
		}
	}
	pthread_mutex_unlock(&e->lock);
	return r;
}

/* What is the ledger's own error, if it has not just ended: then nobody needs it. */
static int own(const struct stub_volume *v, int r)
{
	if (!stub_ledger_is(v))
		return 0;
	return r == -ENOENT ? -EIO : r; /* a file of it is lost; clients would take it for theirs */
}

STUB_PUBLIC int stub_ledger_enter(struct stub_volume *v, const struct stub_handle *h,
				  uint32_t what, struct stub_entered *e)
{
	struct stub_owing o = { .h = *h, .what = what };
	struct stub_enter_map *m;
	enum stub_frozen frozen;
	int r;

	e->map = NULL;
	e->what = 0;
	e->from = e->to = 0;
	e->name[0] = '\0';
	if (!stub_ledger_is(v))
		return 0;
	if (what == 0 || what > STUB_OWED_ALL || h->len == 0 || h->len > STUB_HANDLE_MAX)
		return -EINVAL;
	for (;;) {
		r = stub_enterer_map(v, &m);
		if (r < 0)
			return own(v, r);
		r = stub_set_may(m->set);
		if (r < 0)
			return r;
		r = stub_set_fly(m->set, m->owner, h);
		if (r < 0)
			return r;
		e->flight = (uint32_t)r;
		frozen = stub_ledger_frozen(v);
		if (frozen) {
			stub_set_land(m->set, e->flight);
			return frozen == STUB_FROZEN ? -EAGAIN : -EROFS;
		}
		if (stub_map_is_now(v, m))
			break;
		stub_set_land(m->set, e->flight);
	}
	if (!stub_set_touch(m->set, h, what)) {
		r = stub_lists_append(v, v->enterer->lists, &o);
		if (r < 0) {
			stub_set_land(m->set, e->flight);
			return own(v, r);
		}
		stub_set_activate(m->set, m->owner, h, what); /* no place: another sync next time */
	}
	e->map = m;
	e->what = what;
	e->h = *h;
	return 0;
}

STUB_PUBLIC void stub_ledger_leave(struct stub_volume *v, struct stub_entered *e)
{
	struct stub_owing o = { .h = e->h, .what = e->what };
	struct stub_enter_map *m = e->map, *now = m;
	int r = 0;

	if (!m)
		return;
	e->map = NULL;
	if (!stub_map_is_now(v, m))
		r = stub_enterer_map(v, &now);
	if (r == 0 && !stub_set_activate(now->set, now->owner, &e->h, e->what))
		r = stub_lists_append(v, v->enterer->lists, &o);
	if (r < 0 && stub_ledger_is(v)) {
		stub_log(&v->log, STUB_LOG_ERROR,
			 "the mirror's ledger: a change stays owed as long as this process lives: %s",
			 strerror(-r));
		return; /* in flight for ever: not struck */
	}
	stub_set_land(m->set, e->flight);
	if (now != m) {
		pthread_mutex_lock(&v->enterer->lock);
		let_go(atomic_load(&v->enterer->now));
		pthread_mutex_unlock(&v->enterer->lock);
	}
}

STUB_PUBLIC int stub_ledger_owe(struct stub_volume *v, const struct stub_handle *h, uint32_t what)
{
	struct stub_entered e;
	int r = stub_ledger_enter(v, h, what, &e);

	if (r == 0)
		stub_ledger_leave(v, &e);
	return r;
}

/* ---- frozen ---- */

#define FOR_GOOD UINT64_MAX

static uint64_t this_boot(const struct stub_volume *v)
{
	return v->boot && v->boot != FOR_GOOD ? v->boot : 1;
}

STUB_PUBLIC enum stub_frozen stub_ledger_frozen(const struct stub_volume *v)
{
	uint64_t word = atomic_load(&v->state->frozen);

	return word == FOR_GOOD ? STUB_FROZEN_FOR_GOOD :
	       word == this_boot(v) ? STUB_FROZEN :
				      STUB_THAWED;
}

STUB_PUBLIC int stub_ledger_freeze(struct stub_volume *v, enum stub_frozen how)
{
	uint64_t word = how == STUB_FROZEN_FOR_GOOD ? FOR_GOOD : how == STUB_FROZEN ? this_boot(v) : 0;
	int r;

	if (!stub_ledger_is(v))
		return -ENOENT;
	r = stub_io_pwrite(v->state_fd, &word, sizeof(word), offsetof(struct stub_state_page, frozen));
	return r == 0 && fsync(v->state_fd) < 0 ? -errno : r;
}
