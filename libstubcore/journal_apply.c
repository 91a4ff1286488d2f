/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_apply.c - what a transaction does to the entries of the pending journal, and to the
 * totals beside them (docs/decisions/0060).
 *
 * In every transaction: an entry is in one queue only, the bytes of each queue are the sum of
 * what its entries were counted with, and found = done + left + parked.  To hold whatever happens,
 *   - the totals are read, changed and stored in the transaction itself.  They are not kept in
 *     memory in between: after a kill a reader may be shown an older transaction than that on
 *     which the next one is made (LMDB notes the last one for readers after its meta page is
 *     on the disk, and mends that only when somebody writes);
 *   - an entry's value has the bytes with which it was counted, and nothing else is subtracted;
 *   - one function, change(), touches entries and totals;
 *   - where that is not to be told, for a value is damaged, they are counted anew.
 */
#include "journal.h"

struct found {
	int queue; /* -1: not there */
	uint64_t bytes; /* with which it is counted */
	bool parked_dir; /* likewise */
	struct stub_journal_entry e;
};

/* A damaged value: its queue still tells the kind; the rest is read from the object later. */
static void salvage(enum stub_queue q, struct stub_journal_entry *e)
{
	memset(e, 0, sizeof(*e));
	e->kind = q == STUB_QUEUE_DIRS	? STUB_JOURNAL_DIR :
		  q == STUB_QUEUE_LINKS ? STUB_JOURNAL_LINKS :
					  STUB_JOURNAL_FILE;
}

static void parse(struct stub_jchange *c, int q, const MDB_val *val, struct found *f)
{
	f->queue = q;
	if (stub_journal_value_parse(val->mv_data, val->mv_size, &f->e) < 0 ||
	    stub_journal_queue(&f->e) != (enum stub_queue)q) {
		stub_log(c->log, STUB_LOG_ERROR,
			 "pending journal: damaged value of an entry, made anew");
		salvage((enum stub_queue)q, &f->e);
		c->uncertain = true;
	}
	f->bytes = stub_jtotals_size(&f->e);
	f->parked_dir = stub_jtotals_parked_dir(&f->e);
}

static int lookup(struct stub_jchange *c, MDB_val *key, struct found *f)
{
	MDB_val val;

	f->queue = -1;
	f->bytes = 0;
	f->parked_dir = false;
	for (int q = 0; q < STUB_QUEUES; q++) {
		int rc = mdb_get(c->txn, c->env->dbi[q], key, &val);

		if (rc == 0)
			parse(c, q, &val, f);
		if (rc != MDB_NOTFOUND)
			return rc;
	}
	return 0;
}

/* What lookup() has found as @was is to be as @is; NULL: to go. */
static int change(struct stub_jchange *c, MDB_val *key, const struct found *was,
		  const struct stub_journal_entry *is)
{
	uint8_t bytes[STUB_JOURNAL_VALUE_MAX];
	MDB_val val = { 0, bytes };
	int q = is ? (int)stub_journal_queue(is) : -1, rc = 0;

	c->dirty = true;
	if (was->queue >= 0 && was->queue != q)
		rc = mdb_del(c->txn, c->env->dbi[was->queue], key, NULL);
	if (rc == 0 && is) {
		val.mv_size = stub_journal_value_pack(is, bytes);
		rc = mdb_put(c->txn, c->env->dbi[q], key, &val, 0);
	}
	if (rc)
		return rc;
	if (was->queue >= 0)
		c->totals.bytes[was->queue] -= was->bytes;
	c->totals.parked_dirs -= was->parked_dir;
	if (is) {
		c->totals.bytes[q] += stub_jtotals_size(is);
		c->totals.parked_dirs += stub_jtotals_parked_dir(is);
	}
	return 0;
}

/* ---- the operations ---- */

static int apply_add(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	for (size_t i = 0; i < op->n; i++) {
		uint8_t bytes[STUB_JOURNAL_KEY_MAX];
		MDB_val key = { stub_journal_key_pack(&op->entry[i].h, bytes), bytes };
		struct found f;
		int rc = lookup(c, &key, &f);

		if (rc)
			return rc;
		if (f.queue < 0)
			memset(&f.e, 0, sizeof(f.e));
		/* another name of an inode that waits for names: it goes on waiting */
		if (f.queue != STUB_QUEUE_LINKS)
			f.e.kind = op->entry[i].kind;
		f.e.size = op->entry[i].size;
		f.e.mtime = op->entry[i].mtime;
		rc = change(c, &key, &f, &f.e);
		if (rc)
			return rc;
	}
	return 0;
}

static int apply_remove(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	for (size_t i = 0; i < op->n; i++) {
		uint8_t bytes[STUB_JOURNAL_KEY_MAX];
		MDB_val key = { stub_journal_key_pack(&op->h[i], bytes), bytes };
		struct found f;
		int rc = lookup(c, &key, &f);

		if (rc == 0 && f.queue < 0)
			continue;
		if (rc == 0)
			rc = change(c, &key, &f, NULL);
		if (rc)
			return rc;
		if (op->kind == STUB_JOP_REMOVE) {
			c->totals.done++;
			c->totals.done_bytes += f.bytes;
		}
		++*result;
	}
	return 0;
}

static int apply_fail(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	uint8_t bytes[STUB_JOURNAL_KEY_MAX];
	MDB_val key = { stub_journal_key_pack(op->h, bytes), bytes };
	struct found f;
	int rc = lookup(c, &key, &f);

	if (rc)
		return rc;
	if (f.queue < 0) {
		salvage(STUB_QUEUE_SMALL, &f.e);
		*result = -ENOENT;
	}
	if (f.e.tries < UINT16_MAX)
		f.e.tries++;
	f.e.error = op->error;
	if (op->park != STUB_PARK_NONE)
		f.e.park = (uint8_t)op->park;
	stub_journal_reason(f.e.reason, op->reason);
	return change(c, &key, &f, &f.e);
}

/* A fresh start: no tries. */
static void unpark(struct stub_journal_entry *e)
{
	e->park = STUB_PARK_NONE;
	e->tries = 0;
	e->reason[0] = '\0';
}

static int apply_unpark(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	for (size_t i = 0; i < op->n; i++) {
		uint8_t bytes[STUB_JOURNAL_KEY_MAX];
		MDB_val key = { stub_journal_key_pack(&op->h[i], bytes), bytes };
		struct found f;
		int rc = lookup(c, &key, &f);

		if (rc)
			return rc;
		if (f.queue < STUB_QUEUE_PARKED) /* or not there */
			continue;
		unpark(&f.e);
		rc = change(c, &key, &f, &f.e);
		if (rc)
			return rc;
		++*result;
	}
	return 0;
}

/* The first STUB_JOP_RETRIED entries of a parked queue. */
static int apply_retry(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	while (*result < STUB_JOP_RETRIED) {
		uint8_t bytes[512];
		MDB_val key, val, copy;
		MDB_cursor *cur;
		struct found f;
		int rc = mdb_cursor_open(c->txn, c->env->dbi[op->queue], &cur);

		if (rc)
			return rc;
		rc = mdb_cursor_get(cur, &key, &val, MDB_FIRST);
		mdb_cursor_close(cur);
		if (rc)
			return rc == MDB_NOTFOUND ? 0 : rc;
		if (key.mv_size > sizeof(bytes))
			return MDB_CORRUPTED;
		memcpy(bytes, key.mv_data, key.mv_size); /* a put moves what it points to */
		copy = (MDB_val){ key.mv_size, bytes };
		parse(c, (int)op->queue, &val, &f);
		unpark(&f.e);
		rc = change(c, &copy, &f, &f.e);
		if (rc)
			return rc;
		++*result;
	}
	return 0;
}

static int apply_kind(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	for (size_t i = 0; i < op->n; i++) {
		uint8_t bytes[STUB_JOURNAL_KEY_MAX];
		MDB_val key = { stub_journal_key_pack(&op->h[i], bytes), bytes };
		struct found f;
		int rc = lookup(c, &key, &f);

		if (rc == 0 && f.queue >= 0) {
			f.e.kind = (uint8_t)op->to;
			rc = change(c, &key, &f, &f.e);
			++*result;
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int apply_settle(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	return 0;
}

static int (*const apply[STUB_JOPS])(struct stub_jchange *c, const struct stub_jop *op,
				     int64_t *result) = {
	[STUB_JOP_ADD] = apply_add,	  [STUB_JOP_REMOVE] = apply_remove,
	[STUB_JOP_FORGET] = apply_remove, [STUB_JOP_FAIL] = apply_fail,
	[STUB_JOP_UNPARK] = apply_unpark, [STUB_JOP_RETRY] = apply_retry,
	[STUB_JOP_KIND] = apply_kind,	  [STUB_JOP_SETTLE] = apply_settle,
};

int stub_jchange_apply(struct stub_jchange *c, const struct stub_jop *op, int64_t *result)
{
	int rc;

	*result = 0;
	rc = apply[op->kind](c, op, result);
	stub_jenv_trim(c->env, (unsigned int)(4 * op->n + 1)); /* scattered */
	return rc;
}

/* ---- the transaction ---- */

int stub_jchange_begin(struct stub_jenv *e, const struct stub_log *log, uint64_t plain,
		       uint64_t plain_bytes, struct stub_jchange *out)
{
	int rc, r;

	*out = (struct stub_jchange){ .env = e, .log = log };
	r = stub_jenv_begin(e, 0, &out->txn);
	if (r < 0)
		return r;
	rc = stub_jtotals_get(out->txn, e->unnamed, mdb_txn_id(out->txn) - 1, &out->totals);
	if (rc == MDB_NOTFOUND) { /* an earlier release was the last that wrote */
		rc = 0;
		out->dirty = out->uncertain = true;
	}
	if (rc)
		stub_jenv_abort(e, out->txn);
	out->totals.plain += plain;
	out->totals.done_bytes += plain_bytes;
	return stub_jenv_errno(rc);
}

/* What has no entries has no bytes. */
static int check_empty(struct stub_jchange *c)
{
	MDB_stat st;

	for (int q = 0; q < STUB_QUEUES && !c->uncertain; q++) {
		int rc = mdb_stat(c->txn, c->env->dbi[q], &st);

		if (rc)
			return rc;
		c->uncertain = st.ms_entries == 0 && c->totals.bytes[q];
		if (c->uncertain)
			stub_log(c->log, STUB_LOG_ERROR,
				 "pending journal: the totals are wrong, and counted anew");
	}
	return 0;
}

int stub_jchange_commit(struct stub_jchange *c)
{
	int rc = c->dirty ? check_empty(c) : 0;

	if (rc == 0 && c->dirty && c->uncertain)
		rc = stub_jtotals_recount(c->env, c->txn, &c->totals);
	if (rc == 0 && c->dirty)
		rc = stub_jtotals_put(c->txn, c->env->unnamed, &c->totals);
	if (rc) {
		stub_jenv_abort(c->env, c->txn);
		return rc;
	}
	/* if nothing was changed it is no transaction at all, and needs no sync */
	return stub_jenv_commit(c->env, c->txn);
}

void stub_jchange_abort(struct stub_jchange *c)
{
	stub_jenv_abort(c->env, c->txn);
}
