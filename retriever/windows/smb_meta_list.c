// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_meta_list.c - the lists of what is to be stored of an object, and of what is lost. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows/smb_meta_internal.h"

bool smb_meta_grow(void **list, size_t n, size_t size)
{
	void *more;

	if (n & (n - 1)) /* room is a power of two */
		return true;
	more = reallocarray(*list, n ? 2 * n : 1, size);
	if (more)
		*list = more;
	return more;
}

static int lose(struct smb_meta *out, enum smb_lost_why why, uint64_t size, const char *fmt,
		va_list ap)
{
	char *what;

	if (vasprintf(&what, fmt, ap) < 0)
		return -ENOMEM;
	if (!smb_meta_grow((void **)&out->lost, out->n_lost, sizeof(*out->lost))) {
		free(what);
		return -ENOMEM;
	}
	out->lost[out->n_lost++] = (struct smb_lost){ why, what, size };
	return 0;
}

int smb_meta_lose(struct smb_maker *m, enum smb_lost_why why, uint64_t size, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = lose(m->out, why, size, fmt, ap);
	va_end(ap);
	return r;
}

int smb_meta_add(struct smb_maker *m, const char *name, void *value, size_t len, const char *fmt,
		 ...)
{
	size_t cost = len + strlen(name) + SMB_ATTR_COST;
	struct smb_meta *out = m->out;
	va_list ap;
	char *copy;
	int r;

	if (len > m->value_max || cost > m->room) {
		va_start(ap, fmt);
		r = lose(out, SMB_LOST_SIZE, len, fmt, ap);
		va_end(ap);
		free(value);
		return r;
	}
	copy = strdup(name);
	if (!copy || !smb_meta_grow((void **)&out->x, out->n, sizeof(*out->x))) {
		free(copy);
		free(value);
		return -ENOMEM;
	}
	out->x[out->n++] = (struct smb_xattr){ copy, value, len };
	m->room -= cost;
	return 0;
}
