/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The time that counts is that in which the crawler's asks are worked on: not while it is
 * paused, outside of its window, or while the old server is away, or the volume full (working.h).
 */
#include "history.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "progress.h"
#include "working.h"

#define EVERY_MS 10000
#define AGAIN_MS 600000 /* until a file that could not be had is tried for again */

struct history {
	struct control_config c;
	pthread_mutex_t lock; /* protects p and its data, and now; the file is written under it */
	struct progress *p; /* NULL: there is no file */
	struct progress_sample now; /* at the last tick, whether it is kept or not; at 0: none yet */
	/* the ticking thread's */
	uint64_t due_ms, again_ms, last_ms, active_ms;
	struct working working; /* at the last tick */
};

static void open_file(struct history *h, uint64_t now)
{
	const struct progress_data *d;
	struct progress *p;
	int r;

	if (h->p || now < h->again_ms)
		return;
	r = progress_open(stub_volume_fd(h->c.volume), &p);
	if (r < 0) {
		if (!h->again_ms)
			stub_log_to(h->c.log, h->c.log_arg, STUB_LOG_WARN,
				    "no history of the migration is kept, and no end predicted: "
				    STUB_DIR "/progress: %s", strerror(-r));
		h->again_ms = now + AGAIN_MS;
		return;
	}
	d = progress_data(p);
	if (d->n)
		h->active_ms += d->sample[d->n - 1].active_ms;
	jobs_tree_load(h->c.jobs, d->tree);
	pthread_mutex_lock(&h->lock);
	h->p = p;
	pthread_mutex_unlock(&h->lock);
}

int history_create(const struct control_config *c, struct history **out)
{
	struct history *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->c = *c;
	h->last_ms = stub_now_ms();
	pthread_mutex_init(&h->lock, NULL);
	open_file(h, h->last_ms);
	*out = h;
	return 0;
}

void history_destroy(struct history *h)
{
	if (!h)
		return;
	progress_close(h->p);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static uint32_t at_most(uint64_t n)
{
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* 0, or -errno: it is not known now. */
static int take(struct history *h, struct progress_sample *s)
{
	struct stub_journal_totals t;
	uint64_t partly;
	int r = stub_journal_totals(h->c.journal, &t);

	if (r < 0)
		return r;
	partly = jobs_partly(h->c.jobs);
	*s = (struct progress_sample){
		.at = (int64_t)time(NULL),
		.active_ms = h->active_ms,
		.found = t.found,
		.found_bytes = t.found_bytes,
		.done = t.done,
		.done_bytes = t.done_bytes + (partly < t.left_bytes ? partly : t.left_bytes),
		.dirs = at_most(t.dirs),
		.parked = at_most(t.parked),
	};
	return 0;
}

/* Time and work apart, do they say the same? */
static bool same(const struct progress_sample *a, const struct progress_sample *b)
{
	return a->found == b->found && a->found_bytes == b->found_bytes && a->done == b->done &&
	       a->done_bytes == b->done_bytes && a->dirs == b->dirs && a->parked == b->parked;
}

/* What is here of large files is forgotten with the process, and known again when they go on: not
 * to be taken for work that was done in one moment. */
static void go_on_from(const struct progress_sample *last, struct progress_sample *s)
{
	uint64_t most = last->done_bytes < s->found_bytes ? last->done_bytes : s->found_bytes;

	if (s->done >= last->done && s->done_bytes < most)
		s->done_bytes = most;
}

static void add(struct history *h, struct progress_sample *s)
{
	struct tree_depth tree[TREE_DEPTHS];
	const struct progress_data *d = progress_data(h->p);

	jobs_tree(h->c.jobs, tree);
	if (d->n)
		go_on_from(&d->sample[d->n - 1], s);
	pthread_mutex_lock(&h->lock);
	if (!d->n || !same(&d->sample[d->n - 1], s))
		progress_add(h->p, s, tree); /* what the disk does not take is missed in a crash */
	h->now = *s;
	pthread_mutex_unlock(&h->lock);
}

static struct working look(struct history *h)
{
	struct source_state source;
	struct jobs_stats n;

	jobs_stats(h->c.jobs, &n);
	source_state(h->c.source, &source);
	return (struct working){
		.begun = n.fills,
		.in_hand = n.filling,
		.paused = n.paused,
		.lost = !source.connected || n.source_lost,
		.full = n.store_error == ENOSPC || n.store_error == EROFS,
	};
}

void history_tick(struct history *h)
{
	uint64_t now = stub_now_ms();
	struct progress_sample s;
	struct working w;

	if (now < h->due_ms)
		return;
	h->due_ms = now + EVERY_MS;
	w = look(h);
	if (working_between(&h->working, &w))
		h->active_ms += now - h->last_ms;
	h->working = w;
	h->last_ms = now;
	open_file(h, now);
	if (h->p && take(h, &s) == 0)
		add(h, &s);
}

/* ---- as JSON ---- */

static void put_u(struct json_object *list, uint64_t x)
{
	json_object_array_add(list, json_object_new_uint64(x));
}

static struct json_object *sample_json(const struct progress_sample *s)
{
	struct json_object *o = json_object_new_array();

	json_object_array_add(o, json_object_new_int64(s->at));
	put_u(o, s->active_ms / 1000);
	put_u(o, s->found);
	put_u(o, s->found_bytes);
	put_u(o, s->done);
	put_u(o, s->done_bytes);
	put_u(o, s->dirs);
	put_u(o, s->parked);
	return o;
}

static struct json_object *depth_json(const struct tree_depth *t)
{
	const double x[] = { t->dirs, t->dirs2, t->files, t->files2, t->bytes, t->bytes2 };
	struct json_object *o = json_object_new_array();

	put_u(o, t->listed);
	for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		json_object_array_add(o, json_object_new_double(x[i]));
	return o;
}

void history_json(struct history *h, struct json_object *o)
{
	struct json_object *samples = json_object_new_array(), *tree = json_object_new_array();
	struct tree_depth at[TREE_DEPTHS];
	unsigned int depths = TREE_DEPTHS;

	pthread_mutex_lock(&h->lock);
	for (unsigned int i = 0; h->p && i < progress_data(h->p)->n; i++)
		json_object_array_add(samples, sample_json(&progress_data(h->p)->sample[i]));
	if (h->now.at)
		json_object_object_add(o, "now", sample_json(&h->now));
	pthread_mutex_unlock(&h->lock);
	jobs_tree(h->c.jobs, at);
	while (depths && !at[depths - 1].listed)
		depths--;
	for (unsigned int i = 0; i < depths; i++)
		json_object_array_add(tree, depth_json(&at[i]));
	json_object_object_add(o, "samples", samples);
	json_object_object_add(o, "tree", tree);
}
