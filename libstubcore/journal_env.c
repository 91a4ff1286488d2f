/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_env.c - the LMDB environment of a pending journal.
 *
 * One environment per journal and process.  LMDB marks its users by POSIX record
 * locks, which a process loses as soon as it closes any descriptor of the lock
 * file: if the scan inside the retriever opened and closed an environment of its
 * own, the next process would take the lock file for unused and wipe the reader
 * table of the retriever.  Hence the one piece of global state in libstubcore:
 * the list of environments open in this process, which are shared by reference.
 * After a fork the child must not use what the parent had opened; the list
 * ignores it (pid).
 *
 * Map: large and sparse (the file grows by what is written, not by the map).  The
 * writer doubles it when it is full, readers in other processes follow.  LMDB
 * forbids that while the process has a transaction open, which map_lock ensures:
 * shared by every transaction, exclusive for changing env or map.
 *
 * A failed write of the meta page leaves LMDB's environment unusable (MDB_PANIC)
 * and the new meta page possibly on the disk, where a power cut must not find it
 * when a later transaction has overwritten that page's tree.  LMDB has put the old
 * one back into the page cache; the writer writes it out before the environment is
 * opened again, and before the first transaction: the process that failed may have
 * ended.
 *
 * Lock order: writer_lock, the writer's queue; list lock, map_lock, the directory's
 * (open_alone), LMDB's own.  No transaction is begun by a thread that has one open.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "journal.h"

#define DATA_FILE    "data.mdb"
#define MAKE_DIR     "new" /* a journal is made here, then moved into place */
#define MARKER	     "postcopy-journal" /* record of the unnamed database: format, 4 bytes */
#define FORMAT	     1
#define READERS	     254
#define MAP_MIN	     (64u << 20)
#define CHECK_TRIES  5 /* a reader may look while the writer writes */
#define TRIM_ENTRIES 8192 /* about 300 pages of entries, 17 MiB with the kernel's fault-around */

static const char *const queue_names[STUB_QUEUES] = {
	[STUB_QUEUE_DIRS] = "dirs",	[STUB_QUEUE_SMALL] = "small",
	[STUB_QUEUE_LARGE] = "large",	[STUB_QUEUE_LINKS] = "links",
	[STUB_QUEUE_ERRORS] = "errors", [STUB_QUEUE_CONFLICTS] = "conflicts",
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stub_jenv *list;

int stub_jenv_errno(int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return 0;
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_MAP_FULL:
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return -ENOSPC;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_INVALID:
	case MDB_VERSION_MISMATCH:
	case MDB_INCOMPATIBLE:
	case MDB_BAD_VALSIZE:
		return -EBADMSG;
	case MDB_READERS_FULL:
		return -EMFILE;
	default:
		return rc > 0 ? -rc : -EIO;
	}
}

/* LMDB aborts the process after this; at least the log says which file it was. */
static void assert_failed(MDB_env *env, const char *msg)
{
	struct stub_jenv *e = mdb_env_get_userctx(env);

	stub_log(e ? &e->log : NULL, STUB_LOG_ERROR, "pending journal: data.mdb is damaged: %s",
		 msg);
}

/* Where is the data file mapped?  mdb_env_info() only knows fixed maps. */
static void find_map(struct stub_jenv *e)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char *line CLEANUP_FREE = NULL;
	size_t size = 0;
	struct stat st;
	mdb_filehandle_t fd;

	e->map = NULL;
	if (!f)
		return;
	if (mdb_env_get_fd(e->env, &fd) || fstat(fd, &st) < 0)
		st.st_ino = 0;
	while (!e->map && st.st_ino && getline(&line, &size, f) > 0) {
		unsigned long start, end, offset, ino;

		if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &start, &end, &offset, &ino) == 4 &&
		    ino == st.st_ino && offset == 0 && strstr(line, "/" DATA_FILE)) {
			e->map = (void *)start;
			e->map_len = end - start;
		}
	}
	fclose(f);
}

static int open_queues(struct stub_jenv *e, unsigned int flags)
{
	static const struct stub_jtotals none = { .whole = true };
	uint8_t format[4] = { FORMAT };
	MDB_val key = { strlen(MARKER), (void *)MARKER }, val = { sizeof(format), format };
	MDB_txn *txn;
	int rc = mdb_txn_begin(e->env, NULL, flags & MDB_CREATE ? 0 : MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &e->unnamed);
	if (rc == 0 && (flags & MDB_CREATE)) {
		rc = mdb_put(txn, e->unnamed, &key, &val, 0);
		rc = rc ? rc : stub_jtotals_put(txn, e->unnamed, &none);
	} else if (rc == 0) {
		rc = mdb_get(txn, e->unnamed, &key, &val);
	}
	if (rc == 0 && val.mv_size != sizeof(format))
		rc = MDB_INVALID;
	else if (rc == 0)
		rc = stub_get_le(val.mv_data, 4) == FORMAT ? 0 :
		     stub_get_le(val.mv_data, 4) > FORMAT  ? EPROTONOSUPPORT :
							     MDB_INVALID;
	for (int q = 0; q < STUB_QUEUES && rc == 0; q++) {
		unsigned int have = 0;

		rc = mdb_dbi_open(txn, queue_names[q], flags, &e->dbi[q]);
		if (rc == 0)
			rc = mdb_dbi_flags(txn, e->dbi[q], &have);
		if (rc == 0 && have)
			rc = MDB_INVALID;
	}
	if (rc) {
		mdb_txn_abort(txn);
		return rc == MDB_NOTFOUND ? MDB_INVALID : rc;
	}
	return mdb_txn_commit(txn); /* read-only as well: keeps the handles */
}

/* Open the environment in @path; MDB_CREATE makes the queues. */
static int open_env(struct stub_jenv *e, const char *path, unsigned int flags)
{
	size_t map = e->map_bytes;
	int rc;

	do {
		rc = mdb_env_create(&e->env);
		if (rc) {
			e->env = NULL;
			return rc;
		}
		mdb_env_set_userctx(e->env, e);
		mdb_env_set_assert(e->env, assert_failed);
		mdb_env_set_maxdbs(e->env, STUB_QUEUES);
		mdb_env_set_maxreaders(e->env, READERS);
		mdb_env_set_mapsize(e->env, map);
		/* NOTLS: a reader's slot ends with its transaction, not with its thread */
		rc = mdb_env_open(e->env, path, MDB_NORDAHEAD | MDB_NOTLS, 0600);
		if (rc == 0)
			rc = open_queues(e, flags);
		if (rc) {
			mdb_env_close(e->env);
			e->env = NULL;
		}
		map /= 2; /* little address space (ulimit -v)? */
	} while (rc == ENOMEM && map >= MAP_MIN);
	return rc;
}

/*
 * One process at a time.  LMDB's first user makes the lock file anew: it notes that there
 * was no transaction yet, opens the data file, and only then notes which one was the last.
 * If it is killed in between, a process that waits for LMDB's own lock takes the lock file
 * for complete, and reads and writes the journal as it was at some earlier time.
 */
static int open_alone(struct stub_jenv *e, const char *path, unsigned int flags)
{
	int rc = -stub_io_flock(e->dir_fd);

	if (rc)
		return rc;
	rc = open_env(e, path, flags);
	flock(e->dir_fd, LOCK_UN); /* close() would not do: a forked child may have a copy */
	return rc;
}

static int open_data(int dir_fd)
{
	return openat(dir_fd, DATA_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

int stub_jenv_settle(int dir_fd, const struct stub_log *log)
{
	int fd CLEANUP_CLOSE = open_data(dir_fd);

	return fd < 0 ? -errno : stub_journal_put_back(fd, log);
}

static int check_file(const struct stub_jenv *e)
{
	int fd CLEANUP_CLOSE = open_data(e->dir_fd);
	struct stub_log quiet = { NULL, NULL };
	int r;

	if (fd < 0)
		return -errno;
	for (int i = 1; i < CHECK_TRIES; i++) {
		r = stub_journal_check(fd, &quiet);
		if (r != -EBADMSG)
			return r;
		usleep(20000);
	}
	return stub_journal_check(fd, &e->log);
}

static int open_checked(struct stub_jenv *e)
{
	char path[sizeof("/proc/self/fd/") + 12];
	int rc, r = check_file(e);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", e->dir_fd);
	rc = open_alone(e, path, 0);
	if (rc) {
		stub_log(&e->log, STUB_LOG_ERROR, "pending journal: cannot open: %s",
			 rc == EPROTONOSUPPORT ? "it is of a newer release of postcopy" :
						 mdb_strerror(rc));
		return stub_jenv_errno(rc);
	}
	mdb_reader_check(e->env, NULL);
	e->generation++;
	find_map(e);
	return 0;
}

static void jenv_free(struct stub_jenv *e)
{
	if (e->env)
		mdb_env_close(e->env);
	pthread_rwlock_destroy(&e->map_lock);
	pthread_mutex_destroy(&e->writer_lock);
	stub_cleanup_close(&e->dir_fd);
	free(e);
}

static int jenv_create(int dir_fd, size_t map_bytes, const struct stub_log *log,
		       struct stub_jenv **out)
{
	struct stub_jenv *e = calloc(1, sizeof(*e));
	pthread_rwlockattr_t attr;

	if (!e)
		return -ENOMEM;
	e->refs = 1;
	e->pid = getpid();
	e->map_bytes = map_bytes;
	e->log = *log;
	pthread_mutex_init(&e->writer_lock, NULL);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&e->map_lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	e->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	if (e->dir_fd < 0) {
		int r = -errno;

		jenv_free(e);
		return r;
	}
	*out = e;
	return 0;
}

int stub_jenv_make(int dir_fd, size_t map_bytes, const struct stub_log *log)
{
	static const char *const parts[] = { MAKE_DIR "/" DATA_FILE, MAKE_DIR "/lock.mdb" };
	char path[sizeof("/proc/self/fd//" MAKE_DIR) + 12];
	struct stub_jenv *e;
	int r;

	if (mkdirat(dir_fd, MAKE_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (unlinkat(dir_fd, parts[i], 0) < 0 && errno != ENOENT)
			return -errno;
	r = jenv_create(dir_fd, map_bytes, log, &e);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/" MAKE_DIR, dir_fd);
	r = stub_jenv_errno(open_env(e, path, MDB_CREATE));
	jenv_free(e);
	if (r == 0 && renameat(dir_fd, parts[0], dir_fd, DATA_FILE) < 0)
		r = -errno;
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	unlinkat(dir_fd, parts[1], 0);
	unlinkat(dir_fd, MAKE_DIR, AT_REMOVEDIR);
	return r;
}

int stub_jenv_get(int dir_fd, size_t map_bytes, const struct stub_log *log, struct stub_jenv **out)
{
	struct stub_jenv *e;
	struct stat st;
	int r;

	if (fstat(dir_fd, &st) < 0)
		return -errno;
	pthread_mutex_lock(&list_lock);
	for (e = list; e; e = e->next)
		if (e->dev == st.st_dev && e->ino == st.st_ino && e->pid == getpid())
			break;
	r = 0;
	if (e) {
		e->refs++;
	} else {
		r = jenv_create(dir_fd, map_bytes, log, &e);
		if (r == 0) {
			r = open_checked(e);
			if (r < 0)
				jenv_free(e);
		}
		if (r == 0) {
			e->dev = st.st_dev;
			e->ino = st.st_ino;
			e->next = list;
			list = e;
		}
	}
	pthread_mutex_unlock(&list_lock);
	if (r == 0)
		*out = e;
	return r;
}

void stub_jenv_put(struct stub_jenv *e)
{
	struct stub_jenv **p;

	if (!e)
		return;
	pthread_mutex_lock(&list_lock);
	if (--e->refs == 0) {
		for (p = &list; *p != e; p = &(*p)->next)
			;
		*p = e->next;
		jenv_free(e);
	}
	pthread_mutex_unlock(&list_lock);
}

/* Open the environment again after MDB_PANIC, unless another thread has done so since
 * generation @seen. */
static int reopen(struct stub_jenv *e, unsigned int seen)
{
	int r = 0;

	pthread_rwlock_wrlock(&e->map_lock);
	if (e->generation == seen) {
		stub_log(&e->log, STUB_LOG_WARN, "pending journal: opening again after an error");
		if (e->env)
			mdb_env_close(e->env);
		e->env = NULL;
		if (atomic_load(&e->writes))
			r = stub_jenv_settle(e->dir_fd, &e->log);
		if (r == 0)
			r = open_checked(e);
	}
	pthread_rwlock_unlock(&e->map_lock);
	return r < 0 ? -EIO : 0;
}

/* Another process has made the map larger. */
static int follow_map(struct stub_jenv *e)
{
	int rc = 0;

	pthread_rwlock_wrlock(&e->map_lock);
	if (e->env) {
		rc = mdb_env_set_mapsize(e->env, 0);
		find_map(e);
	}
	pthread_rwlock_unlock(&e->map_lock);
	return stub_jenv_errno(rc);
}

int stub_jenv_begin(struct stub_jenv *e, unsigned int flags, MDB_txn **out)
{
	for (int tries = 0; tries < 4; tries++) {
		unsigned int seen;
		int r, rc;

		pthread_rwlock_rdlock(&e->map_lock);
		seen = e->generation;
		rc = e->env ? mdb_txn_begin(e->env, NULL, flags, out) : MDB_PANIC;
		if (rc == 0)
			return 0;
		pthread_rwlock_unlock(&e->map_lock);
		if (rc == MDB_MAP_RESIZED)
			r = follow_map(e);
		else if (rc == MDB_PANIC)
			r = reopen(e, seen);
		else
			r = stub_jenv_errno(rc);
		if (r < 0)
			return r;
	}
	return -EIO;
}

void stub_jenv_abort(struct stub_jenv *e, MDB_txn *txn)
{
	mdb_txn_abort(txn);
	pthread_rwlock_unlock(&e->map_lock);
}

int stub_jenv_commit(struct stub_jenv *e, MDB_txn *txn)
{
	int rc = mdb_txn_commit(txn);

	pthread_rwlock_unlock(&e->map_lock);
	return rc;
}

int stub_jenv_grow(struct stub_jenv *e)
{
	MDB_envinfo info;
	int rc = MDB_PANIC;

	pthread_rwlock_wrlock(&e->map_lock);
	if (e->env) {
		mdb_env_info(e->env, &info);
		rc = mdb_env_set_mapsize(e->env, info.me_mapsize * 2);
		find_map(e);
	}
	pthread_rwlock_unlock(&e->map_lock);
	/* no address space left: no place for more entries */
	return rc == ENOMEM || rc == EINVAL ? -ENOSPC : stub_jenv_errno(rc);
}

/*
 * Pages of the map that were touched count as this process's memory until they
 * are unmapped.  They stay in the page cache; a concurrent reader just faults
 * them in again.  The map is a shared, read-only mapping of a file, so
 * MADV_DONTNEED loses nothing.
 */
void stub_jenv_trim(struct stub_jenv *e, unsigned int n)
{
	unsigned int before = atomic_fetch_add_explicit(&e->touched, n, memory_order_relaxed);

	if (before + n < TRIM_ENTRIES || !e->map)
		return;
	atomic_store_explicit(&e->touched, 0, memory_order_relaxed);
	madvise(e->map, e->map_len, MADV_DONTNEED);
}
