/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * queue.h - the pending journal as a work queue.
 *
 * The journal is read in its working order, batch by batch, again and again; each
 * walk from its beginning to its end is a pass. What rests (in flight, or
 * answered a moment ago) is passed over.
 *
 * With an order (order/order.h) a pass goes by stretches of the journal: the best entries of each
 * (pick.h) are given out, the others come with a later pass.
 *
 * Invariants
 *   - An entry is given out at most once while it rests.
 *   - Every entry that is not parked is met by every pass, but for links, which wait until no
 *     directory is left that could still bring their other names, and for directories while more
 *     is waiting than the order has listed ahead.
 *   - What comes last (queue_last()) is given out when nothing else was for some seconds, and
 *     until a directory is met that does not; it is not counted as listed ahead before.
 *   - Nothing starves: some stretches are given out as the journal has them, and some
 *     directories are while files that wait for their source keep others from being listed.
 *   - Memory is bounded: a batch, the best of a stretch, the table of what rests, and the pages of
 *     the journal's map, which are given back whenever the process has grown too large.
 */
#ifndef CRAWLER_QUEUE_H
#define CRAWLER_QUEUE_H

#include "order/order.h"
#include "stubcore.h"

struct queue;

/* @dir is the journal's directory. Errors as stub_journal_open(). */
int queue_create(const char *dir, stub_log_fn log, void *log_arg, struct queue **out);
void queue_destroy(struct queue *q);

/* From now on; at first it is that of order_init(). */
void queue_order(struct queue *q, const struct order *o);

/*
 * The next entry to ask for. Returns 1 and *out (its handle and kind), which rests from now on; 0
 * if there is nothing before queue_next_pass_ms(); or -errno of the journal, after
 * which the next call begins a new pass.
 */
int queue_next(struct queue *q, uint64_t now_ms, struct stub_journal_entry *out);

/*
 * What is to wait until there is nothing else to ask for.  is(): this one, a file or a
 * directory; files(): about how many files of the journal are.
 */
struct queue_last {
	bool (*is)(void *arg, const struct stub_journal_entry *e);
	uint64_t (*files)(void *arg);
	void *arg;
};

void queue_last(struct queue *q, const struct queue_last *last);

#define QUEUE_RESTS 2

/*
 * Is @h to be asked for, now?  1 and *out, as queue_next() gives them; QUEUE_RESTS: it was asked
 * for just now; 0: it is not pending, is parked, or has its turn later (links); -errno of the
 * journal.
 * @dir: it is an unlisted directory, which may have no entry, made by a look-up.
 */
int queue_ask(struct queue *q, const struct stub_handle *h, bool dir, uint64_t now_ms,
	      struct stub_journal_entry *out);

/* The same, but it does not rest from now on. */
int queue_waits(struct queue *q, const struct stub_handle *h, bool dir, uint64_t now_ms,
		struct stub_journal_entry *out);

/* Was it given out, and is there no answer yet? */
bool queue_flies(const struct queue *q, const struct stub_handle *h);

/* Are directories to be listed, and so many known that the deepest should come next?  1, 0, or
 * -errno of the journal. */
int queue_deep(struct queue *q, uint64_t now_ms);

/* When the next pass begins (CLOCK_MONOTONIC); 0 in the middle of one. */
uint64_t queue_next_pass_ms(const struct queue *q);

/* Passes that came to their end. */
uint64_t queue_passes(const struct queue *q);

/* There may be new entries: begin the next pass within @within_ms. */
void queue_hurry(struct queue *q, uint64_t now_ms, unsigned int within_ms);

/* Do not give the entry out again before @until_ms. */
void queue_rest(struct queue *q, const struct stub_handle *h, uint64_t until_ms);

/* Nothing rests any more; begin a new pass: the retriever that answered is gone, and
 * what it called done may not be. */
void queue_forget(struct queue *q, uint64_t now_ms);

/* As the journal has them now. 0 or -errno. */
int queue_counts(struct queue *q, struct stub_journal_counts *out);
/* See stub_names_may_come(). */
int queue_names_may_come(struct queue *q, struct stub_volume *v,
			 const struct stub_journal_counts *n);

#endif
