/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * jobs.c - queues, joining and answering.
 *
 * A job is in the table, under its key, from its first ask until its last answer;
 * an ask for the same key meanwhile becomes one more waiter.  jobs.lock covers the
 * table, both queues and all lists of waiters; no source call, no disk access and
 * no answer happens under it (answers are collected first).
 */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"
#include "jobs/jobs_internal.h"

#define WORKER_STACK (512 * 1024)

/* ---- table ---- */

static uint32_t job_hash(const struct job *job)
{
	uint64_t h = stub_fnv(STUB_FNV, &job->kind, sizeof(job->kind));

	h = stub_fnv(h, job->h.bytes, job->h.len);
	h = stub_fnv(h, &job->block, sizeof(job->block));
	if (job->name)
		h = stub_fnv(h, job->name, job->name_len);
	return (uint32_t)(h ^ h >> 32);
}

static bool job_same(const struct job *a, const struct job *b)
{
	return a->hash == b->hash && a->kind == b->kind && a->block == b->block &&
	       a->length == b->length && a->name_len == b->name_len && stub_handle_equal(&a->h, &b->h) &&
	       (a->name_len == 0 || !memcmp(a->name, b->name, a->name_len));
}

static struct job *table_find(struct jobs *j, const struct job *key)
{
	struct job *job = j->table[key->hash % JOB_BUCKETS];

	while (job && !job_same(job, key))
		job = job->hash_next;
	return job;
}

static void table_add(struct jobs *j, struct job *job)
{
	struct job **head = &j->table[job->hash % JOB_BUCKETS];

	job->hash_next = *head;
	*head = job;
}

static void table_remove(struct jobs *j, struct job *job)
{
	struct job **p = &j->table[job->hash % JOB_BUCKETS];

	while (*p != job)
		p = &(*p)->hash_next;
	*p = job->hash_next;
}

/* ---- queues ---- */

static void queue_init(struct queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
	q->length = 0;
	pthread_cond_init(&q->wake, NULL);
}

static void queue_push(struct queue *q, struct job *job)
{
	job->queue_next = NULL;
	*q->tail = job;
	q->tail = &job->queue_next;
	q->length++;
	pthread_cond_signal(&q->wake);
}

static struct job *queue_pop(struct queue *q)
{
	struct job *job = q->head;

	if (job) {
		q->head = job->queue_next;
		if (!q->head)
			q->tail = &q->head;
		q->length--;
	}
	return job;
}

/* A client asks for what only the crawler wanted so far: to the front with it. */
static void queue_promote(struct jobs *j, struct job *job)
{
	struct job **p = &j->fill.head;

	if (!job->background || job->running)
		return;
	while (*p && *p != job)
		p = &(*p)->queue_next;
	if (!*p)
		return;
	*p = job->queue_next;
	if (!*p)
		j->fill.tail = p;
	j->fill.length--;
	job->background = false;
	queue_push(&j->demand, job);
}

void jobs_queue(struct jobs *j, struct job *job)
{
	queue_push(&j->demand, job);
}

/* ---- answering ---- */

/* @fd goes with a result of 0, -1: none. */
static void answer_all(struct waiter *w, int result, int fd)
{
	while (w) {
		struct waiter *next = w->next;

		if (result == 0 && fd >= 0)
			stub_request_pass(w->r, fd);
		else
			stub_request_answer(w->r, result);
		free(w);
		w = next;
	}
}

static bool request_ready(struct jobs *j, const struct stub_request *r, const struct stub_object *o)
{
	uint64_t end = r->ask.offset + r->ask.length;
	struct stub_range range;
	struct stub_map map;
	int n;

	if (r->ask.kind == STUB_ASK_ROOM)
		return stub_fill_room(j->c.volume, o, 0, &map) < STUB_MAP_WRITES;
	n = stub_fill_next(j->c.volume, o, r->ask.offset, &range);
	if (end < r->ask.offset)
		end = UINT64_MAX;
	return n == 0 || (n == 1 && range.start >= end);
}

void job_answer_ready(struct jobs *j, struct job *job, const struct stub_object *o)
{
	struct waiter *mine, *ready = NULL, **keep;

	pthread_mutex_lock(&j->lock);
	mine = job->waiters;
	job->waiters = NULL;
	pthread_mutex_unlock(&j->lock);

	keep = &mine;
	while (*keep) {
		struct waiter *w = *keep;

		if (request_ready(j, w->r, o)) {
			*keep = w->next;
			w->next = ready;
			ready = w;
		} else {
			keep = &w->next;
		}
	}
	if (mine) {
		pthread_mutex_lock(&j->lock);
		*keep = job->waiters; /* who came meanwhile */
		job->waiters = mine;
		pthread_mutex_unlock(&j->lock);
	}
	answer_all(ready, 0, -1);
}

static void job_free(struct job *job)
{
	if (job->pass_fd >= 0)
		close(job->pass_fd);
	free(job->name);
	free(job);
}

static void job_done(struct jobs *j, struct job *job, int result)
{
	struct waiter *w;
	bool ahead = job->ahead;

	pthread_mutex_lock(&j->lock);
	table_remove(j, job);
	j->retries -= job->retried;
	w = job->waiters;
	job->waiters = NULL;
	j->active--;
	pthread_mutex_unlock(&j->lock);
	answer_all(w, result, job->pass_fd);
	job_free(job);
	if (ahead)
		jobs_ahead_done(j);
}

/* ---- running ---- */

/* FILL of a directory is a LIST: join one that is under way, or become one. */
static bool become_list(struct jobs *j, struct job *job)
{
	struct job *other;
	bool joined = false;

	pthread_mutex_lock(&j->lock);
	table_remove(j, job);
	job->kind = STUB_ASK_LIST;
	job->hash = job_hash(job);
	other = table_find(j, job);
	if (other) {
		struct waiter **end = &other->waiters;

		while (*end)
			end = &(*end)->next;
		*end = job->waiters;
		job->waiters = NULL;
		j->active--;
		joined = true;
	} else {
		table_add(j, job);
	}
	pthread_mutex_unlock(&j->lock);
	return joined;
}

/* FILL: what is it, and what does it need?  Returns 1 if the job was joined to another. */
static int run_fill(struct jobs *j, struct job *job)
{
	struct stub_object o;
	int r = jobs_later(j, &job->h) ? -EAGAIN : stub_object_open(j->c.volume, &job->h, &o);

	if (r == -ENOENT || r == -ESTALE) { /* done, or a client removed it */
		stub_finisher_add_stale(j->c.finisher, &job->h);
		return 0;
	}
	if (r < 0)
		return jobs_failed(j, &job->h, r, "stub record");
	r = jobs_full_now(j);
	if (r == 0 && (o.needs & STUB_NEEDS_ATTRS))
		r = job_attr(j, job, &o);
	if (r == 0 && (o.needs & STUB_NEEDS_ENTRIES)) {
		if (become_list(j, job)) {
			stub_object_close(&o);
			job_free(job);
			return 1;
		}
		r = job_list(j, job, &o);
	} else if (r == 0 && (o.needs & STUB_NEEDS_REFUSED)) {
		r = job_refused(j, job, &o);
	} else if (r == 0 && o.type == S_IFREG) {
		r = job_fill_file(j, job, &o);
	}
	stub_object_close(&o);
	if (r == 0)
		stub_finisher_add(j->c.finisher, &job->h);
	return r;
}

static bool is_list(const struct job *job)
{
	return job->kind == STUB_ASK_LIST || job->kind == STUB_ASK_LEAVE;
}

/* As run_fill(): 1 if the job is held back. */
static int run_demand(struct jobs *j, struct job *job)
{
	struct stub_object o;
	int r = stub_object_open(j->c.volume, &job->h, &o);

	if (r == -ENOENT)
		return 0; /* normal by now */
	if (r == -ESTALE)
		return r;
	if (r < 0)
		return jobs_failed(j, &job->h, r, "stub record");
	if (job->kind == STUB_ASK_ATTR && !job->ahead && o.needs & STUB_NEEDS_ATTRS)
		jobs_ahead_asked(j, &o);
	if (o.needs & STUB_NEEDS_ATTRS)
		r = jobs_parked_now(j, &job->h) ? -EREMOTEIO : job_attr(j, job, &o);
	if (r == 0 && is_list(job) && (o.needs & STUB_NEEDS_ENTRIES)) {
		r = job->kind == STUB_ASK_LEAVE ? job_leave(j, job, &o) : job_list(j, job, &o);
		if (r == 0)
			stub_finisher_add(j->c.finisher, &job->h);
	}
	if (r == 0 && job->kind == STUB_ASK_DATA && o.type == S_IFREG && jobs_hold(j, job, &o)) {
		stub_object_close(&o);
		return 1;
	}
	if (r == 0 && job->kind == STUB_ASK_DATA && o.type == S_IFREG)
		r = jobs_full_now(j);
	if (r == 0 && job->kind == STUB_ASK_DATA && o.type == S_IFREG)
		r = job_data(j, job, &o);
	if (r == 0 && job->kind == STUB_ASK_ROOM && o.type == S_IFREG)
		r = job_room(j, job, &o);
	if (r == 0 && job->kind == STUB_ASK_PASS)
		r = job_pass(j, job, &o);
	stub_object_close(&o);
	return r;
}

static void run(struct jobs *j, struct job *job)
{
	atomic_uint_fast64_t *count;
	int r;

	jobs_began();
	switch (job->kind) {
	case STUB_ASK_LOOKUP:
		atomic_fetch_add(&j->lookups, 1);
		r = job_lookup(j, job);
		break;
	case STUB_ASK_FILL:
		atomic_fetch_add(&j->fills, 1);
		jobs_wait_turn(j, job, 0);
		r = run_fill(j, job);
		if (r == 1)
			return;
		break;
	default:
		count = is_list(job)		   ? &j->lists :
			job->kind == STUB_ASK_ATTR ? &j->attrs :
						     &j->data;
		r = run_demand(j, job);
		if (r == 1)
			return;
		atomic_fetch_add(count, 1);
		break;
	}
	if (r == -EINPROGRESS && job->background)
		jobs_note_later(j, &job->h);
	else if (r == -EINPROGRESS && jobs_put_off(j, job))
		return;
	job_done(j, job, r == -EINPROGRESS ? -EAGAIN : r);
}

struct worker {
	struct jobs *j;
	struct queue *q;
};

static void *worker_thread(void *arg)
{
	struct worker w = *(struct worker *)arg;
	struct jobs *j = w.j;
	struct job *job;

	free(arg);
	pthread_mutex_lock(&j->lock);
	while (!j->stop) {
		job = queue_pop(w.q);
		if (!job) {
			pthread_cond_wait(&w.q->wake, &j->lock);
			continue;
		}
		job->running = true;
		j->active++;
		pthread_mutex_unlock(&j->lock);
		run(j, job);
		pthread_mutex_lock(&j->lock);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* ---- submitting ---- */

static struct job *job_create(const struct jobs *j, const struct stub_ask *ask)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->pass_fd = -1;
	job->asked_ms = stub_now_ms();
	job->kind = ask->kind;
	job->h = ask->h;
	job->background = ask->kind == STUB_ASK_FILL;
	if (ask->kind == STUB_ASK_DATA) {
		job->block = ask->offset / j->c.block_bytes;
		strcpy(job->who, ask->who);
	}
	if (ask->kind == STUB_ASK_PASS) {
		job->block = ask->offset;
		job->length = ask->length;
	}
	if (ask->kind == STUB_ASK_LOOKUP) {
		job->name = malloc(ask->name_len + 1);
		if (!job->name) {
			free(job);
			return NULL;
		}
		memcpy(job->name, ask->name, ask->name_len);
		job->name[ask->name_len] = '\0';
		job->name_len = ask->name_len;
	}
	job->hash = job_hash(job);
	return job;
}

/* Join or queue; under the lock. */
static void submit_locked(struct jobs *j, struct job *job)
{
	struct job *other = table_find(j, job);

	if (other) {
		struct waiter **end = &other->waiters;

		while (*end)
			end = &(*end)->next;
		*end = job->waiters;
		other->asked_ms = job->asked_ms;
		if (!job->background)
			queue_promote(j, other);
		if (!job->background && other->held)
			jobs_held_joined(j, other, job->who);
		atomic_fetch_add(&j->joined, 1);
		job_free(job);
		return;
	}
	table_add(j, job);
	queue_push(job->background ? &j->fill : &j->demand, job);
}

/* Does it say that a client looks at the object, and may compare what it sees later? */
static bool is_looking(enum stub_ask_kind kind)
{
	return kind == STUB_ASK_DATA || kind == STUB_ASK_PASS || kind == STUB_ASK_LIST ||
	       kind == STUB_ASK_LEAVE;
}

void jobs_submit(struct jobs *j, struct stub_request *r)
{
	struct job *job = job_create(j, &r->ask);
	struct waiter *w = malloc(sizeof(*w));
	bool stopped;

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
	pthread_mutex_lock(&j->lock);
	stopped = j->stop;
	if (!stopped)
		submit_locked(j, job);
	pthread_mutex_unlock(&j->lock);
	if (stopped) {
		answer_all(w, -EAGAIN, -1);
		job_free(job);
	}
}

void jobs_read_ahead(struct jobs *j, const struct stub_handle *h, uint64_t block)
{
	struct stub_ask ask = { .kind = STUB_ASK_DATA, .h = *h, .offset = block * j->c.block_bytes };
	struct job *job = job_create(j, &ask);

	if (!job)
		return;
	job->background = true;
	pthread_mutex_lock(&j->lock);
	if (j->stop)
		job_free(job);
	else
		submit_locked(j, job);
	pthread_mutex_unlock(&j->lock);
}

void jobs_attr_ahead(struct jobs *j, const struct stub_handle *h)
{
	struct stub_ask ask = { .kind = STUB_ASK_ATTR, .h = *h };
	struct job *job = job_create(j, &ask);
	bool begun = false;

	if (job) {
		job->background = true;
		pthread_mutex_lock(&j->lock);
		if (j->stop || table_find(j, job)) {
			job_free(job);
		} else {
			begun = job->ahead = true;
			submit_locked(j, job);
		}
		pthread_mutex_unlock(&j->lock);
	}
	if (!begun)
		jobs_ahead_done(j);
}

/* ---- life ---- */

static int start_workers(struct jobs *j, struct queue *q, unsigned int n)
{
	pthread_attr_t attr;
	int r = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WORKER_STACK);
	for (unsigned int i = 0; i < n && r == 0; i++) {
		struct worker *w = malloc(sizeof(*w));

		if (!w) {
			r = ENOMEM;
			break;
		}
		*w = (struct worker){ j, q };
		r = pthread_create(&j->threads[j->n_threads], &attr, worker_thread, w);
		if (r)
			free(w);
		else
			j->n_threads++;
	}
	pthread_attr_destroy(&attr);
	return -r;
}

int jobs_create(const struct jobs_config *c, struct jobs **out)
{
	struct jobs *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return -ENOMEM;
	j->c = *c;
	pthread_mutex_init(&j->lock, NULL);
	pthread_mutex_init(&j->throttle_lock, NULL);
	pthread_mutex_init(&j->budget.lock, NULL);
	jobs_full_init(j);
	pthread_cond_init(&j->budget.freed, NULL);
	absent_init(&j->absent);
	absent_init(&j->parked);
	absent_init(&j->later);
	pthread_mutex_init(&j->blame.lock, NULL);
	stub_cond_init(&j->held_wake);
	j->budget.left[SOURCE_DEMAND] = c->buffer_bytes / 3;
	j->budget.left[SOURCE_BACKGROUND] = c->buffer_bytes - c->buffer_bytes / 3;
	queue_init(&j->demand);
	queue_init(&j->fill);
	j->threads = calloc(c->demand_workers + c->fill_workers, sizeof(pthread_t));
	r = j->threads ? recalls_create(c->recall_files_per_minute, c->recall_burst, &j->recalls) :
			 -ENOMEM;
	if (r == 0)
		r = reserve_start(&j->reserve, stub_volume_fd(c->volume));
	if (r == 0)
		r = jobs_held_start(j);
	if (r == 0)
		r = jobs_ahead_start(j);
	if (r == 0)
		r = start_workers(j, &j->demand, c->demand_workers);
	if (r == 0)
		r = start_workers(j, &j->fill, c->fill_workers);
	if (r < 0) {
		jobs_stop(j);
		jobs_destroy(j);
		return r;
	}
	*out = j;
	return 0;
}

static void drop_queued(struct jobs *j, struct queue *q)
{
	struct job *job;

	while ((job = queue_pop(q))) {
		answer_all(job->waiters, -EAGAIN, -1);
		table_remove(j, job);
		job_free(job);
	}
}

void jobs_stop(struct jobs *j)
{
	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	j->stop = true;
	atomic_store(&j->stopping, true);
	pthread_cond_broadcast(&j->demand.wake);
	pthread_cond_broadcast(&j->fill.wake);
	pthread_mutex_unlock(&j->lock);
	jobs_ahead_stop(j);
	for (unsigned int i = 0; i < j->n_threads; i++)
		pthread_join(j->threads[i], NULL);
	j->n_threads = 0;
	jobs_held_stop(j);
	reserve_stop(&j->reserve);
	drop_queued(j, &j->demand);
	drop_queued(j, &j->fill);
}

void jobs_destroy(struct jobs *j)
{
	if (!j)
		return;
	pthread_cond_destroy(&j->demand.wake);
	pthread_cond_destroy(&j->fill.wake);
	pthread_mutex_destroy(&j->lock);
	pthread_mutex_destroy(&j->throttle_lock);
	pthread_mutex_destroy(&j->budget.lock);
	jobs_full_finish(j);
	pthread_cond_destroy(&j->budget.freed);
	absent_finish(&j->absent);
	absent_finish(&j->parked);
	absent_finish(&j->later);
	pthread_mutex_destroy(&j->blame.lock);
	pthread_cond_destroy(&j->held_wake);
	recalls_destroy(j->recalls);
	jobs_ahead_destroy(j);
	free(j->threads);
	free(j);
}

void jobs_pause(struct jobs *j, bool paused)
{
	atomic_store(&j->paused, paused);
	jobs_new_turns(j);
}

void jobs_throttle(struct jobs *j, uint64_t bytes_per_second)
{
	atomic_store(&j->throttle, bytes_per_second);
	jobs_new_turns(j);
}

void jobs_stats(struct jobs *j, struct jobs_stats *out)
{
	*out = (struct jobs_stats){
		.fills = atomic_load(&j->fills),
		.lookups = atomic_load(&j->lookups),
		.lists = atomic_load(&j->lists),
		.attrs = atomic_load(&j->attrs),
		.data = atomic_load(&j->data),
		.joined = atomic_load(&j->joined),
		.bytes = atomic_load(&j->bytes),
		.entries = atomic_load(&j->entries),
		.errors = atomic_load(&j->errors),
		.conflicts = atomic_load(&j->conflicts),
		.lost = atomic_load(&j->lost),
		.touched = atomic_load(&j->touched),
		.acls = atomic_load(&j->acls),
		.times = atomic_load(&j->times),
		.paused = atomic_load(&j->paused),
		.throttle = atomic_load(&j->throttle),
	};
	jobs_full_stats(j, out);
	out->source_lost = jobs_source_lost(j);
	pthread_mutex_lock(&j->lock);
	out->active = j->active;
	out->queued = j->demand.length + j->fill.length;
	for (const struct job *job = j->held; job; job = job->queue_next)
		*(job->later_ms ? &out->later : &out->held) += 1;
	out->later += j->retries;
	pthread_mutex_unlock(&j->lock);
	out->later += absent_count(&j->later);
}
