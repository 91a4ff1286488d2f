/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libstubcore/home.c: a volume opens where it was made, and nowhere else. */
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fixture.h"

static char text[8192];

/* volume.conf with the line of @key as @value says; NULL: without it. */
static void conf_set(struct fixture *x, const char *key, const char *value)
{
	char path[128], out[8192] = "", was[8192], *save = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "%s/.postcopy/volume.conf", x->dir);
	strcpy(was, text);
	for (char *l = strtok_r(was, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (strncmp(l, key, strlen(key)))
			snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s\n", l);
		else if (value)
			snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s\n", key, value);
	}
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(out, f) >= 0 && fclose(f) == 0);
}

static void conf_get(struct fixture *x, char *out)
{
	char path[128];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/.postcopy/volume.conf", x->dir);
	f = fopen(path, "r");
	assert_non_null(f);
	n = fread(out, 1, 8191, f);
	out[n] = '\0';
	fclose(f);
}

static int try_open(struct fixture *x, unsigned int flags)
{
	struct stub_volume *v;
	int r = stub_volume_open(x->dir, flags, NULL, NULL, &v);

	if (r == 0)
		stub_volume_close(v);
	return r;
}

static int setup(void **state)
{
	int r = fixture_setup(state);

	if (r == 0) {
		conf_get(*state, text);
		assert_non_null(strstr(text, "\nhome="));
		fixture_close(*state);
	}
	return r;
}

/* Everything after the file system's name. */
static const char *root_part(void)
{
	return strchr(strstr(text, "\nhome="), ' ');
}

static void root_line(char out[512])
{
	snprintf(out, 512, "%.*s", (int)strcspn(root_part(), "\n"), root_part());
}

static void test_another_root(void **state)
{
	struct fixture *x = *state;
	char line[600], rest[512];

	root_line(rest);
	rest[strlen(rest) - 1] ^= 1; /* another generation */
	snprintf(line, sizeof(line), "%.*s%s", (int)(root_part() - strstr(text, "\nhome=") - 6),
		 strstr(text, "\nhome=") + 6, rest);
	conf_set(x, "home=", line);
	assert_int_equal(try_open(x, 0), -EXDEV);
	assert_int_equal(try_open(x, STUB_OPEN_SEARCH), -EXDEV);
	assert_int_equal(fixture_settle(x, NULL), -EXDEV);
	conf_set(x, "home=", "nonsense");
	assert_int_equal(try_open(x, 0), -EXDEV);
	assert_int_equal(fixture_settle(x, NULL), -EXDEV);
}

static void test_another_uuid(void **state)
{
	struct fixture *x = *state;
	char line[600], rest[512], now[8192];

	root_line(rest);
	snprintf(line, sizeof(line), "ext4:0123456789abcdef%s", rest);
	conf_set(x, "home=", line);
	assert_int_equal(try_open(x, 0), -EXDEV);
	assert_int_equal(fixture_settle(x, NULL), 0);
	conf_get(x, now);
	assert_string_equal(now, text);
	assert_int_equal(try_open(x, 0), 0);
}

/* The last entry of the journal is of a file that has all come. */
static void test_another_uuid_in_the_end(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 10);
	char line[600], rest[512], path[PATH_MAX];

	fixture_reopen(x);
	fixture_list(x, &e, 1);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	fixture_close(x);
	snprintf(path, sizeof(path), "%s/a", x->dir);
	assert_int_equal(removexattr(path, "trusted.postcopy"), 0);
	root_line(rest);
	snprintf(line, sizeof(line), "ext4:0123456789abcdef%s", rest);
	conf_set(x, "home=", line);
	assert_int_equal(fixture_settle(x, NULL), 0);
	assert_int_equal(try_open(x, 0), 0);

	conf_set(x, "home=", NULL); /* nothing is known of the root then */
	assert_int_equal(fixture_settle(x, NULL), -EXDEV);
}

static void test_without(void **state)
{
	struct fixture *x = *state;
	char now[8192];

	conf_set(x, "home=", NULL);
	assert_int_equal(try_open(x, 0), 0);
	assert_int_equal(fixture_settle(x, NULL), 0);
	conf_get(x, now);
	assert_string_equal(now, text);
}

/* What the journal names is not here: the files were copied. */
static void test_without_and_copied(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("a", S_IFREG | 0644, 10);
	char now[8192];

	fixture_reopen(x);
	fixture_list(x, &e, 1);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(unlinkat(stub_volume_fd(x->v), "a", 0), 0);
	fixture_close(x);
	conf_set(x, "home=", NULL);
	assert_int_equal(fixture_settle(x, NULL), -EXDEV);
	conf_get(x, now);
	assert_null(strstr(now, "home="));
}

/* What is removed while we serve, as a mirror's files are: no client's file gets its inode number, and is hidden. */
static void test_hides_no_others(void **state)
{
	struct fixture *x = *state;
	char name[32];
	struct stat st;

	fixture_reopen(x);
	assert_int_equal(unlinkat(x->v->dir_fd, STUB_SETTINGS, 0), 0);
	assert_int_equal(stub_remove_tree(x->v->dir_fd, STUB_LAGGING), 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "user-%d", i);
		assert_int_equal(mkdirat(x->v->fd, name, 0755), 0);
		assert_int_equal(fstatat(x->v->fd, name, &st, 0), 0);
		assert_false(stub_volume_hides(x->v, st.st_ino));
	}
	fixture_close(x);
}

static bool may_ask(struct stub_volume *v)
{
	struct stub_link *l;
	int r = stub_link_create(v, &l);

	if (r == 0)
		stub_link_destroy(l);
	return r == 0;
}

static void never(void *arg, struct stub_request *r)
{
	stub_request_answer(r, -EAGAIN);
}

/* Two volumes with one socket, as two copies of a disk have. */
static void test_who_serves(void **state)
{
	struct fixture *x = *state;
	struct stub_server *s, *s2;
	struct stub_volume *twin;

	fixture_reopen(x);
	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &twin), 0);
	assert_false(may_ask(x->v));
	assert_int_equal(stub_server_create(x->v, never, NULL, NULL, NULL, &s), 0);
	assert_true(may_ask(x->v));
	assert_true(may_ask(twin));
	assert_int_equal(stub_server_create(twin, never, NULL, NULL, NULL, &s2), -EADDRINUSE);
	/* another lock file, as on another disk */
	assert_int_equal(unlinkat(twin->dir_fd, STUB_LOCK, 0), 0);
	assert_int_equal(stub_io_write_file(twin->dir_fd, STUB_LOCK, ""), 0);
	stub_volume_close(twin);
	assert_int_equal(stub_volume_open(x->dir, 0, NULL, NULL, &twin), 0);
	assert_false(may_ask(twin));
	assert_true(may_ask(x->v));
	assert_int_equal(stub_server_create(twin, never, NULL, NULL, NULL, &s2), -EADDRINUSE);
	stub_server_destroy(s);
	assert_false(may_ask(x->v));
	stub_volume_close(twin);
}

/* Also when its migration has ended, and nowhere else. */
static void test_expected(void **state)
{
	struct fixture *x = *state;
	const char *uuid = "00000000-0000-0000-0000-000000000001";
	const char *other = "00000000-0000-0000-0000-000000000002";
	char path[128];

	fixture_reopen(x);
	snprintf(path, sizeof(path), "%s/a/b", x->dir);
	assert_int_equal(stub_volume_expect(x->v, x->dir, uuid), 0);
	assert_int_equal(stub_volume_expect(x->v, x->dir, other), -ENODEV);
	assert_int_equal(stub_volume_expect(x->v, x->dir, "any"), -EINVAL);
	assert_int_equal(stub_volume_expect(NULL, x->dir, uuid), -ENODEV);
	fixture_list(x, NULL, 0);
	stub_finisher_add(x->f, stub_volume_root(x->v));
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(stub_volume_remove(x->v), 0);
	assert_int_equal(stub_volume_expect(NULL, x->dir, uuid), 0);
	assert_int_equal(stub_volume_expect(NULL, path, uuid), 0);
	assert_int_equal(stub_volume_expect(NULL, x->dir, other), -ENODEV);
	assert_int_equal(stub_volume_expect(NULL, "/var/tmp", uuid), -ENODEV);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(test_another_root),
		ON_VOLUME(test_another_uuid),
		ON_VOLUME(test_another_uuid_in_the_end),
		ON_VOLUME(test_without),
		ON_VOLUME(test_without_and_copied),
		ON_VOLUME(test_hides_no_others),
		ON_VOLUME(test_who_serves),
		ON_VOLUME(test_expected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
