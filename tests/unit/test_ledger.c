/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_ledger.c - ledger*.c: what is owed to a mirror, entered by many and struck by one.
 *
 * The law (invariant 2 of the mirror): nothing that differs is missing from the ledger.  Here an object
 * is a number in shared memory, changed between enter and leave; the mirror is another such
 * number, which the replicator makes equal between begin and strike.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "ledger.h"

#define OBJECTS 400

static struct stub_handle handle_of(unsigned int n)
{
	struct stub_handle h = { .type = 1, .len = 12 };

	memcpy(h.bytes, &n, sizeof(n));
	memset(h.bytes + sizeof(n), 0x5a, 12 - sizeof(n));
	return h;
}

static unsigned int number_of(const struct stub_handle *h)
{
	unsigned int n;

	memcpy(&n, h->bytes, sizeof(n));
	return n;
}

static int setup(void **state)
{
	struct fixture *x;
	int r = fixture_setup(state);

	if (r)
		return r;
	x = *state;
	assert_false(stub_ledger_is(x->v));
	assert_int_equal(stub_ledger_make(x->v), 0);
	fixture_reopen(x);
	assert_true(stub_ledger_is(x->v));
	return 0;
}

static void set_path(const struct fixture *x, char out[128])
{
	snprintf(out, 128, "%s.sock" STUB_SET_SUFFIX, x->beside);
}

static int teardown(void **state)
{
	char path[128];

	set_path(*state, path);
	unlink(path);
	return fixture_teardown(state);
}

static struct stub_ledger *open_ledger(struct fixture *x)
{
	struct stub_ledger *l;
	int r;

	/* a child that was just forked has what we had open, for a moment */
	for (int i = 0; (r = stub_ledger_open(x->v, &l)) == -EBUSY && i < 5000; i++)
		usleep(1000);
	assert_int_equal(r, 0);
	return l;
}

static uint64_t count(struct stub_ledger *l)
{
	uint64_t n = 0;

	assert_int_equal(stub_ledger_count(l, &n), 0);
	return n;
}

/* Compare and strike @n: 1 if it stays. */
static int settle(struct stub_ledger *l, unsigned int n)
{
	struct stub_owed o = { .h = handle_of(n) };

	assert_int_equal(stub_ledger_begin(l, &o), 0);
	return stub_ledger_strike(l, &o);
}

static void owe(struct fixture *x, unsigned int n, uint32_t what)
{
	const struct stub_handle h = handle_of(n);

	assert_int_equal(stub_ledger_owe(x->v, &h, what), 0);
}

/* Lists of processes: how many, and their bytes. */
static unsigned int lists(struct fixture *x, off_t *bytes)
{
	char path[128];
	unsigned int n = 0;
	struct dirent *e;
	struct stat st;
	DIR *d;

	*bytes = 0;
	snprintf(path, sizeof(path), "%s/.postcopy/ledger", x->dir);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		if (stub_list_is(e->d_name)) {
			assert_int_equal(fstatat(dirfd(d), e->d_name, &st, 0), 0);
			*bytes += st.st_size;
			n++;
		}
	closedir(d);
	return n;
}

/* The one list. */
static int open_list(struct fixture *x)
{
	char path[512] = "";
	struct dirent *e;
	DIR *d;
	int fd;

	snprintf(path, sizeof(path), "%s/.postcopy/ledger", x->dir);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		if (stub_list_is(e->d_name))
			snprintf(path, sizeof(path), "%s/.postcopy/ledger/%s", x->dir, e->d_name);
	closedir(d);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	return fd;
}

/* ---- none ---- */

static void without_one(void **state)
{
	struct fixture *x = *state;
	const struct stub_handle h = handle_of(1);
	struct stub_entered e;
	struct stub_ledger *l;
	char path[128];
	struct stat st;

	assert_false(stub_ledger_is(x->v));
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	assert_null(e.map);
	stub_ledger_leave(x->v, &e);
	assert_int_equal(stub_ledger_owe(x->v, &h, STUB_OWED_ALL), 0);
	assert_int_equal(stub_ledger_open(x->v, &l), -ENOENT);
	assert_int_equal(stub_ledger_end(x->v), -ENOENT);
	snprintf(path, sizeof(path), "%s/.postcopy/ledger", x->dir);
	assert_true(stat(path, &st) < 0);
	set_path(x, path);
	assert_true(stat(path, &st) < 0);
}

static void made_and_ended(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l, *other;

	assert_int_equal(stub_ledger_make(x->v), -EEXIST);
	owe(x, 1, STUB_OWED_DATA);
	l = open_ledger(x);
	assert_int_equal(stub_ledger_open(x->v, &other), -EBUSY);
	assert_int_equal(stub_ledger_end(x->v), -EBUSY);
	assert_int_equal(count(l), 1);
	stub_ledger_close(l);
	assert_int_equal(stub_ledger_end(x->v), 0);
	assert_false(stub_ledger_is(x->v));
	without_one(state);
	owe(x, 2, STUB_OWED_DATA); /* by who had it mapped */
	/* a new one knows nothing of the one before */
	fixture_reopen(x);
	assert_int_equal(stub_ledger_make(x->v), 0);
	fixture_reopen(x);
	l = open_ledger(x);
	assert_int_equal(count(l), 0);
	assert_int_equal(stub_ledger_unknown(l), 0);
	stub_ledger_close(l);
}

static void not_while_others_have_the_volume(void **state)
{
	struct fixture *x = *state;
	int to[2], from[2], status;
	pid_t pid;
	char c = 0;

	assert_true(pipe(to) == 0 && pipe(from) == 0);
	pid = fork();
	if (pid == 0) {
		struct stub_volume *v;

		c = stub_volume_open(x->dir, 0, NULL, NULL, &v) == 0 ? 'y' : 'n';
		if (write(from[1], &c, 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	assert_int_equal(stub_ledger_make(x->v), -EBUSY);
	assert_int_equal(write(to[1], &c, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(stub_ledger_make(x->v), 0);
	close(to[0]);
	close(to[1]);
	close(from[0]);
	close(from[1]);
}

/* ---- one object ---- */

static void entered_and_struck(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	struct stub_owed o[4];

	assert_int_equal(count(l), 0);
	owe(x, 7, STUB_OWED_DATA);
	owe(x, 8, STUB_OWED_NAMES);
	owe(x, 7, STUB_OWED_ATTRS);
	assert_int_equal(stub_ledger_next(l, 0, o, 4), 2);
	assert_int_equal(number_of(&o[0].h), 8); /* 7 was changed later */
	assert_int_equal(o[0].what, STUB_OWED_NAMES);
	assert_int_equal(number_of(&o[1].h), 7);
	assert_int_equal(o[1].what, STUB_OWED_DATA | STUB_OWED_ATTRS);
	assert_int_equal(stub_ledger_next(l, o[0].turn, o, 4), 1);
	assert_int_equal(settle(l, 7), 0);
	assert_int_equal(count(l), 1);
	assert_int_equal(settle(l, 8), 0);
	assert_int_equal(count(l), 0);
	o[0] = (struct stub_owed){ .h = handle_of(7) };
	assert_int_equal(stub_ledger_begin(l, &o[0]), -ENOENT);
	owe(x, 7, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	stub_ledger_close(l);
	l = open_ledger(x); /* durable */
	assert_int_equal(count(l), 1);
	assert_int_equal(settle(l, 7), 0);
	stub_ledger_close(l);
	l = open_ledger(x);
	assert_int_equal(count(l), 0);
	stub_ledger_close(l);
}

static void bad_entries(void **state)
{
	struct fixture *x = *state;
	struct stub_handle h = handle_of(1);
	struct stub_entered e;

	assert_int_equal(stub_ledger_enter(x->v, &h, 0, &e), -EINVAL);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_ALL + 1, &e), -EINVAL);
	h.len = 0;
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), -EINVAL);
}

/* From before the change until both sides are equal, whether the replicator has taken it over or not. */
static void asked_of_one(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	const struct stub_handle h = handle_of(5), other = handle_of(6);
	struct stub_entered e;

	assert_int_equal(stub_ledger_owes(l, &h), 0);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	assert_int_equal(stub_ledger_owes(l, &h), 1);
	assert_int_equal(settle(l, 5), 1); /* it is under way still */
	stub_ledger_leave(x->v, &e);
	assert_int_equal(stub_ledger_owes(l, &h), 1);
	assert_int_equal(stub_ledger_owes(l, &other), 0);
	assert_int_equal(settle(l, 5), 0);
	assert_int_equal(stub_ledger_owes(l, &h), 0);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	stub_ledger_leave(x->v, &e);
	assert_int_equal(stub_ledger_owes(l, &h), 1); /* nobody has counted since */
	stub_ledger_close(l);
}

static void read_meta(struct fixture *x, char out[8192])
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/.postcopy/ledger/owed/data.mdb", x->dir);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(out, 1, 8192, f), 8192);
	fclose(f);
}

/* What has been entered needs no second sync; a comparison that began before strikes it no more, all the same. */
static void put_where_it_is_owed(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	struct stub_owed o = { .h = handle_of(5), .what = STUB_OWED_DATA }, begun = { .h = o.h };
	char before[8192], after[8192];

	owe(x, 5, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	read_meta(x, before);
	assert_int_equal(stub_ledger_begin(l, &begun), 0);
	assert_int_equal(stub_ledger_put(l, &o, 1), 0);
	read_meta(x, after);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(stub_ledger_strike(l, &begun), 1);

	o.what = STUB_OWED_ATTRS; /* that was not entered */
	assert_int_equal(stub_ledger_put(l, &o, 1), 0);
	assert_int_equal(stub_ledger_begin(l, &begun), 0);
	assert_int_equal(begun.what, STUB_OWED_DATA | STUB_OWED_ATTRS);
	assert_int_equal(stub_ledger_strike(l, &begun), 0);

	owe(x, 6, STUB_OWED_DATA); /* it stands in a list */
	o.h = handle_of(6);
	o.what = STUB_OWED_DATA;
	assert_int_equal(stub_ledger_put(l, &o, 1), 0);
	stub_ledger_close(l);
	l = open_ledger(x);
	assert_int_equal(count(l), 1);
	assert_int_equal(settle(l, 6), 0);
	assert_int_equal(stub_ledger_put(l, &o, 1), 0); /* struck: it is not active any more */
	assert_int_equal(count(l), 1);
	stub_ledger_close(l);
}

/* Each way in which a change may lie about the comparison. */
static void changed_meanwhile(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	const struct stub_handle h = handle_of(5);
	struct stub_owed o = { .h = h };
	struct stub_entered e;

	owe(x, 5, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	/* begun and ended in between */
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	owe(x, 5, STUB_OWED_DATA);
	assert_int_equal(stub_ledger_strike(l, &o), 1);
	/* begun before, ended in between */
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	stub_ledger_leave(x->v, &e);
	assert_int_equal(stub_ledger_strike(l, &o), 1);
	/* begun in between, and under way still */
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	assert_int_equal(stub_ledger_strike(l, &o), 1);
	/* begun before, and under way still */
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	assert_int_equal(stub_ledger_strike(l, &o), 1);
	stub_ledger_leave(x->v, &e);
	assert_int_equal(settle(l, 5), 0);
	assert_int_equal(count(l), 0);
	/* struck while it was begun: owed again */
	owe(x, 5, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	assert_int_equal(settle(l, 5), 0);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	stub_ledger_leave(x->v, &e);
	assert_int_equal(count(l), 1);
	stub_ledger_close(l);
}

/* What is written again and again costs one entry, and no other object's strike. */
static void a_hot_object(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	off_t before, after;

	owe(x, 1, STUB_OWED_DATA);
	owe(x, 2, STUB_OWED_DATA);
	lists(x, &before);
	assert_int_equal(count(l), 2);
	for (int i = 0; i < 10000; i++)
		owe(x, 1, STUB_OWED_DATA);
	assert_int_equal(lists(x, &after), 1);
	assert_int_equal(after, before);
	assert_int_equal(settle(l, 2), 0);
	assert_int_equal(settle(l, 1), 0);
	/* what it is not entered with is entered */
	owe(x, 1, STUB_OWED_DATA);
	lists(x, &before);
	owe(x, 1, STUB_OWED_NAMES);
	lists(x, &after);
	assert_true(after > before);
	stub_ledger_close(l);
}

/* More than one answer holds, and than one sync takes out. */
static void many_objects(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	struct stub_owed o[100];
	const unsigned int many = 300;
	unsigned int n, seen = 0;
	uint64_t after = 0;

	for (n = 0; n < many; n++)
		owe(x, n, STUB_OWED_DATA);
	while ((n = (unsigned int)stub_ledger_next(l, after, o, 100)) > 0) {
		seen += n;
		after = o[n - 1].turn;
	}
	assert_int_equal(seen, many);
	for (unsigned int i = 0; i < many; i++)
		assert_int_equal(settle(l, i), 0);
	assert_int_equal(count(l), 0);
	stub_ledger_close(l);
}

/* ---- death ---- */

/* A child enters object 3, and is killed before it leaves, or after. */
static void child(struct fixture *x, bool leaves)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		const struct stub_handle h = handle_of(3);
		struct stub_entered e;
		struct stub_volume *v;

		if (stub_volume_open(x->dir, 0, NULL, NULL, &v) < 0 ||
		    stub_ledger_enter(v, &h, STUB_OWED_DATA, &e) < 0)
			_exit(1);
		if (leaves)
			stub_ledger_leave(v, &e);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void who_dies_leaves_it_owed(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l;
	off_t bytes;

	child(x, true);
	l = open_ledger(x);
	assert_int_equal(count(l), 1);
	assert_int_equal(lists(x, &bytes), 0); /* taken over: nobody needs it */
	assert_int_equal(settle(l, 3), 0);
	assert_int_equal(count(l), 0);
	stub_ledger_close(l);
}

/* Nothing can be changed then; and no client is told that a file of its own is not there. */
static void its_directory_is_lost(void **state)
{
	struct fixture *x = *state;
	const struct stub_handle h = handle_of(4);
	struct stub_entered e;
	char path[128], gone[128];

	snprintf(path, sizeof(path), "%s/.postcopy/ledger", x->dir);
	snprintf(gone, sizeof(gone), "%s/.postcopy/lost", x->dir);
	assert_int_equal(rename(path, gone), 0);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), -EIO);
	assert_int_equal(rename(gone, path), 0);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	stub_ledger_leave(x->v, &e);
}

/* What it had begun is seen until it is known to be dead, and compared once more then. */
static void who_dies_in_between(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	struct stub_owed o = { .h = handle_of(3) };

	owe(x, 3, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	child(x, false);
	assert_int_equal(stub_ledger_strike(l, &o), 1);
	for (int i = 0; i < 1000 && settle(l, 3) == 1; i++)
		usleep(10000);
	assert_int_equal(count(l), 0);
	stub_ledger_close(l);
}

/* Entered before begin, changed after the comparison, and dead: what is left of it in the set goes when
 * it is buried, and a strike of before must not believe that. */
static void who_dies_after_the_comparison(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	struct stub_owed o = { .h = handle_of(3) };
	int from[2], status;
	pid_t pid;
	char c;

	owe(x, 3, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	assert_int_equal(pipe(from), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct stub_entered e;
		struct stub_volume *v;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (stub_volume_open(x->dir, 0, NULL, NULL, &v) < 0 ||
		    stub_ledger_enter(v, &o.h, STUB_OWED_DATA, &e) < 0 || write(from[1], "y", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < 60; i++) { /* while it is buried, and after */
		assert_int_equal(stub_ledger_strike(l, &o), 1);
		assert_int_equal(count(l), 1);
		usleep(10000);
	}
	for (int i = 0; i < 1000 && settle(l, 3) == 1; i++)
		usleep(10000);
	assert_int_equal(count(l), 0);
	stub_ledger_close(l);
	close(from[0]);
	close(from[1]);
}

/* ---- damage ---- */

static void some_entries(struct fixture *x, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		owe(x, i, STUB_OWED_DATA);
	fixture_close(x); /* its list is a dead one's */
}

static void a_torn_end(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l;
	int fd;

	some_entries(x, 10);
	fd = open_list(x);
	assert_int_equal(ftruncate(fd, 160 * 10 + 40), 0); /* the last was not acknowledged */
	close(fd);
	fixture_reopen(x);
	l = open_ledger(x);
	assert_int_equal(count(l), 9);
	assert_int_equal(stub_ledger_unknown(l), 0);
	stub_ledger_close(l);
}

static void damaged_in_the_middle(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l;
	uint64_t number;
	int fd;

	some_entries(x, 10);
	fd = open_list(x);
	assert_int_equal(pwrite(fd, "garbage", 7, 160 * 5 + 33), 7);
	close(fd);
	fixture_reopen(x);
	l = open_ledger(x);
	assert_int_equal(count(l), 9);
	number = stub_ledger_unknown(l);
	assert_true(number > 0);
	stub_ledger_close(l);
	l = open_ledger(x); /* it is remembered */
	number = stub_ledger_unknown(l);
	assert_true(number > 0);
	assert_int_equal(stub_ledger_walked(l, number + 1), 1);
	assert_int_equal(stub_ledger_walked(l, number), 0);
	assert_int_equal(stub_ledger_unknown(l), 0);
	stub_ledger_close(l);
	l = open_ledger(x);
	assert_int_equal(stub_ledger_unknown(l), 0);
	stub_ledger_close(l);
}

static void a_header_that_is_damaged(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l;
	int fd;

	some_entries(x, 3);
	fd = open_list(x);
	assert_int_equal(pwrite(fd, "x", 1, 9), 1);
	close(fd);
	fixture_reopen(x);
	l = open_ledger(x);
	count(l);
	assert_true(stub_ledger_unknown(l) > 0);
	stub_ledger_close(l);
}

static void owed_is_damaged(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	char path[128];

	owe(x, 1, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	stub_ledger_close(l);
	snprintf(path, sizeof(path), "%s/.postcopy/ledger/owed/data.mdb", x->dir);
	assert_int_equal(truncate(path, 100), 0);
	l = open_ledger(x);
	assert_true(stub_ledger_unknown(l) > 0);
	stub_ledger_close(l);
}

/* The memory that all share goes while it is used. */
static void a_set_that_is_lost(void **state)
{
	struct fixture *x = *state;
	struct stub_ledger *l = open_ledger(x);
	const struct stub_handle h = handle_of(3);
	struct stub_owed o = { .h = h };
	struct stub_entered e;
	char path[128];
	uint64_t none = 0;

	owe(x, 3, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	assert_int_equal(stub_ledger_enter(x->v, &h, STUB_OWED_DATA, &e), 0);
	set_path(x, path);
	assert_int_equal(unlink(path), 0);
	/* as after somebody found none, and made one */
	assert_int_equal(pwrite(x->v->state_fd, &none, sizeof(none),
				offsetof(struct stub_state_page, ledger)),
			 sizeof(none));
	assert_int_equal(stub_ledger_begin(l, &o), 0);
	assert_int_equal(stub_ledger_strike(l, &o), 1); /* it flies in the old one */
	stub_ledger_leave(x->v, &e);
	for (int i = 0; i < 1000 && settle(l, 3) == 1; i++)
		usleep(10000);
	assert_int_equal(count(l), 0);
	owe(x, 3, STUB_OWED_DATA);
	assert_int_equal(count(l), 1);
	assert_int_equal(settle(l, 3), 0);
	stub_ledger_close(l);
}

/* ---- all at once ---- */

#define CHANGERS 4
#define KILLS	 40

struct shared {
	_Atomic uint64_t here[OBJECTS], there[OBJECTS];
	_Atomic uint64_t done;
	_Atomic int stop;
};

static void change_them(struct fixture *x, struct shared *s, unsigned int seed)
{
	struct stub_volume *v;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(3, ~0u, 0); /* with them, the locks are the parent's */
	if (stub_volume_open(x->dir, 0, NULL, NULL, &v) < 0)
		_exit(1);
	while (!atomic_load(&s->stop)) {
		/* some are hot */
		unsigned int n = (unsigned int)rand_r(&seed) % (rand_r(&seed) % 4 ? 8 : OBJECTS);
		const struct stub_handle h = handle_of(n);
		struct stub_entered e;
		int r = stub_ledger_enter(v, &h, STUB_OWED_DATA, &e);

		if (r == -EAGAIN)
			continue;
		if (r < 0)
			_exit(1);
		atomic_fetch_add(&s->here[n], 1);
		stub_ledger_leave(v, &e);
		atomic_fetch_add(&s->done, 1);
	}
	_exit(0);
}

static pid_t changer(struct fixture *x, struct shared *s, unsigned int seed)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		change_them(x, s, seed);
	assert_true(pid > 0);
	return pid;
}

/* One look at all that is owed: how many were struck. */
static unsigned int replicate(struct stub_ledger *l, struct shared *s)
{
	struct stub_owed o[64];
	uint64_t after = 0;
	unsigned int struck = 0;
	int n = 0;

	/* who is changed again and again comes again and again */
	for (int pass = 0; pass < 10 && (n = stub_ledger_next(l, after, o, 64)) > 0; pass++) {
		after = o[n - 1].turn;
		for (int i = 0; i < n; i++) {
			unsigned int k = number_of(&o[i].h);

			if (stub_ledger_begin(l, &o[i]) < 0)
				continue;
			atomic_store(&s->there[k], atomic_load(&s->here[k]));
			struck += stub_ledger_strike(l, &o[i]) == 0;
		}
	}
	assert_true(n >= 0);
	return struck;
}

static void nothing_that_differs_is_missing(void **state)
{
	struct fixture *x = *state;
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0);
	struct stub_ledger *l = open_ledger(x);
	pid_t pid[CHANGERS];
	unsigned int seed = 1, struck = 0;
	int status;

	assert_ptr_not_equal(s, MAP_FAILED);
	for (unsigned int i = 0; i < CHANGERS; i++)
		pid[i] = changer(x, s, ++seed);
	for (unsigned int kills = 0; kills < KILLS;) {
		uint64_t done = atomic_load(&s->done);
		unsigned int k = seed % CHANGERS;

		while (atomic_load(&s->done) < done + 20)
			struck += replicate(l, s);
		kill(pid[k], SIGKILL);
		assert_int_equal(waitpid(pid[k], &status, 0), pid[k]);
		assert_true(WIFSIGNALED(status)); /* not ended by itself */
		pid[k] = changer(x, s, ++seed);
		if (++kills % 8 == 0) { /* the replicator dies as well */
			stub_ledger_close(l);
			l = open_ledger(x);
		}
	}
	atomic_store(&s->stop, 1);
	for (unsigned int i = 0; i < CHANGERS; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_true(struck > 0);
	/* what is not owed now is equal */
	for (unsigned int n = 0; n < OBJECTS; n++) {
		struct stub_owed o = { .h = handle_of(n) };

		count(l); /* lists are taken over */
		if (stub_ledger_begin(l, &o) == -ENOENT &&
		    atomic_load(&s->here[n]) != atomic_load(&s->there[n]))
			fail_msg("object %u differs and is not owed", n);
	}
	for (int i = 0; i < 1000 && count(l); i++) {
		replicate(l, s);
		usleep(1000);
	}
	assert_int_equal(count(l), 0);
	assert_int_equal(stub_ledger_unknown(l), 0);
	for (unsigned int n = 0; n < OBJECTS; n++)
		assert_int_equal(atomic_load(&s->here[n]), atomic_load(&s->there[n]));
	print_message("  %llu changes, %u struck meanwhile\n",
		      (unsigned long long)atomic_load(&s->done), struck);
	stub_ledger_close(l);
	munmap(s, sizeof(*s));
}

/* The same by threads of one process, which share a list. */
struct threads {
	struct fixture *x;
	struct shared *s;
	unsigned int seed;
};

static void *by_thread(void *arg)
{
	struct threads *t = arg;

	for (int i = 0; i < 3000; i++) {
		unsigned int n = (unsigned int)rand_r(&t->seed) % OBJECTS;
		const struct stub_handle h = handle_of(n);
		struct stub_entered e;
		int r = stub_ledger_enter(t->x->v, &h, STUB_OWED_DATA, &e);

		if (r == -EAGAIN)
			continue;
		assert_int_equal(r, 0);
		atomic_fetch_add(&t->s->here[n], 1);
		stub_ledger_leave(t->x->v, &e);
	}
	return NULL;
}

static void by_threads(void **state)
{
	struct fixture *x = *state;
	struct shared *s = calloc(1, sizeof(*s));
	struct stub_ledger *l = open_ledger(x);
	struct threads t[4];
	pthread_t id[4];

	assert_non_null(s);
	for (unsigned int i = 0; i < 4; i++) {
		t[i] = (struct threads){ x, s, i + 1 };
		assert_int_equal(pthread_create(&id[i], NULL, by_thread, &t[i]), 0);
	}
	for (int i = 0; i < 200; i++)
		replicate(l, s);
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(id[i], NULL);
	for (int i = 0; i < 1000 && count(l); i++)
		replicate(l, s);
	assert_int_equal(count(l), 0);
	for (unsigned int n = 0; n < OBJECTS; n++)
		assert_int_equal(atomic_load(&s->here[n]), atomic_load(&s->there[n]));
	stub_ledger_close(l);
	free(s);
}

#define TEST(name, begin) cmocka_unit_test_setup_teardown(name, begin, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_one, fixture_setup),
		TEST(not_while_others_have_the_volume, fixture_setup),
		TEST(made_and_ended, setup),
		TEST(entered_and_struck, setup),
		TEST(bad_entries, setup),
		TEST(asked_of_one, setup),
		TEST(put_where_it_is_owed, setup),
		TEST(changed_meanwhile, setup),
		TEST(a_hot_object, setup),
		TEST(many_objects, setup),
		TEST(who_dies_leaves_it_owed, setup),
		TEST(its_directory_is_lost, setup),
		TEST(who_dies_in_between, setup),
		TEST(who_dies_after_the_comparison, setup),
		TEST(a_torn_end, setup),
		TEST(damaged_in_the_middle, setup),
		TEST(a_header_that_is_damaged, setup),
		TEST(owed_is_damaged, setup),
		TEST(a_set_that_is_lost, setup),
		TEST(by_threads, setup),
		TEST(nothing_that_differs_is_missing, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
