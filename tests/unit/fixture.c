/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fixture.h"

#include <ftw.h>

#include "ledger.h"
#include "news.h"

static void log_stderr(void *arg, enum stub_log_level level, const char *msg)
{
	(void)arg;
	if (level <= STUB_LOG_WARN)
		print_message("  log: %s\n", msg);
}

static void open_all(struct fixture *x)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/.postcopy/journal", x->dir);
	assert_int_equal(stub_volume_open(x->dir, 0, log_stderr, NULL, &x->v), 0);
	assert_int_equal(stub_journal_open(path, 0, log_stderr, NULL, &x->j), 0);
	assert_int_equal(stub_finisher_create(x->v, x->j, log_stderr, NULL, &x->f), 0);
}

void fixture_close(struct fixture *x)
{
	if (!x->v)
		return;
	stub_finisher_destroy(x->f);
	stub_journal_close(x->j);
	stub_volume_close(x->v);
	x->v = NULL;
}

void fixture_reopen(struct fixture *x)
{
	fixture_close(x);
	open_all(x);
}

int fixture_settle(struct fixture *x, int (*before)(struct stub_volume *v))
{
	struct stub_journal *j;
	struct stub_volume *v;
	char path[128];
	int r;

	snprintf(path, sizeof(path), "%s/.postcopy/journal", x->dir);
	assert_int_equal(stub_volume_open(x->dir, STUB_OPEN_ANYWHERE, NULL, NULL, &v), 0);
	assert_int_equal(stub_journal_open(path, 0, NULL, NULL, &j), 0);
	if (before)
		assert_int_equal(before(v), 0);
	r = stub_volume_settle(v, j);
	stub_journal_close(j);
	stub_volume_close(v);
	return r;
}

int fixture_setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	struct stub_volume_info info = {
		.uuid = "00000000-0000-0000-0000-000000000001",
		.source = "nfs://127.0.0.1/export",
		.source_id = 1,
	};
	struct stub_origin root = { 4, "root" };
	struct stub_attr attr = {
		.mode = S_IFDIR | 0755,
		.nlink = 2,
		.fsid = 1,
		.fileid = 2,
		.mtime = { 1000000000, 5 },
		.ctime = { 1000000001, 6 },
		.atime = { 1000000002, 7 },
	};

	if (!x)
		return -1;
	snprintf(x->dir, sizeof(x->dir), "/var/tmp/postcopy-unit-XXXXXX");
	if (!mkdtemp(x->dir))
		return -1;
	snprintf(x->beside, sizeof(x->beside), "/tmp%s", strrchr(x->dir, '/'));
	snprintf(info.socket, sizeof(info.socket), "%s.sock", x->beside);
	snprintf(info.control, sizeof(info.control), "%s.ctl", x->beside);
	assert_int_equal(stub_volume_create(x->dir, &info, &root, &attr, false, NULL, log_stderr, NULL), 0);
	open_all(x);
	*state = x;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

int fixture_teardown(void **state)
{
	static const char *const beside[] = { ".sock", ".ctl", ".sock" STUB_RING_SUFFIX,
					      ".sock" STUB_SET_SUFFIX };
	struct fixture *x = *state;
	char path[128];

	fixture_close(x);
	nftw(x->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", x->beside, beside[i]);
		unlink(path);
	}
	free(x);
	return 0;
}

struct stub_entry fixture_entry(const char *name, mode_t mode, uint64_t size)
{
	struct stub_entry e = {
		.name = name,
		.name_len = strlen(name),
		.attr = {
			.mode = mode,
			.nlink = S_ISDIR(mode) ? 2 : 1,
			.uid = 1001,
			.gid = 1002,
			.size = size,
			.fsid = 1,
			.atime = { 1200000000, 11 },
			.mtime = { 1200000001, 22 },
			.ctime = { 1200000002, 33 },
		},
	};

	for (const char *p = name; *p; p++)
		e.attr.fileid = e.attr.fileid * 257 + (unsigned char)*p;
	e.origin = (const uint8_t *)name;
	e.origin_len = e.name_len;
	return e;
}

struct stub_object fixture_root(struct fixture *x)
{
	struct stub_object o;

	assert_int_equal(stub_object_open(x->v, stub_volume_root(x->v), &o), 0);
	return o;
}

void fixture_list(struct fixture *x, const struct stub_entry *e, size_t n)
{
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	size_t bad;

	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, n, &refused, &bad), 0);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
	assert_int_equal(refused.len, 0);
	stub_object_close(&o);
	stub_finisher_add(x->f, stub_volume_root(x->v));
	assert_int_equal(stub_finisher_drain(x->f), 0);
}

int fixture_open(struct fixture *x, const char *name, int flags)
{
	int fd = openat(stub_volume_fd(x->v), name, flags | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

struct stub_handle fixture_handle(struct fixture *x, const char *name)
{
	int fd = fixture_open(x, name, O_PATH | O_NOFOLLOW);
	struct stub_handle h;

	assert_int_equal(stub_handle_of_fd(fd, &h), 0);
	close(fd);
	return h;
}

struct stub_view fixture_view(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_view v;

	assert_int_equal(stub_view(x->v, &h, &v), 0);
	return v;
}

struct stub_scan fixture_scan(struct fixture *x)
{
	struct stub_scan s;

	assert_int_equal(stub_scan(x->v, NULL, NULL, &s), 0);
	assert_int_equal(s.uncovered, 0);
	assert_int_equal(s.corrupt, 0);
	return s;
}
