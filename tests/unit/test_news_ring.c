/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_news_ring.c - libstubcore/news_ring.c: many writers, dead ones, and garbage */
#include "fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "news.h"

#define MAX	64
#define LONG_MS 20000
#define OBJECTS 300u
#define POSTS	20000u /* of each writer */
#define WRITERS 4u

static char ring_path[128];

struct reader {
	struct fixture *x;
	struct stub_volume *v;
	struct stub_news_reader r;
	struct stub_news news[MAX];
	bool lost;
};

static struct stub_volume *open_news(struct fixture *x)
{
	struct stub_volume *v;

	assert_int_equal(stub_volume_open(x->dir, STUB_OPEN_NEWS, NULL, NULL, &v), 0);
	return v;
}

static int setup(void **state)
{
	struct reader *t = calloc(1, sizeof(*t));

	if (!t || fixture_setup((void **)&t->x) < 0)
		return -1;
	snprintf(ring_path, sizeof(ring_path), "%s.sock" STUB_RING_SUFFIX, t->x->beside);
	t->v = open_news(t->x);
	stub_news_begin(t->v, &t->r);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct reader *t = *state;

	stub_volume_close(t->v);
	unlink(ring_path);
	fixture_teardown((void **)&t->x);
	free(t);
	return 0;
}

static struct stub_handle handle(uint32_t number)
{
	struct stub_handle h = { .type = 1, .len = 4 + number % 40 };

	memset(h.bytes, 0x5a, sizeof(h.bytes));
	memcpy(h.bytes, &number, sizeof(number));
	return h;
}

static void post(struct stub_volume *v, uint32_t number)
{
	struct stub_handle h = handle(number);

	stub_news_post(v, &h, STUB_NEWS_ATTRS);
}

static int get(struct reader *t, unsigned int ms)
{
	return stub_news_wait(t->v, &t->r, ms, t->news, MAX, &t->lost);
}

/* The next is @number, whatever was lost before. */
static void assert_next(struct reader *t, uint32_t number)
{
	struct stub_handle h = handle(number);

	assert_int_equal(get(t, LONG_MS), 1);
	assert_false(t->lost);
	assert_true(stub_handle_equal(&t->news[0].h, &h));
}

/* ---- many writers ---- */

/* In memory of all processes: what a client would see of each object, and how many
 * writers are still at work. */
struct shared {
	_Atomic uint32_t version[OBJECTS];
	_Atomic uint32_t busy;
};

struct writer {
	struct stub_volume *v;
	struct shared *s;
	uint32_t seed;
};

static void *write_news(void *arg)
{
	struct writer *w = arg;

	for (uint32_t i = 0, x = w->seed; i < POSTS; i++) {
		x = x * 1664525u + 1013904223u;
		atomic_fetch_add(&w->s->version[(x >> 8) % OBJECTS], 1);
		post(w->v, (x >> 8) % OBJECTS);
	}
	atomic_fetch_sub(&w->s->busy, 1);
	return NULL;
}

/* A cache that looks again at what it is told, as Ganesha's does: in the end it has
 * the last version of everything. */
static void read_until_quiet(struct reader *t, struct shared *s)
{
	uint32_t cache[OBJECTS] = { 0 }, number;
	bool busy = true;
	int n = 0;

	while (busy || n > 0 || t->lost) {
		busy = atomic_load(&s->busy) > 0; /* before: all that was posted is read after */
		n = get(t, busy ? 10 : 0);
		assert_true(n >= 0);
		for (int i = 0; i < n; i++) {
			struct stub_handle h;

			memcpy(&number, t->news[i].h.bytes, sizeof(number));
			assert_true(number < OBJECTS);
			h = handle(number);
			assert_true(stub_handle_equal(&t->news[i].h, &h));
			cache[number] = atomic_load(&s->version[number]);
		}
		for (number = 0; t->lost && number < OBJECTS; number++)
			cache[number] = atomic_load(&s->version[number]);
	}
	for (number = 0; number < OBJECTS; number++)
		assert_int_equal(cache[number], atomic_load(&s->version[number]));
}

static struct shared *shared_create(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(s != MAP_FAILED);
	atomic_store(&s->busy, WRITERS);
	return s;
}

static void test_many_threads(void **state)
{
	struct reader *t = *state;
	struct shared *s = shared_create();
	struct stub_volume *v = open_news(t->x);
	struct writer w[WRITERS];
	pthread_t thread[WRITERS];

	for (uint32_t i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){ v, s, i + 1 };
		assert_int_equal(pthread_create(&thread[i], NULL, write_news, &w[i]), 0);
	}
	read_until_quiet(t, s);
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	stub_volume_close(v);
	munmap(s, sizeof(*s));
}

static void test_many_processes(void **state)
{
	struct reader *t = *state;
	struct shared *s = shared_create();
	pid_t pid[WRITERS];
	int status;

	for (uint32_t i = 0; i < WRITERS; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0) {
			struct writer w = { open_news(t->x), s, i + 1 };

			write_news(&w);
			_exit(0);
		}
	}
	read_until_quiet(t, s);
	for (uint32_t i = 0; i < WRITERS; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	munmap(s, sizeof(*s));
}

/* ---- loss is told ---- */

static void test_overrun(void **state)
{
	struct reader *t = *state;

	for (uint32_t i = 0; i < STUB_RING_SLOTS; i++)
		post(t->v, i);
	assert_int_equal(get(t, 0), MAX); /* just not */
	assert_false(t->lost);
	for (uint32_t i = 0; i < MAX + 1; i++)
		post(t->v, 10000 + i);
	assert_int_equal(get(t, 0), 0);
	assert_true(t->lost);
	post(t->v, 5);
	assert_next(t, 5);
}

/* ---- writers that die ---- */

/* As a writer is left by SIGKILL, at each of its steps. */
static void leave(struct stub_ring *ring, int step)
{
	uint64_t ticket = atomic_fetch_add(&ring->head, 1);
	struct stub_ring_slot *s = &ring->slot[ticket % STUB_RING_SLOTS];

	if (step > 0)
		atomic_store(&s->seq, 2 * ticket + 1);
	if (step > 1)
		atomic_store(&s->word[0], 0x1234567800000104u);
}

static void test_a_writer_dies_in_the_middle(void **state)
{
	struct reader *t = *state;

	for (int step = 0; step < 3; step++) {
		uint64_t began = stub_now_ms();

		post(t->v, 1);
		leave(t->r.ring, step);
		post(t->v, 2);
		assert_int_equal(get(t, 0), 1); /* what was before comes at once */
		assert_false(t->lost);
		assert_int_equal(get(t, LONG_MS), 0);
		assert_true(t->lost); /* as it was before the one that is behind */
		assert_true(stub_now_ms() - began < LONG_MS);
		post(t->v, 3);
		assert_next(t, 3);
	}
	for (uint32_t i = 0; i < STUB_RING_SLOTS + 10; i++) { /* their slots serve again */
		post(t->v, i);
		assert_next(t, i);
	}
}

/* One that slept for a lap wakes up, and scribbles over what is there now. */
static void test_a_late_writer_spoils_nothing_unseen(void **state)
{
	struct reader *t = *state;
	struct stub_ring_slot *s;

	post(t->v, 1);
	s = &t->r.ring->slot[t->r.next % STUB_RING_SLOTS];
	atomic_store(&s->word[2], 0x4141414141414141u);
	assert_int_equal(get(t, 0), 0);
	assert_true(t->lost);
	post(t->v, 2);
	assert_next(t, 2);
}

static void test_killed_writers(void **state)
{
	struct reader *t = *state;
	struct stub_ring *ring = t->r.ring;

	for (int i = 0; i < 30; i++) {
		uint64_t before = atomic_load(&ring->head);
		pid_t pid = fork();
		int status, n;

		assert_true(pid >= 0);
		if (pid == 0) {
			struct stub_volume *v = open_news(t->x);

			for (uint32_t k = 0;; k++)
				post(v, k);
		}
		while (atomic_load(&ring->head) - before < 100u + (unsigned int)i * 77)
			get(t, 1);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		do {
			n = get(t, 0);
		} while (n > 0 || t->lost);
		post(t->v, 1);
		assert_next(t, 1);
	}
}

/* ---- garbage ---- */

static void fill_random(void *p, size_t len, uint32_t *x)
{
	for (size_t i = 0; i < len; i++) {
		*x = *x * 1664525u + 1013904223u;
		((uint8_t *)p)[i] = (uint8_t)(*x >> 24);
	}
}

/* All but the numbers of the file, which were checked when it was mapped. */
static void test_garbage_in_the_ring(void **state)
{
	const size_t from = offsetof(struct stub_ring, head);
	struct reader *t = *state;
	uint32_t x = 1;

	for (int round = 0; round < 40; round++) {
		uint64_t began = stub_now_ms();

		if (round % 2) /* all of it, or the slots only */
			fill_random((char *)t->r.ring + from, sizeof(struct stub_ring) - from, &x);
		else
			fill_random(t->r.ring->slot, sizeof(t->r.ring->slot), &x);
		for (uint32_t i = 0; i < 5; i++)
			post(t->v, i);
		for (int i = 0; i < 5; i++)
			assert_true(get(t, 1) >= 0);
		assert_true(stub_now_ms() - began < LONG_MS);
	}
	/* it heals: the numbers are found again, slots that make no sense are taken over */
	for (uint32_t i = 0; i < 2 * STUB_RING_SLOTS; i++) {
		post(t->v, i);
		get(t, 0);
	}
	post(t->v, 1);
	assert_next(t, 1);
}

static void replace_by(const char *what)
{
	int fd;

	assert_true(unlink(ring_path) == 0);
	if (!strcmp(what, "symlink")) {
		assert_int_equal(symlink("/etc/passwd", ring_path), 0);
		return;
	}
	if (!strcmp(what, "fifo")) {
		assert_int_equal(mkfifo(ring_path, 0600), 0);
		return;
	}
	fd = open(ring_path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	if (!strcmp(what, "no magic"))
		assert_int_equal(ftruncate(fd, sizeof(struct stub_ring)), 0);
	else if (!strcmp(what, "short"))
		assert_int_equal(pwrite(fd, &(uint64_t){ STUB_RING_MAGIC }, 8, 0), 8);
	else if (!strcmp(what, "another's"))
		assert_int_equal(fchown(fd, 1001, 1001), 0);
	close(fd);
}

static void test_what_is_no_ring_is_made_anew(void **state)
{
	static const char *const what[] = { "empty",	 "short",   "no magic",
					    "another's", "symlink", "fifo" };
	struct reader *t = *state;

	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		struct stub_volume *a, *b;
		struct stub_news_reader r;
		struct stub_news one[1];
		struct stat st;
		bool lost;

		replace_by(what[i]);
		a = open_news(t->x);
		b = open_news(t->x);
		stub_news_begin(a, &r);
		post(b, 3);
		assert_int_equal(stub_news_wait(a, &r, LONG_MS, one, 1, &lost), 1);
		assert_int_equal(lstat(ring_path, &st), 0);
		assert_true(S_ISREG(st.st_mode) && st.st_uid == 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(st.st_size, sizeof(struct stub_ring));
		stub_volume_close(a);
		stub_volume_close(b);
	}
}

/* ---- without a file ---- */

/* /run was wiped: everybody finds the new one within about a second. */
static void test_a_ring_that_was_removed(void **state)
{
	struct reader *t = *state;
	struct stub_volume *v = open_news(t->x);
	struct stub_handle h = handle(8);
	uint64_t began = stub_now_ms();
	int n;

	post(v, 1);
	assert_next(t, 1);
	assert_int_equal(unlink(ring_path), 0);
	do {
		assert_true(stub_now_ms() - began < LONG_MS);
		n = get(t, 50);
	} while (!t->lost);
	assert_int_equal(n, 0);
	do { /* the poster looks once a second too */
		assert_true(stub_now_ms() - began < LONG_MS);
		post(v, 8);
		n = get(t, 50);
	} while (n == 0);
	assert_true(stub_handle_equal(&t->news[0].h, &h));
	stub_volume_close(v);
}

static void test_without_a_place_for_it(void **state)
{
	struct reader *t = *state;
	struct stub_volume *v = open_news(t->x);
	struct stub_news one[1];
	struct stub_news_reader r;
	struct stub_hub *hub;
	uint64_t began;
	bool lost;

	hub = v->hub;
	snprintf(v->info.socket, sizeof(v->info.socket), "/nowhere/at/all");
	assert_int_equal(stub_hub_create(v, &v->hub), 0);
	stub_news_begin(v, &r);
	post(v, 1);
	began = stub_now_ms();
	assert_int_equal(stub_news_wait(v, &r, 30, one, 1, &lost), 0);
	assert_true(stub_now_ms() - began >= 29);
	assert_false(lost);
	stub_news_wake(v);
	assert_int_equal(stub_news_wait(v, &r, LONG_MS, one, 1, &lost), 0);
	assert_true(stub_now_ms() - began < LONG_MS);
	stub_hub_destroy(hub);
	stub_volume_close(v);
}

#define ON_RING(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_RING(test_many_threads),
		ON_RING(test_many_processes),
		ON_RING(test_overrun),
		ON_RING(test_a_writer_dies_in_the_middle),
		ON_RING(test_a_late_writer_spoils_nothing_unseen),
		ON_RING(test_killed_writers),
		ON_RING(test_garbage_in_the_ring),
		ON_RING(test_what_is_no_ring_is_made_anew),
		ON_RING(test_a_ring_that_was_removed),
		ON_RING(test_without_a_place_for_it),
	};

	return cmocka_run_group_tests_name("news_ring", tests, NULL, NULL);
}
