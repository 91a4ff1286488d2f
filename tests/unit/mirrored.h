/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mirrored.h - the fixture's volume with a mirror, and what it is owed. */
#ifndef MIRRORED_H
#define MIRRORED_H

#include <unistd.h>

#include "fixture.h"
#include "ledger.h"

/* It has one from now on, and is open anew. */
static inline void mirrored_make(struct fixture *x, enum stub_mirror_kind kind, bool all)
{
	struct stub_mirror_conf c = { .kind = kind, .mode = STUB_MIRROR_ASYNC,
				      .gone = STUB_MIRROR_CONTINUE };

	snprintf(c.uri, sizeof(c.uri), "nfs://127.0.0.1/export");
	assert_int_equal(stub_mirror_create(x->v, &c, all), 0);
	fixture_reopen(x);
}

/* What of @h is owed; 0: nothing. */
static inline uint32_t mirrored_owes(struct fixture *x, const struct stub_handle *h)
{
	struct stub_owed o[64];
	struct stub_ledger *l;
	uint32_t what = 0;
	int n;

	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	n = stub_ledger_next(l, 0, o, ARRAY_LEN(o));
	assert_in_range(n, 0, ARRAY_LEN(o) - 1);
	for (int i = 0; i < n; i++)
		if (stub_handle_equal(&o[i].h, h))
			what |= o[i].what;
	stub_ledger_close(l);
	return what;
}

/* Both sides are taken to be equal: 0 if @h is struck, 1 if it stays, -ENOENT: it is not owed. */
static inline int mirrored_settle(struct fixture *x, const struct stub_handle *h)
{
	struct stub_owed o = { .h = *h };
	struct stub_ledger *l;
	uint64_t n;
	int r;

	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_int_equal(stub_ledger_count(l, &n), 0); /* takes over what was entered */
	r = stub_ledger_begin(l, &o);
	if (r == 0)
		r = stub_ledger_strike(l, &o);
	stub_ledger_close(l);
	return r;
}

/* ---- who waits for the mirror ---- */

#define MIRRORED_MS 60000

/* fixture_setup() of a volume with a backup. */
static inline int mirrored_setup(void **state)
{
	int r = fixture_setup(state);

	if (r == 0)
		mirrored_make(*state, STUB_MIRROR_BACKUP, false);
	return r;
}

static inline int mirrored_teardown(void **state)
{
	struct fixture *x = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s.sock" STUB_SET_SUFFIX, x->beside);
	unlink(path);
	return fixture_teardown(state);
}

static inline void mirrored_rule(struct fixture *x, enum stub_mirror_mode mode, enum stub_mirror_gone gone)
{
	struct stub_mirror_conf c;

	assert_int_equal(stub_mirror_conf_read(x->v, &c), 0);
	c.mode = mode;
	c.gone = gone;
	assert_int_equal(stub_mirror_conf_write(x->v, &c), 0);
}

/* The replicator says how it stands. */
static inline void mirrored_pulse(struct stub_waits *w, bool there, bool follows, unsigned int ms)
{
	const struct stub_pulse p = { there, follows, ms, 0 };

	stub_waits_pulse(w, &p);
}

/* The one that waits. */
static inline struct stub_awaited mirrored_waiting(struct stub_waits *w)
{
	struct stub_awaited a[4];
	unsigned int n = 0;

	for (uint64_t until = stub_now_ms() + MIRRORED_MS; n == 0 && stub_now_ms() < until;)
		n = stub_waits_listen(w, 10, a, ARRAY_LEN(a));
	assert_int_equal(n, 1);
	return a[0];
}

#endif
