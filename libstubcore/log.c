/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include <stdio.h>

#include "internal.h"

#define SELDOM_MS 60000

static void say(stub_log_fn fn, void *arg, enum stub_log_level level, const char *fmt, va_list ap)
{
	char line[STUB_LOG_MAX + 1];

	if (!fn)
		return;
	vsnprintf(line, sizeof(line), fmt, ap);
	fn(arg, level, line);
}

STUB_PUBLIC void stub_log_to(stub_log_fn fn, void *arg, enum stub_log_level level,
			     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fn, arg, level, fmt, ap);
	va_end(ap);
}

void stub_log(const struct stub_log *l, enum stub_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(l ? l->fn : NULL, l ? l->arg : NULL, level, fmt, ap);
	va_end(ap);
}

STUB_PUBLIC void stub_printable(const char *name, size_t len, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 5 < size; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c < 0x20 || c > 0x7e || c == '\\' || c == '"')
			n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
		else
			out[n++] = (char)c;
	}
	out[n] = '\0';
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
