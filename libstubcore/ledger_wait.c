/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_wait.c - who has changed something waits until the mirror has it, too (docs/decisions/0093).
 *
 * A wait is a slot in the memory of the set: whoever waits writes into it what for, rings the bell, and
 * sleeps on its word.  The replicator reads the slot, compares the object, and moves the word on.  A comparison
 * that began after a slot was read saw the change, for its bracket had been left before.
 *
 * The replicator says for how long it can be believed to be there.  When that is over it is gone, whether it is its
 * process, its machine's memory, or the mirror; who waits asks for that all the time.
 */
#include <errno.h>
#include <unistd.h>

#include "ledger.h"
#include "news.h"

#define LOOK_MS 250   /* between two looks whether the mirror is still there */
#define TAKE_MS 60000 /* a mirror that is there, and has not made something equal for so long, is waited for no more */
#define FULL_US 1000  /* between two looks for a slot */

/* ---- who changes something ---- */

/* Is the mirror to have it before it is acknowledged? */
static bool is_awaited(enum stub_mirror_mode mode, const struct stub_entered *e)
{
	return e->what && (mode == STUB_MIRROR_SYNC || (mode == STUB_MIRROR_PARTLY && !(e->what & STUB_OWED_DATA)));
}

/* False: too many wait, all the time. */
static bool begin(const struct stub_enter_map *m, const struct stub_entered *e, uint64_t until, uint32_t *at)
{
	while (!stub_slot_take(m->set, m->owner, e, at)) {
		if (stub_now_ms() > until)
			return false;
		usleep(FULL_US);
	}
	return true;
}

/* Nobody will answer; what is said to who has changed something? */
static int unanswered(const struct stub_volume *v, const struct stub_set *s)
{
	return stub_set_refuses(s) && stub_ledger_is(v) ? -EIO : 0;
}

/* Until it is done, or there is nobody who would do it. */
static int wait_one(const struct stub_volume *v, const struct stub_enter_map *m, uint32_t at, uint64_t until)
{
	struct stub_set *s = m->set;
	uint32_t seen;
	int r = 0;

	while (stub_slot_waits(s, at, &seen)) {
		uint64_t now = stub_now_ms();

		if (now > until || !stub_map_is_now(v, m) || now > atomic_load(&s->follows_ms)) {
			r = unanswered(v, s);
			break;
		}
		stub_futex_wait(&s->wait[at].word, seen, LOOK_MS);
	}
	stub_slot_free(s, at);
	return r;
}

bool stub_ledger_awaits(struct stub_volume *v, const struct stub_entered *e)
{
	struct stub_enter_map *m;

	return stub_ledger_is(v) && stub_enterer_map(v, &m) == 0 && is_awaited(stub_set_mode(m->set), e);
}

STUB_PUBLIC int stub_ledger_await(struct stub_volume *v, const struct stub_entered *e, size_t n)
{
	uint64_t now, until;
	uint32_t at[STUB_CHANGE_OBJECTS];
	struct stub_enter_map *m;
	enum stub_mirror_mode mode;
	size_t waits = 0;
	int one, r = 0;

	if (!stub_ledger_is(v) || stub_enterer_map(v, &m) < 0)
		return 0;
	mode = stub_set_mode(m->set);
	if (mode != STUB_MIRROR_SYNC && mode != STUB_MIRROR_PARTLY)
		return 0;
	now = stub_now_ms();
	if (now > atomic_load(&m->set->follows_ms)) /* it is catching up, or gone */
		return now > atomic_load(&m->set->there_ms) ? unanswered(v, m->set) : 0;
	until = now + TAKE_MS;
	for (size_t i = 0; i < n && waits < ARRAY_LEN(at); i++)
		if (is_awaited(mode, &e[i]) && begin(m, &e[i], until, &at[waits]))
			waits++;
	if (waits)
		stub_futex_wake(&m->set->bell);
	for (size_t i = 0; i < waits; i++) {
		one = wait_one(v, m, at[i], until);
		r = r < 0 ? r : one;
	}
	return r;
}

/* ---- the replicator ---- */

/* `map` is followed by the one thread that listens; others look at it with the lock. */
struct stub_waits {
	struct stub_volume *v;
	pthread_mutex_t lock;
	struct stub_enter_map *map;
	uint32_t bell;
};

STUB_PUBLIC int stub_waits_open(struct stub_volume *v, struct stub_waits **out)
{
	struct stub_waits *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->v = v;
	r = stub_map_open(v, false, &w->map);
	if (r < 0) {
		free(w);
		return r;
	}
	pthread_mutex_init(&w->lock, NULL);
	*out = w;
	return 0;
}

STUB_PUBLIC void stub_waits_close(struct stub_waits *w)
{
	if (!w)
		return;
	stub_map_close(w->map);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void follow(struct stub_waits *w)
{
	struct stub_enter_map *m;

	if (stub_map_is_now(w->v, w->map) || stub_map_open(w->v, false, &m) < 0)
		return;
	pthread_mutex_lock(&w->lock);
	stub_map_close(w->map);
	w->map = m;
	pthread_mutex_unlock(&w->lock);
}

STUB_PUBLIC unsigned int stub_waits_listen(struct stub_waits *w, unsigned int ms, struct stub_awaited *out,
					   unsigned int max)
{
	unsigned int n = 0;

	follow(w);
	if (ms)
		stub_futex_wait(&w->map->set->bell, w->bell, ms);
	w->bell = atomic_load(&w->map->set->bell);
	for (uint32_t i = 0; i < STUB_SET_WAITS && n < max; i++)
		n += stub_slot_read(w->map->set, i, &out[n]);
	return n;
}

STUB_PUBLIC void stub_waits_release(struct stub_waits *w, const struct stub_awaited *a)
{
	pthread_mutex_lock(&w->lock);
	if (w->map->id == a->set)
		stub_slot_done(w->map->set, a->at, a->word);
	pthread_mutex_unlock(&w->lock);
}

STUB_PUBLIC void stub_waits_pulse(struct stub_waits *w, const struct stub_pulse *p)
{
	struct stub_set *s = w->map->set;
	uint64_t until = stub_now_ms() + p->ms;

	if (p->there)
		atomic_store(&s->there_ms, until);
	if (p->there && p->follows)
		atomic_store(&s->follows_ms, until);
	else if (!p->follows)
		atomic_store(&s->follows_ms, 0);
	atomic_store(&s->delay_us, p->delay_us);
}
