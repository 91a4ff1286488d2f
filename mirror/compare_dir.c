/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * compare_dir.c - the names of a directory, by identity: what has the right place under its name is
 * right; all else is brought, or held aside (bring.h, aside.h).
 *
 * Names are added first, so that a file that was renamed here is never without one over there.
 * What a name that is refused stands for is parked, and the other names go on.  Where the mirror is full,
 * nothing new is made, but all else is done: it is by removals that there will be room.
 *
 * Of a name that somebody waits for nothing else is compared, so that it takes no longer in a larger directory; the
 * rest stays owed.  Nor is it looked for over there where what is to become of it can be tried at once: it is new, or gone.
 *
 * What the migration has not listed yet keeps all its names over there, and on the way back gets only such
 * that last here (mirror.h): no change of the directory is under way, and it was synced since they were seen.
 */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "aside.h"
#include "bring.h"
#include "desk.h"
#include "fills.h"

#define BATCH 64 /* new objects that are owed by one sync */
#define TRIES 8	 /* in a row, of what can be looked at again */

struct comparing {
	struct task *t;
	struct bring_to to;
	struct there there;
	struct stub_refused *refused; /* names that only the old server has; NULL: none */
	bool unlisted, placed, again, parked, full;
	bool newer; /* what has just changed here, is owed by that */
	bool unknown; /* what a name stands for over there: it may be aside */
	char path[4096];
	struct stub_owed owed[BATCH]; /* new objects, and their names */
	char name[BATCH][STUB_NAME_MAX + 1];
	unsigned int n;
	struct stub_handle late[BATCH]; /* names that may not last yet */
	char late_name[BATCH][STUB_NAME_MAX + 1];
	unsigned int late_n;
	const char *gone[AWAITED_NAMES]; /* of those that somebody waits for */
	unsigned int gone_n;
	bool looked; /* for those that somebody waits for, over there */
	int ends; /* a verdict that ends it */
};

/* ---- what fails ---- */

static void park(struct comparing *c, const char *name, int error)
{
	char path[4096 + STUB_NAME_MAX + 2];

	snprintf(path, sizeof(path), "%s%s%s", strcmp(c->path, ".") ? c->path : "",
		 strcmp(c->path, ".") && c->path[0] ? "/" : "", name);
	desk_park(c->t->m->desk, &c->t->o.h, path, "name", error);
	c->parked = true;
}

static int tell(struct comparing *c, const char *name, const char *what)
{
	c->t->look->found(c->t->look->arg, name, what);
	return 0;
}

/* A verdict. */
static int cannot_look(const struct comparing *c, int error)
{
	return mirror_verdict(c->t->m, error == -ENOTDIR ? -ESTALE : error);
}

/* One name has failed: 0, go on with the others; else that ends it. */
static int fail(struct comparing *c, const char *name, int error)
{
	int v = mirror_verdict(c->t->m, error);

	if (c->t->look && v < 0)
		return tell(c, name, strerror(-v));
	if (v == AGAIN || v == -EEXIST || v == -ENOENT || v == -ENOTEMPTY) {
		c->again = true;
		/* it is always so: two names of which the mirror makes one, for instance */
		if (c->t->tries >= TRIES)
			park(c, name, error);
		return 0;
	}
	if (v < 0) {
		park(c, name, v);
		return 0;
	}
	if (v == FULL) {
		c->full = true;
		return 0;
	}
	c->ends = v;
	return 1;
}

/* It may be aside. */
static int want_one(struct task *t, const struct here_object *o)
{
	struct stub_origin place;
	int r = stub_place_get(t->m->volume, o->st.st_ino, &o->h, &place);

	if (r == 0)
		aside_want(t->m->aside, &place);
	return r == -ENOENT ? 0 : r; /* nobody knows it over there */
}

static void want(struct comparing *c, const struct here_object *o)
{
	c->unknown = want_one(c->t, o) < 0 || c->unknown;
}

/* Another object has that name by now, or none: it is owed by that. */
static int changed(struct comparing *c, const struct here_object *o)
{
	c->newer = true;
	if (o)
		want(c, o);
	return 0;
}

/* ---- new objects ---- */

static int set_aside(struct comparing *c, struct there_name *n)
{
	n->done = true;
	return aside_take(c->t->m->aside, &c->t->place, n->name);
}

/* The names that somebody waits for. */
static int look_there(struct comparing *c)
{
	c->looked = true;
	return there_look(c->t->m, &c->t->place, c->t->name, c->t->names, &c->there);
}

/* @name, which was not looked for, is another object's over there. */
static int make_in_its_stead(struct comparing *c, const char *name, const struct here_object *o)
{
	int r = look_there(c);
	struct there_name *n = r == 0 ? there_find(&c->there, name) : NULL;

	if (n)
		r = set_aside(c, n);
	return r == 0 ? bring_new(&c->to, name, o) : r;
}

static int make_one(struct comparing *c, unsigned int i)
{
	struct here_object o;
	int r = here_open(c->t->m, c->t->fd, c->name[i], &o);

	if (r < 0)
		return fail(c, c->name[i], r);
	if (r == 1 || !stub_handle_equal(&o.h, &c->owed[i].h)) {
		changed(c, r == 0 ? &o : NULL);
		if (r == 0)
			here_close(&o);
		return 0;
	}
	r = bring_new(&c->to, c->name[i], &o);
	if (r == -EEXIST && c->t->names && !c->looked && !c->unlisted)
		r = make_in_its_stead(c, c->name[i], &o);
	here_close(&o);
	if (r < 0)
		return fail(c, c->name[i], r);
	c->placed = true;
	desk_wake(c->t->m->desk, &c->owed[i].h);
	if (c->t->made && c->t->made->n < MADE_MAX)
		c->t->made->o[c->t->made->n++] = c->owed[i];
	return 0;
}

static int flush(struct comparing *c)
{
	unsigned int n = c->n;
	int r;

	c->n = 0;
	if (!n || c->full)
		return 0;
	r = mirror_owe(c->t->m, &c->t->o.h, c->owed, n);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < n && r == 0 && !c->full; i++)
		r = make_one(c, i);
	return r;
}

static int put_off(struct comparing *c, const char *name, const struct here_object *o)
{
	uint32_t file = S_ISREG(o->st.st_mode) ? STUB_OWED_DATA | STUB_OWED_ATTRS : STUB_OWED_ATTRS;

	c->owed[c->n] = (struct stub_owed){
		.h = o->h,
		.what = S_ISDIR(o->st.st_mode) ? STUB_OWED_NAMES | STUB_OWED_ATTRS : file,
	};
	snprintf(c->name[c->n++], sizeof(c->name[0]), "%s", name);
	return c->n == BATCH ? flush(c) : 0;
}

/* ---- names here ---- */

/* False: that ends it. */
static bool look_first(struct comparing *c)
{
	int r = look_there(c);

	if (r < 0)
		c->ends = cannot_look(c, r);
	return r == 0;
}

/* Is it known over there, or perhaps? */
static bool is_placed(const struct comparing *c, const struct here_object *o)
{
	struct stub_origin place;

	return stub_place_get(c->t->m->volume, o->st.st_ino, &o->h, &place) != -ENOENT;
}

static bool is_place_of(struct comparing *c, const struct here_object *o,
			const struct there_name *n)
{
	struct stub_origin place, is;

	if (!n->told || n->type != (o->st.st_mode & S_IFMT) ||
	    stub_place_get(c->t->m->volume, o->st.st_ino, &o->h, &place) < 0)
		return false;
	there_origin(n, &is);
	return mirror_same(c->t->m, &place, &is);
}

/* @name is free over there, or another object's. */
static int bring(struct comparing *c, const char *name, const struct here_object *o,
		 struct there_name *other)
{
	int r = other ? set_aside(c, other) : 0;

	if (r == 0)
		r = bring_known(&c->to, name, o);
	if (r == 1)
		return put_off(c, name, o);
	if (r == 0)
		return 0;
	want(c, o);
	return fail(c, name, r);
}

static int bring_one_late(struct comparing *c, unsigned int i, bool flies)
{
	struct here_object o;
	int r = here_open(c->t->m, c->t->fd, c->late_name[i], &o);

	if (r != 0)
		return r < 0 ? fail(c, c->late_name[i], r) : changed(c, NULL);
	c->again = c->again || flies;
	r = flies || !stub_handle_equal(&o.h, &c->late[i]) ? changed(c, &o) :
							     bring(c, c->late_name[i], &o, NULL);
	here_close(&o);
	return r;
}

static int bring_late(struct comparing *c)
{
	unsigned int n = c->late_n;
	bool flies;
	int r = 0;

	c->late_n = 0;
	if (!n)
		return 0;
	flies = stub_ledger_flies(c->t->m->ledger, &c->t->o.h);
	if (!flies && fsync(c->t->fd) < 0)
		return -errno;
	for (unsigned int i = 0; i < n && r == 0; i++)
		r = bring_one_late(c, i, flies);
	return r;
}

static int put_late(struct comparing *c, const char *name, const struct here_object *o)
{
	c->late[c->late_n] = o->h;
	snprintf(c->late_name[c->late_n++], sizeof(c->late_name[0]), "%s", name);
	return c->late_n == BATCH ? bring_late(c) : 0;
}

/* It is not right over there. */
static int look_at(struct comparing *c, const char *name, struct there_name *n)
{
	if (n)
		n->done = true;
	return c->unlisted ? 0 : tell(c, name, n ? "is another object over there" : "is missing over there");
}

static int compare_name(struct comparing *c, const char *name, const struct here_object *o)
{
	struct there_name *n;

	if (c->t->names && !c->looked && (c->unlisted || is_placed(c, o)) && !look_first(c))
		return 1;
	n = there_find(&c->there, name);
	if (n && n->done)
		n = NULL;
	if (n && is_place_of(c, o, n)) {
		n->done = true;
		return 0;
	}
	if (c->t->look)
		return look_at(c, name, n);
	if (n && c->unlisted) { /* nothing is taken from it before it is listed */
		c->again = true;
		return changed(c, o);
	}
	if (c->unlisted && c->t->m->conf.kind == STUB_MIRROR_WAY_BACK)
		return put_late(c, name, o);
	return bring(c, name, o, n);
}

static int on_name(void *arg, const char *name, uint64_t ino)
{
	struct comparing *c = arg;
	struct here_object o;
	int r;

	if (atomic_load(&c->t->m->stopping))
		return -ECANCELED;
	r = here_open(c->t->m, c->t->fd, name, &o);
	if (r < 0)
		return r;
	if (r == 1)
		return 0;
	r = compare_name(c, name, &o);
	here_close(&o);
	return r;
}

/* ---- names there ---- */

/* A name that only the old server has, since the new file system refuses it, is not gone. */
static bool stays(const struct comparing *c, const char *name)
{
	return (c->t->root && aside_is(c->t->m->aside, name)) ||
	       (c->refused && stub_refused_contains(c->refused, name, strlen(name)));
}

static int clear(struct comparing *c)
{
	int r = 0;

	for (size_t i = 0; i < c->there.n && r == 0; i++) {
		struct there_name *n = c->there.by[i];

		if (n->done || stays(c, n->name))
			continue;
		r = c->t->look ? tell(c, n->name, "is over there only") : set_aside(c, n);
		if (r < 0)
			r = fail(c, n->name, r);
	}
	return r;
}

/* Those that somebody waits for, if none was looked for. */
static int clear_unseen(struct comparing *c)
{
	int r = 0;

	for (unsigned int i = 0; i < c->gone_n && r == 0; i++) {
		if (stays(c, c->gone[i]))
			continue;
		r = aside_take(c->t->m->aside, &c->t->place, c->gone[i]);
		if (r < 0)
			r = fail(c, c->gone[i], r);
	}
	return r;
}

/* ---- the directory ---- */

static int load_refused(struct comparing *c)
{
	if (!(c->t->view.needs & STUB_NEEDS_REFUSED))
		return 0;
	c->refused = calloc(1, sizeof(*c->refused));
	return c->refused ? stub_refused_load(c->t->m->volume, &c->t->o.h, c->refused) : -ENOMEM;
}

static int list_there(struct comparing *c)
{
	const struct task *t = c->t;

	return t->names ? there_begin(&c->there) : there_list(t->m, &t->place, &c->there);
}

/* One that somebody waits for. */
static int on_awaited(struct comparing *c, const char *name)
{
	struct here_object o;
	int r = here_open(c->t->m, c->t->fd, name, &o);

	if (r == 1)
		c->gone[c->gone_n++] = name;
	if (r != 0)
		return r < 0 ? r : 0;
	r = compare_name(c, name, &o);
	here_close(&o);
	return r;
}

static int each_here(struct comparing *c)
{
	const struct task *t = c->t;
	int r = 0;

	if (!t->names)
		return here_each(t->m, t->fd, on_name, c);
	for (unsigned int i = 0; i < t->names && r == 0; i++)
		r = on_awaited(c, t->name[i]);
	return r;
}

static int compare_all(struct comparing *c)
{
	int r = list_there(c);

	if (r < 0)
		return cannot_look(c, r);
	c->t->what = "this side's names";
	r = load_refused(c);
	if (r == 0)
		r = each_here(c);
	if (r == 0)
		r = bring_late(c);
	if (r == 0)
		r = flush(c);
	c->t->what = "names";
	if (r == 0 && !c->unlisted)
		r = c->t->names && !c->looked ? clear_unseen(c) : clear(c);
	return c->ends ? c->ends : r;
}

static int compare_names(struct task *t)
{
	struct comparing *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return AGAIN;
	c->t = t;
	c->to = (struct bring_to){ t, &c->there };
	c->unlisted = t->view.needs & STUB_NEEDS_ENTRIES;
	task_path(t, c->path, sizeof(c->path));
	r = compare_all(c);
	if (c->placed)
		atomic_store(&t->m->made, true);
	t->names_done = r == 0 && !c->unknown && !t->names;
	if (r == 0)
		r = c->full ? FULL : c->parked ? REFUSED : c->again || c->newer ? AGAIN : EQUAL;
	t->newer = r == AGAIN && !c->again;
	there_free(&c->there);
	free(c->refused);
	free(c);
	return r;
}

static int on_wanted(void *arg, const char *name, uint64_t ino)
{
	struct task *t = arg;
	struct here_object o;
	int r = here_open(t->m, t->fd, name, &o);

	if (r != 0)
		return r < 0 ? r : 0;
	r = want_one(t, &o);
	here_close(&o);
	return r;
}

int dir_want(struct task *t)
{
	return here_each(t->m, t->fd, on_wanted, t);
}

int compare_dir(struct task *t)
{
	int names = EQUAL, r = task_open(t);

	if (r != EQUAL || t->fd < 0)
		return r;
	t->what = "names";
	if (t->o.what & STUB_OWED_NAMES)
		names = compare_names(t);
	if (names != EQUAL && names != AGAIN && names != REFUSED)
		return names;
	if (t->view.needs & (STUB_NEEDS_ATTRS | STUB_NEEDS_ENTRIES)) {
		if (!t->look)
			fills_want(t->m->fills, &t->o.h);
		return names == EQUAL ? WAITS : names;
	}
	r = t->only_times ? set_times(t) : compare_attr(t);
	return r == EQUAL ? names : r;
}
