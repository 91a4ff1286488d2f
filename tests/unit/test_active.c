/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libstubcore/active.c: a volume with a lease opens on the node that holds it, and nowhere else. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "stubtools.h"

static struct stub_active lease;
static char said[1024];

static void hear(void *arg, enum stub_log_level level, const char *msg)
{
	snprintf(said, sizeof(said), "%s", msg);
}

static int try_open(struct fixture *x, unsigned int flags)
{
	struct stub_volume *v;
	int r;

	said[0] = '\0';
	r = stub_volume_open(x->dir, flags, hear, NULL, &v);
	if (r == 0)
		stub_volume_close(v);
	return r;
}

/* What volume.conf says. */
static void named(struct fixture *x, char out[STUB_LEASE_MAX + 1])
{
	struct stub_conf_problem why;
	struct stub_volume_info info;

	assert_int_equal(stub_conf_check(x->dir, &info, &why), 0);
	strcpy(out, info.lease);
}

static void path_of(char out[128])
{
	snprintf(out, 128, STUB_ACTIVE_DIR "/%s", lease.lease);
}

static void write_held(const char *text)
{
	char path[128];
	FILE *f;

	path_of(path);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static int setup(void **state)
{
	struct fixture *x;
	struct stat st;
	int r = fixture_setup(state);

	if (r != 0)
		return r;
	x = *state;
	fixture_close(x);
	lease = (struct stub_active){ .node = "nas1", .since = 1234567890 };
	snprintf(lease.lease, sizeof(lease.lease), "%08x-0000-4000-8000-%012x", (unsigned int)time(NULL),
		 (unsigned int)getpid());
	assert_int_equal(stat(x->dir, &st), 0);
	lease.dev = st.st_dev;
	return 0;
}

static int teardown(void **state)
{
	char path[128];

	path_of(path);
	unlink(path);
	return fixture_teardown(state);
}

/* ---- stub_active_hold(), stub_active_get(), stub_active_of() ---- */

static void test_who_holds_it(void **state)
{
	struct stub_active a;
	int fd;

	assert_int_equal(stub_active_get(lease.lease, &a), -ENOENT);
	fd = stub_active_hold(&lease);
	assert_true(fd >= 0);
	assert_int_equal(stub_active_get(lease.lease, &a), 0);
	assert_string_equal(a.lease, lease.lease);
	assert_string_equal(a.node, "nas1");
	assert_true(a.dev == lease.dev && a.since == lease.since);
	assert_int_equal(stub_active_of(lease.dev, &a), 0);
	assert_string_equal(a.lease, lease.lease);
	assert_int_equal(stub_active_of(lease.dev + 77, &a), -ENOENT);
	assert_int_equal(stub_active_hold(&lease), -EBUSY);
	close(fd);
	assert_int_equal(stub_active_get(lease.lease, &a), -ENOENT); /* the file is still there */
	assert_int_equal(stub_active_of(lease.dev, &a), -ENOENT);
}

static void test_names(void **state)
{
	static const char *const bad[] = { "", "x", "../../../etc/passwd", "01234567-0000-4000-8000-00000000000",
					   "01234567/0000/4000/8000/000000000000",
					   "01234567-0000-4000-8000-0000000000000" };
	struct stub_active a = lease;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(stub_active_get(bad[i], &a), -ENOENT);
		snprintf(a.lease, sizeof(a.lease), "%s", bad[i]);
		if (strlen(bad[i]) <= STUB_LEASE_MAX)
			assert_int_equal(stub_active_hold(&a), -EINVAL);
	}
	a = lease;
	a.node[0] = '\0';
	assert_int_equal(stub_active_hold(&a), -EINVAL);
	strcpy(a.node, "a\nb");
	assert_int_equal(stub_active_hold(&a), -EINVAL);
}

static void test_nonsense_is_held_by_nobody(void **state)
{
	static const char *const texts[] = {
		"", "node=\ndevice=1:2\nsince=3\n", "node=a\n", "node=a\ndevice=1\nsince=3\n",
		"node=a\ndevice=1:2\nsince=3", "node=a\ndevice=1:2\nsince=3\nmore=4\n",
	};
	struct stub_active a;
	int fd = stub_active_hold(&lease);

	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_held(texts[i]);
		assert_int_equal(stub_active_get(lease.lease, &a), -EBADMSG);
		assert_int_equal(stub_active_of(lease.dev, &a), -ENOENT);
	}
	close(fd);
}

/* ---- a volume ---- */

static void test_without_a_lease(void **state)
{
	struct fixture *x = *state;
	char name[STUB_LEASE_MAX + 1];

	named(x, name);
	assert_string_equal(name, "");
	assert_int_equal(try_open(x, 0), 0);
	assert_int_equal(fixture_settle(x, NULL), 0);
	named(x, name);
	assert_string_equal(name, "");
}

/* It learns it when its retriever starts; then it opens under it, and not else. */
static void test_it_opens_under_its_lease(void **state)
{
	struct fixture *x = *state;
	char name[STUB_LEASE_MAX + 1];
	int fd = stub_active_hold(&lease);

	assert_true(fd >= 0);
	assert_int_equal(try_open(x, 0), 0);
	assert_int_equal(fixture_settle(x, NULL), 0);
	named(x, name);
	assert_string_equal(name, lease.lease);
	assert_int_equal(try_open(x, 0), 0);
	close(fd);
	assert_int_equal(try_open(x, 0), -ENOLCK);
	assert_non_null(strstr(said, "this node does not hold the volume's lease"));
	assert_int_equal(try_open(x, STUB_OPEN_SEARCH | STUB_OPEN_KEEP), -ENOLCK);
	assert_int_equal(fixture_settle(x, NULL), -ENOLCK);
	named(x, name);
	assert_string_equal(name, lease.lease);

	lease.dev += 77; /* the copy of its disk */
	fd = stub_active_hold(&lease);
	assert_true(fd >= 0);
	assert_int_equal(try_open(x, 0), -EXDEV);
	assert_non_null(strstr(said, "another device"));
	close(fd);
}

static void test_it_moves_to_one_machine(void **state)
{
	struct fixture *x = *state;
	char name[STUB_LEASE_MAX + 1];
	int fd = stub_active_hold(&lease);

	assert_true(fd >= 0);
	assert_int_equal(fixture_settle(x, NULL), 0);
	close(fd);
	assert_int_equal(fixture_settle(x, stub_volume_unlease), 0);
	named(x, name);
	assert_string_equal(name, "");
	assert_int_equal(try_open(x, 0), 0);
}

/* Other tests have volumes on the same file system, which would be under the lease, too. */
static int own_run(void **state)
{
	mkdir("/run/postcopy", 0700);
	return unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		       mount("run", "/run/postcopy", "tmpfs", 0, "mode=700") < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_holds_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense_is_held_by_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_a_lease, setup, teardown),
		cmocka_unit_test_setup_teardown(test_it_opens_under_its_lease, setup, teardown),
		cmocka_unit_test_setup_teardown(test_it_moves_to_one_machine, setup, teardown),
	};

	return cmocka_run_group_tests(tests, own_run, NULL);
}
