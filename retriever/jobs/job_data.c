/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_data.c - bytes: DATA (a block for a waiting client), FILL (a whole file) and
 * ROOM (the smallest missing ranges, for the sake of the record).
 *
 * One worker drives one transfer: it keeps a window of READs in flight, starting
 * where a client waits, and stores what comes back, in the order in which it comes (stub_fill_data,
 * which writes only what is still missing).  Until the client's first bytes have come no other READ
 * is sent: the line, the old server and the processors are theirs.  A READ's answer arrives on a
 * thread of the source; it is copied into a buffer and handed to the worker, so that nothing but a
 * copy happens there.  Of a client that reads in order the READs after that do not wait, and the next
 * blocks are read ahead, by transfers of their own.  Buffers come from a budget of their own for clients and crawler.
 *
 * A fill for the crawler ends after SLICE_MS, done or not: the crawler asks again, and what
 * came in between has its turn.  A file of 100 TiB, all hole, holds nobody up.  What was on its
 * way then is waited for, and if nothing else is missing it is done.
 *
 * Every answer carries the object's attributes; if they are not those of the
 * listing, the bytes are thrown away and the object is a conflict.  Bytes of two
 * versions are never mixed (docs/decisions/0037).
 *
 * Of what was stored the digest is taken (job_digest.c): after a client was answered.
 */
#include <stdio.h>
#include <unistd.h>

#include "jobs/job_holes.h"

#define WINDOW 8		 /* READs in flight for one transfer */
#define AHEAD_MOST 4		 /* blocks */
#define FIRST_READ (128 * 1024u) /* the waiting client's first: small and alone, so fast */
#define SLICE_MS	5000   /* so long one file is filled for the crawler without a break */
#define ROOM_BYTES	(64u << 20)  /* about as much is fetched to make room once */
#define SHARE_BYTES	(1ull << 30) /* so much is shared in one exclusion */

struct chunk {
	struct chunk *next;
	struct transfer *t;
	uint64_t offset;
	uint32_t length;
	int64_t result;
	bool have_attr;
	struct stub_attr attr;
	char *data;
};

struct transfer {
	struct jobs *j;
	struct job *job;
	const struct stub_object *o;
	enum source_priority priority;
	enum budget_whose budget; /* whose memory: a paused crawler may hold all of its own */
	uint64_t end;	/* one past the last byte wanted */
	uint64_t next;	/* where to look for the next missing byte */
	uint64_t until_ms; /* no READ begins after; 0: no limit */
	uint64_t wrap;	/* second leg: from here (the start of the range) ... */
	uint64_t wrap_end; /* ... to where the first leg began */
	const struct stub_map *only; /* nothing but these ranges; NULL: all */
	bool small_first; /* the next READ is the one that a client waits for */
	bool in_order; /* the client is one that will need the rest */
	bool first_only; /* what a client waits for is in flight: no other one is sent */
	bool ahead; /* what comes next was asked for */
	struct holes holes; /* of a whole file */
	bool touched; /* note_touched() has counted it */
	int pass_fd; /* read into it what is asked for, not what is missing; -1: fill */
	uint64_t pass_start; /* first byte in it */
	unsigned int inflight;
	int error;
	int64_t left; /* missing bytes in the file after the last store, -1 unknown ... */
	struct stub_map missing; /* ... and which */
	bool fresh; /* o->missing, of when the object was opened, has not been used yet */
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct chunk *done, **done_end; /* what came first is first */
};

static void chunk_free(struct chunk *c)
{
	budget_give(&c->t->j->budget, c->t->budget, c->length);
	free(c->data);
	free(c);
}

static void put_done(struct chunk *c)
{
	struct transfer *t = c->t;

	pthread_mutex_lock(&t->lock);
	*t->done_end = c;
	t->done_end = &c->next;
	pthread_cond_signal(&t->arrived);
	pthread_mutex_unlock(&t->lock);
}

/* On a thread of the source. */
static void chunk_arrived(void *arg, const struct source_read *r)
{
	struct chunk *c = arg;

	c->result = r->result;
	c->have_attr = r->have_attr;
	if (r->have_attr)
		c->attr = r->attr;
	if (r->result > 0) {
		c->data = malloc((size_t)r->result);
		if (c->data)
			memcpy(c->data, r->data, (size_t)r->result);
		else
			c->result = -ENOMEM;
	}
	put_done(c);
}

/* Where the transfer looks next for missing bytes.  False: this leg is over. */
static bool next_part(struct transfer *t, struct stub_range *out)
{
	if (t->only)
		return stub_map_first(t->only, t->next, t->end, out);
	*out = (struct stub_range){ t->next, t->end };
	return t->next < t->end;
}

/* What is missing at or after @from: first as o->missing has it, later from the record. */
static int next_missing(struct transfer *t, uint64_t from, struct stub_range *out)
{
	const struct stub_range *first = &t->o->missing;
	bool fresh = t->fresh;

	if (from >= t->o->size || t->left == 0) /* nothing is missing behind the end; a map never grows */
		return 0;
	t->fresh = false;
	if (!fresh || from < first->start || from >= first->end)
		return stub_fill_next(t->j->c.volume, t->o, from, out);
	*out = (struct stub_range){ from, first->end };
	return 1;
}

/* The next missing range of the transfer, at most @max bytes: 1, 0 none, -errno. */
static int next_range(struct transfer *t, uint32_t max, struct stub_range *out)
{
	struct stub_range part;

	for (;;) {
		int r;

		while (next_part(t, &part)) {
			*out = part;
			r = t->pass_fd >= 0 ? 1 : next_missing(t, part.start, out);
			if (r < 0)
				return r;
			if (r == 0)
				break;
			t->next = part.end;
			if (out->start < part.end) {
				if (out->end > part.end)
					out->end = part.end;
				if (out->end - out->start > max)
					out->end = out->start + max;
				t->next = out->end;
				return 1;
			}
		}
		if (t->wrap >= t->wrap_end)
			return 0;
		t->next = t->wrap;
		t->end = t->wrap_end;
		t->wrap = t->wrap_end;
	}
}

/* True: what comes next is a hole, and was left one. */
static bool leave_hole(struct transfer *t, struct stub_range *range)
{
	int64_t left;

	switch (holes_next(t->j, t->job, t->o, &t->holes, t->inflight == 0, range, &left)) {
	case HOLES_LEFT:
		digests_zeros(&t->j->digests, t->o, range->start, range->end);
		t->left = left;
		t->next = range->end;
		return true;
	case HOLES_WAIT:
		t->next = range->start;
		range->end = range->start;
		return false;
	default:
		t->next = range->end;
		return false;
	}
}

/* Is it what has come with the attributes, all of the file?  Then it has arrived.  If not, that is of
 * no use, and its memory is given back before other memory is waited for. */
static bool use_brought(struct transfer *t, struct chunk *c)
{
	struct brought *b = t->job->brought;
	bool all = b && t->pass_fd < 0 && !c->offset && c->length == b->len && t->o->size == b->len;

	t->job->brought = NULL;
	if (all) {
		c->result = b->len;
		c->have_attr = true;
		c->attr = b->attr;
		c->data = b->bytes;
		b->bytes = NULL;
		b->charge -= c->length; /* the rest is the chunk's */
		put_done(c);
	}
	jobs_brought_free(t->j, b);
	return all;
}

/* Send READs until the window is full.  1: something is in flight. */
static int send_reads(struct transfer *t)
{
	while (t->error == 0 && t->inflight < WINDOW && !t->first_only) {
		uint32_t max = t->small_first ? FIRST_READ : t->j->limits.read_bytes;
		struct stub_range range;
		struct chunk *c;
		int r;

		if (max > t->j->limits.read_bytes)
			max = t->j->limits.read_bytes;
		r = next_range(t, max, &range);
		if (r <= 0) {
			t->error = r;
			break;
		}
		if (t->until_ms && stub_now_ms() >= t->until_ms) {
			t->error = -EAGAIN; /* the rest another time */
			break;
		}
		t->first_only = t->small_first && !t->in_order;
		t->small_first = false;
		if (t->holes.wanted && leave_hole(t, &range))
			continue;
		if (range.start == range.end)
			break;
		c = calloc(1, sizeof(*c));
		if (!c) {
			t->error = -ENOMEM;
			break;
		}
		c->t = t;
		c->offset = range.start;
		c->length = (uint32_t)(range.end - range.start);
		if (use_brought(t, c)) {
			t->inflight++;
			continue;
		}
		/* wait for memory only when nothing of ours is in flight */
		if (t->inflight == 0) {
			budget_take(&t->j->budget, t->budget, c->length);
		} else if (!budget_try(&t->j->budget, t->budget, c->length)) {
			t->next = range.start;
			free(c);
			break;
		}
		job_wait_turn(t->j, t->job, c->length);
		r = source_read(t->j->c.source, t->priority, &t->o->origin, c->offset, c->length,
				chunk_arrived, c);
		if (r < 0) {
			chunk_free(c);
			t->error = r;
			break;
		}
		t->inflight++;
	}
	return t->inflight > 0;
}

static struct chunk *wait_chunk(struct transfer *t)
{
	struct chunk *c;

	pthread_mutex_lock(&t->lock);
	while (!t->done)
		pthread_cond_wait(&t->arrived, &t->lock);
	c = t->done;
	t->done = c->next;
	if (!t->done)
		t->done_end = &t->done;
	pthread_mutex_unlock(&t->lock);
	t->inflight--;
	t->first_only = false;
	return c;
}

/* Attributes alone have changed over there: count it, once for this transfer. */
static void note_touched(struct transfer *t)
{
	struct stat st;

	if (t->touched)
		return;
	t->touched = true;
	if (atomic_fetch_add(&t->j->n.touched, 1) % 1000 == 0 && fstat(t->o->fd, &st) == 0)
		jobs_log(t->j, STUB_LOG_WARN,
			 "inode %llu: its attributes, not its content, have changed on the old "
			 "server since it was listed: not taken over (said of every 1000th)",
			 (unsigned long long)st.st_ino);
}

/* Is it still what was listed?  0, or what the waiters get. */
static int check_version(struct transfer *t, struct chunk *c)
{
	char why[STUB_REASON_MAX + 1];

	if (!c->have_attr) {
		int r = source_getattr(t->j->c.source, t->priority, &t->o->origin, &c->attr);

		if (r < 0)
			return jobs_failed(t->j, &t->o->h, r, "attributes");
	}
	if (jobs_changed(t->o, &c->attr, why, sizeof(why)))
		return jobs_conflict(t->j, &t->o->h, why);
	if (jobs_touched(t->o, &c->attr))
		note_touched(t);
	return 0;
}

static int pass_chunk(struct transfer *t, const struct chunk *c)
{
	int r = stub_io_pwrite(t->pass_fd, c->data, c->length, c->offset - t->pass_start);

	return r < 0 ? jobs_failed(t->j, &t->o->h, r, "memory for passing data on") : 0;
}

/* Is something missing before @c?  Then @c splits a range of the map, which takes room. */
static bool in_between(const struct transfer *t, const struct chunk *c)
{
	struct stub_range first;

	return stub_fill_next(t->j->c.volume, t->o, 0, &first) == 1 && first.start < c->offset;
}

/* 0, or what the waiters get. */
static int store_chunk(struct transfer *t, struct chunk *c)
{
	int64_t left;
	int r;

	if (c->result < 0)
		return jobs_failed(t->j, &t->o->h, (int)c->result, "read");
	r = check_version(t, c);
	if (r < 0)
		return r;
	if (c->result != c->length)
		return jobs_failed(t->j, &t->o->h, -EIO, "read: shorter than the size says");
	if (t->pass_fd >= 0)
		return pass_chunk(t, c);
	left = stub_fill_data_left(t->j->c.volume, t->o, c->offset, c->data, c->length,
				   &t->missing);
	if (left == -ENOENT) /* finished by somebody else */
		left = 0;
	if (left == -EBUSY)
		return jobs_conflict(t->j, &t->o->h, JOBS_LOCAL);
	if (left == -EOVERFLOW && in_between(t, c))
		left = -E2BIG;
	if (left == -E2BIG) /* stays missing; the whole-file fill takes it from the front */
		return -E2BIG;
	if (left < 0)
		return jobs_store_failed(t->j, &t->o->h, FULL_BYTES, (int)left,
					 "write to the new volume");
	jobs_stored(t->j, FULL_BYTES);
	atomic_fetch_add(&t->j->n.bytes, c->length);
	recalls_bytes(t->j->held.recalls, t->job->who, c->length, stub_now_us());
	if (t->job->kind == STUB_ASK_FILL) /* nobody waits for it */
		digests_add(&t->j->digests, t->o, c->offset, c->data, c->length);
	t->left = left;
	partly_note(&t->j->partly, &t->o->h, t->o->size, (uint64_t)left);
	return 0;
}

int jobs_know_limits(struct jobs *j)
{
	struct source_limits l;
	int r;

	if (atomic_load(&j->limits_known))
		return 0;
	r = source_limits(j->c.source, &l);
	if (r < 0)
		return r;
	pthread_mutex_lock(&j->table.lock);
	j->limits = l;
	pthread_mutex_unlock(&j->table.lock);
	atomic_store(&j->limits_known, true);
	return 0;
}

/* ---- reading ahead ---- */

/* How many blocks before @block are here, 1, 2 or 4 of them, as after a client that reads in order; 0: none. */
static unsigned int here_before(struct jobs *j, const struct stub_object *o, uint64_t block)
{
	uint64_t start = block * j->c.block_bytes;
	unsigned int here = 0;
	struct stub_range range;

	for (unsigned int n = 1; n <= AHEAD_MOST && n <= block; n *= 2) {
		int r = stub_fill_next(j->c.volume, o, start - (uint64_t)n * j->c.block_bytes, &range);

		if (r < 0 || (r > 0 && range.start < start))
			break;
		here = n;
	}
	return here;
}

/* Has a client asked for a byte of @job; for more than the first one did? */
static bool asked_for(struct jobs *j, const struct job *job, bool *more)
{
	bool asked;

	pthread_mutex_lock(&j->table.lock);
	asked = !job->background || job->wanted;
	*more = job->wants_more;
	pthread_mutex_unlock(&j->table.lock);
	return asked;
}

/*
 * A client that has come to a block in order will want the next ones: the more, the longer it has done
 * so.  They are asked for when it has its first bytes, or has come to a block that is being read ahead.
 * Of the first block nobody knows until it asks for more: it may have been for a look at the beginning.
 */
static void read_ahead(struct transfer *t)
{
	struct jobs *j = t->j;
	uint64_t block = t->job->block;
	unsigned int n;
	bool more;

	if (t->ahead || t->job->kind != STUB_ASK_DATA || t->pass_fd >= 0 || t->only ||
	    !asked_for(j, t->job, &more) || (block == 0 && !more))
		return;
	t->ahead = true;
	n = block == 0 ? 1 : 2 * here_before(j, t->o, block);
	for (unsigned int i = 1; i <= n && i <= AHEAD_MOST && (block + i) * j->c.block_bytes < t->o->size; i++)
		jobs_read_ahead(j, t->o, block + i);
}

/* ---- a transfer ---- */

/* Drive the transfer to its end.  0, or what the waiters get. */
static int transfer_run(struct transfer *t)
{
	int result = jobs_know_limits(t->j);

	if (result < 0)
		return jobs_failed(t->j, &t->o->h, result, "limits of the old server");
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->arrived, NULL);
	t->done_end = &t->done;
	while (send_reads(t)) {
		struct chunk *c = wait_chunk(t);
		int r = store_chunk(t, c);

		if (r < 0 && result == 0) {
			result = r;
			t->error = r; /* no new READs; drain what is in flight */
		}
		if (r == 0 && t->pass_fd < 0 && t->job->kind != STUB_ASK_FILL) {
			job_answer_ready(&t->j->table, t->job, &t->missing);
			read_ahead(t);
			digests_later(&t->j->digests, t->o, c->offset, &c->data, c->length);
		}
		chunk_free(c);
		if (atomic_load(&t->j->stopping) && t->error == 0)
			t->error = -ECANCELED;
	}
	pthread_cond_destroy(&t->arrived);
	pthread_mutex_destroy(&t->lock);
	if (result < 0)
		return result;
	return t->error < 0 ? jobs_failed(t->j, &t->o->h, t->error, "fill") : 0;
}

/* A transfer that fills the file of @job, from its beginning to its end. */
static struct transfer transfer_of(struct jobs *j, struct job *job, const struct stub_object *o)
{
	return (struct transfer){
		.j = j,
		.job = job,
		.o = o,
		.priority = job_priority(job),
		.budget = job->kind == STUB_ASK_FILL ? BUDGET_CRAWLER : BUDGET_CLIENTS,
		.end = UINT64_MAX,
		.pass_fd = -1,
		.left = -1,
		.fresh = true,
	};
}

/* All that was wanted has come: @left bytes are missing in the file, -1: not known. */
static void hand_in(struct jobs *j, const struct stub_object *o, int64_t left)
{
	if (left == 0 && o->nlink == 1)
		stub_finisher_add_whole(j->c.finisher, &o->h);
	else
		stub_finisher_add(j->c.finisher, &o->h);
}

/*
 * Take [offset, end) from the source by sharing blocks, if it is on the volume's own file system.
 * It is not throttled: nothing is read.  What stays missing, for whatever reason, is read
 * then, and who reads meets the reason again.
 */
static void share(struct transfer *t, uint64_t offset, uint64_t end)
{
	struct jobs *j = t->j;
	uint64_t next;
	int64_t left = 0;
	int fd, r;

	if (atomic_load(&j->shares_nothing))
		return;
	r = source_open(j->c.source, t->priority, &t->o->origin, &fd);
	if (r == -EOPNOTSUPP)
		atomic_store(&j->shares_nothing, true);
	if (r < 0)
		return;
	if (end > t->o->size)
		end = t->o->size;
	for (; offset < end && left >= 0 && !atomic_load(&j->stopping); offset = next) {
		next = end - offset > SHARE_BYTES ? offset + SHARE_BYTES : end;
		left = stub_fill_clone(j->c.volume, t->o, fd, offset, next, &t->missing);
		if (left == -EXDEV)
			atomic_store(&j->shares_nothing, true);
		if (left < 0)
			continue;
		t->left = left;
		t->fresh = false;
		atomic_fetch_add(&j->n.bytes, next - offset);
		if (t->job->kind != STUB_ASK_FILL)
			job_answer_ready(&j->table, t->job, &t->missing);
	}
	close(fd);
}

int job_fill_file(struct jobs *j, struct job *job, struct stub_object *o)
{
	struct transfer t = transfer_of(j, job, o);
	int r;

	share(&t, 0, o->size);
	t.until_ms = stub_now_ms() + SLICE_MS;
	holes_init(&t.holes);
	r = transfer_run(&t);
	holes_finish(&t.holes);
	if (r == 0)
		hand_in(j, o, t.left);
	return r == -E2BIG ? -EAGAIN : r;
}

int job_fetch(struct jobs *j, struct job *job, struct stub_object *o, uint64_t offset,
	      uint64_t length, int fd)
{
	struct transfer t = transfer_of(j, job, o);

	t.budget = BUDGET_CLIENTS;
	t.next = t.pass_start = offset;
	t.end = offset + length;
	t.pass_fd = fd;
	return transfer_run(&t);
}

/* Where the first waiter waits, and how far any of them needs to see; the next block comes with it unless
 * somebody brings that already. */
static void waiters_range(struct jobs *j, struct job *job, uint64_t *first, uint64_t *end)
{
	uint64_t start = job->block * j->c.block_bytes;
	uint64_t most = start + 2 * (uint64_t)j->c.block_bytes;

	*first = start;
	*end = start + j->c.block_bytes;
	pthread_mutex_lock(&j->table.lock);
	for (struct waiter *w = job->waiters; w; w = w->next) {
		uint64_t to = w->r->ask.offset + w->r->ask.length;

		if (w == job->waiters && w->r->ask.offset > start)
			*first = w->r->ask.offset;
		if (to > *end && to >= w->r->ask.offset)
			*end = to;
	}
	if (*end > most)
		*end = most;
	if (job_of_block(&j->table, &job->h, job->block + 1))
		*end = start + j->c.block_bytes;
	job->end = *end;
	pthread_mutex_unlock(&j->table.lock);
}

int job_data(struct jobs *j, struct job *job, struct stub_object *o)
{
	uint64_t start = job->block * j->c.block_bytes, first;
	struct transfer t = transfer_of(j, job, o);
	int r;

	waiters_range(j, job, &first, &t.end);
	t.next = t.wrap_end = first;
	t.wrap = start;
	t.small_first = !job->background;
	t.in_order = t.small_first && here_before(j, o, job->block) > 0;
	share(&t, start, t.end);
	r = transfer_run(&t);
	o->missing.end = 0; /* no longer right */
	if (r == -E2BIG && job_room(j, job, o) == 0) {
		t = transfer_of(j, job, o);
		t.next = first;
		t.end = start + j->c.block_bytes;
		r = transfer_run(&t);
	}
	if (r == -E2BIG) /* too fragmented still: the whole file, from the front */
		return job_fill_file(j, job, o);
	if (r == 0 && t.left == 0)
		hand_in(j, o, t.left);
	return r;
}

/*
 * A map near its limit: fetch the smallest gaps, many at a time, so that writes all over
 * a file wait once in a while and not one by one.
 */
int job_room(struct jobs *j, struct job *job, struct stub_object *o)
{
	struct stub_map only;
	struct transfer t = transfer_of(j, job, o);
	int r = stub_fill_room(j->c.volume, o, ROOM_BYTES, &only);

	if (r < 0)
		return jobs_failed(j, &job->h, r, "stub record");
	t.only = &only;
	r = transfer_run(&t);
	if (r == -E2BIG) /* of a part that came out of order; others have made room */
		r = 0;
	if (r == 0 && t.left == 0)
		hand_in(j, o, t.left);
	return r;
}
