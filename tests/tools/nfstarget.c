// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfstarget - use retriever/source/target.h from the command line, for tests.
 *
 *   nfstarget URI max                        the largest write
 *   nfstarget URI make PATH ATTR... [to=TARGET] [dev=MAJOR,MINOR]
 *   nfstarget URI set PATH ATTR...
 *   nfstarget URI write PATH OFFSET THREADS  stdin, in writes of that size, then COMMIT
 *   nfstarget URI link PATH NEW, rename PATH NEW, remove PATH, rmdir PATH
 *   nfstarget URI acl PATH [access=HEX] [default=HEX]
 *
 * ATTR: mode=OCTAL (with the type), owner=UID:GID, size=N, times=ATIME,MTIME (nanoseconds).
 * PATH is relative to the export.  make shows the attributes of what it made, as sourcecat stat.
 * Exit status 0, or 1 with the name of the error on stderr.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/target.h"

#define THREADS_MAX 32
#define NS	    INT64_C(1000000000)

static void on_log(void *arg, enum stub_log_level level, const char *msg)
{
	(void)arg;
	if (level <= STUB_LOG_WARN)
		fprintf(stderr, "nfstarget: %s\n", msg);
}

/* ---- paths ---- */

static int resolve(struct source *s, const char *path, size_t len, struct stub_origin *o,
		   struct stub_attr *a)
{
	int r = source_root(s, o, a);

	for (size_t at = 0, n; !r && at < len; at += n + 1) {
		struct stub_origin dir = *o;

		n = strcspn(path + at, "/");
		n = n < len - at ? n : len - at;
		r = source_lookup(s, SOURCE_DEMAND, &dir, NULL, path + at, n, o, a);
	}
	return r;
}

static int find(struct source *s, const char *path, struct stub_origin *o, struct stub_attr *a)
{
	return resolve(s, path, strlen(path), o, a);
}

/* The directory of @path, and the last name. */
static int parent(struct source *s, const char *path, struct stub_origin *dir, const char **name)
{
	const char *slash = strrchr(path, '/');
	struct stub_attr a;

	*name = slash ? slash + 1 : path;
	return resolve(s, path, slash ? (size_t)(slash - path) : 0, dir, &a);
}

/* ---- arguments ---- */

struct given {
	struct stub_attr attr;
	unsigned int what;
	const char *target;
	const char *acl[2]; /* access, default: hexadecimal */
};

static struct timespec moment(int64_t ns)
{
	return (struct timespec){ ns / NS - (ns % NS < 0), (ns % NS + NS) % NS };
}

static bool take(const char *arg, struct given *g)
{
	int64_t atime, mtime;

	if (sscanf(arg, "mode=%o", &g->attr.mode) == 1)
		g->what |= TARGET_MODE;
	else if (sscanf(arg, "owner=%u:%u", &g->attr.uid, &g->attr.gid) == 2)
		g->what |= TARGET_OWNER;
	else if (sscanf(arg, "size=%" SCNu64, &g->attr.size) == 1)
		g->what |= TARGET_SIZE;
	else if (sscanf(arg, "times=%" SCNd64 ",%" SCNd64, &atime, &mtime) == 2) {
		g->attr.atime = moment(atime);
		g->attr.mtime = moment(mtime);
		g->what |= TARGET_TIMES;
	} else if (!strncmp(arg, "to=", 3))
		g->target = arg + 3;
	else if (!strncmp(arg, "access=", 7))
		g->acl[0] = arg + 7;
	else if (!strncmp(arg, "default=", 8))
		g->acl[1] = arg + 8;
	else
		return sscanf(arg, "dev=%u,%u", &g->attr.rdev_major, &g->attr.rdev_minor) == 2;
	return true;
}

/* ---- commands ---- */

static int do_make(struct source *s, const char *path, struct given *g)
{
	struct stub_origin dir, out;
	struct stub_attr a;
	const char *name;
	int r = parent(s, path, &dir, &name);

	if (!r)
		r = target_make(s, &dir, name, &g->attr, g->target, &out, &a);
	if (!r)
		printf("%06o %u:%u %" PRIu64 "\n", a.mode, a.uid, a.gid, a.fileid);
	return r;
}

static int do_set(struct source *s, const char *path, struct given *g)
{
	struct stub_origin o;
	struct stub_attr a;
	int r = find(s, path, &o, &a);

	return r ? r : target_setattr(s, &o, g->what, &g->attr);
}

static bool unhex(const char *text, const char *name, struct stub_xattr *x, uint8_t *buf, size_t size)
{
	size_t n = text ? strlen(text) / 2 : 0;

	if (n > size)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned int byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		buf[i] = (uint8_t)byte;
	}
	*x = (struct stub_xattr){ name, buf, n };
	return true;
}

static int do_acl(struct source *s, const char *path, struct given *g)
{
	static uint8_t bytes[2][65536];
	struct stub_xattr access, dflt;
	struct stub_origin o;
	struct stub_attr a;
	int r = find(s, path, &o, &a);

	if (!r)
		r = source_getattr(s, SOURCE_DEMAND, &o, &a); /* its mode was narrowed */
	if (!unhex(g->acl[0], "system.posix_acl_access", &access, bytes[0], sizeof(bytes[0])) ||
	    !unhex(g->acl[1], "system.posix_acl_default", &dflt, bytes[1], sizeof(bytes[1])))
		return -EINVAL;
	return r ? r : target_setacl(s, &o, &a, &access, g->acl[1] ? &dflt : NULL);
}

static int do_two(struct source *s, const char *command, const char *path, const char *new)
{
	struct stub_origin from, to;
	const char *name, *to_name;
	struct stub_attr a;
	bool link = !strcmp(command, "link");
	int r = link ? find(s, path, &from, &a) : parent(s, path, &from, &name);

	if (!r)
		r = parent(s, new, &to, &to_name);
	if (r)
		return r;
	return link ? target_link(s, &from, &to, to_name) :
		      target_rename(s, &from, name, &to, to_name);
}

static int do_remove(struct source *s, const char *command, const char *path)
{
	struct stub_origin dir;
	const char *name;
	int r = parent(s, path, &dir, &name);

	if (r)
		return r;
	return strcmp(command, "rmdir") ? target_remove(s, &dir, name) : target_rmdir(s, &dir, name);
}

/* ---- writing ---- */

struct writing {
	struct source *s;
	struct stub_origin o;
	uint64_t offset;
	const uint8_t *bytes;
	size_t len;
	uint32_t each;
	pthread_mutex_t lock;
	size_t next; /* the first byte that nobody has taken */
	uint64_t verf;
	bool any, torn;
	int err;
};

static void *write_some(void *arg)
{
	struct writing *w = arg;
	bool over = false;

	while (!over) {
		uint64_t verf;
		size_t at, n;
		int r = 0;

		pthread_mutex_lock(&w->lock);
		at = w->next;
		n = w->len - at < w->each ? w->len - at : w->each;
		w->next += n;
		over = !n || w->err;
		pthread_mutex_unlock(&w->lock);
		if (!over)
			r = target_write(w->s, &w->o, w->offset + at, w->bytes + at, (uint32_t)n, &verf);
		pthread_mutex_lock(&w->lock);
		if (r)
			w->err = r;
		else if (!over) {
			w->torn |= w->any && w->verf != verf;
			w->any = true;
			w->verf = verf;
		}
		pthread_mutex_unlock(&w->lock);
	}
	return NULL;
}

static uint8_t *read_stdin(size_t *len)
{
	size_t room = 1 << 20, n;
	uint8_t *p = malloc(room);

	for (*len = 0; p && (n = fread(p + *len, 1, room - *len, stdin)) > 0;) {
		*len += n;
		if (*len == room)
			p = realloc(p, room *= 2);
	}
	return p;
}

static int do_write(struct source *s, const char *path, uint64_t offset, unsigned int threads)
{
	struct writing w = { .s = s, .offset = offset, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread[THREADS_MAX];
	struct stub_attr a;
	uint64_t verf;
	int r = find(s, path, &w.o, &a);

	w.bytes = read_stdin(&w.len);
	w.each = target_write_max(s);
	if (!w.bytes || !w.each || threads > THREADS_MAX)
		return -EINVAL;
	if (r)
		return r;
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, write_some, &w))
			abort();
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	r = w.err ? w.err : target_commit(s, &w.o, &verf);
	if (!r)
		printf("%s\n", w.torn || (w.any && verf != w.verf) ? "torn" : "durable");
	free((void *)w.bytes);
	return r;
}

/* ---- main ---- */

static int run(struct source *s, int n, char **arg)
{
	const char *command = arg[0];
	struct given g = { 0 };

	if (!strcmp(command, "max")) {
		printf("%u\n", target_write_max(s));
		return 0;
	}
	if (n == 4 && !strcmp(command, "write"))
		return do_write(s, arg[1], strtoull(arg[2], NULL, 0),
				(unsigned int)strtoul(arg[3], NULL, 0));
	if (n == 3 && (!strcmp(command, "link") || !strcmp(command, "rename")))
		return do_two(s, command, arg[1], arg[2]);
	if (n == 2 && (!strcmp(command, "remove") || !strcmp(command, "rmdir")))
		return do_remove(s, command, arg[1]);
	for (int i = 2; i < n; i++)
		if (!take(arg[i], &g))
			return -EINVAL;
	if (n >= 2 && !strcmp(command, "make"))
		return do_make(s, arg[1], &g);
	if (n >= 2 && !strcmp(command, "set"))
		return do_set(s, arg[1], &g);
	if (n >= 2 && !strcmp(command, "acl"))
		return do_acl(s, arg[1], &g);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	struct source_config config = { .connections = 4,
					.readdir_bytes = 65536,
					.call_timeout_ms = 60000,
					.inflight = 16,
					.log = on_log };
	struct source *s;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: nfstarget URI COMMAND [PATH] [ARGUMENT...]\n");
		return 2;
	}
	config.uri = argv[1];
	r = source_create(&config, &s);
	if (!r) {
		r = run(s, argc - 2, argv + 2);
		source_destroy(s);
	}
	if (r)
		fprintf(stderr, "%s\n", strerrorname_np(-r));
	return fflush(stdout) || r ? 1 : 0;
}
