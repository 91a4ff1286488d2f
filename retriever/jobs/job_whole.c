/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_whole.c - the bytes of small files, while the crawler lists their directory
 * (docs/decisions/0066).
 *
 * The worker that lists sends the READs of a batch of entries, waits for them, and hands the
 * entries on with their bytes; stub_list_whole() makes those files whole.  Whatever is in the way,
 * an entry without bytes becomes a stub: a client that asks for the listing (hurry), a source
 * that does not answer, the byte rate, the budget, another version than the one that was listed.
 *
 * Of a source whose listings tell little, READs are METAs: what is asked for is all of the file, and the
 * entry is a dummy until it has come (docs/decisions/0099).
 *
 * A READ cannot be called back.  Nobody waits for one that is late: it holds struct whole, and
 * what belongs to it, until it answers, and its bytes are thrown away.
 */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "jobs/job_whole.h"

#define BATCH	    1024  /* entries, hence descriptors */
#define WINDOW	    64	  /* READs in flight for one listing ... */
#define WINDOW_FEW  4	  /* ... at least, however many are in flight for others */
#define INFLIGHT    256	  /* for all of them */
#define INFLIGHT_MAX 2048 /* late ones too */
#define REST_MS	    10000 /* nothing is tried for so long where the source did not answer */
#define TURN_US	    100000 /* longer nobody waits for the byte rate here */
#define ROOM_MS	    50
#define PLAIN_OF    8	  /* METAs of a batch, of which half are to be plain, ... */
#define SKIP	    64	  /* ... or so many listings do without */
#define CHARGE	    4096  /* memory counts so much at least: there is a descriptor for each, too */

struct got { /* a READ of all of a file */
	struct got *next;
	struct whole *w;
	uint64_t batch;
	size_t index;
	int64_t result;
	bool have_attr;
	struct stub_attr attr;
	bool digested;
	uint8_t digest[DIGEST_BYTES];
	uint32_t size;
	const void *bytes; /* own, or of meta */
	bool asked;	   /* the entry is a dummy: */
	struct source_meta meta;
	struct stub_entry full;
	char own[];
};

struct whole {
	struct jobs *j;
	const struct job *job;
	atomic_bool hurry;
	bool empty; /* nothing was in the directory */
	bool given_up;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t moved;
	unsigned int refs;     /* the worker, and each READ */
	uint64_t batch;	       /* READs of another number are late */
	unsigned int inflight; /* READs of this one */
	unsigned int wake_at;  /* the worker waits until so few are in flight */
	struct got *done;
	/* the worker's */
	struct digest_sha *sha; /* NULL: digests are not wanted */
	struct got *kept; /* whose bytes are in data, or will be */
	const void *data[BATCH];
	const uint8_t *digest[BATCH]; /* NULL: none */
	const struct stub_entry *full[BATCH]; /* of dummies */
};

static uint32_t charge(uint32_t size)
{
	return size > CHARGE ? size : CHARGE;
}

/* All of a list. */
static void got_free(struct jobs *j, struct got *g)
{
	uint32_t bytes = 0;

	while (g) {
		struct got *next = g->next;

		bytes += charge(g->size);
		source_meta_free(&g->meta);
		free(g);
		g = next;
	}
	if (bytes)
		budget_give(&j->budget, BUDGET_CRAWLER, bytes);
}

static void whole_free(struct whole *w)
{
	digest_sha_destroy(w->sha);
	pthread_cond_destroy(&w->moved);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* ---- READs ---- */

static void count(struct jobs *j, int by)
{
	pthread_mutex_lock(&j->wholes.lock);
	j->wholes.inflight += (unsigned int)by;
	if (!j->wholes.inflight)
		pthread_cond_broadcast(&j->wholes.none);
	pthread_mutex_unlock(&j->wholes.lock);
}

static unsigned int inflight_all(struct jobs *j)
{
	unsigned int n;

	pthread_mutex_lock(&j->wholes.lock);
	n = j->wholes.inflight;
	pthread_mutex_unlock(&j->wholes.lock);
	return n;
}

/* On a thread of the source. */
static void arrived(struct got *g)
{
	struct whole *w = g->w;
	struct jobs *j = w->j;
	bool late, last;

	pthread_mutex_lock(&w->lock);
	late = g->batch != w->batch;
	if (!late) {
		g->next = w->done;
		w->done = g;
		if (--w->inflight <= w->wake_at)
			pthread_cond_signal(&w->moved);
	}
	last = --w->refs == 0;
	pthread_mutex_unlock(&w->lock);
	g = late ? g : NULL;
	if (g)
		g->next = NULL;
	got_free(j, g);
	if (last)
		whole_free(w);
	count(j, -1);
}

static void on_read(void *arg, const struct source_read *r)
{
	struct got *g = arg;

	g->result = r->result;
	g->have_attr = r->have_attr;
	if (r->have_attr)
		g->attr = r->attr;
	if (r->result == g->size)
		memcpy(g->own, r->data, g->size);
	arrived(g);
}

static void on_meta(void *arg, int error, struct source_meta *m)
{
	struct got *g = arg;

	g->result = error ? error : (int64_t)m->data_len;
	g->have_attr = !error;
	g->attr = m->attr;
	g->bytes = m->data;
	g->meta = *m;
	arrived(g);
}

static int send(struct whole *w, const struct stub_entry *e, size_t index)
{
	struct got *g = malloc(sizeof(*g) + (e->dummy ? 0 : e->attr.size));
	struct stub_origin origin = { .len = (uint16_t)e->origin_len };
	struct source *s = w->j->c.source;
	int r;

	if (!g) {
		budget_give(&w->j->budget, BUDGET_CRAWLER, charge((uint32_t)e->attr.size));
		return -ENOMEM;
	}
	memcpy(origin.bytes, e->origin, e->origin_len);
	*g = (struct got){ .w = w, .batch = w->batch, .index = index, .size = (uint32_t)e->attr.size,
			   .asked = e->dummy };
	g->bytes = g->own;
	count(w->j, 1);
	pthread_mutex_lock(&w->lock);
	w->inflight++;
	w->refs++;
	pthread_mutex_unlock(&w->lock);
	r = e->dummy ? source_meta_send(s, &origin, g->size, on_meta, g) :
		       source_read(s, SOURCE_BACKGROUND, &origin, 0, g->size, on_read, g);
	if (r == 0)
		return 0;
	pthread_mutex_lock(&w->lock);
	w->inflight--;
	w->refs--;
	pthread_mutex_unlock(&w->lock);
	count(w->j, -1);
	got_free(w->j, g);
	return r;
}

/* ---- waiting ---- */

static bool hurried(const struct whole *w)
{
	return atomic_load(&w->hurry) || atomic_load(&w->j->stopping);
}

/* Of a file that has come, instead of waiting.  With the lock, which is given back meanwhile; false:
 * of none. */
static bool digest_one(struct whole *w)
{
	struct got *g = w->sha ? w->done : NULL;

	if (!g)
		return false;
	w->done = g->next;
	pthread_mutex_unlock(&w->lock);
	g->digested = g->result == g->size && digest_of(w->sha, g->bytes, g->size, g->digest);
	g->next = w->kept;
	w->kept = g;
	pthread_mutex_lock(&w->lock);
	return true;
}

/* Until not more than @most READs are in flight.  False: nobody is to wait for them. */
static bool wait_below(struct whole *w, unsigned int most)
{
	uint64_t until = stub_now_ms() + w->j->c.patience_ms;
	unsigned int before;
	bool silent = false;

	pthread_mutex_lock(&w->lock);
	w->wake_at = most;
	before = w->inflight;
	while (w->inflight > most && !hurried(w) && !silent) {
		silent = !digest_one(w) &&
			 stub_cond_wait_until(&w->moved, &w->lock, until) == -ETIMEDOUT &&
			 w->inflight == before && !limiter_holds(w->j->c.limiter);
		if (!silent && (w->inflight != before || stub_now_ms() >= until)) {
			before = w->inflight;
			until = stub_now_ms() + w->j->c.patience_ms;
		}
	}
	pthread_mutex_unlock(&w->lock);
	if (silent)
		atomic_store(&w->j->wholes.rests_until_ms, stub_now_ms() + REST_MS);
	return !silent && !hurried(w);
}

/* Until there is place for one more of @window: half of them at once, not one by one. */
static bool wait_place(struct whole *w, unsigned int window)
{
	bool full;

	pthread_mutex_lock(&w->lock);
	full = w->inflight >= window;
	pthread_mutex_unlock(&w->lock);
	return full ? wait_below(w, window / 2) : !hurried(w);
}

/* False: paused, or too far behind the byte rate. */
static bool take_turn(struct whole *w, uint64_t bytes)
{
	int64_t us = turns_try(&w->j->turns, bytes, TURN_US);
	uint64_t until = stub_now_ms() + (uint64_t)(us > 0 ? us : 0) / 1000;

	pthread_mutex_lock(&w->lock);
	while (us > 0 && !hurried(w) && stub_now_ms() < until)
		stub_cond_wait_until(&w->moved, &w->lock, until);
	pthread_mutex_unlock(&w->lock);
	return us >= 0;
}

enum next { NEXT_SENT, NEXT_STUB, NEXT_FULL, NEXT_OVER };

/* Memory for @bytes.  Who holds some does not wait for more. */
static enum next take_room(struct whole *w, uint32_t bytes, bool holds)
{
	if (budget_try(&w->j->budget, BUDGET_CRAWLER, bytes))
		return NEXT_SENT;
	if (holds)
		return NEXT_FULL;
	while (!budget_take_for(&w->j->budget, BUDGET_CRAWLER, bytes, ROOM_MS))
		if (hurried(w))
			return NEXT_OVER;
	return NEXT_SENT;
}

static enum next begin_read(struct whole *w, const struct stub_entry *e, size_t index, bool holds)
{
	unsigned int all = inflight_all(w->j);
	enum next next;

	if (all >= INFLIGHT_MAX)
		return NEXT_STUB;
	if (!wait_place(w, all < INFLIGHT ? WINDOW : WINDOW_FEW))
		return NEXT_OVER;
	next = take_room(w, charge((uint32_t)e->attr.size), holds);
	if (next != NEXT_SENT)
		return next;
	if (!take_turn(w, e->attr.size)) {
		budget_give(&w->j->budget, BUDGET_CRAWLER, charge((uint32_t)e->attr.size));
		return NEXT_STUB;
	}
	return send(w, e, index) < 0 ? NEXT_STUB : NEXT_SENT;
}

/* ---- a batch ---- */

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Are these all bytes of the version that was listed? */
static bool is_version(const struct got *g, const struct stub_entry *e)
{
	const struct stub_attr *a = &g->attr, *b = &e->attr;

	return g->result == g->size && g->have_attr && (a->mode & S_IFMT) == (b->mode & S_IFMT) &&
	       a->fsid == b->fsid && a->fileid == b->fileid && a->size == b->size &&
	       same_time(a->mtime, b->mtime) && same_time(a->ctime, b->ctime);
}

/* Is this the object that was listed, and all of it, without anything that somebody is to be told? */
static bool is_plain(const struct got *g, const struct stub_entry *e)
{
	const struct stub_attr *a = &g->attr, *b = &e->attr;

	return g->result == g->size && g->have_attr && S_ISREG(a->mode) && a->size == g->size &&
	       a->fsid == b->fsid && a->fileid == b->fileid && a->nlink == 1 && !a->acl && !a->acl_near &&
	       !a->time_unsure && !g->meta.lost && !g->meta.n_streams;
}

/* The entry as it is known now. */
static const struct stub_entry *full_entry(struct got *g, const struct stub_entry *e)
{
	g->full = *e;
	g->full.dummy = false;
	g->full.told = NULL;
	g->full.attr = g->attr;
	g->full.xattrs = g->meta.xattrs;
	g->full.n_xattrs = g->meta.n;
	g->full.times = source_meta_times(&g->meta);
	return &g->full;
}

/* Regular, and small, as far as it is known; a dummy: with all that a listing tells. */
static bool may_come(const struct whole *w, const struct stub_entry *e)
{
	uint32_t most = e->dummy ? source_meta_sends(w->j->c.source) : w->j->limits.read_bytes;

	return S_ISREG(e->attr.mode) && e->attr.size && e->attr.size <= w->j->c.small_file &&
	       e->attr.size <= most && (!e->dummy || e->told);
}

/* A regular file of one name, with all its attributes or as a dummy, and small. */
static bool is_small(const struct whole *w, int dir_fd, const struct stub_entry *e)
{
	char name[STUB_NAME_MAX + 1];
	struct stat st;

	if (e->error || e->attr.nlink != 1 || !may_come(w, e) || !e->origin_len || e->origin_len > STUB_ORIGIN_MAX ||
	    stub_name_check(e->name, e->name_len) < 0)
		return false;
	if (w->empty)
		return true;
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0; /* ours, of an earlier try */
}

/* What cannot be made whole is asked for twice: where that is most of it, other listings do not try. */
static void judge(struct whole *w, size_t asked, size_t plain)
{
	if (asked >= PLAIN_OF && plain < asked / 2)
		atomic_store(&w->j->wholes.skip, SKIP);
}

/* What has come: its bytes into w->data.  What comes later is late. */
static void collect(struct whole *w, const struct stub_entry *e)
{
	struct got **end = &w->kept;
	size_t asked = 0, plain = 0;

	pthread_mutex_lock(&w->lock);
	while (!hurried(w) && digest_one(w))
		;
	while (*end)
		end = &(*end)->next;
	*end = w->done;
	w->done = NULL;
	w->batch++;
	w->inflight = 0;
	pthread_mutex_unlock(&w->lock);
	for (struct got *g = w->kept; g; g = g->next) {
		const struct stub_entry *one = &e[g->index];

		asked += g->asked;
		if (g->asked ? !is_plain(g, one) : !is_version(g, one))
			continue;
		plain += g->asked;
		w->full[g->index] = g->asked ? full_entry(g, one) : NULL;
		w->data[g->index] = g->bytes;
		w->digest[g->index] = g->digested ? g->digest : NULL;
	}
	judge(w, asked, plain);
}

static bool in_a_hurry(void *arg)
{
	return hurried(arg);
}

size_t jobs_whole_fetch(struct whole *w, int dir_fd, const struct stub_entry *e, size_t n,
			struct stub_whole *out)
{
	size_t end = n < BATCH ? n : BATCH;
	enum next next = NEXT_STUB;
	bool holds = false;

	memset(w->data, 0, end * sizeof(w->data[0]));
	memset(w->digest, 0, end * sizeof(w->digest[0]));
	memset(w->full, 0, end * sizeof(w->full[0]));
	for (size_t i = 0; i < end && next != NEXT_OVER; i++) {
		if (!is_small(w, dir_fd, &e[i]))
			continue;
		next = begin_read(w, &e[i], i, holds);
		holds |= next == NEXT_SENT;
		if (next == NEXT_FULL)
			end = i; /* these first */
	}
	if (next != NEXT_OVER && !wait_below(w, 0))
		next = NEXT_OVER;
	w->given_up = next == NEXT_OVER;
	collect(w, e);
	*out = (struct stub_whole){
		.data = w->data,
		.digest = w->digest,
		.full = w->full,
		.syncer = w->j->c.syncer,
		.finisher = w->j->c.finisher,
		.hurry = in_a_hurry,
		.arg = w,
	};
	return end;
}

void jobs_whole_made(struct whole *w, const struct stub_whole *batch)
{
	got_free(w->j, w->kept);
	w->kept = NULL;
	atomic_fetch_add(&w->j->n.whole, batch->files);
	atomic_fetch_add(&w->j->n.bytes, batch->bytes);
	if (batch->files)
		trace(w->job->trace, "%llu small files made whole",
		      (unsigned long long)batch->files);
}

bool jobs_whole_wanted(const struct whole *w)
{
	struct jobs *j = w->j;
	uint64_t full_ms;

	/* not full_now(): whoever is let through by it has to try */
	return !w->given_up && !hurried(w) && full_state(&j->full, &full_ms) == 0 &&
	       stub_now_ms() >= atomic_load(&j->wholes.rests_until_ms) &&
	       !atomic_load(&j->turns.paused) && stub_syncer_well(j->c.syncer);
}

/* ---- a listing ---- */

/* Under the table's lock. */
static void hurry(void *arg)
{
	struct whole *w = arg;

	atomic_store(&w->hurry, true);
	pthread_mutex_lock(&w->lock);
	pthread_cond_signal(&w->moved);
	pthread_mutex_unlock(&w->lock);
	stub_syncer_wake(w->j->c.syncer);
}

static bool is_empty(int dir_fd)
{
	/* the directory's access time is the source's until a client reads it */
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	bool empty = true;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (empty && (d = readdir(dir)))
		empty = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
	closedir(dir);
	return empty;
}

/* Is this listing one of those that do not try? */
static bool skipped(struct wholes *s)
{
	unsigned int n = atomic_load(&s->skip);

	while (n && !atomic_compare_exchange_weak(&s->skip, &n, n - 1))
		continue;
	return n;
}

struct whole *jobs_whole_begin(struct jobs *j, struct job *job, const struct stub_object *dir)
{
	struct whole *w;

	if (!job->background || !j->c.small_file || !j->c.syncer || source_opens(j->c.source) ||
	    jobs_know_limits(j) < 0 || skipped(&j->wholes))
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->j = j;
	w->job = job;
	w->refs = 1;
	w->empty = is_empty(dir->fd);
	if (j->c.digests)
		digest_sha_create(&w->sha);
	pthread_mutex_init(&w->lock, NULL);
	stub_cond_init(&w->moved);
	pthread_mutex_lock(&j->table.lock);
	atomic_store(&w->hurry, job->wanted);
	job->hurry_arg = w;
	job->hurry = hurry;
	pthread_mutex_unlock(&j->table.lock);
	return w;
}

void jobs_whole_end(struct whole *w, struct job *job)
{
	bool last;

	if (!w)
		return;
	pthread_mutex_lock(&w->j->table.lock);
	job->hurry = NULL;
	pthread_mutex_unlock(&w->j->table.lock);
	pthread_mutex_lock(&w->lock);
	last = --w->refs == 0;
	pthread_mutex_unlock(&w->lock);
	if (last)
		whole_free(w);
}

void wholes_init(struct wholes *s)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->none, NULL);
}

/* Late READs use what is about to go. */
void wholes_wait(struct wholes *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->inflight)
		pthread_cond_wait(&s->none, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void wholes_finish(struct wholes *s)
{
	pthread_cond_destroy(&s->none);
	pthread_mutex_destroy(&s->lock);
}
