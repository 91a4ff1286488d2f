/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_util.h - what the tests of the journal share: a directory to work in,
 * entries by number, a log that is looked at.
 */
#ifndef JOURNAL_UTIL_H
#define JOURNAL_UTIL_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "journal.h"

#ifndef WORK_TOP
#define WORK_TOP "/tmp"
#endif

static char work_dir[64]; /* made for each test */
static char journal_dir[96];
static atomic_uint log_lines; /* warnings and errors */

static inline void count_log(void *arg, enum stub_log_level level, const char *msg)
{
	if (level <= STUB_LOG_WARN)
		atomic_fetch_add(&log_lines, 1);
	if (getenv("TEST_LOG"))
		fprintf(stderr, "log: %s\n", msg);
}

static inline int make_work_dir(void **state)
{
	strcpy(work_dir, WORK_TOP "/test_journal.XXXXXX");
	if (!mkdtemp(work_dir))
		return -1;
	snprintf(journal_dir, sizeof(journal_dir), "%s/journal", work_dir);
	atomic_store(&log_lines, 0);
	return 0;
}

static inline int remove_work_dir(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", work_dir);
	return system(cmd);
}

#define journal_test(f) cmocka_unit_test_setup_teardown(f, make_work_dir, remove_work_dir)

static inline struct stub_handle handle_of(uint32_t i)
{
	struct stub_handle h = { .type = 1, .len = 8 };
	uint32_t words[2] = { i, i * 2654435761u };

	memcpy(h.bytes, words, sizeof(words));
	return h;
}

static inline uint32_t number_of(const struct stub_handle *h)
{
	uint32_t i;

	memcpy(&i, h->bytes, sizeof(i));
	return i;
}

static inline struct stub_journal_entry entry_of(uint32_t i, enum stub_journal_kind kind,
						 uint64_t size)
{
	return (struct stub_journal_entry){ .h = handle_of(i),
					    .kind = (uint8_t)kind,
					    .size = size,
					    .mtime = 1000 + (int64_t)i };
}

static inline struct stub_journal *open_journal(unsigned int flags)
{
	struct stub_journal *j = NULL;

	assert_int_equal(stub_journal_open(journal_dir, flags, count_log, NULL, &j), 0);
	return j;
}

static inline void add_one(struct stub_journal *j, uint32_t i, enum stub_journal_kind kind,
			   uint64_t size)
{
	struct stub_journal_entry e = entry_of(i, kind, size);

	assert_int_equal(stub_journal_add(j, &e, 1), 0);
}

static inline void add_many(struct stub_journal *j, uint32_t from, uint32_t n)
{
	struct stub_journal_entry e[1000];

	while (n > 0) {
		uint32_t part = n < 1000 ? n : 1000;

		for (uint32_t i = 0; i < part; i++)
			e[i] = entry_of(from + i, STUB_JOURNAL_FILE, 10);
		assert_int_equal(stub_journal_add(j, e, part), 0);
		from += part;
		n -= part;
	}
}

static inline void remove_many(struct stub_journal *j, uint32_t from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct stub_handle h = handle_of(from + i);

		assert_int_equal(stub_journal_remove(j, &h, 1), 0);
	}
}

static inline struct stub_journal_counts counts_of(struct stub_journal *j)
{
	struct stub_journal_counts c;

	assert_int_equal(stub_journal_counts(j, &c), 0);
	return c;
}

/* How many entries does a walk meet?  Negative: its error. */
static inline int64_t walk_all(struct stub_journal *j, bool parked)
{
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e[100];
	int64_t total = 0;
	int n;

	while ((n = stub_journal_next(j, &c, parked, e, 100)) > 0)
		total += n;
	return n < 0 ? n : total;
}

/* Run @f in a child: its exit status, or 1000 + signal. */
static inline int in_child(int (*f)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(f());
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* What is counted beside the entries must be what a walk through them finds. */
static inline struct stub_journal_totals totals_are_a_walk(struct stub_journal *j)
{
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_totals t, want = { 0 };
	struct stub_journal_entry e[100];
	uint64_t waiting = 0;
	int n;

	assert_int_equal(stub_journal_totals(j, &t), 0);
	assert_int_equal(stub_journal_audit(j), 0);
	while ((n = stub_journal_next(j, &c, true, e, 100)) > 0) {
		for (int i = 0; i < n; i++) {
			uint64_t bytes = e[i].kind == STUB_JOURNAL_DIR ? 0 : e[i].size;

			if (e[i].park) {
				want.parked++;
				want.parked_dirs += e[i].kind == STUB_JOURNAL_DIR;
				want.parked_bytes += bytes;
				continue;
			}
			want.left++;
			want.dirs += e[i].kind == STUB_JOURNAL_DIR;
			if (e[i].kind == STUB_JOURNAL_LINKS)
				waiting += bytes;
			else
				want.left_bytes += bytes;
		}
	}
	assert_int_equal(n, 0);
	assert_int_equal(t.left, want.left);
	assert_int_equal(t.left_bytes, want.left_bytes);
	assert_int_equal(t.parked, want.parked);
	assert_int_equal(t.parked_bytes, want.parked_bytes);
	assert_int_equal(t.dirs, want.dirs);
	assert_int_equal(t.parked_dirs, want.parked_dirs);
	assert_true(t.done_bytes >= waiting);
	assert_int_equal(t.found, t.done + t.left + t.parked);
	assert_int_equal(t.found_bytes, t.done_bytes + t.left_bytes + t.parked_bytes);
	return t;
}

#endif
