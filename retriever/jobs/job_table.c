/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "jobs/job_table.h"
#include "jobs/latency.h"
#include "source/trace.h"

static void queue_init(struct queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
	q->length = 0;
	pthread_cond_init(&q->wake, NULL);
}

void job_table_init(struct job_table *t)
{
	pthread_mutex_init(&t->lock, NULL);
	queue_init(&t->demand);
	queue_init(&t->fill);
}

void job_table_finish(struct job_table *t)
{
	pthread_cond_destroy(&t->demand.wake);
	pthread_cond_destroy(&t->fill.wake);
	pthread_mutex_destroy(&t->lock);
}

static bool queue_moves(struct queue *q)
{
	bool stuck = q->length && q->idle && q->taken == q->seen;

	q->seen = q->taken;
	return !stuck;
}

bool job_table_moves(struct job_table *t)
{
	bool demand, fill;

	pthread_mutex_lock(&t->lock);
	demand = queue_moves(&t->demand);
	fill = queue_moves(&t->fill);
	pthread_mutex_unlock(&t->lock);
	return demand && fill;
}

/* ---- a job ---- */

static uint32_t hash_of(const struct job *job)
{
	uint64_t h = stub_fnv(STUB_FNV, &job->kind, sizeof(job->kind));

	h = stub_fnv(h, job->h.bytes, job->h.len);
	h = stub_fnv(h, &job->block, sizeof(job->block));
	if (job->name)
		h = stub_fnv(h, job->name, job->name_len);
	return (uint32_t)(h ^ h >> 32);
}

struct job *job_create(const struct stub_ask *ask, uint32_t block_bytes)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->pass_fd = -1;
	job->asked_ms = stub_now_ms();
	job->kind = ask->kind;
	job->trace = ask->id ? ask->id : trace_own();
	job->h = ask->h;
	job->background = ask->kind == STUB_ASK_FILL;
	if (ask->kind == STUB_ASK_DATA) {
		job->block = ask->offset / block_bytes;
		job->first = ask->offset;
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
	job->hash = hash_of(job);
	return job;
}

void job_free(struct job *job)
{
	if (job->pass_fd >= 0)
		close(job->pass_fd);
	free(job->name);
	free(job);
}

/* ---- the table ---- */

static bool is_same(const struct job *a, const struct job *b)
{
	return a->hash == b->hash && a->kind == b->kind && a->block == b->block &&
	       a->length == b->length && a->name_len == b->name_len && stub_handle_equal(&a->h, &b->h) &&
	       (a->name_len == 0 || !memcmp(a->name, b->name, a->name_len));
}

struct job *job_find(struct job_table *t, const struct job *key)
{
	struct job *job = t->bucket[key->hash % JOB_BUCKETS];

	while (job && !is_same(job, key))
		job = job->hash_next;
	return job;
}

struct job *job_of_block(struct job_table *t, const struct stub_handle *h, uint64_t block)
{
	struct job key = { .kind = STUB_ASK_DATA, .h = *h, .block = block };

	key.hash = hash_of(&key);
	return job_find(t, &key);
}

void job_add(struct job_table *t, struct job *job)
{
	struct job **head = &t->bucket[job->hash % JOB_BUCKETS];

	job->hash_next = *head;
	*head = job;
}

void job_remove(struct job_table *t, struct job *job)
{
	struct job **p = &t->bucket[job->hash % JOB_BUCKETS];

	while (*p != job)
		p = &(*p)->hash_next;
	*p = job->hash_next;
}

void job_rename(struct job_table *t, struct job *job, enum stub_ask_kind kind)
{
	job_remove(t, job);
	job->kind = kind;
	job->hash = hash_of(job);
}

void job_join(struct job *other, struct job *job)
{
	struct waiter **end = &other->waiters;

	while (*end)
		end = &(*end)->next;
	*end = job->waiters;
	job->waiters = NULL;
	/* not who asks once more, since the answer takes long */
	other->wants_more = other->wants_more || (!job->background && job->first > other->first);
}

/* ---- queues ---- */

static void push(struct queue *q, struct job *job)
{
	job->queue_next = NULL;
	*q->tail = job;
	q->tail = &job->queue_next;
	q->length++;
	pthread_cond_signal(&q->wake);
	if (q->more && q->length > q->idle)
		q->more(q->more_arg, q);
}

void job_queue(struct job_table *t, struct job *job)
{
	push(job->background ? &t->fill : &t->demand, job);
}

void job_demand(struct job_table *t, struct job *job)
{
	push(&t->demand, job);
}

struct job *job_pop(struct queue *q)
{
	struct job *job = q->head;

	if (job) {
		q->head = job->queue_next;
		if (!q->head)
			q->tail = &q->head;
		q->length--;
		q->taken++;
	}
	return job;
}

void job_promote(struct job_table *t, struct job *job)
{
	struct job **p = &t->fill.head;

	if (!job->background)
		return;
	if (job->running) {
		atomic_store(&job->wanted, true);
		if (job->hurry)
			job->hurry(job->hurry_arg);
		return;
	}
	while (*p && *p != job)
		p = &(*p)->queue_next;
	if (!*p)
		return;
	*p = job->queue_next;
	if (!*p)
		t->fill.tail = p;
	t->fill.length--;
	job->background = false;
	push(&t->demand, job);
}

/* ---- answers ---- */

void job_answer(struct waiter *w, int result, int fd)
{
	while (w) {
		struct waiter *next = w->next;
		uint64_t took = stub_now_ms() - w->r->since_ms;

		latency_note(w->r->ask.kind, took);
		trace(w->r->ask.id, "answered: %s after %llu ms%s", stub_result_text(result),
		      (unsigned long long)took,
		      result == 0 && fd >= 0 ? ", passed on" : "");
		if (result == 0 && fd >= 0)
			stub_request_pass(w->r, fd);
		else
			stub_request_answer(w->r, result);
		free(w);
		w = next;
	}
}

static bool is_ready(const struct stub_request *r, const struct stub_map *left)
{
	uint64_t end = r->ask.offset + r->ask.length;

	if (r->ask.kind == STUB_ASK_ROOM)
		return left->n < STUB_MAP_WRITES;
	return !stub_map_overlaps(left, r->ask.offset, end < r->ask.offset ? UINT64_MAX : end);
}

void job_answer_ready(struct job_table *t, struct job *job, const struct stub_map *left)
{
	struct waiter *mine, *ready = NULL, **keep;

	pthread_mutex_lock(&t->lock);
	mine = job->waiters;
	job->waiters = NULL;
	pthread_mutex_unlock(&t->lock);

	keep = &mine;
	while (*keep) {
		struct waiter *w = *keep;

		if (is_ready(w->r, left)) {
			*keep = w->next;
			w->next = ready;
			ready = w;
		} else {
			keep = &w->next;
		}
	}
	if (mine) {
		pthread_mutex_lock(&t->lock);
		*keep = job->waiters; /* and those that have joined meanwhile */
		job->waiters = mine;
		pthread_mutex_unlock(&t->lock);
	}
	job_answer(ready, 0, -1);
}
