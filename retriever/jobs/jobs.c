/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * jobs.c - the workers: what is done of a job, and in which order.
 */
#include "jobs/jobs_internal.h"
#include "source/background.h"

#define WORKER_STACK  (512 * 1024)
#define WORKERS_FIRST 8 /* of each queue, from the start */

/* ---- running ---- */

/* A worker takes it up; for the first time, or again. */
static void tell_begun(struct jobs *j, const struct job *job)
{
	char path[1024] = "?", shown[2048];

	if (!trace_on())
		return;
	jobs_path(j, &job->h, path, sizeof(path));
	stub_printable(path, strlen(path), shown, sizeof(shown));
	trace(job->trace, "%s, \"%s\"%s", job->background ? "worked on in the background" : "worked on",
	      shown, job->due_us || job->later_ms ? ", was held back" : "");
}

static void job_done(struct jobs *j, struct job *job, int result)
{
	struct waiter *w;
	bool ahead = job->ahead;

	pthread_mutex_lock(&j->table.lock);
	job_remove(&j->table, job);
	j->held.retries -= job->retried;
	w = job->waiters;
	job->waiters = NULL;
	j->table.active--;
	pthread_mutex_unlock(&j->table.lock);
	job_answer(w, result, job->pass_fd);
	trace(job->trace, "ended: %s", stub_result_text(result));
	job_free(job);
	if (ahead)
		jobs_ahead_done(j);
}

/* FILL of a directory is a LIST: join one that is under way, or become one. */
static bool become_list(struct jobs *j, struct job *job)
{
	struct job *other;
	char name[TRACE_NAME];
	uint64_t joined = 0;

	pthread_mutex_lock(&j->table.lock);
	job_rename(&j->table, job, STUB_ASK_LIST);
	other = job_find(&j->table, job);
	if (other) {
		joined = other->trace;
		job_join(other, job);
		j->table.active--;
	} else {
		job_add(&j->table, job);
	}
	pthread_mutex_unlock(&j->table.lock);
	if (joined)
		trace(job->trace, "joins %s", trace_name(joined, name));
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
	r = full_now(&j->full);
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
	if (r == 0 && o.type != S_IFREG) /* job_fill_file() hands in what it has filled */
		stub_finisher_add(j->c.finisher, &job->h);
	stub_object_close(&o);
	jobs_brought_free(j, job->brought);
	job->brought = NULL;
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
		r = full_now(&j->full);
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
	bool client = !job->background;
	enum stub_ask_kind kind = job->kind;
	struct stub_handle h = job->h;
	atomic_uint_fast64_t *count;
	int r;

	jobs_began();
	trace_of = job->trace;
	tell_begun(j, job);
	switch (job->kind) {
	case STUB_ASK_LOOKUP:
		atomic_fetch_add(&j->n.lookups, 1);
		r = job_lookup(j, job);
		break;
	case STUB_ASK_FILL:
		atomic_fetch_add(&j->n.fills, 1);
		job_wait_turn(j, job, 0);
		r = run_fill(j, job);
		if (r == 1)
			return;
		break;
	default:
		count = is_list(job)		   ? &j->n.lists :
			job->kind == STUB_ASK_ATTR ? &j->n.attrs :
						     &j->n.data;
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
	if (client && r == 0)
		jobs_heat(j, kind, &h);
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
	if (w.q == &j->table.fill)
		background_thread();
	pthread_mutex_lock(&j->table.lock);
	while (!j->table.stop) {
		job = job_pop(w.q);
		if (!job) {
			w.q->idle++;
			pthread_cond_wait(&w.q->wake, &j->table.lock);
			w.q->idle--;
			continue;
		}
		job->running = true;
		j->table.active++;
		pthread_mutex_unlock(&j->table.lock);
		run(j, job);
		trace_of = 0;
		pthread_mutex_lock(&j->table.lock);
	}
	pthread_mutex_unlock(&j->table.lock);
	return NULL;
}

/* ---- life ---- */

/* With the lock held. */
static int start_worker(struct jobs *j, struct queue *q)
{
	struct worker *w = malloc(sizeof(*w));
	pthread_attr_t attr;
	int r;

	if (!w)
		return -ENOMEM;
	*w = (struct worker){ j, q };
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WORKER_STACK);
	r = pthread_create(&j->threads[j->n_threads], &attr, worker_thread, w);
	pthread_attr_destroy(&attr);
	if (r) {
		free(w);
		return -r;
	}
	j->n_threads++;
	q->workers++;
	return 0;
}

/* More jobs wait than workers do.  If it fails those who are there do all of it. */
static void one_more(void *arg, struct queue *q)
{
	struct jobs *j = arg;

	if (q->workers < q->workers_max && !j->table.stop)
		start_worker(j, q);
}

/* The first of them; others come when they are needed. */
static int start_workers(struct jobs *j, struct queue *q, unsigned int max)
{
	int r = 0;

	pthread_mutex_lock(&j->table.lock);
	q->workers_max = max;
	q->more = one_more;
	q->more_arg = j;
	while (r == 0 && q->workers < max && q->workers < WORKERS_FIRST)
		r = start_worker(j, q);
	pthread_mutex_unlock(&j->table.lock);
	return r;
}

int jobs_create(const struct jobs_config *c, struct jobs **out)
{
	struct jobs *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return -ENOMEM;
	j->c = *c;
	job_table_init(&j->table);
	turns_init(&j->turns);
	budget_init(&j->budget, c->buffer_bytes);
	full_init(&j->full);
	partly_init(&j->partly);
	treestat_init(&j->tree);
	absent_init(&j->absent);
	wholes_init(&j->wholes);
	heat_init(&j->heat, stub_volume_fd(c->volume));
	jobs_books_init(&j->books);
	pthread_mutex_init(&j->blame.lock, NULL);
	j->threads = calloc(c->demand_workers + c->fill_workers, sizeof(pthread_t));
	r = digests_start(&j->digests, c->digests ? c->volume : NULL);
	if (r == 0)
		r = j->threads ? reserve_start(&j->reserve, stub_volume_fd(c->volume)) : -ENOMEM;
	if (r == 0)
		r = jobs_held_start(j);
	if (r == 0)
		r = jobs_ahead_start(j);
	if (r == 0)
		r = start_workers(j, &j->table.demand, c->demand_workers);
	if (r == 0)
		r = start_workers(j, &j->table.fill, c->fill_workers);
	if (r < 0) {
		jobs_stop(j);
		jobs_destroy(j);
		return r;
	}
	*out = j;
	return 0;
}

bool jobs_move(struct jobs *j)
{
	return job_table_moves(&j->table);
}

static void drop_queued(struct jobs *j, struct queue *q)
{
	struct job *job;

	while ((job = job_pop(q))) {
		job_answer(job->waiters, -EAGAIN, -1);
		job_remove(&j->table, job);
		job_free(job);
	}
}

void jobs_stop(struct jobs *j)
{
	if (!j)
		return;
	pthread_mutex_lock(&j->table.lock);
	j->table.stop = true;
	atomic_store(&j->stopping, true);
	turns_stop(&j->turns);
	pthread_cond_broadcast(&j->table.demand.wake);
	pthread_cond_broadcast(&j->table.fill.wake);
	pthread_mutex_unlock(&j->table.lock);
	jobs_ahead_stop(j);
	for (unsigned int i = 0; i < j->n_threads; i++)
		pthread_join(j->threads[i], NULL);
	j->n_threads = 0;
	wholes_wait(&j->wholes);
	digests_stop(&j->digests);
	jobs_held_stop(j);
	reserve_stop(&j->reserve);
	drop_queued(j, &j->table.demand);
	drop_queued(j, &j->table.fill);
}

void jobs_destroy(struct jobs *j)
{
	if (!j)
		return;
	jobs_ahead_destroy(j);
	jobs_held_destroy(j);
	job_table_finish(&j->table);
	turns_finish(&j->turns);
	budget_finish(&j->budget);
	full_finish(&j->full);
	partly_finish(&j->partly);
	treestat_finish(&j->tree);
	absent_finish(&j->absent);
	wholes_finish(&j->wholes);
	digests_finish(&j->digests);
	heat_finish(&j->heat);
	jobs_books_finish(&j->books);
	pthread_mutex_destroy(&j->blame.lock);
	free(j->threads);
	free(j);
}

void jobs_pause(struct jobs *j, bool paused)
{
	turns_pause(&j->turns, paused);
}

void jobs_throttle(struct jobs *j, uint64_t bytes_per_second)
{
	turns_throttle(&j->turns, bytes_per_second);
}

void jobs_tree(struct jobs *j, struct tree_depth out[TREE_DEPTHS])
{
	treestat_get(&j->tree, out);
}

void jobs_tree_load(struct jobs *j, const struct tree_depth at[TREE_DEPTHS])
{
	treestat_load(&j->tree, at);
}

uint64_t jobs_partly(struct jobs *j)
{
	return partly_sum(&j->partly, j->c.journal);
}

void jobs_stats(struct jobs *j, struct jobs_stats *out)
{
	*out = (struct jobs_stats){
		.fills = atomic_load(&j->n.fills),
		.lookups = atomic_load(&j->n.lookups),
		.lists = atomic_load(&j->n.lists),
		.attrs = atomic_load(&j->n.attrs),
		.data = atomic_load(&j->n.data),
		.joined = atomic_load(&j->n.joined),
		.bytes = atomic_load(&j->n.bytes),
		.whole = atomic_load(&j->n.whole),
		.entries = atomic_load(&j->n.entries),
		.errors = atomic_load(&j->n.errors),
		.conflicts = atomic_load(&j->n.conflicts),
		.lost = atomic_load(&j->n.lost),
		.touched = atomic_load(&j->n.touched),
		.acls = atomic_load(&j->n.acls),
		.near = atomic_load(&j->n.near),
		.passed = atomic_load(&j->n.passed),
		.holes = atomic_load(&j->n.holes),
		.times = atomic_load(&j->n.times),
		.paused = atomic_load(&j->turns.paused),
		.throttle = atomic_load(&j->turns.rate),
	};
	out->store_error = full_state(&j->full, &out->store_error_ms);
	out->source_lost = jobs_source_lost(j);
	pthread_mutex_lock(&j->table.lock);
	out->active = j->table.active;
	out->queued = j->table.demand.length + j->table.fill.length;
	out->filling = j->table.fill.workers - j->table.fill.idle;
	jobs_held_stats(j, out);
	pthread_mutex_unlock(&j->table.lock);
	out->later += absent_count(&j->books.later);
}
