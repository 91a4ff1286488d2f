/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include <stdio.h>

#include "internal.h"

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
