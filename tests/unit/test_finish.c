/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_finish.c - what the finisher holds, and for how long. */
#include "fixture.h"

#define MANY	 500000
#define HELD_MAX (2 * 65536 + 8192) /* one queue in work, one that fills, and what was dropped */

static struct stub_finish_stats stats_of(struct fixture *x)
{
	struct stub_finish_stats s;

	stub_finisher_stats(x->f, &s);
	return s;
}

/* Whoever hands in faster than disks sync, or all the links there are, fills no memory. */
static void queue_is_bounded(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = *stub_volume_root(x->v);
	uint64_t most = 0;

	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t ino = 0x4000000000u + i; /* there is none of that number */

		memcpy(h.bytes, &ino, h.len < sizeof(ino) ? h.len : sizeof(ino));
		stub_finisher_add_last(x->f, &h);
		if (i % 1000 == 0 && stats_of(x).inflight > most)
			most = stats_of(x).inflight;
	}
	assert_true(most <= HELD_MAX);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(stats_of(x).inflight, 0);
}

/* Files of the source with all their data. */
static void make(struct fixture *x, const char *const *name, struct stub_handle *h, size_t n)
{
	struct stub_entry e[3];
	struct stub_object o;

	for (size_t i = 0; i < n; i++)
		e[i] = fixture_entry(name[i], S_IFREG | 0644, 4);
	fixture_list(x, e, n);
	for (size_t i = 0; i < n; i++) {
		h[i] = fixture_handle(x, name[i]);
		assert_int_equal(stub_object_open(x->v, &h[i], &o), 0);
		assert_true(stub_fill_data(x->v, &o, 0, "data", 4) >= 0);
		stub_object_close(&o);
	}
}

static void what_clients_ask_for_waits(void **state)
{
	struct fixture *x = *state;
	const char *const names[] = { "asked", "late", "not" };
	struct stub_handle h[3];

	make(x, names, h, 3);
	stub_finisher_set_delay(x->f, 3600);
	stub_finisher_touch(x->f, &h[0]);
	stub_finisher_add(x->f, &h[0]);
	stub_finisher_add(x->f, &h[1]);
	stub_finisher_add(x->f, &h[2]);
	stub_finisher_touch(x->f, &h[1]); /* handed in already: kept unless it was too late */
	for (int i = 0; i < 10000 && stats_of(x).inflight; i++)
		usleep(1000);
	assert_int_equal(fixture_view(x, "not").needs, 0);
	assert_int_equal(fixture_view(x, "asked").needs, STUB_NEEDS_FINISH);
	assert_int_equal(stats_of(x).kept, fixture_view(x, "late").needs ? 2 : 1);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "asked").needs, 0);
	assert_int_equal(fixture_view(x, "late").needs, 0);
	assert_int_equal(stats_of(x).kept, 0);
	assert_int_equal(fixture_scan(x).journal, 0);
}

#define with_volume(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_volume(queue_is_bounded),
		with_volume(what_clients_ask_for_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
