/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_journal_damage.c - the pending journal on damaged files, failing and full
 * disks, a map that is too small.
 *
 * Faults are put between LMDB and the kernel: this program's pwrite() and
 * fdatasync() come before the C library's.  The labels keep the names whatever
 * _FILE_OFFSET_BITS makes of them.
 */
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "journal_util.h"

#define META_WRITE 120 /* bytes that LMDB writes to a meta page */

static atomic_int fail_fdatasync, fail_meta; /* errno of the next one */
static atomic_uint syncs;

ssize_t faulty_pwrite(int fd, const void *buf, size_t len,
		      off_t offset) __asm__("pwrite") STUB_PUBLIC;
int faulty_fdatasync(int fd) __asm__("fdatasync") STUB_PUBLIC;

ssize_t faulty_pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	int e = len == META_WRITE ? atomic_exchange(&fail_meta, 0) : 0;

	if (e) {
		errno = e;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, buf, len, offset);
}

int faulty_fdatasync(int fd)
{
	int e = atomic_exchange(&fail_fdatasync, 0);

	atomic_fetch_add(&syncs, 1);
	if (e) {
		errno = e;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

/* ---- files ---- */

static const char *data_file(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/data.mdb", journal_dir);
	return path;
}

static off_t data_size(void)
{
	struct stat st;

	assert_int_equal(stat(data_file(), &st), 0);
	return st.st_size;
}

static void put_bytes(off_t at, const void *bytes, size_t len)
{
	int fd = open(data_file(), O_RDWR);

	assert_int_equal(pwrite(fd, bytes, len, at), len);
	close(fd);
}

static void make_journal(uint32_t entries)
{
	struct stub_journal *j = open_journal(0);

	add_many(j, 1, entries);
	stub_journal_close(j);
}

/* Open it, count, walk, in a process of its own: its -errno. */
static int use_it(void)
{
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e[100];
	struct stub_journal_counts counts;
	struct stub_journal *j;
	int r = stub_journal_open(journal_dir, 0, count_log, NULL, &j);

	if (r < 0)
		return -r;
	r = stub_journal_counts(j, &counts);
	while (r == 0 && (r = stub_journal_next(j, &c, true, e, 100)) > 0)
		r = 0;
	return -r;
}

static void truncated_file(void **state)
{
	off_t size;

	make_journal(5000);
	size = data_size();
	for (int i = 9; i >= 0; i--) { /* 90 % ... nothing at all */
		assert_int_equal(truncate(data_file(), size * i / 10), 0);
		assert_int_equal(in_child(use_it), EBADMSG);
	}
	assert_int_equal(data_size(), 0);
	assert_int_equal(in_child(use_it), EBADMSG); /* an empty file is no new journal */
}

static void last_page_missing(void **state)
{
	make_journal(5000);
	assert_int_equal(truncate(data_file(), data_size() - 1), 0);
	assert_int_equal(in_child(use_it), EBADMSG);
}

/* The first @size bytes of what the file was. */
static void cut_to(const char *keep, off_t size)
{
	assert_int_equal(truncate(data_file(), size), 0);
	put_bytes(0, keep, (size_t)size);
}

/*
 * A sound file may be short: what was freed at its end need not be there.  Nearly
 * all entries removed: find the shortest file that is still sound.
 */
static void short_but_sound(void **state)
{
	struct stub_journal *j;
	off_t full, size;
	char *keep;
	int fd;

	make_journal(20000);
	j = open_journal(0);
	for (uint32_t i = 0; i < 4; i++) {
		remove_many(j, 1 + i * 4999, 4999);
		assert_true(counts_of(j).total > 0);
	}
	stub_journal_close(j);
	full = size = data_size();
	keep = malloc((size_t)full);
	fd = open(data_file(), O_RDONLY);
	assert_int_equal(read(fd, keep, (size_t)full), full);
	close(fd);
	do {
		size -= 4096;
		cut_to(keep, size);
	} while (size > 8192 && in_child(use_it) == 0);
	assert_int_equal(in_child(use_it), EBADMSG);
	assert_true(full - size > 2 * 4096);
	cut_to(keep, size + 4096);
	j = open_journal(0); /* pages come back when they are used */
	assert_int_equal(walk_all(j, true), 4);
	add_many(j, 30000, 20000);
	assert_int_equal(counts_of(j).total, 20004);
	assert_int_equal(walk_all(j, true), 20004);
	stub_journal_close(j);
	free(keep);
}

/* Every field of the meta pages that LMDB would believe. */
static void damaged_meta_pages(void **state)
{
	static const struct {
		off_t at;
		uint64_t value;
		size_t len;
	} bad[] = {
		{ 10, 0, 2 }, /* flags of the page */
		{ 16, 0xdeadbeef, 4 }, /* magic */
		{ 20, 999, 4 }, /* version */
		{ 40, 0, 4 }, /* page size */
		{ 40, 4095, 4 },	{ 40, 1u << 31, 4 },
		{ 128, 1ull << 40, 8 }, /* root of the main tree */
		{ 128, 1, 8 },		{ 94, 77, 2 }, /* its depth */
		{ 92, 4, 2 }, /* its flags */
		{ 136, 1ull << 50, 8 }, /* last page */
		{ 136, 0, 8 },
	};
	uint8_t keep[8192];
	int fd;

	make_journal(2000);
	fd = open(data_file(), O_RDONLY);
	assert_int_equal(read(fd, keep, sizeof(keep)), sizeof(keep));
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put_bytes(bad[i].at, &bad[i].value, bad[i].len);
		put_bytes(4096 + bad[i].at, &bad[i].value, bad[i].len);
		assert_int_equal(in_child(use_it), EBADMSG);
		put_bytes(0, keep, sizeof(keep));
	}
	assert_int_equal(in_child(use_it), 0);
}

static void garbage_in_a_meta_page(void **state)
{
	uint8_t keep[8192], garbage[4096];
	int fd;

	make_journal(2000);
	fd = open(data_file(), O_RDONLY);
	assert_int_equal(read(fd, keep, sizeof(keep)), sizeof(keep));
	close(fd);
	srandom(1);
	for (int i = 0; i < 200; i++) {
		int r;

		for (size_t k = 0; k < sizeof(garbage); k++)
			garbage[k] = (uint8_t)random();
		/* whole pages, then ever fewer bytes at random places */
		put_bytes(i < 2 ? i * 4096 : random() % 8192, garbage, i < 2 ? 4096 : 1);
		r = in_child(use_it);
		if (r != 0 && r != EBADMSG)
			fail_msg("round %d: %d", i, r);
		if (i < 2)
			assert_int_equal(r, EBADMSG);
		put_bytes(0, keep, sizeof(keep));
	}
}

static void not_ours(void **state)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_val v = { 1, (void *)"x" };

	assert_int_equal(mkdir(journal_dir, 0700), 0);
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, journal_dir, 0, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	assert_int_equal(mdb_put(txn, dbi, &v, &v, 0), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
	assert_int_equal(in_child(use_it), EBADMSG);
}

/* A crash while the journal was being made. */
static void half_made(void **state)
{
	char path[160], half[100] = "half";
	int fd;

	assert_int_equal(mkdir(journal_dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/new", journal_dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/new/data.mdb", journal_dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, half, sizeof(half)), sizeof(half));
	close(fd);
	stub_journal_close(open_journal(0));
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(in_child(use_it), 0);
}

/* ---- entries ---- */

static void put_raw(struct stub_journal *j, enum stub_queue q, const void *key, size_t key_len,
		    const void *value, size_t len)
{
	MDB_val k = { key_len, (void *)key }, v = { len, (void *)value };
	MDB_txn *txn;

	assert_int_equal(stub_jenv_begin(j->env, 0, &txn), 0);
	assert_int_equal(mdb_put(txn, j->env->dbi[q], &k, &v, 0), 0);
	assert_int_equal(stub_jenv_commit(j->env, txn), 0);
}

static void damage_value(struct stub_journal *j, enum stub_queue q, uint32_t i)
{
	uint8_t key[STUB_JOURNAL_KEY_MAX];
	struct stub_handle h = handle_of(i);

	put_raw(j, q, key, stub_journal_key_pack(&h, key), "rubbish", 7);
}

static void damaged_values_are_met_once(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e[10];
	struct stub_handle h = handle_of(3);

	add_many(j, 1, 5);
	damage_value(j, STUB_QUEUE_SMALL, 3);
	assert_int_equal(stub_journal_get(j, &h, e), -EBADMSG);
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), 2);
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), -EBADMSG);
	assert_int_equal(stub_journal_next(j, &c, false, e, 10), 2);
	assert_int_equal(number_of(&e[0].h), 4);
	assert_int_equal(counts_of(j).total, 5); /* not hidden */
	assert_true(atomic_load(&log_lines) >= 2);
	stub_journal_close(j);
}

static void damaged_values_are_made_anew(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_entry e;
	struct stub_handle h;

	add_many(j, 1, 6);
	for (uint32_t i = 1; i <= 4; i++)
		damage_value(j, STUB_QUEUE_SMALL, i);
	add_one(j, 1, STUB_JOURNAL_FILE, 7);
	h = handle_of(2);
	assert_int_equal(stub_journal_fail(j, &h, STUB_PARK_ERROR, EIO, "x"), 0);
	h = handle_of(3);
	assert_int_equal(stub_journal_set_kind(j, &h, 1, STUB_JOURNAL_LINKS), 1);
	h = handle_of(4);
	assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	assert_int_equal(counts_of(j).total, 5);
	assert_int_equal(counts_of(j).errors, 1);
	assert_int_equal(counts_of(j).links, 1);
	assert_int_equal(walk_all(j, true), 5);
	/* a good value in another queue than it says */
	h = handle_of(2);
	damage_value(j, STUB_QUEUE_ERRORS, 2);
	assert_int_equal(stub_journal_get(j, &h, &e), -EBADMSG);
	assert_int_equal(stub_journal_retry(j, ~0u), 1);
	assert_int_equal(stub_journal_get(j, &h, &e), 0);
	stub_journal_close(j);
}

static void damaged_keys_are_passed(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e[10];
	uint8_t key[511];
	int n, met = 0, bad = 0;

	add_many(j, 1, 5);
	memset(key, 'k', sizeof(key));
	put_raw(j, STUB_QUEUE_DIRS, key, 511, "", 0);
	put_raw(j, STUB_QUEUE_DIRS, key, 200, "", 0);
	put_raw(j, STUB_QUEUE_LARGE, key, 1, "x", 1);
	memset(key, 0xff, sizeof(key));
	put_raw(j, STUB_QUEUE_LARGE, key, 511, "x", 1);
	while ((n = stub_journal_next(j, &c, true, e, 10)) != 0) {
		met += n > 0 ? n : 0;
		bad += n < 0;
		assert_true(n > 0 || n == -EBADMSG);
		assert_true(bad < 10);
	}
	assert_int_equal(met, 5);
	assert_true(bad >= 3);
	stub_journal_close(j);
}

/* ---- the disk ---- */

static void failed_sync_adds_nothing(void **state)
{
	struct stub_journal_entry e = entry_of(7, STUB_JOURNAL_FILE, 1), out;
	struct stub_journal *j = open_journal(0);

	add_many(j, 1, 5);
	atomic_store(&fail_fdatasync, EIO);
	assert_int_equal(stub_journal_add(j, &e, 1), -EIO);
	assert_int_equal(stub_journal_get(j, &e.h, &out), -ENOENT);
	assert_int_equal(stub_journal_add(j, &e, 1), 0);
	assert_int_equal(walk_all(j, true), 6);
	stub_journal_close(j);
	assert_int_equal(in_child(use_it), 0);
}

/* LMDB gives its environment up then. */
static void failed_meta_write_is_survived(void **state)
{
	struct stub_journal_entry e = entry_of(7, STUB_JOURNAL_FILE, 1), out;
	struct stub_journal *j = open_journal(0);

	add_many(j, 1, 5);
	for (int i = 0; i < 3; i++) {
		atomic_store(&fail_meta, i == 1 ? ENOSPC : EIO);
		assert_int_equal(stub_journal_add(j, &e, 1), i == 1 ? -ENOSPC : -EIO);
		if (i == 2)
			assert_int_equal(stub_journal_add(j, &e, 1), 0);
		else /* the reader is the one to find out */
			assert_int_equal(stub_journal_get(j, &e.h, &out), -ENOENT);
	}
	assert_int_equal(walk_all(j, true), 6);
	stub_journal_close(j);
	j = open_journal(0);
	assert_int_equal(walk_all(j, true), 6);
	stub_journal_close(j);
}

static void failed_removal_leaves_the_entry(void **state)
{
	struct stub_journal *j = open_journal(0);

	add_many(j, 1, 5);
	atomic_store(&fail_fdatasync, EIO);
	remove_many(j, 1, 1);
	assert_int_equal(counts_of(j).total, 5);
	assert_true(atomic_load(&log_lines) > 0);
	remove_many(j, 1, 1);
	assert_int_equal(counts_of(j).total, 4);
	stub_journal_close(j);
}

/* In a child: the mounts are its own. */
static int fill_a_small_disk(void)
{
	struct stub_journal_entry e[500];
	struct stub_journal_totals t;
	struct stub_journal_counts c;
	struct stub_journal *j;
	char ballast[128], block[65536] = { 0 };
	uint32_t added = 0;
	int fd, r;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", work_dir, "tmpfs", 0, "size=4m") < 0)
		return 1;
	snprintf(ballast, sizeof(ballast), "%s/ballast", work_dir);
	fd = open(ballast, O_CREAT | O_WRONLY, 0600);
	for (int i = 0; i < 48; i++) /* 3 MiB */
		if (write(fd, block, sizeof(block)) != sizeof(block))
			return 2;
	close(fd);
	if (stub_journal_open(journal_dir, 0, count_log, NULL, &j) < 0)
		return 3;
	for (int full = 0; full < 3;) {
		for (uint32_t i = 0; i < 500; i++)
			e[i] = entry_of(added + i, STUB_JOURNAL_FILE, 1);
		r = stub_journal_add(j, e, 500);
		if (r == 0)
			added += 500;
		else if (r == -ENOSPC)
			full++;
		else
			return 4;
	}
	if (stub_journal_counts(j, &c) < 0 || c.total != added || walk_all(j, true) != added)
		return 5;
	if (stub_journal_totals(j, &t) < 0 || !t.whole || t.found != added || t.left_bytes != added)
		return 8;
	unlink(ballast);
	if (stub_journal_add(j, e, 500) < 0)
		return 6;
	if (stub_journal_counts(j, &c) < 0 || c.total != added + 500)
		return 7;
	stub_journal_close(j);
	return 0;
}

static void full_disk(void **state)
{
	assert_int_equal(in_child(fill_a_small_disk), 0);
}

/* ---- the map ---- */

static int go_fd[2], said_fd[2];

/* Opened while the map was small, reads after it has grown. */
static int read_after_growth(void)
{
	struct stub_journal *j;
	char c = 'r';

	if (stub_journal_open_sized(journal_dir, STUB_JOURNAL_READONLY, 1 << 20, count_log, NULL,
				    &j) < 0 ||
	    walk_all(j, false) != 1)
		return 1;
	if (write(said_fd[1], &c, 1) != 1 || read(go_fd[0], &c, 1) != 1)
		return 2;
	return walk_all(j, false) == 60000 ? 0 : 3;
}

static void small_map_grows(void **state)
{
	struct stub_journal *j;
	int status;
	pid_t pid;
	char c;

	make_journal(1);
	assert_int_equal(pipe(go_fd) | pipe(said_fd), 0);
	pid = fork();
	if (pid == 0)
		_exit(read_after_growth());
	assert_int_equal(read(said_fd[0], &c, 1), 1);
	assert_int_equal(stub_journal_open_sized(journal_dir, 0, 1 << 20, count_log, NULL, &j), 0);
	add_many(j, 1, 60000);
	assert_int_equal(counts_of(j).total, 60000);
	assert_true(data_size() > 2 << 20);
	assert_int_equal(write(go_fd[1], &c, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	stub_journal_close(j);
}

/* ---- group commit ---- */

static struct stub_journal *shared;

static void *add_fifty(void *arg)
{
	for (uint32_t i = 0; i < 50; i++) {
		struct stub_journal_entry e =
			entry_of(1000 * (uint32_t)(uintptr_t)arg + i, STUB_JOURNAL_FILE, 1);

		if (stub_journal_add(shared, &e, 1) < 0)
			abort();
	}
	return NULL;
}

static void threads_share_a_sync(void **state)
{
	pthread_t t[16];
	unsigned int before;

	shared = open_journal(0);
	before = atomic_load(&syncs);
	for (uintptr_t i = 0; i < 16; i++)
		pthread_create(&t[i], NULL, add_fifty, (void *)i);
	for (int i = 0; i < 16; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(counts_of(shared).total, 800);
	assert_true(atomic_load(&syncs) - before < 800 / 2);
	assert_true(atomic_load(&syncs) - before >= 50);
	stub_journal_close(shared);
}

static void adds_are_synced_removals_batched(void **state)
{
	struct stub_journal *j = open_journal(0);
	unsigned int before = atomic_load(&syncs);

	for (uint32_t i = 0; i < 20; i++)
		add_one(j, i, STUB_JOURNAL_FILE, 1);
	assert_true(atomic_load(&syncs) - before >= 20);
	before = atomic_load(&syncs);
	remove_many(j, 0, 20);
	assert_int_equal(counts_of(j).total, 0);
	assert_true(atomic_load(&syncs) - before <= 3);
	stub_journal_close(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(truncated_file),
		journal_test(last_page_missing),
		journal_test(short_but_sound),
		journal_test(damaged_meta_pages),
		journal_test(garbage_in_a_meta_page),
		journal_test(not_ours),
		journal_test(half_made),
		journal_test(damaged_values_are_met_once),
		journal_test(damaged_values_are_made_anew),
		journal_test(damaged_keys_are_passed),
		journal_test(failed_sync_adds_nothing),
		journal_test(failed_meta_write_is_survived),
		journal_test(failed_removal_leaves_the_entry),
		journal_test(full_disk),
		journal_test(small_map_grows),
		journal_test(threads_share_a_sync),
		journal_test(adds_are_synced_removals_batched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
