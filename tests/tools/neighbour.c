/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * neighbour: what another server of the same volume (Samba) does for its clients: local
 * calls inside libstubcore's bracket, and the news of them.  For the test suites only.
 *
 *   neighbour VOLUME write PATH OFFSET TEXT
 *   neighbour VOLUME truncate PATH SIZE
 *   neighbour VOLUME chmod PATH MODE
 *   neighbour VOLUME create PATH MODE
 *   neighbour VOLUME mkdir PATH MODE
 *   neighbour VOLUME remove PATH -
 *   neighbour VOLUME rename PATH NEW
 *   neighbour VOLUME flood - COUNT       no change; news of COUNT objects that nobody knows
 *
 * PATH is below the volume, in directories that are listed.  Prints CLOCK_MONOTONIC in
 * nanoseconds as it was when the change was made, before anybody was told.
 * Exit status: 0, 1 failed, 2 wrong usage.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "internal.h"

enum { OBJ, DIR_OLD, DIR_NEW, REPLACED }; /* slots of a bracket */

struct work {
	struct stub_volume *v;
	char **arg;
	struct stub_handle h[STUB_CHANGE_OBJECTS];
	unsigned int what[STUB_CHANGE_OBJECTS]; /* 0: not there */
	struct stub_change c;
};

static int fail(const char *what, int r)
{
	fprintf(stderr, "neighbour: %s: %s\n", what, strerror(-r));
	return 1;
}

static int open_path(struct work *w, const char *path, int flags)
{
	int fd = openat(stub_volume_fd(w->v), path, flags | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Object @i of the operation is what stands at @path. */
static int add(struct work *w, int i, const char *path, unsigned int what)
{
	int fd CLEANUP_CLOSE = open_path(w, path, O_PATH);

	if (fd < 0)
		return fd;
	w->what[i] = what;
	return stub_handle_of_fd(fd, &w->h[i]);
}

static int add_parent(struct work *w, int i, const char *path)
{
	char *parent CLEANUP_FREE = strdup(path), *slash = parent ? strrchr(parent, '/') : NULL;

	if (slash)
		*slash = '\0';
	return add(w, i, slash ? parent : ".", STUB_NEWS_NAMES);
}

static int begin(struct work *w)
{
	const struct stub_handle *list[STUB_CHANGE_OBJECTS];

	for (int i = 0; i < STUB_CHANGE_OBJECTS; i++)
		list[i] = w->what[i] ? &w->h[i] : NULL;
	return stub_change_begin(w->v, list, STUB_CHANGE_OBJECTS, &w->c);
}

/* The change is made: its time, and the news. */
static int end(struct work *w, int r)
{
	struct timespec now;
	int e = stub_change_end(&w->c, r);

	r = r < 0 ? r : e;
	if (r < 0)
		return r;
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%" PRId64 "\n", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
	for (int i = 0; i < STUB_CHANGE_OBJECTS; i++)
		if (w->what[i])
			stub_news_post(w->v, &w->h[i], w->what[i]);
	return 0;
}

/* ---- operations ---- */

static int do_write(struct work *w)
{
	uint64_t at = strtoull(w->arg[1], NULL, 0);
	size_t len = strlen(w->arg[2]);
	int fd CLEANUP_CLOSE = open_path(w, w->arg[0], O_WRONLY);
	int r = fd < 0 ? fd : add(w, OBJ, w->arg[0], STUB_NEWS_ATTRS);

	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	r = stub_io_pwrite(fd, w->arg[2], len, at);
	if (r == 0)
		r = stub_change_written(&w->c, OBJ, at, len);
	return end(w, r);
}

static int do_truncate(struct work *w)
{
	int fd CLEANUP_CLOSE = open_path(w, w->arg[0], O_WRONLY);
	int r = fd < 0 ? fd : add(w, OBJ, w->arg[0], STUB_NEWS_ATTRS);

	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	return end(w, ftruncate(fd, (off_t)strtoull(w->arg[1], NULL, 0)) < 0 ? -errno : 0);
}

static int do_chmod(struct work *w)
{
	int r = add(w, OBJ, w->arg[0], STUB_NEWS_ATTRS);

	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	r = fchmodat(stub_volume_fd(w->v), w->arg[0], (mode_t)strtoul(w->arg[1], NULL, 8), 0);
	return end(w, r < 0 ? -errno : 0);
}

static int do_create(struct work *w)
{
	int fd CLEANUP_CLOSE = -1, r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	fd = openat(stub_volume_fd(w->v), w->arg[0], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
		    (mode_t)strtoul(w->arg[1], NULL, 8));
	return end(w, fd < 0 ? -errno : 0);
}

static int do_mkdir(struct work *w)
{
	int r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	stub_change_links(&w->c, DIR_OLD, 1);
	r = mkdirat(stub_volume_fd(w->v), w->arg[0], (mode_t)strtoul(w->arg[1], NULL, 8));
	return end(w, r < 0 ? -errno : 0);
}

static int do_remove(struct work *w)
{
	int r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = add(w, OBJ, w->arg[0], STUB_NEWS_ATTRS);
	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	stub_change_links(&w->c, OBJ, -1);
	r = unlinkat(stub_volume_fd(w->v), w->arg[0], 0);
	return end(w, r < 0 ? -errno : 0);
}

static int do_rename(struct work *w)
{
	struct stat st;
	int root = stub_volume_fd(w->v), r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = add_parent(w, DIR_NEW, w->arg[1]);
	if (r == 0)
		r = add(w, OBJ, w->arg[0], STUB_NEWS_ATTRS);
	if (r == 0 && fstatat(root, w->arg[0], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		w->what[OBJ] |= STUB_NEWS_MOVED;
	if (r == 0 && add(w, REPLACED, w->arg[1], STUB_NEWS_ATTRS) == -ENOENT)
		w->what[REPLACED] = 0;
	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	stub_change_links(&w->c, REPLACED, -1);
	if (w->what[OBJ] & STUB_NEWS_MOVED) {
		stub_change_links(&w->c, DIR_OLD, -1);
		stub_change_links(&w->c, DIR_NEW, 1);
	}
	return end(w, renameat(root, w->arg[0], root, w->arg[1]) < 0 ? -errno : 0);
}

static int do_flood(struct work *w)
{
	struct stub_handle h = { .type = 1, .len = 12 };
	uint32_t count = (uint32_t)strtoul(w->arg[1], NULL, 0);

	for (uint32_t i = 0; i < count; i++) {
		memcpy(h.bytes, &i, sizeof(i));
		stub_news_post(w->v, &h, STUB_NEWS_ATTRS);
	}
	return 0;
}

/* ---- main ---- */

static const struct command {
	const char *name;
	int (*run)(struct work *w);
	int arguments;
} commands[] = {
	{ "write", do_write, 3 },   { "truncate", do_truncate, 2 }, { "chmod", do_chmod, 2 },
	{ "create", do_create, 2 }, { "mkdir", do_mkdir, 2 },	    { "remove", do_remove, 2 },
	{ "rename", do_rename, 2 }, { "flood", do_flood, 2 },
};

int main(int argc, char **argv)
{
	const struct command *c = NULL;
	struct work w = { .arg = argv + 3 };
	int r;

	for (size_t i = 0; i < ARRAY_LEN(commands) && argc > 2; i++)
		if (!strcmp(commands[i].name, argv[2]))
			c = &commands[i];
	if (!c || argc != 3 + c->arguments) {
		fprintf(stderr, "usage: neighbour VOLUME write|truncate|chmod|create|mkdir|remove|"
				"rename|flood PATH ...\n");
		return 2;
	}
	r = stub_volume_open(argv[1], STUB_OPEN_FOLD | STUB_OPEN_NEWS, NULL, NULL, &w.v);
	if (r < 0)
		return fail(argv[1], r);
	r = c->run(&w);
	stub_volume_close(w.v);
	return r < 0 ? fail(argv[2], r) : 0;
}
