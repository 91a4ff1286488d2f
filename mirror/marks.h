/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * marks.h - a set of things by 128-bit sums of their bytes: two that have the same do not occur.
 * Whoever has it locks it.
 */
#ifndef MIRROR_MARKS_H
#define MIRROR_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stubcore.h"

struct mark {
	uint64_t a, b; /* b is never 0 */
};

struct marks { /* all 0: empty */
	struct mark *at; /* open addressing; b 0 is free */
	size_t n, room;
};

/* Of @len bytes, and a number that belongs to them. */
struct mark mark_of(const void *bytes, size_t len, int32_t number);
struct mark mark_of_handle(const struct stub_handle *h);
int marks_add(struct marks *s, struct mark m); /* also if it is there; -ENOMEM */
bool marks_has(const struct marks *s, struct mark m);
void marks_drop(struct marks *s, struct mark m);
void marks_clear(struct marks *s);

#endif
