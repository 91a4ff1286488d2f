/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_totals.c - what has been counted, beside the entries (docs/decisions/0060).
 *
 * One more record of the unnamed database, stored by each transaction that changes an entry: so
 * it is as right after a crash as the entries are, and costs no write of its own (the page that
 * has it has the roots of the queues too).
 *
 *   u32 version = 1   u32 1: counted since the journal was made
 *   u64 id of the transaction that stored it
 *   u64 done   u64 bytes done   u64 objects without an entry
 *   u64 bytes in each queue, as enum stub_queue has them
 *   u64 directories that are parked                                    (little-endian)
 *
 * A release that does not know it leaves it as it is.  Its transactions have other ids: then what
 * is here is not believed any more.
 */
#include "bytes.h"
#include "journal.h"

#define TOTALS	"postcopy-totals"
#define VERSION 1
#define FIXED	40
#define PARKED	(FIXED + 8 * STUB_QUEUES)
#define BYTES	(PARKED + 8)

int stub_jtotals_get(MDB_txn *txn, MDB_dbi unnamed, uint64_t last, struct stub_jtotals *out)
{
	MDB_val val, key = { strlen(TOTALS), (void *)TOTALS };
	const uint8_t *p;
	int rc = mdb_get(txn, unnamed, &key, &val);

	if (rc)
		return rc;
	p = val.mv_data;
	if (val.mv_size != BYTES || stub_get_le(p, 4) != VERSION || stub_get_le(p + 4, 4) > 1 ||
	    stub_get_le(p + 8, 8) != last)
		return MDB_NOTFOUND;
	out->whole = stub_get_le(p + 4, 4);
	out->done = stub_get_le(p + 16, 8);
	out->done_bytes = stub_get_le(p + 24, 8);
	out->plain = stub_get_le(p + 32, 8);
	for (int q = 0; q < STUB_QUEUES; q++)
		out->bytes[q] = stub_get_le(p + FIXED + 8 * q, 8);
	out->parked_dirs = stub_get_le(p + PARKED, 8);
	return 0;
}

int stub_jtotals_put(MDB_txn *txn, MDB_dbi unnamed, const struct stub_jtotals *t)
{
	uint8_t bytes[BYTES];
	MDB_val key = { strlen(TOTALS), (void *)TOTALS }, val = { sizeof(bytes), bytes };

	stub_put_le(bytes, VERSION, 4);
	stub_put_le(bytes + 4, t->whole, 4);
	stub_put_le(bytes + 8, mdb_txn_id(txn), 8);
	stub_put_le(bytes + 16, t->done, 8);
	stub_put_le(bytes + 24, t->done_bytes, 8);
	stub_put_le(bytes + 32, t->plain, 8);
	for (int q = 0; q < STUB_QUEUES; q++)
		stub_put_le(bytes + FIXED + 8 * q, t->bytes[q], 8);
	stub_put_le(bytes + PARKED, t->parked_dirs, 8);
	return mdb_put(txn, unnamed, &key, &val, 0);
}
