// SPDX-License-Identifier: GPL-3.0-or-later
#include "source/called.h"
#include "stubcore.h"

struct histogram called_times[CALLED_KINDS];

const struct histogram_steps called_steps = {
	.n = 18,
	.us = { 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000,
		1000000, 2000000, 5000000, 10000000, 30000000, 60000000 },
};

void called(enum called kind, uint64_t since_us)
{
	histogram_note(&called_times[kind], &called_steps, stub_now_us() - since_us);
}

const char *called_name(enum called kind)
{
	static const char *const names[] = { "lookup", "listing", "attributes", "read", "other" };

	return names[kind];
}
