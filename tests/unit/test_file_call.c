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
		struct file_call *c = file_call_new(file_of(s), "HANG", SOURCE_DEMAND, &none);

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_taken),
		cmocka_unit_test(other_uris_are_refused),
		cmocka_unit_test(a_source_from_which_nobody_comes_back_is_lost_and_found),
		cmocka_unit_test(who_waits_is_sent_away_when_it_is_given_up),
		cmocka_unit_test(stopping_waits_for_no_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
