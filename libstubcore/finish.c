/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * finish.c - batched completion: partial -> normal (docs/design.md, section 11).
 *
 * One thread, working in rounds.  A round:
 *   1. take what was handed in; an object whose map is empty is a candidate
 *   2. syncfs: its data is on disk now (and the records dropped in the last round)
 *   3. remove the journal entries of the last round's objects
 *   4. drop the candidates' records, each under its exclusion
 * Hence an entry leaves the journal only when its object is durably normal, and a
 * record goes only when the data it vouches for is on disk.  A map never grows, so
 * a candidate of step 1 is still one in step 4.
 *
 * When a sync fails, the kernel may have thrown away what it could not write, of
 * any object that was touched since the last good one: a new era begins (era.c), in
 * which all of that counts as missing.  Nothing is finished then, and the next sync
 * waits: the journal has the objects still, and they come again.
 *
 * What clients asked for lately is finished later (finish_later.c): step 4 moves its change
 * time, and a client that is reading it must not see that.  Programs that read a whole tree,
 * as tar does, look at a directory again after all that is below it: so a directory waits
 * for what is in it, and so on downwards.
 *
 * An inode with several names at the source waits for the names: it is finished
 * when they are all there, or with stub_finisher_add_last() without them.  Then it is
 * counted as split: a name lies in a directory that was not listed, or is a file of its own
 * (links.c).
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>

#include "finish_later.h"

#define ROUND_MAX 8192
#define QUEUE_MAX 65536 /* 9 MB; more are handed in again by who meets their entries */
#define GATHER_MS 150 /* wait for more before a sync */
#define REST_MIN_MS 500 /* after a sync that failed, doubling */
#define REST_MAX_MS 30000
#define SPLIT_TOLD 1000 /* lines of the log */

enum how { HOW_DONE, HOW_LAST, HOW_STALE, HOW_WHOLE };

struct item {
	struct stub_handle h;
	enum how how;
	bool was_kept; /* nobody has asked for it during the delay */
	bool candidate;
};

struct handles {
	struct stub_handle *h;
	size_t n, cap;
};

struct stub_finisher {
	struct stub_volume *v;
	struct stub_journal *j;
	struct stub_log log;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	bool stop, hurry;
	struct item *queue;
	size_t n_queue, cap_queue;
	struct handles dropped; /* records gone, entries not yet */
	struct handles gone; /* the objects, too: nobody has done them */
	struct handles links;	/* this round's that wait for names */
	uint64_t inflight, split;
	struct stub_later later; /* what is kept in it is not in flight */
	uint64_t removed_before; /* the journal's count of removals when we began */
	/* The kernel tells of a failure once for each opening.  On the volume's own descriptor
	 * another thread's sync (fold.c) could be told, and ours succeed, and records be
	 * dropped before the other one has ended the era. */
	int sync_fd;
	unsigned int rest_ms; /* the thread's: before the next sync, 0 after a good one */
	bool era_owed; /* the thread's: a failed sync has not ended its era yet */
};

static void *grow(void *p, size_t *cap, size_t n, size_t size)
{
	size_t want = *cap ? *cap : 256;

	while (want < n)
		want *= 2;
	if (want == *cap)
		return p;
	p = realloc(p, want * size);
	if (p)
		*cap = want;
	return p;
}

/* With the lock held. */
static void enqueue(struct stub_finisher *f, const struct stub_handle *h, enum how how,
		    bool was_kept)
{
	struct item *q = NULL;

	if (f->n_queue < QUEUE_MAX)
		q = grow(f->queue, &f->cap_queue, f->n_queue + 1, sizeof(*q));
	if (!q) /* it stays in the journal and comes again */
		return;
	f->queue = q;
	q[f->n_queue++] = (struct item){ .h = *h, .how = how, .was_kept = was_kept };
	f->inflight++;
	if (f->n_queue == 1 || f->n_queue >= ROUND_MAX)
		pthread_cond_signal(&f->wake);
}

/* What was kept and is due, or all of it.  With the lock held. */
static void enqueue_due(struct stub_finisher *f, bool all)
{
	struct stub_handle h;
	int how;

	while (stub_later_due(&f->later, all, &h, &how))
		enqueue(f, &h, (enum how)how, !all);
}

/* The finisher's thread must know when the first one is due.  With the lock held. */
static bool keep(struct stub_finisher *f, const struct stub_handle *h, enum how how)
{
	bool first = f->later.kept == 0, kept = stub_later_keep(&f->later, h, how);

	if (kept && first)
		pthread_cond_signal(&f->wake);
	return kept;
}

static void add(struct stub_finisher *f, const struct stub_handle *h, enum how how)
{
	pthread_mutex_lock(&f->lock);
	if (how == HOW_STALE || !keep(f, h, how))
		enqueue(f, h, how, false);
	pthread_mutex_unlock(&f->lock);
}

STUB_PUBLIC void stub_finisher_touch(struct stub_finisher *f, const struct stub_handle *h)
{
	pthread_mutex_lock(&f->lock);
	if (stub_later_touch(&f->later, h))
		enqueue_due(f, false);
	pthread_mutex_unlock(&f->lock);
}

STUB_PUBLIC bool stub_finisher_keeps(struct stub_finisher *f, const struct stub_handle *h)
{
	bool keeps;

	pthread_mutex_lock(&f->lock);
	keeps = stub_later_touched(&f->later, h) != 0;
	pthread_mutex_unlock(&f->lock);
	return keeps;
}

STUB_PUBLIC void stub_finisher_set_delay(struct stub_finisher *f, unsigned int seconds)
{
	pthread_mutex_lock(&f->lock);
	f->later.delay_ms = seconds * 1000ull;
	pthread_mutex_unlock(&f->lock);
}

STUB_PUBLIC void stub_finisher_add(struct stub_finisher *f, const struct stub_handle *h)
{
	add(f, h, HOW_DONE);
}

STUB_PUBLIC void stub_finisher_add_whole(struct stub_finisher *f, const struct stub_handle *h)
{
	add(f, h, HOW_WHOLE);
}

STUB_PUBLIC void stub_finisher_add_last(struct stub_finisher *f, const struct stub_handle *h)
{
	add(f, h, HOW_LAST);
}

STUB_PUBLIC void stub_finisher_add_stale(struct stub_finisher *f, const struct stub_handle *h)
{
	add(f, h, HOW_STALE);
}

/* Names in the volume, without that of the provisional file. */
static uint64_t names_here(const struct stub_finisher *f, const struct stub_record *rec,
			   const struct stat *st)
{
	return st->st_nlink - (stub_provisional_exists(f->v, rec) ? 1 : 0);
}

/* May the record be dropped once everything is synced?  1 yes, 0 not yet, -errno.  @fd: O_PATH. */
static int judge(struct stub_finisher *f, int fd, const struct item *it, struct stub_record *rec,
		 struct stat *st)
{
	int r = stub_record_load_path(f->v, fd, &it->h, st, rec);
	unsigned int needs;

	if (r < 0)
		return r;
	needs = stub_record_needs(rec);
	if (needs == STUB_NEEDS_FINISH)
		return 1;
	if (needs == STUB_NEEDS_NAMES)
		return it->how == HOW_LAST || names_here(f, rec, st) >= rec->nlink_shown;
	return 0;
}

/* Without memory it is left out: its entry stays and will be met again. */
static void remember(struct handles *list, const struct stub_handle *h)
{
	struct stub_handle *p = grow(list->h, &list->cap, list->n + 1, sizeof(*p));

	if (!p)
		return;
	list->h = p;
	p[list->n++] = *h;
}

/* Step 1.  Of what is whole this is known: who stored its last bytes has seen the record.  On the way back the
 * place that the record has is put where it outlives it. */
static void look(struct stub_finisher *f, struct item *it, struct stub_record *rec)
{
	int r, fd CLEANUP_CLOSE = -1;
	struct stat st;

	it->candidate = it->how == HOW_WHOLE;
	if (it->candidate && !f->v->way_back)
		return;
	fd = stub_handle_open(f->v, &it->h, O_PATH);
	r = fd < 0 ? fd : judge(f, fd, it, rec, &st);
	if (r == 1) /* the sync covers it */
		r = stub_place_note(f->v, fd, rec->origin.bytes, rec->origin.len) < 0 ? 0 : 1;
	it->candidate = r == 1;
	if (r == -ESTALE || r == -ENOENT) /* only the entry is left */
		remember(r == -ESTALE ? &f->gone : &f->dropped, &it->h);
	else if (r == 0 && stub_record_needs(rec) == STUB_NEEDS_NAMES)
		remember(&f->links, &it->h);
	else if (r < 0)
		stub_log(&f->log, STUB_LOG_WARN, "finishing an object: %s", strerror(-r));
}

/* Some of its names will never come: counted, and told. */
static void tell_split(struct stub_finisher *f, const struct stub_record *rec, uint64_t names)
{
	uint64_t n;

	pthread_mutex_lock(&f->lock);
	n = ++f->split;
	pthread_mutex_unlock(&f->lock);
	if (n <= SPLIT_TOLD)
		stub_log(&f->log, STUB_LOG_WARN,
			 "hard link: %" PRIu64 " of %" PRIu32 " names of the file with file id %" PRIu64
			 " (fsid %" PRIu64 ") are one file here: others were not listed, or may be "
			 "another file's, and are files of their own%s",
			 names, rec->nlink_shown, rec->fileid, rec->fsid,
			 n == SPLIT_TOLD ? "; further ones are only counted" : "");
}

static int drop_locked(struct stub_finisher *f, int fd, const struct item *it,
		       struct stub_record *rec)
{
	struct stat st;
	uint64_t names;
	int r = judge(f, fd, it, rec, &st);

	if (r <= 0)
		return r == 0 ? -EAGAIN : r;
	names = names_here(f, rec, &st);
	if (stub_time_cmp(st.st_mtim, rec->mtime) != 0 && (!S_ISDIR(st.st_mode) || rec->roomy))
		r = stub_times_restore(fd, rec);
	else
		r = 0;
	if (r == 0 && (rec->flags & STUB_FLAG_LINKS))
		r = stub_provisional_unlink(f->v, rec);
	if (r == 0)
		r = stub_record_drop_path(fd);
	if (r == 0)
		stub_finished_record(f->v, fd, rec,
				     rec->flags & STUB_FLAG_LINKS && names < rec->nlink_shown);
	if (r == 0 && (rec->flags & STUB_FLAG_LINKS) && names && names < rec->nlink_shown)
		tell_split(f, rec, names);
	return r;
}

/* When was @d asked for last?  0: not lately.  1: it is a directory that is to be finished, but
 * may itself have to wait for what is in it.  It is queued here: after a restart nobody else
 * may know of it. */
static uint64_t name_asked(struct stub_finisher *f, int dir_fd, const struct dirent *d,
			   struct stub_record *rec)
{
	int fd CLEANUP_CLOSE = openat(dir_fd, d->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stub_handle h;
	struct stat st;
	uint64_t at;

	if (fd < 0 || stub_handle_of_fd(fd, &h) < 0)
		return 0;
	pthread_mutex_lock(&f->lock);
	at = stub_later_touched(&f->later, &h);
	pthread_mutex_unlock(&f->lock);
	if (at || (d->d_type != DT_DIR && d->d_type != DT_UNKNOWN))
		return at;
	if (stub_record_load_path(f->v, fd, &h, &st, rec) < 0 || !S_ISDIR(st.st_mode) ||
	    stub_record_needs(rec) != STUB_NEEDS_FINISH)
		return 0;
	pthread_mutex_lock(&f->lock);
	enqueue(f, &h, HOW_DONE, true);
	pthread_mutex_unlock(&f->lock);
	return 1;
}

/* Keep a directory longer if clients asked lately for what is in it.  Is it kept? */
static bool waits_for_names(struct stub_finisher *f, const struct item *it, struct stub_record *rec)
{
	int fd = stub_handle_open(f->v, &it->h, O_RDONLY | O_DIRECTORY | O_NOATIME);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t at, last = 0;
	struct dirent *d;
	bool waits;

	if (!dir) { /* none, or it cannot be read */
		stub_cleanup_close(&fd);
		return false;
	}
	while ((d = readdir(dir))) {
		if (stub_name_check(d->d_name, strlen(d->d_name)) < 0)
			continue;
		at = name_asked(f, fd, d, rec);
		last = at > last ? at : last;
		if (last > 1)
			break; /* look at the others when the delay of this one is over */
	}
	closedir(dir);
	pthread_mutex_lock(&f->lock);
	waits = last && !f->hurry && stub_later_again(&f->later, &it->h, it->how, last);
	pthread_mutex_unlock(&f->lock);
	return waits;
}

/* Step 4 for one candidate. */
static void settle(struct stub_finisher *f, const struct item *it, struct stub_record *rec)
{
	int r, fd CLEANUP_CLOSE = stub_handle_open(f->v, &it->h, O_PATH);
	bool later;
	struct stat st;
	uint64_t ino;

	pthread_mutex_lock(&f->lock);
	later = keep(f, &it->h, it->how); /* asked for since it was handed in */
	pthread_mutex_unlock(&f->lock);
	if (later || (it->was_kept && waits_for_names(f, it, rec)))
		return;
	r = fd < 0 ? fd : stub_lock_inode(f->v, fd, &ino, &st);
	if (r == 0) {
		r = drop_locked(f, fd, it, rec);
		stub_unlock(&f->v->locks, &ino, 1);
	}
	if (r == 0) /* times, used space and links are the file system's from now on */
		stub_news_post(f->v, &it->h, STUB_NEWS_ATTRS);
	if (r == 0 || r == -ENOENT)
		remember(&f->dropped, &it->h);
	else if (r == -ESTALE)
		remember(&f->gone, &it->h);
	else if (r < 0 && r != -EAGAIN)
		stub_log(&f->log, STUB_LOG_WARN, "finishing an object: %s", strerror(-r));
}

/* Step 2. */
static int sync_volume(struct stub_finisher *f)
{
	int r;

	if (f->era_owed) /* nothing may be finished before what was lost is forgotten */
		f->era_owed = stub_volume_new_era(f->v) < 0;
	r = syncfs(f->sync_fd) < 0 ? -errno : 0;
	if (r < 0) {
		f->era_owed = stub_volume_new_era(f->v) < 0;
		f->rest_ms = f->rest_ms ? f->rest_ms * 2 : REST_MIN_MS;
		if (f->rest_ms > REST_MAX_MS)
			f->rest_ms = REST_MAX_MS;
		stub_log(&f->log, STUB_LOG_ERROR, "sync of the volume: %s; next one in %u ms",
			 strerror(-r), f->rest_ms);
	} else {
		f->rest_ms = 0;
	}
	return f->era_owed ? -EIO : r;
}

static void round_of(struct stub_finisher *f, struct item *items, size_t n)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	size_t i;

	if (!rec)
		return;
	f->links.n = 0;
	for (i = 0; i < n; i++)
		look(f, &items[i], rec);
	stub_journal_set_kind(f->j, f->links.h, f->links.n, STUB_JOURNAL_LINKS);
	if (sync_volume(f) < 0)
		return;
	/* what look() found gone is covered by this sync as well */
	if (stub_journal_remove(f->j, f->dropped.h, f->dropped.n) == 0)
		f->dropped.n = 0;
	if (stub_journal_forget(f->j, f->gone.h, f->gone.n) == 0)
		f->gone.n = 0;
	for (i = 0; i < n; i++)
		if (items[i].candidate)
			settle(f, &items[i], rec);
}

/* Wait until there is a round's worth, or nothing came for a while.  Called and
 * returns with the lock held; false when it is time to stop. */
static bool gather(struct stub_finisher *f)
{
	uint64_t until_ms;

	enqueue_due(f, false);
	while (!f->stop && f->n_queue == 0 && f->dropped.n == 0 && f->gone.n == 0) {
		until_ms = stub_later_next_ms(&f->later);
		if (until_ms)
			stub_cond_wait_until(&f->wake, &f->lock, until_ms);
		else
			pthread_cond_wait(&f->wake, &f->lock);
		enqueue_due(f, false);
	}
	until_ms = stub_now_ms() + f->rest_ms;
	while (f->rest_ms && !f->stop && stub_cond_wait_until(&f->wake, &f->lock, until_ms) == 0)
		;
	until_ms = stub_now_ms() + GATHER_MS;
	while (!f->stop && !f->hurry && f->n_queue < ROUND_MAX &&
	       stub_cond_wait_until(&f->wake, &f->lock, until_ms) == 0)
		;
	return !f->stop;
}

static void *finisher_thread(void *arg)
{
	struct stub_finisher *f = arg;

	pthread_mutex_lock(&f->lock);
	while (gather(f)) {
		struct item *items = f->queue;
		size_t n = f->n_queue;

		f->queue = NULL;
		f->n_queue = f->cap_queue = 0;
		pthread_mutex_unlock(&f->lock);
		round_of(f, items, n);
		free(items);
		pthread_mutex_lock(&f->lock);
		f->inflight = f->n_queue + f->dropped.n + f->gone.n;
		if (f->inflight == 0) {
			f->hurry = false;
			pthread_cond_broadcast(&f->idle);
		}
	}
	pthread_cond_broadcast(&f->idle);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

STUB_PUBLIC int stub_finisher_create(struct stub_volume *v, struct stub_journal *j, stub_log_fn log,
				     void *log_arg, struct stub_finisher **out)
{
	struct stub_finisher *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->v = v;
	f->j = j;
	f->log = (struct stub_log){ log, log_arg };
	f->removed_before = stub_journal_removed(j);
	pthread_mutex_init(&f->lock, NULL);
	stub_cond_init(&f->wake);
	stub_cond_init(&f->idle);
	f->sync_fd = openat(v->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = f->sync_fd < 0 ? errno : pthread_create(&f->thread, NULL, finisher_thread, f);
	if (r) {
		stub_cleanup_close(&f->sync_fd);
		free(f);
		return -r;
	}
	*out = f;
	return 0;
}

STUB_PUBLIC void stub_finisher_destroy(struct stub_finisher *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->wake);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	pthread_cond_destroy(&f->wake);
	pthread_cond_destroy(&f->idle);
	pthread_mutex_destroy(&f->lock);
	free(f->queue);
	stub_later_finish(&f->later);
	close(f->sync_fd);
	free(f->dropped.h);
	free(f->gone.h);
	free(f->links.h);
	free(f);
}

STUB_PUBLIC int stub_finisher_drain(struct stub_finisher *f)
{
	pthread_mutex_lock(&f->lock);
	enqueue_due(f, true);
	f->hurry = f->inflight > 0;
	pthread_cond_signal(&f->wake);
	while (f->inflight > 0 && !f->stop)
		pthread_cond_wait(&f->idle, &f->lock);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

STUB_PUBLIC void stub_finisher_stats(struct stub_finisher *f, struct stub_finish_stats *out)
{
	/* what was handed in twice has one entry */
	out->done = stub_journal_removed(f->j) - f->removed_before;
	pthread_mutex_lock(&f->lock);
	out->inflight = f->inflight;
	out->split = f->split;
	out->kept = f->later.kept;
	pthread_mutex_unlock(&f->lock);
}
