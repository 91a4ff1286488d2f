/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "jobs/latency.h"

struct histogram latency_times[LATENCY_KINDS];

const struct histogram_steps latency_steps = {
	.n = 15,
	.us = { 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000,
		5000000, 10000000, 30000000, 60000000 },
};

static const int kind_of[] = {
	[STUB_ASK_LOOKUP] = LATENCY_NAMES, [STUB_ASK_LIST] = LATENCY_NAMES,
	[STUB_ASK_LEAVE] = LATENCY_NAMES,  [STUB_ASK_ATTR] = LATENCY_ATTRIBUTES,
	[STUB_ASK_DATA] = LATENCY_DATA,	   [STUB_ASK_PASS] = LATENCY_DATA,
	[STUB_ASK_ROOM] = LATENCY_DATA,	   [STUB_ASK_FILL] = -1,
};

void latency_note(enum stub_ask_kind kind, uint64_t ms)
{
	int k = (size_t)kind < sizeof(kind_of) / sizeof(kind_of[0]) ? kind_of[kind] : -1;

	if (k >= 0)
		histogram_note(&latency_times[k], &latency_steps, ms * 1000);
}

const char *latency_name(enum latency_kind kind)
{
	static const char *const names[] = { "names", "attributes", "data" };

	return names[kind];
}
