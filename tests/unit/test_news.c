/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_news.c - libstubcore/news.c: who is told what, and when */
#include "fixture.h"

#include <poll.h>

#include "news.h"

#define MAX	64
#define LONG_MS 20000 /* never waited out */

struct two { /* a reader and a poster, as in two processes */
	struct fixture *x;
	struct stub_volume *reader, *poster;
	struct stub_news_reader r;
	struct stub_news news[MAX];
	bool lost;
};

static char ring_path[128];

static struct stub_volume *open_news(struct fixture *x)
{
	struct stub_volume *v;

	assert_int_equal(stub_volume_open(x->dir, STUB_OPEN_NEWS, NULL, NULL, &v), 0);
	return v;
}

static int setup(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	if (!t || fixture_setup((void **)&t->x) < 0)
		return -1;
	snprintf(ring_path, sizeof(ring_path), "%s.sock" STUB_RING_SUFFIX, t->x->beside);
	t->reader = open_news(t->x);
	t->poster = open_news(t->x);
	stub_news_begin(t->reader, &t->r);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct two *t = *state;

	stub_volume_close(t->reader);
	stub_volume_close(t->poster);
	unlink(ring_path);
	fixture_teardown((void **)&t->x);
	free(t);
	return 0;
}

static struct stub_handle handle(uint32_t number)
{
	struct stub_handle h = { .type = 1, .len = 12 };

	memcpy(h.bytes, &number, sizeof(number));
	return h;
}

static void post(struct stub_volume *v, uint32_t number, unsigned int what)
{
	struct stub_handle h = handle(number);

	stub_news_post(v, &h, what);
}

static int get(struct two *t, unsigned int ms)
{
	return stub_news_wait(t->reader, &t->r, ms, t->news, MAX, &t->lost);
}

static void assert_news(const struct stub_news *n, uint32_t number, unsigned int what)
{
	struct stub_handle h = handle(number);

	assert_true(stub_handle_equal(&n->h, &h));
	assert_int_equal(n->what, what);
}

static uint64_t head(struct two *t)
{
	return atomic_load(&t->r.ring->head);
}

/* ---- telling ---- */

static void test_news_arrive_in_order(void **state)
{
	struct two *t = *state;

	post(t->poster, 1, STUB_NEWS_ATTRS);
	post(t->reader, 2, STUB_NEWS_NAMES | STUB_NEWS_MOVED);
	post(t->poster, 3, STUB_NEWS_NAMES);
	assert_int_equal(get(t, 0), 3);
	assert_false(t->lost);
	assert_news(&t->news[0], 1, STUB_NEWS_ATTRS);
	assert_false(t->news[0].own);
	assert_news(&t->news[1], 2, STUB_NEWS_NAMES | STUB_NEWS_MOVED);
	assert_true(t->news[1].own);
	assert_news(&t->news[2], 3, STUB_NEWS_NAMES);
	assert_int_equal(get(t, 0), 0);
	assert_false(t->lost);
}

static void test_handles_of_any_length(void **state)
{
	struct two *t = *state;

	for (unsigned int len = 1; len <= STUB_HANDLE_MAX; len++) {
		struct stub_handle h = { .type = -(int)len, .len = (uint8_t)len };

		memset(h.bytes, (int)len, len);
		stub_news_post(t->poster, &h, STUB_NEWS_ATTRS);
		assert_int_equal(get(t, 0), 1);
		assert_true(stub_handle_equal(&t->news[0].h, &h));
	}
}

static void test_each_reader_has_all(void **state)
{
	struct two *t = *state;
	struct stub_news_reader late;
	struct stub_news one[1];
	bool lost;

	post(t->poster, 1, STUB_NEWS_ATTRS);
	stub_news_begin(t->poster, &late); /* from now on */
	post(t->poster, 2, STUB_NEWS_ATTRS);
	post(t->poster, 3, STUB_NEWS_ATTRS);
	assert_int_equal(get(t, 0), 3);
	assert_int_equal(stub_news_wait(t->poster, &late, 0, one, 1, &lost), 1);
	assert_news(one, 2, STUB_NEWS_ATTRS);
	assert_int_equal(stub_news_wait(t->poster, &late, 0, one, 1, &lost), 1);
	assert_news(one, 3, STUB_NEWS_ATTRS);
	assert_int_equal(stub_news_wait(t->poster, &late, 0, one, 1, &lost), 0);
	assert_false(lost);
}

/* ---- cheap ---- */

static void test_the_same_again_is_not_posted_twice(void **state)
{
	struct two *t = *state;
	uint64_t before = head(t);

	for (int i = 0; i < 1000; i++)
		post(t->poster, 7, STUB_NEWS_ATTRS);
	assert_int_equal(head(t) - before, 1);
	post(t->poster, 7, STUB_NEWS_NAMES); /* says more */
	post(t->poster, 7, STUB_NEWS_NAMES);
	assert_int_equal(head(t) - before, 2);
	post(t->reader, 7, STUB_NEWS_NAMES); /* another one's: he would pass his own over */
	assert_int_equal(head(t) - before, 3);
	assert_int_equal(get(t, 0), 3);
	post(t->poster, 7, STUB_NEWS_NAMES); /* taken: this is a new change */
	assert_int_equal(get(t, 0), 1);
	assert_news(&t->news[0], 7, STUB_NEWS_NAMES);
}

/* A reader that begins has cached before: what was posted is not for him, what comes is. */
static void test_a_new_reader_is_told_of_the_next_change(void **state)
{
	struct two *t = *state;

	post(t->poster, 7, STUB_NEWS_ATTRS);
	stub_news_begin(t->reader, &t->r);
	post(t->poster, 7, STUB_NEWS_ATTRS);
	assert_int_equal(get(t, 0), 1);
}

static void test_without_the_flag_or_at_the_end_nothing_is_posted(void **state)
{
	struct two *t = *state;
	uint64_t before = head(t);
	struct stub_news_reader r;
	bool lost;

	post(t->x->v, 1, STUB_NEWS_ATTRS);
	stub_news_begin(t->x->v, &r);
	assert_int_equal(stub_news_wait(t->x->v, &r, LONG_MS, t->news, MAX, &lost), -EINVAL);
	atomic_store(&t->x->v->state->complete, 1);
	post(t->poster, 1, STUB_NEWS_ATTRS);
	assert_int_equal(head(t), before);
}

/* ---- waiting ---- */

struct later {
	struct stub_volume *v;
	struct stub_ring *ring;
	bool wake;
};

/* Posts, or wakes, once the reader sleeps. */
static void *post_later(void *arg)
{
	struct later *l = arg;

	while (!atomic_load(&l->ring->sleepers))
		poll(NULL, 0, 1);
	if (l->wake)
		stub_news_wake(l->v);
	else
		post(l->v, 9, STUB_NEWS_ATTRS);
	return NULL;
}

static void test_a_sleeping_reader_is_woken(void **state)
{
	struct two *t = *state;
	struct later l = { t->poster, t->r.ring, false };
	uint64_t began = stub_now_ms();
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, post_later, &l), 0);
	assert_int_equal(get(t, LONG_MS), 1);
	assert_news(&t->news[0], 9, STUB_NEWS_ATTRS);
	pthread_join(thread, NULL);
	l.wake = true;
	assert_int_equal(pthread_create(&thread, NULL, post_later, &l), 0);
	assert_int_equal(get(t, LONG_MS), 0);
	assert_false(t->lost);
	pthread_join(thread, NULL);
	stub_news_wake(t->poster); /* before he waits: he was about to */
	assert_int_equal(get(t, LONG_MS), 0);
	assert_true(stub_now_ms() - began < LONG_MS);
}

static void test_completion_wakes(void **state)
{
	struct two *t = *state;
	uint64_t began = stub_now_ms();

	fixture_list(t->x, NULL, 0);
	assert_int_equal(access(ring_path, F_OK), 0);
	assert_int_equal(stub_volume_set_complete(t->poster), 0);
	assert_int_equal(get(t, LONG_MS), 0);
	assert_true(stub_now_ms() - began < LONG_MS);
	assert_true(stub_volume_complete(t->reader));
	assert_int_equal(access(ring_path, F_OK), -1); /* nothing stays behind */
	stub_volume_close(open_news(t->x));
	assert_int_equal(access(ring_path, F_OK), -1);
}

static void test_nothing_comes(void **state)
{
	struct two *t = *state;
	uint64_t began = stub_now_ms();

	assert_int_equal(get(t, 30), 0);
	assert_false(t->lost);
	assert_true(stub_now_ms() - began >= 29);
}

/* ---- another ring ---- */

/* Who has just found his own right does not look for a second: whoever finds that it is not
 * says so in it. */
static void test_nobody_posts_into_a_ring_that_is_gone(void **state)
{
	struct two *t = *state;
	struct stub_volume *late;
	struct stub_ring *old = t->r.ring;

	assert_int_equal(get(t, 600), 0);
	late = open_news(t->x);
	assert_int_equal(unlink(ring_path), 0);
	for (uint64_t until = stub_now_ms() + LONG_MS; !t->lost;)
		assert_true(get(t, 20) == 0 && stub_now_ms() < until);
	assert_ptr_not_equal(t->r.ring, old);
	assert_true(stub_news_due(late));
	post(late, 7, STUB_NEWS_ATTRS);
	assert_int_equal(get(t, 0), 1);
	assert_news(&t->news[0], 7, STUB_NEWS_ATTRS);
	assert_false(stub_news_due(late));
	stub_volume_close(late);
}

/* What could not be told is told as lost when it can be. */
static void test_what_was_posted_without_a_ring_is_lost(void **state)
{
	struct two *t = *state;
	struct stub_volume *late;

	assert_int_equal(unlink(ring_path), 0);
	assert_int_equal(mkdir(ring_path, 0700), 0); /* nobody can make one */
	late = open_news(t->x);
	post(late, 7, STUB_NEWS_ATTRS);
	assert_int_equal(rmdir(ring_path), 0);
	for (uint64_t until = stub_now_ms() + LONG_MS; !t->lost;)
		assert_true(get(t, 20) == 0 && stub_now_ms() < until);
	post(late, 7, STUB_NEWS_ATTRS); /* his second is not over, or it is */
	t->lost = false;
	for (uint64_t until = stub_now_ms() + LONG_MS; !t->lost;) {
		post(late, 7, STUB_NEWS_ATTRS);
		get(t, 20);
		assert_true(stub_now_ms() < until);
	}
	stub_volume_close(late);
}

/* ---- who posts ---- */

/* What the filler changed, seen by another process: one piece of news of @h. */
static void assert_told(struct two *t, const struct stub_handle *h, unsigned int what)
{
	unsigned int found = 0;
	int n;

	while ((n = get(t, 0)) > 0)
		for (int i = 0; i < n; i++)
			found += stub_handle_equal(&t->news[i].h, h) && t->news[i].what & what;
	assert_int_equal(n, 0);
	assert_int_equal(found, 1);
}

static void test_the_filler_posts(void **state)
{
	struct two *t = *state;
	struct fixture *x = t->x;
	struct stub_entry e[2];
	struct stub_refused refused = { 0 };
	struct stub_object root, o;
	struct stub_handle h;
	size_t bad;

	assert_int_equal(stub_hub_create(x->v, &x->v->hub), 0);
	e[0] = fixture_entry("dummy", S_IFREG | 0644, 0);
	e[0].dummy = true;
	e[1] = fixture_entry("late", S_IFREG | 0644, 10);
	root = fixture_root(x);
	assert_int_equal(stub_list_batch(x->v, x->j, &root, e, 1, &refused, &bad), 0);
	assert_int_equal(stub_refused_add(&refused, "late", 4, -EINVAL), 0);
	assert_int_equal(get(t, 0), 0); /* clients see nothing of it yet */
	assert_int_equal(stub_list_finish(x->v, x->j, &root, &refused, false), 0);
	assert_told(t, &root.h, STUB_NEWS_ATTRS);

	assert_int_equal(stub_refused_make(x->v, x->j, &root, "late", 4, &e[1]), 0);
	assert_told(t, &root.h, STUB_NEWS_NAMES);
	stub_object_close(&root);

	h = fixture_handle(x, "dummy");
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	e[0].attr.size = 0;
	assert_int_equal(stub_fill_attr(x->v, &o, &e[0].attr, NULL, NULL, 0, NULL), 0);
	assert_told(t, &h, STUB_NEWS_ATTRS);
	assert_int_equal(stub_fill_attr(x->v, &o, &e[0].attr, NULL, NULL, 0, NULL), 0); /* it has them */
	assert_int_equal(get(t, 0), 0);
	stub_object_close(&o);

	stub_finisher_add(x->f, &h);
	assert_int_equal(stub_finisher_drain(x->f), 0);
	assert_int_equal(fixture_view(x, "dummy").needs, 0);
	assert_told(t, &h, STUB_NEWS_ATTRS);
}

#define ON_TWO(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_TWO(test_news_arrive_in_order),
		ON_TWO(test_handles_of_any_length),
		ON_TWO(test_each_reader_has_all),
		ON_TWO(test_the_same_again_is_not_posted_twice),
		ON_TWO(test_a_new_reader_is_told_of_the_next_change),
		ON_TWO(test_without_the_flag_or_at_the_end_nothing_is_posted),
		ON_TWO(test_a_sleeping_reader_is_woken),
		ON_TWO(test_completion_wakes),
		ON_TWO(test_nothing_comes),
		ON_TWO(test_nobody_posts_into_a_ring_that_is_gone),
		ON_TWO(test_what_was_posted_without_a_ring_is_lost),
		ON_TWO(test_the_filler_posts),
	};

	return cmocka_run_group_tests_name("news", tests, NULL, NULL);
}
