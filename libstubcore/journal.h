/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal.h - what the files of the pending journal share.
 *
 *   journal.c        opening, reading: get, counts, walk
 *   journal_txn.c    the writer: group commit
 *   journal_apply.c  everything that changes entries and totals, in a transaction
 *   journal_env.c    the LMDB environment: one per process, map size, transactions
 *   journal_totals.c what has been counted, stored in the same transactions
 *   journal_recount.c counting anew
 *   journal_value.c  keys and values on disk
 *   journal_check.c  is data.mdb fit to be given to LMDB?
 */
#ifndef STUBCORE_JOURNAL_H
#define STUBCORE_JOURNAL_H

#include <lmdb.h>

#include "internal.h"

/* ---- journal_value.c ---- */

/* An entry is in exactly one queue; each is an LMDB database of its own, in the
 * order in which the crawler works. */
enum stub_queue {
	STUB_QUEUE_DIRS,
	STUB_QUEUE_SMALL, /* files below STUB_QUEUE_LARGE_SIZE */
	STUB_QUEUE_LARGE,
	STUB_QUEUE_LINKS,
	STUB_QUEUE_ERRORS, /* parked from here on */
	STUB_QUEUE_CONFLICTS,
	STUB_QUEUES,
};

#define STUB_QUEUE_PARKED     STUB_QUEUE_ERRORS
#define STUB_QUEUE_LARGE_SIZE (1u << 20)

#define STUB_JOURNAL_KEY_MAX   (4 + STUB_HANDLE_MAX)
#define STUB_JOURNAL_VALUE_FIX 26
#define STUB_JOURNAL_VALUE_MAX (STUB_JOURNAL_VALUE_FIX + STUB_REASON_MAX)

static inline bool stub_journal_handle_ok(const struct stub_handle *h)
{
	return h->len >= 1 && h->len <= STUB_HANDLE_MAX;
}

enum stub_queue stub_journal_queue(const struct stub_journal_entry *e);
size_t stub_journal_key_pack(const struct stub_handle *h, uint8_t key[STUB_JOURNAL_KEY_MAX]);
int stub_journal_key_parse(const uint8_t *key, size_t len, struct stub_handle *out); /* -EBADMSG */
size_t stub_journal_value_pack(const struct stub_journal_entry *e,
			       uint8_t value[STUB_JOURNAL_VALUE_MAX]);
/* Everything but the handle.  -EBADMSG */
int stub_journal_value_parse(const uint8_t *value, size_t len, struct stub_journal_entry *out);
/* Copy @text so that a terminal and JSON can take it; NULL is "". */
void stub_journal_reason(char out[STUB_REASON_MAX + 1], const char *text);

/* ---- journal_check.c ---- */

/* Is the data.mdb behind @fd fit to be given to LMDB?  0, -EBADMSG (logged), -EIO. */
int stub_journal_check(int fd, const struct stub_log *log);

/* Make both meta pages durable as they read now.  A sync alone does not: a page that the
 * kernel failed to write is read back as written, but never written again.  Only for the
 * one writer, outside of transactions.  0, -EBADMSG (logged), -EIO ... */
int stub_journal_put_back(int fd, const struct stub_log *log);

/* ---- journal_totals.c ---- */

struct stub_jtotals {
	bool whole;
	uint64_t bytes[STUB_QUEUES]; /* modulo 2^64, as all sums here */
	uint64_t done, done_bytes;
	uint64_t plain; /* objects that never had an entry */
	uint64_t parked_dirs;
};

static inline uint64_t stub_jtotals_size(const struct stub_journal_entry *e)
{
	return e->kind == STUB_JOURNAL_DIR ? 0 : e->size;
}

static inline bool stub_jtotals_parked_dir(const struct stub_journal_entry *e)
{
	return e->kind == STUB_JOURNAL_DIR && e->park != STUB_PARK_NONE;
}

/* Those that transaction number @last has stored, the last one before @txn.  MDB_NOTFOUND: it has
 * not, an earlier release made it. */
int stub_jtotals_get(MDB_txn *txn, MDB_dbi unnamed, uint64_t last, struct stub_jtotals *out);
/* Store them in @txn, which will be the last one then. */
int stub_jtotals_put(MDB_txn *txn, MDB_dbi unnamed, const struct stub_jtotals *t);

/* ---- journal_env.c ---- */

struct stub_jwriter;

struct stub_jenv {
	struct stub_jenv *next;
	unsigned int refs;
	pid_t pid;
	dev_t dev; /* of the directory */
	ino_t ino;
	int dir_fd;
	size_t map_bytes; /* wanted at opening */
	struct stub_log log; /* of who opened first: must outlive the environment */

	pthread_rwlock_t map_lock; /* shared: in a transaction; exclusive: env, map change */
	MDB_env *env; /* NULL: could not be opened again after an error */
	MDB_dbi dbi[STUB_QUEUES];
	MDB_dbi unnamed; /* marker and totals */
	void *map; /* for stub_jenv_trim(); NULL: not known */
	size_t map_len;
	unsigned int generation; /* how often env was opened */

	atomic_uint touched; /* entries met since the last trim */

	pthread_mutex_t writer_lock; /* outermost; protects the pointer and what it points to */
	struct stub_jwriter *writer; /* this process writes */
	atomic_bool writes; /* a writer is there; false only after its last transaction */
};

/* The environment of the directory @dir_fd (stays the caller's), shared by everybody
 * in this process.  -ENOENT, -EBADMSG, -EIO, -ENOMEM ... */
int stub_jenv_get(int dir_fd, size_t map_bytes, const struct stub_log *log, struct stub_jenv **out);
void stub_jenv_put(struct stub_jenv *e);
/* Make an empty journal appear in @dir_fd in one step. */
int stub_jenv_make(int dir_fd, size_t map_bytes, const struct stub_log *log);
/* stub_journal_put_back() of the journal in @dir_fd: for the one writer, before its first
 * transaction. */
int stub_jenv_settle(int dir_fd, const struct stub_log *log);

/* Begin a transaction; the map cannot move until it ends.  -errno.  Every
 * successful begin is ended by exactly one of abort and commit. */
int stub_jenv_begin(struct stub_jenv *e, unsigned int flags, MDB_txn **out);
void stub_jenv_abort(struct stub_jenv *e, MDB_txn *txn);
int stub_jenv_commit(struct stub_jenv *e, MDB_txn *txn); /* MDB's code */
int stub_jenv_grow(struct stub_jenv *e); /* double the map; outside transactions */
/* Give mapped pages back now and then; inside a transaction, @n entries were met. */
void stub_jenv_trim(struct stub_jenv *e, unsigned int n);
int stub_jenv_errno(int rc); /* MDB's code to -errno */

/* ---- journal_recount.c ---- */

/* What entries add up to, by a walk in @txn: bytes and parked directories of @t.  MDB's code */
int stub_jtotals_recount(struct stub_jenv *e, MDB_txn *txn, struct stub_jtotals *t);

/* ---- journal_apply.c ---- */

enum stub_jop_kind {
	STUB_JOP_ADD,
	STUB_JOP_REMOVE,
	STUB_JOP_FORGET,
	STUB_JOP_FAIL,
	STUB_JOP_UNPARK,
	STUB_JOP_RETRY,
	STUB_JOP_KIND,
	STUB_JOP_SETTLE,
	STUB_JOPS,
};

#define STUB_JOP_RETRIED 4096 /* entries un-parked in one RETRY */

struct stub_jop {
	enum stub_jop_kind kind;
	const struct stub_journal_entry *entry; /* ADD */
	const struct stub_handle *h;
	size_t n;
	enum stub_queue queue; /* RETRY */
	enum stub_park park; /* FAIL */
	int error;
	const char *reason;
	enum stub_journal_kind to; /* KIND */
};

/* A transaction that changes the journal. */
struct stub_jchange {
	struct stub_jenv *env;
	const struct stub_log *log;
	MDB_txn *txn;
	struct stub_jtotals totals; /* as they are after what was applied so far */
	bool dirty; /* something was changed */
	bool uncertain; /* a damaged value was met: nobody knows with what it was counted */
};

/* Begin one, after @plain more objects without an entry, of @plain_bytes.  -errno.  Ended by
 * exactly one of _commit and _abort. */
int stub_jchange_begin(struct stub_jenv *e, const struct stub_log *log, uint64_t plain,
		       uint64_t plain_bytes, struct stub_jchange *out);
/* *result: -errno of this one alone, or what it returns.  MDB's code */
int stub_jchange_apply(struct stub_jchange *c, const struct stub_jop *op, int64_t *result);
int stub_jchange_commit(struct stub_jchange *c); /* MDB's code */
void stub_jchange_abort(struct stub_jchange *c);

/* ---- journal.c ---- */

struct stub_journal {
	struct stub_log log;
	struct stub_jenv *env;
	struct stub_jwriter *writer; /* NULL: read-only */
	int writer_fd; /* holds the lock that makes us the one writer */
};

/* stub_journal_open() with another size of the map than the usual one (tests). */
int stub_journal_open_sized(const char *dir, unsigned int flags, size_t map_bytes, stub_log_fn log,
			    void *log_arg, struct stub_journal **out);

/* ---- journal_txn.c ---- */

int stub_jwriter_create(struct stub_jenv *e, const struct stub_log *log, struct stub_jwriter **out);
void stub_jwriter_destroy(struct stub_jwriter *w); /* commits what is queued */
/* If this process writes the journal: wait until every removal handed in before is
 * committed (or its failure logged), so that a reader sees it. */
void stub_jwriter_settle(struct stub_jenv *e);

#endif
