/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_verify_alone.c - crawler/verify/verify_alone.c: the disk, by what the source gave */
#include "fixture.h"

#include <stdlib.h>

#include "digest/digest.h"
#include "verify/verify.h"

#define MIB  (1u << 20)
#define BIG  (3 * MIB + 77)

static char *bytes;
static struct verify v;
static char told[4096], proven[4096];

static int setup(void **state)
{
	bytes = calloc(1, BIG);
	for (unsigned int i = 0; i < BIG; i++) /* with a hole */
		bytes[i] = i / MIB == 1 ? 0 : (char)(i * 2654435761u >> 13);
	return fixture_setup(state);
}

static int teardown(void **state)
{
	free(bytes);
	return fixture_teardown(state);
}

static void put_digest(struct fixture *x, const char *name, const struct stub_entry *e,
		       const char *of)
{
	struct stub_digest d = { .size = e->attr.size, .mtime = e->attr.mtime };
	struct stub_handle h = fixture_handle(x, name);
	struct digest_sha *sha;
	struct stat st;

	assert_int_equal(digest_sha_create(&sha), 0);
	assert_true(digest_of(sha, of, e->attr.size, d.digest));
	digest_sha_destroy(sha);
	assert_int_equal(fstatat(x->v->fd, name, &st, 0), 0);
	assert_int_equal(stub_digest_put(x->v, st.st_ino, &h, &d), 0);
}

static void fill(struct fixture *x, const char *name, size_t n)
{
	struct stub_handle h = fixture_handle(x, name);
	struct stub_object o;

	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	assert_int_equal(stub_fill_data(x->v, &o, 0, bytes, n), 0);
	stub_object_close(&o);
	stub_finisher_add(x->f, &h);
}

/* "small", "big" with their digests, "empty" and "link"; all is normal. */
static void migrate(struct fixture *x, struct stub_entry e[4])
{
	e[0] = fixture_entry("small", S_IFREG | 0644, 100);
	e[1] = fixture_entry("big", S_IFREG | 0644, BIG);
	e[2] = fixture_entry("empty", S_IFREG | 0644, 0);
	e[3] = fixture_entry("link", S_IFLNK | 0777, 6);
	e[3].target = "target";
	e[3].target_len = 6;
	fixture_list(x, e, 4);
	for (unsigned int i = 0; i < 2; i++) {
		fill(x, i ? "big" : "small", e[i].attr.size);
		put_digest(x, i ? "big" : "small", &e[i], bytes);
	}
	assert_int_equal(stub_finisher_drain(x->f), 0);
	usleep(20000); /* a tick of the clock of kernels before 6.13 */
}

static void on_found(void *arg, const struct verify_found *f)
{
	size_t n = strlen(told);

	(void)arg;
	snprintf(told + n, sizeof(told) - n, "%s %x %s\n", verify_class[f->class], f->what, f->path);
}

static void on_proven(void *arg, const struct verify_proven *p)
{
	size_t n = strlen(proven);

	(void)arg;
	snprintf(proven + n, sizeof(proven) - n, "%s%s%s%s\n", p->path, p->sha256 ? " sha256" : "",
		 p->target ? " -> " : "", p->target ? p->target : "");
}

static int verify(struct fixture *x)
{
	static const struct config config;
	struct verify_pace *pace;
	int r;

	told[0] = proven[0] = '\0';
	v = (struct verify){ .volume = x->v, .workers = 3, .time_min = INT64_MIN,
			     .time_max = INT64_MAX, .found = on_found, .proven = v.proven };
	assert_int_equal(verify_pace_create(x->v->fd, &config, NULL, &pace), 0);
	v.pace = pace;
	r = verify_run(&v);
	verify_pace_destroy(pace);
	return r;
}

static void nothing_is_wrong(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];

	migrate(x, e);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "");
	assert_int_equal(v.n.objects, 4);
	assert_int_equal(v.n.right, 2);
	assert_int_equal(v.n.read, 2);
	assert_int_equal(v.n.bytes, BIG + 100);
	assert_int_equal(v.n.listed, 2);
	assert_int_equal(v.n.pending + v.n.made + v.n.unproven, 0);
}

static void other_bytes_are_different(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];

	migrate(x, e);
	bytes[BIG - 1] ^= 1;
	put_digest(x, "big", &e[1], bytes);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "different 100 big\n");
	assert_int_equal(v.n.found[VERIFY_DIFFERENT], 1);
	assert_int_equal(v.n.right, 1);
	bytes[BIG - 1] ^= 1;
	bytes[MIB + 5] = 1; /* where there is a hole */
	put_digest(x, "big", &e[1], bytes);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "different 100 big\n");
}

static void clients_changes_are_no_alarm(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];
	int fd;

	migrate(x, e);
	fd = fixture_open(x, "big", O_RDWR);
	assert_int_equal(pwrite(fd, "new", 3, 5000), 3);
	close(fd);
	fd = fixture_open(x, "small", O_RDWR);
	assert_int_equal(ftruncate(fd, 7), 0);
	close(fd);
	fd = openat(x->v->fd, "made", O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "made", 4), 4);
	close(fd);
	assert_int_equal(mkdirat(x->v->fd, "dir", 0700), 0);
	assert_int_equal(verify(x), 0);
	assert_int_equal(v.n.found[VERIFY_CHANGED], 2);
	assert_int_equal(v.n.found[VERIFY_DIFFERENT] + v.n.found[VERIFY_UNCLEAR], 0);
	assert_int_equal(v.n.made, 2);
	assert_int_equal(v.n.unproven, 0);
}

static void under_a_changed_mode(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];

	migrate(x, e);
	assert_int_equal(fchmodat(x->v->fd, "big", 0600, 0), 0);
	assert_int_equal(fchmodat(x->v->fd, "small", 0600, 0), 0);
	bytes[7] ^= 1;
	put_digest(x, "small", &e[0], bytes);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "unclear 100 small\n");
	assert_int_equal(v.n.right, 1);
}

/* Whoever writes, and sets the time back, should be looked at. */
static void a_write_time_that_was_set_back(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];
	struct timespec t[2] = { { 0, UTIME_OMIT } };
	int fd;

	migrate(x, e);
	t[1] = e[1].attr.mtime;
	fd = fixture_open(x, "big", O_RDWR);
	assert_int_equal(pwrite(fd, "new", 3, 5000), 3);
	assert_int_equal(futimens(fd, t), 0);
	close(fd);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "unclear 100 big\n");
}

static void what_nothing_is_known_of(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4], other;
	struct stat st;

	migrate(x, e);
	other = e[1];
	other.attr.mtime.tv_sec++;
	put_digest(x, "big", &other, bytes); /* of another version */
	assert_int_equal(fstatat(x->v->fd, "small", &st, 0), 0);
	stub_digest_forget(x->v, st.st_ino);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "");
	assert_int_equal(v.n.unproven, 2);
	assert_int_equal(v.n.right, 0);
}

/* The note was lost in a crash, the digest was not, or the other way round. */
static void without_notes(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];

	migrate(x, e);
	fixture_close(x);
	fixture_reopen(x);
	assert_int_equal(unlinkat(x->v->dir_fd, STUB_FINISHED, 0), 0);
	bytes[7] ^= 1;
	put_digest(x, "small", &e[0], bytes);
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "unclear 100 small\n");
	assert_int_equal(v.n.right, 1);
}

static void what_is_not_here_yet(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e = fixture_entry("stub", S_IFREG | 0644, 100);

	fixture_list(x, &e, 1);
	put_digest(x, "stub", &e, bytes);
	assert_int_equal(verify(x), 0);
	assert_int_equal(v.n.pending, 1);
	assert_string_equal(told, "");
}

static void several_names_are_read_once(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];
	char name[16];

	migrate(x, e);
	for (unsigned int i = 0; i < 300; i++) { /* links move the change time, not the write time */
		snprintf(name, sizeof(name), "l%u", i);
		assert_int_equal(linkat(x->v->fd, "small", x->v->fd, name, 0), 0);
	}
	assert_int_equal(verify(x), 0);
	assert_string_equal(told, "");
	assert_int_equal(v.n.right, 302);
	assert_true(v.n.read <= 1 + 3); /* workers that came at the same time */
	assert_int_equal(v.n.read + v.n.earlier, 302);
}

static void what_is_proven(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];

	migrate(x, e);
	v.proven = on_proven;
	assert_int_equal(fchmodat(x->v->fd, "small", 0600, 0), 0); /* it is not as it came */
	assert_int_equal(verify(x), 0);
	v.proven = NULL;
	assert_non_null(strstr(proven, ".\n"));
	assert_non_null(strstr(proven, "big sha256\n"));
	assert_non_null(strstr(proven, "empty sha256\n"));
	assert_non_null(strstr(proven, "link -> target\n"));
	assert_null(strstr(proven, "small"));
}

static void digests_that_are_none(void **state)
{
	struct fixture *x = *state;
	struct stub_entry e[4];
	int fd;

	migrate(x, e);
	fixture_close(x);
	fixture_reopen(x);
	fd = openat(x->v->dir_fd, STUB_DIGESTS, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, "what is this?", 13), 13);
	close(fd);
	assert_int_equal(verify(x), -EBADMSG);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(nothing_is_wrong),
		ON_VOLUME(other_bytes_are_different),
		ON_VOLUME(clients_changes_are_no_alarm),
		ON_VOLUME(under_a_changed_mode),
		ON_VOLUME(a_write_time_that_was_set_back),
		ON_VOLUME(what_nothing_is_known_of),
		ON_VOLUME(without_notes),
		ON_VOLUME(what_is_not_here_yet),
		ON_VOLUME(several_names_are_read_once),
		ON_VOLUME(what_is_proven),
		ON_VOLUME(digests_that_are_none),
	};

	return cmocka_run_group_tests_name("verify_alone", tests, NULL, NULL);
}
