/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * latency.h - how long clients' asks took, from their receipt to the answer: what somebody waits
 * who is the first to touch something. The crawler's asks do not count. Of the whole process.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include "source/histogram.h"
#include "stubcore.h"

enum latency_kind { LATENCY_NAMES, LATENCY_ATTRIBUTES, LATENCY_DATA, LATENCY_KINDS };

extern struct histogram latency_times[LATENCY_KINDS];
extern const struct histogram_steps latency_steps; /* whole milliseconds */

void latency_note(enum stub_ask_kind kind, uint64_t ms);
const char *latency_name(enum latency_kind kind);

#endif
