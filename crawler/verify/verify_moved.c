/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_moved.c - clients move and remove names.  What is missing in one place, and what has
 * turned up in another, are brought together by the file id that the notes have of the source;
 * then both are compared as if nobody had moved them.
 *
 * What was removed as a whole is looked into at the source only as long as there is something
 * on the volume whose counterpart is not found.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_inside.h"

static int by_fileid(const void *a, const void *b)
{
	uint64_t x = ((const struct stray *)a)->fileid, y = ((const struct stray *)b)->fileid;

	return x < y ? -1 : x > y;
}

static struct stray *find(struct run *k, uint64_t fileid)
{
	size_t from = 0, to = k->n_strays;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (k->strays[mid].fileid < fileid)
			from = mid + 1;
		else
			to = mid;
	}
	for (; from < k->n_strays && k->strays[from].fileid == fileid; from++)
		if (!k->strays[from].taken)
			return &k->strays[from];
	return NULL;
}

static int go_below(struct run *k, const struct lost *l, const struct here *h, const char *now)
{
	struct stub_origin o = { .len = l->item->origin_len };
	char *path = path_join(l->dir->path, item_name(l->item));
	struct dir *d;

	memcpy(o.bytes, l->item->bytes, o.len);
	d = path ? dir_create(h, &o, &l->item->attr, path) : NULL;
	free(path);
	if (d && now && !(d->at = strdup(now))) {
		dir_put(k, d);
		d = NULL;
	}
	return d ? task_push(k, d, NULL) : -ENOMEM;
}

int verify_moved(struct run *k, struct dir *d, struct item *i, const struct stub_handle *at,
		 const char *now)
{
	struct here h;
	int r = here_look(k, -1, NULL, at, &h);

	if (r == 0) {
		r = verify_object(k, d, i, &h, now);
		if (r == 0 && S_ISDIR(h.st.st_mode) && S_ISDIR(i->attr.mode) && !h.stub)
			r = go_below(k, &(struct lost){ d, i }, &h, now);
		here_close(&h);
	} else if (r == -ESTALE) { /* removed meanwhile */
		run_count(k, &k->v->n.gone, 1);
		r = 0;
	}
	free(i);
	return r;
}

/* 1: they belong together, and will be compared. */
static int bring(struct run *k, struct lost *l)
{
	struct stray *s = l->item->error || !l->item->attr.fileid ? NULL :
								    find(k, l->item->attr.fileid);
	struct item *i = l->item;
	int r;

	if (!s)
		return 0;
	s->taken = true;
	run_count(k, &k->v->n.moved, 1);
	l->item = NULL;
	i->told = 0;
	r = task_push_moved(k, dir_get(k, l->dir), i, &s->h, s->path);
	return r < 0 ? r : 1;
}

static bool strays_left(const struct run *k)
{
	for (size_t n = 0; n < k->n_strays; n++)
		if (!k->strays[n].taken)
			return true;
	return false;
}

int moved_turn(struct run *k)
{
	size_t n = k->n_lost;
	bool more = false;
	int r = 0;

	if (k->n_strays)
		qsort(k->strays, k->n_strays, sizeof(*k->strays), by_fileid);
	for (size_t at = 0; r >= 0 && at < n; at++) {
		if (!k->lost[at].item)
			continue;
		r = bring(k, &k->lost[at]);
		if (r > 0)
			lost_forget(k, &k->lost[at]);
		more = more || r > 0;
	}
	if (r >= 0 && strays_left(k))
		for (size_t at = 0; r >= 0 && at < n; at++) {
			struct item *i = k->lost[at].item;

			if (!i || i->error || i->told || !S_ISDIR(i->attr.mode))
				continue;
			i->told = VERIFY_MISSING; /* looked into */
			r = go_below(k, &k->lost[at], NULL, NULL);
			more = true;
		}
	return r < 0 ? r : more;
}

static void tell_stray(struct run *k, const struct stray *s)
{
	struct verify_found f = { .class = VERIFY_UNCLEAR, .what = VERIFY_EXTRA, .path = s->path,
				  .why = "it was migrated, and the source does not have it any more" };

	if (s->linked) /* a name that clients have given it */
		run_count(k, &k->v->n.made, 1);
	else if (s->now) /* it may have been compared where it was */
		run_count(k, &k->v->n.moved, 1);
	else
		run_tell(k, &f);
}

static int tell_lost(struct run *k, const struct lost *l)
{
	struct verify_found f = { .class = VERIFY_UNCLEAR, .what = VERIFY_MISSING,
				  .why = "nothing tells whether clients have removed it" };
	char *path;

	if (l->dir->trust != TRUST_NONE || !l->dir->here) {
		run_count(k, &k->v->n.gone, 1);
		return 0;
	}
	f.path = path = path_join(l->dir->path, item_name(l->item));
	if (path)
		run_tell(k, &f);
	free(path);
	return path ? 0 : -ENOMEM;
}

int moved_tell(struct run *k)
{
	int r = 0;

	for (size_t n = 0; r == 0 && n < k->n_strays; n++)
		if (!k->strays[n].taken)
			tell_stray(k, &k->strays[n]);
	for (size_t n = 0; r == 0 && n < k->n_lost; n++)
		if (k->lost[n].item)
			r = tell_lost(k, &k->lost[n]);
	return r;
}
