/* SPDX-License-Identifier: GPL-3.0-or-later */
/* order.c - an order as text, and as a number for each entry. */
#include "order/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_BITS 6
#define CLASS_MAX  ((1u << CLASS_BITS) - 1)
#define HOUR	   3600
#define AHEAD	   "ahead="
#define WANTED                                                                            \
	"want recent, small, large, " AHEAD "N, first=PATTERN, last=PATTERN; or 'default', alone"

static const char *const names[ORDER_KEYS] = {
	[ORDER_RECENT] = "recent",
	[ORDER_SMALL] = "small",
	[ORDER_LARGE] = "large",
};

static const char *const times[] = {
	[ORDER_FIRST] = "first=",
	[ORDER_LAST] = "last=",
};

void order_init(struct order *o)
{
	*o = (struct order){ .ahead = ORDER_AHEAD };
}

/* ---- text ---- */

static int take_ahead(struct order *o, const char *text, char *why, size_t size)
{
	unsigned long n = 0;
	char *end = NULL;

	errno = 0;
	if (*text >= '0' && *text <= '9')
		n = strtoul(text, &end, 10);
	if (errno || n < ORDER_AHEAD_LEAST || n > ORDER_AHEAD_MOST ||
	    *end) {
		snprintf(why, size, "'" AHEAD "%.40s' is none: want a number from %d to %d", text,
			 ORDER_AHEAD_LEAST, ORDER_AHEAD_MOST);
		return -EINVAL;
	}
	o->ahead = (uint32_t)n;
	return 0;
}

/* Is it there, or the opposite of it? */
static bool has(const struct order *o, int key)
{
	for (unsigned int i = 0; i < o->keys; i++) {
		if (o->key[i] == key || (o->key[i] != ORDER_RECENT && key != ORDER_RECENT))
			return true;
	}
	return false;
}

static int take_pattern(struct order *o, enum order_when when, const char *text, char *why,
			size_t size)
{
	char pattern[PATTERN_SIZE];
	const char *wrong = pattern_take(text, pattern);

	for (unsigned int i = 0; !wrong && i < o->patterns; i++) {
		if (!strcmp(o->pattern[i].text, pattern))
			wrong = "was said already";
	}
	if (!wrong && o->patterns == ORDER_PATTERNS)
		wrong = "is one too many: there may be 16 patterns";
	if (wrong) {
		snprintf(why, size, "'%s%.60s' %s; want a directory, such as projects/alpha or "
			 "home/*/mail", times[when], text, wrong);
		return -EINVAL;
	}
	o->pattern[o->patterns].when = when;
	memcpy(o->pattern[o->patterns++].text, pattern, sizeof(pattern));
	return 0;
}

int order_take(struct order *o, const char *word, char *why, size_t size)
{
	int key = 0;

	if (!strncmp(word, AHEAD, strlen(AHEAD)))
		return take_ahead(o, word + strlen(AHEAD), why, size);
	for (int when = ORDER_FIRST; when <= ORDER_LAST; when++) {
		if (!strncmp(word, times[when], strlen(times[when])))
			return take_pattern(o, when, word + strlen(times[when]), why, size);
	}
	while (key < ORDER_KEYS && strcmp(word, names[key]))
		key++;
	if (key == ORDER_KEYS) {
		snprintf(why, size, "'%.60s' is no order: " WANTED, word);
		return -EINVAL;
	}
	if (has(o, key)) {
		snprintf(why, size, "'%s' says nothing more: each word once, and one of small and "
			 "large", word);
		return -EINVAL;
	}
	o->key[o->keys++] = (uint8_t)key;
	return 0;
}

void order_text(const struct order *o, char out[ORDER_TEXT])
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned int i = 0; i < o->keys; i++)
		n += (size_t)snprintf(out + n, ORDER_TEXT - n, "%s%s", n ? " " : "",
				      names[o->key[i]]);
	if (o->ahead != ORDER_AHEAD)
		snprintf(out + n, ORDER_TEXT - n, "%s" AHEAD "%u", n ? " " : "", o->ahead);
}

void order_line(const struct order *o, unsigned int i, char out[ORDER_LINE])
{
	snprintf(out, ORDER_LINE, "%s%s", times[o->pattern[i].when], o->pattern[i].text);
}

void order_all(const struct order *o, char out[ORDER_ALL])
{
	size_t n;

	order_text(o, out);
	n = strlen(out);
	for (unsigned int i = 0; i < o->patterns; i++) {
		if (n)
			out[n++] = ' ';
		order_line(o, i, out + n);
		n += strlen(out + n);
	}
}

static bool same_patterns(const struct order *a, const struct order *b)
{
	for (unsigned int i = 0; i < a->patterns; i++) {
		if (a->pattern[i].when != b->pattern[i].when ||
		    strcmp(a->pattern[i].text, b->pattern[i].text))
			return false;
	}
	return true;
}

bool order_equal(const struct order *a, const struct order *b)
{
	return a->keys == b->keys && a->ahead == b->ahead && a->patterns == b->patterns &&
	       !memcmp(a->key, b->key, a->keys) && same_patterns(a, b);
}

/* ---- where it is ---- */

struct order_place order_place(const struct order *o, const char *path)
{
	struct order_place place = { .when = ORDER_USUAL };
	unsigned int depth = 0;

	for (unsigned int i = 0; i < o->patterns; i++) {
		struct pattern_met met = pattern_meets(o->pattern[i].text, path);

		if (met.depth > depth) {
			depth = met.depth;
			place.when = o->pattern[i].when;
		}
		place.below |= met.below;
		place.way |= met.below && o->pattern[i].when == ORDER_FIRST &&
			     pattern_is_way(o->pattern[i].text);
	}
	return place;
}

/* ---- rank ---- */

/* Bits that @n has: 0 for 0. */
static unsigned int bits(uint64_t n)
{
	return n ? 64u - (unsigned int)__builtin_clzll(n) : 0;
}

static unsigned int class_of(enum order_key key, const struct stub_journal_entry *e, time_t now)
{
	uint64_t size = e->kind == STUB_JOURNAL_DIR ? 0 : e->size;
	unsigned int n;

	switch (key) {
	case ORDER_RECENT: /* what the old server has from the future is now */
		if (e->mtime >= now)
			return 0;
		/* both may be lies: no overflow */
		return bits(((uint64_t)now - (uint64_t)e->mtime) / HOUR);
	case ORDER_SMALL: /* below 4 KiB all are one */
		return bits(size >> 12);
	default:
		n = bits(size >> 12);
		return CLASS_MAX - n;
	}
}

uint64_t order_rank(const struct order *o, const struct stub_journal_entry *e, time_t now)
{
	uint64_t rank = e->kind == STUB_JOURNAL_DIR ? 0 : e->kind == STUB_JOURNAL_LINKS ? 2 : 1;

	/* what has failed is tried after what has not */
	rank = rank << 1 | (e->tries > 0);
	for (unsigned int i = 0; i < o->keys; i++) {
		unsigned int c = class_of(o->key[i], e, now);

		rank = rank << CLASS_BITS | (c < CLASS_MAX ? c : CLASS_MAX);
	}
	return rank;
}
