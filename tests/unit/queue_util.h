/* SPDX-License-Identifier: GPL-3.0-or-later */
/* queue_util.h - a crawler's queue over a journal of this test */
#ifndef QUEUE_UTIL_H
#define QUEUE_UTIL_H

#include "journal_util.h"
#include "queue.h"

/* @word: of an order; NULL: none. */
static inline struct queue *queue_with(const struct stub_journal_entry *e, size_t n, const char *word,
				uint32_t ahead)
{
	struct stub_journal *j = open_journal(0);
	struct order o;
	struct queue *q;
	char why[256];

	assert_int_equal(stub_journal_add(j, e, n), 0);
	stub_journal_close(j);
	assert_int_equal(queue_create(journal_dir, count_log, NULL, &q), 0);
	order_init(&o);
	if (word)
		assert_int_equal(order_take(&o, word, why, sizeof(why)), 0);
	o.ahead = ahead;
	queue_order(q, &o);
	return q;
}

#endif
