/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "carry.h"

#include <errno.h>
#include <string.h>

#include "aside.h"
#include "desk.h"
#include "fills.h"
#include "rounds.h"
#include "walk.h"

#define HOT_MS	  1000
#define LATER_MS  1000
#define FULL_MS	  10000
#define PARKED_MS 60000

int compare_object(struct task *t)
{
	int r = task_look(t);

	if (r != EQUAL || t->fd < 0)
		return r;
	if (S_ISDIR(t->st.st_mode))
		return compare_dir(t);
	if (task_waits(t)) {
		if (!t->look)
			fills_want(t->m->fills, &t->o.h);
		return WAITS;
	}
	if (S_ISREG(t->st.st_mode))
		return compare_file(t);
	return compare_attr(t);
}

/* What is not known over there: a directory is made by its parent's comparison, which may be about to: it stays
 * owed until it is compared itself.  Of a file nobody knows the parent. */
static int unplaced(struct task *t)
{
	bool known;
	int r;

	if (t->root)
		return AWAY;
	if (!S_ISDIR(t->st.st_mode)) {
		walker_stray(t->m->walker, t->st.st_ino);
		return UNPLACED;
	}
	/* it may have to wait until that has gone which is aside, and belongs elsewhere */
	t->names_done = aside_count(t->m->aside, &known) && dir_want(t) == 0;
	r = task_owe_parent(t);
	return r < 0 ? r : UNMADE;
}

static int owed_no_more(struct carried *c, struct task *t)
{
	int e;

	if (!c->begun) /* it stands in a list that has not been taken over yet, or was struck meanwhile */
		return 1;
	t->o.gone = t->fd < 0;
	e = S_ISDIR(t->st.st_mode) && !t->o.gone ? mirror_keep_places(c->m) : 0;
	if (e == 0)
		e = stub_ledger_strike(c->m->ledger, &t->o);
	if (e < 0)
		mirror_log(c->m, STUB_LOG_ERROR, "the mirror's ledger: %s", strerror(-e));
	return e;
}

static void strike(struct carried *c, struct task *t)
{
	bool known, compared = t->fd >= 0;
	int e;

	if (compared && aside_count(c->m->aside, &known))
		aside_want(c->m->aside, &t->place);
	e = owed_no_more(c, t);
	if (e == 0 && compared)
		atomic_fetch_add(&c->m->objects, 1);
	rounds_right(c->m->rounds, e == 0 ? ROUNDS_STRUCK : t->begun, &t->o.h, true);
	desk_rest(c->m->desk, &t->o.h, DESK_HOT, HOT_MS, e == 0 || !c->begun);
}

static int put_back(struct carried *c, struct task *t, int v)
{
	struct mirror *m = c->m;
	static const struct {
		enum desk_why why;
		unsigned int ms;
	} how[] = {
		[EQUAL] = { DESK_HOT, HOT_MS }, /* but not all of it was compared */
		[AGAIN] = { DESK_LATER, LATER_MS },
		[WAITS] = { DESK_WAITS, LATER_MS },
		[UNPLACED] = { DESK_UNPLACED, LATER_MS },
		[UNMADE] = { DESK_UNMADE, LATER_MS },
		[AWAY] = { DESK_HOT, LATER_MS },
		[FULL] = { DESK_FULL, FULL_MS },
		[REFUSED] = { DESK_PARKED, PARKED_MS },
	};
	char path[4096];

	if (v < 0) {
		task_path(t, path, sizeof(path));
		desk_park(m->desk, &t->o.h, path, t->what ? t->what : "", v);
		v = REFUSED;
	}
	if (v == WAITS)
		atomic_fetch_add(&m->waits_now, 1);
	desk_rest(m->desk, &t->o.h, how[v].why, how[v].ms, !c->begun);
	return v;
}

/* Attributes are compared in any case; the rest that is owed, later. */
static void only_awaited(struct task *t, uint32_t what)
{
	t->partly = t->names || t->o.what & ~what & (STUB_OWED_DATA | STUB_OWED_NAMES);
	t->o.what = what;
}

int carry(struct carried *c)
{
	struct task t = { .m = c->m, .o = c->o, .tries = c->tries, .fd = -1, .from = c->from, .to = c->to,
			  .name = c->name, .names = c->names, .only_times = c->only_times, .awaited = c->awaited, .made = c->made };
	int v = stub_ledger_begin(c->m->ledger, &t.o);

	c->begun = v == 0;
	if (v < 0 && !c->awaited) { /* -ENOENT: struck since it was read */
		if (v == -ENOENT)
			rounds_right(c->m->rounds, ROUNDS_STRUCK, &c->o.h, true);
		desk_rest(c->m->desk, &c->o.h, DESK_HOT, HOT_MS, v == -ENOENT);
		return EQUAL;
	}
	if (c->awaited)
		only_awaited(&t, c->o.what);
	t.begun = rounds_now(c->m->rounds);
	v = compare_object(&t);
	if (v == UNPLACED)
		v = unplaced(&t);
	if (t.names_done)
		rounds_right(c->m->rounds, t.begun, &t.o.h, false);
	if (v == AGAIN && t.newer)
		rounds_right(c->m->rounds, t.begun, &t.o.h, true);
	c->newer = t.newer;
	if (v == EQUAL && !t.partly)
		strike(c, &t);
	else
		v = put_back(c, &t, v);
	task_close(&t);
	return v;
}
