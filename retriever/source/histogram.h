/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * histogram.h - how often something took how long.  No locks: sums that are read while they grow
 * may be a moment apart.
 */
#ifndef SOURCE_HISTOGRAM_H
#define SOURCE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_MAX 18 /* steps */

struct histogram { /* zero: empty */
	atomic_uint_fast64_t count[HISTOGRAM_MAX + 1], sum_us;
};

struct histogram_steps {
	unsigned int n;
	uint32_t us[HISTOGRAM_MAX]; /* ascending */
};

/* count[i]: took at most steps->us[i], and longer than the step before; count[steps->n]: longer
 * than all. */
void histogram_note(struct histogram *h, const struct histogram_steps *steps, uint64_t us);

#endif
