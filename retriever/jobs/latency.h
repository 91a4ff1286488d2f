/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * latency.h - how long clients' asks took, from their receipt to the answer: what somebody waits
 * who is the first to touch something. The crawler's asks do not count. Of the whole process.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include "stubcore.h"

enum latency_kind { LATENCY_NAMES, LATENCY_ATTRIBUTES, LATENCY_DATA, LATENCY_KINDS };

#define LATENCY_STEPS 15 /* and what took longer than the last */
extern const unsigned int latency_steps_ms[LATENCY_STEPS];

struct latency {
	uint64_t count[LATENCY_STEPS + 1]; /* took at most as long as that step, and longer than
					    * the one before */
	uint64_t sum_ms;
};

void latency_note(enum stub_ask_kind kind, uint64_t ms);
void latency_get(enum latency_kind kind, struct latency *out);
const char *latency_name(enum latency_kind kind);

#endif
