/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_finished.c - what is known of an object when it became normal. */
#include "fixture.h"

static int note_of(struct fixture *x, const char *name, struct stub_finished *out, struct stat *st)
{
	struct stub_handle h = fixture_handle(x, name);
	int fd = fixture_open(x, name, O_PATH | O_NOFOLLOW);

	assert_int_equal(fstat(fd, st), 0);
	close(fd);
	return stub_finished_get(x->v, st->st_ino, &h, out);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void fill(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_object o;

	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, 0, "data", 4) >= 0);
	stub_object_close(&o);
	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
}

static void the_change_time_stands_still(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("full", S_IFREG | 0644, 4),
				  fixture_entry("empty", S_IFREG | 0644, 0) };
	struct stub_finished f;
	struct stat st;
	int fd;

	fixture_list(x, e, 2);
	assert_int_equal(note_of(x, "full", &f, &st), -ENOENT); /* a stub */
	assert_int_equal(note_of(x, "empty", &f, &st), 0);
	assert_true(same_time(f.ctime, st.st_ctim));
	assert_int_equal(f.fileid, e[1].attr.fileid);
	fill(x, "full");
	assert_int_equal(note_of(x, "full", &f, &st), 0);
	assert_true(same_time(f.ctime, st.st_ctim));
	assert_int_equal(f.fileid, e[0].attr.fileid);
	assert_false(f.changed || f.unsure || f.split);
	assert_int_equal(f.right_in, 0);
	usleep(20000); /* a tick of the clock of kernels before 6.13 */
	fd = fixture_open(x, "full", O_RDWR);
	assert_int_equal(fchmod(fd, 0600), 0);
	close(fd);
	assert_int_equal(note_of(x, "full", &f, &st), 0);
	assert_false(same_time(f.ctime, st.st_ctim));
}

static void what_clients_changed_before(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, 4);
	struct stub_handle h;
	const struct stub_handle *hs[] = { &h };
	struct stub_change c;
	struct stub_finished f;
	struct stat st;
	int fd;

	fixture_list(x, &e, 1);
	h = fixture_handle(x, "file");
	fd = fixture_open(x, "file", O_RDWR);
	assert_int_equal(stub_change_begin(x->v, hs, 1, &c), 0);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(stub_change_end(&c, 0), 0);
	close(fd);
	fill(x, "file");
	assert_int_equal(note_of(x, "file", &f, &st), 0);
	assert_true(f.changed);
}

/* An inode number that is used again is another object. */
static void not_of_another_inode(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("empty", S_IFREG | 0644, 0);
	struct stub_finished f;
	struct stub_handle h;
	struct stat st;

	fixture_list(x, &e, 1);
	h = fixture_handle(x, "empty");
	assert_int_equal(note_of(x, "empty", &f, &st), 0);
	h.bytes[h.len - 1] ^= 1;
	assert_int_equal(stub_finished_get(x->v, st.st_ino, &h, &f), -ENOENT);
	assert_int_equal(stub_finished_get(x->v, 0, &h, &f), -ENOENT);
	assert_int_equal(stub_finished_get(x->v, UINT64_MAX, &h, &f), -ENOENT);
}

static void found_right(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("empty", S_IFREG | 0644, 0);
	struct stub_finished f;
	struct stat st;

	fixture_list(x, &e, 1);
	assert_int_equal(note_of(x, "empty", &f, &st), 0);
	assert_int_equal(stub_finished_right(x->v, st.st_ino, 7), 0);
	fixture_close(x);
	fixture_reopen(x);
	assert_int_equal(note_of(x, "empty", &f, &st), 0);
	assert_int_equal(f.right_in, 7);
	assert_int_equal(f.fileid, e.attr.fileid);
}

/* A volume of an earlier release, or a damaged file: everything goes on, and nothing is known. */
static void without_notes(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("one", S_IFREG | 0644, 4),
				  fixture_entry("two", S_IFREG | 0644, 0) };
	struct stub_finished f;
	struct stat st;
	int fd;

	assert_int_equal(unlinkat(x->v->dir_fd, STUB_FINISHED, 0), 0);
	fixture_list(x, e, 1);
	fill(x, "one");
	assert_int_equal(note_of(x, "one", &f, &st), -ENOENT);
	fd = openat(x->v->dir_fd, STUB_FINISHED, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "what is this?", 13), 13);
	close(fd);
	assert_int_equal(note_of(x, "one", &f, &st), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_change_time_stands_still, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(what_clients_changed_before, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(not_of_another_inode, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(found_right, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(without_notes, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
