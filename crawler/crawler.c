/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * crawler.c - the loop: answers in, asks out, wait.
 *
 * Invariants
 *   - Not more than `workers` asks are in flight, and not more than source/pace.h finds useful.
 *   - An entry that was asked for rests, as long as the table below says for its
 *     answer, and is asked for again while the journal has it: it is done when it has
 *     left the journal, not when the retriever says so.
 *   - Outside of the windows (window.h) nothing is asked for; what is in flight ends.
 *   - Every wait has a limit and ends early for an answer or a signal.
 *   - The crawler does not end while anything is unfinished: what is parked may be tried
 *     again (`postcopy retry`) at any time, and nobody else would ask for it.
 */
#include "crawler.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notify.h"
#include "source/pace.h"
#include "window/window.h"
#include "deep.h"
#include "places.h"
#include "queue.h"
#include "warm.h"

#define CONNECT_MIN_MS 100
#define CONNECT_MAX_MS 5000
#define FULL_MS	       5000 /* no ask at all after "no space left" or "read-only" */
#define PART_MS	       2000 /* "again" after so long: a part of a large file has come */
#define LISTED_MS      10 /* a listed directory: look for its entries so soon */
#define BEAT_MS	       1000 /* the service manager's watchdog is told so often */
#define STATUS_MS      5000 /* and so often what there is to do */
#define WINDOW_MS      1000 /* the windows, the clock, and the order are looked at so often */
#define JOURNAL_TRIES  10 /* failures in a row until the journal is given up */
#define JOURNAL_WAIT_MS 100 /* between two tries to open it */

struct flight {
	uint32_t id;
	bool used;
	uint8_t kind;
	uint64_t asked_ms;
	struct stub_handle h;
};

struct crawl {
	const struct crawl_config *c;
	struct queue *queue;
	struct warm *warm;
	struct places *places;
	struct deep *deep;
	struct stub_link *link;
	struct flight *flight; /* c->workers of them */
	struct pace pace;
	bool busy; /* when it was looked last, as many were in flight as there may be */
	struct crawl_stats s;

	bool said_waiting;
	bool said_parked;
	bool full; /* the volume took no data when it was last tried: one ask at a time */
	unsigned int connect_wait_ms;
	uint64_t connect_at_ms; /* no attempt before */
	uint64_t full_until_ms;
	uint64_t report_at_ms;
	uint64_t beat_at_ms, status_at_ms;
	uint64_t window_at_ms;
	bool said_damaged, said_order;
	struct order order;
	unsigned int journal_errors; /* in a row */
};

#define say(w, level, ...) stub_log_to((w)->c->log, (w)->c->log_arg, level, __VA_ARGS__)

/* ---- answers -------------------------------------------------------------- */

/* What an answer means: which number it counts in, and for how long its entry
 * is left alone. Done ones wait for the retriever's next batch of removals. */
static const struct answer {
	int result;
	size_t counter;
	unsigned int rest_ms;
} answers[] = {
	{ 0, offsetof(struct crawl_stats, done), 10000 },
	{ -EAGAIN, offsetof(struct crawl_stats, again), 1000 },
	{ -EREMOTEIO, offsetof(struct crawl_stats, trouble), 10000 },
	{ -ENOSPC, offsetof(struct crawl_stats, full), FULL_MS },
	{ -EROFS, offsetof(struct crawl_stats, full), FULL_MS },
	{ -EDQUOT, offsetof(struct crawl_stats, full), 10000 }, /* one owner's: others go on */
	{ -ESTALE, offsetof(struct crawl_stats, stale), 10000 },
};

static const struct answer *answer_find(int result)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (answers[i].result == result)
			return &answers[i];
	}
	return &answers[2]; /* an unknown answer counts as trouble */
}

static void answer_take(struct crawl *w, struct flight *f, int result, uint64_t now)
{
	const struct answer *a = answer_find(result);

	bool part = result == -EAGAIN && now - f->asked_ms >= PART_MS;

	if (result == 0)
		pace_done(&w->pace, now, 1, w->busy);

	++*(uint64_t *)((char *)&w->s + a->counter);
	queue_rest(w->queue, &f->h, part ? now : now + a->rest_ms);
	if (part) {
		queue_hurry(w->queue, now, 100);
	} else if (result == 0) {
		/* a directory has brought new entries, anything else may have */
		queue_hurry(w->queue, now, f->kind == STUB_JOURNAL_DIR ? LISTED_MS : 100);
		if (f->kind == STUB_JOURNAL_DIR) {
			places_listed(w->places, &f->h);
			deep_listed(w->deep, &f->h);
		}
		w->full = false;
	} else if (result == -ENOSPC || result == -EROFS) {
		w->full_until_ms = now + FULL_MS;
		if (!w->full)
			say(w, STUB_LOG_WARN, "the volume takes no data (%s): one ask every %d s",
			    strerror(-result), FULL_MS / 1000);
		w->full = true;
	}
	f->used = false;
	w->s.inflight--;
}

static struct flight *flight_find(struct crawl *w, uint32_t id)
{
	for (unsigned int i = 0; i < w->c->workers; i++) {
		if (w->flight[i].used && w->flight[i].id == id)
			return &w->flight[i];
	}
	return NULL;
}

/* ---- the link -------------------------------------------------------------- */

static void link_lost(struct crawl *w, uint64_t now)
{
	stub_link_destroy(w->link);
	w->link = NULL;
	w->s.connected = false;
	if (w->s.inflight == 0) { /* the retriever closes what is idle: nothing is lost */
		w->connect_at_ms = now + CONNECT_MIN_MS;
		return;
	}
	w->s.lost++;
	w->connect_at_ms = now + CONNECT_MIN_MS;
	for (unsigned int i = 0; i < w->c->workers; i++)
		w->flight[i].used = false;
	w->s.inflight = 0;
	queue_forget(w->queue, now);
}

static void link_connect(struct crawl *w, uint64_t now)
{
	const char *socket = stub_volume_info(w->c->volume)->socket;

	if (w->link || w->s.closed || now < w->connect_at_ms)
		return;
	if (stub_link_create(w->c->volume, &w->link) == 0) {
		w->s.connected = true;
		return;
	}
	w->link = NULL;
	if (!w->said_waiting)
		say(w, STUB_LOG_WARN, "no retriever at %s: waiting for it", socket);
	w->said_waiting = true;
	w->connect_at_ms = now + w->connect_wait_ms;
	w->connect_wait_ms *= 2;
	if (w->connect_wait_ms > CONNECT_MAX_MS)
		w->connect_wait_ms = CONNECT_MAX_MS;
}

/* It is there, and of our release: one of another release takes connections, too. */
static void answered(struct crawl *w)
{
	if (w->said_waiting)
		say(w, STUB_LOG_INFO, "the retriever is there");
	w->said_waiting = false;
	w->connect_wait_ms = CONNECT_MIN_MS;
}

/* Take all answers that have come. */
static void receive(struct crawl *w, uint64_t now)
{
	while (w->link) {
		struct flight *f;
		uint32_t id;
		int result;
		int r = stub_link_receive(w->link, 0, &id, &result);

		if (r == 0)
			return;
		if (r < 0) {
			link_lost(w, now);
			return;
		}
		f = flight_find(w, id);
		if (!f)
			continue;
		answered(w);
		if (w->c->debug)
			say(w, STUB_LOG_DEBUG, "ask %08x: %s, %llu ms", id,
			    stub_result_text(result), (unsigned long long)(now - f->asked_ms));
		answer_take(w, f, result, now);
	}
}

/* ---- asks ------------------------------------------------------------------ */

static void tell_asked(const struct crawl *w, const struct stub_ask *ask)
{
	char text[STUB_ASK_TEXT];

	stub_ask_text(ask, text, sizeof(text));
	say(w, STUB_LOG_DEBUG, "ask %08x: %s", ask->id, text);
}

static int send_one(struct crawl *w, const struct stub_journal_entry *e, uint64_t now)
{
	struct stub_ask ask = { .kind = STUB_ASK_FILL, .h = e->h };
	struct flight *f = w->flight;

	while (f->used)
		f++;
	if (stub_link_send(w->link, &ask, &f->id) < 0) {
		queue_rest(w->queue, &e->h, now);
		link_lost(w, now);
		return -EAGAIN;
	}
	ask.id = f->id;
	if (w->c->debug)
		tell_asked(w, &ask);
	f->used = true;
	f->kind = e->kind;
	f->asked_ms = now;
	f->h = e->h;
	w->s.inflight++;
	w->s.asked++;
	return 0;
}

/* A failure of the journal: 0 to try again, or for good. */
static int journal_failed(struct crawl *w, int error)
{
	if (error == -EBADMSG)
		return error;
	if (++w->journal_errors < JOURNAL_TRIES)
		return 0;
	return error;
}

/* --once: everything was given out, only answers are waited for. */
static bool pass_over(const struct crawl *w)
{
	return w->c->once && queue_passes(w->queue) > 0;
}

/* How many asks may be in flight. */
static unsigned int places(const struct crawl *w)
{
	return w->full ? 1 : w->pace.window;
}

/* What comes next: where clients are at work, then by the order, places before all else. */
static int next(struct crawl *w, uint64_t now, struct stub_journal_entry *out)
{
	int r = w->c->once ? 0 : warm_next(w->warm, w->queue, now, out);

	if (r == 0)
		r = places_next(w->places, w->queue, now, out);
	if (r == 0 && !w->c->once)
		r = deep_next(w->deep, w->queue, now, out);
	return r ? r : queue_next(w->queue, now, out);
}

/* Fill the free places. 0 or -errno of the journal. */
static int refill(struct crawl *w, uint64_t now)
{
	while (w->link && !w->s.closed && !pass_over(w) && w->s.inflight < places(w) &&
	       now >= w->full_until_ms) {
		struct stub_journal_entry e;
		int r = next(w, now, &e);

		if (r < 0)
			return journal_failed(w, r);
		w->journal_errors = 0;
		if (r == 0 || send_one(w, &e, now) < 0)
			break;
	}
	w->busy = w->s.inflight >= places(w);
	return 0;
}

/* ---- windows ----------------------------------------------------------------- */

static void say_closed(struct crawl *w, const struct windows *windows, time_t now)
{
	time_t at = windows_change(windows, now);
	char text[64] = "they are changed";
	struct tm tm;

	if (at && localtime_r(&at, &tm))
		strftime(text, sizeof(text), "%a %F %H:%M %Z", &tm);
	say(w, STUB_LOG_INFO, "outside of the windows: nothing is crawled until %s", text);
}

/* What is wanted first?  That may have been changed, too. */
static void look_at_order(struct crawl *w)
{
	char text[ORDER_ALL];
	struct order order;
	int r = order_load(stub_volume_fd(w->c->volume), &order);

	if (r < 0 && !w->said_order)
		say(w, STUB_LOG_WARN, STUB_DIR "/order cannot be read (%s): the usual order; say "
		    "'postcopy order' again", r == -EPROTONOSUPPORT ?
		    "it is of a newer release" : strerror(-r));
	w->said_order = r < 0;
	if (w->c->once) { /* each entry of this pass */
		order_init(&order);
		order.ahead = UINT32_MAX;
	}
	order_all(&order, text);
	if (!w->c->once && !order_equal(&order, &w->order))
		say(w, STUB_LOG_INFO, "what comes first: %s", *text ? text : "the usual order");
	w->order = order;
	if (places_order(w->places, &order) < 0)
		say(w, STUB_LOG_WARN, "no memory: no directories come first or last");
	queue_order(w->queue, &order);
}

/* May we crawl now?  The windows may have been changed, and the clock been set. */
static void look_at_windows(struct crawl *w, uint64_t now)
{
	struct windows windows;
	bool closed;
	int r;

	if (now < w->window_at_ms)
		return;
	w->window_at_ms = now + WINDOW_MS;
	r = windows_load(stub_volume_fd(w->c->volume), &windows);
	closed = r < 0 || !windows_open(&windows, time(NULL));
	if (r < 0 && !w->said_damaged)
		say(w, STUB_LOG_ERROR, STUB_DIR "/window cannot be read (%s): nothing is crawled; "
		    "say 'postcopy window' again", strerror(-r));
	else if (r == 0 && closed && !w->s.closed)
		say_closed(w, &windows, time(NULL));
	else if (!closed && w->s.closed)
		say(w, STUB_LOG_INFO, "a window is open: crawling");
	w->said_damaged = r < 0;
	w->s.closed = closed;
	look_at_order(w);
}

/* ---- end, wait --------------------------------------------------------------- */

static uint64_t parked(const struct crawl *w)
{
	return w->s.left.errors + w->s.left.conflicts;
}

/* Is nothing left that goes on by itself?  Links whose names may come out of a parked directory
 * do not. */
static bool is_over(struct crawl *w)
{
	const struct stub_journal_counts *n = &w->s.left;

	if (n->total == parked(w))
		return true;
	return n->total == n->links + parked(w) &&
	       queue_names_may_come(w->queue, w->c->volume, n) == 1;
}

/* Nothing is left but what is parked, and what waits for that. */
static int only_parked(struct crawl *w)
{
	if (w->c->leave_parked || parked(w) == 0)
		return CRAWL_NOTHING_LEFT;
	if (!w->said_parked)
		say(w, STUB_LOG_WARN,
		    "nothing left but %llu parked objects: see 'postcopy parked'; waiting until "
		    "they are tried again ('postcopy retry')",
		    (unsigned long long)parked(w));
	w->said_parked = true;
	return -EINPROGRESS;
}

/* An enum crawl_end, -EINPROGRESS to go on, or -errno of the journal. */
static int ended(struct crawl *w)
{
	int r;

	if (w->s.inflight > 0)
		return -EINPROGRESS;
	if (pass_over(w))
		return CRAWL_ONCE;
	if (w->link && !w->s.closed && queue_next_pass_ms(w->queue) == 0 && w->s.asked)
		return -EINPROGRESS; /* in the middle of a pass: something is left */
	r = queue_counts(w->queue, &w->s.left);
	if (r < 0) {
		r = journal_failed(w, r);
		return r < 0 ? r : -EINPROGRESS;
	}
	if (is_over(w))
		return only_parked(w);
	w->said_parked = false;
	return -EINPROGRESS;
}

static void report(struct crawl *w, uint64_t now)
{
	if (!w->c->report || !w->c->report_ms || now < w->report_at_ms)
		return;
	w->report_at_ms = now + w->c->report_ms;
	w->s.passes = queue_passes(w->queue);
	queue_counts(w->queue, &w->s.left);
	w->c->report(w->c->report_arg, &w->s);
}

/* Each round ends soon, whatever the retriever and the old server do: what keeps one long is the
 * disk of the journal, for which the unit has patience. */
static void tell_manager(struct crawl *w, uint64_t now)
{
	if (!notify_wanted() || now < w->beat_at_ms)
		return;
	w->beat_at_ms = now + BEAT_MS;
	notify("WATCHDOG=1");
	if (now < w->status_at_ms || queue_counts(w->queue, &w->s.left) < 0)
		return;
	w->status_at_ms = now + STATUS_MS;
	notify("STATUS=%llu objects to go, %llu of them parked, %u asked for%s",
	       (unsigned long long)w->s.left.total,
	       (unsigned long long)parked(w), w->s.inflight,
	       w->s.closed ? "; outside of the windows" :
	       w->link	   ? "" :
			     "; waiting for the retriever");
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Wait for an answer, a signal, or the next thing to do. True: stop. */
static bool wait_event(struct crawl *w, uint64_t now)
{
	struct pollfd p[2] = {
		{ .fd = w->c->stop_fd, .events = POLLIN },
		{ .fd = w->link ? stub_link_fd(w->link) : -1, .events = POLLIN },
	};
	uint64_t at = now + 2000;

	if (w->c->report && w->c->report_ms)
		at = sooner(at, w->report_at_ms);
	if (w->s.closed)
		at = sooner(at, w->window_at_ms);
	else if (!w->link)
		at = sooner(at, w->connect_at_ms);
	else if (now < w->full_until_ms)
		at = sooner(at, w->full_until_ms);
	else if (w->s.inflight < places(w) && !pass_over(w) && places_busy(w->places, now))
		at = now;
	else if (w->s.inflight < places(w) && !pass_over(w))
		at = sooner(at, queue_next_pass_ms(w->queue));
	poll(p, 2, at > now ? (int)(at - now) : 0);
	return p[0].revents != 0;
}

static int run(struct crawl *w)
{
	for (;;) {
		uint64_t now = stub_now_ms();
		int r;

		look_at_windows(w, now);
		link_connect(w, now);
		receive(w, now);
		r = refill(w, now);
		if (r == 0)
			r = ended(w);
		if (stub_volume_gone(w->c->volume))
			return CRAWL_REMOVED;
		if (r != -EINPROGRESS)
			return r;
		report(w, now);
		tell_manager(w, now);
		if (wait_event(w, now))
			return CRAWL_STOPPED;
	}
}

/*
 * Open the journal, then run.  When a volume is removed the journal may go first: that it is
 * not there says nothing until volume.conf has gone too.
 */
static int begin(struct crawl *w)
{
	const struct crawl_config *c = w->c;

	for (;;) {
		struct pollfd stop = { .fd = c->stop_fd, .events = POLLIN };
		int r = queue_create(c->journal, c->log, c->log_arg, &w->queue);

		if (r == 0) {
			queue_last(w->queue, &(struct queue_last){ places_last, places_last_files,
								   w->places });
			return run(w);
		}
		if (stub_volume_gone(c->volume))
			return CRAWL_REMOVED;
		r = journal_failed(w, r);
		if (r < 0)
			return r;
		if (poll(&stop, 1, JOURNAL_WAIT_MS) > 0)
			return CRAWL_STOPPED;
	}
}

int crawl(const struct crawl_config *c, struct crawl_stats *out)
{
	struct crawl w = { .c = c, .connect_wait_ms = CONNECT_MIN_MS };
	int r;

	pace_init(&w.pace, c->workers_min, c->workers);
	order_init(&w.order);
	w.flight = calloc(c->workers, sizeof(*w.flight));
	r = w.flight ? warm_create(c->volume, &w.warm) : -ENOMEM;
	if (r == 0)
		r = places_create(c->volume, c->log, c->log_arg, &w.places);
	if (r == 0)
		r = deep_create(deep_names, c->volume, &w.deep);
	if (r == 0)
		r = begin(&w);
	if (w.queue) {
		queue_counts(w.queue, &w.s.left);
		w.s.passes = queue_passes(w.queue);
	}
	stub_link_destroy(w.link);
	queue_destroy(w.queue);
	warm_destroy(w.warm);
	places_destroy(w.places);
	deep_destroy(w.deep);
	free(w.flight);
	*out = w.s;
	return r;
}
