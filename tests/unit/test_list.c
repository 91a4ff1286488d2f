/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_list.c - libstubcore/list.c, stage.c, links.c on a real file system */
#include "fixture.h"

#include <dirent.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/* The next so many attributes do not fit. */
static int refuse;

int __real_fsetxattr(int fd, const char *name, const void *value, size_t len, int flags);
int __wrap_fsetxattr(int fd, const char *name, const void *value, size_t len, int flags);

int __wrap_fsetxattr(int fd, const char *name, const void *value, size_t len, int flags)
{
	if (refuse > 0) {
		refuse--;
		errno = ENOSPC;
		return -1;
	}
	return __real_fsetxattr(fd, name, value, len, flags);
}

/* ---- listing ---- */

static void test_every_type(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = {
		fixture_entry("file", S_IFREG | 04755, 1000),
		fixture_entry("empty", S_IFREG | 0600, 0),
		fixture_entry("dir", S_IFDIR | 01777, 4096),
		fixture_entry("link", S_IFLNK | 0777, 6),
		fixture_entry("fifo", S_IFIFO | 0640, 0),
		fixture_entry("sock", S_IFSOCK | 0640, 0),
		fixture_entry("char", S_IFCHR | 0660, 0),
		fixture_entry("block", S_IFBLK | 0660, 0),
	};
	struct stat root, st;
	char target[16];

	e[3].target = "target";
	e[3].target_len = 6;
	e[6].attr.rdev_major = 5;
	e[6].attr.rdev_minor = 77;
	fixture_list(x, e, ARRAY_LEN(e));

	for (size_t i = 0; i < ARRAY_LEN(e); i++) {
		assert_int_equal(fstatat(x->v->fd, e[i].name, &st, AT_SYMLINK_NOFOLLOW), 0);
		if (!S_ISLNK(st.st_mode))
			assert_int_equal(st.st_mode, e[i].attr.mode);
		assert_int_equal(st.st_uid, 1001);
		assert_int_equal(st.st_gid, 1002);
		assert_int_equal(stub_time_cmp(st.st_mtim, e[i].attr.mtime), 0);
		assert_int_equal(stub_time_cmp(st.st_atim, e[i].attr.atime), 0);
	}
	assert_int_equal(fstatat(x->v->fd, "char", &st, 0), 0);
	assert_int_equal(st.st_rdev, makedev(5, 77));
	assert_int_equal(readlinkat(x->v->fd, "link", target, sizeof(target)), 6);
	assert_memory_equal(target, "target", 6);
	assert_int_equal(fixture_view(x, "file").needs, STUB_NEEDS_DATA);
	assert_int_equal(fixture_view(x, "dir").needs, STUB_NEEDS_ENTRIES);
	assert_int_equal(fixture_view(x, "empty").needs, 0);
	assert_int_equal(fixture_view(x, "link").needs, 0);
	assert_int_equal(fixture_view(x, "fifo").needs, 0);
	/* the directory's own time has not moved by all this */
	assert_int_equal(fstat(x->v->fd, &root), 0);
	assert_int_equal(root.st_mtim.tv_sec, 1000000000);
	assert_int_equal(root.st_mtim.tv_nsec, 5);
	assert_int_equal(fixture_scan(x).covered, 2);
	assert_int_equal(fixture_scan(x).journal, 2);
}

/* There was no room, and then there is: that says nothing of the entry. */
static void test_room_comes_back(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 1000);
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	size_t bad;

	refuse = 1;
	assert_int_equal(stub_list_batch(x->v, x->j, &o, &e, 1, &refused, &bad), 0);
	assert_int_equal(refuse, 0);
	assert_int_equal(refused.len, 0);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_DATA);
	stub_object_close(&o);
}

static void test_hostile_entries(void **state)
{
	static const char *const names[] = { "", ".", "..", "a/b", "/" };
	struct fixture *x = *state;
	struct stub_object o = fixture_root(x);
	char long_name[300];
	struct stub_entry good = fixture_entry("good", S_IFREG | 0644, 1), e;
	struct stub_refused refused = { 0 };
	size_t bad = 99;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct stub_entry two[] = { good, fixture_entry(names[i], S_IFREG | 0644, 1) };

		assert_int_equal(stub_list_batch(x->v, x->j, &o, two, 2, &refused, &bad), -EBADMSG);
		assert_int_equal(bad, 1);
		assert_int_equal(refused.len, 0);
	}
	memset(long_name, 'x', sizeof(long_name));
	e = good;
	e.name = long_name;
	e.name_len = 256;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e.name = "a\0b";
	e.name_len = 3;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e = good;
	e.attr.size = (uint64_t)INT64_MAX + 1;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e.attr.size = UINT64_MAX;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e.attr.size = INT64_MAX - 1; /* a number, but no file system has room for it */
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EFBIG);
	e = good;
	e.attr.mode = 0777;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e = good;
	e.attr.mtime.tv_nsec = 1000000000;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e = good;
	e.origin_len = STUB_ORIGIN_MAX + 1;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EOVERFLOW);
	assert_true(stub_refusal(-EOVERFLOW));
	e.origin_len = 0;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	e = good;
	e.attr.uid = UINT32_MAX;
	assert_int_equal(stub_make_entry(x->v, &o, &e), -EBADMSG);
	o.depth = STUB_DEPTH_MAX;
	assert_int_equal(stub_make_entry(x->v, &o, &good), -EMLINK);
	stub_object_close(&o);
	/* nothing of all this has been made */
	assert_int_equal(fixture_scan(x).objects, 1);
	assert_int_equal(fixture_scan(x).leftovers, 0);
}

/* ---- look-ups before listing ---- */

static void test_lookup_then_list_is_journalled(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = fixture_root(x);
	/* "hidden" is found by look-up but never listed, as .snapshot on some servers */
	struct stub_entry hidden = fixture_entry("hidden", S_IFREG | 0644, 10);
	struct stub_entry e[] = { fixture_entry("a", S_IFREG | 0644, 10),
				  fixture_entry("b", S_IFREG | 0644, 10) };
	struct stub_handle before, after;

	assert_int_equal(stub_make_entry(x->v, &o, &e[0]), 0);
	assert_int_equal(stub_make_entry(x->v, &o, &e[0]), 0);
	assert_int_equal(stub_make_entry(x->v, &o, &hidden), 0);
	stub_object_close(&o);
	before = fixture_handle(x, "a");
	assert_int_equal(fixture_scan(x).in_unlisted, 2);
	assert_int_equal(fixture_scan(x).journal, 1);

	fixture_list(x, e, 2);
	after = fixture_handle(x, "a");
	assert_true(stub_handle_equal(&before, &after));
	assert_int_equal(fixture_scan(x).covered, 3);
	assert_int_equal(fixture_scan(x).journal, 3);
}

static void test_clients_name_wins(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("mine", S_IFREG | 0644, 10);
	int fd = fixture_open(x, ".", O_RDONLY | O_DIRECTORY);
	struct stat st;

	assert_int_equal(mknodat(fd, "mine", S_IFREG | 0600, 0), 0);
	close(fd);
	fixture_list(x, &e, 1);
	assert_int_equal(fstatat(x->v->fd, "mine", &st, 0), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(fixture_view(x, "mine").needs, 0);
}

static void test_batch_again_after_a_crash(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("a", S_IFREG | 0644, 10),
				  fixture_entry("d", S_IFDIR | 0755, 0) };
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	struct stub_handle before;
	size_t bad;

	assert_int_equal(stub_list_batch(x->v, x->j, &o, e, 2, &refused, &bad), 0);
	stub_object_close(&o);
	before = fixture_handle(x, "a");
	fixture_reopen(x);
	assert_int_equal(fixture_view(x, ".").needs, STUB_NEEDS_ENTRIES);
	fixture_list(x, e, 2);
	assert_true(stub_handle_equal(&before, &(struct stub_handle[]){ fixture_handle(x, "a") }[0]));
	assert_int_equal(fixture_scan(x).covered, 2);
	assert_int_equal(fixture_scan(x).stale, 0);
}

static void test_staging_is_cleaned(void **state)
{
	struct fixture *x = *state;

	assert_int_equal(mkdirat(x->v->staging_fd, "17", 0700), 0);
	assert_int_equal(mknodat(x->v->staging_fd, "18", S_IFIFO | 0600, 0), 0);
	assert_int_equal(fixture_scan(x).leftovers, 2);
	assert_int_equal(stub_staging_clean(x->v), 0);
	assert_int_equal(fixture_scan(x).leftovers, 0);
}

/* ---- hard links ---- */

static struct stub_entry linked(const char *name, uint32_t nlink)
{
	struct stub_entry e = fixture_entry(name, S_IFREG | 0644, 5);

	e.attr.nlink = nlink;
	e.attr.fileid = 777;
	e.origin = (const uint8_t *)"777";
	e.origin_len = 3;
	return e;
}

/* Nobody else knows it: servers of SMB, and those that say what cannot be. */
static void test_size_of_a_directory(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("said", S_IFDIR | 0755, 777),
				  fixture_entry("not", S_IFDIR | 0755, 0),
				  fixture_entry("wild", S_IFDIR | 0755, UINT64_MAX),
				  fixture_entry("file", S_IFREG | 0644, 777) };

	fixture_list(x, e, 4);
	assert_int_equal(fixture_view(x, "said").size, 777);
	assert_int_equal(fixture_view(x, "not").size, 4096);
	assert_int_equal(fixture_view(x, "wild").size, 4096);
	assert_int_equal(fixture_view(x, "file").size, 0); /* the local one */
	assert_int_equal(fixture_view(x, "said").needs, STUB_NEEDS_ENTRIES);
}

static void test_hard_links_share_an_inode(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { linked("one", 3), linked("two", 3) };
	struct stub_view v;
	struct stat a, b;

	fixture_list(x, e, 2);
	assert_int_equal(fstatat(x->v->fd, "one", &a, 0), 0);
	assert_int_equal(fstatat(x->v->fd, "two", &b, 0), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	v = fixture_view(x, "one");
	assert_int_equal(v.nlink, 3); /* as the old server said */
	assert_int_equal(v.needs, STUB_NEEDS_DATA | STUB_NEEDS_NAMES);
	assert_int_equal(fixture_scan(x).provisional, 1);
	assert_int_equal(fixture_scan(x).journal, 1);
}

static ino_t inode_of(const struct fixture *x, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(x->v->fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_ino;
}

/* fsid and file id do not make two names one file: the inode's own bytes do, with what
 * all names of a file agree in. */
static void test_hard_links_only_of_what_is_the_same(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { linked("one", 2),  linked("other", 2), linked("later", 2),
				  linked("big", 2),  linked("fifo", 2),	 linked("elsewhere", 2),
				  linked("two", 2) };
	struct stub_finish_stats s;

	e[1].origin = (const uint8_t *)"778";
	e[2].attr.mtime.tv_nsec++;
	e[3].attr.size++;
	e[4].attr.mode = S_IFIFO | 0644;
	/* a handle that tells of the directory too */
	e[5].origin = (const uint8_t *)"777 in elsewhere";
	e[5].origin_len = 16;
	e[5].inode = e[5].origin;
	e[5].inode_len = 3;
	fixture_list(x, e, 7);
	for (size_t i = 1; i < 5; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(inode_of(x, e[i].name), inode_of(x, e[k].name));
	assert_int_equal(inode_of(x, "one"), inode_of(x, "elsewhere"));
	assert_int_equal(inode_of(x, "one"), inode_of(x, "two"));
	assert_int_equal(fixture_scan(x).provisional, 5);
	/* "fifo" waits for a name that does not come */
	stub_finisher_add_last(x->f, (struct stub_handle[]){ fixture_handle(x, "fifo") });
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_scan(x).provisional, 4);
	stub_finisher_stats(x->f, &s);
	assert_int_equal(s.split, 1);
}

/* Clients removed the only name that had come: the scan still meets the inode. */
static void test_scan_meets_an_inode_without_a_name(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = linked("one", 2);
	struct stub_scan s;

	fixture_list(x, &e, 1);
	assert_int_equal(unlinkat(x->v->fd, "one", 0), 0);
	s = fixture_scan(x);
	assert_int_equal(s.provisional, 1);
	assert_int_equal(s.stubs, 1);
	assert_int_equal(s.covered, 1);
	assert_int_equal(s.missing_bytes, 5);
	assert_int_equal(s.journal, 1);
	assert_int_equal(s.stale, 0);
}

/* A stub known by look-up only, linked by a client into a listed directory: its name in
 * the unlisted one covers it, in whatever order the two are met. */
static void test_scan_of_a_link_out_of_an_unlisted_directory(void **state)
{
	struct fixture *x = *state;
	struct stub_entry d[] = { fixture_entry("d", S_IFDIR | 0755, 4096),
				  fixture_entry("e", S_IFDIR | 0755, 4096) };
	struct stub_entry f = fixture_entry("f", S_IFREG | 0644, 10);
	struct stub_refused refused = { 0 };
	struct stub_handle h;
	struct stub_object o;
	struct stub_scan s;

	fixture_list(x, d, 2);
	for (size_t i = 0; i < 2; i++) {
		h = fixture_handle(x, d[i].name);
		assert_int_equal(stub_object_open(x->v, &h, &o), 0);
		if (i == 0)
			assert_int_equal(stub_make_entry(x->v, &o, &f), 0);
		else
			assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
		stub_object_close(&o);
	}
	assert_int_equal(linkat(x->v->fd, "d/f", x->v->fd, "here", 0), 0);
	assert_int_equal(linkat(x->v->fd, "d/f", x->v->fd, "e/there", 0), 0);
	s = fixture_scan(x);
	assert_int_equal(s.in_unlisted, 1);
	assert_int_equal(s.stubs, 1);
	/* without that name it would be lost */
	assert_int_equal(unlinkat(x->v->fd, "d/f", 0), 0);
	assert_int_equal(stub_scan(x->v, NULL, NULL, &s), 0);
	assert_int_equal(s.uncovered, 1);
}

/* A client removed it while a server has it open: it has its record, and no name. */
static void test_scan_of_what_is_open_and_removed(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 10);
	struct stub_scan s;
	int fd;

	fixture_list(x, &e, 1);
	s = fixture_scan(x);
	assert_int_equal(s.stubs, 1);
	assert_int_equal(s.stale, 0);
	fd = fixture_open(x, "a", O_RDONLY);
	assert_int_equal(unlinkat(x->v->fd, "a", 0), 0);
	s = fixture_scan(x);
	assert_int_equal(s.stubs, 0);
	assert_int_equal(s.stale, 1);
	assert_int_equal(s.journal, s.covered + s.stale);
	close(fd);
	s = fixture_scan(x);
	assert_int_equal(s.stale, 1);
}

/* ---- records of others ---- */

static void test_copied_record_is_no_stub_and_not_normal(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("a", S_IFREG | 0644, 10),
				  fixture_entry("b", S_IFREG | 0644, 0) };
	struct stub_change c;
	struct stub_object o;
	struct stub_handle h;
	struct stub_scan s;
	char value[4096];
	ssize_t n;
	int fd;

	fixture_list(x, e, 2);
	fd = fixture_open(x, "a", O_RDONLY);
	n = fgetxattr(fd, STUB_XATTR, value, sizeof(value));
	assert_true(n > 0);
	close(fd);
	fd = fixture_open(x, "b", O_RDONLY);
	assert_int_equal(fsetxattr(fd, STUB_XATTR, value, (size_t)n, 0), 0);
	close(fd);
	h = fixture_handle(x, "b");
	assert_int_equal(fixture_view(x, "b").needs, STUB_NEEDS_FOREIGN);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), -EBADMSG);
	assert_int_equal(stub_change_begin(x->v, (const struct stub_handle *[]){ &h }, 1, &c),
			 -EBADMSG);
	assert_int_equal(stub_object_open(x->v, &h, &o), -EBADMSG);
	s = fixture_scan(x);
	assert_int_equal(s.foreign, 1);
	assert_int_equal(s.corrupt, 0);
	assert_false(stub_scan_whole(&s));
	assert_int_equal(unlinkat(stub_volume_fd(x->v), "a", 0), 0);
	assert_int_equal(stub_volume_remove(x->v), -EBUSY);
}

static void test_damaged_record_is_an_error(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 10);
	struct stub_handle h;
	struct stub_view v;
	struct stub_scan s;
	int fd;

	fixture_list(x, &e, 1);
	h = fixture_handle(x, "a");
	fd = fixture_open(x, "a", O_RDONLY);
	assert_int_equal(fsetxattr(fd, STUB_XATTR, "garbage", 7, 0), 0);
	close(fd);
	assert_int_equal(stub_view(x->v, &h, &v), -EBADMSG);
	assert_int_equal(stub_data_ready(x->v, &h, 0, 1), -EBADMSG);
	assert_int_equal(stub_scan(x->v, NULL, NULL, &s), 0);
	assert_int_equal(s.corrupt, 1);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(test_every_type),
		ON_VOLUME(test_room_comes_back),
		ON_VOLUME(test_hostile_entries),
		ON_VOLUME(test_lookup_then_list_is_journalled),
		ON_VOLUME(test_clients_name_wins),
		ON_VOLUME(test_batch_again_after_a_crash),
		ON_VOLUME(test_staging_is_cleaned),
		ON_VOLUME(test_size_of_a_directory),
		ON_VOLUME(test_hard_links_share_an_inode),
		ON_VOLUME(test_hard_links_only_of_what_is_the_same),
		ON_VOLUME(test_scan_meets_an_inode_without_a_name),
		ON_VOLUME(test_scan_of_a_link_out_of_an_unlisted_directory),
		ON_VOLUME(test_scan_of_what_is_open_and_removed),
		ON_VOLUME(test_copied_record_is_no_stub_and_not_normal),
		ON_VOLUME(test_damaged_record_is_an_error),
	};

	return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
