/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_recount.c - what a new writer begins to count with: the sizes in the queues are walked
 * through once if the last writer was of a release that does not count (journal_totals.c).
 */
#include "journal.h"

/* The sizes in queue @q, by a walk. */
static int recount(struct stub_jenv *e, MDB_txn *txn, int q, uint64_t *bytes)
{
	struct stub_journal_entry entry;
	MDB_val key, val;
	MDB_cursor *cur;
	int rc = mdb_cursor_open(txn, e->dbi[q], &cur);

	if (rc)
		return rc;
	rc = mdb_cursor_get(cur, &key, &val, MDB_FIRST);
	while (rc == 0) {
		if (stub_journal_value_parse(val.mv_data, val.mv_size, &entry) == 0)
			*bytes += stub_jtotals_size(&entry);
		stub_jenv_trim(e, 1);
		rc = mdb_cursor_get(cur, &key, &val, MDB_NEXT);
	}
	mdb_cursor_close(cur);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

int stub_jtotals_load(struct stub_jenv *e, struct stub_jtotals *out)
{
	MDB_txn *txn;
	int rc, r = stub_jenv_begin(e, MDB_RDONLY, &txn);

	if (r < 0)
		return r;
	memset(out, 0, sizeof(*out));
	rc = stub_jtotals_get(txn, e->unnamed, out);
	if (rc == MDB_NOTFOUND) {
		rc = 0;
		for (int q = 0; q < STUB_QUEUES && rc == 0; q++)
			rc = recount(e, txn, q, &out->bytes[q]);
	}
	stub_jenv_abort(e, txn);
	return stub_jenv_errno(rc);
}
