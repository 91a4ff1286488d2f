/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_places.c - libstubcore/places.c: where objects are at the mirror */
#include <sys/stat.h>

#include "mirrored.h"

#define SLOT 128

static int setup(void **state)
{
	int r = fixture_setup(state);

	if (r == 0)
		mirrored_make(*state, STUB_MIRROR_WAY_BACK, false);
	return r;
}

static uint64_t ino_of(struct fixture *x, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(x->v->fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_ino;
}

static struct stub_handle file(struct fixture *x, uint64_t *ino)
{
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 5);

	fixture_list(x, &e, 1);
	*ino = ino_of(x, "f");
	return fixture_handle(x, "f");
}

/* The same; its record is not asked. */
static struct stub_handle slot_alone(struct fixture *x, uint64_t *ino)
{
	struct stub_handle h = file(x, ino);

	x->v->way_back = false;
	return h;
}

static void assert_place(struct fixture *x, const char *name, const char *origin)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_origin o;

	assert_int_equal(stub_place_get(x->v, ino_of(x, name), &h, &o), 0);
	assert_int_equal(o.len, strlen(origin));
	assert_memory_equal(o.bytes, origin, o.len);
}

static uint64_t place(const struct fixture *x, uint64_t ino)
{
	return stub_slot(x->v->only_named, ino) * SLOT;
}

/* Change one byte of the slot @ino. */
static void damage(struct fixture *x, uint64_t ino, off_t at)
{
	uint8_t byte;

	assert_int_equal(pread(x->v->places_fd, &byte, 1, (off_t)place(x, ino) + at), 1);
	byte ^= 0x40;
	assert_int_equal(stub_io_pwrite(x->v->places_fd, &byte, 1, place(x, ino) + (uint64_t)at), 0);
}

/* ---- put and get ---- */

static void kept(void **state)
{
	struct fixture *x = *state;
	uint8_t longest[64];
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_true(stub_place_kept(x->v));
	memset(longest, 0xa5, sizeof(longest));
	assert_int_equal(stub_place_put(x->v, ino, &h, longest, sizeof(longest)), 0);
	assert_int_equal(stub_place_sync(x->v), 0);
	fixture_reopen(x);
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), 0);
	assert_int_equal(o.len, sizeof(longest));
	assert_memory_equal(o.bytes, longest, sizeof(longest));
	x->v->way_back = false; /* its record is not asked */
	assert_int_equal(stub_place_get(x->v, ino + 1, &h, &o), -ENOENT);
	assert_int_equal(o.len, 0);
}

static void what_cannot_be(void **state)
{
	struct fixture *x = *state;
	static const uint8_t bytes[65] = { 1 };
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_int_equal(stub_place_put(x->v, ino, &h, bytes, 65), -EOVERFLOW);
	assert_int_equal(stub_place_put(x->v, ino, &h, bytes, 0), -EINVAL);
	assert_int_equal(stub_place_put(x->v, 0, &h, bytes, 1), -ERANGE);
	assert_int_equal(stub_place_put(x->v, UINT64_MAX, &h, bytes, 1), -ERANGE);
	assert_int_equal(stub_place_get(x->v, 0, &h, &o), -ENOENT);
	assert_int_equal(stub_place_get(x->v, UINT64_MAX, &h, &o), -ENOENT);
	assert_place(x, "f", "f"); /* as it was */
}

static void not_of_another_generation(void **state)
{
	struct fixture *x = *state;
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = slot_alone(x, &ino);

	assert_int_equal(stub_place_get(x->v, ino, &h, &o), 0);
	h.bytes[h.len - 1] ^= 1;
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -ENOENT);
}

static void a_damaged_slot_is_none(void **state)
{
	static const off_t in[] = { 0, 7, 8, 9, 15, 16, 60, 127 };
	struct fixture *x = *state;
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = slot_alone(x, &ino);

	for (size_t i = 0; i < ARRAY_LEN(in); i++) {
		damage(x, ino, in[i]);
		assert_int_equal(stub_place_get(x->v, ino, &h, &o), -ENOENT);
		damage(x, ino, in[i]);
		assert_place(x, "f", "f");
	}
	assert_int_equal(ftruncate(x->v->places_fd, (off_t)place(x, ino) + 100), 0);
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -ENOENT);
}

/* A length that only who knows the sum can have written. */
static void a_slot_that_lies_is_none(void **state)
{
	struct fixture *x = *state;
	uint8_t slot[SLOT];
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = slot_alone(x, &ino);

	for (unsigned int len = 0; len < 256; len += 65) {
		assert_int_equal(pread(x->v->places_fd, slot, SLOT, (off_t)place(x, ino)), SLOT);
		slot[8] = (uint8_t)len;
		stub_put_le(slot, stub_fnv(stub_fnv(STUB_FNV, h.bytes, h.len), slot + 8, SLOT - 8), 8);
		assert_int_equal(stub_io_pwrite(x->v->places_fd, slot, SLOT, place(x, ino)), 0);
		assert_int_equal(stub_place_get(x->v, ino, &h, &o), -ENOENT);
	}
}

/* ---- the file ---- */

static void without_a_mirror_there_are_none(void **state)
{
	struct fixture *x = *state;
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_false(stub_place_kept(x->v));
	assert_int_equal(stub_place_put(x->v, ino, &h, (const uint8_t *)"x", 1), 0);
	assert_int_equal(stub_place_sync(x->v), 0);
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -ENOENT);
}

static void a_file_that_is_damaged_is_not_used(void **state)
{
	struct fixture *x = *state;
	char path[128];
	struct stub_origin o;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	damage(x, 0, 0);
	fixture_reopen(x);
	assert_false(stub_place_kept(x->v));
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -EBADMSG);
	assert_int_equal(stub_place_put(x->v, ino, &h, (const uint8_t *)"x", 1), -EBADMSG);
	snprintf(path, sizeof(path), "%s/.postcopy/mirror/places", x->dir);
	assert_int_equal(unlink(path), 0);
	fixture_reopen(x);
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -EBADMSG);
	assert_int_equal(mkfifo(path, 0600), 0); /* which nobody waits for */
	fixture_reopen(x);
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -EBADMSG);
}

/* ---- who notes them ---- */

static void what_is_staged_has_a_place(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = {
		fixture_entry("file", S_IFREG | 0644, 100), fixture_entry("empty", S_IFREG | 0644, 0),
		fixture_entry("dir", S_IFDIR | 0755, 0),    fixture_entry("fifo", S_IFIFO | 0600, 0),
		fixture_entry("link", S_IFLNK | 0777, 0),   fixture_entry("one", S_IFREG | 0644, 7),
		fixture_entry("two", S_IFREG | 0644, 7),
	};
	struct stub_origin o;
	struct stub_handle h;

	assert_place(x, ".", "root");
	e[4].target = "where";
	e[4].target_len = 5;
	e[5].attr.nlink = e[6].attr.nlink = 2;
	e[6].attr.fileid = e[5].attr.fileid;
	e[6].origin = e[5].origin;
	e[6].origin_len = e[5].origin_len;
	fixture_list(x, e, ARRAY_LEN(e));
	for (size_t i = 0; i < 6; i++)
		assert_place(x, e[i].name, e[i].name);
	assert_place(x, "two", "one");
	h = fixture_handle(x, "dir");
	/* the root's record is gone; its place is not */
	assert_int_equal(fixture_view(x, ".").needs, 0);
	assert_place(x, ".", "root");
	fixture_reopen(x);
	assert_int_equal(stub_place_get(x->v, ino_of(x, "dir"), &h, &o), 0);
}

/* The place of a directory must not go with a power cut that the loss of its record outlives. */
static void a_directorys_record_waits_for_a_sync(void **state)
{
	struct fixture *x = *state;
	struct stub_object root = fixture_root(x);
	struct stub_refused none = { 0 };

	assert_int_equal(stub_list_finish(x->v, x->j, &root, &none, false), 0);
	stub_object_close(&root);
	assert_int_equal(fixture_view(x, ".").needs, STUB_NEEDS_FINISH);
	stub_finisher_add(x->f, stub_volume_root(x->v));
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, ".").needs, 0);
}

/* A power cut has taken all slots: stubs know their places, and keep them when their records go. */
static void a_stubs_place_outlives_slot_and_record(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("file", S_IFREG | 0644, 4),
				  fixture_entry("dir", S_IFDIR | 0755, 0) };
	struct stub_handle root = *stub_volume_root(x->v), h;
	struct stub_refused none = { 0 };
	struct stub_object o;

	fixture_list(x, e, ARRAY_LEN(e));
	assert_int_equal(ftruncate(x->v->places_fd, SLOT), 0);
	assert_place(x, "file", "file");
	assert_place(x, "dir", "dir");
	h = fixture_handle(x, "file");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, 0, "data", 4) >= 0);
	stub_object_close(&o);
	stub_finisher_add(x->f, &h);
	h = fixture_handle(x, "dir");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_list_finish(x->v, x->j, &o, &none, false), 0);
	stub_object_close(&o);
	stub_finisher_add(x->f, &h);
	stub_finisher_add(x->f, &root);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "file").needs, 0);
	assert_int_equal(fixture_view(x, "dir").needs, 0);
	fixture_reopen(x);
	assert_place(x, "file", "file");
	assert_place(x, "dir", "dir");
}

static void a_backup_is_not_where_things_come_from(void **state)
{
	struct fixture *x = *state;
	struct stub_origin o;
	struct stub_handle h;
	uint64_t ino;

	mirrored_make(x, STUB_MIRROR_BACKUP, true);
	h = file(x, &ino);
	assert_true(stub_place_kept(x->v));
	assert_int_equal(stub_place_get(x->v, ino, &h, &o), -ENOENT);
	assert_int_equal(stub_place_get(x->v, x->v->root_ino, stub_volume_root(x->v), &o), -ENOENT);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(kept),
		TEST(what_cannot_be),
		TEST(not_of_another_generation),
		TEST(a_damaged_slot_is_none),
		TEST(a_slot_that_lies_is_none),
		PLAIN(without_a_mirror_there_are_none),
		TEST(a_file_that_is_damaged_is_not_used),
		TEST(what_is_staged_has_a_place),
		TEST(a_directorys_record_waits_for_a_sync),
		TEST(a_stubs_place_outlives_slot_and_record),
		PLAIN(a_backup_is_not_where_things_come_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
