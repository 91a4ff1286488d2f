/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_era.c - libstubcore/era.c, finish.c, change.c: what a failed sync leaves */
#include "fixture.h"

#include <poll.h>
#include <sys/syscall.h>

#define SIZE 100000u

static atomic_int syncs;
static atomic_int fail_at; /* number of the sync that fails */
static atomic_int synced_fd; /* of the last one */

/* The program's own comes before the C library's. */
int syncfs(int fd)
{
	atomic_store(&synced_fd, fd);
	if (atomic_fetch_add(&syncs, 1) + 1 == atomic_load(&fail_at)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_syncfs, fd);
}

static void fill(struct fixture *x, const char *name, uint64_t offset, size_t len)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_object o;
	char *data = malloc(len);

	memset(data, 'o', len);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, offset, data, len) >= 0);
	stub_object_close(&o);
	free(data);
}

static int ready(struct stub_volume *v, struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);

	return stub_data_ready(v, &h, 0, 10);
}

static void hand_in(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);

	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
}

static int setup(void **state)
{
	struct stub_entry e[2];

	if (fixture_setup(state) < 0)
		return -1;
	e[0] = fixture_entry("f", S_IFREG | 0644, SIZE);
	e[1] = fixture_entry("g", S_IFREG | 0644, SIZE);
	fixture_list(*state, e, 2);
	return 0;
}

/* ---- the finisher ---- */

static void test_failed_sync_of_the_volume_forgets_all_fills(void **state)
{
	struct fixture *x = *state;

	fill(x, "f", 0, SIZE);
	fill(x, "g", 0, SIZE / 2); /* not handed in: nobody's candidate */
	atomic_store(&fail_at, atomic_load(&syncs) + 1);
	hand_in(x, "f");
	assert_true(atomic_load(&syncs) >= atomic_load(&fail_at));
	assert_int_equal(fixture_view(x, "f").needs, STUB_NEEDS_DATA);
	assert_int_equal(ready(x->v, x, "f"), 0);
	assert_int_equal(ready(x->v, x, "g"), 0);
	assert_int_equal(fixture_scan(x).journal, 2);
	fill(x, "f", 0, SIZE);
	hand_in(x, "f");
	assert_int_equal(fixture_view(x, "f").needs, 0);
	assert_int_equal(fixture_scan(x).journal, 1);
}

/* A failure that another thread's sync is told of must be told to the finisher too: the
 * kernel does that for each opening. */
static void test_the_finisher_syncs_by_an_opening_of_its_own(void **state)
{
	struct fixture *x = *state;
	int fd;

	fill(x, "f", 0, SIZE);
	hand_in(x, "f");
	fd = atomic_load(&synced_fd);
	assert_int_not_equal(fd, x->v->fd);
	/* two descriptors of one opening share its flags */
	assert_int_equal(fcntl(x->v->fd, F_SETFL, O_NONBLOCK), 0);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Records were dropped after a good sync; the next one, which is to let their entries
 * go, fails. */
static void test_failed_sync_keeps_the_entries(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_journal_entry e;

	fill(x, "f", 0, SIZE);
	atomic_store(&fail_at, atomic_load(&syncs) + 2);
	stub_finisher_add(x->f, &h);
	while (atomic_load(&syncs) < atomic_load(&fail_at))
		poll(NULL, 0, 1);
	assert_int_equal(fixture_view(x, "f").needs, 0);
	assert_int_equal(stub_journal_get(x->j, &h, &e), 0); /* for REST_MIN_MS at least */
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "f").needs, 0);
	assert_int_equal(fixture_scan(x).journal, 1);
}

/* ---- who is told ---- */

static void test_others_see_the_new_era(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *other;
	int fd;

	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &other), 0);
	fill(x, "f", 0, SIZE);
	assert_int_equal(ready(other, x, "f"), 1);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(ready(other, x, "f"), 0);
	assert_true(stub_volume_era(other) == stub_volume_era(x->v));

	/* where the file system takes no writes the page in memory is enough */
	fd = openat(x->v->dir_fd, STUB_STATE, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(dup3(fd, x->v->state_fd, O_CLOEXEC) >= 0);
	close(fd);
	fill(x, "g", 0, SIZE);
	assert_int_equal(ready(other, x, "g"), 1);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(ready(other, x, "g"), 0);
	stub_volume_close(other);
}

static void test_first_to_open_begins_an_era(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *other;
	struct stub_handle h = fixture_handle(x, "g");
	struct stub_commit c;

	fill(x, "f", 0, SIZE);
	fill(x, "g", 0, SIZE);
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(syncfs(x->v->fd), 0);
	assert_int_equal(stub_commit_finish(&c, 0), 0);
	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &other), 0);
	fixture_reopen(x); /* somebody has it open all the time */
	assert_int_equal(ready(x->v, x, "f"), 1);
	stub_volume_close(other);
	fixture_reopen(x);
	assert_int_equal(ready(x->v, x, "f"), 0);
	assert_int_equal(ready(x->v, x, "g"), 1);
}

/* Bytes of .postcopy/lock, which all versions that run at once must agree on. */
#define OPEN_BYTE  INT64_MAX
#define ENTER_BYTE (INT64_MAX - 1)

static void take_byte(int fd, off_t byte)
{
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &f), 0);
}

/* Does anybody wait for a lock on the file? */
static bool waited_for(int fd)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], inode[32];
	struct stat st;
	bool found = false;

	assert_non_null(locks);
	assert_int_equal(fstat(fd, &st), 0);
	snprintf(inode, sizeof(inode), ":%llu ", (unsigned long long)st.st_ino);
	while (fgets(line, sizeof(line), locks))
		found |= strstr(line, "->") && strstr(line, inode);
	fclose(locks);
	return found;
}

static void *reopen(void *arg)
{
	fixture_reopen(arg);
	return NULL;
}

/* The first to open is killed before it could begin an era, while the next one waits. */
static void test_first_to_open_dies(void **state)
{
	struct fixture *x = *state;
	char path[128];
	pthread_t thread;
	int fd;

	fill(x, "f", 0, SIZE);
	fixture_close(x);
	snprintf(path, sizeof(path), "%s/.postcopy/lock", x->dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	take_byte(fd, ENTER_BYTE);
	take_byte(fd, OPEN_BYTE);
	assert_int_equal(pthread_create(&thread, NULL, reopen, x), 0);
	while (!waited_for(fd))
		poll(NULL, 0, 1);
	close(fd);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(ready(x->v, x, "f"), 0);
}

/* ---- clients ---- */

static void test_commit_over_the_end_of_an_era(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_commit c;

	fill(x, "f", 0, SIZE);
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(stub_commit_finish(&c, 0), -EAGAIN);
	assert_int_equal(ready(x->v, x, "f"), 0);
}

static void test_failed_commit_begins_an_era(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	struct stub_commit c;

	fill(x, "f", 0, SIZE);
	fill(x, "g", 0, SIZE);
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(stub_commit_finish(&c, -EIO), 0);
	assert_int_equal(ready(x->v, x, "f"), 0);
	assert_int_equal(ready(x->v, x, "g"), 0);
}

static void test_unstable_writes_hear_of_it(void **state)
{
	struct fixture *x = *state;
	struct stub_handle f = fixture_handle(x, "f"), g = fixture_handle(x, "g");
	uint64_t era = stub_volume_era(x->v), taken;

	assert_false(stub_unstable_any(x->v));
	assert_int_equal(stub_unstable_take(x->v, &f, 1, &taken), 0);
	stub_unstable_note(x->v, &f, 1, era);
	stub_unstable_note(x->v, &f, 2, era);
	stub_unstable_note(x->v, &g, 1, era);
	assert_true(stub_unstable_any(x->v));
	assert_int_equal(stub_unstable_take(x->v, &g, 1, &taken), 0);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	/* a write in the new era does not hide that an older one is lost */
	stub_unstable_note(x->v, &f, 1, stub_volume_era(x->v));
	assert_int_equal(stub_unstable_take(x->v, &f, 1, &taken), -EIO);
	assert_true(taken == era);
	assert_int_equal(stub_unstable_take(x->v, &f, 1, &taken), 0); /* heard */
	assert_int_equal(stub_unstable_take(x->v, &f, 2, &taken), -EIO);
	assert_int_equal(stub_unstable_take(x->v, &g, 1, &taken), 0);
	assert_false(stub_unstable_any(x->v));
	/* the write was under way when the era ended */
	stub_unstable_note(x->v, &g, 1, stub_volume_era(x->v));
	stub_unstable_note(x->v, &g, 1, era);
	assert_int_equal(stub_unstable_take(x->v, &g, 1, &taken), -EIO);
}

/* More than are remembered: then everybody hears of it, nobody is told too little. */
static void test_unstable_writes_without_end(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = fixture_handle(x, "f");
	uint64_t era = stub_volume_era(x->v), taken;

	for (uint64_t who = 0; who < 70000; who++)
		stub_unstable_note(x->v, &h, who, era);
	assert_int_equal(stub_unstable_take(x->v, &h, 69999, &taken), 0);
	assert_int_equal(stub_volume_new_era(x->v), 0);
	assert_int_equal(stub_unstable_take(x->v, &h, 5, &taken), -EIO);
	assert_int_equal(stub_unstable_take(x->v, &h, 69998, &taken), -EIO);
}

#define ON_FILES(t) cmocka_unit_test_setup_teardown(t, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_FILES(test_failed_sync_of_the_volume_forgets_all_fills),
		ON_FILES(test_the_finisher_syncs_by_an_opening_of_its_own),
		ON_FILES(test_failed_sync_keeps_the_entries),
		ON_FILES(test_others_see_the_new_era),
		ON_FILES(test_first_to_open_begins_an_era),
		ON_FILES(test_first_to_open_dies),
		ON_FILES(test_commit_over_the_end_of_an_era),
		ON_FILES(test_failed_commit_begins_an_era),
		ON_FILES(test_unstable_writes_hear_of_it),
		ON_FILES(test_unstable_writes_without_end),
	};

	return cmocka_run_group_tests_name("era", tests, NULL, NULL);
}
