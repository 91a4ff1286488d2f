/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * bracket.c - around a client's change, and around making changes durable.
 *
 * A bracket is never open while the old server is waited for: where a record has no room
 * for a write it is closed, room is asked for, and it is opened anew.
 *
 * With a mirror what is changed is entered into the ledger before: of normal objects too, and
 * inside of another bracket.  Entering may wait for a sync, so it comes before the exclusion;
 * leaving comes after the records are right.
 */
#include "gate.h"

#define ROOM_MS	   200 /* between two asks for room in the record of one file */
#define ROOM_TRIES 16 /* fetches that make room in a record for one write */
#define BYTES	   (STUB_OWED_DATA | STUB_OWED_ATTRS) /* a write moves times too */

/* ---- the ledger ---- */

/* As root; *e is empty. */
static int enter_one(struct stub_front *f, unsigned int what, struct stub_entered *e)
{
	int r;

	if (!f->h.len) /* what is not known cannot be owed, so it must not be changed */
		return -EIO;
	r = stub_ledger_enter(f->gate->volume, &f->h, what, e);
	if (r == 0 && f->name && strlen(f->name) < sizeof(e->name))
		strcpy(e->name, f->name);
	return r;
}

STUB_PUBLIC int stub_front_enter(struct stub_front *f, unsigned int what, struct stub_entered *e)
{
	int r;

	e->map = NULL;
	e->what = 0;
	if (!f->gate || !stub_gate_mirrored(f->gate))
		return 0;
	AS_ROOT(f->gate, r, enter_one(f, what, e));
	return r;
}

STUB_PUBLIC void stub_front_leave(struct stub_front *f, struct stub_entered *e)
{
	bool root;

	if (!e->map)
		return;
	root = stub_gate_enter(f->gate);
	stub_ledger_leave(f->gate->volume, e);
	stub_gate_leave(f->gate, root);
}

STUB_PUBLIC int stub_front_await(struct stub_front *f, const struct stub_entered *e)
{
	int r;

	if (!e->what)
		return 0;
	AS_ROOT(f->gate, r, stub_ledger_await(f->gate->volume, e, 1));
	return r;
}

STUB_PUBLIC int stub_front_await_later(struct stub_front *f, const struct stub_entered *e)
{
	int r;

	if (!e->what)
		return 0;
	AS_ROOT(f->gate, r, stub_ledger_await_later(f->gate->volume, e));
	return r;
}

STUB_PUBLIC int stub_front_await_noted(struct stub_front *f)
{
	int r;

	if (!f->gate || !f->h.len || !stub_gate_mirrored(f->gate))
		return 0;
	AS_ROOT(f->gate, r, stub_ledger_await_noted(f->gate->volume, &f->h));
	return r;
}

/* @done: something was changed. */
static int leave(struct stub_bracket *b, bool done)
{
	bool root, any = false;
	int r = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(b->entered); i++)
		any = any || b->entered[i].map;
	if (!any)
		return 0;
	root = stub_gate_enter(b->gate);
	for (unsigned int i = 0; i < ARRAY_LEN(b->entered); i++)
		stub_ledger_leave(b->gate->volume, &b->entered[i]);
	if (done && b->later)
		r = stub_ledger_await_later(b->gate->volume, &b->entered[0]);
	else if (done)
		r = stub_ledger_await(b->gate->volume, b->entered, ARRAY_LEN(b->entered));
	stub_gate_leave(b->gate, root);
	return r;
}

/* All of @f; @also: what they owe in any case.  After an error none is entered. */
static int enter(struct stub_front *const f[], unsigned int n, unsigned int also,
		 struct stub_bracket *b)
{
	bool root;
	int r = 0;

	if (!stub_gate_mirrored(b->gate))
		return 0;
	root = stub_gate_enter(b->gate);
	for (unsigned int i = 0; i < n && r == 0; i++) {
		unsigned int what = f[i] ? f[i]->owes | also : 0;

		if (f[i] && f[i]->gate)
			r = enter_one(f[i], what ? what : STUB_OWED_ATTRS, &b->entered[i]);
	}
	stub_gate_leave(b->gate, root);
	if (r < 0)
		leave(b, false);
	return r;
}

/* ---- open and close ---- */

static bool inside_another(const struct stub_front *f)
{
	return f->gate->alone && f->gate->brackets;
}

static int opened(struct stub_bracket *b, int r)
{
	b->open = r == 0;
	if (b->open && b->gate->alone)
		b->gate->brackets++;
	return r;
}

static void closed(struct stub_bracket *b)
{
	b->open = false;
	if (b->gate->alone)
		b->gate->brackets--;
}

static int begin(struct stub_front *const f[], unsigned int n, unsigned int also,
		 struct stub_bracket *b)
{
	const struct stub_handle *list[STUB_CHANGE_OBJECTS] = { NULL };
	bool any = false;
	int r;

	memset(b, 0, sizeof(*b));
	for (unsigned int i = 0; i < n; i++) {
		if (!f[i] || !f[i]->gate)
			continue;
		b->gate = f[i]->gate;
		b->news[i].h = f[i]->h;
		b->news[i].what = STUB_NEWS_ATTRS;
		if (!f[i]->maybe || inside_another(f[i]))
			continue;
		list[i] = &f[i]->h;
		any = true;
	}
	r = b->gate ? enter(f, n, also, b) : 0;
	if (r < 0 || !any)
		return r;
	AS_ROOT(b->gate, r, stub_change_begin(b->gate->volume, list, n, &b->c));
	if (r < 0)
		leave(b, false);
	return opened(b, r);
}

STUB_PUBLIC int stub_bracket_begin(struct stub_front *const f[], unsigned int n,
				   struct stub_bracket *b)
{
	return begin(f, n, 0, b);
}

STUB_PUBLIC int stub_bracket_attrs(struct stub_front *f, struct stub_wait *w,
				   struct stub_bracket *b)
{
	struct stub_view view;
	int r = 0;

	memset(b, 0, sizeof(*b));
	if (f->maybe && !inside_another(f))
		r = stub_need_attrs(f, w, &view);
	return r < 0 ? r : begin(&f, 1, 0, b);
}

STUB_PUBLIC int stub_bracket_look(struct stub_front *f, struct stub_bracket *b)
{
	int r;

	memset(b, 0, sizeof(*b));
	if (!f->maybe)
		return 0;
	if (inside_another(f))
		return -EAGAIN;
	b->gate = f->gate;
	AS_ROOT(f->gate, r, stub_change_look(f->gate->volume, &f->h, &b->c));
	return opened(b, r);
}

STUB_PUBLIC void stub_bracket_drop(struct stub_bracket *b)
{
	bool root;

	if (b->open) {
		closed(b);
		root = stub_gate_enter(b->gate);
		stub_change_drop(&b->c);
		stub_gate_leave(b->gate, root);
	}
	leave(b, false);
}

static int end(struct stub_bracket *b, int result)
{
	int r = 0, awaited;

	if (b->open) {
		closed(b);
		AS_ROOT(b->gate, r, stub_change_end(&b->c, result));
	}
	awaited = leave(b, result >= 0);
	return r < 0 ? r : awaited;
}

/* ---- news ---- */

/* The place of the news is root's, and may be another one than when the volume was opened. */
static void post(struct stub_gate *g, const struct stub_handle *h, unsigned int what)
{
	bool root = stub_news_due(g->volume) && stub_gate_enter(g);

	stub_news_post(g->volume, h, what);
	stub_gate_leave(g, root);
}

STUB_PUBLIC void stub_bracket_tells(struct stub_bracket *b, unsigned int i, unsigned int what)
{
	b->news[i].what = what;
}

STUB_PUBLIC void stub_front_tell(const struct stub_front *f)
{
	if (f->gate && f->gate->tells && f->h.len)
		post(f->gate, &f->h, STUB_NEWS_ATTRS);
}

STUB_PUBLIC int stub_bracket_end(struct stub_bracket *b, int result)
{
	int r = end(b, result);

	/* of normal objects too: other processes cache these as well */
	for (unsigned int i = 0; result >= 0 && b->gate && b->gate->tells && i < ARRAY_LEN(b->news);
	     i++)
		if (b->news[i].h.len)
			post(b->gate, &b->news[i].h, b->news[i].what);
	return result < 0 ? result : r;
}

/* ---- a range ---- */

/* 0: the record has room for a write there, and what a failed sync left there is gone; 1: it had
 * none, and has been given some: open the bracket again; -errno.  Only after 0 it is open. */
static int room(struct stub_bracket *b, struct stub_front *f, struct stub_wait *w,
		uint64_t offset, uint64_t length)
{
	struct stub_ask a = { .kind = STUB_ASK_ROOM, .h = f->h };
	int r;

	if (!b->open)
		return 0;
	r = stub_change_fits(&b->c, 0, offset, length);
	if (r == 0) {
		AS_ROOT(b->gate, r, stub_change_clear(&b->c, 0, offset, length));
		if (r < 0)
			end(b, r);
		return r;
	}
	end(b, r);
	if (r == -ENOSPC)
		r = stub_gate_ask(f->gate, w, &a);
	return r < 0 ? r : 1;
}

STUB_PUBLIC int stub_bracket_range(struct stub_front *f, struct stub_wait *w, uint64_t offset,
				   uint64_t length, struct stub_bracket *b)
{
	struct stub_view view;
	int r;

	memset(b, 0, sizeof(*b));
	if (f->maybe && inside_another(f)) { /* opens none; but of a normal object we post news */
		r = stub_front_look(f, &view);
		if (r < 0 || !f->maybe)
			return r < 0 ? r : begin(&f, 1, BYTES, b);
		b->gate = f->gate;
		return enter(&f, 1, BYTES, b);
	}
	r = stub_need_attrs(f, w, &view);
	for (int i = 0; r >= 0 && i < ROOM_TRIES; i++) {
		r = begin(&f, 1, BYTES, b);
		if (r == 0)
			r = room(b, f, w, offset, length);
		if (r == 0) {
			b->entered[0].from = offset;
			b->entered[0].to = offset + length;
			return 0;
		}
	}
	return r < 0 ? r : -EAGAIN;
}

/* The record may be filling up: ask for room, without waiting for the answer. */
static void room_ahead(const struct stub_bracket *b, const struct stub_front *f)
{
	struct stub_ask a = { .kind = STUB_ASK_ROOM, .h = f->h };
	int64_t now, last;
	uint64_t since;
	int r;

	if (!b->c.crowded || !f->known)
		return;
	now = (int64_t)stub_now_ms();
	last = atomic_load(&f->known->room_asked);
	if ((last && now - last < ROOM_MS) ||
	    !atomic_compare_exchange_strong(&f->known->room_asked, &last, now))
		return;
	since = stub_gate_asks(f->gate, &a);
	AS_ROOT(f->gate, r, stub_ask(f->gate->volume, &a, 0));
	stub_gate_answered(f->gate, &a, since, r); /* -EAGAIN: the retriever goes on with it */
}

STUB_PUBLIC int stub_bracket_range_end(struct stub_bracket *b, struct stub_front *f, int result,
				       uint64_t offset, uint64_t done)
{
	int r = result < 0 ? result : stub_change_written(&b->c, 0, offset, done);

	r = stub_bracket_end(b, r);
	room_ahead(b, f);
	return r;
}

/* ---- sync ---- */

STUB_PUBLIC void stub_sync_note(const struct stub_front *f, uint64_t who, uint64_t era)
{
	stub_unstable_note(f->gate->volume, &f->h, who, era);
}

STUB_PUBLIC bool stub_sync_due(const struct stub_gate *g)
{
	return g->volume && stub_unstable_any(g->volume);
}

/* Not durable: the client hears of it at its next sync. */
static void note_again(struct stub_sync *s)
{
	if (s->noted)
		stub_unstable_note(s->gate->volume, &s->h, s->who, s->era);
	s->noted = false;
}

STUB_PUBLIC int stub_sync_begin(struct stub_gate *g, struct stub_front *f,
				const struct stub_handle *h, uint64_t who, struct stub_sync *s)
{
	int r = 0;

	*s = (struct stub_sync){ .gate = g, .who = who };
	/* before the sync: what is written from here on is noted anew */
	if (h && stub_sync_due(g)) {
		r = stub_unstable_take(g->volume, h, who, &s->era);
		if (r < 0)
			return r;
		s->h = *h;
		s->noted = true;
	}
	if (f->maybe)
		AS_ROOT(g, r, stub_commit_prepare(g->volume, &f->h, &s->c));
	if (r < 0)
		note_again(s);
	return r;
}

STUB_PUBLIC int stub_sync_end(struct stub_sync *s, int result)
{
	int r = 0;

	if (s->c.stub && result < 0 && !stub_takes_no_data(result))
		stub_commit_drop(&s->c); /* no sync has failed, so nothing is lost */
	else if (s->c.stub)
		AS_ROOT(s->gate, r, stub_commit_finish(&s->c, result));
	if (result == 0)
		result = r;
	if (result < 0)
		note_again(s);
	s->noted = false;
	return result;
}

STUB_PUBLIC void stub_sync_drop(struct stub_sync *s)
{
	if (s->c.stub)
		stub_commit_drop(&s->c);
	note_again(s);
}
