/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keyset.h"
#include "names.h"
#include "pick.h"
#include "resting.h"

#define STEPS	  256 /* names that are looked at in one call */
#define SOME	  4096 /* ... of which the best are chosen, where there is an order */
#define SOME_MS	  50 /* ... or as many as in so long */
#define SWEEP_MS  10000 /* from one walk to the next one, at least; ... */
#define NAMES_MS  10 /* ... for so many names a millisecond: ten times what they take */
#define LEVELS	  64 /* of directories that are gone through; what is deeper comes in its turn */
#define TODO	  512 /* directories that were just listed */

struct level {
	DIR *dir;
	enum order_when when; /* of the files in it */
	size_t len; /* of its path */
};

struct walk {
	struct level at[LEVELS];
	unsigned int n;
	char path[PATH_MAX]; /* from the volume's root */
};

struct places {
	struct stub_volume *volume;
	stub_log_fn log;
	void *log_arg;
	struct order order;
	dev_t dev;
	struct pick *pick; /* what was found, and comes first */
	struct stub_handle todo[TODO]; /* just listed; the last one is the next one */
	unsigned int todo_n;
	struct walk fresh; /* one of these: itself only */
	struct walk sweep; /* all that is meant */
	uint64_t sweep_at_ms; /* the next one */
	uint64_t looked; /* names, in this one */
	struct keyset last, coming; /* files that come last; as the present sweep finds them */
	bool said_full;
};

/* ---- paths ---- */

/* The path of an open directory, from the root.  -errno; -EXDEV: it is not below that. */
static int path_of_fd(const struct places *p, int fd, char out[PATH_MAX])
{
	char link[64], root[PATH_MAX], path[PATH_MAX];
	ssize_t n, r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", stub_volume_fd(p->volume));
	r = readlink(link, root, sizeof(root));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	if (r < 0 || n < 0)
		return -errno;
	if (r == sizeof(root) || n == sizeof(path))
		return -ENAMETOOLONG;
	if (r == 1) /* it is / */
		r = 0;
	if (n < r || memcmp(path, root, (size_t)r) || (n > r && path[r] != '/'))
		return -EXDEV;
	path[n] = '\0';
	memcpy(out, path + r + (n > r), (size_t)(n - r) + (n == r));
	return 0;
}

static struct order_place place_of(const struct places *p, const struct stub_handle *h)
{
	struct order_place usual = { .when = ORDER_USUAL };
	char path[PATH_MAX];
	int r, fd = stub_handle_open_at(stub_volume_fd(p->volume), h,
					O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return usual;
	r = path_of_fd(p, fd, path);
	close(fd);
	return r < 0 ? usual : order_place(&p->order, path);
}

/* ---- walks ---- */

static void walk_up(struct walk *w)
{
	closedir(w->at[--w->n].dir);
}

static void walk_end(struct walk *w)
{
	while (w->n)
		walk_up(w);
}

/* Into the directory @fd, which is closed, at w->path. */
static void walk_into(struct walk *w, int fd, enum order_when when)
{
	DIR *dir = names_of_fd(fd);

	if (dir)
		w->at[w->n++] = (struct level){ .dir = dir, .when = when, .len = strlen(w->path) };
}

/* The path of @name in the directory that is being gone through. False: it is too long. */
static bool walk_name(struct walk *w, const char *name)
{
	size_t len = w->at[w->n - 1].len;
	int n = snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "", name);

	return n >= 0 && (size_t)n < sizeof(w->path) - len;
}

/* An object of the volume's file system: its descriptor (O_PATH) and handle; -errno */
static int open_name(const struct places *p, DIR *dir, const char *name, struct stub_handle *out)
{
	int fd = names_open(dir, name, 0, out);
	struct stat st;

	if (fd < 0 || (fstat(fd, &st) == 0 && st.st_dev == p->dev))
		return fd;
	close(fd);
	return -EXDEV;
}

/* ---- what is found ---- */

static void offer(struct places *p, const struct stub_journal_entry *e)
{
	pick_offer(p->pick, order_rank(&p->order, e, time(NULL)), e);
}

static void note_last(struct places *p, const struct stub_handle *h)
{
	uint64_t key = resting_key(h);
	int r = keyset_put(&p->coming, key);
	if (r == 0)
		r = keyset_put(&p->last, key);
	if (r < 0 && !p->said_full) {
		p->said_full = true;
		stub_log_to(p->log, p->log_arg, STUB_LOG_WARN, "%u files that are to come last are "
			    "known, and there is no room for more: these come in the usual order",
			    p->last.n);
	}
}

static int file_met(struct places *p, struct walk *w, struct queue *q, const char *name,
		    uint64_t now_ms)
{
	const struct level *top = &w->at[w->n - 1];
	struct stub_journal_entry e;
	struct stub_handle h;
	int fd, r;

	if (top->when == ORDER_USUAL)
		return 0;
	fd = open_name(p, top->dir, name, &h);
	if (fd < 0)
		return 0;
	close(fd);
	r = queue_waits(q, &h, false, now_ms, &e);
	if (r == 1 && top->when == ORDER_FIRST)
		offer(p, &e);
	else if (r > 0 && top->when == ORDER_LAST)
		note_last(p, &h);
	return r < 0 ? r : 0;
}

/* A directory that is not listed is asked for, while what was listed can be gone through; into one
 * that is goes the sweep. */
static int dir_met(struct places *p, struct walk *w, struct queue *q, const char *name,
		   uint64_t now_ms)
{
	struct stub_journal_entry e;
	struct order_place place;
	struct stub_handle h;
	int fd, r;

	if (!walk_name(w, name))
		return 0;
	place = order_place(&p->order, w->path);
	if (place.when == ORDER_USUAL && !place.below)
		return 0;
	fd = open_name(p, w->at[w->n - 1].dir, name, &h);
	if (fd < 0)
		return 0;
	r = queue_waits(q, &h, false, now_ms, &e);
	if (r == 1 && (place.when == ORDER_FIRST || place.way) && p->todo_n < TODO / 2)
		offer(p, &e);
	else if (r == 0 && w == &p->sweep && w->n < LEVELS)
		walk_into(w, openat(fd, ".", NAMES_OPEN), place.when);
	close(fd);
	return r < 0 ? r : 0;
}

static int name_met(struct places *p, struct walk *w, struct queue *q, uint64_t now_ms)
{
	struct dirent *d = names_next(w->at[w->n - 1].dir);
	struct stat st;

	if (!d) {
		walk_up(w);
		return 0;
	}
	p->looked++;
	if (d->d_type == DT_UNKNOWN &&
	    fstatat(dirfd(w->at[w->n - 1].dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		d->d_type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
	if (d->d_type == DT_DIR)
		return dir_met(p, w, q, d->d_name, now_ms);
	return file_met(p, w, q, d->d_name, now_ms);
}

/* ---- what is looked at next ---- */

static void fresh_begin(struct places *p)
{
	const struct stub_handle *h = &p->todo[--p->todo_n];
	int fd = stub_handle_open_at(stub_volume_fd(p->volume), h, NAMES_OPEN);

	if (fd >= 0 && path_of_fd(p, fd, p->fresh.path) < 0) {
		close(fd);
		return;
	}
	if (fd >= 0)
		walk_into(&p->fresh, fd, order_place(&p->order, p->fresh.path).when);
}

static void sweep_begin(struct places *p, uint64_t now_ms)
{
	p->looked = 0;
	p->sweep_at_ms = now_ms + SWEEP_MS; /* if it does not begin */
	p->sweep.path[0] = '\0';
	walk_into(&p->sweep, openat(stub_volume_fd(p->volume), ".", NAMES_OPEN), ORDER_USUAL);
}

static void sweep_end(struct places *p, uint64_t now_ms)
{
	uint64_t rest = p->looked / NAMES_MS;

	keyset_clear(&p->last);
	p->last = p->coming;
	p->coming = (struct keyset){ 0 };
	p->sweep_at_ms = now_ms + (rest > SWEEP_MS ? rest : SWEEP_MS);
}

/* Look at one name.  1; 0: there is nothing to look at now; -errno of the journal. */
static int look(struct places *p, struct queue *q, uint64_t now_ms)
{
	struct walk *w = &p->fresh;
	int r;

	if (!w->n && p->todo_n)
		fresh_begin(p);
	else if (!w->n && !p->sweep.n && now_ms >= p->sweep_at_ms)
		sweep_begin(p, now_ms);
	if (!w->n)
		w = &p->sweep;
	if (!w->n)
		return p->todo_n > 0;
	r = name_met(p, w, q, now_ms);
	if (w == &p->sweep && !w->n)
		sweep_end(p, now_ms);
	return r < 0 ? r : 1;
}

/* Of what was found, what waits still. */
static int take(struct places *p, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	struct stub_journal_entry e;

	while (pick_take(p->pick, &e)) {
		int r = queue_ask(q, &e.h, false, now_ms, out);

		if (r < 0 || r == 1)
			return r;
	}
	return 0;
}

int places_next(struct places *p, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	unsigned int most = p->order.keys ? SOME : STEPS;
	int r;

	if (!p->order.patterns)
		return 0;
	r = take(p, q, now_ms, out);
	if (r != 0)
		return r;
	pick_clear(p->pick);
	r = 1;
	for (unsigned int i = 0; i < most && r == 1; i++) {
		if (i % STEPS == 0 && i && stub_now_ms() >= now_ms + SOME_MS)
			break;
		r = look(p, q, now_ms);
	}
	pick_sort(p->pick);
	return r < 0 ? r : take(p, q, now_ms, out);
}

bool places_busy(const struct places *p, uint64_t now_ms)
{
	return p->order.patterns &&
	       (p->fresh.n || p->todo_n || p->sweep.n || now_ms >= p->sweep_at_ms);
}

/* ---- what the crawler says, and asks ---- */

int places_create(struct stub_volume *v, stub_log_fn log, void *log_arg, struct places **out)
{
	struct places *p = calloc(1, sizeof(*p));
	struct stat st;

	if (!p)
		return -ENOMEM;
	p->volume = v;
	p->log = log;
	p->log_arg = log_arg;
	order_init(&p->order);
	if (fstat(stub_volume_fd(v), &st) == 0)
		p->dev = st.st_dev;
	*out = p;
	return 0;
}

static void forget(struct places *p)
{
	walk_end(&p->fresh);
	walk_end(&p->sweep);
	keyset_clear(&p->last);
	keyset_clear(&p->coming);
	p->todo_n = 0;
	p->sweep_at_ms = 0;
	p->said_full = false;
}

void places_destroy(struct places *p)
{
	if (!p)
		return;
	forget(p);
	pick_destroy(p->pick);
	free(p);
}

int places_order(struct places *p, const struct order *o)
{
	int r = 0;

	if (order_equal(&p->order, o))
		return 0;
	forget(p);
	p->order = *o;
	if (o->patterns && !p->pick)
		r = pick_create(&p->pick);
	if (r < 0)
		p->order.patterns = 0;
	if (p->pick)
		pick_clear(p->pick);
	return r;
}

void places_listed(struct places *p, const struct stub_handle *h)
{
	struct order_place place;

	if (!p->order.patterns || p->todo_n == TODO)
		return;
	place = place_of(p, h);
	if (place.when == ORDER_FIRST || place.below)
		p->todo[p->todo_n++] = *h;
}

bool places_last(void *places, const struct stub_journal_entry *e)
{
	struct places *p = places;
	struct order_place place;

	if (!p->order.patterns)
		return false;
	if (e->kind == STUB_JOURNAL_FILE)
		return keyset_has(&p->last, resting_key(&e->h));
	place = place_of(p, &e->h);
	return place.when == ORDER_LAST && !place.way;
}

uint64_t places_last_files(void *places)
{
	const struct places *p = places;

	return p->last.n;
}
