/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * neighbour: what another server of the same volume (Samba) does for its clients: local
 * calls behind libstubcore's front, and the news of them.  For the test suites only.
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
 * PATH is below the volume; its directory is there, and need not be listed.  Prints
 * CLOCK_MONOTONIC in nanoseconds as it was when the change was made, before anybody was told.
 * Exit status: 0, 1 failed, 2 wrong usage.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "internal.h"
#include "stubfront.h"

#define WAIT_MS 10000 /* for the old server */

enum { OBJ, DIR_OLD, DIR_NEW, REPLACED }; /* of one operation */

struct work {
	struct stub_gate gate;
	struct stub_wait wait;
	char **arg;
	struct stub_front o[STUB_CHANGE_OBJECTS]; /* those without a gate are not there */
	struct stub_bracket b;
};

static int fail(const char *what, int r)
{
	fprintf(stderr, "neighbour: %s: %s\n", what, strerror(-r));
	return 1;
}

/* ---- a server: which object, how long to wait ---- */

static bool wait_begin(struct stub_gate *g, struct stub_wait *w)
{
	if (!w->begun)
		w->until = stub_now_ms() + WAIT_MS;
	w->begun = true;
	return true;
}

static int wait_on(struct stub_gate *g, const struct stub_wait *w)
{
	return 0;
}

static const struct stub_gate_ops gate_ops = { .wait_begin = wait_begin, .wait_on = wait_on };

static int root_fd(const struct work *w)
{
	return stub_volume_fd(w->gate.volume);
}

static int open_path(struct work *w, const char *path, int flags)
{
	int fd = openat(root_fd(w), path, flags | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Object @i of the operation is what stands at @path. */
static int add(struct work *w, int i, const char *path)
{
	int fd CLEANUP_CLOSE = open_path(w, path, O_PATH);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	w->o[i] = (struct stub_front){ .gate = &w->gate, .maybe = true, .mode = st.st_mode };
	return stub_handle_of_fd(fd, &w->o[i].h);
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int add_parent(struct work *w, int i, const char *path)
{
	char *parent CLEANUP_FREE = strndup(path, (size_t)(name_of(path) - path));

	return add(w, i, parent && parent[0] ? parent : ".");
}

/* ---- an operation ---- */

static int begin(struct work *w)
{
	struct stub_front *in[STUB_CHANGE_OBJECTS];
	int r;

	for (int i = 0; i < STUB_CHANGE_OBJECTS; i++)
		in[i] = w->o[i].gate ? &w->o[i] : NULL;
	r = stub_bracket_begin(in, STUB_CHANGE_OBJECTS, &w->b);
	stub_bracket_tells(&w->b, DIR_OLD, STUB_NEWS_NAMES);
	stub_bracket_tells(&w->b, DIR_NEW, STUB_NEWS_NAMES);
	return r;
}

/* The change is made, at @now, and others were told: 0 or -errno. */
static int told(struct timespec now, int r)
{
	if (r == 0)
		printf("%" PRId64 "\n", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
	return r;
}

static struct timespec time_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now;
}

/* @r: of the operation, -1: it has failed, see errno. */
static int made(struct work *w, int r)
{
	int error = r < 0 ? -errno : 0;
	struct timespec now = time_now();

	return told(now, stub_bracket_end(&w->b, error));
}

static int do_write(struct work *w)
{
	uint64_t at = strtoull(w->arg[1], NULL, 0);
	size_t len = strlen(w->arg[2]);
	int fd CLEANUP_CLOSE = open_path(w, w->arg[0], O_WRONLY);
	int r = fd < 0 ? fd : add(w, OBJ, w->arg[0]);
	struct timespec now;

	if (r == 0)
		r = stub_bracket_range(&w->o[OBJ], &w->wait, at, len, &w->b);
	if (r < 0)
		return r;
	r = stub_io_pwrite(fd, w->arg[2], len, at);
	now = time_now();
	return told(now, stub_bracket_range_end(&w->b, &w->o[OBJ], r, at, len));
}

/* The attributes of what stands at the path change. */
static int attrs_begin(struct work *w)
{
	int r = add(w, OBJ, w->arg[0]);

	return r < 0 ? r : stub_bracket_attrs(&w->o[OBJ], &w->wait, &w->b);
}

static int do_truncate(struct work *w)
{
	int fd CLEANUP_CLOSE = open_path(w, w->arg[0], O_WRONLY);
	int r = fd < 0 ? fd : attrs_begin(w);

	return r < 0 ? r : made(w, ftruncate(fd, (off_t)strtoull(w->arg[1], NULL, 0)));
}

static int do_chmod(struct work *w)
{
	int r = attrs_begin(w);
	mode_t mode = (mode_t)strtoul(w->arg[1], NULL, 8);

	return r < 0 ? r : made(w, fchmodat(root_fd(w), w->arg[0], mode, 0));
}

/* A name may be made: it is none of the old server's. */
static int make_begin(struct work *w)
{
	struct stub_view view;
	int r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = stub_need_attrs(&w->o[DIR_OLD], &w->wait, &view);
	if (r == 0)
		r = stub_need_name(&w->o[DIR_OLD], &w->wait, name_of(w->arg[0]));
	return r < 0 && r != -ENOENT ? r : begin(w);
}

static int do_create(struct work *w)
{
	int fd CLEANUP_CLOSE = -1, r = make_begin(w);

	if (r < 0)
		return r;
	fd = openat(root_fd(w), w->arg[0], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
		    (mode_t)strtoul(w->arg[1], NULL, 8));
	return made(w, fd);
}

static int do_mkdir(struct work *w)
{
	int r = make_begin(w);

	if (r < 0)
		return r;
	stub_change_links(&w->b.c, DIR_OLD, 1);
	return made(w, mkdirat(root_fd(w), w->arg[0], (mode_t)strtoul(w->arg[1], NULL, 8)));
}

static int do_remove(struct work *w)
{
	int r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = stub_need_leave(&w->o[DIR_OLD], &w->wait, name_of(w->arg[0]));
	if (r == 0)
		r = add(w, OBJ, w->arg[0]);
	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	stub_change_links(&w->b.c, OBJ, -1);
	return made(w, unlinkat(root_fd(w), w->arg[0], 0));
}

/* What is at @path, if anything is, or comes there from the old server. */
static int add_replaced(struct work *w, const char *path)
{
	int r = stub_need_name(&w->o[DIR_NEW], &w->wait, name_of(path));

	if (r == 0 || r == -ENOENT)
		r = add(w, REPLACED, path);
	if (r == 0 && stub_front_strands(&w->o[DIR_NEW], &w->o[REPLACED]))
		r = stub_need_entries(&w->o[DIR_NEW], &w->wait);
	return r == -ENOENT ? 0 : r;
}

static int rename_ready(struct work *w)
{
	int r = add_parent(w, DIR_OLD, w->arg[0]);

	if (r == 0)
		r = stub_need_entries(&w->o[DIR_OLD], &w->wait);
	if (r == 0)
		r = add(w, OBJ, w->arg[0]);
	if (r == 0)
		r = add_parent(w, DIR_NEW, w->arg[1]);
	return r < 0 ? r : add_replaced(w, w->arg[1]);
}

static int do_rename(struct work *w)
{
	int r = rename_ready(w);

	if (r == 0)
		r = begin(w);
	if (r < 0)
		return r;
	stub_change_links(&w->b.c, REPLACED, -1);
	if (S_ISDIR(w->o[OBJ].mode)) {
		stub_bracket_tells(&w->b, OBJ, STUB_NEWS_ATTRS | STUB_NEWS_MOVED);
		stub_change_links(&w->b.c, DIR_OLD, -1);
		stub_change_links(&w->b.c, DIR_NEW, 1);
	}
	return made(w, renameat(root_fd(w), w->arg[0], root_fd(w), w->arg[1]));
}

static int do_flood(struct work *w)
{
	struct stub_front f = { .gate = &w->gate, .h = { .type = 1, .len = 12 } };
	uint32_t count = (uint32_t)strtoul(w->arg[1], NULL, 0);

	for (uint32_t i = 0; i < count; i++) {
		memcpy(f.h.bytes, &i, sizeof(i));
		stub_front_tell(&f);
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
	struct work w = { .arg = argv + 3, .gate = { .ops = &gate_ops, .tells = true } };
	int r;

	for (size_t i = 0; i < ARRAY_LEN(commands) && argc > 2; i++)
		if (!strcmp(commands[i].name, argv[2]))
			c = &commands[i];
	if (!c || argc != 3 + c->arguments) {
		fprintf(stderr, "usage: neighbour VOLUME write|truncate|chmod|create|mkdir|remove|"
				"rename|flood PATH ...\n");
		return 2;
	}
	r = stub_volume_open(argv[1], STUB_OPEN_FOLD | STUB_OPEN_NEWS, NULL, NULL, &w.gate.volume);
	if (r < 0)
		return fail(argv[1], r);
	r = c->run(&w);
	stub_volume_close(w.gate.volume);
	return r < 0 ? fail(argv[2], r) : 0;
}
