/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_owed.c - what the replicator has taken over from the lists: .postcopy/ledger/owed, LMDB.
 *
 *   owed   type and bytes of a handle -> u32 what, u64 turn
 *   turns  u64 turn, big endian -> as the key of `owed`
 *   taken  u64 number of a list -> u32 entries of it that were taken over
 *   struck (of a way back) as the key of `owed` -> u32 what, of all that was ever owed and is there still
 *
 * One process has it open (ledger_take.c has the lock), and one thread is in it at a time: LMDB
 * needs no locks of its own.  A commit that failed leaves it closed for good: it is opened anew.
 */
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>

#include "journal.h"
#include "ledger.h"

#define MAP_FIRST (64u << 20)
#define VALUE	  12

enum { OWED, TURNS, TAKEN, STRUCK, TABLES };
static const char *const names[TABLES] = { "owed", "turns", "taken", "struck" };

struct stub_owed_db {
	MDB_env *env;
	MDB_dbi t[TABLES];
	uint64_t turn; /* the last that was given */
	bool broken, keeps; /* keeps: there is the table of what was struck */
	struct stub_log log;
};

static int open_table(struct stub_owed_db *db, MDB_txn *txn, int i, unsigned int flags)
{
	int rc;

	if (i == STRUCK && flags && !db->keeps)
		return 0;
	rc = mdb_dbi_open(txn, names[i], flags, &db->t[i]);
	if (i != STRUCK)
		return rc;
	db->keeps = rc == 0;
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int open_tables(struct stub_owed_db *db, unsigned int flags)
{
	MDB_cursor *c;
	MDB_val k, val;
	MDB_txn *txn;
	int rc = mdb_txn_begin(db->env, NULL, flags ? 0 : MDB_RDONLY, &txn);

	if (rc)
		return rc;
	for (int i = 0; i < TABLES && rc == 0; i++)
		rc = open_table(db, txn, i, flags);
	if (rc == 0)
		rc = mdb_cursor_open(txn, db->t[TURNS], &c);
	if (rc == 0) {
		rc = mdb_cursor_get(c, &k, &val, MDB_LAST);
		mdb_cursor_close(c);
		if (rc == 0 && k.mv_size != 8)
			rc = MDB_INVALID;
		for (unsigned int i = 0; rc == 0 && i < 8; i++)
			db->turn = db->turn << 8 | ((uint8_t *)k.mv_data)[i];
		if (rc == MDB_NOTFOUND)
			rc = 0;
	}
	if (rc) {
		mdb_txn_abort(txn);
		return rc == MDB_NOTFOUND ? MDB_INVALID : rc;
	}
	return mdb_txn_commit(txn);
}

static int open_db(int dir_fd, const struct stub_log *log, unsigned int flags, bool keeps,
		   struct stub_owed_db **out)
{
	struct stub_owed_db *db = calloc(1, sizeof(*db));
	int rc, fd CLEANUP_CLOSE =
		openat(dir_fd, STUB_SET_OWED, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char path[40];

	if (!db || fd < 0) {
		free(db);
		return fd < 0 ? errno == ENOENT ? -EBADMSG : -errno : -ENOMEM;
	}
	if (log)
		db->log = *log;
	db->keeps = keeps;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = mdb_env_create(&db->env);
	if (rc == 0) {
		mdb_env_set_maxdbs(db->env, TABLES);
		mdb_env_set_mapsize(db->env, MAP_FIRST);
		rc = mdb_env_open(db->env, path, MDB_NORDAHEAD | MDB_NOTLS | MDB_NOLOCK, 0600);
	} else {
		db->env = NULL;
	}
	if (rc == 0)
		rc = open_tables(db, flags);
	if (rc == 0 && flags && fsync(fd) < 0)
		rc = errno;
	if (rc) {
		stub_owed_close(db);
		return stub_jenv_errno(rc);
	}
	*out = db;
	return 0;
}

int stub_owed_make(int dir_fd, bool keeps)
{
	struct stub_owed_db *db;
	int r = stub_remove_tree(dir_fd, STUB_SET_OWED);

	if (r < 0 && r != -ENOENT)
		return r;
	if (mkdirat(dir_fd, STUB_SET_OWED, 0700) < 0)
		return -errno;
	r = open_db(dir_fd, NULL, MDB_CREATE, keeps, &db);
	if (r == 0)
		stub_owed_close(db);
	return r == 0 && fsync(dir_fd) < 0 ? -errno : r;
}

int stub_owed_open(int dir_fd, const struct stub_log *log, struct stub_owed_db **out)
{
	int r, fd CLEANUP_CLOSE = openat(dir_fd, STUB_SET_OWED "/data.mdb",
					 O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? -EBADMSG : -errno;
	r = stub_journal_check(fd, log);
	if (r == 0)
		r = stub_journal_put_back(fd, log);
	return r < 0 ? r : open_db(dir_fd, log, 0, false, out);
}

void stub_owed_close(struct stub_owed_db *db)
{
	if (!db)
		return;
	if (db->env)
		mdb_env_close(db->env);
	free(db);
}

/* ---- transactions ---- */

typedef int (*change_fn)(struct stub_owed_db *db, MDB_txn *txn, void *arg);

/* Durable on return.  Larger where it is full. */
static int change(struct stub_owed_db *db, change_fn fn, void *arg)
{
	uint64_t turn = db->turn;
	MDB_envinfo info;
	MDB_txn *txn;
	int rc;

	for (int tries = 0; tries < 8; tries++) {
		if (db->broken)
			return -EIO;
		rc = mdb_txn_begin(db->env, NULL, 0, &txn);
		if (rc == 0) {
			rc = fn(db, txn, arg);
			if (rc)
				mdb_txn_abort(txn);
			else
				rc = mdb_txn_commit(txn);
		}
		if (rc == 0)
			return 0;
		db->turn = turn;
		if (rc != MDB_MAP_FULL)
			break;
		mdb_env_info(db->env, &info);
		rc = mdb_env_set_mapsize(db->env, info.me_mapsize * 2);
		if (rc)
			break;
	}
	db->broken = db->broken || rc == MDB_PANIC || rc == EIO;
	stub_log(&db->log, STUB_LOG_ERROR, "the mirror's ledger: %s", mdb_strerror(rc));
	return stub_jenv_errno(rc);
}

static MDB_val turn_key(uint64_t turn, uint8_t b[8])
{
	for (unsigned int i = 0; i < 8; i++)
		b[i] = (uint8_t)(turn >> (56 - 8 * i));
	return (MDB_val){ 8, b };
}

static MDB_val handle_key(const struct stub_handle *h, uint8_t b[STUB_JOURNAL_KEY_MAX])
{
	return (MDB_val){ stub_journal_key_pack(h, b), b };
}

static int get(struct stub_owed_db *db, MDB_txn *txn, MDB_val *k, uint32_t *what, uint64_t *turn)
{
	MDB_val val;
	int rc = mdb_get(txn, db->t[OWED], k, &val);

	if (rc)
		return rc;
	if (val.mv_size != VALUE)
		return MDB_CORRUPTED;
	*what = (uint32_t)stub_get_le(val.mv_data, 4) & STUB_OWED_ALL;
	*turn = stub_get_le((uint8_t *)val.mv_data + 4, 8);
	return 0;
}

static int drop_turn(struct stub_owed_db *db, MDB_txn *txn, uint64_t turn)
{
	uint8_t b[8];
	MDB_val k = turn_key(turn, b);
	int rc = mdb_del(txn, db->t[TURNS], &k, NULL);

	return rc == MDB_NOTFOUND ? 0 : rc;
}

struct putting {
	const struct stub_owing *o;
	size_t n;
	uint64_t list;
	uint32_t next;
};

static int put_one(struct stub_owed_db *db, MDB_txn *txn, const struct stub_owing *o)
{
	uint8_t key[STUB_JOURNAL_KEY_MAX], value[VALUE], tb[8];
	MDB_val k = handle_key(&o->h, key), val = { VALUE, value }, t;
	uint32_t what = 0;
	uint64_t turn;
	int rc = get(db, txn, &k, &what, &turn);

	if (rc == 0)
		rc = drop_turn(db, txn, turn);
	else if (rc == MDB_NOTFOUND)
		rc = 0;
	if (rc)
		return rc;
	t = turn_key(++db->turn, tb);
	stub_put_le(value, what | o->what, 4);
	stub_put_le(value + 4, db->turn, 8);
	rc = mdb_put(txn, db->t[OWED], &k, &val, 0);
	return rc ? rc : mdb_put(txn, db->t[TURNS], &t, &k, 0);
}

static int put_all(struct stub_owed_db *db, MDB_txn *txn, void *arg)
{
	const struct putting *p = arg;
	uint8_t kb[8], vb[4];
	MDB_val k = { 8, kb }, val = { 4, vb };
	int rc = 0;

	for (size_t i = 0; i < p->n && rc == 0; i++)
		rc = put_one(db, txn, &p->o[i]);
	if (rc || !p->list)
		return rc;
	stub_put_le(kb, p->list, 8);
	stub_put_le(vb, p->next, 4);
	return mdb_put(txn, db->t[TAKEN], &k, &val, 0);
}

int stub_owed_put(struct stub_owed_db *db, const struct stub_owing *o, size_t n, uint64_t list,
		  uint32_t next)
{
	struct putting p = { o, n, list, next };

	return change(db, put_all, &p);
}

static int forget(struct stub_owed_db *db, MDB_txn *txn, void *arg)
{
	uint8_t kb[8];
	MDB_val k = { 8, kb };
	int rc;

	stub_put_le(kb, *(uint64_t *)arg, 8);
	rc = mdb_del(txn, db->t[TAKEN], &k, NULL);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

int stub_owed_forget(struct stub_owed_db *db, uint64_t list)
{
	return change(db, forget, &list);
}

/* @k was struck: what is gone is not kept. */
static int keep(struct stub_owed_db *db, MDB_txn *txn, MDB_val *k, uint32_t what, bool gone)
{
	uint8_t value[4];
	MDB_val val;
	int rc;

	if (!db->keeps)
		return 0;
	if (gone) {
		rc = mdb_del(txn, db->t[STRUCK], k, NULL);
		return rc == MDB_NOTFOUND ? 0 : rc;
	}
	rc = mdb_get(txn, db->t[STRUCK], k, &val);
	if (rc == 0 && val.mv_size != sizeof(value))
		rc = MDB_CORRUPTED;
	if (rc && rc != MDB_NOTFOUND)
		return rc;
	stub_put_le(value, what | (rc ? 0 : (uint32_t)stub_get_le(val.mv_data, 4)), 4);
	val = (MDB_val){ sizeof(value), value };
	return mdb_put(txn, db->t[STRUCK], k, &val, 0);
}

struct striking {
	const struct stub_owed *o;
	size_t n;
};

static int strike_all(struct stub_owed_db *db, MDB_txn *txn, void *arg)
{
	const struct striking *s = arg;
	int rc = 0;

	for (size_t i = 0; i < s->n && rc == 0; i++) {
		uint8_t key[STUB_JOURNAL_KEY_MAX];
		MDB_val k = handle_key(&s->o[i].h, key);
		uint32_t what;
		uint64_t turn;

		rc = get(db, txn, &k, &what, &turn);
		if (rc == 0 && turn == s->o[i].turn) {
			rc = mdb_del(txn, db->t[OWED], &k, NULL);
			rc = rc ? rc : drop_turn(db, txn, turn);
			rc = rc ? rc : keep(db, txn, &k, what, s->o[i].gone);
		}
		if (rc == MDB_NOTFOUND)
			rc = 0;
	}
	return rc;
}

int stub_owed_strike(struct stub_owed_db *db, const struct stub_owed *o, size_t n)
{
	struct striking s = { o, n };

	return change(db, strike_all, &s);
}

/* ---- looks ---- */

static int look(struct stub_owed_db *db, MDB_txn **txn)
{
	return db->broken ? MDB_PANIC : mdb_txn_begin(db->env, NULL, MDB_RDONLY, txn);
}

int stub_owed_get(struct stub_owed_db *db, const struct stub_handle *h, uint32_t *what,
		  uint64_t *turn)
{
	uint8_t key[STUB_JOURNAL_KEY_MAX];
	MDB_val k = handle_key(h, key);
	MDB_txn *txn;
	int rc = look(db, &txn);

	if (rc == 0) {
		rc = get(db, txn, &k, what, turn);
		mdb_txn_abort(txn);
	}
	return stub_jenv_errno(rc);
}

int stub_owed_taken(struct stub_owed_db *db, uint64_t list, uint32_t *next)
{
	uint8_t kb[8];
	MDB_val k = { 8, kb }, val;
	MDB_txn *txn;
	int rc = look(db, &txn);

	*next = 0;
	if (rc)
		return stub_jenv_errno(rc);
	stub_put_le(kb, list, 8);
	rc = mdb_get(txn, db->t[TAKEN], &k, &val);
	if (rc == 0 && val.mv_size == 4)
		*next = (uint32_t)stub_get_le(val.mv_data, 4);
	mdb_txn_abort(txn);
	return rc == MDB_NOTFOUND ? 0 : stub_jenv_errno(rc);
}

int stub_owed_next(struct stub_owed_db *db, uint64_t after, struct stub_owed *out,
		   unsigned int max)
{
	uint8_t tb[8];
	MDB_val t = turn_key(after + 1, tb), k;
	MDB_cursor *c;
	MDB_txn *txn;
	unsigned int n = 0;
	int rc = look(db, &txn);

	if (rc)
		return stub_jenv_errno(rc);
	rc = mdb_cursor_open(txn, db->t[TURNS], &c);
	if (rc) {
		mdb_txn_abort(txn);
		return stub_jenv_errno(rc);
	}
	for (rc = mdb_cursor_get(c, &t, &k, MDB_SET_RANGE); rc == 0 && n < max;
	     rc = mdb_cursor_get(c, &t, &k, MDB_NEXT)) {
		struct stub_owed *o = &out[n++];

		memset(o, 0, sizeof(*o));
		if (stub_journal_key_parse(k.mv_data, k.mv_size, &o->h) < 0)
			rc = MDB_CORRUPTED;
		rc = rc ? rc : get(db, txn, &k, &o->what, &o->turn);
		if (rc)
			break;
	}
	mdb_cursor_close(c);
	mdb_txn_abort(txn);
	return rc == 0 || (rc == MDB_NOTFOUND && t.mv_data) ? (int)n : stub_jenv_errno(rc);
}

int stub_owed_struck(struct stub_owed_db *db, const struct stub_handle *after, struct stub_owed *out,
		     unsigned int max)
{
	uint8_t key[STUB_JOURNAL_KEY_MAX];
	MDB_val from = { 0 }, k, val;
	unsigned int n = 0;
	MDB_cursor *c;
	MDB_txn *txn;
	int rc = db->keeps ? look(db, &txn) : MDB_NOTFOUND;

	if (rc)
		return rc == MDB_NOTFOUND ? 0 : stub_jenv_errno(rc);
	if (after)
		k = from = handle_key(after, key);
	rc = mdb_cursor_open(txn, db->t[STRUCK], &c);
	if (rc) {
		mdb_txn_abort(txn);
		return stub_jenv_errno(rc);
	}
	rc = mdb_cursor_get(c, &k, &val, after ? MDB_SET_RANGE : MDB_FIRST);
	if (rc == 0 && after && k.mv_size == from.mv_size && !memcmp(k.mv_data, key, k.mv_size))
		rc = mdb_cursor_get(c, &k, &val, MDB_NEXT);
	for (; rc == 0 && n < max; rc = mdb_cursor_get(c, &k, &val, MDB_NEXT)) {
		struct stub_owed *o = &out[n++];

		memset(o, 0, sizeof(*o));
		if (stub_journal_key_parse(k.mv_data, k.mv_size, &o->h) < 0 || val.mv_size != 4) {
			rc = MDB_CORRUPTED;
			break;
		}
		o->what = (uint32_t)stub_get_le(val.mv_data, 4) & STUB_OWED_ALL;
	}
	mdb_cursor_close(c);
	mdb_txn_abort(txn);
	return rc == 0 || rc == MDB_NOTFOUND ? (int)n : stub_jenv_errno(rc);
}

int stub_owed_count(struct stub_owed_db *db, uint64_t *n)
{
	MDB_txn *txn;
	MDB_stat st;
	int rc = look(db, &txn);

	if (rc == 0) {
		rc = mdb_stat(txn, db->t[OWED], &st);
		*n = st.ms_entries;
		mdb_txn_abort(txn);
	}
	return stub_jenv_errno(rc);
}
