/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_set.c - the memory that all who enter share with the replicator; no system calls.
 *
 * An active place means: this object is durably in the ledger, and whoever strikes it will see
 * its word move.  It is a cache: any active place may be given to another object at any time, for
 * its object stays owed, and a strike fails that finds the word moved.
 *
 * Order, of which everything depends:
 *   enter   in flight; touch, or append and make active
 *   leave   touch, or make active; not in flight any more
 *   strike  is it in flight?  then free the place whose word begin() has read; is it active
 *           elsewhere?  Then what was appended before begin() is taken out
 * Who is in flight when strike looks is seen.  Who has left before has moved a word, or has
 * made another place active.  Who comes later finds the place moved, or appends, and that is
 * taken over after the strike.
 *
 * A process may die between any two steps.  A place that is claimed has its owner in the word,
 * and is freed only when that is dead: one that stands still writes into what is its own.
 */
#include "ledger.h"

enum { FREE = 0, CLAIMED = 1, ACTIVE = 2, STATE = 3 };
#define WHAT_SHIFT  2
#define OWNER_SHIFT 5
#define COUNT_SHIFT 16
#define COUNT_ONE   (UINT64_C(1) << COUNT_SHIFT)

_Static_assert(STUB_SET_OWNERS <= 1u << (COUNT_SHIFT - OWNER_SHIFT), "owners in a word");
_Static_assert(STUB_OWED_ALL < 1 << (OWNER_SHIFT - WHAT_SHIFT), "what in a word");

static uint32_t state_of(uint64_t w)
{
	return w & STATE;
}

static uint32_t what_of(uint64_t w)
{
	return (uint32_t)(w >> WHAT_SHIFT) & STUB_OWED_ALL;
}

static uint32_t owner_of(uint64_t w)
{
	return (uint32_t)(w >> OWNER_SHIFT) & (STUB_SET_OWNERS - 1);
}

/* What follows after @w. */
static uint64_t then(uint64_t w, uint32_t state, uint32_t what, uint32_t owner)
{
	return (w & ~(COUNT_ONE - 1)) + COUNT_ONE + ((uint64_t)owner << OWNER_SHIFT) +
	       ((uint64_t)what << WHAT_SHIFT) + state;
}

static uint64_t sum_of(const struct stub_handle *h)
{
	uint64_t s = stub_fnv(STUB_FNV, h->bytes, h->len) ^ (uint64_t)(uint32_t)h->type << 32;

	s = (s ^ s >> 31) * 0x9e3779b97f4a7c15u;
	return s ^ s >> 29;
}

void stub_set_pack(const struct stub_handle *h, uint64_t key[STUB_SET_KEY])
{
	memset(key, 0, STUB_SET_KEY * sizeof(*key));
	key[0] = (uint64_t)(uint32_t)h->type << 32 | h->len;
	memcpy(key + 1, h->bytes, h->len);
}

bool stub_set_unpack(const uint64_t key[STUB_SET_KEY], struct stub_handle *h)
{
	uint32_t len = (uint32_t)key[0];

	memset(h, 0, sizeof(*h));
	if (len == 0 || len > STUB_HANDLE_MAX)
		return false;
	h->type = (int32_t)(key[0] >> 32);
	h->len = (uint8_t)len;
	memcpy(h->bytes, key + 1, h->len);
	return true;
}

static unsigned int words(const uint64_t key[STUB_SET_KEY])
{
	return 1 + ((uint32_t)key[0] + 7) / 8;
}

static bool same(struct stub_set_place *p, const uint64_t key[STUB_SET_KEY])
{
	for (unsigned int i = 0; i < words(key); i++)
		if (atomic_load_explicit(&p->key[i], memory_order_acquire) != key[i])
			return false;
	return true;
}

static uint32_t first_way(const struct stub_handle *h)
{
	return (uint32_t)(sum_of(h) % (STUB_SET_PLACES / STUB_SET_WAYS)) * STUB_SET_WAYS;
}

/* ---- flights ---- */

int stub_set_fly(struct stub_set *s, uint32_t owner, const struct stub_handle *h)
{
	uint64_t sum = sum_of(h), word = (sum & ~(uint64_t)(STUB_SET_OWNERS - 1)) | owner;
	uint32_t at = (uint32_t)(sum >> 40) + owner * 61;

	for (uint32_t i = 0; i < STUB_SET_FLIGHTS; i++) {
		uint32_t f = (at + i) % STUB_SET_FLIGHTS;
		uint64_t none = 0;

		if (atomic_load_explicit(&s->flight[f], memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&s->flight[f], &none, word))
			return (int)f;
	}
	return -EAGAIN;
}

void stub_set_land(struct stub_set *s, uint32_t flight)
{
	atomic_store(&s->flight[flight], 0);
}

bool stub_set_flies(struct stub_set *s, const struct stub_handle *h)
{
	uint64_t sum = sum_of(h) / STUB_SET_OWNERS;

	for (uint32_t f = 0; f < STUB_SET_FLIGHTS; f++) {
		uint64_t w = atomic_load(&s->flight[f]);

		if (w && w / STUB_SET_OWNERS == sum)
			return true;
	}
	return false;
}

bool stub_set_flying(struct stub_set *s, uint32_t owner)
{
	for (uint32_t f = 0; f < STUB_SET_FLIGHTS; f++) {
		uint64_t w = atomic_load(&s->flight[f]);

		if (w && w % STUB_SET_OWNERS == owner)
			return true;
	}
	return false;
}

bool stub_set_quiet(struct stub_set *s)
{
	for (uint32_t f = 0; f < STUB_SET_FLIGHTS; f++)
		if (atomic_load(&s->flight[f]))
			return false;
	return true;
}

/* ---- active ---- */

/* Count a change of @p if it is @key's and has @what, or may get it (@more). */
static bool touch(struct stub_set_place *p, const uint64_t key[STUB_SET_KEY], uint32_t what,
		  bool more)
{
	uint64_t w = atomic_load(&p->word);

	for (;;) {
		if (state_of(w) != ACTIVE || !same(p, key) ||
		    (!more && (what_of(w) & what) != what))
			return false;
		/* the key was read before: if it was another's meanwhile, the word has moved */
		if (atomic_compare_exchange_strong(
			    &p->word, &w, then(w, ACTIVE, what_of(w) | what, owner_of(w))))
			return true;
	}
}

static bool touch_any(struct stub_set *s, const struct stub_handle *h, uint32_t what, bool more)
{
	uint64_t key[STUB_SET_KEY];
	uint32_t at = first_way(h);

	stub_set_pack(h, key);
	for (uint32_t i = 0; i < STUB_SET_WAYS; i++)
		if (touch(&s->place[at + i], key, what, more))
			return true;
	return false;
}

bool stub_set_touch(struct stub_set *s, const struct stub_handle *h, uint32_t what)
{
	return touch_any(s, h, what, false);
}

/* Free ones first, then the first active one from a place on that wanders. */
static bool claim(struct stub_set *s, uint32_t owner, uint32_t at, struct stub_set_place **out,
		  uint64_t *mine)
{
	uint32_t from = 0;

	for (uint32_t i = 0; i < STUB_SET_WAYS; i++)
		from += (uint32_t)(atomic_load(&s->place[at + i].word) >> COUNT_SHIFT);
	for (uint32_t i = 0; i < 2 * STUB_SET_WAYS; i++) {
		struct stub_set_place *p = &s->place[at + (from + i) % STUB_SET_WAYS];
		uint64_t w = atomic_load(&p->word);

		if (state_of(w) != (i < STUB_SET_WAYS ? FREE : ACTIVE))
			continue;
		*mine = then(w, CLAIMED, 0, owner);
		*out = p;
		if (atomic_compare_exchange_strong(&p->word, &w, *mine))
			return true;
	}
	return false;
}

bool stub_set_activate(struct stub_set *s, uint32_t owner, const struct stub_handle *h,
		       uint32_t what)
{
	uint64_t key[STUB_SET_KEY], mine;
	struct stub_set_place *p;

	if (touch_any(s, h, what, true))
		return true;
	if (!claim(s, owner, first_way(h), &p, &mine))
		return false;
	stub_set_pack(h, key);
	for (unsigned int i = 0; i < words(key); i++)
		atomic_store_explicit(&p->key[i], key[i], memory_order_release);
	return atomic_compare_exchange_strong(&p->word, &mine, then(mine, ACTIVE, what, owner));
}

/* ---- the replicator ---- */

int32_t stub_set_begin(struct stub_set *s, const struct stub_handle *h, uint64_t *word)
{
	uint64_t key[STUB_SET_KEY], w;
	uint32_t at = first_way(h);
	int32_t found = -1;

	stub_set_pack(h, key);
	for (uint32_t i = at; i < at + STUB_SET_WAYS; i++) {
		struct stub_set_place *p = &s->place[i];

		w = atomic_load(&p->word);
		if (state_of(w) != ACTIVE || !same(p, key))
			continue;
		if (found >= 0) {
			atomic_compare_exchange_strong(&p->word, &w, then(w, FREE, 0, 0));
			continue;
		}
		/* was it another's while the key was read?  A strike would fail: it is looked
		 * at again then */
		found = (int32_t)i;
		*word = w;
	}
	return found;
}

bool stub_set_strike(struct stub_set *s, const struct stub_handle *h, int32_t place, uint64_t word)
{
	uint64_t key[STUB_SET_KEY];
	uint32_t at = first_way(h);

	stub_set_pack(h, key);
	if (place >= 0 && (place < (int32_t)at || place >= (int32_t)(at + STUB_SET_WAYS) ||
			   !atomic_compare_exchange_strong(&s->place[place].word, &word,
							   then(word, FREE, 0, 0))))
		return false;
	for (uint32_t i = at; i < at + STUB_SET_WAYS; i++)
		if (state_of(atomic_load(&s->place[i].word)) == ACTIVE && same(&s->place[i], key))
			return false;
	return true;
}

bool stub_set_bury(struct stub_set *s, uint32_t owner)
{
	bool any = false;

	for (uint32_t i = 0; i < STUB_SET_PLACES; i++) {
		uint64_t w = atomic_load(&s->place[i].word);

		if (state_of(w) == CLAIMED && owner_of(w) == owner)
			atomic_compare_exchange_strong(&s->place[i].word, &w, then(w, FREE, 0, 0));
	}
	for (uint32_t f = 0; f < STUB_SET_FLIGHTS; f++)
		if (atomic_load(&s->flight[f]) % STUB_SET_OWNERS == owner) {
			atomic_store(&s->flight[f], 0);
			any = true;
		}
	return any;
}
