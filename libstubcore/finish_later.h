/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef STUBCORE_FINISH_LATER_H
#define STUBCORE_FINISH_LATER_H

#include "internal.h"

/* What clients asked for lately.  Zero it; all calls under the finisher's lock. */
struct stub_later {
	struct later_entry **bucket; /* NULL as long as nothing was touched */
	struct later_entry *oldest, *newest; /* by their last touch */
	uint64_t delay_ms; /* 0: nothing is kept */
	size_t n, kept;
};

/* A client asks for @h now.  true: too many are known, see stub_later_due(). */
bool stub_later_touch(struct stub_later *l, const struct stub_handle *h);
/* Is @h to be finished later?  Then it is kept, and comes out of stub_later_due() with @how. */
bool stub_later_keep(struct stub_later *l, const struct stub_handle *h, int how);
/* The time of the last ask for @h, 0: it is not known, or due and not kept. */
uint64_t stub_later_touched(const struct stub_later *l, const struct stub_handle *h);
/* Keep a directory that came out of stub_later_due() once more: as if it had been asked for at
 * @touched_ms, but at least for a part of the delay from now.  false: there is no place. */
bool stub_later_again(struct stub_later *l, const struct stub_handle *h, int how,
		      uint64_t touched_ms);
/* Take one out that was kept and is due, or with @all any that was kept: true, *h and *how. */
bool stub_later_due(struct stub_later *l, bool all, struct stub_handle *h, int *how);
/* When the next one may be due, 0: nothing is kept. */
uint64_t stub_later_next_ms(const struct stub_later *l);
void stub_later_finish(struct stub_later *l);

#endif
