/* SPDX-License-Identifier: GPL-3.0-or-later */
/* trace.c - lines at level debug, each with the name of the ask or job it is about. */
#include <stdarg.h>
#include <stdio.h>

#include "source/trace.h"

#define OWN (1ull << 32)

/* Constant once there are threads. */
static struct {
	stub_log_fn fn;
	void *arg;
} to;

static atomic_uint own;
atomic_bool trace_wanted;
__thread uint64_t trace_of;

void trace_to(stub_log_fn fn, void *arg)
{
	to.fn = fn;
	to.arg = arg;
}

void trace_set(bool on)
{
	atomic_store(&trace_wanted, on);
}

uint64_t trace_own(void)
{
	return OWN | atomic_fetch_add(&own, 1);
}

const char *trace_name(uint64_t id, char out[TRACE_NAME])
{
	if (id)
		snprintf(out, TRACE_NAME, "%s %08x", id & OWN ? "own" : "ask", (uint32_t)id);
	else
		snprintf(out, TRACE_NAME, "-");
	return out;
}

void trace_line(uint64_t id, const char *fmt, ...)
{
	char text[STUB_LOG_MAX - TRACE_NAME], name[TRACE_NAME];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	stub_log_to(to.fn, to.arg, STUB_LOG_DEBUG, "%s: %s", trace_name(id, name), text);
}
