/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "jobs/latency.h"

#include <stdatomic.h>

const unsigned int latency_steps_ms[LATENCY_STEPS] = { 1,   2,	  5,	10,   20,   50,	   100,	 200,
						       500, 1000, 2000, 5000, 10000, 30000, 60000 };

static struct {
	atomic_uint_fast64_t count[LATENCY_STEPS + 1], sum_ms;
} kept[LATENCY_KINDS];

static const int kind_of[] = {
	[STUB_ASK_LOOKUP] = LATENCY_NAMES, [STUB_ASK_LIST] = LATENCY_NAMES,
	[STUB_ASK_LEAVE] = LATENCY_NAMES,  [STUB_ASK_ATTR] = LATENCY_ATTRIBUTES,
	[STUB_ASK_DATA] = LATENCY_DATA,	   [STUB_ASK_PASS] = LATENCY_DATA,
	[STUB_ASK_ROOM] = LATENCY_DATA,	   [STUB_ASK_FILL] = -1,
};

void latency_note(enum stub_ask_kind kind, uint64_t ms)
{
	unsigned int step = 0;
	int k = (size_t)kind < sizeof(kind_of) / sizeof(kind_of[0]) ? kind_of[kind] : -1;

	if (k < 0)
		return;
	while (step < LATENCY_STEPS && ms > latency_steps_ms[step])
		step++;
	atomic_fetch_add_explicit(&kept[k].count[step], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&kept[k].sum_ms, ms, memory_order_relaxed);
}

void latency_get(enum latency_kind kind, struct latency *out)
{
	for (unsigned int i = 0; i <= LATENCY_STEPS; i++)
		out->count[i] = atomic_load(&kept[kind].count[i]);
	out->sum_ms = atomic_load(&kept[kind].sum_ms);
}

const char *latency_name(enum latency_kind kind)
{
	static const char *const names[] = { "names", "attributes", "data" };

	return names[kind];
}
