/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_whole.c - files that are made whole: list.c, stage.c, syncer.c (docs/decisions/0066, 0099) */
#include "fixture.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

static struct fixture *volume;
static atomic_int syncs;       /* that have ended well */
static atomic_bool fail;       /* the next one */
static atomic_bool era_moves;  /* while it runs: another thread's sync has failed */
static atomic_bool held;       /* none ends */
static atomic_int first_link;  /* syncs before the first name */
static const uint8_t *const *digests; /* of the next batch */
static const struct stub_entry *const *full; /* likewise */

/* The program's own come before the C library's. */
int syncfs(int fd)
{
	while (atomic_load(&held))
		poll(NULL, 0, 1);
	if (atomic_exchange(&fail, false)) {
		errno = EIO;
		return -1;
	}
	if (atomic_exchange(&era_moves, false))
		stub_volume_new_era(volume->v);
	if (syscall(SYS_syncfs, fd) < 0)
		return -1;
	atomic_fetch_add(&syncs, 1);
	return 0;
}

static void named(void)
{
	int none = -1;

	atomic_compare_exchange_strong(&first_link, &none, atomic_load(&syncs));
}

int linkat(int from, const char *old, int to, const char *name, int flags)
{
	named();
	return (int)syscall(SYS_linkat, from, old, to, name, flags);
}

/* What has a name in staging/ gets the other one by this. */
int renameat(int from, const char *old, int to, const char *name)
{
	named();
	return (int)syscall(SYS_renameat, from, old, to, name);
}

static int setup(void **state)
{
	int r = fixture_setup(state);

	volume = *state;
	atomic_store(&syncs, 0);
	atomic_store(&first_link, -1);
	digests = NULL;
	full = NULL;
	return r;
}

static bool at_once(void *arg)
{
	return *(bool *)arg;
}

/* Make @e[0..n) in the root, with these bytes; the root stays unlisted. */
static struct stub_whole batch(struct fixture *x, const struct stub_entry *e, const void **data,
			       size_t n, bool hurry)
{
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	struct stub_whole w = { .data = data, .digest = digests, .full = full, .finisher = x->f,
				.hurry = at_once, .arg = &hurry };
	size_t bad;

	assert_int_equal(stub_syncer_create(x->v, &w.syncer), 0);
	assert_int_equal(stub_list_whole(x->v, x->j, &o, e, n, &w, &refused, &bad), 0);
	assert_int_equal(refused.len, 0);
	atomic_store(&held, false);
	stub_syncer_destroy(w.syncer);
	stub_object_close(&o);
	return w;
}

static void finish(struct fixture *x)
{
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };

	assert_int_equal(stub_list_finish(x->v, x->j, &o, &refused, false), 0);
	stub_object_close(&o);
	stub_finisher_add(x->f, stub_volume_root(x->v));
	assert_int_equal(stub_finisher_drain(x->f), 0);
}

static void has(struct fixture *x, const char *name, const void *data, size_t len)
{
	int fd = fixture_open(x, name, O_RDONLY);
	char *got = malloc(len + 1);

	assert_int_equal(pread(fd, got, len + 1, 0), len);
	assert_memory_equal(got, data, len);
	free(got);
	close(fd);
}

static bool has_record(struct fixture *x, const char *name)
{
	int fd = fixture_open(x, name, O_RDONLY);
	ssize_t r = fgetxattr(fd, STUB_XATTR, NULL, 0);

	close(fd);
	return r > 0;
}

static void normal_at_once(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("a", S_IFREG | 04755, 5),
				  fixture_entry("stub", S_IFREG | 0644, 1000),
				  fixture_entry("b", S_IFREG | 0600, 3) };
	const void *data[] = { "bytes", NULL, "xyz" };
	struct stub_whole w = batch(x, e, data, 3, false);
	struct stub_handle h = fixture_handle(x, "a");
	struct stub_finished note;
	struct stat st, root;

	assert_int_equal(w.files, 2);
	assert_int_equal(w.bytes, 8);
	assert_true(atomic_load(&first_link) > 0); /* no name before a sync */
	assert_int_equal(fstatat(x->v->fd, "a", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 04755);
	assert_int_equal(st.st_uid, 1001);
	assert_int_equal(st.st_gid, 1002);
	assert_int_equal(stub_time_cmp(st.st_mtim, e[0].attr.mtime), 0);
	assert_int_equal(stub_time_cmp(st.st_atim, e[0].attr.atime), 0);
	assert_int_equal(stub_finished_get(x->v, st.st_ino, &h, &note), 0);
	assert_int_equal(stub_time_cmp(note.ctime, st.st_ctim), 0);
	assert_int_equal(note.fileid, e[0].attr.fileid);
	assert_false(note.changed || note.unsure);
	has(x, "a", "bytes", 5);
	has(x, "b", "xyz", 3);
	assert_false(has_record(x, "a") || has_record(x, "b"));
	assert_int_equal(fixture_view(x, "stub").needs, STUB_NEEDS_DATA);
	finish(x);
	assert_int_equal(fixture_scan(x).journal, 1);
	assert_int_equal(fixture_scan(x).stubs, 1);
	assert_int_equal(fixture_scan(x).leftovers, 0);
	assert_int_equal(fstat(x->v->fd, &root), 0);
	assert_int_equal(root.st_mtim.tv_sec, 1000000000);
}

static int digest_of(struct fixture *x, const char *name, struct stub_digest *out)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stat st;

	assert_int_equal(fstatat(x->v->fd, name, &st, 0), 0);
	return stub_digest_get(x->v, st.st_ino, &h, out);
}

static void digests_are_kept(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("a", S_IFREG | 0644, 5),
				  fixture_entry("stub", S_IFREG | 0644, 1000),
				  fixture_entry("b", S_IFREG | 0600, 3),
				  fixture_entry("none", S_IFREG | 0600, 3) };
	const void *data[] = { "bytes", NULL, "xyz", "XYZ" };
	const uint8_t a[STUB_DIGEST] = "digest of a", b[STUB_DIGEST] = "digest of b";
	const uint8_t *of[] = { a, a, b, NULL };
	struct stub_digest d;

	digests = of;
	assert_int_equal(batch(x, e, data, 4, false).files, 3);
	assert_int_equal(digest_of(x, "a", &d), 0);
	assert_memory_equal(d.digest, a, STUB_DIGEST);
	assert_int_equal(d.size, 5);
	assert_int_equal(stub_time_cmp(d.mtime, e[0].attr.mtime), 0);
	assert_int_equal(digest_of(x, "b", &d), 0);
	assert_memory_equal(d.digest, b, STUB_DIGEST);
	assert_int_equal(digest_of(x, "stub", &d), -ENOENT);
	assert_int_equal(digest_of(x, "none", &d), -ENOENT);
}

/* They are of bytes that are here; what a failed sync makes stubs of is fetched again. */
static void not_of_what_may_be_lost(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	const void *data[] = { "bytes" };
	const uint8_t a[STUB_DIGEST] = "digest of a", *of[] = { a };
	struct stub_digest d;

	digests = of;
	atomic_store(&fail, true);
	assert_int_equal(batch(x, &e, data, 1, false).files, 0);
	assert_int_equal(digest_of(x, "a", &d), -ENOENT);
}

static void zeros_stay_holes(void **state)
{
	static char middle[5 * 4096 + 7], tail[4096 + 100];
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("middle", S_IFREG | 0644, sizeof(middle)),
				  fixture_entry("tail", S_IFREG | 0644, sizeof(tail)),
				  fixture_entry("none", S_IFREG | 0644, sizeof(middle)) };
	static const char zeros[sizeof(middle)];
	const void *data[] = { middle, tail, zeros };
	struct stat st;

	memset(middle, 'm', 4096);
	memset(middle + 4 * 4096, 'e', 4096 + 7);
	memset(tail, 't', 4096);
	assert_int_equal(batch(x, e, data, 3, false).files, 3);
	has(x, "middle", middle, sizeof(middle));
	has(x, "tail", tail, sizeof(tail));
	has(x, "none", zeros, sizeof(zeros));
	assert_int_equal(fstatat(x->v->fd, "none", &st, 0), 0);
	assert_int_equal(st.st_blocks, 0);
}

static void a_failed_sync_makes_stubs(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	const void *data[] = { "bytes" };
	uint64_t era = stub_volume_era(x->v);

	atomic_store(&fail, true);
	assert_int_equal(batch(x, &e, data, 1, false).files, 0);
	assert_true(stub_volume_era(x->v) != era);
	assert_int_equal(fixture_view(x, "a").needs, STUB_NEEDS_DATA);
	finish(x);
	assert_int_equal(fixture_scan(x).journal, 1);
}

/* The kernel tells each descriptor once: ours succeeds, and proves nothing. */
static void somebody_elses_sync_has_failed(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	const void *data[] = { "bytes" };

	atomic_store(&era_moves, true);
	assert_int_equal(batch(x, &e, data, 1, false).files, 0);
	assert_int_equal(fixture_view(x, "a").needs, STUB_NEEDS_DATA);
	finish(x);
	assert_int_equal(fixture_scan(x).journal, 1);
}

/* A client waits: no sync is waited for, and until one has ended the bytes do not count. */
static void in_a_hurry_it_is_a_stub(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	struct stub_handle h;
	struct stub_digest d;
	const void *data[] = { "bytes" };
	const uint8_t a[STUB_DIGEST] = "digest of a", *of[] = { a };

	digests = of;
	atomic_store(&held, true);
	assert_int_equal(batch(x, &e, data, 1, true).files, 0);
	assert_int_equal(digest_of(x, "a", &d), 0);
	assert_memory_equal(d.digest, a, STUB_DIGEST);
	assert_int_equal(atomic_load(&first_link), 0);
	h = fixture_handle(x, "a");
	assert_int_equal(stub_data_ready(x->v, &h, 0, 5), 1);
	has(x, "a", "bytes", 5);
	finish(x); /* it was handed to the finisher */
	assert_false(has_record(x, "a"));
	assert_int_equal(fixture_scan(x).journal, 0);
}

static void in_a_hurry_and_then_dead(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	struct stub_object o = fixture_root(x);
	struct stub_staging at = { .fd = -1 };
	struct stub_staged s;

	/* as list.c does it, but nobody finishes it */
	assert_int_equal(stub_stage_whole(x->v, &o, &at, &e, "bytes", &s), 0);
	assert_int_equal(stub_staged_hurry(x->v, &o, &e, &s), 0);
	assert_int_equal(stub_journal_add(x->j, &s.entry, 1), 0);
	assert_int_equal(stub_staged_link(x->v, &s, o.fd, "a"), 0);
	stub_staged_drop(x->v, &s);
	stub_staging_close(&at);
	stub_object_close(&o);
	assert_int_equal(fixture_view(x, "a").needs, STUB_NEEDS_FINISH);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(fixture_view(x, "a").needs, STUB_NEEDS_DATA);
	assert_int_equal(fixture_scan(x).covered, 2);
}

static void a_name_that_is_there_stays(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	const void *data[] = { "bytes" };
	int fd = openat(x->v->fd, "a", O_CREAT | O_WRONLY, 0600);

	assert_int_equal(write(fd, "mine", 4), 4);
	close(fd);
	assert_int_equal(batch(x, &e, data, 1, false).files, 0);
	has(x, "a", "mine", 4);
	finish(x);
	assert_int_equal(fixture_scan(x).journal, 0);
}

/* Clients may have removed names since. */
static void nothing_is_made_in_a_listed_directory(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 5);
	struct stub_object o = fixture_root(x);
	struct stub_refused refused = { 0 };
	const void *data[] = { "bytes" };
	struct stub_whole w = { .data = data, .finisher = x->f };
	struct stat st;
	size_t bad;

	finish(x);
	assert_int_equal(stub_syncer_create(x->v, &w.syncer), 0);
	assert_int_equal(stub_list_whole(x->v, x->j, &o, &e, 1, &w, &refused, &bad), -ENOENT);
	assert_int_equal(fstatat(x->v->fd, "a", &st, 0), -1);
	stub_syncer_destroy(w.syncer);
	stub_object_close(&o);
}

static void what_cannot_be_whole_is_a_stub(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[] = { fixture_entry("linked", S_IFREG | 0644, 5),
				  fixture_entry("dummy", S_IFREG | 0644, 5),
				  fixture_entry("empty", S_IFREG | 0644, 0),
				  fixture_entry("dir", S_IFDIR | 0755, 4096) };
	const void *data[] = { "bytes", "bytes", "", "x" };

	e[0].attr.nlink = 2;
	e[1].dummy = true;
	assert_int_equal(batch(x, e, data, 4, false).files, 0);
	assert_true(fixture_view(x, "linked").needs & STUB_NEEDS_DATA);
	assert_true(fixture_view(x, "dummy").needs & STUB_NEEDS_ATTRS);
	assert_int_equal(fixture_view(x, "empty").needs, 0);
	assert_int_equal(fixture_view(x, "dir").needs, STUB_NEEDS_ENTRIES);
}

/* A dummy of which all is known by now. */
struct known {
	struct stub_entry dummy, all;
	struct stub_xattr x[2];
	struct timespec times[2];
	const struct stub_entry *of[1];
	const void *data[1];
};

static void know(struct known *k, const char *ours)
{
	k->dummy = fixture_entry("a", S_IFREG | 0600, 5);
	k->dummy.dummy = true;
	k->all = fixture_entry("a", S_IFREG | 0640, 5);
	k->all.attr.uid = 77;
	k->x[0] = (struct stub_xattr){ "security.NTACL", "descriptor", 10 };
	k->x[1] = (struct stub_xattr){ ours ? ours : "user.other", "o", 1 };
	k->times[0] = (struct timespec){ -5, 1 };
	k->times[1] = (struct timespec){ 1100000000, 2 };
	k->all.xattrs = k->x;
	k->all.n_xattrs = 2;
	k->all.times = k->times;
	k->of[0] = &k->all;
	k->data[0] = "bytes";
	full = k->of;
}

static void has_all(struct fixture *x, const struct known *k)
{
	int fd = fixture_open(x, "a", O_RDONLY);
	char value[16];
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(st.st_uid, 77);
	assert_int_equal(stub_time_cmp(st.st_atim, k->times[0]), 0);
	assert_int_equal(stub_time_cmp(st.st_mtim, k->times[1]), 0);
	assert_int_equal(fgetxattr(fd, "security.NTACL", value, sizeof(value)), 10);
	assert_memory_equal(value, "descriptor", 10);
	assert_int_equal(fgetxattr(fd, "user.other", value, sizeof(value)), 1);
	close(fd);
}

static void a_dummy_of_which_all_is_known(void **state)
{
	struct fixture *x = *state;
	struct known k;

	know(&k, NULL);
	assert_int_equal(batch(x, &k.dummy, k.data, 1, false).files, 1);
	assert_true(atomic_load(&first_link) > 0);
	has_all(x, &k);
	has(x, "a", "bytes", 5);
	assert_false(has_record(x, "a"));
	finish(x);
	assert_int_equal(fixture_scan(x).journal, 0);
}

static void it_is_a_dummy_again_after_a_failed_sync(void **state)
{
	struct fixture *x = *state;
	struct known k;

	know(&k, NULL);
	atomic_store(&fail, true);
	assert_int_equal(batch(x, &k.dummy, k.data, 1, false).files, 0);
	assert_true(fixture_view(x, "a").needs & STUB_NEEDS_ATTRS);
	finish(x);
	assert_int_equal(fixture_scan(x).journal, 1);
}

static void in_a_hurry_its_attributes_stay(void **state)
{
	struct fixture *x = *state;
	struct known k;

	know(&k, NULL);
	atomic_store(&held, true);
	assert_int_equal(batch(x, &k.dummy, k.data, 1, true).files, 0);
	assert_false(fixture_view(x, "a").needs & STUB_NEEDS_ATTRS);
	has_all(x, &k);
	finish(x);
	assert_false(has_record(x, "a"));
}

static void what_cannot_be_stored_is_a_dummy(void **state)
{
	struct fixture *x = *state;
	struct known k;

	know(&k, STUB_XATTR); /* ours alone */
	assert_int_equal(batch(x, &k.dummy, k.data, 1, false).files, 0);
	assert_true(fixture_view(x, "a").needs & STUB_NEEDS_ATTRS);
}

/* Two at once share a sync; a ticket is good for one that begins after it only. */
static void a_ticket_is_for_the_next_sync(void **state)
{
	struct fixture *x = *state;
	struct stub_syncer *s;
	uint64_t first, second, third;

	assert_int_equal(stub_syncer_create(x->v, &s), 0);
	atomic_store(&held, true);
	first = stub_syncer_ask(s);
	while (stub_syncer_ask(s) == first)
		poll(NULL, 0, 1); /* until it has begun */
	second = stub_syncer_ask(s);
	third = stub_syncer_ask(s);
	assert_int_equal(second, first + 1);
	assert_int_equal(third, second);
	atomic_store(&held, false);
	assert_int_equal(stub_syncer_wait(s, third, NULL, NULL), 0);
	assert_true(stub_syncer_well(s));
	atomic_store(&fail, true);
	assert_int_equal(stub_syncer_wait(s, stub_syncer_ask(s), NULL, NULL), -EIO);
	assert_false(stub_syncer_well(s));
	stub_syncer_destroy(s);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(normal_at_once),
		ON_VOLUME(digests_are_kept),
		ON_VOLUME(not_of_what_may_be_lost),
		ON_VOLUME(zeros_stay_holes),
		ON_VOLUME(a_failed_sync_makes_stubs),
		ON_VOLUME(somebody_elses_sync_has_failed),
		ON_VOLUME(in_a_hurry_it_is_a_stub),
		ON_VOLUME(in_a_hurry_and_then_dead),
		ON_VOLUME(a_name_that_is_there_stays),
		ON_VOLUME(nothing_is_made_in_a_listed_directory),
		ON_VOLUME(what_cannot_be_whole_is_a_stub),
		ON_VOLUME(a_dummy_of_which_all_is_known),
		ON_VOLUME(it_is_a_dummy_again_after_a_failed_sync),
		ON_VOLUME(in_a_hurry_its_attributes_stay),
		ON_VOLUME(what_cannot_be_stored_is_a_dummy),
		ON_VOLUME(a_ticket_is_for_the_next_sync),
	};

	return cmocka_run_group_tests_name("whole", tests, NULL, NULL);
}
