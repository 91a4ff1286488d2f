// SPDX-License-Identifier: GPL-3.0-or-later
#include "source/histogram.h"

void histogram_note(struct histogram *h, const struct histogram_steps *steps, uint64_t us)
{
	unsigned int i = 0;

	while (i < steps->n && us > steps->us[i])
		i++;
	atomic_fetch_add_explicit(&h->count[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum_us, us, memory_order_relaxed);
}
