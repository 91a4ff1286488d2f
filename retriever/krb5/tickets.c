// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * tickets.c - the thread that gets tickets in time: see tickets.h.
 *
 * Tickets are renewed when half of their life is over; while that fails, those that are
 * there are used until they end, and it is tried again and again.  After a refusal the next
 * attempt is a minute later, and after each further one later still, so that no account is
 * locked; but at once if the keytab or the cache has changed, or the administrator says so.
 *
 * The owner waits for the thread and frees struct tickets, unless the thread is in an exchange: then
 * it is left to itself, and frees it when that is over.
 *
 * libkrb5's destructors, which exit() calls, abort threads that are in it still, or end after them.
 * So a process that has a thread which nobody has waited for ends without destructors.
 *
 * lock guards what its comment claims; changed() and tell() are called with it held, so that
 * neither is called after tickets_stop().  serial and refused_ms can be read without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "krb5/tickets.h"

#define WHY_MAX	       256
#define LOOK_MS	       1000 /* between two looks whether keytab or cache has changed */
#define AWAY_MAX_MS    5000 /* between attempts: no KDC answers */
#define REFUSED_MIN_MS (60 * 1000) /* likewise: it refuses our key, and counts that */
#define REFUSED_MAX_MS (15 * 60 * 1000)
#define CACHE_MAX_MS   (60 * 1000) /* likewise: there is no good ticket in the cache */

struct tickets {
	/* constant */
	struct tickets_config c;
	char *keytab, *principal, *cache, *host;
	const char *file; /* keytab or cache, if that is a file; else NULL */

	pthread_t thread;

	pthread_mutex_t lock;
	/* guarded by lock */
	pthread_cond_t turn; /* another attempt is over, or stop */
	bool stop;
	bool busy; /* the thread is in an exchange, without the lock */
	bool left; /* it has no owner any more */
	int err; /* of the last attempt, and why; 0 before the first one */
	char why[WHY_MAX];
	bool told; /* it was logged that tickets cannot be renewed */
	struct tickets_got now;
	uint64_t ends_ms; /* when these do, 0: there are none */
	_Atomic uint64_t serial;
	bool hurry; /* the next attempt need not wait */
	uint64_t next_ms; /* when the next attempt is */
	_Atomic uint64_t refused_ms; /* the same if the last attempt was refused; else 0 */
};

static bool valid(const struct tickets *t)
{
	return t->ends_ms > stub_now_ms();
}

static void drop(const struct tickets *t, struct tickets_got *what)
{
	if (what->kept)
		t->c.keep.drop(what->kept);
	memset(what, 0, sizeof(*what));
}

static void release(struct tickets *t)
{
	drop(t, &t->now);
	pthread_cond_destroy(&t->turn);
	pthread_mutex_destroy(&t->lock);
	free(t->keytab);
	free(t->principal);
	free(t->cache);
	free(t->host);
	free(t);
}

/* ---- the end of the process ---- */

static atomic_uint threads; /* begun, and never joined */

static void end_at_once(int status, void *arg)
{
	(void)arg;
	if (!threads)
		return;
	fflush(NULL);
	_exit(status);
}

static void end_well(void)
{
	/* called before all destructors, and before what was registered earlier */
	on_exit(end_at_once, NULL);
}

/* ---- the thread ---- */

struct pace { /* the thread's own */
	uint64_t backoff_ms;
	struct stat file; /* as it was at the last attempt */
};

static void look(const struct tickets *t, struct stat *out)
{
	if (!t->file || stat(t->file, out) < 0)
		memset(out, 0, sizeof(*out));
}

static bool is_another(const struct tickets *t, const struct stat *was)
{
	struct stat st;

	look(t, &st);
	return st.st_ino != was->st_ino || st.st_dev != was->st_dev || st.st_size != was->st_size ||
	       st.st_mode != was->st_mode || st.st_mtim.tv_sec != was->st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
}

static void tell(struct tickets *t, bool good)
{
	char line[WHY_MAX + 64];

	if (t->told == !good)
		return;
	t->told = !good;
	if (good)
		snprintf(line, sizeof(line), "Kerberos tickets are renewed again");
	else
		snprintf(line, sizeof(line), "tickets cannot be renewed, and end in %llu s: %s",
			 (unsigned long long)((t->ends_ms - stub_now_ms()) / 1000), t->why);
	t->c.tell(t->c.arg, good ? STUB_LOG_INFO : STUB_LOG_WARN, line);
}

/* With the lock: take over the result of an attempt. */
static void take(struct tickets *t, int r, struct tickets_got *new, const char *why)
{
	uint64_t now = stub_now_ms(), ends = now + (uint64_t)(r < 0 ? 0 : new->left_s) * 1000;

	t->err = r;
	snprintf(t->why, sizeof(t->why), "%s", r < 0 ? why : "");
	if (r < 0) {
		if (valid(t))
			tell(t, false);
		return;
	}
	tell(t, true);
	/* the cache has no newer tickets: nobody has filled it (its times are in seconds) */
	if (!t->keytab[0] && valid(t) && ends < t->ends_ms + 2000) {
		drop(t, new);
		return;
	}
	drop(t, &t->now);
	t->now = *new;
	t->ends_ms = ends;
	t->serial++;
	t->c.changed(t->c.arg);
}

static uint64_t within(uint64_t x, uint64_t low, uint64_t high)
{
	return x < low ? low : x > high ? high : x;
}

/* With the lock: set when to try again. */
static void plan(struct tickets *t, struct pace *p, bool renewed)
{
	uint64_t now = stub_now_ms(), left = valid(t) ? t->ends_ms - now : 0;

	if (t->err < 0) {
		bool refused = t->err == -EACCES;

		p->backoff_ms = within(p->backoff_ms * 2,
				       refused && t->keytab[0] ? REFUSED_MIN_MS : LOOK_MS,
				       !refused	    ? AWAY_MAX_MS :
				       t->keytab[0] ? REFUSED_MAX_MS :
						      CACHE_MAX_MS);
		t->next_ms = now + p->backoff_ms;
		t->refused_ms = refused ? t->next_ms : 0;
		return;
	}
	p->backoff_ms = 0;
	t->refused_ms = 0;
	t->next_ms = now + (renewed ? left / 2 : within(left / 8, LOOK_MS, 60000));
}

/* With the lock: wait until the next attempt.  False: stop. */
static bool wait_for(struct tickets *t, struct pace *p)
{
	while (!t->stop) {
		uint64_t now = stub_now_ms(), until = t->next_ms;

		if (now >= until)
			break;
		if (t->err < 0 && (t->hurry || is_another(t, &p->file))) {
			p->backoff_ms = 0;
			break;
		}
		if (t->err < 0 && until > now + LOOK_MS)
			until = now + LOOK_MS;
		stub_cond_wait_until(&t->turn, &t->lock, until);
	}
	return !t->stop;
}

static void *ticket_main(void *arg)
{
	struct tickets *t = arg;
	const struct tickets_from from = { t->keytab, t->principal, t->cache, t->c.service, t->host,
					   t->c.hostbased };
	struct pace p = { 0 };
	bool left;

	pthread_mutex_lock(&t->lock);
	while (wait_for(t, &p)) {
		struct tickets_got new;
		char why[WHY_MAX] = "";
		uint64_t serial = t->serial;
		int r;

		t->hurry = false;
		t->busy = true;
		pthread_mutex_unlock(&t->lock);
		look(t, &p.file);
		r = tickets_get(&from, &t->c.keep, &new, why, sizeof(why));
		pthread_mutex_lock(&t->lock);
		t->busy = false;
		if (t->stop) {
			drop(t, &new);
			break;
		}
		take(t, r, &new, why);
		plan(t, &p, t->serial != serial);
		pthread_cond_broadcast(&t->turn);
	}
	left = t->left;
	pthread_mutex_unlock(&t->lock);
	if (left)
		release(t);
	return NULL;
}

/* ---- for the source ---- */

static struct tickets *allocate(const struct tickets_config *c)
{
	struct tickets *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->c = *c;
	t->keytab = strdup(c->keytab ? c->keytab : "");
	t->principal = strdup(c->principal ? c->principal : "");
	t->cache = strdup(c->cache ? c->cache : "");
	t->host = strdup(c->host);
	pthread_mutex_init(&t->lock, NULL);
	stub_cond_init(&t->turn);
	if (!t->keytab || !t->principal || !t->cache || !t->host) {
		release(t);
		return NULL;
	}
	if (t->keytab[0])
		t->file = t->keytab;
	else if (!strncmp(t->cache, "FILE:", 5))
		t->file = t->cache + 5;
	else
		t->file = strchr(t->cache, ':') ? NULL : t->cache;
	return t;
}

int tickets_create(const struct tickets_config *c, struct tickets **out, char *why,
		      size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tickets *t = allocate(c);
	int r = t ? 0 : -ENOMEM;

	snprintf(why, size, "%s", r < 0 ? strerror(-r) : "");
	if (r == 0 && t->keytab[0])
		r = tickets_check(t->keytab, t->principal, why, size);
	if (r == 0) {
		pthread_once(&once, end_well);
		threads++;
		r = -pthread_create(&t->thread, NULL, ticket_main, t);
		if (r < 0) {
			threads--;
			snprintf(why, size, "no thread: %s", strerror(-r));
		}
	}
	if (r < 0) {
		if (t)
			release(t);
		return r;
	}
	*out = t;
	return 0;
}

void tickets_stop(struct tickets *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->turn);
	pthread_mutex_unlock(&t->lock);
}

void tickets_destroy(struct tickets *t)
{
	bool busy;

	if (!t)
		return;
	tickets_stop(t);
	pthread_mutex_lock(&t->lock);
	busy = t->left = t->busy;
	if (busy)
		pthread_detach(t->thread); /* it may wait for a KDC for long */
	pthread_mutex_unlock(&t->lock);
	if (busy)
		return;
	pthread_join(t->thread, NULL);
	threads--;
	release(t);
}

void tickets_hurry(struct tickets *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->hurry = true;
	pthread_cond_broadcast(&t->turn);
	pthread_mutex_unlock(&t->lock);
}

uint64_t tickets_refused(const struct tickets *t)
{
	return t ? t->refused_ms : 0;
}

uint64_t tickets_serial(const struct tickets *t)
{
	return t ? t->serial : 0;
}

/* With the lock: what @use is told. */
static int use_now(struct tickets *t, tickets_use_fn use, void *arg, char *why, size_t size)
{
	uint64_t ms = stub_now_ms();
	const struct tickets_now now = {
		.kept = t->now.kept,
		.serial = t->serial,
		.left_ms = t->ends_ms > ms ? t->ends_ms - ms : 0,
		.principal = t->now.principal,
	};

	return use(arg, &now, why, size);
}

int tickets_use(struct tickets *t, unsigned int wait_ms, tickets_use_fn use, void *arg, char *why,
		size_t size)
{
	uint64_t until = stub_now_ms() + wait_ms;
	int r = 0;

	pthread_mutex_lock(&t->lock);
	while (!t->stop && !valid(t) && t->err == 0 && r == 0)
		r = stub_cond_wait_until(&t->turn, &t->lock, until);
	if (t->stop) {
		r = -ECANCELED;
		snprintf(why, size, "stopping");
	} else if (valid(t)) {
		r = use_now(t, use, arg, why, size);
	} else if (t->err < 0) {
		r = t->err;
		snprintf(why, size, "%s", t->why);
	} else {
		r = -ETIMEDOUT;
		snprintf(why, size, "Kerberos: no answer of a KDC yet");
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}
