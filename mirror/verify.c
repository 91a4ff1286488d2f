/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify.c - the comparisons are those that carry objects over, told to look only.  Workers take directories from a
 * stack, and compare what is in them.
 *
 * Clients and the replicator go on, so two sides may differ for a moment.  What is owed, or is being changed, is
 * compared once more later; what is not, at once: a change that came and was carried over in between is no difference.
 */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "here.h"
#include "share.h"

#define WORKERS	  4
#define SURE	  3    /* comparisons in a row by which it is different */
#define LATER_MAX 4096 /* that are compared once more; others are counted */
#define LATER_S	  30
#define REST_MS	  1000
#define ROOM	  256

struct item {
	struct stub_handle h, up; /* the directory in which it was found, which makes it over there; len 0: it is the root */
	uint32_t what;
};

struct items {
	struct item *at;
	size_t n, room;
};

struct verifier {
	struct mirror *m;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool threaded; /* `thread` is to be joined */
	/* under lock */
	bool alive; /* it has not ended, and may wait for a mirror that is away */
	struct items dirs, later;
	unsigned int busy; /* workers that may push more */
	uint64_t begun_ms;
	struct verify_report report;
	struct verify_difference first[VERIFY_TOLD];
};

/* One worker, and what its last comparison found. */
struct worker {
	struct verifier *v;
	pthread_t thread;
	int dir_fd; /* that is gone through */
	struct stub_handle dir;
	char path[4096];
	uint64_t size;
	unsigned int n;
	struct {
		char name[STUB_NAME_MAX + 1], what[VERIFY_WHAT];
	} found[VERIFY_TOLD];
};

/* ---- what there is to do ---- */

static bool stopped(struct verifier *v)
{
	bool runs;

	pthread_mutex_lock(&v->lock);
	runs = v->report.state == VERIFY_RUNS;
	pthread_mutex_unlock(&v->lock);
	return !runs || atomic_load(&v->m->stopping);
}

static void failed(struct verifier *v, int error)
{
	pthread_mutex_lock(&v->lock);
	if (v->report.state == VERIFY_RUNS) {
		v->report.state = VERIFY_FAILED;
		v->report.error = error;
	}
	pthread_cond_broadcast(&v->wake);
	pthread_mutex_unlock(&v->lock);
}

static void rest(struct verifier *v, unsigned int ms)
{
	uint64_t until = stub_now_ms() + ms;

	pthread_mutex_lock(&v->lock);
	while (v->report.state == VERIFY_RUNS && stub_cond_wait_until(&v->wake, &v->lock, until) == 0)
		continue;
	pthread_mutex_unlock(&v->lock);
}

static int put(struct items *i, const struct item *one)
{
	if (i->n == i->room) {
		size_t room = i->room ? i->room * 2 : ROOM;
		struct item *at = reallocarray(i->at, room, sizeof(*at));

		if (!at)
			return -ENOMEM;
		i->at = at;
		i->room = room;
	}
	i->at[i->n++] = *one;
	return 0;
}

static int push(struct verifier *v, const struct item *dir)
{
	int r;

	pthread_mutex_lock(&v->lock);
	r = put(&v->dirs, dir);
	pthread_cond_signal(&v->wake);
	pthread_mutex_unlock(&v->lock);
	return r;
}

static void put_off(struct verifier *v, const struct item *i)
{
	pthread_mutex_lock(&v->lock);
	if (v->later.n == LATER_MAX || put(&v->later, i) < 0)
		v->report.owed++;
	pthread_mutex_unlock(&v->lock);
}

static void count(struct verifier *v, uint64_t *which, uint64_t bytes)
{
	pthread_mutex_lock(&v->lock);
	*which += 1;
	v->report.bytes += bytes;
	pthread_mutex_unlock(&v->lock);
}

/* ---- one object ---- */

static void on_found(void *arg, const char *name, const char *what)
{
	struct worker *k = arg;

	if (k->n < VERIFY_TOLD) {
		snprintf(k->found[k->n].name, sizeof(k->found[0].name), "%s", name);
		snprintf(k->found[k->n].what, sizeof(k->found[0].what), "%s", what);
	}
	k->n++;
}

/* What is not told of its names, is told of itself. */
static void find(struct worker *k, const struct task *t, int verdict)
{
	char what[VERIFY_WHAT];

	if (verdict == UNPLACED || verdict == UNMADE) {
		on_found(k, "", "is not known over there");
	} else if (verdict == DIFFERS) {
		snprintf(what, sizeof(what), "other %s", t->what);
		on_found(k, "", what);
	} else if (verdict < 0) {
		snprintf(what, sizeof(what), "cannot be compared: %s: %s", t->what ? t->what : "", strerror(-verdict));
		on_found(k, "", what);
	}
}

/* It never changes, so nobody else compares it. */
static int compare_target(struct task *t)
{
	char here[STUB_TARGET_MAX + 1], there[STUB_TARGET_MAX];
	ssize_t n = readlinkat(t->fd, "", here, sizeof(here));
	size_t len;
	int r;

	t->what = "target";
	if (n < 0)
		return -errno;
	r = source_readlink(t->m->target, SOURCE_BACKGROUND, &t->place, NULL, there, sizeof(there), &len);
	if (r < 0)
		return mirror_verdict(t->m, r);
	return (size_t)n == len && !memcmp(here, there, len) ? EQUAL : DIFFERS;
}

static int compare(struct worker *k, const struct item *i)
{
	const struct looked look = { on_found, k };
	struct task t = { .m = k->v->m, .o = { .h = i->h, .what = i->what }, .fd = -1, .look = &look };
	int r;

	k->n = 0;
	r = compare_object(&t);
	if (r == EQUAL && t.fd >= 0 && S_ISLNK(t.st.st_mode))
		r = compare_target(&t);
	find(k, &t, r);
	k->size = t.fd >= 0 && S_ISREG(t.st.st_mode) ? (uint64_t)t.st.st_size : 0;
	task_path(&t, k->path, sizeof(k->path));
	task_close(&t);
	return r;
}

static void keep(const struct worker *k, unsigned int n, struct verify_difference *d)
{
	const char *name = k->found[n].name, *dir = *name && !strcmp(k->path, ".") ? "" : k->path;

	snprintf(d->path, sizeof(d->path), "%s%s%s", dir, *dir && *name ? "/" : "", name);
	snprintf(d->what, sizeof(d->what), "%s", k->found[n].what);
}

static void tell(struct worker *k, const struct item *i)
{
	struct verifier *v = k->v;
	int r = v->report.repairs ? mirror_owe_one(v->m, &i->h, i->what) : 0;

	pthread_mutex_lock(&v->lock);
	for (unsigned int n = 0; n < k->n; n++) {
		if (v->report.different < VERIFY_TOLD && n < VERIFY_TOLD)
			keep(k, n, &v->first[v->report.different]);
		v->report.different++;
	}
	pthread_mutex_unlock(&v->lock);
	if (r < 0)
		failed(v, r);
}

/* May it differ?  What is not known over there, if its directory is owed, too. */
static int owes(struct verifier *v, const struct item *i, int verdict)
{
	int r = stub_ledger_unknown(v->m->ledger) ? 1 : stub_ledger_owes(v->m->ledger, &i->h);

	if (r == 0 && i->up.len && (verdict == UNPLACED || verdict == UNMADE))
		r = stub_ledger_owes(v->m->ledger, &i->up);
	return r;
}

static bool is_away(struct verifier *v)
{
	struct source_state s;

	share_state(v->m, &s);
	return !s.connected;
}

static void check(struct worker *k, const struct item *i)
{
	struct verifier *v = k->v;
	unsigned int differs = 0;

	while (!stopped(v)) {
		int owed, r = is_away(v) ? AWAY : compare(k, i);

		if (r == AWAY) {
			rest(v, REST_MS);
			continue;
		}
		if (!k->n && (r == EQUAL || r == WAITS)) {
			count(v, r == EQUAL ? &v->report.objects : &v->report.waiting, r == EQUAL ? k->size : 0);
			return;
		}
		owed = owes(v, i, r);
		if (owed < 0) {
			failed(v, owed);
		} else if (owed || !k->n) { /* nothing found, and it was not compared: no memory, for instance */
			put_off(v, i);
			return;
		} else if (++differs == SURE) {
			tell(k, i);
			return;
		}
	}
}

/* ---- all of them ---- */

static int on_name(void *arg, const char *name, uint64_t ino)
{
	struct worker *k = arg;
	struct here_object o;
	int r;

	if (stopped(k->v))
		return -ECANCELED;
	r = here_open(k->v->m, k->dir_fd, name, &o);
	if (r != 0)
		return r == 1 ? 0 : r;
	if (S_ISDIR(o.st.st_mode))
		r = push(k->v, &(struct item){ o.h, k->dir, STUB_OWED_NAMES | STUB_OWED_ATTRS });
	else
		check(k, &(struct item){ o.h, k->dir, STUB_OWED_DATA | STUB_OWED_ATTRS });
	here_close(&o);
	return r;
}

/* It may have gone meanwhile. */
static void visit(struct worker *k, const struct item *i)
{
	int r, fd;

	check(k, i);
	fd = stub_handle_open_at(stub_volume_fd(k->v->m->volume), &i->h,
				 O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
	if (fd < 0) {
		if (fd != -ESTALE)
			failed(k->v, fd);
		return;
	}
	k->dir_fd = fd;
	k->dir = i->h;
	r = here_each(k->v->m, fd, on_name, k);
	close(fd);
	if (r < 0 && r != -ECANCELED)
		failed(k->v, r);
}

static void *worker_thread(void *arg)
{
	struct worker *k = arg;
	struct verifier *v = k->v;
	struct item i;

	pthread_mutex_lock(&v->lock);
	while (v->report.state == VERIFY_RUNS && (v->dirs.n || v->busy)) {
		if (!v->dirs.n) {
			pthread_cond_wait(&v->wake, &v->lock);
			continue;
		}
		i = v->dirs.at[--v->dirs.n];
		v->busy++;
		pthread_mutex_unlock(&v->lock);
		visit(k, &i);
		pthread_mutex_lock(&v->lock);
		if (--v->busy == 0)
			pthread_cond_broadcast(&v->wake);
	}
	pthread_mutex_unlock(&v->lock);
	return NULL;
}

static void work(struct verifier *v)
{
	struct worker *k = calloc(WORKERS, sizeof(*k));
	unsigned int n = 0;
	const struct item root = { .h = *stub_volume_root(v->m->volume), .what = STUB_OWED_NAMES | STUB_OWED_ATTRS };
	int r = k ? push(v, &root) : -ENOMEM;

	while (r == 0 && n < WORKERS) {
		k[n].v = v;
		r = -pthread_create(&k[n].thread, NULL, worker_thread, &k[n]);
		n += r == 0;
	}
	if (r < 0)
		failed(v, r);
	while (n)
		pthread_join(k[--n].thread, NULL);
	free(k);
}

/* What was owed, once more. */
static void work_later(struct verifier *v)
{
	struct worker *k = calloc(1, sizeof(*k));
	struct items now = { 0 };

	if (!k)
		failed(v, -ENOMEM);
	for (int s = 0; k && s < LATER_S && v->later.n && !stopped(v); s++) {
		rest(v, REST_MS);
		k->v = v;
		free(now.at);
		now = v->later;
		v->later = (struct items){ 0 };
		for (size_t i = 0; i < now.n && !stopped(v); i++)
			check(k, &now.at[i]);
	}
	pthread_mutex_lock(&v->lock);
	v->report.owed += v->later.n;
	pthread_mutex_unlock(&v->lock);
	free(now.at);
	free(k);
}

static void *verify_thread(void *arg)
{
	struct verifier *v = arg;
	struct verify_report now;

	work(v);
	work_later(v);
	pthread_mutex_lock(&v->lock);
	if (v->report.state == VERIFY_RUNS) {
		v->report.state = atomic_load(&v->m->stopping) ? VERIFY_STOPPED : VERIFY_DONE;
		v->report.ms = stub_now_ms() - v->begun_ms;
	}
	v->alive = false;
	free(v->dirs.at);
	free(v->later.at);
	v->dirs = v->later = (struct items){ 0 };
	now = v->report;
	pthread_mutex_unlock(&v->lock);
	mirror_log(v->m, STUB_LOG_INFO, "verify: %llu objects are alike, %llu differences",
		   (unsigned long long)now.objects, (unsigned long long)now.different);
	return NULL;
}

/* ---- what others call ---- */

int verifier_start(struct verifier *v, bool repairs)
{
	bool alive;
	int r;

	pthread_mutex_lock(&v->lock);
	alive = v->alive;
	if (!alive) {
		v->alive = true;
		v->report = (struct verify_report){ .state = VERIFY_RUNS, .repairs = repairs };
		v->begun_ms = stub_now_ms();
	}
	pthread_mutex_unlock(&v->lock);
	if (alive)
		return -EBUSY;
	if (v->threaded)
		pthread_join(v->thread, NULL);
	r = -pthread_create(&v->thread, NULL, verify_thread, v);
	v->threaded = r == 0;
	if (r < 0) {
		failed(v, r);
		v->alive = false;
	}
	return r;
}

void verifier_stop(struct verifier *v)
{
	pthread_mutex_lock(&v->lock);
	if (v->report.state == VERIFY_RUNS) {
		v->report.state = VERIFY_STOPPED;
		v->report.ms = stub_now_ms() - v->begun_ms;
	}
	pthread_cond_broadcast(&v->wake);
	pthread_mutex_unlock(&v->lock);
}

unsigned int verifier_report(struct verifier *v, struct verify_report *out, struct verify_difference *first)
{
	unsigned int n;

	pthread_mutex_lock(&v->lock);
	*out = v->report;
	if (out->state == VERIFY_RUNS)
		out->ms = stub_now_ms() - v->begun_ms;
	n = out->different < VERIFY_TOLD ? (unsigned int)out->different : VERIFY_TOLD;
	if (first)
		memcpy(first, v->first, n * sizeof(*first));
	pthread_mutex_unlock(&v->lock);
	return n;
}

int verifier_create(struct mirror *m, struct verifier **out)
{
	struct verifier *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->m = m;
	pthread_mutex_init(&v->lock, NULL);
	stub_cond_init(&v->wake);
	*out = v;
	return 0;
}

void verifier_destroy(struct verifier *v)
{
	if (!v)
		return;
	verifier_stop(v);
	if (v->threaded)
		pthread_join(v->thread, NULL);
	pthread_cond_destroy(&v->wake);
	pthread_mutex_destroy(&v->lock);
	free(v);
}
