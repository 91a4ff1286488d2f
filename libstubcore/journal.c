/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal.c - the pending journal: opening it, and reading it.
 *
 * The journal is the set of handles of inodes that are not finished (docs/design.md, invariant 4),
 * the crawler's work queue, and its cardinality is the counter (invariant 6).
 *
 * An LMDB environment in a directory of its own, with one database per queue
 * (enum stub_queue): key is the handle, value the rest.  An entry is in exactly
 * one of them, so that
 *   - counts are the sizes that LMDB keeps for each database: exact after any
 *     crash, because they change in the transaction that changes the entries, and
 *     read in time independent of their number;
 *   - the walk in working order is a walk through the databases, and meets parked
 *     entries only at its end;
 *   - no index can disagree with what it indexes.
 *
 * Readers use short transactions of at most READ_CHUNK entries, so that the
 * writer can use freed pages again; a cursor is just the last key met.
 *
 * Files: data.mdb and lock.mdb are LMDB's; `writer` is locked (OFD) by the process
 * that has the journal open for writing.  The lock is inherited by fork: a child
 * that outlives the retriever must close what it inherited.
 * data.mdb appears complete (stub_jenv_make), so one that is not is damaged.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "journal.h"

#define WRITER_FILE "writer"
#define MAP_BYTES   ((size_t)16 << 30)
#define READ_CHUNK  1024 /* entries per read transaction */

/* ---- opening ---- */

static int lock_writer(int dir_fd, int *out)
{
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd CLEANUP_CLOSE =
		openat(dir_fd, WRITER_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &f) < 0)
		return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
	*out = stub_steal_fd(&fd);
	return 0;
}

static int open_writer(struct stub_journal *j, int dir_fd, size_t map_bytes)
{
	int r = lock_writer(dir_fd, &j->writer_fd);

	if (r < 0)
		return r;
	if (faccessat(dir_fd, "data.mdb", F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		r = stub_jenv_make(dir_fd, map_bytes, &j->log);
	}
	if (r == 0)
		r = stub_jenv_settle(dir_fd, &j->log);
	if (r == 0)
		r = stub_jenv_get(dir_fd, map_bytes, &j->log, &j->env);
	if (r == 0)
		r = stub_jwriter_create(j->env, &j->log, &j->writer);
	return r;
}

int stub_journal_open_sized(const char *dir, unsigned int flags, size_t map_bytes, stub_log_fn log,
			    void *log_arg, struct stub_journal **out)
{
	struct stub_journal *j;
	int r, dir_fd CLEANUP_CLOSE = -1;

	if (!(flags & (STUB_JOURNAL_READONLY | STUB_JOURNAL_EXISTING)) && mkdir(dir, 0700) < 0 &&
	    errno != EEXIST)
		return -errno;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	if (flags & STUB_JOURNAL_EXISTING && faccessat(dir_fd, "data.mdb", F_OK, 0) < 0)
		return -errno;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->writer_fd = -1;
	j->log = (struct stub_log){ log, log_arg };
	if (flags & STUB_JOURNAL_READONLY) {
		r = stub_jenv_get(dir_fd, map_bytes, &j->log, &j->env);
		if (r == 0)
			stub_jwriter_settle(j->env);
	} else {
		r = open_writer(j, dir_fd, map_bytes);
	}
	if (r < 0) {
		stub_journal_close(j);
		return r;
	}
	*out = j;
	return 0;
}

STUB_PUBLIC int stub_journal_open(const char *dir, unsigned int flags, stub_log_fn log,
				  void *log_arg, struct stub_journal **out)
{
	return stub_journal_open_sized(dir, flags, MAP_BYTES, log, log_arg, out);
}

STUB_PUBLIC void stub_journal_close(struct stub_journal *j)
{
	if (!j)
		return;
	stub_jwriter_destroy(j->writer);
	stub_jenv_put(j->env);
	stub_cleanup_close(&j->writer_fd); /* last: the next writer may come now */
	free(j);
}

/* ---- reading ---- */

static int damaged(const struct stub_journal *j, const char *what)
{
	stub_log(&j->log, STUB_LOG_ERROR, "pending journal: damaged %s of an entry", what);
	return -EBADMSG;
}

/* The value must parse, and belong into the queue in which it was found. */
static int parse_value(const struct stub_journal *j, enum stub_queue q, const MDB_val *val,
		       struct stub_journal_entry *out)
{
	if (stub_journal_value_parse(val->mv_data, val->mv_size, out) < 0 ||
	    stub_journal_queue(out) != q)
		return damaged(j, "value");
	return 0;
}

STUB_PUBLIC int stub_journal_get(struct stub_journal *j, const struct stub_handle *h,
				 struct stub_journal_entry *out)
{
	uint8_t bytes[STUB_JOURNAL_KEY_MAX];
	MDB_val val, key = { 0, bytes };
	int r, rc = MDB_NOTFOUND;
	MDB_txn *txn;

	if (!stub_journal_handle_ok(h))
		return -ENOENT;
	key.mv_size = stub_journal_key_pack(h, bytes);
	r = stub_jenv_begin(j->env, MDB_RDONLY, &txn);
	if (r < 0)
		return r;
	for (int q = 0; q < STUB_QUEUES && rc == MDB_NOTFOUND; q++) {
		rc = mdb_get(txn, j->env->dbi[q], &key, &val);
		if (rc == 0)
			r = parse_value(j, (enum stub_queue)q, &val, out);
	}
	if (rc)
		r = stub_jenv_errno(rc);
	if (r == 0)
		out->h = *h;
	stub_jenv_trim(j->env, STUB_QUEUES); /* may be anywhere in each */
	stub_jenv_abort(j->env, txn);
	return r;
}

/* How many entries each queue has.  MDB's code */
static int queue_sizes(struct stub_journal *j, MDB_txn *txn, uint64_t n[STUB_QUEUES])
{
	MDB_stat st;
	int rc = 0;

	for (int q = 0; q < STUB_QUEUES && rc == 0; q++) {
		rc = mdb_stat(txn, j->env->dbi[q], &st);
		n[q] = rc ? 0 : st.ms_entries;
	}
	return rc;
}

STUB_PUBLIC int stub_journal_counts(struct stub_journal *j, struct stub_journal_counts *out)
{
	uint64_t n[STUB_QUEUES] = { 0 };
	MDB_txn *txn;
	int rc, r;

	stub_jwriter_settle(j->env);
	r = stub_jenv_begin(j->env, MDB_RDONLY, &txn);
	if (r < 0)
		return r;
	rc = queue_sizes(j, txn, n);
	stub_jenv_abort(j->env, txn);
	memset(out, 0, sizeof(*out));
	for (int q = 0; q < STUB_QUEUES; q++)
		out->total += n[q];
	out->dirs = n[STUB_QUEUE_DIRS];
	out->files = n[STUB_QUEUE_SMALL] + n[STUB_QUEUE_LARGE];
	out->links = n[STUB_QUEUE_LINKS];
	out->errors = n[STUB_QUEUE_ERRORS];
	out->conflicts = n[STUB_QUEUE_CONFLICTS];
	return stub_jenv_errno(rc);
}

/* As the sums were before any was taken modulo 2^64: sizes may be lies. */
static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

STUB_PUBLIC int stub_journal_totals(struct stub_journal *j, struct stub_journal_totals *out)
{
	uint64_t n[STUB_QUEUES] = { 0 };
	struct stub_jtotals t;
	MDB_txn *txn;
	int rc, r;

	stub_jwriter_settle(j->env);
	r = stub_jenv_begin(j->env, MDB_RDONLY, &txn);
	if (r < 0)
		return r;
	rc = stub_jtotals_get(txn, j->env->unnamed, mdb_txn_id(txn), &t);
	if (rc == 0)
		rc = queue_sizes(j, txn, n);
	stub_jenv_abort(j->env, txn);
	if (rc)
		return rc == MDB_NOTFOUND ? -ENODATA : stub_jenv_errno(rc);
	memset(out, 0, sizeof(*out));
	out->whole = t.whole;
	out->dirs = n[STUB_QUEUE_DIRS];
	out->parked_dirs = t.parked_dirs;
	out->done = add(t.done, t.plain);
	/* of those that wait for their other names all data is here */
	out->done_bytes = add(t.done_bytes, t.bytes[STUB_QUEUE_LINKS]);
	out->left = n[STUB_QUEUE_DIRS] + n[STUB_QUEUE_SMALL] + n[STUB_QUEUE_LARGE] +
		    n[STUB_QUEUE_LINKS];
	out->left_bytes = add(t.bytes[STUB_QUEUE_SMALL], t.bytes[STUB_QUEUE_LARGE]);
	out->parked = n[STUB_QUEUE_ERRORS] + n[STUB_QUEUE_CONFLICTS];
	out->parked_bytes = add(t.bytes[STUB_QUEUE_ERRORS], t.bytes[STUB_QUEUE_CONFLICTS]);
	out->found = out->done + out->left + out->parked;
	out->found_bytes = add(add(out->done_bytes, out->left_bytes), out->parked_bytes);
	return 0;
}

STUB_PUBLIC int stub_journal_audit(struct stub_journal *j)
{
	struct stub_jtotals t = { 0 }, walked;
	MDB_txn *txn;
	int rc, r;

	stub_jwriter_settle(j->env);
	r = stub_jenv_begin(j->env, MDB_RDONLY, &txn);
	if (r < 0)
		return r;
	rc = stub_jtotals_get(txn, j->env->unnamed, mdb_txn_id(txn), &t);
	walked = t;
	if (rc == 0)
		rc = stub_jtotals_recount(j->env, txn, &walked);
	else
		r = rc == MDB_NOTFOUND ? -ENODATA : 0;
	stub_jenv_abort(j->env, txn);
	if (rc)
		return r < 0 ? r : stub_jenv_errno(rc);
	for (int q = 0; q < STUB_QUEUES; q++) {
		if (t.bytes[q] == walked.bytes[q])
			continue;
		stub_log(&j->log, STUB_LOG_ERROR,
			 "pending journal: %" PRIi64 " bytes too many are counted in queue %d",
			 (int64_t)(t.bytes[q] - walked.bytes[q]), q);
		r = -EUCLEAN;
	}
	return t.parked_dirs == walked.parked_dirs ? r : -EUCLEAN;
}

/* ---- the walk ---- */

_Static_assert(1 + STUB_JOURNAL_KEY_MAX <= sizeof(((struct stub_journal_cursor *)0)->key),
	       "a cursor holds a queue and a key");

/* Remember @key as the last one met; NULL: before the first of queue @q. */
static void cursor_set(struct stub_journal_cursor *c, enum stub_queue q, const MDB_val *key)
{
	size_t room = sizeof(c->key) - 1, len = key ? key->mv_size : 0;

	/* Too long to be ours: on to the first key that does not begin like it. */
	if (len > room) {
		memcpy(c->key + 1, key->mv_data, room);
		for (len = room; len > 0 && c->key[len] == 0xff; len--)
			;
		if (len > 0)
			c->key[len]++;
		else
			q++;
	} else if (len > 0) {
		memcpy(c->key + 1, key->mv_data, len);
	}
	c->key[0] = (uint8_t)q;
	c->len = (uint16_t)(1 + len);
}

/* Go to the first entry of queue @q that is after the cursor. */
static int seek(MDB_cursor *cur, const struct stub_journal_cursor *c, MDB_val *key, MDB_val *val)
{
	MDB_val last = { c->len - 1u, (void *)(c->key + 1) };
	int rc;

	if (c->len <= 1)
		return mdb_cursor_get(cur, key, val, MDB_FIRST);
	*key = last;
	rc = mdb_cursor_get(cur, key, val, MDB_SET_RANGE);
	if (rc == 0 && key->mv_size == last.mv_size &&
	    memcmp(key->mv_data, last.mv_data, last.mv_size) == 0)
		rc = mdb_cursor_get(cur, key, val, MDB_NEXT);
	return rc;
}

/*
 * Up to @max entries of the queue the cursor is in.  A damaged entry ends the
 * call: alone it is -EBADMSG, with the cursor after it, so that the next call
 * goes on; behind others it is left to the next call.
 */
static int walk_queue(struct stub_journal *j, MDB_txn *txn, struct stub_journal_cursor *c,
		      struct stub_journal_entry *out, size_t max)
{
	enum stub_queue q = c->key[0];
	MDB_cursor *cur;
	MDB_val key, val;
	size_t n = 0;
	int r = 0, rc = mdb_cursor_open(txn, j->env->dbi[q], &cur);

	if (rc)
		return stub_jenv_errno(rc);
	rc = seek(cur, c, &key, &val);
	while (rc == 0) {
		if (stub_journal_key_parse(key.mv_data, key.mv_size, &out[n].h) < 0)
			r = damaged(j, "key");
		else
			r = parse_value(j, q, &val, &out[n]);
		if (r < 0 && n > 0)
			break;
		cursor_set(c, q, &key);
		if (r < 0 || ++n == max)
			break;
		rc = mdb_cursor_get(cur, &key, &val, MDB_NEXT);
	}
	mdb_cursor_close(cur);
	stub_jenv_trim(j->env, (unsigned int)n);
	if (n > 0)
		return (int)n;
	return rc && rc != MDB_NOTFOUND ? stub_jenv_errno(rc) : r;
}

/* As many entries as one read transaction takes. */
static int walk_chunk(struct stub_journal *j, struct stub_journal_cursor *c, bool parked,
		      struct stub_journal_entry *out, size_t max)
{
	enum stub_queue end = parked ? STUB_QUEUES : STUB_QUEUE_PARKED;
	MDB_txn *txn;
	int n = 0, r = stub_jenv_begin(j->env, MDB_RDONLY, &txn);

	if (r < 0)
		return r;
	while (c->key[0] < end) {
		n = walk_queue(j, txn, c, out, max);
		if (n || c->key[0] + 1u == end)
			break; /* the cursor stays at the last entry: more may come after it */
		cursor_set(c, c->key[0] + 1u, NULL);
	}
	stub_jenv_abort(j->env, txn);
	return n;
}

STUB_PUBLIC void stub_journal_parked(struct stub_journal_cursor *c)
{
	cursor_set(c, STUB_QUEUE_PARKED, NULL);
}

STUB_PUBLIC void stub_journal_files(struct stub_journal_cursor *c)
{
	cursor_set(c, STUB_QUEUE_SMALL, NULL);
}

STUB_PUBLIC int stub_journal_next(struct stub_journal *j, struct stub_journal_cursor *c,
				  bool parked, struct stub_journal_entry *out, size_t max)
{
	size_t done = 0;

	if (c->len > sizeof(c->key) || (c->len && c->key[0] > STUB_QUEUES))
		return -EINVAL;
	if (c->len == 0)
		cursor_set(c, STUB_QUEUE_DIRS, NULL);
	if (max > INT32_MAX)
		max = INT32_MAX;
	while (done < max) {
		struct stub_journal_cursor before = *c;
		size_t room = max - done < READ_CHUNK ? max - done : READ_CHUNK;
		int n = walk_chunk(j, c, parked, out + done, room);

		if (n < 0 && done > 0) { /* comes again, alone */
			*c = before;
			break;
		}
		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (int)done;
}
