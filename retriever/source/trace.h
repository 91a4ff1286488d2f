/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * trace.h - lines at level debug, each with the name of the ask or job it is about.
 *
 *   "ask 3fa1c02b: ..."   the name that an asker gave its ask (stub_ask_id()), which stands
 *                         in its server's log too; or a job begun for that ask
 *   "own 0000001d: ..."   work that nobody asked for: what will be wanted next
 *   "-: ..."              for nothing in particular (postcopy-volume's calls)
 *
 * A thread that works for one says so in trace_of; the calls that it sends to the old server
 * take that along to the threads of their connections.  Off costs one memory read for each
 * line that is not made.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdatomic.h>

#include "stubcore.h"

/* Where the lines go: once, before there are threads.  Off until trace_set(). */
void trace_to(stub_log_fn fn, void *arg);
void trace_set(bool on);

extern atomic_bool trace_wanted;
static inline bool trace_on(void)
{
	return atomic_load_explicit(&trace_wanted, memory_order_relaxed);
}

extern __thread uint64_t trace_of; /* 0: nothing in particular */

/* A name for work that nobody asked for; those of asks are their ids. */
uint64_t trace_own(void);

#define TRACE_NAME 16
/* What stands before the colon. */
const char *trace_name(uint64_t id, char out[TRACE_NAME]);

void trace_line(uint64_t id, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define trace(id, ...)                                \
	do {                                          \
		if (trace_on())                       \
			trace_line(id, __VA_ARGS__);  \
	} while (0)

#endif
