/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_recount.c - the totals' judge: what the queues add up to, by a walk.  For a writer where
 * they are not known (the last one was of a release that does not count, a value was damaged), and
 * for who wants to know whether they are right.
 */
#include "journal.h"

static int recount(struct stub_jenv *e, MDB_txn *txn, int q, struct stub_jtotals *t)
{
	struct stub_journal_entry entry;
	MDB_val key, val;
	MDB_cursor *cur;
	int rc = mdb_cursor_open(txn, e->dbi[q], &cur);

	if (rc)
		return rc;
	rc = mdb_cursor_get(cur, &key, &val, MDB_FIRST);
	while (rc == 0) {
		if (stub_journal_value_parse(val.mv_data, val.mv_size, &entry) == 0 &&
		    stub_journal_queue(&entry) == (enum stub_queue)q) {
			t->bytes[q] += stub_jtotals_size(&entry);
			t->parked_dirs += stub_jtotals_parked_dir(&entry);
		}
		stub_jenv_trim(e, 1);
		rc = mdb_cursor_get(cur, &key, &val, MDB_NEXT);
	}
	mdb_cursor_close(cur);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

int stub_jtotals_recount(struct stub_jenv *e, MDB_txn *txn, struct stub_jtotals *t)
{
	int rc = 0;

	t->parked_dirs = 0;
	for (int q = 0; q < STUB_QUEUES && rc == 0; q++) {
		t->bytes[q] = 0;
		rc = recount(e, txn, q, t);
	}
	return rc;
}
