/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* tell.c - asks and their results in words, for lines at level debug. */
#include <stdio.h>

#include "internal.h"

static const char *const kinds[] = { "?", "LOOKUP", "LIST", "ATTR", "DATA", "FILL", "PASS",
				     "ROOM", "LEAVE" };

/* Append; what does not fit is cut. */
static void __attribute__((format(printf, 4, 5)))
add(char *out, size_t size, size_t *at, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out + *at, size - *at, fmt, ap);
	va_end(ap);
	*at = n < 0 || (size_t)n >= size - *at ? size - 1 : *at + (size_t)n;
}

STUB_PUBLIC void stub_ask_text(const struct stub_ask *a, char *out, size_t size)
{
	char name[STUB_NAME_MAX * 4 + 6];
	size_t at = 0;

	add(out, size, &at, "%s %d:", kinds[(size_t)a->kind < ARRAY_LEN(kinds) ? a->kind : 0],
	    a->h.type);
	for (unsigned int i = 0; i < a->h.len && i < STUB_HANDLE_MAX; i++)
		add(out, size, &at, "%02x", a->h.bytes[i]);
	if (a->kind == STUB_ASK_LOOKUP) {
		stub_printable(a->name, a->name_len, name, sizeof(name));
		add(out, size, &at, " \"%s\"", name);
	}
	if (a->kind == STUB_ASK_DATA || a->kind == STUB_ASK_PASS)
		add(out, size, &at, " %llu+%llu", (unsigned long long)a->offset,
		    (unsigned long long)a->length);
	if (a->who[0])
		add(out, size, &at, " for %s", a->who);
}

STUB_PUBLIC const char *stub_result_text(int result)
{
	const char *name = result < 0 ? strerrorname_np(-result) : "done";

	return name ? name : "?";
}
