/* SPDX-License-Identifier: GPL-3.0-or-later */
/* job_submit.c - an ask becomes a job, or joins the one that is doing the same already. */
#include "jobs/jobs_internal.h"

/* Under the lock: queue @job, or free it and let its waiters join a job that does the same.
 * Returns the name in the log (trace.h) of the job that was joined, 0: none was. */
static uint64_t submit(struct jobs *j, struct job *job)
{
	struct job *other = job_find(&j->table, job);
	uint64_t joined = other ? other->trace : 0;

	if (!other) {
		job_add(&j->table, job);
		job_queue(&j->table, job);
		return 0;
	}
	job_join(other, job);
	other->asked_ms = job->asked_ms;
	if (!job->background)
		job_promote(&j->table, other);
	if (!job->background && other->held)
		jobs_held_joined(j, other, job->who);
	atomic_fetch_add(&j->n.joined, 1);
	job_free(job);
	return joined;
}

/* ---- telling of it ---- */

static void tell_received(const struct stub_request *r)
{
	char text[STUB_ASK_TEXT];

	if (!trace_on())
		return;
	stub_ask_text(&r->ask, text, sizeof(text));
	trace(r->ask.id, "received from process %d: %s", (int)r->pid, text);
}

static void tell_joined(uint64_t id, uint64_t joined)
{
	char name[TRACE_NAME];

	if (joined)
		trace(id, joined == id ? "sent again, %s is under way" : "joins %s",
		      trace_name(joined, name));
}

/* ---- taking one in ---- */

/* Is it an ask of a client that looks at the object, and may compare its times later? */
static bool is_looking(enum stub_ask_kind kind)
{
	return kind == STUB_ASK_DATA || kind == STUB_ASK_PASS || kind == STUB_ASK_LIST ||
	       kind == STUB_ASK_LEAVE;
}

void jobs_submit(struct jobs *j, struct stub_request *r)
{
	struct job *job = job_create(&r->ask, j->c.block_bytes);
	struct waiter *w = malloc(sizeof(*w));
	uint32_t id = r->ask.id;
	uint64_t joined = 0;
	bool stopped, client = r->ask.kind != STUB_ASK_FILL;

	tell_received(r);

	if (!job || !w) {
		if (job)
			job_free(job);
		free(w);
		stub_request_answer(r, -EAGAIN);
		return;
	}
	*w = (struct waiter){ .r = r };
	job->waiters = w;
	if (is_looking(r->ask.kind))
		stub_finisher_touch(j->c.finisher, &r->ask.h);
	pthread_mutex_lock(&j->table.lock);
	stopped = j->table.stop;
	if (!stopped)
		joined = submit(j, job);
	pthread_mutex_unlock(&j->table.lock);
	tell_joined(id, joined);
	if (joined && client)
		source_hurry(j->c.source, joined);
	if (stopped) {
		job_answer(w, -EAGAIN, -1);
		job_free(job);
	}
}

/* A job of the background that nobody waits for. */
static void submit_alone(struct jobs *j, const struct stub_ask *ask)
{
	struct job *job = job_create(ask, j->c.block_bytes);

	if (!job)
		return;
	job->background = true;
	pthread_mutex_lock(&j->table.lock);
	if (j->table.stop)
		job_free(job);
	else
		submit(j, job);
	pthread_mutex_unlock(&j->table.lock);
}

/* Does the job of the block before bring what is before @end as well, for somebody who reads across? */
static bool is_brought(struct jobs *j, const struct stub_handle *h, uint64_t block, uint64_t end)
{
	struct job *before;
	bool is;

	pthread_mutex_lock(&j->table.lock);
	before = block > 0 ? job_of_block(&j->table, h, block - 1) : NULL;
	is = before && before->end >= end;
	pthread_mutex_unlock(&j->table.lock);
	return is;
}

void jobs_read_ahead(struct jobs *j, const struct stub_object *o, uint64_t block)
{
	uint64_t end = (block + 1) * j->c.block_bytes;
	const struct stub_handle *h = &o->h;

	if (is_brought(j, h, block, end < o->size ? end : o->size))
		return;
	submit_alone(j, &(struct stub_ask){ .kind = STUB_ASK_DATA,
					    .h = *h,
					    .offset = block * j->c.block_bytes });
}

void jobs_fill(struct jobs *j, const struct stub_handle *h)
{
	submit_alone(j, &(struct stub_ask){ .kind = STUB_ASK_FILL, .h = *h });
}

bool jobs_attr_ahead(struct jobs *j, const struct stub_handle *h)
{
	struct stub_ask ask = { .kind = STUB_ASK_ATTR, .h = *h };
	struct job *job = job_create(&ask, j->c.block_bytes);
	bool begun = false;

	if (job) {
		job->background = true;
		pthread_mutex_lock(&j->table.lock);
		if (j->table.stop || job_find(&j->table, job)) {
			job_free(job);
		} else {
			begun = job->ahead = true;
			submit(j, job);
		}
		pthread_mutex_unlock(&j->table.lock);
	}
	return begun;
}
