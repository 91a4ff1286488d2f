/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "marks.h"

#include <errno.h>
#include <stdlib.h>

#include "bytes.h"

#define FIRST 1024

struct mark mark_of(const void *bytes, size_t len, int32_t number)
{
	struct mark m = { stub_fnv(STUB_FNV, bytes, len), stub_fnv(~STUB_FNV, bytes, len) };

	m.a = stub_fnv(m.a, &number, sizeof(number));
	m.b = stub_fnv(m.b, &number, sizeof(number)) | 1;
	return m;
}

struct mark mark_of_handle(const struct stub_handle *h)
{
	return mark_of(h->bytes, h->len, h->type);
}

static size_t place_of(const struct marks *s, struct mark m)
{
	size_t i = m.a & (s->room - 1);

	while (s->at[i].b && (s->at[i].a != m.a || s->at[i].b != m.b))
		i = (i + 1) & (s->room - 1);
	return i;
}

static int grow(struct marks *s)
{
	struct marks wider = { .n = s->n, .room = s->room ? s->room * 2 : FIRST };

	wider.at = calloc(wider.room, sizeof(*wider.at));
	if (!wider.at)
		return -ENOMEM;
	for (size_t i = 0; i < s->room; i++)
		if (s->at[i].b)
			wider.at[place_of(&wider, s->at[i])] = s->at[i];
	free(s->at);
	*s = wider;
	return 0;
}

int marks_add(struct marks *s, struct mark m)
{
	size_t i;

	if (s->n >= s->room / 2 && grow(s) < 0)
		return -ENOMEM;
	i = place_of(s, m);
	s->n += !s->at[i].b;
	s->at[i] = m;
	return 0;
}

bool marks_has(const struct marks *s, struct mark m)
{
	return s->room && s->at[place_of(s, m)].b;
}

/* What stands behind it in its row may have to move up. */
void marks_drop(struct marks *s, struct mark m)
{
	size_t i, j;

	if (!marks_has(s, m))
		return;
	i = place_of(s, m);
	s->at[i] = (struct mark){ 0, 0 };
	s->n--;
	for (j = (i + 1) & (s->room - 1); s->at[j].b; j = (j + 1) & (s->room - 1)) {
		m = s->at[j];
		s->at[j] = (struct mark){ 0, 0 };
		s->at[place_of(s, m)] = m;
	}
}

void marks_clear(struct marks *s)
{
	free(s->at);
	*s = (struct marks){ 0 };
}
