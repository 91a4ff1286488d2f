// SPDX-License-Identifier: GPL-3.0-or-later
/* test_source_pool.c - retriever/source/pool.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "source/pool.h"

#define LONG 3600000u

static struct source_pool *make(uint64_t give_up_ms)
{
	static struct source_pool p;

	source_pool_init(&p, give_up_ms);
	return &p;
}

static void lost_for(struct source_pool *p, uint64_t ms)
{
	p->lost_since_ms = stub_now_ms() - ms;
}

/* ---- source_pool_up, source_pool_down ---- */

static void it_is_lost_while_no_connection_is_usable(void **state)
{
	struct source_pool *p = make(LONG);
	struct source_state s = { 0 };

	assert_true(p->lost_since_ms);
	source_pool_up(p, false);
	source_pool_up(p, true);
	source_pool_down(p, 0);
	source_pool_state(p, &s);
	assert_true(s.connected);
	assert_int_equal(s.lost_since_ms, 0);
	assert_int_equal(s.reconnects, 1);
	source_pool_down(p, 0);
	source_pool_state(p, &s);
	assert_false(s.connected);
	assert_true(s.lost_since_ms);
	source_pool_finish(p);
}

static void the_silence_before_counts(void **state)
{
	struct source_pool *p = make(LONG);

	source_pool_up(p, false);
	source_pool_down(p, 5000);
	assert_true(p->lost_since_ms <= stub_now_ms() - 5000);
	source_pool_finish(p);
}

/* ---- source_pool_gave_up, source_pool_give_up ---- */

static void calls_end_after_the_limit(void **state)
{
	struct source_pool *p = make(LONG);

	assert_false(source_pool_gave_up(p));
	lost_for(p, LONG);
	assert_true(source_pool_gave_up(p));
	source_pool_up(p, false);
	assert_false(source_pool_gave_up(p));
	source_pool_finish(p);
	p = make(0);
	lost_for(p, LONG);
	assert_false(source_pool_gave_up(p)); /* never */
	source_pool_finish(p);
}

static void each_loss_is_told_once(void **state)
{
	struct source_pool *p = make(1);

	assert_true(source_pool_give_up(p));
	assert_false(source_pool_give_up(p));
	source_pool_up(p, false);
	source_pool_down(p, 0);
	assert_true(source_pool_give_up(p));
	source_pool_finish(p);
}

/* ---- source_pool_wait_known ---- */

static void what_is_known_stays_known(void **state)
{
	struct source_pool *p = make(1);

	lost_for(p, LONG);
	assert_int_equal(source_pool_wait_known(p, NULL), -ETIMEDOUT);
	p->stop = true;
	assert_int_equal(source_pool_wait_known(p, NULL), -ECANCELED);
	source_pool_known(p);
	assert_int_equal(source_pool_wait_known(p, NULL), 0);
	source_pool_finish(p);
}

static void *tell(void *arg)
{
	struct source_pool *p = arg;

	pthread_mutex_lock(&p->lock);
	source_pool_known(p);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void who_waits_is_woken(void **state)
{
	struct source_pool *p = make(0);
	pthread_t t;

	pthread_mutex_lock(&p->lock);
	assert_int_equal(pthread_create(&t, NULL, tell, p), 0);
	assert_int_equal(source_pool_wait_known(p, NULL), 0);
	pthread_mutex_unlock(&p->lock);
	pthread_join(t, NULL);
	source_pool_finish(p);
}

/* ---- source_pool_trouble ---- */

static void a_reason_is_told_once(void **state)
{
	struct source_pool *p = make(0);

	assert_true(source_pool_trouble(p, "no way to the host"));
	assert_false(source_pool_trouble(p, "no way to the host"));
	assert_true(source_pool_trouble(p, "connection refused"));
	source_pool_up(p, false);
	assert_string_equal(p->trouble, "");
	assert_true(source_pool_trouble(p, "connection refused"));
	p->stop = true;
	assert_false(source_pool_trouble(p, "we are going"));
	source_pool_finish(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_lost_while_no_connection_is_usable),
		cmocka_unit_test(the_silence_before_counts),
		cmocka_unit_test(calls_end_after_the_limit),
		cmocka_unit_test(each_loss_is_told_once),
		cmocka_unit_test(what_is_known_stays_known),
		cmocka_unit_test(who_waits_is_woken),
		cmocka_unit_test(a_reason_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
