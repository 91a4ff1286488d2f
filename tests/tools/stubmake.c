/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stubmake - how fast are stubs made, beside plain files?  (tests/bench/run)
 *
 *   stubmake stubs DIR DIRS ENTRIES THREADS    a new volume in the empty directory DIR, whose
 *                                              directories are listed: so many, with so many files
 *                                              of 4 KiB each, of which nothing is here
 *   stubmake files DIR DIRS ENTRIES THREADS    as many empty files, each with an extended attribute
 *                                              as long as such a stub's record
 *
 * Prints a JSON line: the seconds until all is synced, and the processor time of all threads.  No
 * old server and no file server have a part in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "internal.h"

#define PAGE	   1000 /* entries of a page of the old server's listing */
#define RECORD	   150	/* about what the record of such a stub has */
#define HANDLE	   28	/* an origin, as long as a Linux server's handles */
#define THREAD_MAX 64

struct work {
	struct stub_volume *v; /* NULL: plain files */
	struct stub_journal *j;
	int top;
	unsigned int dirs, entries;
	atomic_uint next;
	atomic_int error;
};

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void log_stderr(void *arg, enum stub_log_level level, const char *msg)
{
	(void)arg;
	if (level <= STUB_LOG_WARN)
		fprintf(stderr, "stubmake: %s\n", msg);
}

struct made_up {
	char name[16];
	uint8_t origin[HANDLE];
};

static struct stub_entry entry(struct made_up *m, char kind, unsigned int dir, unsigned int number)
{
	struct stub_entry e = {
		.attr = { .mode = kind == 'd' ? S_IFDIR | 0755 : S_IFREG | 0644,
			  .nlink = kind == 'd' ? 2 : 1,
			  .uid = 1001,
			  .gid = 1002,
			  .size = 4096,
			  .fsid = 1,
			  .fileid = ((uint64_t)dir << 32) + number + 1000,
			  .atime = { 1200000000, 11 },
			  .mtime = { 1200000001, 22 },
			  .ctime = { 1200000002, 33 } },
	};

	snprintf(m->name, sizeof(m->name), "%c%06u", kind, number);
	memset(m->origin, 7, sizeof(m->origin));
	memcpy(m->origin, &e.attr.fileid, sizeof(e.attr.fileid));
	e.name = m->name;
	e.name_len = strlen(m->name);
	e.origin = m->origin;
	e.origin_len = sizeof(m->origin);
	return e;
}

/* List @o with @n entries of that kind, as the retriever does: page by page. */
static int list(struct work *w, const struct stub_object *o, char kind, unsigned int dir,
		unsigned int n)
{
	struct made_up *m CLEANUP_FREE = calloc(PAGE, sizeof(*m));
	struct stub_entry *e CLEANUP_FREE = calloc(PAGE, sizeof(*e));
	struct stub_refused refused = { 0 };
	size_t bad;
	int r = m && e ? 0 : -ENOMEM;

	for (unsigned int i = 0; i < n && r == 0; i += PAGE) {
		unsigned int some = n - i > PAGE ? PAGE : n - i;

		for (unsigned int k = 0; k < some; k++)
			e[k] = entry(&m[k], kind, dir, i + k);
		r = stub_list_batch(w->v, w->j, o, e, some, &refused, &bad);
	}
	return r < 0 ? r : stub_list_finish(w->v, w->j, o, &refused, false);
}

static int list_dir(struct work *w, unsigned int dir)
{
	struct stub_object o;
	struct stub_handle h;
	struct made_up m;
	struct stub_entry e = entry(&m, 'd', 0, dir);
	int r, fd CLEANUP_CLOSE = openat(w->top, e.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	r = stub_handle_of_fd(fd, &h);
	if (r == 0)
		r = stub_object_open(w->v, &h, &o);
	if (r < 0)
		return r;
	r = list(w, &o, 'f', dir + 1, w->entries);
	stub_object_close(&o);
	return r;
}

static int plain_dir(struct work *w, unsigned int dir)
{
	char value[RECORD] = { 0 };
	struct made_up m;
	struct stub_entry e = entry(&m, 'd', 0, dir);
	int top CLEANUP_CLOSE = openat(w->top, e.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned int i = 0; i < w->entries; i++) {
		int fd CLEANUP_CLOSE = -1;

		e = entry(&m, 'f', dir, i);
		memcpy(value, &e.attr.fileid, sizeof(e.attr.fileid));
		fd = openat(top, e.name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
		if (fd < 0 || fsetxattr(fd, STUB_XATTR, value, sizeof(value), 0) < 0)
			return -errno;
	}
	return 0;
}

static void *run(void *arg)
{
	struct work *w = arg;
	unsigned int dir;
	int r;

	while ((dir = atomic_fetch_add(&w->next, 1)) < w->dirs) {
		r = w->v ? list_dir(w, dir) : plain_dir(w, dir);
		if (r < 0)
			atomic_store(&w->error, r);
	}
	return NULL;
}

/* The directories, which are not measured. */
static int make_dirs(struct work *w)
{
	struct stub_object o;
	struct made_up m;
	int r;

	if (w->v) {
		r = stub_object_open(w->v, stub_volume_root(w->v), &o);
		if (r < 0)
			return r;
		r = list(w, &o, 'd', 0, w->dirs);
		stub_object_close(&o);
		return r;
	}
	for (unsigned int i = 0; i < w->dirs; i++)
		if (mkdirat(w->top, entry(&m, 'd', 0, i).name, 0755) < 0)
			return -errno;
	return 0;
}

static int measure(struct work *w, unsigned int threads)
{
	pthread_t thread[THREAD_MAX];
	double begin, cpu;
	unsigned int n = 0;
	int r = make_dirs(w);

	if (r == 0 && syncfs(w->top) < 0)
		r = -errno;
	if (r < 0)
		return r;
	begin = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	while (r == 0 && n < threads) {
		r = -pthread_create(&thread[n], NULL, run, w);
		n += r == 0;
	}
	while (n > 0)
		pthread_join(thread[--n], NULL);
	if (r == 0)
		r = atomic_load(&w->error);
	if (r == 0 && syncfs(w->top) < 0)
		r = -errno;
	if (r == 0)
		printf("{\"files\": %u, \"seconds\": %.6f, \"cpu\": %.6f}\n", w->dirs * w->entries,
		       seconds(CLOCK_MONOTONIC) - begin, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return r;
}

static int open_volume(struct work *w, const char *dir)
{
	struct stub_volume_info info = {
		.uuid = "00000000-0000-0000-0000-000000000001",
		.source = "nfs://127.0.0.1/export",
		.socket = "/nonexistent/stubmake.sock",
		.control = "/nonexistent/stubmake.ctl",
	};
	struct stub_origin root = { 4, "root" };
	struct stub_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2, .fsid = 1, .fileid = 2 };
	char path[4200];
	int r = stub_volume_create(dir, &info, &root, &attr, false, NULL, log_stderr, NULL);

	snprintf(path, sizeof(path), "%s/" STUB_DIR "/journal", dir);
	if (r == 0)
		r = stub_volume_open(dir, 0, log_stderr, NULL, &w->v);
	return r == 0 ? stub_journal_open(path, 0, log_stderr, NULL, &w->j) : r;
}

int main(int argc, char **argv)
{
	struct work w = { .top = -1 };
	unsigned int threads;
	int r = 0;

	if (argc != 6 || (strcmp(argv[1], "stubs") && strcmp(argv[1], "files"))) {
		fputs("usage: stubmake stubs|files DIR DIRS ENTRIES THREADS\n", stderr);
		return 2;
	}
	w.dirs = (unsigned int)strtoul(argv[3], NULL, 10);
	w.entries = (unsigned int)strtoul(argv[4], NULL, 10);
	threads = (unsigned int)strtoul(argv[5], NULL, 10);
	if (threads < 1 || threads > THREAD_MAX) {
		fprintf(stderr, "stubmake: 1 to %d threads\n", THREAD_MAX);
		return 2;
	}
	w.top = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w.top < 0)
		r = -errno;
	if (r == 0 && !strcmp(argv[1], "stubs"))
		r = open_volume(&w, argv[2]);
	if (r == 0)
		r = measure(&w, threads);
	stub_journal_close(w.j);
	stub_volume_close(w.v);
	stub_cleanup_close(&w.top);
	if (r < 0)
		fprintf(stderr, "stubmake: %s\n", strerror(-r));
	return r < 0;
}
