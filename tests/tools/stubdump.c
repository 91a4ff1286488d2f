/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stubdump: what a volume says of every object, with no daemon running; for the
 * crash tests, which hold it against what they know of the old server.
 *
 *   stubdump [-k] [-s] VOLUME
 *
 * Nobody else has the volume open: its era is over (libstubcore/era.c), and what is not
 * durable is missing.  With -k it goes on, as if one process had lived on.
 *
 * Prints JSON, one object a line:
 *   {"path", "type", "ino", "mode", "uid", "gid", "size", "mtime", "nlink",
 *    "target" (symlinks), "local" (files, only with -s), "stub" (null: normal)}
 *        one for each name a client could reach; "." is the root.  size, mtime and
 *        nlink are what clients see.  local: [start, end, SHA-256] of each range
 *        that is not missing.
 *        stub: {"needs", "flags", "missing", "durable", "size", "fsid", "fileid",
 *               "cover"}
 *        missing is what is missing as of this boot: after another one the durable
 *        map counts.  cover says what finds the object again: "journal", "parent"
 *        (unlisted itself), "above" (an unlisted directory further up: not enough),
 *        "none".
 *   {"damaged": path}                a record that cannot be read
 *   {"provisional": name, "ino"}     files that wait for names
 *   {"staging": name}                leftovers of a crash
 *   {"entry": ino or null, "stub", "kind", "park"}   journal; null: no such inode
 *   {"volume": counts of stub_scan(), with "complete", and of the journal's totals}   the last line
 *
 * Bytes of paths that are not printable ASCII, and % " \, are %XX.
 * Exit status: 0, 1 failed (the message says why), 2 wrong usage.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>

#include "internal.h"
#include "show.h"

#define READ_BYTES (256 * 1024)
#define SHA_BYTES  32

enum above { ABOVE_LISTED, ABOVE_UNLISTED, ABOVE_PARENT };

struct dump {
	struct stub_volume *v;
	struct stub_journal *j;
	struct stub_record rec;
	bool sums, keep_era;
	char buf[READ_BYTES];
	char path[65536];
};

static int fail(const char *what, int r)
{
	fprintf(stderr, "stubdump: %s: %s\n", what, strerror(-r));
	return r;
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void print_bytes(const char *key, const char *s)
{
	printf("\"%s\": \"", key);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c > 0x7e || c == '%' || c == '"' || c == '\\')
			printf("%%%02X", c);
		else
			putchar(c);
	}
	putchar('"');
}

/* ---- bytes ---- */

static int print_sum(struct dump *d, int fd, uint64_t start, uint64_t end, const char *comma)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char sum[SHA_BYTES];
	uint64_t at = start;
	int r = 0;

	if (!md || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
		r = -ENOMEM;
	while (r == 0 && at < end) {
		size_t want = end - at < READ_BYTES ? end - at : READ_BYTES;
		ssize_t n = pread(fd, d->buf, want, (off_t)at);

		if (n <= 0)
			r = n < 0 ? -errno : -EIO;
		else if (!EVP_DigestUpdate(md, d->buf, (size_t)n))
			r = -EIO;
		at += n > 0 ? (uint64_t)n : 0;
	}
	if (r == 0 && !EVP_DigestFinal_ex(md, sum, NULL))
		r = -EIO;
	EVP_MD_CTX_free(md);
	if (r < 0)
		return r;
	printf("%s[%" PRIu64 ", %" PRIu64 ", \"", comma, start, end);
	for (int i = 0; i < SHA_BYTES; i++)
		printf("%02x", sum[i]);
	printf("\"]");
	return 0;
}

static int print_local(struct dump *d, const struct stub_handle *h, uint64_t size,
		       const struct stub_map *missing)
{
	int r = 0, fd CLEANUP_CLOSE = stub_handle_open(d->v, h, O_RDONLY);
	const char *comma = "";
	uint64_t at = 0;

	if (fd < 0)
		return fd;
	printf(", \"local\": [");
	for (uint32_t i = 0; i <= missing->n && r == 0; i++) {
		uint64_t end = i < missing->n ? missing->r[i].start : size;

		if (at < end) {
			r = print_sum(d, fd, at, end, comma);
			comma = ", ";
		}
		if (i < missing->n)
			at = missing->r[i].end;
	}
	putchar(']');
	return r;
}

/* ---- objects ---- */

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "dir";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "char";
	default:
		return "block";
	}
}

static const char *cover(struct dump *d, const struct stub_handle *h, enum above above)
{
	struct stub_journal_entry e;

	if (stub_journal_get(d->j, h, &e) == 0)
		return "journal";
	return above == ABOVE_PARENT ? "parent" : above == ABOVE_UNLISTED ? "above" : "none";
}

static void print_stub(struct dump *d, const struct stub_handle *h, enum above above)
{
	printf(", \"stub\": {");
	show_needs_and_flags(&d->rec);
	show_map("missing", &d->rec.now);
	show_map("durable", &d->rec.durable);
	printf(", \"size\": %" PRIu64 ", \"fsid\": %" PRIu64 ", \"fileid\": %" PRIu64
	       ", \"cover\": \"%s\"}",
	       d->rec.size, d->rec.fsid, d->rec.fileid, cover(d, h, above));
}

static void print_attrs(const struct stat *st, const struct stub_record *rec)
{
	bool dummy = rec && rec->flags & STUB_FLAG_DUMMY && S_ISREG(st->st_mode);

	printf(", \"type\": \"%s\", \"ino\": %ju, \"mode\": %u, \"uid\": %u, \"gid\": %u, "
	       "\"size\": %" PRIu64 ", \"mtime\": %" PRId64 ", \"nlink\": %" PRIu64,
	       type_name(st->st_mode), (uintmax_t)st->st_ino, st->st_mode & 07777, st->st_uid,
	       st->st_gid, dummy ? rec->size : (uint64_t)st->st_size,
	       ns(rec ? rec->mtime : st->st_mtim),
	       rec ? (uint64_t)rec->nlink_shown : (uint64_t)st->st_nlink);
}

static int print_target(int fd)
{
	char target[STUB_TARGET_MAX + 2];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	printf(", ");
	print_bytes("target", target);
	return 0;
}

/* One name.  1: it is an unlisted directory. */
static int object(struct dump *d, int fd, enum above above)
{
	static const struct stub_map nothing;
	struct stub_handle h;
	struct stat st;
	int r = stub_handle_of_fd(fd, &h);
	bool stub;

	if (r == 0)
		r = stub_record_load(d->v, fd, &h, &st, &d->rec);
	if (r == -EBADMSG) {
		putchar('{');
		print_bytes("damaged", d->path);
		puts("}");
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return fail(d->path, r);
	stub = r == 0;
	r = 0;
	putchar('{');
	print_bytes("path", d->path);
	print_attrs(&st, stub ? &d->rec : NULL);
	if (S_ISLNK(st.st_mode))
		r = print_target(fd);
	if (r == 0 && d->sums && S_ISREG(st.st_mode))
		r = print_local(d, &h, (uint64_t)st.st_size, stub ? &d->rec.now : &nothing);
	if (stub)
		print_stub(d, &h, above);
	else
		printf(", \"stub\": null");
	puts("}");
	return r < 0 ? fail(d->path, r) : stub && d->rec.flags & STUB_FLAG_UNLISTED ? 1 : 0;
}

static int directory(struct dump *d, int fd, size_t path_len, enum above above);

static int name(struct dump *d, int dir_fd, const char *name, size_t path_len, enum above above)
{
	int r, fd CLEANUP_CLOSE = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	size_t len;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(name, -errno);
	if (stub_volume_hides(d->v, st.st_ino))
		return 0;
	len = path_len + (size_t)snprintf(d->path + path_len, sizeof(d->path) - path_len, "%s%s",
					  path_len ? "/" : "", name);
	if (len >= sizeof(d->path))
		return fail(name, -ENAMETOOLONG);
	if (!S_ISDIR(st.st_mode))
		r = object(d, fd, above);
	else
		r = directory(d, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), len, above);
	d->path[path_len] = '\0';
	return r < 0 ? r : 0;
}

/* Ends with @fd closed. */
static int directory(struct dump *d, int fd, size_t path_len, enum above above)
{
	int r = fd < 0 ? fail(d->path, -errno) : object(d, fd, above);
	DIR *dir = r < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		stub_cleanup_close(&fd);
		return r < 0 ? r : fail(d->path, -errno);
	}
	above = r == 1 ? ABOVE_PARENT : above == ABOVE_LISTED ? ABOVE_LISTED : ABOVE_UNLISTED;
	r = 0;
	while (r == 0 && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			r = name(d, fd, e->d_name, path_len, above);
	closedir(dir);
	return r;
}

static int objects(struct dump *d)
{
	strcpy(d->path, ".");
	return directory(d, openat(stub_volume_fd(d->v), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			 0, ABOVE_LISTED);
}

/* ---- .postcopy ---- */

/* In @name of @dirfd, and in what begins with a dot there. */
static int hidden_names(int dirfd, const char *name, const char *key, bool with_ino)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!dir)
		return fail(key, -errno);
	while (r == 0 && (e = readdir(dir))) {
		if (e->d_name[0] == '.') {
			if (e->d_name[1] && e->d_name[1] != '.')
				r = hidden_names(fd, e->d_name, key, with_ino);
			continue;
		}
		putchar('{');
		print_bytes(key, e->d_name);
		if (with_ino)
			printf(", \"ino\": %ju", (uintmax_t)e->d_ino);
		puts("}");
	}
	closedir(dir);
	return r;
}

static void entry(struct dump *d, const struct stub_journal_entry *e)
{
	static const char *const kinds[] = { "dir", "file", "links" };
	int fd CLEANUP_CLOSE = stub_handle_open(d->v, &e->h, O_PATH);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		printf("{\"entry\": null, \"stub\": false");
	else
		printf("{\"entry\": %ju, \"stub\": %s", (uintmax_t)st.st_ino,
		       stub_record_load(d->v, fd, &e->h, &st, &d->rec) == -ENOENT ? "false" :
										    "true");
	printf(", \"kind\": \"%s\", \"park\": %u}\n", e->kind < 3 ? kinds[e->kind] : "?", e->park);
}

static int entries(struct dump *d)
{
	struct stub_journal_entry *e CLEANUP_FREE = calloc(256, sizeof(*e));
	struct stub_journal_cursor c = { 0 };
	int n;

	if (!e)
		return fail("journal", -ENOMEM);
	while ((n = stub_journal_next(d->j, &c, true, e, 256)) > 0)
		for (int i = 0; i < n; i++)
			entry(d, &e[i]);
	return n < 0 ? fail("journal", n) : 0;
}

static int counts(struct dump *d)
{
	struct stub_journal_totals t;
	struct stub_scan s;
	int r = stub_scan(d->v, NULL, NULL, &s);

	if (r < 0)
		return fail("scan", r);
	printf("{\"volume\": {\"complete\": %s", stub_volume_complete(d->v) ? "true" : "false");
#define COUNT(name) printf(", \"" #name "\": %" PRIu64, s.name)
	COUNT(objects);
	COUNT(stubs);
	COUNT(unlisted);
	COUNT(covered);
	COUNT(in_unlisted);
	COUNT(uncovered);
	COUNT(corrupt);
	COUNT(foreign);
	COUNT(leftovers);
	COUNT(provisional);
	COUNT(journal);
	COUNT(parked);
	COUNT(stale);
	COUNT(missing_bytes);
#undef COUNT
	printf(", \"miscounted\": %s", s.miscounted ? "true" : "false");
	r = stub_journal_totals(d->j, &t);
	if (r < 0 && r != -ENODATA) /* of a volume that an earlier release has written last */
		return fail("totals", r);
	if (r == 0)
		printf(", \"whole\": %s, \"found\": %" PRIu64 ", \"done\": %" PRIu64
		       ", \"left\": %" PRIu64 ", \"left_bytes\": %" PRIu64,
		       t.whole ? "true" : "false", t.found, t.done, t.left, t.left_bytes);
	puts("}}");
	return 0;
}

static void log_stderr(void *arg, enum stub_log_level level, const char *msg)
{
	(void)arg;
	if (level <= STUB_LOG_WARN)
		fprintf(stderr, "stubdump: %s\n", msg);
}

static int open_journal(struct dump *d)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" STUB_DIR "/journal", stub_volume_fd(d->v));
	return stub_journal_open(path, STUB_JOURNAL_READONLY, log_stderr, NULL, &d->j);
}

static int last_era(const char *dir, uint32_t *out)
{
	int fd CLEANUP_CLOSE = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" STUB_DIR "/state", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return pread(fd, out, sizeof(*out), offsetof(struct stub_state_page, era)) ==
			       sizeof(*out) ? 0 : -EBADMSG;
}

static int dump(struct dump *d, const char *dir)
{
	uint32_t era = 0;
	int r = last_era(dir, &era);

	if (r == 0)
		r = stub_volume_open(dir, 0, log_stderr, NULL, &d->v);
	if (r < 0)
		return fail(dir, r);
	if (d->keep_era)
		atomic_store(&d->v->state->era, era);
	r = open_journal(d);
	if (r < 0)
		r = fail("journal", r);
	if (r == 0)
		r = objects(d);
	if (r == 0)
		r = hidden_names(d->v->provisional_fd, ".", "provisional", true);
	if (r == 0)
		r = hidden_names(d->v->staging_fd, ".", "staging", false);
	if (r == 0)
		r = entries(d);
	if (r == 0)
		r = counts(d);
	stub_journal_close(d->j);
	stub_volume_close(d->v);
	return r;
}

static int usage(void)
{
	fprintf(stderr, "usage: stubdump [-k] [-s] VOLUME\n");
	return 2;
}

int main(int argc, char **argv)
{
	static struct dump d;

	int c;

	while ((c = getopt(argc, argv, "ks")) != -1) {
		if (c == '?')
			return usage();
		d.keep_era |= c == 'k';
		d.sums |= c == 's';
	}
	if (argc - optind != 1)
		return usage();
	return dump(&d, argv[optind]) < 0 || fflush(stdout) ? 1 : 0;
}
