/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include <stdio.h>

#include "internal.h"

#define SELDOM_MS 60000

void stub_log(const struct stub_log *l, enum stub_log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (!l || !l->fn)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	l->fn(l->arg, level, line);
}

void stub_log_seldom(struct stub_log_rate *rate, const struct stub_log *l,
		     enum stub_log_level level, const char *fmt, ...)
{
	uint64_t now = stub_now_ms();
	char line[1024];
	va_list ap;

	if (rate->said_ms && now - rate->said_ms < SELDOM_MS) {
		rate->more++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (rate->more)
		stub_log(l, level, "%s (and %u more in %u s)", line, rate->more,
			 (unsigned int)((now - rate->said_ms) / 1000));
	else
		stub_log(l, level, "%s", line);
	*rate = (struct stub_log_rate){ .said_ms = now };
}
