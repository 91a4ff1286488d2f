/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_mirror.c - libstubcore/mirror.c: a volume gets a mirror; and a ledger that is frozen */
#include <ftw.h>

#include "mirrored.h"

static int setup(void **state)
{
	int r = fixture_setup(state);

	if (r == 0)
		mirrored_make(*state, STUB_MIRROR_WAY_BACK, false);
	return r;
}

static void put_conf(struct fixture *x, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/.postcopy/mirror/conf", x->dir);
	assert_int_equal(stub_io_write_file(AT_FDCWD, path, text), 0);
}

static int remove_below(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	return ftw->level ? remove(path) : 0;
}

static bool here(struct fixture *x, const char *name)
{
	struct stat st;

	return fstatat(x->v->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- made and removed ---- */

static void made_and_removed(void **state)
{
	struct fixture *x = *state;
	struct stub_mirror_conf c = { .kind = STUB_MIRROR_BACKUP, .mode = STUB_MIRROR_SYNC,
				      .gone = STUB_MIRROR_REFUSE, .uri = "nfs://other/backup",
				      .smb = "smb://other/backup" };
	struct stub_mirror_conf got;
	struct stub_ledger *l;

	assert_int_equal(stub_mirror_conf_read(x->v, &got), -ENOENT);
	assert_int_equal(stub_mirror_conf_write(x->v, &c), -ENOENT);
	assert_int_equal(stub_mirror_remove(x->v), -ENOENT);
	assert_int_equal(stub_mirror_create(x->v, &c, true), 0);
	assert_int_equal(stub_mirror_create(x->v, &c, true), -EEXIST);
	fixture_reopen(x);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), 0);
	assert_int_equal(got.kind, c.kind);
	assert_int_equal(got.mode, c.mode);
	assert_int_equal(got.gone, c.gone);
	assert_string_equal(got.uri, c.uri);
	assert_string_equal(got.smb, c.smb);
	got.kind = STUB_MIRROR_WAY_BACK; /* which has none */
	assert_int_equal(stub_mirror_conf_write(x->v, &got), -EINVAL);
	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_int_not_equal(stub_ledger_unknown(l), 0); /* all is owed */
	assert_int_equal(stub_mirror_remove(x->v), -EBUSY);
	stub_ledger_close(l);
	assert_int_equal(stub_mirror_remove(x->v), 0);
	assert_false(here(x, "mirror"));
	assert_false(here(x, "ledger"));
	assert_int_equal(stub_mirror_conf_read(x->v, &got), -ENOENT);
	fixture_reopen(x);
	assert_false(stub_place_kept(x->v));
}

static void a_way_back_owes_nothing(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l;
	uint64_t n;

	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_int_equal(stub_ledger_unknown(l), 0);
	assert_int_equal(stub_ledger_count(l, &n), 0);
	assert_int_equal(n, 0);
	stub_ledger_close(l);
}

static void nobody_else_may_have_it_open(void **state)
{
	struct fixture *x = *state;
	struct stub_mirror_conf c = { .kind = 1, .mode = 1, .gone = 1, .uri = "nfs://h/e" };
	struct stub_volume *other;

	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &other), 0);
	assert_int_equal(stub_mirror_create(x->v, &c, false), -EBUSY);
	stub_volume_close(other);
	assert_false(here(x, "mirror"));
	assert_int_equal(stub_mirror_create(x->v, &c, false), 0);
}

/* Killed before the state said it: no mirror, and the next try makes one. */
static void one_that_was_made_half(void **state)
{
	struct fixture *x = *state;
	struct stub_mirror_conf got;

	assert_int_equal(mkdirat(x->v->dir_fd, "mirror", 0700), 0);
	put_conf(x, "kind=backup\n");
	assert_int_equal(stub_mirror_conf_read(x->v, &got), -ENOENT);
	mirrored_make(x, STUB_MIRROR_WAY_BACK, false);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), 0);
	assert_int_equal(got.kind, STUB_MIRROR_WAY_BACK);
}

static void a_volume_with_a_mirror_stays_one(void **state)
{
	struct fixture *x = *state;

	fixture_list(x, NULL, 0);
	assert_int_equal(stub_volume_remove(x->v), -EEXIST);
	assert_int_equal(stub_mirror_remove(x->v), 0);
	assert_int_equal(stub_volume_remove(x->v), 0);
}

static void a_ledger_alone_is_no_mirror(void **state)
{
	struct fixture *x = *state;
	struct stub_mirror_conf got;

	assert_int_equal(stub_ledger_make(x->v), 0);
	fixture_reopen(x);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), -ENOENT);
	assert_false(stub_place_kept(x->v));
	assert_int_equal(stub_place_put(x->v, 5, stub_volume_root(x->v), (uint8_t *)"x", 1), 0);
	assert_int_equal(stub_mirror_remove(x->v), 0);
}

/* The volume is never without it. */
static void a_volume_that_is_made_with_a_way_back(void **state)
{
	struct fixture *x = *state;
	const struct stub_mirror_conf c = { .kind = STUB_MIRROR_WAY_BACK, .mode = STUB_MIRROR_ASYNC,
					    .gone = STUB_MIRROR_CONTINUE, .uri = "nfs://h/e" };
	struct stub_origin root = { 4, "ROOT" }, got_root;
	struct stub_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2 };
	struct stub_volume_info info = x->v->info;
	struct stub_mirror_conf got;
	struct stub_ledger *l;
	struct stat st;
	uint64_t n;

	fixture_close(x);
	x->f = NULL;
	x->j = NULL;
	assert_int_equal(nftw(x->dir, remove_below, 16, FTW_DEPTH | FTW_PHYS), 0);
	assert_int_equal(stub_volume_create(x->dir, &info, &root, &attr, false, &c, NULL, NULL), 0);
	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &x->v), 0);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), 0);
	assert_int_equal(got.kind, STUB_MIRROR_WAY_BACK);
	assert_string_equal(got.uri, "nfs://h/e");
	assert_int_equal(fstat(x->v->fd, &st), 0);
	assert_int_equal(stub_place_get(x->v, st.st_ino, stub_volume_root(x->v), &got_root), 0);
	assert_int_equal(got_root.len, 4);
	assert_memory_equal(got_root.bytes, "ROOT", 4);
	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_int_equal(stub_ledger_unknown(l), 0);
	assert_int_equal(stub_ledger_count(l, &n), 0);
	assert_int_equal(n, 0);
	stub_ledger_close(l);
	assert_int_equal(stub_ledger_owe(x->v, stub_volume_root(x->v), STUB_OWED_ATTRS), 0);
	assert_int_equal(mirrored_settle(x, stub_volume_root(x->v)), 0);
}

/* ---- conf ---- */

static void conf_that_is_wrong(void **state)
{
	static const char good[] = "kind=backup\nmode=sync\ngone=refuse\nuri=nfs://h/e\nend\n";
	static const char *const bad[] = {
		"",
		"kind=backup\nmode=sync\ngone=refuse\nuri=nfs://h/e\n",
		"kind=backup\nmode=sync\ngone=refuse\nuri=nfs://h/e\nend",
		"kind=backup\nmode=sync\ngone=refuse\nuri=nfs://h/e\nend\nmore=1\n",
		"kind=backup\nmode=sync\ngone=refuse\nuri=\nend\n",
		"kind=backup\nmode=sync\ngone=refuse\nuri=nfs://h /e\nend\n",
		"kind=backup\nmode=sync\ngone=perhaps\nuri=nfs://h/e\nend\n",
		"kind=backup\nmode=\ngone=refuse\nuri=nfs://h/e\nend\n",
		"kind\nmode=sync\ngone=refuse\nuri=nfs://h/e\nend\n",
		"mode=sync\nkind=backup\ngone=refuse\nuri=nfs://h/e\nend\n",
		"kind=backup\nmode=sync\ngone=refuse\nalone=no\nuri=nfs://h/e\nend\n",
		"kind=way-back\nmode=sync\ngone=refuse\nalone=yes\nuri=nfs://h/e\nend\n",
	};
	struct fixture *x = *state;
	struct stub_mirror_conf got;
	char text[4096];

	put_conf(x, good);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put_conf(x, bad[i]);
		assert_int_equal(stub_mirror_conf_read(x->v, &got), -EBADMSG);
	}
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, good, strlen(good));
	put_conf(x, text);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), -EBADMSG);
	fixture_reopen(x); /* it opens all the same, and changes are owed */
	assert_true(stub_ledger_is(x->v));
}

static void conf_of_a_mirror_that_is_alone(void **state)
{
	const struct stub_mirror_conf c = { .kind = STUB_MIRROR_BACKUP, .mode = STUB_MIRROR_SYNC, .gone = STUB_MIRROR_REFUSE,
					    .lag_s = 5, .alone = true, .uri = "nfs://h/e" };
	struct fixture *x = *state;
	struct stub_mirror_conf got;

	assert_int_equal(stub_mirror_conf_write(x->v, &c), 0);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), 0);
	assert_true(got.alone);
	assert_int_equal(got.lag_s, 5);
	assert_string_equal(got.uri, c.uri);
}

static void conf_that_cannot_be(void **state)
{
	const struct stub_mirror_conf good = { .kind = 1, .mode = 2, .gone = 1, .uri = "nfs://h/e" };
	struct stub_mirror_conf c[7] = { good, good, good, good, good, good, good }, got;
	struct fixture *x = *state;

	c[0].kind = 0;
	c[1].kind = 3;
	c[2].mode = 4;
	c[3].gone = 3;
	strcpy(c[4].uri, "nfs://h/e\nend");
	memset(c[5].uri, 'u', sizeof(c[5].uri)); /* not terminated */
	c[6].alone = true; /* a way back */
	for (size_t i = 0; i < ARRAY_LEN(c); i++)
		assert_int_equal(stub_mirror_conf_write(x->v, &c[i]), -EINVAL);
	c[5].uri[STUB_URI_MAX] = '\0'; /* the longest */
	assert_int_equal(stub_mirror_conf_write(x->v, &c[5]), 0);
	assert_int_equal(stub_mirror_conf_read(x->v, &got), 0);
	assert_string_equal(got.uri, c[5].uri);
	assert_int_equal(got.mode, STUB_MIRROR_PARTLY);
}

static void aside_is_named_after_the_volume(void **state)
{
	struct fixture *x = *state;
	char name[STUB_ASIDE_NAME];

	stub_aside_name(x->v->info.uuid, name);
	assert_string_equal(name, ".postcopy-aside-00000000-0000-0000-0000-000000000001");
}

/* ---- frozen ---- */

static void nothing_is_entered_while_frozen(void **state)
{
	struct fixture *x = *state;
	const struct stub_handle *root = stub_volume_root(x->v);
	struct stub_entered before, e;

	assert_false(stub_ledger_frozen(x->v));
	assert_int_equal(stub_ledger_enter(x->v, root, STUB_OWED_ATTRS, &before), 0);
	assert_int_equal(stub_ledger_freeze(x->v, true), 0);
	assert_true(stub_ledger_frozen(x->v));
	assert_int_equal(stub_ledger_enter(x->v, root, STUB_OWED_ATTRS, &e), -EAGAIN);
	stub_ledger_leave(x->v, &e); /* of what was not entered it is nothing */
	assert_int_equal(mirrored_settle(x, root), 1); /* in flight since before */
	stub_ledger_leave(x->v, &before);
	assert_int_equal(mirrored_settle(x, root), 0);
	fixture_reopen(x); /* all processes end */
	assert_true(stub_ledger_frozen(x->v));
	assert_int_equal(stub_ledger_owe(x->v, root, STUB_OWED_ATTRS), -EAGAIN);
	assert_int_equal(stub_ledger_freeze(x->v, false), 0);
	assert_int_equal(stub_ledger_owe(x->v, root, STUB_OWED_ATTRS), 0);
}

/* Clients are back at the old server: whatever is started anew, nothing is changed here. */
static void frozen_for_good(void **state)
{
	struct fixture *x = *state;
	const struct stub_handle *root = stub_volume_root(x->v);

	assert_int_equal(stub_ledger_freeze(x->v, STUB_FROZEN_FOR_GOOD), 0);
	assert_int_equal(stub_ledger_owe(x->v, root, STUB_OWED_ATTRS), -EROFS);
	fixture_reopen(x);
	x->v->boot++;
	assert_int_equal(stub_ledger_frozen(x->v), STUB_FROZEN_FOR_GOOD);
	assert_int_equal(stub_ledger_owe(x->v, root, STUB_OWED_ATTRS), -EROFS);
	x->v->boot--;
	assert_int_equal(stub_ledger_freeze(x->v, STUB_THAWED), 0);
	assert_int_equal(stub_ledger_owe(x->v, root, STUB_OWED_ATTRS), 0);
}

static void what_flies_is_told(void **state)
{
	struct fixture *x = *state;
	const struct stub_handle *root = stub_volume_root(x->v);
	struct stub_handle other = *root;
	struct stub_entered e;
	struct stub_ledger *l;

	other.bytes[0] ^= 1;
	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_false(stub_ledger_flies(l, NULL));
	assert_int_equal(stub_ledger_enter(x->v, root, STUB_OWED_NAMES, &e), 0);
	assert_true(stub_ledger_flies(l, root));
	assert_false(stub_ledger_flies(l, &other));
	assert_true(stub_ledger_flies(l, NULL));
	stub_ledger_leave(x->v, &e);
	assert_false(stub_ledger_flies(l, root));
	assert_false(stub_ledger_flies(l, NULL));
	stub_ledger_close(l);
}

/* ---- what was struck ---- */

static struct stub_handle number(unsigned int n)
{
	struct stub_handle h = { .type = 1, .len = 12 };

	memcpy(h.bytes, &n, sizeof(n));
	return h;
}

static void settle(struct fixture *x, struct stub_ledger *l, unsigned int n, uint32_t what, bool gone)
{
	struct stub_owed o = { .h = number(n) };
	uint64_t owed;

	assert_int_equal(stub_ledger_owe(x->v, &o.h, what), 0);
	assert_int_equal(stub_ledger_count(l, &owed), 0);
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	o.gone = gone;
	assert_int_equal(stub_ledger_strike(l, &o), 0);
}

static void a_way_back_keeps_what_was_struck(void **state)
{
	struct fixture *x = *state;
	uint32_t seen[200] = { 0 };
	struct stub_owed o[7];
	struct stub_handle last;
	struct stub_ledger *l;
	int n, all = 0;

	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	assert_int_equal(stub_ledger_struck(l, NULL, o, ARRAY_LEN(o)), 0);
	for (unsigned int i = 0; i < 100; i++)
		settle(x, l, i, STUB_OWED_DATA, false);
	settle(x, l, 5, STUB_OWED_ATTRS, false); /* whatever it was owed for */
	settle(x, l, 6, STUB_OWED_ATTRS, true);
	settle(x, l, 150, STUB_OWED_ATTRS, true);
	stub_ledger_close(l);
	fixture_reopen(x);
	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	for (bool more = false; (n = stub_ledger_struck(l, more ? &last : NULL, o, ARRAY_LEN(o))) > 0; more = true)
		for (int i = 0; i < n; i++) {
			unsigned int at;

			last = o[i].h;
			memcpy(&at, last.bytes, sizeof(at));
			assert_in_range(at, 0, 199);
			assert_int_equal(seen[at], 0);
			seen[at] = o[i].what;
			all++;
		}
	assert_int_equal(n, 0);
	assert_int_equal(all, 99);
	assert_int_equal(seen[5], STUB_OWED_DATA | STUB_OWED_ATTRS);
	assert_int_equal(seen[6], 0);
	assert_int_equal(seen[7], STUB_OWED_DATA);
	assert_int_equal(seen[150], 0);
	stub_ledger_close(l);
}

static void a_backup_keeps_nothing(void **state)
{
	struct fixture *x = *state;
	struct stub_owed o[7];
	struct stub_ledger *l;

	mirrored_make(x, STUB_MIRROR_BACKUP, false);
	assert_int_equal(stub_ledger_open(x->v, &l), 0);
	settle(x, l, 1, STUB_OWED_DATA, false);
	assert_int_equal(stub_ledger_struck(l, NULL, o, ARRAY_LEN(o)), 0);
	stub_ledger_close(l);
}

static void the_set_is_lost_and_the_word_is_not(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(stub_ledger_freeze(x->v, true), 0);
	stub_map_remove(x->v);
	assert_int_equal(stub_ledger_owe(x->v, stub_volume_root(x->v), STUB_OWED_ATTRS), -EAGAIN);
}

static void another_boot_is_not_frozen(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(stub_ledger_freeze(x->v, true), 0);
	x->v->boot++;
	assert_false(stub_ledger_frozen(x->v));
	x->v->boot--;
}

static void the_next_ledger_is_not_frozen(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(stub_ledger_freeze(x->v, true), 0);
	assert_int_equal(stub_mirror_remove(x->v), 0);
	assert_int_equal(stub_ledger_freeze(x->v, true), -ENOENT);
	assert_int_equal(stub_ledger_owe(x->v, stub_volume_root(x->v), STUB_OWED_ATTRS), 0);
	mirrored_make(x, STUB_MIRROR_BACKUP, true);
	assert_false(stub_ledger_frozen(x->v));
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		PLAIN(made_and_removed),
		TEST(a_way_back_owes_nothing),
		PLAIN(nobody_else_may_have_it_open),
		PLAIN(one_that_was_made_half),
		TEST(a_volume_with_a_mirror_stays_one),
		PLAIN(a_ledger_alone_is_no_mirror),
		PLAIN(a_volume_that_is_made_with_a_way_back),
		TEST(conf_that_is_wrong),
		TEST(conf_of_a_mirror_that_is_alone),
		TEST(conf_that_cannot_be),
		TEST(aside_is_named_after_the_volume),
		TEST(nothing_is_entered_while_frozen),
		TEST(frozen_for_good),
		TEST(what_flies_is_told),
		TEST(a_way_back_keeps_what_was_struck),
		PLAIN(a_backup_keeps_nothing),
		TEST(the_set_is_lost_and_the_word_is_not),
		TEST(another_boot_is_not_frozen),
		TEST(the_next_ledger_is_not_frozen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
