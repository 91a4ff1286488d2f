/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_txn.c - the writer of the pending journal; what it does to entries is in
 * journal_apply.c.
 *
 * One writer thread owns all write transactions.  Callers queue operations; the
 * writer takes all that are there, applies them in the order in which they came,
 * commits once (LMDB's full sync: pages, then the meta page), and wakes those who
 * wait.  While it syncs the next group gathers: N threads share one sync.
 *
 * What a crash or power cut can lose
 *   - of add, fail, retry, set_kind: nothing.  They return when the transaction
 *     is on the disk.
 *   - of remove: what was handed in during the last REMOVE_DELAY_MS and the
 *     running transaction.  It returns when queued, and is committed with the next
 *     group, which starts REMOVE_DELAY_MS later at the latest.  What is lost leaves a
 *     stale entry, which is harmless (docs/design.md, invariant 4).
 * Every transaction is synced, also one that only removes: a count that somebody
 * has read never goes up again by a crash, so a counter of 0 is durable.
 *
 * Errors.  A transaction is all or nothing, and so is its group: an error (no
 * space, I/O) goes to all who wait for it.  Removals of that group are dropped
 * with a log line: their entries are stale and will be met again.  They must not
 * be kept for later on their own, where they could hit an entry that was added
 * anew in between.  A full map is not an error: it is doubled and the group is
 * applied again.
 *
 * Order of operations is the order of the calls, also between remove and add of
 * one thread: an add after a remove stays.
 *
 * Lock order: queue lock is a leaf; the writer does not hold it in a transaction.
 */
#include <signal.h>
#include <sys/statvfs.h>

#include "journal.h"

#define REMOVE_DELAY_MS 50
#define GROUP_ENTRIES	32768 /* ends a group: bounds the wait for one transaction */
#define QUEUED_REMOVALS 65536 /* more make remove() wait for the writer */
#define FULL_BYTES	(4u << 20) /* a disk with less is taken for full */
#define READER_CHECK	256 /* transactions between looks for dead readers */

struct op {
	struct op *next;
	bool async; /* nobody waits: the writer frees it */
	bool done;
	int64_t result; /* -errno, or what the operation returns */
	struct stub_jop what;
	struct stub_handle copy[]; /* of an async op */
};

struct stub_jwriter {
	struct stub_jenv *env;
	struct stub_log log;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t wake; /* for the writer; CLOCK_MONOTONIC */
	pthread_cond_t done; /* for the callers */
	struct op *first, **last;
	unsigned int waiting; /* operations queued that somebody waits for */
	size_t removals; /* handles queued for removal */
	uint64_t removal_due_ms; /* when the oldest queued removal has waited long enough */
	bool removing; /* the running transaction has removals */
	bool stop;

	/* the writer's own */
	unsigned int commits;
	bool failing; /* the last transaction failed: logged already */
	/* objects without an entry, and their bytes, not stored yet */
	atomic_uint_fast64_t plain, plain_bytes;
	atomic_uint_fast64_t removed; /* entries removed by transactions that succeeded */
};

/* ---- the writer thread ---- */

/* LMDB reports a write that was cut short as EIO.  That is what a disk does when it
 * gets full. */
static int no_space_or(struct stub_jwriter *w, int r)
{
	struct statvfs fs;

	if (r != -EIO || fstatvfs(w->env->dir_fd, &fs) < 0)
		return r;
	return (uint64_t)fs.f_bfree * fs.f_frsize < FULL_BYTES ? -ENOSPC : r;
}

/* One try at the whole group.  *full: the map is too small for it. */
static int try_group(struct stub_jwriter *w, struct op *group, bool *full)
{
	uint64_t plain = atomic_load(&w->plain), bytes = atomic_load(&w->plain_bytes);
	struct stub_jchange c;
	int rc = 0, r = stub_jchange_begin(w->env, &w->log, plain, bytes, &c);

	if (r < 0)
		return r;
	for (struct op *op = group; op && rc == 0; op = op->next)
		rc = stub_jchange_apply(&c, &op->what, &op->result);
	if (rc)
		stub_jchange_abort(&c);
	else
		rc = stub_jchange_commit(&c);
	if (rc == 0 && c.dirty) {
		atomic_fetch_sub(&w->plain, plain);
		atomic_fetch_sub(&w->plain_bytes, bytes);
	}
	*full = rc == MDB_MAP_FULL;
	return no_space_or(w, stub_jenv_errno(rc));
}

static bool removes(const struct op *op)
{
	return op->what.kind == STUB_JOP_REMOVE || op->what.kind == STUB_JOP_FORGET;
}

static void log_failure(struct stub_jwriter *w, int r, size_t removals)
{
	if (r == 0 && w->failing)
		stub_log(&w->log, STUB_LOG_INFO, "pending journal: transactions succeed again");
	if (r < 0 && !w->failing)
		stub_log(&w->log, STUB_LOG_ERROR, "pending journal: transaction failed: %s",
			 strerror(-r));
	if (r < 0 && removals)
		stub_log(&w->log, STUB_LOG_WARN,
			 "pending journal: %zu removals dropped, their entries are stale",
			 removals);
	w->failing = r < 0;
}

static void commit_group(struct stub_jwriter *w, struct op *group)
{
	bool full = false;
	size_t removals = 0;
	int r = try_group(w, group, &full);

	while (full) {
		full = false;
		r = stub_jenv_grow(w->env);
		if (r == 0)
			r = try_group(w, group, &full);
	}
	for (struct op *op = group; op; op = op->next) {
		if (r < 0)
			op->result = r;
		if (removes(op)) {
			removals += op->what.n;
			if (r == 0)
				atomic_fetch_add(&w->removed, (uint64_t)op->result);
		}
	}
	log_failure(w, r, removals);
	if (++w->commits % READER_CHECK == 0) { /* a dead reader keeps pages from use */
		MDB_txn *txn;

		if (stub_jenv_begin(w->env, MDB_RDONLY, &txn) == 0) {
			mdb_reader_check(mdb_txn_env(txn), NULL);
			stub_jenv_abort(w->env, txn);
		}
	}
}

/* Wait for a reason to write; false at the end.  With the lock held. */
static bool wait_for_work(struct stub_jwriter *w)
{
	while (!w->waiting && !w->stop) {
		if (!w->first)
			pthread_cond_wait(&w->wake, &w->lock);
		else if (stub_cond_wait_until(&w->wake, &w->lock, w->removal_due_ms) < 0)
			break;
	}
	return w->first || !w->stop;
}

/* Take the group off the queue.  With the lock held. */
static struct op *take_group(struct stub_jwriter *w)
{
	struct op *group = w->first, **end = &group;
	size_t entries = 0;

	while (*end && entries < GROUP_ENTRIES) {
		entries += (*end)->what.n;
		if (removes(*end)) {
			w->removals -= (*end)->what.n;
			w->removing = true;
		}
		if (!(*end)->async)
			w->waiting--;
		end = &(*end)->next;
	}
	w->first = *end;
	*end = NULL;
	if (!w->first)
		w->last = &w->first;
	return group;
}

static void *writer_thread(void *arg)
{
	struct stub_jwriter *w = arg;

	pthread_mutex_lock(&w->lock);
	while (wait_for_work(w)) {
		struct op *op, *next, *group = take_group(w);

		if (!group)
			continue;
		pthread_mutex_unlock(&w->lock);
		commit_group(w, group);
		pthread_mutex_lock(&w->lock);
		w->removing = false;
		for (op = group; op; op = next) {
			next = op->next; /* read now: a waiter's op ends when its call returns */
			if (op->async)
				free(op);
			else
				op->done = true;
		}
		pthread_cond_broadcast(&w->done);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* With the lock held. */
static void enqueue(struct stub_jwriter *w, struct op *op)
{
	if (removes(op) && !w->first)
		w->removal_due_ms = stub_now_ms() + REMOVE_DELAY_MS;
	*w->last = op;
	w->last = &op->next;
	if (!op->async)
		w->waiting++;
	pthread_cond_signal(&w->wake);
}

static int64_t submit(struct stub_journal *j, struct op *op)
{
	struct stub_jwriter *w = j->writer;

	if (!w)
		return -EBADF; /* opened read-only */
	pthread_mutex_lock(&w->lock);
	enqueue(w, op);
	while (!op->done)
		pthread_cond_wait(&w->done, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return op->result;
}

/* ---- what callers see ---- */

int stub_journal_add(struct stub_journal *j, const struct stub_journal_entry *e,
				 size_t n)
{
	struct op op = { .what = { .kind = STUB_JOP_ADD, .entry = e, .n = n } };

	for (size_t i = 0; i < n; i++)
		if (!stub_journal_handle_ok(&e[i].h) || e[i].kind > STUB_JOURNAL_LINKS)
			return -EINVAL;
	return n ? (int)submit(j, &op) : 0;
}

static int take_out(struct stub_journal *j, enum stub_jop_kind how, const struct stub_handle *h,
		    size_t n)
{
	struct stub_jwriter *w = j->writer;
	struct op *op;

	if (!w)
		return -EBADF;
	for (size_t i = 0; i < n; i++)
		if (!stub_journal_handle_ok(&h[i]))
			return -EINVAL;
	if (n == 0)
		return 0;
	op = calloc(1, sizeof(*op) + n * sizeof(*h));
	if (!op)
		return -ENOMEM;
	op->async = true;
	op->what = (struct stub_jop){ .kind = how, .n = n, .h = op->copy };
	memcpy(op->copy, h, n * sizeof(*h));
	pthread_mutex_lock(&w->lock);
	while (w->removals > QUEUED_REMOVALS)
		pthread_cond_wait(&w->done, &w->lock);
	w->removals += n;
	enqueue(w, op);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

int stub_journal_remove(struct stub_journal *j, const struct stub_handle *h, size_t n)
{
	return take_out(j, STUB_JOP_REMOVE, h, n);
}

int stub_journal_forget(struct stub_journal *j, const struct stub_handle *h, size_t n)
{
	return take_out(j, STUB_JOP_FORGET, h, n);
}

STUB_PUBLIC int stub_journal_fail(struct stub_journal *j, const struct stub_handle *h,
				  enum stub_park park, int error, const char *reason)
{
	struct op op = { .what = { .kind = STUB_JOP_FAIL,
				   .h = h,
				   .n = 1,
				   .park = park,
				   .error = error,
				   .reason = reason } };

	if (!stub_journal_handle_ok(h) || (unsigned int)park > STUB_PARK_CONFLICT)
		return -EINVAL;
	return (int)submit(j, &op);
}

STUB_PUBLIC int64_t stub_journal_unpark_these(struct stub_journal *j, const struct stub_handle *h,
					      size_t n)
{
	struct op op = { .what = { .kind = STUB_JOP_UNPARK, .h = h, .n = n } };

	for (size_t i = 0; i < n; i++)
		if (!stub_journal_handle_ok(&h[i]))
			return -EINVAL;
	return n ? submit(j, &op) : 0;
}

STUB_PUBLIC int stub_journal_unpark(struct stub_journal *j, const struct stub_handle *h)
{
	int64_t n = stub_journal_handle_ok(h) ? stub_journal_unpark_these(j, h, 1) : 0;

	return n < 0 ? (int)n : n == 0 ? -ENOENT : 0;
}

STUB_PUBLIC int64_t stub_journal_retry(struct stub_journal *j, unsigned int mask)
{
	static const enum stub_queue queue_of[] = { [STUB_PARK_ERROR] = STUB_QUEUE_ERRORS,
						    [STUB_PARK_CONFLICT] = STUB_QUEUE_CONFLICTS };
	int64_t total = 0, n;

	for (unsigned int park = STUB_PARK_ERROR; park <= STUB_PARK_CONFLICT; park++) {
		if (!(mask & 1u << park))
			continue;
		do {
			struct op op = { .what = { .kind = STUB_JOP_RETRY,
						   .queue = queue_of[park],
						   .n = STUB_JOP_RETRIED } };

			n = submit(j, &op);
			if (n < 0)
				return n;
			total += n;
		} while (n == STUB_JOP_RETRIED);
	}
	return total;
}

int stub_journal_set_kind(struct stub_journal *j, const struct stub_handle *h, size_t n,
				      enum stub_journal_kind kind)
{
	struct op op = { .what = { .kind = STUB_JOP_KIND, .h = h, .n = n, .to = kind } };

	if ((unsigned int)kind > STUB_JOURNAL_LINKS)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (!stub_journal_handle_ok(&h[i]))
			return -EINVAL;
	return n ? (int)submit(j, &op) : 0;
}

uint64_t stub_journal_removed(struct stub_journal *j)
{
	if (!j->writer)
		return 0;
	stub_jwriter_settle(j->env);
	return atomic_load(&j->writer->removed);
}

void stub_journal_plain(struct stub_journal *j, uint64_t n, uint64_t bytes)
{
	if (!j->writer)
		return;
	atomic_fetch_add(&j->writer->plain, n);
	atomic_fetch_add(&j->writer->plain_bytes, bytes);
}

/* ---- life of the writer ---- */

void stub_jwriter_settle(struct stub_jenv *e)
{
	struct op op = { .what = { .kind = STUB_JOP_SETTLE } };
	struct stub_jwriter *w;

	pthread_mutex_lock(&e->writer_lock);
	w = e->writer;
	if (w) {
		pthread_mutex_lock(&w->lock);
		if (w->removals || w->removing) {
			enqueue(w, &op);
			while (!op.done)
				pthread_cond_wait(&w->done, &w->lock);
		}
		pthread_mutex_unlock(&w->lock);
	}
	pthread_mutex_unlock(&e->writer_lock);
}

static void init_sync(struct stub_jwriter *w)
{
	pthread_mutex_init(&w->lock, NULL);
	stub_cond_init(&w->wake);
	pthread_cond_init(&w->done, NULL);
}

static void jwriter_free(struct stub_jwriter *w)
{
	pthread_cond_destroy(&w->wake);
	pthread_cond_destroy(&w->done);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* A transaction that changes nothing, or stores the totals if the last writer has not.  It makes
 * readers see what a killed writer has committed, too: LMDB notes that for them only when somebody
 * writes again.  -errno: the journal cannot be read.  A full disk is no reason not to open it. */
static int count_once(struct stub_jwriter *w)
{
	struct stub_jchange c;
	int rc, r = stub_jchange_begin(w->env, &w->log, 0, 0, &c);

	if (r < 0)
		return r;
	rc = stub_jchange_commit(&c);
	if (rc)
		stub_log(&w->log, STUB_LOG_WARN, "pending journal: the totals are not stored yet: %s",
			 strerror(-no_space_or(w, stub_jenv_errno(rc))));
	return 0;
}

int stub_jwriter_create(struct stub_jenv *e, const struct stub_log *log, struct stub_jwriter **out)
{
	struct stub_jwriter *w = calloc(1, sizeof(*w));
	sigset_t all, before;
	int r;

	if (!w)
		return -ENOMEM;
	w->env = e;
	w->log = *log;
	w->last = &w->first;
	atomic_store(&e->writes, true);
	r = count_once(w);
	if (r < 0) {
		atomic_store(&e->writes, false);
		free(w);
		return r;
	}
	init_sync(w);
	sigfillset(&all); /* signals are for the program's own threads */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	r = pthread_create(&w->thread, NULL, writer_thread, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r) {
		atomic_store(&e->writes, false);
		jwriter_free(w);
		return -r;
	}
	pthread_mutex_lock(&e->writer_lock);
	e->writer = w;
	pthread_mutex_unlock(&e->writer_lock);
	*out = w;
	return 0;
}

void stub_jwriter_destroy(struct stub_jwriter *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->env->writer_lock);
	w->env->writer = NULL;
	pthread_mutex_unlock(&w->env->writer_lock);
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	atomic_store(&w->env->writes, false);
	jwriter_free(w);
}
