/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_dummy.c - libstubcore/fill.c: a dummy gets its attributes, all of them or none */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "fixture.h"

static const struct stub_xattr some[] = {
	{ "user.DOSATTRIB", "dos", 3 },
	{ "user.DosStream.a:$DATA", "stream", 6 },
	{ "security.NTACL", "acl", 3 },
};

/* A listed directory with one dummy, opened. */
static struct stub_object make_dummy(struct fixture *x, const char *name, mode_t mode,
				     struct stub_entry *e)
{
	struct stub_object o;
	struct stub_handle h;

	*e = fixture_entry(name, mode, 0);
	e->dummy = true;
	fixture_list(x, e, 1);
	h = fixture_handle(x, name);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(o.needs & STUB_NEEDS_ATTRS);
	return o;
}

static void assert_xattr(struct fixture *x, const char *name, const struct stub_xattr *want)
{
	char path[256], got[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", x->dir, name);
	n = getxattr(path, want->name, got, sizeof(got));
	assert_int_equal(n, want->len);
	assert_memory_equal(got, want->value, want->len);
}

/* What a listing has told is kept with the dummy; of what is no dummy nothing is. */
static void test_told(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];
	char path[256];

	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { "file", "dir", "known", "odd" };

		e[i] = fixture_entry(names[i], (i == 1 ? S_IFDIR : S_IFREG) | 0700, i == 1 ? 0 : 5);
		e[i].dummy = i != 2;
		e[i].told = &some[0];
	}
	e[3].told = &(struct stub_xattr){ "nowhere.it", "x", 1 }; /* cannot be stored */
	fixture_list(x, e, 4);
	assert_xattr(x, "file", &some[0]);
	assert_xattr(x, "dir", &some[0]);
	snprintf(path, sizeof(path), "%s/known", x->dir);
	assert_int_equal(getxattr(path, some[0].name, NULL, 0), -1);
	assert_true(fixture_view(x, "file").needs & STUB_NEEDS_ATTRS);
	assert_true(fixture_view(x, "odd").needs & STUB_NEEDS_ATTRS);
	assert_false(fixture_view(x, "known").needs & STUB_NEEDS_ATTRS);
}

/* What clients see, and what the old server is compared with. */
static void test_other_times(void **state)
{
	const struct timespec shown[2] = { { -5000, 300 }, { -310000000, 500 } };
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e), after;
	struct stub_attr a = e.attr;
	struct stub_view view;
	struct stat st;

	a.size = 5;
	a.mtime = (struct timespec){ UINT32_MAX - 310000000, 500 };
	assert_int_equal(stub_fill_attr(x->v, &o, &a, shown, NULL, 0, NULL), 0);
	assert_int_equal(stub_object_open(x->v, &o.h, &after), 0);
	assert_memory_equal(&after.mtime, &a.mtime, sizeof(a.mtime));
	assert_int_equal(stub_view(x->v, &o.h, &view), 0);
	assert_memory_equal(&view.mtime, &shown[1], sizeof(shown[1]));
	assert_int_equal(stub_fill_data(x->v, &after, 0, "12345", 5), 0);
	assert_int_equal(fstat(after.fd, &st), 0);
	assert_memory_equal(&st.st_mtim, &shown[1], sizeof(shown[1]));
	assert_memory_equal(&st.st_atim, &shown[0], sizeof(shown[0]));
	stub_object_close(&after);
	stub_object_close(&o);
}

static void test_filled(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e);
	struct stub_attr a = e.attr;
	struct stat st;
	size_t bad = 77;

	a.mode = S_IFREG | 04751;
	a.uid = 77;
	a.gid = 78;
	a.size = 12345;
	a.mtime.tv_nsec = 100;
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, some, ARRAY_LEN(some), &bad), 0);
		assert_int_equal(bad, ARRAY_LEN(some));
		assert_int_equal(fstatat(x->v->fd, "file", &st, 0), 0);
		assert_int_equal(st.st_mode, S_IFREG | 04751);
		assert_int_equal(st.st_uid, 77);
		assert_int_equal(st.st_gid, 78);
		assert_int_equal(st.st_size, 12345);
		assert_int_equal(st.st_mtim.tv_sec, a.mtime.tv_sec);
		assert_int_equal(st.st_mtim.tv_nsec, 100);
		for (size_t i = 0; i < ARRAY_LEN(some); i++)
			assert_xattr(x, "file", &some[i]);
		assert_int_equal(fixture_view(x, "file").needs, STUB_NEEDS_DATA);
	}
	stub_object_close(&o);
}

/* Names that clients have removed and made before its attributes came are counted, whatever the old server says. */
static void test_names_of_clients(void **state)
{
	static const char *const names[] = { "less", "same", "more" };
	struct fixture *x = *state;
	struct stub_entry e[3];

	for (int i = 0; i < 3; i++) {
		e[i] = fixture_entry(names[i], S_IFREG | 0600, 5);
		e[i].dummy = true;
		e[i].attr.nlink = 2;
	}
	fixture_list(x, e, 3);
	for (int i = 0; i < 3; i++) {
		struct stub_handle h = fixture_handle(x, names[i]);
		const struct stub_handle *hs[] = { &h };
		struct stub_attr a = e[i].attr;
		struct stub_object o;
		struct stub_change c;

		a.nlink = 3; /* one was made there meanwhile */
		assert_int_equal(stub_object_open(x->v, &h, &o), 0);
		assert_int_equal(stub_change_begin(x->v, hs, 1, &c), 0);
		stub_change_links(&c, 0, i - 1);
		assert_int_equal(stub_change_end(&c, 0), 0);
		assert_int_equal(fixture_view(x, names[i]).nlink, 2 + i - 1);
		assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), 0);
		assert_int_equal(fixture_view(x, names[i]).nlink, 3 + i - 1);
		stub_object_close(&o);
	}
}

/* What a client has changed since it is no dummy stays. */
static void test_never_twice(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e);
	struct stub_xattr other = { "user.DOSATTRIB", "new", 3 };
	struct stub_attr a = e.attr;
	struct stat st;

	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, &other, 1, NULL), 0);
	a.uid = 99;
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, some, ARRAY_LEN(some), NULL), 0);
	assert_int_equal(fstatat(x->v->fd, "file", &st, 0), 0);
	assert_int_equal(st.st_uid, 1001);
	assert_xattr(x, "file", &other);
	stub_object_close(&o);
}

static void test_directory(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "dir", S_IFDIR | 0700, &e);
	struct stub_attr a = e.attr;
	struct stat st;

	a.mode = S_IFDIR | 02775;
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, some, ARRAY_LEN(some), NULL), 0);
	assert_int_equal(fstatat(x->v->fd, "dir", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 02775);
	assert_xattr(x, "dir", &some[2]);
	assert_int_equal(fixture_view(x, "dir").needs, STUB_NEEDS_ENTRIES);
	stub_object_close(&o);
}

/* One that cannot be stored: the object stays a dummy, and it is said which it was. */
static void test_no_place(void **state)
{
	struct fixture *x = *state;
	static char huge[70000];
	struct stub_xattr list[] = { some[0], { "user.huge", huge, sizeof(huge) }, some[2] };
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e);
	size_t bad = 77;

	assert_true(stub_fill_attr(x->v, &o, &e.attr, NULL, list, 3, &bad) < 0);
	assert_int_equal(bad, 1);
	assert_true(fixture_view(x, "file").needs & STUB_NEEDS_ATTRS);
	list[1] = some[1];
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, list, 3, &bad), 0);
	assert_false(fixture_view(x, "file").needs & STUB_NEEDS_ATTRS);
	stub_object_close(&o);
}

/* Invariant 9 (docs/design.md): nothing of the old server's becomes a record, or root's. */
static void test_never_ours(void **state)
{
	struct fixture *x = *state;
	struct stub_xattr list[] = { some[0], { STUB_XATTR, "x", 1 } };
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e);
	size_t bad;

	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, list, 2, &bad), -EBADMSG);
	assert_int_equal(bad, 1);
	list[1].name = "trusted.other";
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, list, 2, &bad), -EBADMSG);
	assert_true(fixture_view(x, "file").needs & STUB_NEEDS_ATTRS);
	stub_object_close(&o);
}

static void test_another_object(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e);
	struct stub_attr a = e.attr;

	a.fileid++;
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), -ESTALE);
	a = e.attr;
	a.mode = S_IFDIR | 0700;
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), -ESTALE);
	a = e.attr;
	a.uid = UINT32_MAX;
	assert_int_equal(stub_fill_attr(x->v, &o, &a, NULL, NULL, 0, NULL), -EBADMSG);
	assert_true(fixture_view(x, "file").needs & STUB_NEEDS_ATTRS);
	stub_object_close(&o);
}

/* ---- stub_withheld ---- */

static void test_withheld(void **state)
{
	(void)state;
	assert_true(stub_withheld(-EREMOTEIO));
	assert_true(stub_withheld(-EBADMSG));
	assert_true(stub_withheld(-ENOSPC));
	assert_true(stub_withheld(-EIO));
	assert_false(stub_withheld(0));
	assert_false(stub_withheld(-EAGAIN));
	assert_false(stub_withheld(-ENOMEM));
	assert_false(stub_withheld(-EMFILE));
	assert_false(stub_withheld(-ENOENT));
	assert_false(stub_withheld(-ESTALE));
	assert_false(stub_withheld(-ECANCELED));
}

/* Below, ext4 with 4 KiB blocks: all attributes of a file share one block. */
static bool shares_a_block(struct fixture *x)
{
	struct statfs fs;

	assert_int_equal(fstatfs(stub_volume_fd(x->v), &fs), 0);
	if ((unsigned long)fs.f_type == 0xef53 && fs.f_bsize == 4096)
		return true;
	print_message("not on ext4: skipped\n");
	return false;
}

/* The largest value that the file takes. */
static size_t fill_up(int fd, const char *name, char *value)
{
	size_t low = 0, high = 8192;

	while (low < high) {
		size_t mid = (low + high + 1) / 2;

		if (fsetxattr(fd, name, value, mid, 0) == 0)
			low = mid;
		else
			high = mid - 1;
	}
	if (low)
		assert_int_equal(fsetxattr(fd, name, value, low, 0), 0);
	return low;
}

/* The longest origin, and more attributes than go with it: it is not the volume that is full. */
static void test_attributes_beside_a_long_origin(void **state)
{
	static const char value[8192];
	static uint8_t origin[STUB_ORIGIN_MAX];
	struct stub_xattr x_fits[] = { { "user.a", value, 100 }, { "security.NTACL", value, 2000 } };
	struct stub_xattr x_not[] = { { "user.a", value, 100 }, { "security.NTACL", value, 3300 } };
	struct stub_xattr x_never[] = { { "security.NTACL", value, 5000 } };
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("f", S_IFREG | 0600, 0);
	struct stub_object o;
	struct stub_handle h;
	size_t bad;

	if (!shares_a_block(x))
		return;
	memset(origin, 'o', sizeof(origin));
	e.origin = origin;
	e.origin_len = sizeof(origin);
	e.dummy = true;
	fixture_list(x, &e, 1);
	h = fixture_handle(x, "f");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	e.attr.size = 10;
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, x_never, 1, &bad), -E2BIG);
	assert_int_equal(bad, 0);
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, x_not, 2, &bad), -E2BIG);
	assert_int_equal(bad, 1);
	assert_true(fixture_view(x, "f").needs & STUB_NEEDS_ATTRS);
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, x_fits, 2, &bad), 0);
	stub_object_close(&o);
}

/* No place for a map that grows, but for one that does not. */
static void test_record_beside_full_attributes(void **state)
{
	static char value[8192], data[1 << 20];
	const struct stub_handle *in[1];
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("f", S_IFREG | 0600, sizeof(data));
	struct stub_change c;
	struct stub_object o;
	struct stub_handle h;
	int64_t r = 0;
	int fd;

	if (!shares_a_block(x))
		return;
	fixture_list(x, &e, 1);
	h = fixture_handle(x, "f");
	fd = fixture_open(x, "f", O_RDWR);
	assert_true(fill_up(fd, "user.big", value) > 2000);
	fill_up(fd, "user.rest", value);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	for (uint64_t at = 8192; r >= 0 && at < sizeof(data) - 8192; at += 65536)
		r = stub_fill_data(x->v, &o, at, data, 4096);
	assert_int_equal(r, -EOVERFLOW);
	in[0] = &h;
	assert_int_equal(stub_change_begin(x->v, in, 1, &c), -ENOSPC); /* what a client hears */
	assert_int_equal(stub_fill_data(x->v, &o, 0, data, sizeof(data)), 0);
	stub_object_close(&o);
	close(fd);
}

/* user::rw-, user:9:---, group::r--, mask::rw-, other::r-- */
static const uint8_t acl[] = { 2, 0, 0, 0, 1,	 0, 6, 0, 255, 255, 255, 255, 2,    0, 0,
			       0, 9, 0, 0, 0,	 4, 0, 4, 0,   255, 255, 255, 255,  16, 0,
			       6, 0, 255, 255, 255, 255, 32, 0, 4, 0,	  255, 255, 255, 255 };

static mode_t mode_of(struct fixture *x, const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", x->dir, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* The group's bits are the ACL's mask: nobody gets by them what the ACL does not give. */
static void test_mode_waits_for_the_acl(void **state)
{
	const struct stub_xattr refused[] = { { "user.a", "a", 1 }, { STUB_XATTR, "x", 1 },
					      { "system.posix_acl_access", acl, sizeof(acl) } };
	const struct stub_xattr good[] = { { "user.a", "a", 1 },
					   { "system.posix_acl_access", acl, sizeof(acl) } };
	struct fixture *x = *state;
	struct stub_entry e;
	struct stub_object o = make_dummy(x, "file", S_IFREG | 0600, &e);
	size_t bad;

	e.attr.mode = S_IFREG | 02664;
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, refused, 3, &bad), -EBADMSG);
	assert_int_equal(bad, 1);
	assert_int_equal(mode_of(x, "file"), 02600);
	assert_int_equal(stub_fill_attr(x->v, &o, &e.attr, NULL, good, 2, &bad), 0);
	assert_int_equal(mode_of(x, "file"), 02664);
	assert_xattr(x, "file", &good[1]);
	stub_object_close(&o);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(test_filled),	    ON_VOLUME(test_other_times),
		ON_VOLUME(test_told),	    ON_VOLUME(test_names_of_clients),
		ON_VOLUME(test_never_twice), ON_VOLUME(test_directory),
		ON_VOLUME(test_no_place),   ON_VOLUME(test_never_ours),
		ON_VOLUME(test_attributes_beside_a_long_origin),
		ON_VOLUME(test_record_beside_full_attributes),
		ON_VOLUME(test_mode_waits_for_the_acl),
		ON_VOLUME(test_another_object), cmocka_unit_test(test_withheld),
	};

	return cmocka_run_group_tests_name("dummy", tests, NULL, NULL);
}
