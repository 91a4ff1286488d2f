/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_abort.c - libstubcore/abort.c: a migration given up, and killed at every step of that */
#include "fixture.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define SIZE   65536
#define SUFFIX ".postcopy-incomplete"
#define LIST   "/nowhere/list"

/* ---- a child that is killed before its Nth call that changes something ---- */

static int kill_at; /* 0: never */

static void step(void)
{
	if (kill_at && --kill_at == 0)
		raise(SIGKILL);
}

#define WRAP(type, name, params, args)  \
	type __real_##name params;      \
	type __wrap_##name params;      \
	type __wrap_##name params       \
	{                               \
		step();                 \
		return __real_##name args; \
	}

WRAP(int, symlinkat, (const char *t, int d, const char *n), (t, d, n))
WRAP(int, fchownat, (int d, const char *n, uid_t u, gid_t g, int f), (d, n, u, g, f))
WRAP(int, chmod, (const char *p, mode_t m), (p, m))
WRAP(int, renameat2, (int d, const char *n, int e, const char *m, unsigned int f), (d, n, e, m, f))
WRAP(int, syncfs, (int fd), (fd))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fremovexattr, (int fd, const char *n), (fd, n))
WRAP(int, removexattr, (const char *p, const char *n), (p, n))
WRAP(int, unlinkat, (int d, const char *n, int f), (d, n, f))

/* ---- the volume ---- */

/* whole: all there; half: a client's byte in front, half fetched; none: nothing; link: none's
 * second name; dir: unlisted; a name that is as long as can be, one whose new name is taken */
static char longest[256];

static void one_file(struct fixture *x, const char *name, uint64_t offset, size_t len)
{
	static char bytes[SIZE];
	struct stub_handle h = fixture_handle(x, name);
	struct stub_commit c;
	struct stub_object o;

	memset(bytes, 'o', sizeof(bytes));
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_true(stub_fill_data(x->v, &o, offset, bytes, len) >= 0);
	assert_int_equal(stub_commit_prepare(x->v, &h, &c), 0);
	assert_int_equal(stub_commit_finish(&c, fsync(o.fd)), 0);
	stub_object_close(&o);
}

static void make(struct fixture *x)
{
	struct stub_entry e[8];
	char path[128], other[128];
	int fd;

	memset(longest, 'l', 255);
	e[0] = fixture_entry("whole", S_IFREG | 0644, SIZE);
	e[1] = fixture_entry("half", S_IFREG | 0644, SIZE);
	e[2] = fixture_entry("none", S_IFREG | 04755, SIZE);
	e[3] = fixture_entry("dir", S_IFDIR | 0755, 0);
	e[4] = fixture_entry(longest, S_IFREG | 0644, 5);
	e[5] = fixture_entry("taken", S_IFREG | 0644, 5);
	e[6] = fixture_entry("damaged", S_IFREG | 0644, 5);
	e[7] = fixture_entry("empty", S_IFREG | 0644, 0);
	fixture_list(x, e, 8);
	one_file(x, "whole", 0, SIZE);
	one_file(x, "half", 0, SIZE / 2);
	snprintf(path, sizeof(path), "%s/none", x->dir);
	snprintf(other, sizeof(other), "%s/link", x->dir);
	assert_int_equal(link(path, other), 0);
	snprintf(path, sizeof(path), "%s/taken" SUFFIX, x->dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "mine", 4), 4);
	close(fd);
	fd = fixture_open(x, "damaged", O_RDONLY);
	assert_int_equal(fsetxattr(fd, STUB_XATTR, "rubbish", 7, 0), 0);
	close(fd);
}

static struct stub_volume *open_alone(struct fixture *x)
{
	struct stub_volume *v;

	assert_int_equal(stub_volume_open(x->dir, STUB_OPEN_ABORT, NULL, NULL, &v), 0);
	return v;
}

/* What has no rights is aside, what has is whole, and there is no record. */
static void assert_end(struct fixture *x)
{
	static const char *const open_ones[] = { "whole", "empty", "taken" SUFFIX };
	unsigned int aside = 0, others = 0;
	int fd = open(x->dir, O_RDONLY | O_DIRECTORY);
	DIR *dir = fdopendir(fd);
	struct dirent *d;
	struct stat st;

	assert_int_equal(stub_marked(fd), 0);
	while ((d = readdir(dir))) {
		int one = openat(fd, d->d_name, O_PATH | O_NOFOLLOW);
		size_t n = strlen(d->d_name), s = strlen(SUFFIX);

		assert_string_not_equal(d->d_name, STUB_DIR);
		assert_int_equal(stub_marked(one), 0);
		assert_int_equal(fstat(one, &st), 0);
		if (S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0) {
			aside++;
			assert_true(n > s && !strcmp(d->d_name + n - s, SUFFIX));
			assert_int_equal(st.st_uid, 0);
		} else if (S_ISREG(st.st_mode)) {
			bool known = false;

			others++;
			for (size_t i = 0; i < ARRAY_LEN(open_ones); i++)
				known |= !strcmp(d->d_name, open_ones[i]);
			assert_true(known);
		}
		close(one);
	}
	closedir(dir);
	assert_int_equal(aside, 6);
	assert_int_equal(others, 3);
}

/* ---- the tests ---- */

static int seen_dirs, seen_files, seen_unknown;
static uint64_t seen_bytes;

static int see(void *arg, const struct stub_lack *l)
{
	(void)arg;
	seen_dirs += S_ISDIR(l->st.st_mode);
	seen_files += !S_ISDIR(l->st.st_mode);
	seen_unknown += l->unknown;
	if (l->missing)
		seen_bytes += stub_map_bytes(l->missing);
	if (!strcmp(l->path, "half")) {
		assert_int_equal(l->missing->n, 1);
		assert_int_equal(l->missing->r[0].start, SIZE / 2);
		assert_int_equal(l->missing->r[0].end, SIZE);
	}
	return 0;
}

static void test_list(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *v;

	make(x);
	fixture_close(x);
	v = open_alone(x);
	assert_int_equal(stub_volume_alone(v), 0);
	seen_dirs = seen_files = seen_unknown = 0;
	seen_bytes = 0;
	assert_int_equal(stub_abort_list(v, see, NULL), 0);
	assert_int_equal(seen_dirs, 1);
	assert_int_equal(seen_files, 6);
	assert_int_equal(seen_unknown, 1);
	assert_int_equal(seen_bytes, SIZE / 2 + 2 * SIZE + 5 + 5);
	stub_volume_close(v);
	fixture_reopen(x);
}

static void test_alone(void **state)
{
	struct fixture *x = *state;
	struct stub_volume *v = open_alone(x), *other;

	make(x);
	assert_int_equal(stub_abort(v, LIST), -EBUSY);
	assert_int_equal(fixture_view(x, "half").needs, STUB_NEEDS_DATA);
	fixture_close(x);
	assert_int_equal(stub_volume_alone(v), 0);
	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &other), -EBUSY);
	stub_volume_close(v);
	fixture_reopen(x);
}

/* Killed before each of its calls in turn: a volume that only abort opens, or the end. */
static void test_killed(void **state)
{
	struct fixture *x = *state;
	bool killed = true;
	int tries = 0;

	make(x);
	fixture_close(x);
	for (int n = 1; killed; n++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			struct stub_volume *v;

			if (stub_abort_rest(x->dir) == 0)
				_exit(0);
			kill_at = n;
			if (stub_volume_open(x->dir, STUB_OPEN_ABORT, NULL, NULL, &v) < 0)
				_exit(1);
			_exit(stub_abort(v, LIST) == 0 ? 0 : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		killed = WIFSIGNALED(status);
		if (!killed)
			assert_int_equal(WEXITSTATUS(status), 0);
		tries++;
	}
	assert_true(tries > 10);
	assert_end(x);
	assert_int_equal(stub_abort_rest(x->dir), -ENOENT);
}

/* Each step killed in a volume of its own, then repeated to the end. */
static void test_killed_once(void **state)
{
	bool killed = true;
	int n;

	fixture_teardown(state);
	for (n = 1; killed; n++) {
		struct stub_volume *v;
		struct fixture *x;
		char list[64];
		int status;
		pid_t pid;

		assert_int_equal(fixture_setup(state), 0);
		x = *state;
		make(x);
		fixture_close(x);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			v = open_alone(x);
			kill_at = n;
			_exit(stub_abort(v, LIST) == 0 ? 0 : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		killed = WIFSIGNALED(status);
		if (stub_abort_rest(x->dir) == -EBUSY) {
			assert_true(killed);
			v = open_alone(x);
			if (stub_abort_begun(v, list, sizeof(list)) == 1) {
				struct stub_volume *other;

				assert_string_equal(list, LIST);
				stub_volume_close(v);
				assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &other),
						 -ECANCELED);
				v = open_alone(x);
			}
			assert_int_equal(stub_abort(v, LIST), 0);
			stub_volume_close(v);
		}
		assert_end(x);
		fixture_teardown(state);
	}
	assert_true(n > 25);
	assert_int_equal(fixture_setup(state), 0);
}

/* A file whose only name is ours may have what clients wrote. */
static void test_nameless(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("f", S_IFREG | 0644, SIZE);
	struct stub_volume *v;
	char path[128];
	DIR *dir;
	struct dirent *d;
	struct stat before, after;
	unsigned int aside = 0;

	e.attr.nlink = 2;
	fixture_list(x, &e, 1);
	one_file(x, "f", 0, SIZE);
	snprintf(path, sizeof(path), "%s/f", x->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(stat(x->dir, &before), 0);
	fixture_close(x);
	v = open_alone(x);
	assert_int_equal(stub_abort(v, LIST), 0);
	stub_volume_close(v);
	assert_int_equal(stat(x->dir, &after), 0);
	assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	snprintf(path, sizeof(path), "%s/nameless" SUFFIX, x->dir);
	dir = opendir(path);
	assert_non_null(dir);
	while ((d = readdir(dir)))
		if (strstr(d->d_name, SUFFIX)) {
			struct stat st;

			aside++;
			assert_int_equal(fstatat(dirfd(dir), d->d_name, &st, 0), 0);
			assert_int_equal(st.st_mode & 07777, 0);
			assert_int_equal(st.st_size, SIZE);
		}
	closedir(dir);
	assert_int_equal(aside, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_list, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_alone, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_killed, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_killed_once, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_nameless, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
