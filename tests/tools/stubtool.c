/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stubtool: look at stubs and bring them into a state, for the test suites only.
 *
 *   stubtool show VOLUME PATH           the record and the local inode, as JSON
 *   stubtool missing VOLUME PATH        one line "start end" for each missing range
 *   stubtool dummy VOLUME PATH          an untouched stub loses its attributes
 *   stubtool ask VOLUME PATH lookup NAME | list | attr | data OFFSET LENGTH | fill
 *                                       what a server plugin or the crawler asks
 *
 * PATH is below the volume and never followed through symlinks.  Nothing here goes
 * through a server, so no server has anything cached of what is shown or changed.
 * Exit status: 0, 1 failed (the message says the errno), 2 wrong usage.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "internal.h"
#include "show.h"

#define ASK_MS 30000

struct target {
	struct stub_volume *v;
	const char *path;
	int fd; /* O_PATH */
	struct stub_handle h;
	char **more;
	int n_more;
};

static int fail(const char *what, int r)
{
	fprintf(stderr, "stubtool: %s: %s\n", what, strerror(-r));
	return 1;
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- show, missing ---- */

static void print_stat(const struct stat *st)
{
	printf(", \"local\": {\"ino\": %ju, \"mode\": %u, \"uid\": %u, \"gid\": %u, "
	       "\"nlink\": %ju, \"size\": %jd, \"mtime\": %" PRId64 ", \"ctime\": %" PRId64
	       ", \"atime\": %" PRId64 ", \"blocks\": %jd}",
	       (uintmax_t)st->st_ino, st->st_mode, st->st_uid, st->st_gid, (uintmax_t)st->st_nlink,
	       (intmax_t)st->st_size, ns(st->st_mtim), ns(st->st_ctim), ns(st->st_atim),
	       (intmax_t)st->st_blocks);
}

static int cmd_show(struct target *t)
{
	struct stub_record rec;
	struct stat st;
	int r = stub_record_load(t->v, t->fd, &t->h, &st, &rec);

	if (r < 0 && r != -ENOENT)
		return fail(t->path, r);
	printf("{\"stub\": %s", r == 0 ? "true" : "false");
	if (r == 0) {
		printf(", ");
		show_needs_and_flags(&rec);
		show_map("now", &rec.now);
		show_map("durable", &rec.durable);
		printf(", \"nlink\": %u, \"mtime\": %" PRId64 ", \"ctime\": %" PRId64
		       ", \"depth\": %u, \"source\": {\"size\": %" PRIu64 ", \"nlink\": %u, "
		       "\"mtime\": %" PRId64 ", \"ctime\": %" PRId64 ", \"fsid\": %" PRIu64
		       ", \"fileid\": %" PRIu64 "}",
		       rec.nlink_shown, ns(rec.mtime), ns(rec.ctime), rec.depth, rec.size,
		       rec.nlink, ns(rec.src_mtime), ns(rec.src_ctime), rec.fsid, rec.fileid);
	}
	print_stat(&st);
	printf("}\n");
	return 0;
}

static int cmd_missing(struct target *t)
{
	struct stub_record rec;
	struct stat st;
	int r = stub_record_load(t->v, t->fd, &t->h, &st, &rec);

	if (r < 0 && r != -ENOENT)
		return fail(t->path, r);
	for (uint32_t i = 0; r == 0 && i < rec.now.n; i++)
		printf("%" PRIu64 " %" PRIu64 "\n", rec.now.r[i].start, rec.now.r[i].end);
	return 0;
}

/* ---- dummy ---- */

static bool untouched(const struct stub_record *rec, bool dir)
{
	uint64_t data = dir ? 0 : rec->size;

	if (rec->flags & ~STUB_FLAG_UNLISTED || stub_time_cmp(rec->mtime, rec->src_mtime) != 0)
		return false;
	return stub_map_bytes(&rec->now) == data && stub_map_bytes(&rec->durable) == data;
}

static int dummy_locked(struct target *t, int fd)
{
	struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };
	struct stub_record rec;
	struct stat st;
	int r = stub_record_load(t->v, fd, &t->h, &st, &rec);

	if (r < 0)
		return r;
	if (!untouched(&rec, S_ISDIR(st.st_mode)))
		return -EBUSY;
	rec.flags |= STUB_FLAG_DUMMY;
	stub_map_init(&rec.now, 0);
	stub_map_init(&rec.durable, 0);
	if (fchown(fd, 0, 0) < 0 || fchmod(fd, 0) < 0 ||
	    (S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0) || futimens(fd, now) < 0 ||
	    fstat(fd, &st) < 0)
		return -errno;
	rec.mtime = st.st_mtim; /* or it would look as if somebody else had set it */
	return stub_record_store(t->v, fd, &rec);
}

static int cmd_dummy(struct target *t)
{
	struct stat st;
	uint64_t ino;
	unsigned int n;
	int r, fd CLEANUP_CLOSE = -1;

	if (fstat(t->fd, &st) < 0)
		return fail(t->path, -errno);
	fd = stub_handle_open(t->v, &t->h,
			      (S_ISDIR(st.st_mode) ? O_RDONLY : O_RDWR) | O_NONBLOCK);
	if (fd < 0)
		return fail(t->path, fd);
	ino = st.st_ino;
	r = stub_lock(&t->v->locks, &ino, 1, &n);
	if (r == 0) {
		r = dummy_locked(t, fd);
		stub_unlock(&t->v->locks, &ino, n);
	}
	return r < 0 ? fail(t->path, r) : 0;
}

/* ---- ask ---- */

static const struct kind {
	const char *name;
	enum stub_ask_kind kind;
	int arguments;
} kinds[] = {
	{ "lookup", STUB_ASK_LOOKUP, 1 }, { "list", STUB_ASK_LIST, 0 },
	{ "attr", STUB_ASK_ATTR, 0 },	  { "data", STUB_ASK_DATA, 2 },
	{ "fill", STUB_ASK_FILL, 0 },
};

static int cmd_ask(struct target *t)
{
	struct stub_ask ask = { .h = t->h };
	size_t i = 0;
	int r;

	while (i < ARRAY_LEN(kinds) && (!t->n_more || strcmp(kinds[i].name, t->more[0])))
		i++;
	if (i == ARRAY_LEN(kinds) || t->n_more != kinds[i].arguments + 1)
		return 2;
	ask.kind = kinds[i].kind;
	if (ask.kind == STUB_ASK_LOOKUP) {
		ask.name = t->more[1];
		ask.name_len = strlen(ask.name);
	} else if (ask.kind == STUB_ASK_DATA) {
		ask.offset = strtoull(t->more[1], NULL, 0);
		ask.length = strtoull(t->more[2], NULL, 0);
	}
	r = stub_ask(t->v, &ask, ASK_MS);
	return r < 0 ? fail(t->more[0], r) : 0;
}

/* ---- main ---- */

static const struct command {
	const char *name;
	int (*run)(struct target *t);
	bool more;
} commands[] = {
	{ "show", cmd_show, false },
	{ "missing", cmd_missing, false },
	{ "dummy", cmd_dummy, false },
	{ "ask", cmd_ask, true },
};

static void log_stderr(void *arg, enum stub_log_level level, const char *msg)
{
	(void)arg;
	if (level <= STUB_LOG_WARN)
		fprintf(stderr, "stubtool: %s\n", msg);
}

static int usage(void)
{
	fprintf(stderr,
		"usage: stubtool show|missing|dummy VOLUME PATH\n"
		"       stubtool ask VOLUME PATH lookup NAME|list|attr|data OFFSET LENGTH|fill\n");
	return 2;
}

static int run(const struct command *c, struct target *t)
{
	int r;

	while (*t->path == '/')
		t->path++;
	t->fd = openat(stub_volume_fd(t->v), *t->path ? t->path : ".",
		       O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (t->fd < 0)
		return fail(t->path, -errno);
	r = stub_handle_of_fd(t->fd, &t->h);
	r = r < 0 ? fail(t->path, r) : c->run(t);
	close(t->fd);
	return r == 2 ? usage() : r;
}

int main(int argc, char **argv)
{
	const struct command *c = NULL;
	struct target t = { .fd = -1 };
	int r;

	for (size_t i = 0; i < ARRAY_LEN(commands) && argc > 1; i++)
		if (!strcmp(commands[i].name, argv[1]))
			c = &commands[i];
	if (!c || argc < 4 || (argc > 4) != c->more)
		return usage();
	r = stub_volume_open(argv[2], 0, log_stderr, NULL, &t.v);
	if (r < 0)
		return fail(argv[2], r);
	t.path = argv[3];
	t.more = argv + 4;
	t.n_more = argc - 4;
	r = run(c, &t);
	stub_volume_close(t.v);
	return r;
}
