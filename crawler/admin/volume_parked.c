/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_parked.c - parked, errors, reasons: what was given up, and why. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/reasons.h"
#include "admin/volume_tool.h"
#include "source/dual_origin.h"
#include "source/uri.h"

#define FIRST_MAX 1000 /* --first: entries of each reason that are kept in memory */
#define FIRST     3

/* ---- parked ------------------------------------------------------------------- */

/* Inode number and, if the kernel has its name at hand, path below the volume. */
static void print_where(struct json *j, const struct opened *o, const struct stub_handle *h)
{
	union {
		struct file_handle fh;
		char space[sizeof(struct file_handle) + STUB_HANDLE_MAX];
	} u;
	char link[64], path[PATH_MAX];
	size_t root = strlen(o->path);
	struct stat st;
	ssize_t n;
	int fd;

	u.fh.handle_bytes = h->len;
	u.fh.handle_type = h->type;
	memcpy(u.fh.f_handle, h->bytes, h->len);
	fd = open_by_handle_at(stub_volume_fd(o->volume), &u.fh, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0)
		json_u64(j, "inode", st.st_ino);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	close(fd);
	if (n <= 0)
		return;
	path[n] = '\0';
	if (!strcmp(path, o->path))
		json_str(j, "path", ".");
	else if (!strncmp(path, o->path, root) && path[root] == '/' &&
		 strncmp(path + root, "/" STUB_DIR "/", strlen(STUB_DIR) + 2))
		json_str(j, "path", path + root + 1);
}

static void print_bytes(struct json *j, const char *key, const uint8_t *bytes, size_t len)
{
	char hex[2 * STUB_ORIGIN_MAX + 1] = "";

	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	json_str(j, key, hex);
}

static void print_path(struct json *j, const char *path, size_t len)
{
	char text[STUB_ORIGIN_MAX + 1];

	snprintf(text, sizeof(text), "%.*s", (int)len, path);
	json_str(j, "source_path", text[0] ? text : ".");
}

/* What finds it on the old server: the path, where its record has that; else the file id (for
 * `find -inum`) and the file handle. */
static void print_source(struct json *j, const struct opened *o, const struct stub_handle *h)
{
	const struct stub_volume_info *info = stub_volume_info(o->volume);
	struct dual_origin dual = { .has_path = false };
	struct stub_object object;

	if (stub_object_open(o->volume, h, &object) < 0)
		return;
	if (source_uri_kind(info->source) == SOURCE_SMB) {
		print_path(j, (const char *)object.origin.bytes, object.origin.len);
	} else if (!info->join[0]) {
		print_bytes(j, "source_handle", object.origin.bytes, object.origin.len);
	} else if (dual_origin_decode(&object.origin, &dual) == 0) {
		print_bytes(j, "source_handle", dual.nfs.bytes, dual.nfs.len);
		if (dual.has_path)
			print_path(j, dual.path, dual.path_len);
	}
	if (source_uri_kind(info->source) != SOURCE_SMB)
		json_u64(j, "source_fileid", object.fileid);
	stub_object_close(&object);
}

/* @source: and what it is called over there, for which its record is read. */
static void print_parked(struct json *j, const struct opened *o, const struct stub_journal_entry *e,
			 bool source)
{
	static const char *const kinds[] = { "directory", "file", "links" };
	char hex[2 * STUB_HANDLE_MAX + 1];

	for (unsigned int i = 0; i < e->h.len; i++)
		snprintf(hex + 2 * i, 3, "%02x", e->h.bytes[i]);
	json_object(j, NULL);
	json_str(j, "code", reasons[reason_of(e)].word);
	json_str(j, "why", e->park == STUB_PARK_CONFLICT ? "conflict" : "error");
	json_str(j, "reason", e->reason);
	json_str(j, "kind", e->kind < 3 ? kinds[e->kind] : "unknown");
	json_i64(j, "errno", e->error < 0 ? -(int64_t)e->error : e->error);
	json_u64(j, "tries", e->tries);
	json_u64(j, "size", e->size);
	json_i64(j, "mtime", e->mtime);
	print_where(j, o, &e->h);
	if (source)
		print_source(j, o, &e->h);
	json_i64(j, "type", e->h.type);
	json_str(j, "handle", hex);
	json_object_end(j);
}

int volume_parked(struct verdict *v, int argc, char **argv)
{
	static struct stub_journal_entry batch[64];
	struct stub_journal_cursor cursor = { 0 };
	struct opened o;
	struct json j;
	int n, r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = opened_journal(v, &o);
	if (r < 0) {
		opened_close(&o);
		return r;
	}
	json_begin(&j, stdout);
	json_array(&j, "parked");
	while ((n = stub_journal_next(o.journal, &cursor, true, batch, 64)) > 0) {
		for (int i = 0; i < n; i++) {
			if (batch[i].park != STUB_PARK_NONE)
				print_parked(&j, &o, &batch[i], false);
		}
	}
	json_array_end(&j);
	json_bool(&j, "ok", n == 0);
	if (n < 0) { /* the list so far is printed already */
		json_str(&j, "error", "journal-damaged");
		json_str(&j, "message", strerror(-n));
	}
	r = json_end(&j) < 0 || n < 0 ? 1 : 0;
	opened_close(&o);
	return r;
}

/* ---- errors --------------------------------------------------------------------- */

struct group {
	uint64_t count;
	size_t n; /* of first[] */
	struct stub_journal_entry *first;
};

struct grouping {
	struct opened o;
	size_t most; /* entries that are kept of each group */
	uint64_t damaged; /* entries that cannot be read */
	struct group group[REASONS];
};

/* All entries that are parked, counted; -1 with the verdict set. */
static int group_all(struct verdict *v, struct grouping *g)
{
	static struct stub_journal_entry batch[64];
	struct stub_journal_cursor cursor = { 0 };
	int n;

	stub_journal_parked(&cursor);
	for (;;) {
		struct stub_journal_cursor before = cursor;

		n = stub_journal_next(g->o.journal, &cursor, true, batch, 64);
		if (n == -EBADMSG && memcmp(&before, &cursor, sizeof(cursor))) { /* one entry */
			g->damaged++;
			continue;
		}
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			struct group *to = &g->group[reason_of(&batch[i])];

			to->count++;
			if (to->n < g->most)
				to->first[to->n++] = batch[i];
		}
	}
	if (n < 0)
		return verdict_fail(v, FAIL_JOURNAL, "cannot read the pending journal of %s: %s",
				    g->o.path, strerror(-n));
	return 0;
}

static void print_reason(struct json *j, const struct reason *r)
{
	json_str(j, "code", r->word);
	json_str(j, "why", r->park == STUB_PARK_CONFLICT ? "conflict" : "error");
	json_str(j, "says", r->says);
	json_str(j, "advice", r->advice);
}

static int print_groups(struct grouping *g)
{
	uint64_t parked[STUB_PARK_CONFLICT + 1] = { 0 };
	struct json j;

	for (size_t i = 0; i < REASONS; i++)
		parked[reasons[i].park] += g->group[i].count;
	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", g->o.path);
	json_str(&j, "source", stub_volume_info(g->o.volume)->source);
	json_u64(&j, "errors", parked[STUB_PARK_ERROR]);
	json_u64(&j, "conflicts", parked[STUB_PARK_CONFLICT]);
	json_u64(&j, "damaged", g->damaged);
	json_array(&j, "groups");
	for (size_t i = 0; i < REASONS; i++) {
		const struct group *group = &g->group[i];

		if (!group->count)
			continue;
		json_object(&j, NULL);
		print_reason(&j, &reasons[i]);
		json_u64(&j, "count", group->count);
		json_array(&j, "first");
		for (size_t k = 0; k < group->n; k++)
			print_parked(&j, &g->o, &group->first[k], true);
		json_array_end(&j);
		json_object_end(&j);
	}
	json_array_end(&j);
	return json_end(&j) < 0 ? 1 : 0;
}

/* --first N; -1 with the verdict set. */
static int take_first(struct verdict *v, int *argc, char ***argv, size_t *most)
{
	char *end = "";
	long n = FIRST;

	if (*argc > 2 && !strcmp((*argv)[1], "--first")) {
		n = strtol((*argv)[2], &end, 10);
		if (!(*argv)[2][0] || *end || n < 0 || n > FIRST_MAX)
			return verdict_fail(v, FAIL_USAGE,
					    "errors: --first wants a number from 0 to %d, not '%s'",
					    FIRST_MAX, (*argv)[2]);
		(*argv)[2] = (*argv)[0];
		*argc -= 2;
		*argv += 2;
	}
	*most = (size_t)n;
	return 0;
}

int volume_errors(struct verdict *v, int argc, char **argv)
{
	struct grouping g = { .damaged = 0 };
	int r = take_first(v, &argc, &argv, &g.most);

	if (r < 0 || opened_volume(v, argc, argv, &g.o) < 0)
		return -1;
	for (size_t i = 0; i < REASONS && r == 0; i++) {
		g.group[i].first = calloc(g.most ? g.most : 1, sizeof(*g.group[i].first));
		if (!g.group[i].first)
			r = verdict_fail(v, FAIL_INTERNAL, "%s", strerror(ENOMEM));
	}
	if (r == 0)
		r = opened_journal(v, &g.o);
	if (r == 0)
		r = group_all(v, &g);
	if (r == 0)
		r = print_groups(&g);
	for (size_t i = 0; i < REASONS; i++)
		free(g.group[i].first);
	opened_close(&g.o);
	return r;
}

int volume_reasons(struct verdict *v, int argc, char **argv)
{
	struct json j;

	if (argc != 1)
		return verdict_fail(v, FAIL_USAGE, "%s: takes no argument", argv[0]);
	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_array(&j, "reasons");
	for (size_t i = 0; i < REASONS; i++) {
		json_object(&j, NULL);
		print_reason(&j, &reasons[i]);
		json_object_end(&j);
	}
	json_array_end(&j);
	return json_end(&j) < 0 ? 1 : 0;
}
