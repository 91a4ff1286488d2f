/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pick.h"
#include "resting.h"

#define BATCH	    64
#define GETS	    1024 /* each so many-th look-up sees how much of the journal is in memory */
#define DIR_WEIGHT  8 /* a directory brings more: how much is waiting is looked at sooner */
#define STRETCH	    65536 /* entries that are looked at for the best: some 20 ms */
#define PICKED_MS   5000 /* then they are looked for anew */
#define PLAIN	    8 /* each so many-th stretch is given out as it is */
/* A batch of directories so often, however much is waiting; or after so long without a file to ask
 * for: what is done is in the journal for a while, until its removal is durable */
#define LIST_MS	    60000
#define IDLE_MS	    5000
/* What comes last does after so long without anything else; so often is looked whether it still
 * does */
#define LAST_MS	    5000
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
	bool walked; /* the cursor has met all of this pass */
	bool found; /* this pass gave something out */
	bool left_out; /* this pass met something that it did not give out: another is due */
	bool skip_links; /* this pass leaves links alone */
	uint64_t skipped; /* entries that this pass met, and that were resting */
	uint64_t skipped_last;
	uint64_t next_pass_ms;
	unsigned int wait_ms;
	uint64_t passes;

	struct stub_journal_entry batch[BATCH];
	unsigned int batch_n, batch_i;
	unsigned int gets; /* entries that were looked up */

	struct order order;
	struct pick *pick;
	unsigned int picked; /* stretches */
	uint64_t picked_ms; /* the last one */
	bool picked_over; /* as it was then */

	bool over; /* enough is listed: files first */
	bool deep; /* half of that are directories: the deepest first */
	unsigned int unseen; /* given out since that was looked at, files and DIR_WEIGHT */
	unsigned int some_dirs; /* so many are given out nevertheless */
	uint64_t listed_ms; /* directories were last given out */

	struct queue_last last;
	bool last_now; /* what comes last may be given out: there is nothing else */
	bool last_due; /* so it is if this pass finds nothing else */
	bool last_met; /* in this pass, and left out */
	bool last_rests; /* some of these rest from now on */
	uint64_t asked_ms; /* something was last given out for the first time */
	struct stub_names names;
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
	q->found = true;
	order_init(&q->order);
	if (q->dir)
		r = resting_create(&q->resting);
	if (r == 0)
		r = pick_create(&q->pick);
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
	pick_destroy(q->pick);
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

/* ---- passes ---- */

/* How much is waiting: is it time to list, or to do what was listed? */
static int look(struct queue *q)
{
	struct stub_journal_counts c;
	uint64_t last = q->last.is && !q->last_now ? q->last.files(q->last.arg) : 0;
	uint32_t enough = q->over ? q->order.ahead - q->order.ahead / 4 : q->order.ahead;
	int r = stub_journal_counts(q->journal, &c);

	if (r < 0)
		return r;
	c.files -= last < c.files ? last : c.files; /* these wait for something else */
	q->over = c.files > 0 && c.dirs + c.files >= enough;
	q->deep = c.dirs >= q->order.ahead / 2;
	q->skip_links = c.dirs > 0;
	q->unseen = 0;
	return 0;
}

static int pass_begin(struct queue *q, uint64_t now_ms)
{
	int r = look(q);

	if (r < 0)
		return r;
	q->cursor = (struct stub_journal_cursor){ 0 };
	if (!q->listed_ms)
		q->listed_ms = now_ms;
	q->some_dirs = 0;
	if (q->over && now_ms >= q->listed_ms + (q->found ? LIST_MS : IDLE_MS))
		q->some_dirs = BATCH;
	if (!q->over || q->some_dirs)
		q->listed_ms = now_ms;
	if (!q->asked_ms)
		q->asked_ms = now_ms;
	q->last_due = now_ms >= q->asked_ms + LAST_MS;
	q->last_met = q->last_rests = false;
	q->batch_n = q->batch_i = 0;
	q->in_pass = true;
	q->found = q->left_out = q->walked = false;
	q->skipped = 0;
	pick_clear(q->pick);
	return 0;
}

static void pass_end(struct queue *q, uint64_t now_ms)
{
	q->in_pass = false;
	q->passes++;
	q->skipped_last = q->skipped;
	if (q->found)
		q->wait_ms = WAIT_MIN_MS;
	q->next_pass_ms = now_ms;
	if (q->last_due && q->last_met && now_ms >= q->asked_ms + LAST_MS) {
		q->last_now = true;
		return;
	}
	if (q->left_out && (q->found || q->last_rests))
		return;
	q->next_pass_ms += q->wait_ms;
	if (q->wait_ms < WAIT_MAX_MS)
		q->wait_ms = q->wait_ms * 2 < WAIT_MAX_MS ? q->wait_ms * 2 : WAIT_MAX_MS;
}

/* Pages that were read are given back if there are many. */
static int journal_trim(struct queue *q)
{
	if (mapped_bytes() > MAPPED_MAX)
		journal_close(q);
	return journal_open(q);
}

/* 1: the batch has entries; 0: end of the pass; -errno. */
static int batch_read(struct queue *q)
{
	int r = journal_trim(q);

	if (r < 0)
		return r;
	r = stub_journal_next(q->journal, &q->cursor, false, q->batch, BATCH);
	if (r < 0)
		return r;
	q->batch_n = (unsigned int)r;
	q->batch_i = 0;
	return r > 0;
}

/* A directory, while more is waiting than there should be: leave it, and all others. */
static bool too_far_ahead(struct queue *q, const struct stub_journal_entry *e)
{
	if (e->kind != STUB_JOURNAL_DIR || !q->over)
		return false;
	if (q->some_dirs) {
		q->some_dirs--;
		return false;
	}
	q->left_out = true;
	return true;
}

/* Is it to wait until there is nothing else?  Of a file that is known in memory. */
static bool file_is_last(struct queue *q, const struct stub_journal_entry *e)
{
	if (!q->last.is || q->last_now || e->kind != STUB_JOURNAL_FILE ||
	    !q->last.is(q->last.arg, e))
		return false;
	return q->last_met = true;
}

/* Of a directory it costs a look: it rests then. */
static bool dir_is_last(struct queue *q, const struct stub_journal_entry *e, uint64_t now_ms)
{
	bool is;

	if (!q->last.is || e->kind != STUB_JOURNAL_DIR)
		return false;
	is = q->last.is(q->last.arg, e);
	if (q->last_now) { /* until there is something else again */
		q->last_now = is || resting_knows(q->resting, resting_key(&e->h));
		return false;
	}
	q->last_met |= is;
	if (is && !q->last_due) {
		resting_put(q->resting, resting_key(&e->h), now_ms + LAST_MS);
		q->last_rests = true;
	}
	return is;
}

/* The next one of this pass that may be given out: 1; 0: there is none any more; -errno. */
static int meet(struct queue *q, uint64_t now_ms, const struct stub_journal_entry **out)
{
	while (!q->walked) {
		const struct stub_journal_entry *e;

		if (q->batch_i == q->batch_n) {
			int r = batch_read(q);

			if (r < 0)
				return r;
			if (r == 0)
				break;
		}
		e = &q->batch[q->batch_i++];
		if (e->kind == STUB_JOURNAL_LINKS && q->skip_links)
			break; /* links come last: nothing else is behind them */
		if (e->park != STUB_PARK_NONE ||
		    resting_is(q->resting, resting_key(&e->h), now_ms) || file_is_last(q, e)) {
			q->skipped++;
		} else if (too_far_ahead(q, e)) {
			stub_journal_files(&q->cursor);
			q->batch_n = q->batch_i = 0;
		} else {
			*out = e;
			return 1;
		}
	}
	q->walked = true;
	return 0;
}

/* The best of a stretch.  1: there are some; 0: there is none any more; -errno. */
static int pick_some(struct queue *q, uint64_t now_ms)
{
	bool plain = q->picked % PLAIN == PLAIN - 1;
	time_t now = time(NULL);
	unsigned int n = 0;
	int r = 1;

	pick_clear(q->pick);
	q->picked_ms = now_ms;
	q->picked_over = q->over;
	while (n < STRETCH) {
		const struct stub_journal_entry *e;

		r = meet(q, now_ms, &e);
		if (r <= 0)
			break;
		n++;
		if (!pick_offer(q->pick, plain ? 0 : order_rank(&q->order, e, now), e))
			q->left_out = true;
	}
	pick_sort(q->pick);
	q->picked += n > 0;
	return r < 0 ? r : n > 0;
}

/* Of what was picked, a while ago: what has come since may be better. */
static int next_picked(struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	for (;;) {
		int r;

		if (now_ms >= q->picked_ms + PICKED_MS && pick_take(q->pick, out)) {
			q->left_out = true;
			pick_clear(q->pick);
		}
		while (pick_take(q->pick, out)) {
			if (resting_is(q->resting, resting_key(&out->h), now_ms))
				continue; /* it was asked for meanwhile */
			if (dir_is_last(q, out, now_ms))
				continue;
			if (out->kind != STUB_JOURNAL_DIR || !q->over || q->picked_over)
				return 1;
			q->left_out = true;
		}
		r = pick_some(q, now_ms);
		if (r <= 0)
			return r;
	}
}

static int next_met(struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	const struct stub_journal_entry *e;
	int r;

	do {
		r = meet(q, now_ms, &e);
	} while (r == 1 && dir_is_last(q, e, now_ms));
	if (r == 1)
		*out = *e;
	return r;
}

/* Look again how much is waiting, every so often.  0 or -errno */
static int look_again(struct queue *q, uint64_t now_ms)
{
	bool was_over = q->over;
	int r;

	if (q->unseen < BATCH)
		return 0;
	r = look(q);
	/* there is room: directories come first again */
	if (r == 0 && was_over && !q->over && q->in_pass) {
		q->in_pass = false;
		q->next_pass_ms = now_ms;
	}
	return r;
}

/* Begin a pass if it is time: 1; 0: it is not; -errno. */
static int go_on(struct queue *q, uint64_t now_ms)
{
	int r = q->in_pass ? look_again(q, now_ms) : 0;

	if (r < 0 || q->in_pass)
		return r < 0 ? r : 1;
	if (now_ms < q->next_pass_ms)
		return 0;
	r = journal_open(q);
	if (r == 0)
		r = pass_begin(q, now_ms);
	return r < 0 ? r : 1;
}

int queue_deep(struct queue *q, uint64_t now_ms)
{
	int r = q->deep ? journal_open(q) : 0;

	if (r == 0 && q->deep)
		r = look_again(q, now_ms);
	if (r < 0) {
		journal_close(q);
		q->in_pass = false;
		return r;
	}
	return q->deep && !q->over;
}

bool queue_flies(const struct queue *q, const struct stub_handle *h)
{
	return resting_flies(q->resting, resting_key(h));
}

static void given(struct queue *q, uint64_t now_ms, const struct stub_journal_entry *e)
{
	uint64_t key = resting_key(&e->h);

	/* what is tried again and again is not what others wait for */
	if (!resting_knows(q->resting, key))
		q->asked_ms = now_ms;
	resting_put(q->resting, key, RESTS_FOREVER);
	q->unseen += e->kind == STUB_JOURNAL_DIR ? DIR_WEIGHT : 1;
}

int queue_next(struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	int r = go_on(q, now_ms);

	if (r == 0)
		return 0;
	if (r > 0)
		r = q->order.keys ? next_picked(q, now_ms, out) : next_met(q, now_ms, out);
	if (r > 0) {
		given(q, now_ms, out);
		if (out->kind == STUB_JOURNAL_DIR)
			q->listed_ms = now_ms;
		q->found = true;
		return 1;
	}
	if (r < 0)
		journal_close(q);
	pass_end(q, now_ms);
	return r;
}

int queue_waits(struct queue *q, const struct stub_handle *h, bool dir, uint64_t now_ms,
		struct stub_journal_entry *out)
{
	int r = q->gets++ % GETS ? journal_open(q) : journal_trim(q);

	if (r == 0)
		r = stub_journal_get(q->journal, h, out);
	if (r == -ENOENT && !dir)
		return 0;
	if (r == -ENOENT) {
		*out = (struct stub_journal_entry){ .h = *h, .kind = STUB_JOURNAL_DIR };
	} else if (r < 0) {
		journal_close(q);
		q->in_pass = false;
		return r;
	}
	if (out->park != STUB_PARK_NONE || out->kind == STUB_JOURNAL_LINKS)
		return 0;
	return resting_is(q->resting, resting_key(h), now_ms) ? QUEUE_RESTS : 1;
}

int queue_ask(struct queue *q, const struct stub_handle *h, bool dir, uint64_t now_ms,
	      struct stub_journal_entry *out)
{
	int r = queue_waits(q, h, dir, now_ms, out);

	if (r == 1)
		given(q, now_ms, out);
	return r;
}

void queue_order(struct queue *q, const struct order *o)
{
	if (order_equal(&q->order, o))
		return;
	q->order = *o;
	q->in_pass = q->over = q->deep = q->last_now = false;
	q->next_pass_ms = q->asked_ms = 0;
}

void queue_last(struct queue *q, const struct queue_last *last)
{
	q->last = *last;
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

int queue_names_may_come(struct queue *q, struct stub_volume *v,
			 const struct stub_journal_counts *n)
{
	int r = journal_open(q);

	return r < 0 ? r : stub_names_may_come(v, q->journal, &q->names, n);
}
