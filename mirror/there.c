/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "there.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

#define ROOM 256

static size_t sum(const struct there *t, const char *name, size_t len)
{
	return (size_t)(stub_fnv(STUB_FNV, name, len) & (t->sums - 1));
}

static void link_in(struct there *t, struct there_name *n)
{
	size_t i = sum(t, n->name, strlen(n->name));

	n->next = t->at[i];
	t->at[i] = n;
}

/* Twice as much room, and as many sums. */
static int grow(struct there *t)
{
	size_t room = t->room ? t->room * 2 : ROOM;
	struct there_name **by = reallocarray(t->by, room, sizeof(*by));
	struct there_name **at = calloc(room, sizeof(*at));

	if (by)
		t->by = by;
	if (!by || !at) {
		free(at);
		return -ENOMEM;
	}
	free(t->at);
	t->at = at;
	t->room = t->sums = room;
	for (size_t i = 0; i < t->n; i++)
		link_in(t, t->by[i]);
	return 0;
}

static int add(struct there *t, const struct stub_entry *e)
{
	struct there_name *n;

	if (stub_name_check(e->name, e->name_len) < 0)
		return -EBADMSG;
	if (t->n == t->room && grow(t) < 0)
		return -ENOMEM;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->name = strndup(e->name, e->name_len);
	if (!n->name) {
		free(n);
		return -ENOMEM;
	}
	n->told = !e->error && e->origin_len && e->origin_len <= THERE_ORIGIN;
	if (n->told) {
		n->type = e->attr.mode & S_IFMT;
		n->len = (uint8_t)e->origin_len;
		memcpy(n->origin, e->origin, n->len);
	}
	t->by[t->n++] = n;
	link_in(t, n);
	return 0;
}

static int take(void *arg, const struct stub_entry *e, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add(arg, &e[i]);
	return r;
}

int there_begin(struct there *out)
{
	memset(out, 0, sizeof(*out));
	return grow(out);
}

int there_list(struct mirror *m, const struct stub_origin *dir, struct there *out)
{
	int r = there_begin(out);

	return r < 0 ? r : source_list(m->target, SOURCE_BACKGROUND, dir, NULL, take, out);
}

int there_look(struct mirror *m, const struct stub_origin *dir, const char *const *name, unsigned int n,
	       struct there *io)
{
	int r = 0;

	for (unsigned int i = 0; i < n && r == 0; i++) {
		struct stub_origin is;
		struct stub_entry e = { .name = name[i], .name_len = strlen(name[i]), .origin = is.bytes };

		r = source_lookup(m->target, SOURCE_BACKGROUND, dir, NULL, e.name, e.name_len, &is, &e.attr);
		e.origin_len = is.len;
		r = r == 0 ? add(io, &e) : r == -ENOENT ? 0 : r;
	}
	return r;
}

void there_free(struct there *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->by[i]->name);
		free(t->by[i]);
	}
	free(t->by);
	free(t->at);
	memset(t, 0, sizeof(*t));
}

struct there_name *there_find(const struct there *t, const char *name)
{
	struct there_name *n = t->at[sum(t, name, strlen(name))];

	while (n && strcmp(n->name, name) != 0)
		n = n->next;
	return n;
}

void there_origin(const struct there_name *n, struct stub_origin *out)
{
	out->len = n->len;
	memcpy(out->bytes, n->origin, n->len);
}

struct there_name *there_inode(const struct mirror *m, const struct there *t,
			       const struct stub_origin *o)
{
	struct stub_origin is;

	for (size_t i = 0; i < t->n; i++) {
		if (!t->by[i]->told || t->by[i]->done)
			continue;
		there_origin(t->by[i], &is);
		if (mirror_same(m, &is, o))
			return t->by[i];
	}
	return NULL;
}
