/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_journal.c - the contract of the pending journal: entries, counts, the walk.
 * Damaged files and failing disks are in test_journal_damage.c, kill -9 in
 * test_journal_crash.c.
 */
#include "journal_util.h"

/* ---- keys and values ---- */

static void key_goes_there_and_back(void **state)
{
	static const int32_t types[] = { 1, 2, 0x81, 0x82, 0x4d, 0xfe, -1 };
	uint8_t key[STUB_JOURNAL_KEY_MAX];

	for (size_t t = 0; t < ARRAY_LEN(types); t++) {
		for (int len = 1; len <= STUB_HANDLE_MAX; len++) {
			struct stub_handle back, h = { .type = types[t], .len = (uint8_t)len };

			for (int i = 0; i < len; i++)
				h.bytes[i] = (uint8_t)(17 * i + len);
			assert_int_equal(stub_journal_key_pack(&h, key), 4 + len);
			assert_int_equal(stub_journal_key_parse(key, 4 + (size_t)len, &back), 0);
			assert_memory_equal(&h, &back, sizeof(h));
		}
	}
}

static void keys_sort_by_inode_number(void **state)
{
	uint8_t a[STUB_JOURNAL_KEY_MAX], b[STUB_JOURNAL_KEY_MAX];
	struct stub_handle x = handle_of(0x00ff), y = handle_of(0x0100);

	stub_journal_key_pack(&x, a);
	stub_journal_key_pack(&y, b);
	assert_true(memcmp(a, b, 12) < 0);
}

static void bad_keys_are_refused(void **state)
{
	uint8_t key[200] = { 0 };
	struct stub_handle h;

	assert_int_equal(stub_journal_key_parse(key, 0, &h), -EBADMSG);
	assert_int_equal(stub_journal_key_parse(key, 4, &h), -EBADMSG);
	assert_int_equal(stub_journal_key_parse(key, 133, &h), -EBADMSG);
	assert_int_equal(stub_journal_key_parse(key, 132, &h), 0);
}

static void value_goes_there_and_back(void **state)
{
	struct stub_journal_entry back, e = { .kind = STUB_JOURNAL_LINKS,
					      .park = STUB_PARK_CONFLICT,
					      .tries = 65535,
					      .error = -5,
					      .size = UINT64_MAX,
					      .mtime = INT64_MIN };
	uint8_t v[STUB_JOURNAL_VALUE_MAX];
	size_t len;

	memset(e.reason, 'r', STUB_REASON_MAX);
	memset(&back, 0, sizeof(back));
	len = stub_journal_value_pack(&e, v);
	assert_int_equal(len, STUB_JOURNAL_VALUE_MAX);
	assert_int_equal(stub_journal_value_parse(v, len, &back), 0);
	assert_memory_equal(&e, &back, sizeof(e));
}

static void bad_values_are_refused(void **state)
{
	struct stub_journal_entry e = { .kind = STUB_JOURNAL_FILE, .reason = "why" };
	uint8_t good[STUB_JOURNAL_VALUE_MAX], v[STUB_JOURNAL_VALUE_MAX + 1] = { 0 };
	size_t len = stub_journal_value_pack(&e, good);
	static const struct {
		int at, byte;
	} bad[] = { { 0, 0 }, { 0, 2 },	  { 1, 3 },  { 2, 3 },	   { 3, 2 },
		    { 3, 4 }, { 3, 120 }, { 26, 0 }, { 27, 0x1b }, { 28, 0x7f } };

	for (size_t i = 0; i < len; i++)
		assert_int_equal(stub_journal_value_parse(good, i, &e), -EBADMSG);
	memcpy(v, good, len);
	assert_int_equal(stub_journal_value_parse(v, len + 1, &e), -EBADMSG);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		memcpy(v, good, len);
		v[bad[i].at] = (uint8_t)bad[i].byte;
		assert_int_equal(stub_journal_value_parse(v, len, &e), -EBADMSG);
	}
}

static void reason_is_made_fit_to_show(void **state)
{
	char out[STUB_REASON_MAX + 1], text[200];

	stub_journal_reason(out, NULL);
	assert_string_equal(out, "");
	stub_journal_reason(out, "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x99\x82\xc2\xa0");
	assert_string_equal(out, "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x99\x82\xc2\xa0");
	stub_journal_reason(out, "C1: \xc2\x80 \xc2\x9b" "31m \xc2\x9f");
	assert_string_equal(out, "C1: ?? ??31m ??");
	stub_journal_reason(out, "Latin-1: \x9b" "31m \xe4 \xff");
	assert_string_equal(out, "Latin-1: ?31m ? ?");
	stub_journal_reason(out, "overlong \xc0\x9b \xe0\x80\x9b, surrogate \xed\xa0\x80, "
				 "beyond \xf4\x90\x80\x80, cut \xe2\x82");
	assert_string_equal(out, "overlong ?? ???, surrogate ???, beyond ????, cut ??");
	stub_journal_reason(out, "a\033[2Jb\nc");
	assert_string_equal(out, "a?[2Jb?c");
	memset(text, 'x', sizeof(text)); /* a character of two bytes across the end */
	memcpy(text + STUB_REASON_MAX - 1, "\xc3\xa4", 2);
	text[199] = '\0';
	stub_journal_reason(out, text);
	assert_int_equal(strlen(out), STUB_REASON_MAX - 1);
}

/* ---- opening ---- */

static int open_for_writing(void)
{
	struct stub_journal *j;
	int r = stub_journal_open(journal_dir, 0, NULL, NULL, &j);

	if (r == 0)
		stub_journal_close(j);
	return -r;
}

static void there_is_one_writer(void **state)
{
	struct stub_journal *j = open_journal(0), *k;

	assert_int_equal(stub_journal_open(journal_dir, 0, NULL, NULL, &k), -EBUSY);
	assert_int_equal(in_child(open_for_writing), EBUSY);
	stub_journal_close(j);
	assert_int_equal(in_child(open_for_writing), 0);
	stub_journal_close(open_journal(0));
}

static void reader_of_nothing(void **state)
{
	struct stub_journal *j;

	assert_int_equal(stub_journal_open(journal_dir, STUB_JOURNAL_READONLY, NULL, NULL, &j),
			 -ENOENT);
	assert_int_equal(mkdir(journal_dir, 0700), 0);
	assert_int_equal(stub_journal_open(journal_dir, STUB_JOURNAL_READONLY, NULL, NULL, &j),
			 -ENOENT);
}

static void reader_changes_nothing(void **state)
{
	struct stub_journal_entry e = entry_of(1, STUB_JOURNAL_FILE, 0);
	struct stub_journal *j = open_journal(0);

	stub_journal_close(j);
	j = open_journal(STUB_JOURNAL_READONLY);
	assert_int_equal(stub_journal_add(j, &e, 1), -EBADF);
	assert_int_equal(stub_journal_remove(j, &e.h, 1), -EBADF);
	stub_journal_close(j);
}

static int reads_seven(void)
{
	struct stub_journal_counts c;
	struct stub_journal *j;

	if (stub_journal_open(journal_dir, STUB_JOURNAL_READONLY, NULL, NULL, &j) < 0 ||
	    stub_journal_counts(j, &c) < 0)
		return 1;
	stub_journal_close(j);
	return c.total == 7 ? 0 : 2;
}

/* A scan in the retriever opens what the retriever has open already. */
static void reader_in_the_writers_process(void **state)
{
	struct stub_journal *w = open_journal(0), *r;

	add_many(w, 1, 10);
	remove_many(w, 1, 3);
	r = open_journal(STUB_JOURNAL_READONLY);
	assert_int_equal(walk_all(r, false), 7);
	stub_journal_close(r);
	assert_int_equal(in_child(reads_seven), 0);
	add_one(w, 20, STUB_JOURNAL_FILE, 1);
	assert_int_equal(counts_of(w).total, 8);
	r = open_journal(STUB_JOURNAL_READONLY);
	stub_journal_close(w); /* the reader outlives the writer */
	assert_int_equal(counts_of(r).total, 8);
	stub_journal_close(r);
}

/* ---- entries ---- */

static void entries_are_counted_by_kind(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_counts c;

	for (uint32_t i = 0; i < 5; i++)
		add_one(j, 10 + i, STUB_JOURNAL_DIR, 0);
	for (uint32_t i = 0; i < 4; i++)
		add_one(j, 20 + i, STUB_JOURNAL_FILE, i * 600000); /* small and large */
	for (uint32_t i = 0; i < 3; i++)
		add_one(j, 30 + i, STUB_JOURNAL_LINKS, 0);
	c = counts_of(j);
	assert_int_equal(c.total, 12);
	assert_int_equal(c.dirs, 5);
	assert_int_equal(c.files, 4);
	assert_int_equal(c.links, 3);
	assert_int_equal(c.errors + c.conflicts, 0);
	stub_journal_close(j);
	j = open_journal(0);
	assert_int_equal(counts_of(j).total, 12);
	stub_journal_close(j);
}

static void get_gives_what_was_added(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e = entry_of(5, STUB_JOURNAL_FILE, 1ull << 40), out;

	assert_int_equal(stub_journal_get(j, &e.h, &out), -ENOENT);
	e.tries = 3; /* a new entry starts afresh whatever it says */
	assert_int_equal(stub_journal_add(j, &e, 1), 0);
	assert_int_equal(stub_journal_get(j, &e.h, &out), 0);
	assert_true(stub_handle_equal(&out.h, &e.h));
	assert_int_equal(out.size, e.size);
	assert_int_equal(out.mtime, e.mtime);
	assert_int_equal(out.tries, 0);
	e.h.len = 0;
	assert_int_equal(stub_journal_add(j, &e, 1), -EINVAL);
	e.h.len = 255;
	assert_int_equal(stub_journal_get(j, &e.h, &out), -ENOENT);
	stub_journal_close(j);
}

static void adding_again_keeps_tries_and_park(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e = entry_of(5, STUB_JOURNAL_FILE, 10), out;

	add_one(j, 5, STUB_JOURNAL_FILE, 10);
	assert_int_equal(stub_journal_fail(j, &e.h, STUB_PARK_ERROR, EIO, "bad sector"), 0);
	add_one(j, 5, STUB_JOURNAL_LINKS, 2000000);
	assert_int_equal(stub_journal_get(j, &e.h, &out), 0);
	assert_int_equal(out.kind, STUB_JOURNAL_LINKS);
	assert_int_equal(out.size, 2000000);
	assert_int_equal(out.tries, 1);
	assert_int_equal(out.park, STUB_PARK_ERROR);
	assert_int_equal(out.error, EIO);
	assert_string_equal(out.reason, "bad sector");
	assert_int_equal(counts_of(j).total, 1);
	assert_int_equal(counts_of(j).errors, 1);
	stub_journal_close(j);
}

/* Within seconds: how long the commit takes is the disk's business. */
static int sees_none(void)
{
	struct stub_journal_counts c = { .total = 1 };
	struct stub_journal *j;

	if (stub_journal_open(journal_dir, STUB_JOURNAL_READONLY, NULL, NULL, &j) < 0)
		return 1;
	for (int ms = 0; ms < 2000 && c.total; ms += 5) {
		usleep(5000);
		stub_journal_counts(j, &c);
	}
	stub_journal_close(j);
	return c.total != 0;
}

static void removals_are_soon_seen_by_others(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h = handle_of(1), unknown = handle_of(99);

	add_one(j, 1, STUB_JOURNAL_FILE, 10);
	assert_int_equal(stub_journal_remove(j, &unknown, 1), 0);
	assert_int_equal(counts_of(j).total, 1);
	assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	assert_int_equal(in_child(sees_none), 0);
	stub_journal_close(j);
}

static void add_after_remove_stays(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry out;
	struct stub_handle h = handle_of(1);

	for (int i = 0; i < 100; i++) {
		add_one(j, 1, STUB_JOURNAL_FILE, 10);
		assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	}
	add_one(j, 1, STUB_JOURNAL_FILE, 10);
	usleep(100000);
	assert_int_equal(stub_journal_get(j, &h, &out), 0);
	assert_int_equal(counts_of(j).total, 1);
	stub_journal_close(j);
}

static void removals_are_done_at_close(void **state)
{
	struct stub_journal *j = open_journal(0);

	add_many(j, 1, 2000);
	remove_many(j, 1, 2000);
	stub_journal_close(j);
	j = open_journal(STUB_JOURNAL_READONLY);
	assert_int_equal(walk_all(j, true), 0);
	stub_journal_close(j);
}

static void failures_are_recorded(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h = handle_of(1), unknown = handle_of(2);
	struct stub_journal_entry e;

	add_one(j, 1, STUB_JOURNAL_DIR, 0);
	assert_int_equal(stub_journal_fail(j, &h, STUB_PARK_NONE, EACCES, NULL), 0);
	assert_int_equal(stub_journal_get(j, &h, &e), 0);
	assert_int_equal(e.tries, 1);
	assert_int_equal(e.error, EACCES);
	assert_int_equal(e.park, STUB_PARK_NONE);
	assert_int_equal(stub_journal_fail(j, &h, STUB_PARK_CONFLICT, ESTALE, "size differs"), 0);
	assert_int_equal(stub_journal_fail(j, &h, STUB_PARK_NONE, EIO, "again"), 0);
	assert_int_equal(stub_journal_get(j, &h, &e), 0);
	assert_int_equal(e.tries, 3);
	assert_int_equal(e.park, STUB_PARK_CONFLICT); /* once parked, parked */
	assert_int_equal(e.kind, STUB_JOURNAL_DIR);
	assert_int_equal(stub_journal_fail(j, &unknown, STUB_PARK_ERROR, EIO, "lost"), -ENOENT);
	assert_int_equal(stub_journal_get(j, &unknown, &e), 0); /* but not lost */
	assert_string_equal(e.reason, "lost");
	assert_int_equal(counts_of(j).errors, 1);
	assert_int_equal(counts_of(j).conflicts, 1);
	assert_int_equal(counts_of(j).dirs, 0);
	stub_journal_close(j);
}

static void retry_unparks(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e;
	struct stub_handle h;

	for (uint32_t i = 0; i < 50; i++) {
		h = handle_of(i);
		add_one(j, i, i % 2 ? STUB_JOURNAL_DIR : STUB_JOURNAL_FILE, 0);
		stub_journal_fail(j, &h, i < 20 ? STUB_PARK_CONFLICT : STUB_PARK_ERROR, EIO, "no");
	}
	assert_int_equal(walk_all(j, false), 0);
	assert_int_equal(walk_all(j, true), 50);
	assert_int_equal(stub_journal_retry(j, 1u << STUB_PARK_ERROR), 30);
	assert_int_equal(counts_of(j).conflicts, 20);
	assert_int_equal(counts_of(j).dirs, 15);
	assert_int_equal(counts_of(j).files, 15);
	assert_int_equal(stub_journal_get(j, &h, &e), 0);
	assert_int_equal(e.park, STUB_PARK_NONE);
	assert_int_equal(e.tries, 0);
	assert_int_equal(stub_journal_retry(j, ~0u), 20);
	assert_int_equal(stub_journal_retry(j, ~0u), 0);
	stub_journal_close(j);
}

static void unpark_these(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h[5];
	struct stub_journal_entry e;

	for (uint32_t i = 0; i < 4; i++) {
		h[i] = handle_of(i);
		add_one(j, i, STUB_JOURNAL_FILE, 0);
		if (i < 3)
			stub_journal_fail(j, &h[i], i ? STUB_PARK_CONFLICT : STUB_PARK_ERROR, EIO,
					  "no");
	}
	stub_journal_fail(j, &h[3], STUB_PARK_NONE, EIO, "no");
	h[4] = handle_of(99);
	/* the first two, one that is not parked, one that is not there */
	h[2] = h[3];
	h[3] = h[4];
	assert_int_equal(stub_journal_unpark_these(j, h, 4), 2);
	assert_int_equal(counts_of(j).conflicts, 1);
	assert_int_equal(counts_of(j).errors, 0);
	assert_int_equal(stub_journal_get(j, &h[2], &e), 0);
	assert_int_equal(e.tries, 1); /* left as it was */
	assert_int_equal(stub_journal_unpark_these(j, h, 4), 0);
	assert_int_equal(stub_journal_unpark(j, &h[0]), -ENOENT);
	assert_int_equal(stub_journal_unpark_these(j, h, 0), 0);
	h[1].len = 0;
	assert_int_equal(stub_journal_unpark_these(j, h, 2), -EINVAL);
	stub_journal_close(j);
}

static void retry_of_more_than_one_transaction(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e[1000];
	MDB_txn *txn;

	/* parked by hand: 10 000 calls of fail() would take their time */
	assert_int_equal(stub_jenv_begin(j->env, 0, &txn), 0);
	for (uint32_t i = 0; i < 10000; i++) {
		uint8_t key[STUB_JOURNAL_KEY_MAX], value[STUB_JOURNAL_VALUE_MAX];
		MDB_val k = { 0, key }, v = { 0, value };

		e[0] = entry_of(i, STUB_JOURNAL_FILE, 1);
		e[0].park = STUB_PARK_ERROR;
		k.mv_size = stub_journal_key_pack(&e[0].h, key);
		v.mv_size = stub_journal_value_pack(&e[0], value);
		assert_int_equal(mdb_put(txn, j->env->dbi[STUB_QUEUE_ERRORS], &k, &v, 0), 0);
	}
	assert_int_equal(stub_jenv_commit(j->env, txn), 0);
	assert_int_equal(counts_of(j).errors, 10000);
	assert_int_equal(stub_journal_retry(j, 1u << STUB_PARK_ERROR), 10000);
	assert_int_equal(counts_of(j).files, 10000);
	assert_int_equal(walk_all(j, false), 10000);
	stub_journal_close(j);
}

static uint64_t commits_of(struct stub_journal *j)
{
	MDB_envinfo info;

	assert_int_equal(mdb_env_info(j->env->env, &info), 0);
	return info.me_last_txnid;
}

static void kind_can_be_changed(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h = handle_of(1), unknown = handle_of(2);

	add_one(j, 1, STUB_JOURNAL_FILE, 5000000);
	assert_int_equal(stub_journal_set_kind(j, &h, 1, STUB_JOURNAL_LINKS), 1);
	assert_int_equal(counts_of(j).links, 1);
	assert_int_equal(counts_of(j).total, 1);
	assert_int_equal(stub_journal_set_kind(j, &unknown, 1, STUB_JOURNAL_LINKS), 0);
	stub_journal_close(j);
}

/* Many at once: one transaction, and one that is not there harms none of the others. */
static void kinds_are_changed_in_one_transaction(void **state)
{
	enum { N = 1000 };
	struct stub_journal *j = open_journal(0);
	struct stub_handle h[N];
	uint64_t before;

	for (uint32_t i = 0; i < N; i++) {
		h[i] = handle_of(i);
		if (i != 500)
			add_one(j, i, STUB_JOURNAL_FILE, 5000000);
	}
	before = commits_of(j);
	assert_int_equal(stub_journal_set_kind(j, h, N, STUB_JOURNAL_LINKS), N - 1);
	assert_int_equal(commits_of(j), before + 1);
	assert_int_equal(counts_of(j).links, N - 1);
	assert_int_equal(counts_of(j).total, N - 1);
	h[7].len = 0;
	assert_int_equal(stub_journal_set_kind(j, h, N, STUB_JOURNAL_FILE), -EINVAL);
	assert_int_equal(counts_of(j).links, N - 1);
	stub_journal_close(j);
}

static void removed_counts_an_entry_once(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h[3] = { handle_of(1), handle_of(2), handle_of(1) };

	add_one(j, 1, STUB_JOURNAL_FILE, 5000000);
	add_one(j, 2, STUB_JOURNAL_DIR, 0);
	assert_int_equal(stub_journal_remove(j, h, 3), 0);
	assert_int_equal(stub_journal_removed(j), 2);
	assert_int_equal(stub_journal_remove(j, h, 3), 0);
	assert_int_equal(stub_journal_removed(j), 2);
	stub_journal_close(j);
}

/* ---- the walk ---- */

static void walk_goes_in_working_order(void **state)
{
	static const uint32_t order[] = { 70, 80, 50, 60, 30, 40, 10, 20, 90, 95 };
	struct stub_journal *j = open_journal(0);
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e;
	struct stub_handle h;

	add_one(j, 20, STUB_JOURNAL_LINKS, 0);
	add_one(j, 10, STUB_JOURNAL_LINKS, 9000000);
	add_one(j, 40, STUB_JOURNAL_FILE, 1u << 20);
	add_one(j, 30, STUB_JOURNAL_FILE, 1ull << 50);
	add_one(j, 60, STUB_JOURNAL_FILE, (1u << 20) - 1);
	add_one(j, 50, STUB_JOURNAL_FILE, 0);
	add_one(j, 80, STUB_JOURNAL_DIR, 0);
	add_one(j, 70, STUB_JOURNAL_DIR, 1ull << 50);
	add_one(j, 95, STUB_JOURNAL_DIR, 0);
	add_one(j, 90, STUB_JOURNAL_DIR, 0);
	h = handle_of(90);
	stub_journal_fail(j, &h, STUB_PARK_ERROR, EIO, "");
	h = handle_of(95);
	stub_journal_fail(j, &h, STUB_PARK_CONFLICT, EIO, "");
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		assert_int_equal(stub_journal_next(j, &c, true, &e, 1), 1);
		assert_int_equal(number_of(&e.h), order[i]);
	}
	assert_int_equal(stub_journal_next(j, &c, true, &e, 1), 0);
	stub_journal_parked(&c);
	for (size_t i = 8; i < ARRAY_LEN(order); i++) {
		assert_int_equal(stub_journal_next(j, &c, true, &e, 1), 1);
		assert_int_equal(number_of(&e.h), order[i]);
	}
	assert_int_equal(stub_journal_next(j, &c, true, &e, 1), 0);
	stub_journal_parked(&c);
	assert_int_equal(stub_journal_next(j, &c, false, &e, 1), 0);
	assert_int_equal(walk_all(j, false), 8);
	stub_journal_close(j);
}

static void cursor_survives_changes(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e[10];

	add_many(j, 100, 100);
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), 10);
	assert_int_equal(number_of(&e[9].h), 109);
	remove_many(j, 105, 10); /* the cursor's own entry and what follows */
	add_one(j, 50, STUB_JOURNAL_FILE, 1); /* behind it: not met any more */
	assert_int_equal(counts_of(j).total, 91);
	assert_int_equal(stub_journal_next(j, &c, false, e, 1), 1);
	assert_int_equal(number_of(&e[0].h), 115);
	while (stub_journal_next(j, &c, false, e, 10) == 10)
		;
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), 0);
	add_one(j, 500, STUB_JOURNAL_LINKS, 1); /* after the end: met when asked again */
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), 1);
	c.len = 1000;
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), -EINVAL);
	stub_journal_close(j);
}

static void walk_in_large_steps(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry *e = calloc(5000, sizeof(*e));

	add_many(j, 1, 4000); /* several read transactions in one call */
	assert_int_equal(stub_journal_next(j, &c, false, e, 5000), 4000);
	for (uint32_t i = 0; i < 4000; i++)
		assert_int_equal(number_of(&e[i].h), i + 1);
	free(e);
	stub_journal_close(j);
}

/* ---- many threads ---- */

#define THREADS 8
#define ROUNDS	60

static atomic_bool stop_readers;
static struct stub_journal *shared;

static void *adder(void *arg)
{
	uint32_t base = 1000 * (uint32_t)(uintptr_t)arg;
	struct stub_journal *j = shared;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct stub_journal_entry e[3], out;

		for (uint32_t k = 0; k < 3; k++)
			e[k] = entry_of(base + 3 * i + k, STUB_JOURNAL_FILE, 1);
		assert_int_equal(stub_journal_add(j, e, 3), 0);
		assert_int_equal(stub_journal_get(j, &e[1].h, &out), 0);
		assert_int_equal(stub_journal_remove(j, &e[0].h, 1), 0);
	}
	return NULL;
}

static void *reader(void *arg)
{
	struct stub_journal *j = arg;

	while (!atomic_load(&stop_readers))
		assert_true(walk_all(j, true) >= 0);
	return NULL;
}

static void threads_share_the_journal(void **state)
{
	struct stub_journal *j = open_journal(0);
	pthread_t t[THREADS], r;

	shared = j;
	atomic_store(&stop_readers, false);
	pthread_create(&r, NULL, reader, j);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, adder, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	atomic_store(&stop_readers, true);
	pthread_join(r, NULL);
	assert_int_equal(counts_of(j).total, 2 * THREADS * ROUNDS);
	assert_int_equal(walk_all(j, true), 2 * THREADS * ROUNDS);
	stub_journal_close(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_goes_there_and_back),
		cmocka_unit_test(keys_sort_by_inode_number),
		cmocka_unit_test(bad_keys_are_refused),
		cmocka_unit_test(value_goes_there_and_back),
		cmocka_unit_test(bad_values_are_refused),
		cmocka_unit_test(reason_is_made_fit_to_show),
		journal_test(there_is_one_writer),
		journal_test(reader_of_nothing),
		journal_test(reader_changes_nothing),
		journal_test(reader_in_the_writers_process),
		journal_test(entries_are_counted_by_kind),
		journal_test(get_gives_what_was_added),
		journal_test(adding_again_keeps_tries_and_park),
		journal_test(removals_are_soon_seen_by_others),
		journal_test(add_after_remove_stays),
		journal_test(removals_are_done_at_close),
		journal_test(failures_are_recorded),
		journal_test(retry_unparks),
		journal_test(unpark_these),
		journal_test(retry_of_more_than_one_transaction),
		journal_test(kind_can_be_changed),
		journal_test(kinds_are_changed_in_one_transaction),
		journal_test(removed_counts_an_entry_once),
		journal_test(walk_goes_in_working_order),
		journal_test(cursor_survives_changes),
		journal_test(walk_in_large_steps),
		journal_test(threads_share_the_journal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
