/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_digests.c - libstubcore/digests.c: what is kept of the old server's bytes */
#include "fixture.h"

static const struct stub_digest one = { .size = 5, .mtime = { -7, 999999999 }, .digest = "one" };

static struct stub_handle file(struct fixture *x, uint64_t *ino)
{
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 5);
	struct stat st;

	fixture_list(x, &e, 1);
	assert_int_equal(fstatat(x->v->fd, "f", &st, 0), 0);
	*ino = st.st_ino;
	return fixture_handle(x, "f");
}

static void assert_is(const struct stub_digest *a, const struct stub_digest *b)
{
	assert_int_equal(a->size, b->size);
	assert_int_equal(stub_time_cmp(a->mtime, b->mtime), 0);
	assert_memory_equal(a->digest, b->digest, STUB_DIGEST);
}

static void kept(void **state)
{
	struct fixture *x = *state;
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), -ENOENT); /* there is no file of them */
	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), 0);
	assert_is(&d, &one);
	assert_int_equal(stub_digest_get(x->v, ino + 1, &h, &d), -ENOENT);
	fixture_close(x);
	fixture_reopen(x);
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), 0);
	assert_is(&d, &one);
}

/* An inode number that is used again is another object. */
static void not_of_another_inode(void **state)
{
	struct fixture *x = *state;
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	h.bytes[h.len - 1] ^= 1;
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), -ENOENT);
}

static void places_that_cannot_be(void **state)
{
	struct fixture *x = *state;
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_int_equal(stub_digest_put(x->v, 0, &h, &one), -ERANGE);
	assert_int_equal(stub_digest_put(x->v, UINT64_MAX, &h, &one), -ERANGE);
	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	assert_int_equal(stub_digest_get(x->v, 0, &h, &d), -ENOENT);
	assert_int_equal(stub_digest_get(x->v, UINT64_MAX, &h, &d), -ENOENT);
}

/* Each of its bytes: a digest that is not what was put there would be a false alarm. */
static void damaged_it_is_none(void **state)
{
	struct fixture *x = *state;
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);

	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	for (unsigned int at = 0; at < 64; at++) {
		uint64_t place = stub_slot(x->v->only_named, ino) * 64 + at;
		char byte;

		assert_int_equal(pread(x->v->digests_fd, &byte, 1, (off_t)place), 1);
		byte ^= 4;
		assert_int_equal(pwrite(x->v->digests_fd, &byte, 1, (off_t)place), 1);
		assert_int_equal(stub_digest_get(x->v, ino, &h, &d), -ENOENT);
		byte ^= 4;
		assert_int_equal(pwrite(x->v->digests_fd, &byte, 1, (off_t)place), 1);
	}
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), 0);
}

/* As a power cut may leave it: the file as it was made, or places without what comes before. */
static void without_its_first_bytes(void **state)
{
	struct fixture *x = *state;
	int fd = openat(x->v->dir_fd, STUB_DIGESTS, O_RDWR | O_CREAT, 0600);
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);
	static const char zeros[64];

	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), -ENOENT);
	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	fixture_close(x);
	assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 0), sizeof(zeros));
	fixture_reopen(x);
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), 0);
	assert_is(&d, &one);
	fixture_close(x);
	fixture_reopen(x);
	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	assert_int_equal(pread(fd, &ino, sizeof(ino), 0), sizeof(ino));
	assert_true(ino != 0);
	close(fd);
}

static void something_else_is_left_alone(void **state)
{
	struct fixture *x = *state;
	int fd = openat(x->v->dir_fd, STUB_DIGESTS, O_RDWR | O_CREAT, 0600);
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);
	char text[14] = "";

	assert_int_equal(write(fd, "what is this?", 13), 13);
	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), -EBADMSG);
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), -EBADMSG);
	assert_int_equal(pread(fd, text, 14, 0), 13);
	assert_string_equal(text, "what is this?");
	close(fd);
}

static int note(void *arg, const struct stub_map *missing)
{
	return arg || !missing ? -EINVAL : 0;
}

/* Another version may have the same size and write time. */
static void a_version_that_was_given_up(void **state)
{
	struct fixture *x = *state;
	struct stub_digest d;
	uint64_t ino;
	struct stub_handle h = file(x, &ino);
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, 5);
	struct stub_object o;

	assert_int_equal(stub_digest_put(x->v, ino, &h, &one), 0);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_resolve_theirs(x->v, &o, &e.attr, note, NULL), 0);
	stub_object_close(&o);
	assert_int_equal(stub_digest_get(x->v, ino, &h, &d), -ENOENT);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(kept),
		ON_VOLUME(not_of_another_inode),
		ON_VOLUME(places_that_cannot_be),
		ON_VOLUME(damaged_it_is_none),
		ON_VOLUME(without_its_first_bytes),
		ON_VOLUME(something_else_is_left_alone),
		ON_VOLUME(a_version_that_was_given_up),
	};

	return cmocka_run_group_tests_name("digests", tests, NULL, NULL);
}
