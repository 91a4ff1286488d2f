// SPDX-License-Identifier: GPL-3.0-or-later
/* meta.c - putting a struct source_meta together, for backends that learn of it piece by piece. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/source_ops.h"

static char *pack(struct stub_xattr *to, char *p, const struct stub_xattr *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		to[i].name = p;
		p = stpcpy(p, from[i].name) + 1;
		to[i].len = from[i].len;
		to[i].value = p;
		if (from[i].len)
			memcpy(p, from[i].value, from[i].len);
		p += from[i].len;
	}
	return p;
}

static size_t text_of(const struct stub_xattr *x, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += strlen(x[i].name) + 1 + x[i].len;
	return size;
}

int source_meta_append(struct source_meta *m, const struct stub_xattr *x, size_t n)
{
	size_t all = m->n + n, text = text_of(m->xattrs, m->n) + text_of(x, n);
	struct stub_xattr *to;

	if (!n)
		return 0;
	to = malloc(all * sizeof(*to) + text);
	if (!to)
		return -ENOMEM;
	pack(to + m->n, pack(to, (char *)(to + all), m->xattrs, m->n), x, n);
	free(m->memory);
	m->memory = to;
	m->xattrs = to;
	m->n = all;
	return 0;
}

int source_meta_lose(struct source_meta *m, const char *line)
{
	size_t before = m->lost ? strlen(m->lost) : 0, len = strlen(line);
	char *text = malloc(before + len + 2);

	if (!text)
		return -ENOMEM;
	if (before)
		memcpy(text, m->lost, before);
	memcpy(text + before, line, len);
	memcpy(text + before + len, "\n", 2);
	free(m->lost_memory);
	m->lost_memory = text;
	m->lost = text;
	return 0;
}
