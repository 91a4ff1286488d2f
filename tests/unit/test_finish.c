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

/* Entries of what a client removed, or of what a killed listing never linked, are taken out, and
 * nobody counts them as done. */
static void what_is_gone_was_not_done(void **state)
{
	struct fixture *x = *state;
	const char *const names[] = { "done", "removed" };
	struct stub_journal_totals before, after;
	struct stub_journal_entry e = { .kind = STUB_JOURNAL_FILE, .size = 16 };
	struct stub_handle h[2];

	make(x, names, h, 2);
	assert_int_equal(stub_journal_totals(x->j, &before), 0);
	e.h = h[0];
	memset(e.h.bytes, 0x7e, e.h.len); /* never linked */
	assert_int_equal(stub_journal_add(x->j, &e, 1), 0);
	assert_int_equal(unlinkat(x->v->fd, "removed", 0), 0);
	stub_finisher_add(x->f, &h[0]);
	stub_finisher_add(x->f, &h[1]);
	stub_finisher_add_stale(x->f, &e.h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(stub_journal_totals(x->j, &after), 0);
	assert_int_equal(stub_journal_audit(x->j), 0);
	assert_int_equal(after.done, before.done + 1);
	assert_int_equal(after.found, before.found - 1);
	assert_int_equal(after.done_bytes, before.done_bytes + 4);
	assert_int_equal(after.found_bytes, before.found_bytes - 4);
}

/* The directory @name in @parent, NULL: the root. */
static struct stub_handle directory(struct fixture *x, const struct stub_handle *parent,
				    const char *name)
{
	struct stub_entry e = fixture_entry(name, S_IFDIR | 0755, 777);
	struct stub_object o;

	assert_int_equal(stub_object_open(x->v, parent ? parent : stub_volume_root(x->v), &o), 0);
	assert_int_equal(stub_make_entry(x->v, &o, &e), 0);
	stub_object_close(&o);
	return fixture_handle(x, name);
}

/* @dir is listed for a client, or for nobody, and handed in. */
static void list(struct fixture *x, const struct stub_handle *dir, const struct stub_entry *e,
		 size_t n, bool asked)
{
	struct stub_refused refused = { 0 };
	struct stub_object o;
	size_t bad;

	if (asked)
		stub_finisher_touch(x->f, dir);
	assert_int_equal(stub_object_open(x->v, dir, &o), 0);
	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, n, &refused, &bad), 0);
	asked = stub_finisher_keeps(x->f, dir);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, asked), 0);
	stub_object_close(&o);
}

static unsigned int needs_of(struct fixture *x, const struct stub_handle *h)
{
	struct stub_view v;

	assert_int_equal(stub_view(x->v, h, &v), 0);
	return v.needs;
}

static void becomes_normal(struct fixture *x, const struct stub_handle *h)
{
	for (int i = 0; i < 60000 && needs_of(x, h); i++)
		usleep(1000);
	assert_int_equal(needs_of(x, h), 0);
}

/* The time, size and links of a directory that a client lists do not move. */
static void a_listed_directory_waits(void **state)
{
	struct fixture *x = *state;
	struct stub_handle d[2] = { directory(x, NULL, "asked"), directory(x, NULL, "not") };
	struct stub_view before = fixture_view(x, "asked"), after;
	struct stub_entry e[64];
	char names[64][200];

	for (int i = 0; i < 64; i++) {
		snprintf(names[i], sizeof(names[i]), "%0150d", i);
		e[i] = fixture_entry(names[i], S_IFREG | 0644, 4);
	}
	assert_int_equal(before.size, 777);
	stub_finisher_set_delay(x->f, 3600);
	list(x, &d[0], e, 64, true);
	list(x, &d[1], e, 64, false);
	assert_int_equal(fixture_view(x, "not").needs, 0);
	stub_finisher_add(x->f, &d[0]);
	for (int i = 0; i < 10000 && stats_of(x).inflight; i++)
		usleep(1000);
	after = fixture_view(x, "asked");
	assert_int_equal(after.needs, STUB_NEEDS_FINISH);
	before.needs = after.needs;
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(fixture_scan(x).unlisted, 1); /* the root */
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "asked").needs, 0);
}

/* Programs come back to a directory when they have read what is in it. */
static void a_directory_waits_for_what_is_in_it(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 4);
	struct stub_handle d = directory(x, NULL, "d"), f;
	uint64_t asked_ms;

	stub_finisher_set_delay(x->f, 1);
	list(x, &d, &e, 1, true);
	stub_finisher_add(x->f, &d);
	f = fixture_handle(x, "d/f");
	usleep(300000); /* the less of it, the more the test takes for good */
	asked_ms = stub_now_ms();
	stub_finisher_touch(x->f, &f);
	becomes_normal(x, &d);
	assert_true(stub_now_ms() - asked_ms >= 1000);
}

static void a_directory_waits_for_those_in_it(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("below", S_IFDIR | 0755, 0);
	struct stub_handle d = directory(x, NULL, "d"), below;

	stub_finisher_set_delay(x->f, 1);
	list(x, &d, &e, 1, true);
	below = fixture_handle(x, "d/below");
	list(x, &below, NULL, 0, true);
	stub_finisher_add(x->f, &d); /* but not what is below, as after a restart */
	becomes_normal(x, &d);
	assert_int_equal(needs_of(x, &below), 0);
}

/* What a local process does to it after it was listed is left as it is. */
static void local_changes_of_a_directory_stay(void **state)
{
	struct fixture *x = *state;
	struct stub_handle d = directory(x, NULL, "d");
	struct stat st;
	int fd;

	stub_finisher_set_delay(x->f, 3600);
	list(x, &d, NULL, 0, true);
	stub_finisher_add(x->f, &d);
	fd = fixture_open(x, "d", O_RDONLY);
	assert_int_equal(mkdirat(fd, "new", 0755), 0);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_mtim.tv_sec > 1200000001);
	close(fd);
}

/* Who says that a file is whole is not believed where it counts. */
static void what_is_not_whole_stays(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("half", S_IFREG | 0644, 8);
	struct stub_object o;
	struct stub_handle h;
	struct stat st;
	int fd;

	fixture_list(x, &e, 1);
	h = fixture_handle(x, "half");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_data(x->v, &o, 0, "data", 4), 4);
	stub_finisher_add_whole(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "half").needs, STUB_NEEDS_DATA);
	assert_int_equal(fixture_scan(x).journal, 1);
	assert_int_equal(stub_fill_data(x->v, &o, 4, "more", 4), 0);
	stub_object_close(&o);
	stub_finisher_add_whole(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "half").needs, 0);
	assert_int_equal(fixture_scan(x).journal, 0);
	fd = fixture_open(x, "half", O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, e.attr.mtime.tv_sec);
	close(fd);
}

/* Something has set the time of a whole file, a fill that died perhaps: the record's is right. */
static void the_time_is_the_records(void **state)
{
	struct fixture *x = *state;
	const char *const name = "f";
	struct stub_handle h;
	struct stat st;
	int fd;

	make(x, &name, &h, 1);
	fd = fixture_open(x, "f", O_RDONLY);
	assert_int_equal(futimens(fd, NULL), 0);
	stub_finisher_add_whole(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "f").needs, 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, fixture_entry("f", S_IFREG, 4).attr.mtime.tv_sec);
	close(fd);
}

#define with_volume(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_volume(queue_is_bounded),
		with_volume(what_clients_ask_for_waits),
		with_volume(what_is_gone_was_not_done),
		with_volume(a_listed_directory_waits),
		with_volume(a_directory_waits_for_what_is_in_it),
		with_volume(a_directory_waits_for_those_in_it),
		with_volume(local_changes_of_a_directory_stay),
		with_volume(what_is_not_whole_stays),
		with_volume(the_time_is_the_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
