/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resting.h"

#define BATCH	    64
#define WAIT_MIN_MS 100 /* between two passes, growing while they find nothing */
#define WAIT_MAX_MS 2000
/* LMDB maps the journal: pages that were read count as this process's memory until the map is
 * closed. */
#define MAPPED_MAX (24u << 20)

struct queue {
	char *dir;
	stub_log_fn log;
	void *log_arg;
	struct stub_journal *journal;
	struct resting *resting;

	struct stub_journal_cursor cursor;
	bool in_pass;
	bool found; /* this pass gave something out */
	bool skip_links; /* this pass leaves links alone */
	uint64_t skipped; /* entries that this pass met, and that were resting */
	uint64_t skipped_last;
	uint64_t next_pass_ms;
	unsigned int wait_ms;
	uint64_t passes;

	struct stub_journal_entry batch[BATCH];
	unsigned int batch_n, batch_i;
};

static int journal_open(struct queue *q)
{
	if (q->journal)
		return 0;
	return stub_journal_open(q->dir, STUB_JOURNAL_READONLY, q->log, q->log_arg, &q->journal);
}

static void journal_close(struct queue *q)
{
	stub_journal_close(q->journal);
	q->journal = NULL;
}

int queue_create(const char *dir, stub_log_fn log, void *log_arg, struct queue **out)
{
	struct queue *q = calloc(1, sizeof(*q));
	int r = -ENOMEM;

	if (!q)
		return r;
	q->log = log;
	q->log_arg = log_arg;
	q->wait_ms = WAIT_MIN_MS;
	q->dir = strdup(dir);
	if (q->dir)
		r = resting_create(&q->resting);
	if (r == 0)
		r = journal_open(q);
	if (r < 0) {
		queue_destroy(q);
		return r;
	}
	*out = q;
	return 0;
}

void queue_destroy(struct queue *q)
{
	if (!q)
		return;
	journal_close(q);
	resting_destroy(q->resting);
	free(q->dir);
	free(q);
}

/* Bytes of mapped files that are resident, 0 if unknown. */
static uint64_t mapped_bytes(void)
{
	unsigned long total, resident, shared;
	FILE *f = fopen("/proc/self/statm", "re");
	int n;

	if (!f)
		return 0;
	n = fscanf(f, "%lu %lu %lu", &total, &resident, &shared);
	fclose(f);
	return n == 3 ? shared * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static int pass_begin(struct queue *q)
{
	struct stub_journal_counts c;
	int r;

	r = stub_journal_counts(q->journal, &c);
	if (r < 0)
		return r;
	q->cursor = (struct stub_journal_cursor){ 0 };
	q->batch_n = q->batch_i = 0;
	q->in_pass = true;
	q->found = false;
	q->skipped = 0;
	q->skip_links = c.dirs > 0;
	return 0;
}

static void pass_end(struct queue *q, uint64_t now_ms)
{
	q->in_pass = false;
	q->passes++;
	q->skipped_last = q->skipped;
	if (q->found)
		q->wait_ms = WAIT_MIN_MS;
	q->next_pass_ms = now_ms + q->wait_ms;
	if (q->wait_ms < WAIT_MAX_MS)
		q->wait_ms = q->wait_ms * 2 < WAIT_MAX_MS ? q->wait_ms * 2 : WAIT_MAX_MS;
}

/* 1: the batch has entries; 0: end of the pass; -errno. */
static int batch_read(struct queue *q)
{
	int r;

	if (mapped_bytes() > MAPPED_MAX) {
		journal_close(q);
		r = journal_open(q);
		if (r < 0)
			return r;
	}
	r = stub_journal_next(q->journal, &q->cursor, false, q->batch, BATCH);
	if (r < 0)
		return r;
	q->batch_n = (unsigned int)r;
	q->batch_i = 0;
	return r > 0;
}

static int queue_fail(struct queue *q, uint64_t now_ms, int error)
{
	journal_close(q);
	pass_end(q, now_ms);
	return error;
}

int queue_next(struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	int r;

	if (!q->in_pass) {
		if (now_ms < q->next_pass_ms)
			return 0;
		r = journal_open(q);
		if (r == 0)
			r = pass_begin(q);
		if (r < 0)
			return queue_fail(q, now_ms, r);
	}
	for (;;) {
		const struct stub_journal_entry *e;
		uint64_t key;

		if (q->batch_i == q->batch_n) {
			r = batch_read(q);
			if (r < 0)
				return queue_fail(q, now_ms, r);
			if (r == 0) {
				pass_end(q, now_ms);
				return 0;
			}
		}
		e = &q->batch[q->batch_i++];
		if (e->kind == STUB_JOURNAL_LINKS && q->skip_links) {
			/* links come last: nothing else is behind them */
			pass_end(q, now_ms);
			return 0;
		}
		key = resting_key(&e->h);
		if (e->park != STUB_PARK_NONE || resting_is(q->resting, key, now_ms)) {
			q->skipped++;
			continue;
		}
		resting_put(q->resting, key, RESTS_FOREVER);
		q->found = true;
		*out = *e;
		return 1;
	}
}

uint64_t queue_next_pass_ms(const struct queue *q)
{
	return q->in_pass ? 0 : q->next_pass_ms;
}

uint64_t queue_passes(const struct queue *q)
{
	return q->passes;
}

void queue_hurry(struct queue *q, uint64_t now_ms, unsigned int within_ms)
{
	/* passing over 100 resting entries takes about 0.1 ms: at most a tenth of the time */
	uint64_t least = q->skipped_last / 100;
	uint64_t at = now_ms + (least > within_ms ? least : within_ms);

	q->wait_ms = WAIT_MIN_MS;
	if (q->next_pass_ms > at)
		q->next_pass_ms = at;
}

void queue_rest(struct queue *q, const struct stub_handle *h, uint64_t until_ms)
{
	resting_put(q->resting, resting_key(h), until_ms);
}

void queue_forget(struct queue *q, uint64_t now_ms)
{
	resting_clear(q->resting);
	q->in_pass = false;
	q->wait_ms = WAIT_MIN_MS;
	q->next_pass_ms = now_ms;
}

int queue_counts(struct queue *q, struct stub_journal_counts *out)
{
	int r = journal_open(q);

	return r < 0 ? r : stub_journal_counts(q->journal, out);
}
