/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_fold.c - libstubcore/fold.c, lagging.c: what nobody commits becomes durable */
#include "fixture.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define SIZE 9000u
#define MANY 3000u /* lagging in one round */

static struct stub_volume *open_with(const struct fixture *x, unsigned int flags)
{
	struct stub_volume *v;

	assert_int_equal(stub_volume_open(x->dir, flags, NULL, NULL, &v), 0);
	return v;
}

/* What a client writes, without a COMMIT. */
static int change(struct stub_volume *v, const char *name)
{
	const struct stub_handle *hp;
	struct stub_handle h;
	struct stub_change c;
	int r, fd = openat(stub_volume_fd(v), name, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	r = stub_handle_of_fd(fd, &h);
	hp = &h;
	if (r == 0)
		r = stub_change_begin(v, &hp, 1, &c);
	if (r == 0) {
		r = stub_io_pwrite(fd, "new", 3, 0);
		if (r == 0)
			r = stub_change_written(&c, 0, 0, 3);
		r = stub_change_end(&c, r);
	}
	close(fd);
	return r;
}

static bool lags(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_record rec;
	struct stat st;

	assert_int_equal(stub_record_load_at(x->v, &h, &st, &rec), 0);
	return stub_map_overlaps(&rec.durable, 0, 3);
}

static bool old_bytes_come(struct fixture *x, const char *name)
{
	struct stub_handle h = fixture_handle(x, name);

	return stub_data_ready(x->v, &h, 0, 3) == 0;
}

/* In another process, which is killed then: nothing of it ends in order. */
static void change_and_die(struct fixture *x, unsigned int flags)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct stub_volume *v;

		if (stub_volume_open(x->dir, flags, NULL, NULL, &v) == 0 && change(v, "f") == 0)
			raise(SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static unsigned int lists(struct fixture *x)
{
	char path[128];
	struct dirent *d;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/.postcopy/lagging", x->dir);
	dir = opendir(path);
	assert_non_null(dir);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
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

static void test_closing_makes_durable(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *v = open_with(x, STUB_OPEN_FOLD);

	assert_int_equal(change(v, "f"), 0);
	assert_true(lags(x, "f"));
	assert_int_equal(lists(x), 1);
	stub_volume_close(v);
	assert_false(lags(x, "f"));
	assert_int_equal(lists(x), 0);
	fixture_reopen(x);
	assert_false(old_bytes_come(x, "f"));
	assert_true(old_bytes_come(x, "g"));
}

static void test_none_is_forgotten_however_many(void **state)
{
	struct fixture *x = *state;
	struct stub_entry *e = calloc(MANY, sizeof(*e));
	char (*name)[16] = calloc(MANY, sizeof(*name));
	struct stub_volume *v;
	unsigned int old = 0;

	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name[i], sizeof(name[i]), "n%u", i);
		e[i] = fixture_entry(name[i], S_IFREG | 0644, SIZE);
	}
	fixture_list(x, e, MANY);
	v = open_with(x, STUB_OPEN_FOLD);
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(change(v, name[i]), 0);
	stub_volume_close(v);
	fixture_reopen(x);
	for (unsigned int i = 0; i < MANY; i++)
		old += old_bytes_come(x, name[i]);
	assert_int_equal(old, 0);
	free(name);
	free(e);
}

/* ---- processes that die ---- */

static void test_the_next_to_close_folds_for_the_dead(void **state)
{
	struct fixture *x = *state;

	change_and_die(x, STUB_OPEN_FOLD);
	assert_true(lags(x, "f"));
	stub_volume_close(open_with(x, STUB_OPEN_FOLD));
	assert_false(lags(x, "f"));
	assert_int_equal(lists(x), 0);
	fixture_reopen(x);
	assert_false(old_bytes_come(x, "f"));
}

static void test_the_keeper_folds_for_the_dead(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *keeper = open_with(x, STUB_OPEN_KEEP);

	change_and_die(x, STUB_OPEN_FOLD);
	for (int i = 0; lags(x, "f") && i < 60000; i++)
		poll(NULL, 0, 1);
	assert_false(lags(x, "f"));
	while (lists(x) > 0)
		poll(NULL, 0, 1);
	stub_volume_close(keeper);
}

/* Nobody was left to do it, and the file system is mounted still. */
static void test_the_next_to_open_folds_for_the_dead(void **state)
{
	struct fixture *x = *state;
	struct stat st;
	char path[64];

	assert_int_equal(fstat(x->v->fd, &st), 0);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	if (access(path, F_OK) < 0)
		skip(); /* one mount of it cannot be told from the next */
	fixture_close(x);
	change_and_die(x, STUB_OPEN_FOLD);
	fixture_reopen(x);
	assert_false(old_bytes_come(x, "f"));
	assert_int_equal(lists(x), 0);
	/* what is durable is so in the era that has begun */
	assert_false(lags(x, "f"));
}

/* The same after it was mounted anew: it may have gone without its data. */
static void test_what_another_mount_has_left(void **state)
{
	struct fixture *x = *state;
	char path[512];
	struct dirent *d;
	uint8_t mount = 0xff;
	DIR *dir;
	int fd;

	fixture_close(x);
	change_and_die(x, STUB_OPEN_FOLD);
	snprintf(path, sizeof(path), "%s/.postcopy/lagging", x->dir);
	dir = opendir(path);
	assert_non_null(dir);
	do
		assert_non_null(d = readdir(dir));
	while (d->d_name[0] == '.');
	fd = openat(dirfd(dir), d->d_name, O_RDWR);
	assert_int_equal(pwrite(fd, &mount, 1, 23), 1);
	close(fd);
	closedir(dir);
	fixture_reopen(x);
	assert_true(old_bytes_come(x, "f"));
	assert_int_equal(lists(x), 0);
}

static void test_the_living_keep_theirs(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *v = open_with(x, STUB_OPEN_FOLD);

	assert_int_equal(change(v, "f"), 0);
	stub_volume_close(open_with(x, STUB_OPEN_FOLD));
	assert_int_equal(lists(x), 1);
	stub_volume_close(v);
	assert_false(lags(x, "f"));
}

/* Whatever stands in one is no more than a hint. */
static void test_a_list_of_rubbish(void **state)
{
	struct fixture *x = *state;
	uint8_t junk[3 * 136 + 24 + 7];
	char path[128];
	int fd;

	change_and_die(x, STUB_OPEN_FOLD);
	snprintf(path, sizeof(path), "%s/.postcopy/lagging/junk", x->dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 37);
	junk[24 + 4] = 0;
	junk[24 + 136 + 4] = 255;
	assert_int_equal(write(fd, junk, sizeof(junk)), sizeof(junk));
	close(fd);
	stub_volume_close(open_with(x, STUB_OPEN_FOLD));
	assert_int_equal(lists(x), 0);
	assert_false(lags(x, "f"));
}

/* ---- lists that cannot be written ---- */

static void test_without_a_list_it_is_durable_at_once(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *v = open_with(x, STUB_OPEN_FOLD);

	assert_int_equal(unlinkat(x->v->dir_fd, STUB_LAGGING, AT_REMOVEDIR), 0);
	close(openat(x->v->dir_fd, STUB_LAGGING, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(change(v, "f"), 0);
	assert_false(lags(x, "f"));
	stub_volume_close(v);
	unlinkat(x->v->dir_fd, STUB_LAGGING, 0);
	/* a volume of before has no place for them yet */
	v = open_with(x, STUB_OPEN_FOLD);
	assert_int_equal(change(v, "g"), 0);
	assert_int_equal(lists(x), 1);
	stub_volume_close(v);
	assert_false(lags(x, "g"));
}

#define ON_FILES(t) cmocka_unit_test_setup_teardown(t, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_FILES(test_closing_makes_durable),
		cmocka_unit_test_setup_teardown(test_none_is_forgotten_however_many, fixture_setup,
						fixture_teardown),
		ON_FILES(test_the_next_to_close_folds_for_the_dead),
		ON_FILES(test_the_keeper_folds_for_the_dead),
		ON_FILES(test_the_next_to_open_folds_for_the_dead),
		ON_FILES(test_what_another_mount_has_left),
		ON_FILES(test_the_living_keep_theirs),
		ON_FILES(test_a_list_of_rubbish),
		ON_FILES(test_without_a_list_it_is_durable_at_once),
	};

	return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
