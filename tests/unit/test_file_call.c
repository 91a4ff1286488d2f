// SPDX-License-Identifier: GPL-3.0-or-later
/* test_file_call.c - retriever/file/: URIs; and threads that do not come back from the kernel */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "file/file.h"

/* ---- file_uri_parse ---- */

static void paths_are_taken(void **state)
{
	static const struct {
		const char *uri, *path;
	} good[] = {
		{ "file:///mnt/old", "/mnt/old" },	 { "file:///mnt/old///", "/mnt/old" },
		{ "file:////mnt//old", "/mnt/old" },	 { "file:///", "/" },
		{ "file:///a%20b%3F%23%25", "/a b?#%" }, { "file:///a/...", "/a/..." },
	};
	struct file_uri u;
	char why[128];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(file_uri_parse(good[i].uri, &u, why, sizeof(why)), 0);
		assert_string_equal(u.path, good[i].path);
	}
}

static void other_uris_are_refused(void **state)
{
	static const char *const bad[] = { "file:/mnt",	     "file://host/mnt", "file://",
					   "file:///a/../b", "file:///a/.",	"file:///a%2F..",
					   "file:///a%0",    "file:///a%00",	"file:///a?b",
					   "file:///a#b",    "nfs://h/e" };
	struct file_uri u;
	char why[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = '\0';
		assert_int_equal(file_uri_parse(bad[i], &u, why, sizeof(why)), -EINVAL);
		assert_true(why[0]);
	}
}

/* ---- threads that do not come back ---- */

#define TIMEOUT_MS 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned int inside, told;
static int told_what;
static bool away = true;

/* As a disk that hangs: nothing ends it from outside. */
static int hang(struct file_call *c, const struct file_mount *m, void *buf)
{
	pthread_mutex_lock(&lock);
	inside++;
	pthread_cond_broadcast(&changed);
	while (away)
		pthread_cond_wait(&changed, &lock);
	inside--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	c->got = 1; /* it is still there to be written to */
	return 0;
}

static void on_told(struct file_call *c, int err)
{
	pthread_mutex_lock(&lock);
	told++;
	told_what = err;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(const unsigned int *what, unsigned int n)
{
	pthread_mutex_lock(&lock);
	while (*what != n)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static struct source *make(char dir[64], unsigned int give_up_ms)
{
	struct source_config c = { .connections = 1,
				   .call_timeout_ms = TIMEOUT_MS,
				   .give_up_ms = give_up_ms };
	struct stub_origin root;
	struct stub_attr attr;
	struct source *s;
	char uri[80];

	strcpy(dir, "/var/tmp/test-file-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(uri, sizeof(uri), "file://%s", dir);
	c.uri = uri;
	inside = told = 0;
	told_what = 0;
	away = true;
	assert_int_equal(source_create(&c, &s), 0);
	assert_int_equal(source_root(s, &root, &attr), 0);
	return s;
}

static void block_all(struct source *s)
{
	struct stub_origin none = { .len = 0 };

	for (unsigned int i = 0; i < file_of(s)->n; i++) {
		struct file_call *c = file_call_new(file_of(s), CALLED_OTHER, "HANG", SOURCE_DEMAND,
						    &none);

		c->work = hang;
		c->done = on_told;
		assert_int_equal(file_submit(c), 0);
		file_call_put(c);
	}
	wait_for(&inside, file_of(s)->n);
}

static void let_go(void)
{
	pthread_mutex_lock(&lock);
	away = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_connected(struct source *s, bool connected)
{
	struct source_state st;

	do {
		usleep(1000);
		source_state(s, &st);
	} while (st.connected != connected);
	assert_int_equal(!connected, st.trouble[0] != '\0');
}

static void a_source_from_which_nobody_comes_back_is_lost_and_found(void **state)
{
	char dir[64];
	struct source *s = make(dir, 0);
	unsigned int n = file_of(s)->n;

	wait_connected(s, true);
	block_all(s);
	wait_connected(s, false);
	assert_int_equal(told, 0); /* for ever, without give_up_after */
	let_go();
	wait_connected(s, true);
	wait_for(&told, n);
	assert_int_equal(told_what, 0);
	source_stop(s);
	source_destroy(s);
	rmdir(dir);
}

static void who_waits_is_sent_away_when_it_is_given_up(void **state)
{
	char dir[64];
	struct source *s = make(dir, 3 * TIMEOUT_MS);
	unsigned int n = file_of(s)->n;

	block_all(s);
	wait_for(&told, n);
	assert_int_equal(told_what, -ETIMEDOUT);
	assert_int_equal(inside, n); /* and the threads are where they were */
	let_go();
	wait_connected(s, true);
	source_stop(s);
	source_destroy(s);
	rmdir(dir);
}

static void stopping_waits_for_no_disk(void **state)
{
	char dir[64];
	struct source *s = make(dir, 0);
	unsigned int n = file_of(s)->n;

	block_all(s);
	source_stop(s);
	wait_for(&told, n);
	assert_int_equal(told_what, -ECANCELED);
	source_destroy(s);
	let_go(); /* they come back to what is theirs */
	wait_for(&inside, 0);
	rmdir(dir);
}

/* ---- what is said of objects ---- */

struct seen {
	unsigned int n, dummies;
	struct stub_origin file;
	char target[8];
};

static int see(void *arg, const struct stub_entry *e, size_t n)
{
	struct seen *s = arg;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(e[i].error, 0);
		s->n++;
		s->dummies += e[i].dummy;
		if (e[i].name_len == 4 && !memcmp(e[i].name, "file", 4)) {
			s->file.len = (uint16_t)e[i].origin_len;
			memcpy(s->file.bytes, e[i].origin, e[i].origin_len);
		}
		if (S_ISLNK(e[i].attr.mode))
			memcpy(s->target, e[i].target, e[i].target_len);
	}
	return 0;
}

static void on_bytes(void *arg, const struct source_read *r)
{
	pthread_mutex_lock(&lock);
	told_what = (int)r->result;
	if (r->result > 0)
		memcpy(arg, r->data, (size_t)r->result);
	told++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static int read_it(struct source *s, const struct stub_origin *o, char out[16])
{
	unsigned int n = told + 1;

	assert_int_equal(source_read(s, SOURCE_DEMAND, o, 0, 16, on_bytes, out), 0);
	wait_for(&told, n);
	return told_what;
}

static void make_file(const char *name, const char *data)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0640);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, strlen(data)), strlen(data));
	close(fd);
}

static void objects_are_known_by_what_they_are(void **state)
{
	char dir[64], bytes[16] = "";
	struct source *s = make(dir, 0);
	struct stub_origin root, found;
	struct seen seen = { .n = 0 };
	struct source_meta m;
	struct stub_attr a;

	assert_int_equal(chdir(dir), 0);
	make_file("file", "hello");
	assert_int_equal(setxattr("file", "user.x", "v", 1, 0), 0);
	assert_int_equal(mkdir("dir", 0750) | symlink("target", "link") | link("file", "twin"), 0);
	assert_int_equal(source_root(s, &root, &a), 0);
	assert_int_equal(source_list(s, SOURCE_DEMAND, &root, NULL, see, &seen), 0);
	assert_int_equal(seen.n, 4);
	assert_int_equal(seen.dummies, 2); /* a file with two names */
	assert_string_equal(seen.target, "target");
	assert_int_equal(source_lookup(s, SOURCE_DEMAND, &root, NULL, "twin", 4, &found, &a), 0);
	assert_true(a.more && a.nlink == 2 && source_has_meta(s, &a));
	assert_memory_equal(found.bytes, seen.file.bytes, found.len);
	assert_int_equal(source_meta(s, SOURCE_DEMAND, &found, &m), 0);
	assert_int_equal(m.n, 1);
	assert_string_equal(m.xattrs[0].name, "user.x");
	source_meta_free(&m);
	assert_int_equal(rename("twin", "dir/other"), 0);
	assert_int_equal(read_it(s, &found, bytes), 5);
	assert_string_equal(bytes, "hello");
	assert_int_equal(unlink("dir/other") | unlink("file"), 0);
	assert_int_equal(read_it(s, &found, bytes), -ESTALE);
	assert_int_equal(source_lookup(s, SOURCE_DEMAND, &root, NULL, "file", 4, &found, &a), -ENOENT);
	found.bytes[0] = 2;
	assert_int_equal(source_getattr(s, SOURCE_DEMAND, &found, &a), -ESTALE);
	assert_int_equal(source_verify(s), 0);
	assert_int_equal(rmdir("dir") | unlink("link") | chdir("/"), 0);
	source_stop(s);
	source_destroy(s);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_taken),
		cmocka_unit_test(other_uris_are_refused),
		cmocka_unit_test(objects_are_known_by_what_they_are),
		cmocka_unit_test(a_source_from_which_nobody_comes_back_is_lost_and_found),
		cmocka_unit_test(who_waits_is_sent_away_when_it_is_given_up),
		cmocka_unit_test(stopping_waits_for_no_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
