/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_slots.c - the memory of who waits for the mirror (ledger_wait.c), and what the replicator says of itself.
 *
 * The word of a slot: state, owner, count.  Only its owner frees a slot, or who buries it.
 */
#include <errno.h>
#include <unistd.h>

#include "ledger.h"
#include "news.h"

enum { FREE = 0, CLAIMED = 1, WAITS = 2, DONE = 3, STATE = 3 };
#define OWNER_SHIFT 2
#define COUNT_SHIFT 13
#define AGAIN_MS    30000 /* so long clients are told to try again */
#define DELAY_MAX   999999u

_Static_assert(STUB_SET_OWNERS == 1u << (COUNT_SHIFT - OWNER_SHIFT), "owners in a word");

static uint32_t state_of(uint32_t w)
{
	return w & STATE;
}

static uint32_t owner_of(uint32_t w)
{
	return w >> OWNER_SHIFT & (STUB_SET_OWNERS - 1);
}

static uint32_t then(uint32_t w, uint32_t state, uint32_t owner)
{
	return ((w >> COUNT_SHIFT) + 1) << COUNT_SHIFT | owner << OWNER_SHIFT | state;
}

enum stub_mirror_mode stub_set_mode(const struct stub_set *s)
{
	return atomic_load_explicit(&s->rule, memory_order_relaxed) & 0xff;
}

bool stub_set_refuses(const struct stub_set *s)
{
	return (atomic_load_explicit(&s->rule, memory_order_relaxed) >> 8 & 0xff) == STUB_MIRROR_REFUSE;
}

int stub_set_may(struct stub_set *s)
{
	uint32_t delay = atomic_load_explicit(&s->delay_us, memory_order_relaxed);
	bool refuses = stub_set_refuses(s);
	uint64_t since, now;

	if (!delay && !refuses)
		return 0;
	now = stub_now_ms();
	since = atomic_load(&s->there_ms);
	if (now <= since) {
		if (delay)
			usleep(delay < DELAY_MAX ? delay : DELAY_MAX);
		return 0;
	}
	if (!refuses)
		return 0;
	if (since < s->made_ms)
		since = s->made_ms;
	return now - since < AGAIN_MS ? -EAGAIN : -EROFS;
}

bool stub_slot_take(struct stub_set *s, uint32_t owner, const struct stub_entered *e, uint32_t *at)
{
	uint32_t from = owner * 61 + (uint32_t)stub_now_ms();

	for (uint32_t i = 0; i < STUB_SET_WAITS; i++) {
		struct stub_set_wait *w = &s->wait[(from + i) % STUB_SET_WAITS];
		uint32_t seen = atomic_load_explicit(&w->word, memory_order_relaxed);

		if (state_of(seen) != FREE ||
		    !atomic_compare_exchange_strong(&w->word, &seen, then(seen, CLAIMED, owner)))
			continue;
		w->what = e->what;
		w->from = e->from;
		w->to = e->to;
		memcpy(w->name, e->name, sizeof(w->name));
		stub_set_pack(&e->h, w->key);
		atomic_store(&w->word, then(atomic_load(&w->word), WAITS, owner));
		*at = (from + i) % STUB_SET_WAITS;
		return true;
	}
	return false;
}

void stub_slot_free(struct stub_set *s, uint32_t at)
{
	atomic_store(&s->wait[at].word, then(atomic_load(&s->wait[at].word), FREE, 0));
}

bool stub_slot_waits(const struct stub_set *s, uint32_t at, uint32_t *word)
{
	*word = atomic_load_explicit(&s->wait[at].word, memory_order_acquire);
	return state_of(*word) == WAITS;
}

bool stub_slot_read(const struct stub_set *s, uint32_t at, struct stub_awaited *out)
{
	const struct stub_set_wait *w = &s->wait[at];
	uint32_t word;

	if (!stub_slot_waits(s, at, &word))
		return false;
	*out = (struct stub_awaited){ .what = w->what, .from = w->from, .to = w->to, .at = at, .word = word, .set = s->id };
	memcpy(out->name, w->name, sizeof(out->name) - 1);
	return stub_set_unpack(w->key, &out->h) && atomic_load(&w->word) == word;
}

void stub_slot_done(struct stub_set *s, uint32_t at, uint32_t word)
{
	if (atomic_compare_exchange_strong(&s->wait[at].word, &word, then(word, DONE, owner_of(word))))
		stub_futex_wake_all(&s->wait[at].word);
}

void stub_slots_bury(struct stub_set *s, uint32_t owner)
{
	for (uint32_t i = 0; i < STUB_SET_WAITS; i++) {
		uint32_t w = atomic_load(&s->wait[i].word);

		if (state_of(w) != FREE && owner_of(w) == owner)
			atomic_compare_exchange_strong(&s->wait[i].word, &w, then(w, FREE, 0));
	}
}
