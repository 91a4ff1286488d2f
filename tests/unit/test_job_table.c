/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_job_table.c - retriever/jobs/job_table.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/job_table.h"

#define BLOCK 4096

static struct job_table *make(void)
{
	static struct job_table t;

	memset(&t, 0, sizeof(t));
	job_table_init(&t);
	return &t;
}

static struct job *job(enum stub_ask_kind kind, uint8_t handle, uint64_t offset, const char *name)
{
	struct stub_ask ask = { .kind = kind, .offset = offset, .length = 1 };

	ask.h = (struct stub_handle){ .type = 1, .len = 1, .bytes = { handle } };
	ask.name = name;
	ask.name_len = name ? strlen(name) : 0;
	return job_create(&ask, BLOCK);
}

static void end(struct job_table *t, struct job *a)
{
	job_remove(t, a);
	job_free(a);
}

/* ---- the table ---- */

static void the_same_ask_finds_its_job(void **state)
{
	struct job_table *t = make();
	struct job *a = job(STUB_ASK_DATA, 1, BLOCK, NULL), *b = job(STUB_ASK_DATA, 1, BLOCK + 7, NULL);
	struct job *others[] = { job(STUB_ASK_DATA, 2, BLOCK, NULL), job(STUB_ASK_DATA, 1, 0, NULL),
				 job(STUB_ASK_ATTR, 1, BLOCK, NULL) };

	assert_null(job_find(t, a));
	job_add(t, a);
	assert_ptr_equal(job_find(t, b), a); /* the same block */
	for (size_t i = 0; i < 3; i++) {
		assert_null(job_find(t, others[i]));
		job_free(others[i]);
	}
	assert_ptr_equal(job_of_block(t, &a->h, 1), a);
	assert_null(job_of_block(t, &a->h, 2));
	end(t, a);
	assert_null(job_find(t, b));
	assert_null(job_of_block(t, &b->h, 1));
	job_free(b);
	job_table_finish(t);
}

static void names_are_told_apart(void **state)
{
	struct job_table *t = make();
	struct job *a = job(STUB_ASK_LOOKUP, 1, 0, "a"), *ab = job(STUB_ASK_LOOKUP, 1, 0, "ab");

	job_add(t, a);
	assert_null(job_find(t, ab));
	job_add(t, ab);
	assert_ptr_equal(job_find(t, a), a);
	end(t, a);
	assert_ptr_equal(job_find(t, ab), ab);
	end(t, ab);
	job_table_finish(t);
}

static void what_has_another_name_is_found_by_it(void **state)
{
	struct job_table *t = make();
	struct job *fill = job(STUB_ASK_FILL, 1, 0, NULL), *list = job(STUB_ASK_LIST, 1, 0, NULL);

	job_add(t, fill);
	job_rename(t, fill, STUB_ASK_LIST);
	assert_null(job_find(t, list)); /* it is for the caller to join or to add */
	job_add(t, fill);
	assert_ptr_equal(job_find(t, list), fill);
	job_free(list);
	end(t, fill);
	job_table_finish(t);
}

static void who_joins_waits_behind(void **state)
{
	struct waiter w[3] = { { .next = &w[1] } };
	struct job *a = job(STUB_ASK_ATTR, 1, 0, NULL), *b = job(STUB_ASK_ATTR, 1, 0, NULL);

	a->waiters = &w[0];
	b->waiters = &w[2];
	job_join(a, b);
	assert_ptr_equal(a->waiters, &w[0]);
	assert_ptr_equal(w[1].next, &w[2]);
	assert_null(b->waiters);
	job_free(a);
	job_free(b);
}

/* ---- queues ---- */

static void each_waits_in_its_queue(void **state)
{
	struct job_table *t = make();
	struct job *a = job(STUB_ASK_FILL, 1, 0, NULL), *b = job(STUB_ASK_ATTR, 2, 0, NULL),
		   *c = job(STUB_ASK_ATTR, 3, 0, NULL);

	job_queue(t, a);
	job_queue(t, b);
	job_queue(t, c);
	assert_int_equal(t->demand.length, 2);
	assert_ptr_equal(job_pop(&t->demand), b);
	assert_ptr_equal(job_pop(&t->demand), c);
	assert_null(job_pop(&t->demand));
	assert_ptr_equal(job_pop(&t->fill), a);
	assert_null(job_pop(&t->fill));
	job_queue(t, c); /* an empty one takes more */
	assert_ptr_equal(job_pop(&t->demand), c);
	job_free(a);
	job_free(b);
	job_free(c);
	job_table_finish(t);
}

static void count_hurry(void *arg)
{
	++*(int *)arg;
}

static void a_client_takes_it_to_the_front(void **state)
{
	struct job_table *t = make();
	struct job *a = job(STUB_ASK_FILL, 1, 0, NULL), *b = job(STUB_ASK_FILL, 2, 0, NULL),
		   *c = job(STUB_ASK_FILL, 3, 0, NULL);
	int hurries = 0;

	job_queue(t, a);
	job_queue(t, b);
	job_promote(t, b);
	job_promote(t, b); /* it is there already */
	assert_int_equal(t->demand.length, 1);
	assert_ptr_equal(job_pop(&t->demand), b);
	job_queue(t, c); /* behind the last one that is left */
	assert_ptr_equal(job_pop(&t->fill), a);
	assert_ptr_equal(job_pop(&t->fill), c);
	a->running = true;
	a->background = true;
	job_promote(t, a); /* a worker has it */
	assert_null(job_pop(&t->demand));
	assert_true(a->wanted);
	a->hurry = count_hurry;
	a->hurry_arg = &hurries;
	job_promote(t, a);
	assert_int_equal(hurries, 1);
	job_free(a);
	job_free(b);
	job_free(c);
	job_table_finish(t);
}

/* ---- job_table_moves() ---- */

static void a_queue_that_nobody_takes_from_stands_still(void **state)
{
	struct job_table *t = make();
	struct job *a = job(STUB_ASK_ATTR, 1, 0, NULL);

	assert_true(job_table_moves(t)); /* nothing to do */
	job_add(t, a);
	job_queue(t, a);
	assert_true(job_table_moves(t)); /* all workers are busy, with a slow disk perhaps */
	assert_true(job_table_moves(t));
	t->demand.idle = 1;
	assert_false(job_table_moves(t));
	assert_ptr_equal(job_pop(&t->demand), a);
	assert_true(job_table_moves(t));
	end(t, a);
	job_table_finish(t);
}

static void one_that_moves_may_be_long(void **state)
{
	struct job_table *t = make();
	struct job *a = job(STUB_ASK_FILL, 1, 0, NULL), *b = job(STUB_ASK_FILL, 2, 0, NULL);

	t->fill.idle = 1;
	job_add(t, a);
	job_add(t, b);
	job_queue(t, a);
	job_queue(t, b);
	assert_ptr_equal(job_pop(&t->fill), a);
	assert_true(job_table_moves(t)); /* since the last look one was taken */
	assert_false(job_table_moves(t));
	assert_ptr_equal(job_pop(&t->fill), b);
	end(t, a);
	end(t, b);
	job_table_finish(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_ask_finds_its_job),
		cmocka_unit_test(names_are_told_apart),
		cmocka_unit_test(what_has_another_name_is_found_by_it),
		cmocka_unit_test(who_joins_waits_behind),
		cmocka_unit_test(each_waits_in_its_queue),
		cmocka_unit_test(a_client_takes_it_to_the_front),
		cmocka_unit_test(a_queue_that_nobody_takes_from_stands_still),
		cmocka_unit_test(one_that_moves_may_be_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
