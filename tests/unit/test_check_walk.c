// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The walk of `postcopy-volume check` over trees too large for any real server here:
 * this source_list() makes them up. What a real one answers is tests/conformance's.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "check/check.h"

#define PAGE 1000

/* ---- the source: an origin is a number, a function says what is in it ---- */

struct source {
	/* entries of the directory @dir from @i on: name into @name, or false at the end */
	bool (*entry)(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
		      uint64_t *id);
	int error; /* of listing ERROR_DIR */
	uint64_t mounted; /* the directory below which another file system begins; 0: none */
	atomic_bool stop;
	atomic_ulong lists;
	atomic_size_t peak; /* bytes of memory, at most */
};

#define ERROR_DIR 5

int source_read(struct source *s, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	(void)s;
	(void)p;
	(void)o;
	(void)offset;
	(void)length;
	(void)fn;
	(void)arg;
	return -ECANCELED; /* no test asks for it */
}

void source_stop(struct source *s)
{
	s->stop = true;
}

/* Bytes that are allocated; a sanitizer's allocator does not tell. */
static size_t memory(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static void assert_peak(const struct source *s, size_t least, size_t most)
{
	void *some = malloc(4096);
	bool told = memory() >= 4096;

	free(some);
	if (told)
		assert_in_range(s->peak, least, most);
}

const uint8_t *source_inode(const struct source *s, const struct stub_origin *o, size_t *len)
{
	(void)s;
	*len = o->len;
	return o->bytes;
}

int source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
		const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct stub_entry *page = calloc(PAGE, sizeof(*page));
	char(*names)[STUB_NAME_MAX + 1] = calloc(PAGE, sizeof(*names));
	bool more = true, is_dir;
	uint64_t id, at, i = 0, origin[PAGE];
	int r = 0;

	(void)p;
	(void)as;
	memcpy(&at, dir->bytes, sizeof(at));
	if (at == ERROR_DIR)
		r = s->error;
	s->lists++;
	while (more && r == 0) {
		size_t n = 0;

		while (n < PAGE && (more = s->entry(at, i, names[n], &is_dir, &id))) {
			struct stub_entry *e = &page[n];

			*e = (struct stub_entry){ .name = names[n], .name_len = strlen(names[n]) };
			e->attr.mode = is_dir ? S_IFDIR | 0755 : S_IFREG | 0644;
			e->attr.nlink = 1;
			e->attr.fileid = id;
			e->attr.fsid = s->mounted && (at == s->mounted || id == s->mounted);
			origin[n] = id;
			e->origin = (const uint8_t *)&origin[n];
			e->origin_len = sizeof(id);
			n++;
			i++;
		}
		if (s->stop)
			r = -ECANCELED;
		else if (n)
			r = fn(arg, page, n);
		if (i % (16 * PAGE) == 0 && memory() > s->peak)
			s->peak = memory();
	}
	free(names);
	free(page);
	return r;
}

/* ---- the walk ---- */

struct told {
	uint64_t n, twins;
	char last[4096], twin[STUB_NAME_MAX + 1];
	char why[CHECK_WHY_MAX];
	enum check_kind kind;
};

static void found(void *arg, const struct check_found *f)
{
	struct told *t = arg;

	t->n++;
	t->twins += f->twin != NULL;
	t->kind = f->kind;
	snprintf(t->last, sizeof(t->last), "%s", f->path);
	snprintf(t->why, sizeof(t->why), "%s", f->why);
	snprintf(t->twin, sizeof(t->twin), "%s", f->twin ? f->twin : "");
}

static struct check_walk walk(struct source *s, unsigned int exports, unsigned int workers,
			      struct told *t, int expect)
{
	static const struct source_traits traits;
	const struct check_sides sides = { "nfs", &traits, NULL, exports, NULL, false, false };
	struct check_walk w = { .sides = &sides, .workers = workers, .found = found, .arg = t };
	struct source_facts facts = { 0 };

	memset(t, 0, sizeof(*t));
	facts.root.len = sizeof(uint64_t);
	facts.attr.fileid = UINT64_MAX;
	facts.attr.mode = S_IFDIR | 0755;
	assert_int_equal(check_walk(&w, s, &facts), expect);
	w.sides = NULL;
	return w;
}

/* A tree: @dirs directories in each of the first two levels, a file in each of the last. */
static bool entry_wide(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
		       uint64_t *id)
{
	enum { WIDE = 100000 };

	if (i >= (dir ? 1 : WIDE))
		return false;
	*is_dir = !dir;
	*id = dir * WIDE + i + 1;
	snprintf(name, STUB_NAME_MAX, "%s%llu", *is_dir ? "d" : "f?", (unsigned long long)i);
	return true;
}

/* More subdirectories than are kept: each one is visited once all the same. */
static void many_directories(void **state)
{
	struct source s = { .entry = entry_wide };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_SMB, 4, &t, 0);

	(void)state;
	assert_int_equal(w.dirs, 100001);
	assert_int_equal(w.objects, 200000);
	assert_int_equal(w.count[CHECK_CHARACTER], 100000);
	assert_int_equal(t.n, 100000);
	/* the root, several times: not all fit at once */
	assert_in_range(s.lists, 100002, 100020);
	assert_peak(&s, 1, 40 << 20);
}

#define CROWD UINT64_C(700000)

/* One directory; every hundredth name has a twin at the other end. */
static bool entry_crowd(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
			uint64_t *id)
{
	if (dir || i >= CROWD + CROWD / 100)
		return false;
	*is_dir = false;
	*id = i + 1;
	if (i < CROWD)
		snprintf(name, STUB_NAME_MAX, "some-longer-file-name-%llu", (unsigned long long)i);
	else
		snprintf(name, STUB_NAME_MAX, "some-longer-FILE-name-%llu",
			 (unsigned long long)(i - CROWD) * 100);
	return true;
}

/* Names that do not fit: twins are found whole, each once, and memory is bounded. */
static void huge_directory(void **state)
{
	struct source s = { .entry = entry_crowd };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_SMB, 2, &t, 0);

	(void)state;
	assert_int_equal(w.objects, CROWD + CROWD / 100);
	assert_int_equal(w.dirs, 1);
	assert_int_equal(w.count[CHECK_TWIN], CROWD / 100);
	assert_int_equal(t.twins, CROWD / 100);
	assert_in_range(s.lists, 3, 20);
	assert_peak(&s, 1 << 20, 64 << 20);
	w = walk(&s, EXPORT_NFS, 2, &t, 0);
	assert_int_equal(w.count[CHECK_TWIN], 0); /* to NFS they are just names */
}

/* Early twins lie before the table is full, and must not be told twice. */
static bool entry_early(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
			uint64_t *id)
{
	if (dir || i >= CROWD)
		return false;
	*is_dir = false;
	*id = i + 1;
	snprintf(name, STUB_NAME_MAX, "%s-longer-file-name-%llu", i & 1 ? "SOME" : "some",
		 (unsigned long long)(i < 2000 ? i / 2 : i));
	return true;
}

static void twins_told_once(void **state)
{
	struct source s = { .entry = entry_early };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_SMB, 1, &t, 0);

	(void)state;
	assert_true(s.lists > 2);
	assert_int_equal(w.count[CHECK_TWIN], 1000);
}

/* A chain without end, whose directories are all new ones. */
static bool entry_chain(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
			uint64_t *id)
{
	if (i)
		return false;
	*is_dir = true;
	*id = dir + 1000;
	strcpy(name, "d");
	return true;
}

static void endless_depth(void **state)
{
	struct source s = { .entry = entry_chain };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_NFS, 4, &t, 0);

	(void)state;
	assert_int_equal(w.dirs, STUB_DEPTH_MAX);
	assert_int_equal(w.count[CHECK_CYCLE], 1);
	assert_int_equal(t.kind, CHECK_CYCLE);
}

/* Directories 1 to 9; number 3 contains its parent. */
static bool entry_small(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
			uint64_t *id)
{
	*is_dir = true;
	if (dir == 3 && i == 0) {
		strcpy(name, "up");
		*id = 3;
		return true;
	}
	if (dir || i >= 9)
		return false;
	snprintf(name, STUB_NAME_MAX, "d%llu", (unsigned long long)i + 1);
	*id = i + 1;
	return true;
}

/* Directories 1 and 2 of the root, 3 and 4 of those. */
static bool entry_pair(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
		       uint64_t *id)
{
	if (dir > 2 || i >= (dir ? 1 : 2))
		return false;
	*is_dir = true;
	*id = dir ? dir + 2 : i + 1;
	snprintf(name, STUB_NAME_MAX, "d%llu", (unsigned long long)i);
	return true;
}

static void cycle(void **state)
{
	struct source s = { .entry = entry_small };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_NFS, 4, &t, 0);

	(void)state;
	assert_int_equal(w.dirs, 10);
	assert_int_equal(w.count[CHECK_CYCLE], 1);
	assert_string_equal(t.last, "d3/up");
}

/* Where another file system begins, told once: not of what lies in it, nor of other protocols. */
static void borders(void **state)
{
	struct source s = { .entry = entry_pair, .mounted = 2 };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_NFS, 4, &t, 0);

	(void)state;
	assert_int_equal(w.dirs, 5);
	assert_int_equal(w.count[CHECK_BORDER], 1);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.last, "d1");
	assert_int_equal(check_kinds[CHECK_BORDER].fate, FATE_KEPT);
	s.mounted = 0;
	w = walk(&s, EXPORT_NFS, 4, &t, 0);
	assert_int_equal(t.n, 0);
}

/* One directory that is not listed is told, and keeps nobody else away. */
static void unlisted(void **state)
{
	static const struct {
		int error;
		const char *why;
	} cases[] = {
		{ -EACCES, "Permission denied" }, { -EIO, "Input/output error" },
		{ -ESTALE, "Stale file handle" }, { -EBADMSG, "impossible" },
		{ -EAGAIN, "changed" },
	};
	struct told t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct source s = { .entry = entry_small, .error = cases[i].error };
		struct check_walk w = walk(&s, EXPORT_NFS, 3, &t, 0);

		assert_int_equal(w.dirs, 10);
		assert_int_equal(w.count[CHECK_UNLISTED], 1);
		assert_int_equal(w.count[CHECK_CYCLE], 1);
		if (t.kind == CHECK_UNLISTED) { /* else the other one came last */
			assert_string_equal(t.last, "d5");
			assert_non_null(strstr(t.why, cases[i].why));
		}
	}
}

static void source_lost(void **state)
{
	struct source s = { .entry = entry_small, .error = -ETIMEDOUT };
	struct told t;

	(void)state;
	walk(&s, EXPORT_NFS, 3, &t, -ETIMEDOUT);
	s = (struct source){ .entry = entry_small, .error = -ENOMEM };
	walk(&s, EXPORT_NFS, 1, &t, -ENOMEM);
}

/* Never ends by itself, and asks for its end after a while. */
static bool entry_endless(uint64_t dir, uint64_t i, char name[STUB_NAME_MAX + 1], bool *is_dir,
			  uint64_t *id)
{
	(void)dir;
	if (i == 100 * PAGE)
		kill(getpid(), SIGTERM);
	*is_dir = false;
	*id = i + 1;
	snprintf(name, STUB_NAME_MAX, "n?%llu", (unsigned long long)i);
	return true;
}

static void stopped(void **state)
{
	struct source s = { .entry = entry_endless };
	struct told t;
	struct check_walk w = walk(&s, EXPORT_SMB, 2, &t, 0);

	(void)state;
	assert_true(w.stopped);
	assert_true(w.objects >= 100 * PAGE && w.count[CHECK_CHARACTER] == w.objects);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_directories),
		cmocka_unit_test(huge_directory),
		cmocka_unit_test(twins_told_once),
		cmocka_unit_test(endless_depth),
		cmocka_unit_test(cycle),
		cmocka_unit_test(borders),
		cmocka_unit_test(unlisted),
		cmocka_unit_test(source_lost),
		cmocka_unit_test(stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
