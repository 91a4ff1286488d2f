/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * frontier.c - how large does the pending journal become while a tree is crawled?
 *
 *   frontier DEPTH BRANCH FILES AHEAD [WORD...]     a line of JSON
 *
 * The crawler's queue (crawler/queue.c) and a real journal, in a directory of its own below
 * $TMPDIR or /dev/shm; the tree is made up while it is listed: each directory has FILES files and,
 * down to DEPTH, BRANCH directories. What is given out is done at once: a directory's names
 * come into the journal in one transaction, done entries leave it by 64, as in the retriever.
 * Inode numbers are handed out by turns in four groups, as XFS does for directories.
 * AHEAD and WORDs are those of 'postcopy order'. FRONTIER_NOT_DEEP=1 in the environment: without
 * deep.h, to compare.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "deep.h"
#include "internal.h"
#include "order/order.h"
#include "queue.h"

#define GROUPS	  4
#define DONE	  64 /* removed at once */
#define NAMES_MAX 100000
#define OBJECTS_MAX 100000000

struct made {
	struct stub_journal *journal;
	struct queue *queue;
	struct deep *deep;
	uint64_t *first; /* by number: the first directory of a listed one; 0: it is not */
	uint8_t *depth;
	uint64_t objects, number; /* in the tree; found */
	uint32_t levels, files, branch;
	struct stub_journal_entry *names;
	struct stub_handle done[DONE];
	size_t n;
	struct stub_journal_counts most;
};

static void die(const char *what, int r)
{
	fprintf(stderr, "frontier: %s: %s\n", what, strerror(-r));
	exit(1);
}

static void log_line(void *arg, enum stub_log_level level, const char *msg)
{
	if (level <= STUB_LOG_WARN)
		fprintf(stderr, "frontier: %s\n", msg);
}

static uint64_t number_of(const struct stub_handle *h)
{
	uint32_t ino;

	memcpy(&ino, h->bytes, sizeof(ino));
	return (uint64_t)(ino & ((1u << 29) - 1)) * GROUPS + (ino >> 29);
}

static struct stub_handle handle_of(uint64_t number)
{
	uint32_t ino = (uint32_t)(number % GROUPS << 29 | number / GROUPS);
	struct stub_handle h = { .type = 1, .len = 8 };

	memcpy(h.bytes, &ino, sizeof(ino));
	return h;
}

static struct stub_journal_entry entry(struct made *m, enum stub_journal_kind kind)
{
	uint64_t n = m->number++;

	return (struct stub_journal_entry){
		.h = handle_of(n), .kind = (uint8_t)kind, .size = 1000 + n % 7777 * 100,
		.mtime = time(NULL) - (int64_t)(n * 2654435761u % 100000000),
	};
}

/* For deep.h, as deep_names(). */
static int next_dir(void *arg, const struct stub_handle *dir, long *at, struct stub_handle *out)
{
	struct made *m = arg;
	uint64_t number = number_of(dir);

	while (m->first[number] && *at < (m->depth[number] < m->levels ? (long)m->branch : 0)) {
		uint64_t below = m->first[number] + (uint64_t)(*at)++;

		if (!m->first[below]) {
			*out = handle_of(below);
			return 1;
		}
	}
	return 0;
}

static void remove_done(struct made *m)
{
	int r = stub_journal_remove(m->journal, m->done, m->n);

	if (r < 0)
		die("remove", r);
	m->n = 0;
}

static void list(struct made *m, const struct stub_handle *h)
{
	uint64_t of = number_of(h);
	uint32_t n = 0;
	int r;

	m->first[of] = m->number;
	for (uint32_t i = 0; i < m->branch && m->depth[of] < m->levels; i++) {
		m->depth[m->number] = m->depth[of] + 1;
		m->names[n++] = entry(m, STUB_JOURNAL_DIR);
	}
	for (uint32_t i = 0; i < m->files; i++)
		m->names[n++] = entry(m, STUB_JOURNAL_FILE);
	r = n ? stub_journal_add(m->journal, m->names, n) : 0;
	if (r < 0)
		die("add", r);
}

static void look(struct made *m)
{
	struct stub_journal_counts c;
	int r = stub_journal_counts(m->journal, &c);

	if (r < 0)
		die("counts", r);
	if (c.total > m->most.total)
		m->most = c;
}

static uint64_t crawl(struct made *m)
{
	uint64_t given = 0, now = 1000;
	struct stub_journal_entry e;
	int r;

	for (;; now++) {
		r = deep_next(m->deep, m->queue, now, &e);
		if (r == 0)
			r = queue_next(m->queue, now, &e);
		if (r < 0)
			die("next", r);
		if (r == 0 && m->n) {
			remove_done(m);
			continue;
		}
		if (r == 0) {
			struct stub_journal_counts c;

			stub_journal_counts(m->journal, &c);
			if (c.total == 0)
				return given;
			continue;
		}
		given++;
		if (e.kind == STUB_JOURNAL_DIR)
			list(m, &e.h);
		if (e.kind == STUB_JOURNAL_DIR || given % 64 == 0)
			look(m);
		queue_rest(m->queue, &e.h, now + 10000);
		m->done[m->n++] = e.h;
		if (m->n == DONE)
			remove_done(m);
		if (e.kind == STUB_JOURNAL_DIR) {
			queue_hurry(m->queue, now, 10);
			if (!getenv("FRONTIER_NOT_DEEP"))
				deep_listed(m->deep, &e.h);
		}
	}
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n > UINT32_MAX) {
		fprintf(stderr, "frontier: '%s' is no number\n", text);
		exit(2);
	}
	return n;
}

static void order_of(struct queue *q, char **words, const char *ahead)
{
	struct order o;
	char why[256], text[64];

	order_init(&o);
	snprintf(text, sizeof(text), "ahead=%s", ahead);
	for (const char *word = text; word; word = *words++) {
		if (order_take(&o, word, why, sizeof(why)) < 0) {
			fprintf(stderr, "frontier: %s\n", why);
			exit(2);
		}
	}
	queue_order(q, &o);
}

int main(int argc, char **argv)
{
	const char *top = getenv("TMPDIR");
	char dir[256], file[300], cmd[300];
	struct made m = { 0 };
	struct timespec begin, end;
	struct stat st;
	uint64_t given, dirs;
	int r;

	if (argc < 5) {
		fprintf(stderr, "Usage: frontier DEPTH BRANCH FILES AHEAD [WORD...]\n");
		return 2;
	}
	m.levels = (uint32_t)number(argv[1]);
	m.branch = (uint32_t)number(argv[2]);
	m.files = (uint32_t)number(argv[3]);
	dirs = 1;
	for (uint32_t i = 0, level = 1; i < m.levels && dirs < OBJECTS_MAX; i++)
		dirs += level *= m.branch;
	m.objects = dirs * (m.files + 1);
	if (m.objects > OBJECTS_MAX || m.files + m.branch > NAMES_MAX) {
		fprintf(stderr, "frontier: that is too large\n");
		return 2;
	}
	m.names = calloc(m.files + m.branch + 1, sizeof(*m.names));
	m.first = calloc(m.objects + 1, sizeof(*m.first));
	m.depth = calloc(m.objects + 1, sizeof(*m.depth));
	snprintf(dir, sizeof(dir), "%s/frontier.XXXXXX", top ? top : "/dev/shm");
	if (!m.first || !m.depth || !m.names || !mkdtemp(dir))
		die(dir, -errno);
	r = stub_journal_open(dir, 0, log_line, NULL, &m.journal);
	if (r == 0)
		r = queue_create(dir, log_line, NULL, &m.queue);
	if (r == 0)
		r = deep_create(next_dir, &m, &m.deep);
	if (r < 0)
		die(dir, r);
	order_of(m.queue, argv + 5, argv[4]);
	m.names[0] = entry(&m, STUB_JOURNAL_DIR);
	stub_journal_add(m.journal, m.names, 1);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	given = crawl(&m);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	snprintf(file, sizeof(file), "%s/data.mdb", dir);
	if (stat(file, &st) < 0)
		die(file, -errno);
	printf("{\"objects\": %" PRIu64 ", \"given\": %" PRIu64 ", \"directories\": %" PRIu64
	       ", \"ahead\": %s, \"most\": %" PRIu64 ", \"most_dirs\": %" PRIu64
	       ", \"most_files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"cpu_s\": %.1f}\n",
	       m.number, given, dirs, argv[4], m.most.total, m.most.dirs, m.most.files,
	       (uint64_t)st.st_blocks * 512,
	       (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	deep_destroy(m.deep);
	queue_destroy(m.queue);
	stub_journal_close(m.journal);
	free(m.names);
	free(m.first);
	free(m.depth);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	return system(cmd) ? 1 : 0;
}
