/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_journal_crash.c - kill -9 of the process that writes the pending journal.
 *
 * A child adds batches from several threads and says over a pipe what was
 * acknowledged, removes some and says that too, and is killed at a random moment.
 * Then: every entry whose add was acknowledged and whose removal was not begun is
 * there, the counts and totals are those of a full walk, and the next writer goes on.
 * (A power cut is another matter: tests/crash.)
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "journal_util.h"

#define ROUNDS	25
#define WRITERS 4
#define BATCH	20
#define STRIDE	1000000u /* numbers of one writer in one round */

struct report {
	uint32_t first;
	uint32_t n;
	uint32_t removed; /* of these, from the first on, removal was begun */
};

static struct stub_journal *shared;
static int report_fd[2];

static void say(uint32_t first, uint32_t n, uint32_t removed)
{
	struct report r = { first, n, removed };

	if (write(report_fd[1], &r, sizeof(r)) != sizeof(r)) /* one write: never torn */
		_exit(1);
}

static void *writer(void *arg)
{
	uint32_t number = (uint32_t)(uintptr_t)arg;

	for (;; number += BATCH) {
		struct stub_journal_entry e[BATCH];
		struct stub_handle h[BATCH / 4];
		uint32_t gone;

		for (uint32_t i = 0; i < BATCH; i++)
			e[i] = entry_of(number + i, i % 5 ? STUB_JOURNAL_FILE : STUB_JOURNAL_DIR,
					i);
		if (stub_journal_add(shared, e, BATCH) < 0)
			_exit(2);
		gone = number / BATCH % 2 ? BATCH / 4 : 0; /* from every other batch */
		for (uint32_t i = 0; i < gone; i++)
			h[i] = handle_of(number + i);
		say(number, BATCH, gone);
		if (stub_journal_remove(shared, h, gone) < 0 ||
		    stub_journal_fail(shared, &e[BATCH - 1].h, STUB_PARK_ERROR, EIO, "x") < 0)
			_exit(3);
	}
	return NULL;
}

static void child(uint32_t round)
{
	pthread_t t;

	if (stub_journal_open(journal_dir, 0, NULL, NULL, &shared) < 0)
		_exit(4);
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_create(&t, NULL, writer,
			       (void *)(uintptr_t)((round * WRITERS + i) * STRIDE));
	for (;;)
		pause();
}

/* Every acknowledged entry of the report is there. */
static void check_report(struct stub_journal *j, const struct report *r)
{
	struct stub_journal_entry e;

	for (uint32_t i = r->removed; i < r->n; i++) {
		struct stub_handle h = handle_of(r->first + i);

		assert_int_equal(stub_journal_get(j, &h, &e), 0);
		assert_int_equal(e.size, i);
	}
}

static void counts_are_a_walk(struct stub_journal *j)
{
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_counts want = { 0 }, have = counts_of(j);
	struct stub_journal_entry e[256];
	int n;

	while ((n = stub_journal_next(j, &c, true, e, 256)) > 0) {
		for (int i = 0; i < n; i++) {
			want.total++;
			if (e[i].park)
				want.errors++;
			else if (e[i].kind == STUB_JOURNAL_DIR)
				want.dirs++;
			else
				want.files++;
		}
	}
	assert_int_equal(n, 0);
	assert_memory_equal(&want, &have, sizeof(want));
	assert_true(totals_are_a_walk(j).whole); /* and were not counted anew */
}

static void killed_writers(void **state)
{
	uint64_t acknowledged = 0;

	srandom((unsigned int)getpid());
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct stub_journal *j;
		struct report r;
		int status;
		pid_t pid;

		assert_int_equal(pipe(report_fd), 0);
		fcntl(report_fd[1], F_SETPIPE_SZ, 1 << 20);
		pid = fork();
		if (pid == 0)
			child(round);
		close(report_fd[1]);
		assert_int_equal(read(report_fd[0], &r, sizeof(r)), sizeof(r));
		usleep((useconds_t)(random() % 40000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		j = open_journal(0);
		do {
			check_report(j, &r);
			acknowledged += r.n;
		} while (read(report_fd[0], &r, sizeof(r)) == sizeof(r));
		close(report_fd[0]);
		counts_are_a_walk(j);
		add_one(j, 0xffffff00u + round, STUB_JOURNAL_FILE, 1);
		stub_journal_close(j);
	}
	print_message("%lu acknowledgements checked\n", (unsigned long)acknowledged);
}

/* ---- killed while it opens ---- */

static int stop_fd = -1;

/* LMDB's open(2): a process with a stop_fd says there that the data file's turn has come,
 * in the middle of making the lock file, and goes no further. */
int lmdb_open(const char *path, int flags, ...) __asm__("open");
int lmdb_open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	if (stop_fd >= 0 && strstr(path, "data.mdb")) {
		if (write(stop_fd, "s", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	return openat(AT_FDCWD, path, flags, mode);
}

/* Waits for a lock. */
static bool is_waiting(pid_t pid)
{
	FILE *locks = fopen("/proc/locks", "re");
	bool found = false;
	char line[256];
	int who;

	assert_non_null(locks);
	while (fgets(line, sizeof(line), locks))
		found |= sscanf(line, "%*d: -> %*s %*s %*s %d", &who) == 1 && who == pid;
	fclose(locks);
	return found;
}

/* A reader, which says how many entries it sees, and stays. */
static void reading_child(int to)
{
	struct stub_journal_counts c;
	struct stub_journal *j;

	if (stub_journal_open(journal_dir, STUB_JOURNAL_READONLY, NULL, NULL, &j) < 0 ||
	    stub_journal_counts(j, &c) < 0 || write(to, &c.total, sizeof(c.total)) < 0)
		_exit(1);
	for (;;)
		pause();
}

static pid_t forked(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void end_child(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/*
 * The first to open it is killed while the next one waits, which must not take what the
 * first has made of the lock file for whole: LMDB would go on from an old transaction.
 * With an even and an odd number of transactions, since either meta page may be the old one.
 */
static void killed_while_opening(void **state)
{
	struct stub_journal *j = open_journal(0);

	for (uint32_t i = 0; i < 7; i++)
		add_one(j, i, STUB_JOURNAL_FILE, 0);
	stub_journal_close(j);
	for (uint32_t n = 7; n <= 8; n++) {
		int says[2], counts[2];
		uint64_t seen = 0;
		pid_t first, next;
		char c;

		assert_int_equal(pipe(says), 0);
		assert_int_equal(pipe(counts), 0);
		first = forked();
		if (first == 0) {
			stop_fd = says[1];
			stub_journal_open(journal_dir, 0, NULL, NULL, &j);
			_exit(1);
		}
		assert_int_equal(read(says[0], &c, 1), 1);
		next = forked();
		if (next == 0)
			reading_child(counts[1]);
		for (int tries = 0; !is_waiting(next); tries++) {
			assert_true(tries < 6000);
			usleep(10000);
		}
		end_child(first);
		close(counts[1]);
		assert_int_equal(read(counts[0], &seen, sizeof(seen)), sizeof(seen));
		assert_int_equal(seen, n);

		j = open_journal(0);
		assert_int_equal(counts_of(j).total, n);
		add_one(j, n, STUB_JOURNAL_FILE, 0);
		stub_journal_close(j);
		end_child(next);
		j = open_journal(STUB_JOURNAL_READONLY);
		assert_int_equal(counts_of(j).total, n + 1);
		stub_journal_close(j);
		close(counts[0]);
		close(says[0]);
		close(says[1]);
	}
}

/* ---- killed before it has noted what it committed ---- */

static bool dies;

/* LMDB's pwrite(2): what is synced by itself is a meta page, after which the transaction is there.
 * LMDB says so in the lock file next, for readers. */
ssize_t lmdb_pwrite(int fd, const void *buf, size_t len, off_t offset) __asm__("pwrite");
ssize_t lmdb_pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	ssize_t n = syscall(SYS_pwrite64, fd, buf, len, offset);

	if (dies && fcntl(fd, F_GETFL) & O_DSYNC)
		raise(SIGKILL);
	return n;
}

static void write_and_die(uint32_t i)
{
	struct stub_handle h = handle_of(i - 1);
	struct stub_journal *j;

	if (stub_journal_open(journal_dir, 0, NULL, NULL, &j) < 0)
		_exit(1);
	dies = true;
	stub_journal_remove(j, &h, 1);
	add_one(j, i, STUB_JOURNAL_FILE, 16);
	_exit(2);
}

/*
 * While somebody else has the journal open LMDB does not look for the last transaction when it is
 * opened: a reader is shown the one before until somebody writes, who goes on from the last one.
 * What the next writer counts with must be of that.
 */
static void killed_before_it_was_noted(void **state)
{
	struct stub_journal *j = open_journal(0);
	struct stub_journal_totals t;
	int says[2], status;
	pid_t reader, pid;
	uint64_t seen;

	add_one(j, 0, STUB_JOURNAL_FILE, 1);
	stub_journal_close(j);
	assert_int_equal(pipe(says), 0);
	reader = forked();
	if (reader == 0)
		reading_child(says[1]);
	assert_int_equal(read(says[0], &seen, sizeof(seen)), sizeof(seen));
	for (uint32_t i = 1; i <= 4; i++) {
		pid = forked();
		if (pid == 0)
			write_and_die(i);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		j = open_journal(0);
		t = totals_are_a_walk(j); /* before anything is written, too */
		assert_true(t.whole);
		assert_int_equal(t.found, 1 + i + (i - 1));
		assert_int_equal(t.left, i);
		add_one(j, 100 + i, STUB_JOURNAL_FILE, 100);
		t = totals_are_a_walk(j);
		assert_int_equal(t.done, i);
		assert_int_equal(t.done_bytes, 1 + 16 * (i - 1));
		assert_int_equal(t.left_bytes, 16 + 100 * i);
		stub_journal_close(j);
	}
	end_child(reader);
	close(says[0]);
	close(says[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(killed_writers),
		journal_test(killed_while_opening),
		journal_test(killed_before_it_was_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
