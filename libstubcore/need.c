/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * need.c - what must have come before an operation of a client.
 *
 * Each need is a walk through stages, and each stage looks before it asks: what is here by
 * then is not asked for.  The step function does not wait, so that it serves a thread and
 * an event loop alike.
 *
 *	ATTRS    attrs
 *	ENTRIES  list
 *	LEAVE    list; full: name; it is one of the old server's: leave
 *	GONE     list; full: leave
 *	NAME     name
 *	DATA     data
 *
 * Which of them an operation on names has:
 *   - before a name is made in an unlisted directory the old server is asked for it: one that
 *     exists there exists here;
 *   - before a name is taken away from an unlisted directory, or the directory itself, it is
 *     listed: what is removed never comes back.  The same before a name is replaced there, if
 *     its file has another name: the file was only looked up, and is in no journal yet
 *     (docs/design.md, invariant 4).
 *
 * After TRIES answers that change nothing the need ends, or plugin and retriever could keep
 * each other busy for ever.
 *
 * Invariant: an object found normal is never looked at again (invariant 5).
 */
#include "gate.h"

#define TRIES 8 /* answers "done" that change nothing */

/* ---- looking ---- */

static void found_normal(struct stub_front *f)
{
	f->maybe = false;
	if (f->known)
		atomic_store(&f->known->normal, true);
}

STUB_PUBLIC int stub_front_look_fd(struct stub_front *f, int fd, struct stub_view *view)
{
	int r;

	memset(view, 0, sizeof(*view));
	if (!f->maybe)
		return 0;
	if (fd < 0 || !f->h.len)
		AS_ROOT(f->gate, r, stub_view(f->gate->volume, &f->h, view));
	else
		AS_ROOT(f->gate, r, stub_view_path(f->gate->volume, fd, &f->h, view));
	if (r == 0 && view->needs == 0)
		found_normal(f);
	return r;
}

STUB_PUBLIC int stub_front_look(struct stub_front *f, struct stub_view *view)
{
	return stub_front_look_fd(f, -1, view);
}

STUB_PUBLIC void stub_front_going(struct stub_front *f)
{
	struct stub_view view;

	if (stub_front_look(f, &view) == 0 && view.needs & STUB_NEEDS_FOREIGN)
		f->maybe = false;
}

STUB_PUBLIC bool stub_front_strands(struct stub_front *dir, struct stub_front *f)
{
	struct stub_view view;

	if (!f->maybe || stub_front_look(dir, &view) < 0 || !(view.needs & STUB_NEEDS_ENTRIES))
		return false;
	if (stub_front_look(f, &view) < 0)
		return true;
	return view.needs && !(view.needs & STUB_NEEDS_NAMES) && view.nlink > 1;
}

static int look_missing(struct stub_front *f, uint64_t offset, uint64_t end,
			struct stub_view *view, struct stub_range *out)
{
	int r;

	memset(view, 0, sizeof(*view));
	if (!f->maybe || offset >= end)
		return 0;
	AS_ROOT(f->gate, r,
		stub_data_look(f->gate->volume, &f->h, offset, end - offset, view, out));
	if (r == 0 && view->needs == 0)
		found_normal(f);
	return r;
}

STUB_PUBLIC int stub_front_missing(struct stub_front *f, uint64_t offset, uint64_t end,
				   struct stub_range *out)
{
	struct stub_view view;

	return look_missing(f, offset, end, &view, out);
}

/* ---- stages ---- */

enum { STAGE_NONE, STAGE_ATTRS, STAGE_LIST, STAGE_NAME, STAGE_LEAVE, STAGE_DATA };

static const unsigned int first_stage[] = {
	[STUB_NEED_ATTRS] = STAGE_ATTRS, [STUB_NEED_ENTRIES] = STAGE_LIST,
	[STUB_NEED_LEAVE] = STAGE_LIST,	 [STUB_NEED_GONE] = STAGE_LIST,
	[STUB_NEED_NAME] = STAGE_NAME,	 [STUB_NEED_DATA] = STAGE_DATA,
};

/* Stages that ask until a look says that nothing is missing. */
static const struct {
	unsigned int needs;
	enum stub_ask_kind kind;
} asked_for[] = {
	[STAGE_ATTRS] = { STUB_NEEDS_ATTRS, STUB_ASK_ATTR },
	[STAGE_LIST] = { STUB_NEEDS_ENTRIES, STUB_ASK_LIST },
	[STAGE_LEAVE] = { STUB_NEEDS_ENTRIES, STUB_ASK_LEAVE },
};

static int step_until(struct stub_front *f, struct stub_need *n, struct stub_ask *ask)
{
	unsigned int needs = asked_for[n->stage].needs;
	int r = stub_front_look(f, &n->view);

	if (r < 0)
		return r;
	if (n->view.needs & STUB_NEEDS_FOREIGN && needs & STUB_NEEDS_ENTRIES)
		/* nobody knows the names of a copy; it may be removed if it is empty */
		return n->what == STUB_NEED_GONE ? 0 : -EBADMSG;
	if (!(n->view.needs & needs))
		return n->what == STUB_NEED_GONE && n->view.needs & STUB_NEEDS_REFUSED ?
			       -ENOTEMPTY : 0;
	if (n->tries++ >= TRIES)
		return -EAGAIN;
	*ask = (struct stub_ask){ .kind = asked_for[n->stage].kind, .h = f->h };
	return 1;
}

/* -EREMOTEIO: @name is one of those refused in a listed directory.  0: it is not, and may have
 * come, when the directory was listed, since the caller looked for it. */
static int name_refused(struct stub_front *f, const char *name)
{
	int r;

	AS_ROOT(f->gate, r, stub_refused_has(f->gate->volume, &f->h, name));
	return r == 1 ? -EREMOTEIO : r;
}

static int step_name(struct stub_front *f, struct stub_need *n, struct stub_ask *ask)
{
	size_t len = strlen(n->name);
	int r;

	if (n->asked)
		return 0;
	if (!f->maybe || !strcmp(n->name, ".") || !strcmp(n->name, "..") || len > STUB_NAME_MAX)
		return -ENOENT;
	r = stub_front_look(f, &n->view);
	if (r < 0)
		return r;
	if (n->view.needs & STUB_NEEDS_FOREIGN)
		return -EBADMSG;
	if (n->view.needs & STUB_NEEDS_REFUSED)
		return name_refused(f, n->name);
	/* listed since the caller looked for the name: it may have come */
	if (!(n->view.needs & STUB_NEEDS_ENTRIES))
		return 0;
	n->asked = true;
	*ask = (struct stub_ask){
		.kind = STUB_ASK_LOOKUP,
		.h = f->h,
		.name = n->name,
		.name_len = len,
	};
	return 1;
}

/* An ask may bring only a part of the range: ask again for what is still missing, as long as
 * that becomes less. */
static int step_data(struct stub_front *f, struct stub_need *n, struct stub_ask *ask)
{
	uint64_t end = n->length < INT64_MAX - n->offset ? n->offset + n->length : INT64_MAX;
	struct stub_range missing;
	int r;

	if (n->offset >= INT64_MAX)
		return 0; /* nothing can be there */
	r = look_missing(f, n->offset, end, &n->view, &missing);
	if (r <= 0)
		return r;
	if (f->gate->denied)
		return -EACCES;
	n->tries = missing.start > n->last ? 0 : n->tries + 1;
	if (n->tries >= TRIES)
		return -EAGAIN;
	n->last = missing.start;
	*ask = (struct stub_ask){
		.kind = STUB_ASK_DATA,
		.h = f->h,
		.offset = missing.start,
		.length = end - missing.start,
	};
	if (f->gate->ops->who)
		f->gate->ops->who(f->gate, ask->who);
	return 1;
}

/* An ask has failed.  1: there is another way, else what it ends with. */
static int failed(struct stub_need *n, int result)
{
	bool full = result == -ENOSPC || result == -EDQUOT; /* nothing can be listed into it */

	if (n->stage == STAGE_NAME && n->what == STUB_NEED_LEAVE && result == -ENOENT)
		return 0; /* the old server has no such name, so it cannot come back */
	if (n->stage != STAGE_LIST || !full || n->what == STUB_NEED_ENTRIES)
		return result;
	n->stage = n->what == STUB_NEED_LEAVE ? STAGE_NAME : STAGE_LEAVE;
	n->tries = 0;
	return 1;
}

STUB_PUBLIC int stub_need_step(struct stub_front *f, struct stub_need *n, int result,
			       struct stub_ask *ask)
{
	int r = 1;

	if (n->stage == STAGE_NONE) {
		n->stage = first_stage[n->what];
		n->era = f->gate ? stub_gate_era(f->gate) : 0;
	} else if (result < 0) {
		r = failed(n, result);
	}
	if (r <= 0)
		return r;
	if (n->stage == STAGE_NAME) {
		r = step_name(f, n, ask);
		if (n->what == STUB_NEED_NAME || r > 0)
			return r;
		if (r < 0)
			return r == -ENOENT ? 0 : r;
		n->stage = STAGE_LEAVE;
	}
	return n->stage == STAGE_DATA ? step_data(f, n, ask) : step_until(f, n, ask);
}

STUB_PUBLIC bool stub_need_stands(const struct stub_front *f, const struct stub_need *n)
{
	return !f->maybe || stub_gate_era(f->gate) == n->era;
}

/* ---- waiting for it ---- */

STUB_PUBLIC int stub_need_wait(struct stub_front *f, struct stub_need *n, struct stub_wait *w)
{
	struct stub_ask ask;
	int r = 0;

	while ((r = stub_need_step(f, n, r, &ask)) > 0)
		r = stub_gate_ask(f->gate, w, &ask);
	return r;
}

STUB_PUBLIC int stub_need_attrs(struct stub_front *f, struct stub_wait *w, struct stub_view *view)
{
	struct stub_need n = { .what = STUB_NEED_ATTRS };
	int r = stub_need_wait(f, &n, w);

	*view = n.view;
	return r;
}

STUB_PUBLIC int stub_need_shown(struct stub_front *f, struct stub_wait *w, struct stub_view *view,
				bool *asked)
{
	struct stub_need n = { .what = STUB_NEED_ATTRS };
	int r;

	if (w->once && f->maybe && stub_gate_absent(f->gate)) {
		w->begun = true;
		w->until = 0;
	}
	r = stub_need_wait(f, &n, w);
	*view = n.view;
	if (asked)
		*asked = n.tries > 0;
	if (!stub_withheld(r) && !(w->once && r == -EAGAIN))
		return r;
	view->withheld = true;
	return 0;
}

STUB_PUBLIC int stub_need_entries(struct stub_front *f, struct stub_wait *w)
{
	struct stub_need n = { .what = STUB_NEED_ENTRIES };

	return stub_need_wait(f, &n, w);
}

STUB_PUBLIC int stub_need_leave(struct stub_front *f, struct stub_wait *w, const char *name)
{
	struct stub_need n = { .what = STUB_NEED_LEAVE, .name = name };

	return stub_need_wait(f, &n, w);
}

STUB_PUBLIC int stub_need_gone(struct stub_front *f, struct stub_wait *w)
{
	struct stub_need n = { .what = STUB_NEED_GONE };

	return stub_need_wait(f, &n, w);
}

STUB_PUBLIC int stub_need_name(struct stub_front *f, struct stub_wait *w, const char *name)
{
	struct stub_need n = { .what = STUB_NEED_NAME, .name = name };

	return stub_need_wait(f, &n, w);
}
