/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reasons.h - why objects are parked, in words that scripts may rely on.
 *
 * The journal has an errno and a line of text for each parked object, which name the very
 * failure. Here each becomes one of a few reasons, which have a word, a sentence, and what
 * to do. postcopy(8) has the same table; test_errors.py compares.
 */
#ifndef REASONS_H
#define REASONS_H

#include <stddef.h>

#include "stubcore.h"

struct reason {
	const char *word; /* [a-z-]; never changed, for it is used in scripts */
	enum stub_park park;
	const char *says;
	const char *advice;
};

#define REASONS 15
extern const struct reason reasons[REASONS];

/* That of a parked entry. Never NULL: what is not known is "other-error" or
 * "other-conflict". Index into reasons[]. */
size_t reason_of(const struct stub_journal_entry *e);

#endif
