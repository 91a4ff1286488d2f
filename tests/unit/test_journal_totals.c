/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_journal_totals.c - what is counted beside the entries is always what a walk finds, for
 * readers too; and is not believed when somebody wrote who does not count.
 */
#include "journal_util.h"

static void an_empty_journal_has_found_nothing(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_totals t = totals_are_a_walk(j);

	assert_true(t.whole);
	assert_int_equal(t.found, 0);
	assert_int_equal(t.found_bytes, 0);
	stub_journal_close(j);
}

static void found_is_done_and_left_and_parked(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_totals t;
	struct stub_handle h[4] = { handle_of(2), handle_of(3), handle_of(99), handle_of(2) };

	add_one(j, 1, STUB_JOURNAL_DIR, 4096); /* the size of a directory is nobody's data */
	add_one(j, 2, STUB_JOURNAL_FILE, 100);
	add_one(j, 3, STUB_JOURNAL_FILE, 5000000);
	add_one(j, 4, STUB_JOURNAL_FILE, 70);
	t = totals_are_a_walk(j);
	assert_int_equal(t.found, 4);
	assert_int_equal(t.found_bytes, 5000170);
	assert_int_equal(t.dirs, 1);
	assert_int_equal(stub_journal_set_kind(j, &h[1], 1, STUB_JOURNAL_LINKS), 1);
	t = totals_are_a_walk(j);
	assert_int_equal(t.left_bytes, 170); /* its data is here, only names are missing */
	assert_int_equal(t.done_bytes, 5000000);
	assert_int_equal(t.done, 0);
	h[0] = handle_of(4);
	assert_int_equal(stub_journal_fail(j, h, STUB_PARK_ERROR, EIO, "no"), 0);
	t = totals_are_a_walk(j);
	assert_int_equal(t.parked, 1);
	assert_int_equal(t.parked_bytes, 70);
	h[0] = handle_of(2);
	assert_int_equal(stub_journal_remove(j, h, 4), 0);
	t = totals_are_a_walk(j);
	assert_int_equal(t.done, 2);
	assert_int_equal(t.done_bytes, 5000100);
	assert_int_equal(t.found, 4);
	assert_int_equal(t.found_bytes, 5000170);
	assert_int_equal(stub_journal_retry(j, ~0u), 1);
	assert_int_equal(totals_are_a_walk(j).left_bytes, 70);
	add_one(j, 4, STUB_JOURNAL_FILE, 90); /* listed again, and larger by now */
	t = totals_are_a_walk(j);
	assert_int_equal(t.found, 4);
	assert_int_equal(t.found_bytes, 5000190);
	stub_journal_close(j);
}

/* What is not there, by a client or by a kill before it was linked, is neither found nor done. */
static void what_is_gone_does_not_count(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h[3] = { handle_of(1), handle_of(3), handle_of(77) };
	struct stub_journal_totals t;

	add_one(j, 1, STUB_JOURNAL_FILE, 100);
	add_one(j, 2, STUB_JOURNAL_FILE, 5000000);
	add_one(j, 3, STUB_JOURNAL_FILE, 70);
	assert_int_equal(stub_journal_fail(j, &h[1], STUB_PARK_CONFLICT, EIO, "no"), 0);
	assert_int_equal(stub_journal_forget(j, h, 3), 0);
	t = totals_are_a_walk(j);
	assert_int_equal(t.found, 1);
	assert_int_equal(t.found_bytes, 5000000);
	assert_int_equal(t.done, 0);
	assert_int_equal(t.done_bytes, 0);
	assert_int_equal(stub_journal_removed(j), 2);
	stub_journal_close(j);
}

/* An object that misses nothing has no entry; the next transaction has it. */
static void objects_without_an_entry(void **state)
{
	struct stub_journal *j = open_journal(0);

	stub_journal_plain(j, 3, 0);
	add_one(j, 1, STUB_JOURNAL_FILE, 10);
	stub_journal_plain(j, 2, 70);
	add_one(j, 2, STUB_JOURNAL_FILE, 10);
	assert_int_equal(totals_are_a_walk(j).done, 5);
	assert_int_equal(totals_are_a_walk(j).found, 7);
	assert_int_equal(totals_are_a_walk(j).done_bytes, 70);
	assert_int_equal(totals_are_a_walk(j).found_bytes, 90);
	stub_journal_close(j);
}

/* As every later release must read it. */
static void bytes_on_the_disk(void **state)
{
	static const uint8_t want[] = { 1, 0, 0, 0, 1, 0, 0, 0,	      /* version, whole */
					0, 0, 0, 0, 0, 0, 0, 0,	      /* transaction, see below */
					1, 0, 0, 0, 0, 0, 0, 0,	      /* done */
					0, 2, 0, 0, 0, 0, 0, 0,	      /* bytes */
					3, 0, 0, 0, 0, 0, 0, 0,	      /* without an entry */
					0, 0, 0, 0, 0, 0, 0, 0,	      /* directories */
					0, 1, 0, 0, 0, 0, 0, 0,	      /* small */
					0, 0, 0x10, 0, 0, 0, 0, 0,    /* large */
					0, 0, 0, 0, 0, 0, 0, 0,	      /* links */
					0, 3, 0, 0, 0, 0, 0, 0,	      /* errors */
					0, 0, 0, 0, 0, 0, 0, 0,	      /* conflicts */
					1, 0, 0, 0, 0, 0, 0, 0 };     /* parked directories */
	MDB_val v, k = { strlen("postcopy-totals"), (void *)"postcopy-totals" };
	struct stub_journal *j = open_journal(0);
	struct stub_handle h = handle_of(4);
	uint8_t bytes[sizeof(want)];
	MDB_txn *txn;

	stub_journal_plain(j, 3, 0);
	add_one(j, 1, STUB_JOURNAL_FILE, 0x100);
	add_one(j, 2, STUB_JOURNAL_FILE, 0x100000);
	add_one(j, 3, STUB_JOURNAL_FILE, 0x200);
	add_one(j, 4, STUB_JOURNAL_FILE, 0x300);
	stub_journal_fail(j, &h, STUB_PARK_ERROR, EIO, "no");
	add_one(j, 5, STUB_JOURNAL_DIR, 4096);
	h = handle_of(5);
	stub_journal_fail(j, &h, STUB_PARK_CONFLICT, EIO, "no");
	h = handle_of(3);
	assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	totals_are_a_walk(j);
	assert_int_equal(stub_jenv_begin(j->env, MDB_RDONLY, &txn), 0);
	assert_int_equal(mdb_get(txn, j->env->unnamed, &k, &v), 0);
	assert_int_equal(v.mv_size, sizeof(want));
	memcpy(bytes, v.mv_data, sizeof(want));
	assert_int_equal(stub_get_le(bytes + 8, 8), mdb_txn_id(txn));
	memset(bytes + 8, 0, 8);
	assert_memory_equal(bytes, want, sizeof(want));
	stub_jenv_abort(j->env, txn);
	stub_journal_close(j);
}

static void one_step(struct stub_journal *j)
{
	uint32_t i = (uint32_t)random() % 300;
	struct stub_handle h = handle_of(i);

	switch (random() % 7) {
	case 0:
	case 1:
		add_one(j, i, (enum stub_journal_kind)(random() % 3),
			random() % 5 ? (uint64_t)random() % 3000000 : 1ull << 50);
		break;
	case 2:
		assert_int_equal(stub_journal_remove(j, &h, 1), 0);
		break;
	case 3:
		stub_journal_fail(j, &h, (enum stub_park)(random() % 3), EIO, "x");
		break;
	case 4:
		stub_journal_unpark(j, &h);
		break;
	case 5:
		stub_journal_set_kind(j, &h, 1, (enum stub_journal_kind)(random() % 3));
		break;
	default:
		if (random() % 20 == 0)
			stub_journal_retry(j, 1u << (random() % 3));
	}
}

static void anything_in_any_order(void **state)
{
	struct stub_journal_totals t, before;
	struct stub_journal *j;

	srandom(7);
	for (int round = 0; round < 4; round++) {
		j = open_journal(0);
		for (int i = 0; i < 150; i++)
			one_step(j);
		before = totals_are_a_walk(j);
		stub_journal_close(j);
		j = open_journal(STUB_JOURNAL_READONLY); /* stored, and for others too */
		t = totals_are_a_walk(j);
		assert_memory_equal(&t, &before, sizeof(t));
		assert_true(t.whole);
		stub_journal_close(j);
	}
}

static uint64_t commits_of(struct stub_journal *j)
{
	MDB_envinfo info;

	assert_int_equal(mdb_env_info(j->env->env, &info), 0);
	return info.me_last_txnid;
}

/* No transaction where there was none before: each one is a sync. */
static void what_changes_nothing_is_not_written(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h = handle_of(7);
	struct stub_journal_totals t;
	uint64_t before;

	add_one(j, 1, STUB_JOURNAL_FILE, 10);
	before = commits_of(j);
	assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	assert_int_equal(stub_journal_totals(j, &t), 0); /* settles */
	assert_int_equal(stub_journal_unpark(j, &h), -ENOENT);
	assert_int_equal(commits_of(j), before);
	stub_journal_close(j);
}

/* A transaction as a release that does not count makes it: an entry, and what @damage says. */
static void write_by_hand(uint32_t i, void (*damage)(struct stub_journal *j, MDB_txn *txn))
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e = entry_of(i, STUB_JOURNAL_FILE, 1000);
	uint8_t key[STUB_JOURNAL_KEY_MAX], value[STUB_JOURNAL_VALUE_MAX];
	MDB_val k = { stub_journal_key_pack(&e.h, key), key };
	MDB_val v = { stub_journal_value_pack(&e, value), value };
	MDB_txn *txn;

	assert_int_equal(stub_jenv_begin(j->env, 0, &txn), 0);
	assert_int_equal(mdb_put(txn, j->env->dbi[STUB_QUEUE_SMALL], &k, &v, 0), 0);
	if (damage)
		damage(j, txn);
	assert_int_equal(stub_jenv_commit(j->env, txn), 0);
	stub_journal_close(j);
}

static void begins_anew(void)
{
	struct stub_journal_totals t;
	struct stub_journal *j = open_journal(STUB_JOURNAL_READONLY);

	assert_int_equal(stub_journal_totals(j, &t), -ENODATA);
	assert_int_equal(stub_journal_audit(j), -ENODATA);
	stub_journal_close(j);
	j = open_journal(0);
	t = totals_are_a_walk(j); /* who writes counts at once, and stores it */
	assert_int_equal(t.found, 2);
	assert_int_equal(t.left_bytes, 1100);
	add_one(j, 50, STUB_JOURNAL_FILE, 7);
	t = totals_are_a_walk(j);
	assert_false(t.whole);
	assert_int_equal(t.found, 3);
	assert_int_equal(t.left_bytes, 1107);
	assert_int_equal(t.done, 0);
	stub_journal_close(j);
}

static void after_a_release_that_does_not_count(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_handle h = handle_of(1);

	add_one(j, 1, STUB_JOURNAL_FILE, 10);
	add_one(j, 2, STUB_JOURNAL_FILE, 100);
	assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	stub_journal_close(j);
	write_by_hand(3, NULL);
	begins_anew();
}

static void cut_short(struct stub_journal *j, MDB_txn *txn)
{
	MDB_val k = { strlen("postcopy-totals"), (void *)"postcopy-totals" }, v = { 3, "abc" };

	assert_int_equal(mdb_put(txn, j->env->unnamed, &k, &v, 0), 0);
}

/* A true length, the right transaction, and another version. */
static void other_version(struct stub_journal *j, MDB_txn *txn)
{
	MDB_val old, v, k = { strlen("postcopy-totals"), (void *)"postcopy-totals" };
	uint8_t bytes[200];

	assert_int_equal(mdb_get(txn, j->env->unnamed, &k, &old), 0);
	assert_true(old.mv_size <= sizeof(bytes));
	memcpy(bytes, old.mv_data, old.mv_size);
	v = (MDB_val){ old.mv_size, bytes };
	bytes[0] = 2;
	stub_put_le(bytes + 8, mdb_txn_id(txn), 8);
	assert_int_equal(mdb_put(txn, j->env->unnamed, &k, &v, 0), 0);
}

static void damaged_totals_are_counted_anew(void **state)
{
	static void (*const damages[])(struct stub_journal *j, MDB_txn *txn) = { cut_short,
										 other_version };

	for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
		char cmd[160];

		struct stub_journal *j = open_journal(0);

		add_one(j, 2, STUB_JOURNAL_FILE, 100);
		stub_journal_close(j);
		write_by_hand(3, damages[i]);
		begins_anew();
		snprintf(cmd, sizeof(cmd), "rm -rf %s", journal_dir);
		assert_int_equal(system(cmd), 0);
	}
}

/* Totals that say @more bytes of small files than there are. */
static uint64_t more;

static void lie(struct stub_journal *j, MDB_txn *txn)
{
	MDB_val v, k = { strlen("postcopy-totals"), (void *)"postcopy-totals" };
	uint8_t bytes[200];

	assert_int_equal(mdb_get(txn, j->env->unnamed, &k, &v), 0);
	memcpy(bytes, v.mv_data, v.mv_size);
	v.mv_data = bytes;
	stub_put_le(bytes + 48, stub_get_le(bytes + 48, 8) + 1000 + more, 8); /* + the entry's */
	stub_put_le(bytes + 8, mdb_txn_id(txn), 8);
	assert_int_equal(mdb_put(txn, j->env->unnamed, &k, &v, 0), 0);
}

static void wrong_totals_are_noticed(void **state)
{
	struct stub_handle h[2] = { handle_of(2), handle_of(3) };
	struct stub_journal *j = open_journal(0);

	add_one(j, 2, STUB_JOURNAL_FILE, 100);
	stub_journal_close(j);
	more = 0;
	write_by_hand(3, lie);
	j = open_journal(0);
	totals_are_a_walk(j);
	stub_journal_close(j);
	more = (uint64_t)-16;
	write_by_hand(3, lie);
	j = open_journal(0);
	assert_int_equal(stub_journal_audit(j), -EUCLEAN);
	assert_int_equal(stub_journal_remove(j, h, 2), 0);
	totals_are_a_walk(j); /* nothing left has no bytes */
	stub_journal_close(j);
}

/* Nobody knows with what it was counted. */
static void a_damaged_value_is_counted_anew(void **state)
{
	struct stub_journal *j = open_journal(0);
	uint8_t key[STUB_JOURNAL_KEY_MAX];
	struct stub_handle h = handle_of(2);
	MDB_val k = { stub_journal_key_pack(&h, key), key }, v = { 3, "abc" };
	struct stub_journal_totals t;
	MDB_txn *txn;

	add_one(j, 1, STUB_JOURNAL_FILE, 10);
	add_one(j, 2, STUB_JOURNAL_FILE, 100);
	assert_int_equal(stub_jenv_begin(j->env, 0, &txn), 0);
	assert_int_equal(mdb_put(txn, j->env->dbi[STUB_QUEUE_SMALL], &k, &v, 0), 0);
	more = (uint64_t)-1000; /* of this transaction, and as they were */
	lie(j, txn);
	assert_int_equal(stub_jenv_commit(j->env, txn), 0);
	assert_int_equal(stub_journal_audit(j), -EUCLEAN);
	assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	t = totals_are_a_walk(j);
	assert_int_equal(t.left_bytes, 10);
	assert_int_equal(t.done, 1);
	stub_journal_close(j);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		journal_test(an_empty_journal_has_found_nothing),
		journal_test(found_is_done_and_left_and_parked),
		journal_test(what_is_gone_does_not_count),
		journal_test(objects_without_an_entry),
		journal_test(bytes_on_the_disk),
		journal_test(anything_in_any_order),
		journal_test(what_changes_nothing_is_not_written),
		journal_test(after_a_release_that_does_not_count),
		journal_test(damaged_totals_are_counted_anew),
		journal_test(wrong_totals_are_noticed),
		journal_test(a_damaged_value_is_counted_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
