/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * watch.c - twice a second: sample the rates, see whether it is over, and look at some
 * of the parked objects.
 *
 * The end comes in two steps.  When only hard-linked inodes that wait for names
 * are pending, and what is parked is no directory, no more names can come: they are
 * finished as they are.  When the counter is 0 and the finisher holds nothing,
 * a walk through everything (final_check.c) has to agree; then the volume is complete
 * (docs/design.md, invariant 6), and is marked so for the plugins.
 *
 * The crawler does not ask for parked objects.  So here is noticed that a client has removed
 * one or written it anew: then it needs nothing from the old server, and is handed to the
 * finisher. After a round through all of them there is a pause before the next.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "again.h"
#include "history.h"
#include "notify.h"
#include "watch.h"

#define TICK_MS	       500
#define SAMPLES	       21 /* ten seconds of ticks */
#define PARKED_AT_ONCE 64 /* parked objects looked at in a tick */
#define LINKS_READ	       256
#define LINKS_AT_ONCE  32768 /* handed to the finisher when it has nothing else */
#define PARKED_REST    10 /* ticks between two rounds */
#define TOLD_TICKS    10 /* between two words to the service manager */
#define PATIENCE_MS    3000 /* so long the answer to `status` waits for the final check */

struct sample {
	double at;
	uint64_t files, bytes;
};

struct watch {
	struct control_config c;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	pthread_mutex_t look_lock; /* one look at a time; protects complete */
	bool complete;
	struct stub_journal_cursor links; /* under look_lock too: where the round through them is */
	struct stub_names names;	  /* the same: may more come? */
	bool held_up;			  /* the same: all is parked but links, and more may come */
	struct final_check *last;
	struct again *again;
	struct history *history;
	struct sample samples[SAMPLES];
	unsigned int n; /* samples taken so far */
	double started;
	/* the thread's own */
	bool gone;
	struct stub_journal_cursor parked; /* where the round through them is */
	unsigned int rest; /* ticks until it begins */
	unsigned int untold; /* ticks until the service manager is told the counter */
};

static double now_s(void)
{
	return (double)stub_now_us() / 1e6;
}

static void sample(struct watch *w)
{
	struct stub_finish_stats f;
	struct jobs_stats s;

	stub_finisher_stats(w->c.finisher, &f);
	jobs_stats(w->c.jobs, &s);
	pthread_mutex_lock(&w->lock);
	w->samples[w->n++ % SAMPLES] = (struct sample){ now_s(), f.done + s.whole, s.bytes };
	pthread_mutex_unlock(&w->lock);
}

void watch_rates(struct watch *w, struct watch_rates *out)
{
	pthread_mutex_lock(&w->lock);
	memset(out, 0, sizeof(*out));
	out->uptime = now_s() - w->started;
	if (w->n > 1) {
		const struct sample *last = &w->samples[(w->n - 1) % SAMPLES];
		const struct sample *first = &w->samples[w->n > SAMPLES ? w->n % SAMPLES : 0];
		double dt = last->at - first->at;

		if (dt > 0) {
			out->files = (double)(last->files - first->files) / dt;
			out->bytes = (double)(last->bytes - first->bytes) / dt;
		}
	}
	pthread_mutex_unlock(&w->lock);
}

/* Hand some of the entries that wait for links to the finisher (there may be millions); the next
 * ones when it is done with these. */
static void finish_links(struct watch *w)
{
	struct stub_journal_entry *e = calloc(LINKS_READ, sizeof(*e));
	unsigned int some = 0;
	int n = 0;

	if (!e)
		return;
	while (some < LINKS_AT_ONCE &&
	       (n = stub_journal_next(w->c.journal, &w->links, false, e, LINKS_READ)) > 0)
		for (int i = 0; i < n; i++)
			if (e[i].kind == STUB_JOURNAL_LINKS) {
				stub_finisher_add_last(w->c.finisher, &e[i].h);
				some++;
			}
	if (n <= 0) /* the next round */
		w->links = (struct stub_journal_cursor){ 0 };
	free(e);
}

/* The counter is 0 and the final check found nothing: the migration is over. */
static void end(struct watch *w)
{
	int r = stub_volume_set_complete(w->c.volume);

	w->complete = r == 0;
	stub_log_to(w->c.log, w->c.log_arg, r < 0 ? STUB_LOG_ERROR : STUB_LOG_INFO, "%s",
		    r < 0 ? "cannot mark the volume complete" :
			    "counter is 0: the migration is complete");
}

/* The rest waits for names: is it to be finished with those it has? */
static void look_at_links(struct watch *w, const struct stub_journal_counts *n)
{
	int come = 1;

	w->held_up = false;
	if (n->links && n->total == n->links + n->errors + n->conflicts) {
		come = stub_names_may_come(w->c.volume, w->c.journal, &w->names, n);
		w->held_up = come == 1;
	}
	if (come == 0)
		finish_links(w);
}

static void look(struct watch *w)
{
	struct stub_journal_counts n;
	struct stub_finish_stats f;

	pthread_mutex_lock(&w->look_lock);
	stub_finisher_stats(w->c.finisher, &f);
	if (f.inflight || stub_journal_counts(w->c.journal, &n) < 0)
		n = (struct stub_journal_counts){ .total = 1 }; /* not over, or not known */
	if (n.total == 0 && !w->complete) {
		if (final_check_run(w->last) == FINAL_WHOLE)
			end(w);
	} else {
		look_at_links(w, &n);
	}
	pthread_mutex_unlock(&w->look_lock);
}

void watch_look(struct watch *w)
{
	look(w);
	if (final_check_wait(w->last, PATIENCE_MS))
		look(w);
}

bool watch_only_parked(struct watch *w, const struct stub_journal_counts *n)
{
	uint64_t parked = n->errors + n->conflicts;
	bool held_up;

	pthread_mutex_lock(&w->look_lock);
	held_up = w->held_up;
	pthread_mutex_unlock(&w->look_lock);
	return parked && (n->total == parked || (held_up && n->total == n->links + parked));
}

void watch_found(struct watch *w, struct final_found *out)
{
	final_check_found(w->last, out);
}

void watch_check_again(struct watch *w)
{
	final_check_again(w->last);
}

struct again *watch_again(struct watch *w)
{
	return w->again;
}

void watch_history(struct watch *w, struct json_object *o)
{
	history_json(w->history, o);
}

/* Is the object gone, or does it need nothing from the old server any more, except names
 * (which the finisher looks at)? */
static bool is_settled(struct watch *w, const struct stub_handle *h)
{
	struct stub_view view;
	int r = stub_view(w->c.volume, h, &view);

	return r == -ESTALE || (r == 0 && !(view.needs & ~(STUB_NEEDS_FINISH | STUB_NEEDS_NAMES)));
}

static void look_at_parked(struct watch *w)
{
	struct stub_journal_entry *e;
	int n;

	if (w->rest) {
		w->rest--;
		return;
	}
	if (!w->parked.len)
		stub_journal_parked(&w->parked);
	e = calloc(PARKED_AT_ONCE, sizeof(*e));
	if (!e)
		return;
	n = stub_journal_next(w->c.journal, &w->parked, true, e, PARKED_AT_ONCE);
	for (int i = 0; i < n; i++)
		if (is_settled(w, &e[i].h))
			stub_finisher_add_stale(w->c.finisher, &e[i].h);
	free(e);
	if (n <= 0) {
		w->parked.len = 0;
		w->rest = PARKED_REST;
	}
}

/* Is the volume's directory, or .postcopy in it, gone?  Then we end: there is nothing to serve. */
static void look_for_volume(struct watch *w)
{
	if (w->gone || !stub_volume_gone(w->c.volume))
		return;
	w->gone = true;
	stub_log_to(w->c.log, w->c.log_arg, STUB_LOG_ERROR,
		    "the volume has been removed while it was served; ending");
	w->c.stop(w->c.stop_arg, true);
}

/* For `systemctl status`. */
static void tell_manager(struct watch *w)
{
	struct stub_journal_counts n;

	if (!notify_wanted())
		return;
	if (w->untold) {
		w->untold--;
		return;
	}
	w->untold = TOLD_TICKS;
	if (stub_journal_counts(w->c.journal, &n) < 0)
		return;
	if (stub_volume_complete(w->c.volume))
		notify("STATUS=complete: 'postcopy finish' ends the migration");
	else
		notify("STATUS=%llu objects to go, %llu of them parked",
		       (unsigned long long)n.total, (unsigned long long)(n.errors + n.conflicts));
}

static void *watch_thread(void *arg)
{
	struct watch *w = arg;
	uint64_t until_ms;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		pthread_mutex_unlock(&w->lock);
		sample(w);
		look(w);
		final_check_tick(w->last);
		look_at_parked(w);
		again_tick(w->again);
		look_for_volume(w);
		tell_manager(w);
		history_tick(w->history);
		until_ms = stub_now_ms() + TICK_MS;
		pthread_mutex_lock(&w->lock);
		while (!w->stop && stub_cond_wait_until(&w->wake, &w->lock, until_ms) == 0)
			;
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int watch_create(const struct control_config *c, struct watch **out)
{
	struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->c = *c;
	w->started = now_s();
	w->complete = stub_volume_complete(c->volume);
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->look_lock, NULL);
	stub_cond_init(&w->wake);
	r = final_check_create(c, &w->last);
	if (r == 0)
		r = again_create(c, &w->again);
	if (r == 0)
		r = history_create(c, &w->history);
	if (r == 0)
		r = -pthread_create(&w->thread, NULL, watch_thread, w);
	if (r < 0) {
		history_destroy(w->history);
		final_check_destroy(w->last);
		again_destroy(w->again);
		free(w);
		return r;
	}
	*out = w;
	return 0;
}

void watch_destroy(struct watch *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	final_check_destroy(w->last);
	again_destroy(w->again);
	history_destroy(w->history);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->look_lock);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
