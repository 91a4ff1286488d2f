/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * aside.c - hold aside, and remove what is gone.
 *
 * Who renames something here has entered it and both directories before.  What was held aside because
 * a directory has it no more is either gone, or the other directory was owed at that time.  So:
 *
 *   1. list what is aside
 *   2. a round (rounds.h) over the directories that are owed: each takes what is its own, or wants
 *      (aside_want()) what it could not have yet
 *   3. who was renamed from one of them into another meanwhile, is owed, or was struck since: both
 *      are wanted, too
 *   4. list it again: what was taken is somewhere else now, by the same handle
 *   5. remove what is in both lists, and below it, but for what is wanted
 *
 * Names in there are never used twice, so step 5 removes nothing that came later.  Where the ledger
 * does not know what is owed (or did not, at any moment of the round), nothing is removed.
 *
 * On the way back, what went here has gone durably before its bytes go over there, the only ones perhaps.
 *
 * The directory is made at the start, and stays as long as there is a mirror: on one that is full it could
 * not be made, and nothing could be removed.
 */
#include "aside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "marks.h"
#include "rounds.h"
#include "there.h"

#define DEPTH_MAX STUB_DEPTH_MAX
#define REFUSED_MS 60000 /* until what could not be removed is tried again */
#define READ	   256
#define WANTED_MS  5000	 /* the same of what is wanted */

struct aside {
	struct mirror *m;
	char name[STUB_ASIDE_NAME];
	pthread_mutex_t lock;
	struct stub_origin dir; /* under lock; len 0: it is not known */
	bool left; /* it is not to be there any more; under lock */
	_Atomic uint64_t count; /* at least so many are in it */
	atomic_bool known;
	uint64_t serial, taken; /* of names; how many came; under lock */
	struct marks wanted; /* under lock */
	bool want_all; /* there was no memory for one; under lock */
	uint64_t run; /* random: two runs may begin in one second, or with another clock */
	/* the working thread's */
	struct round *round;
	struct there listed;
	uint64_t not_before_ms;
};

int aside_create(struct mirror *m, struct aside **out)
{
	struct aside *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->m = m;
	if (getrandom(&a->run, sizeof(a->run), 0) != sizeof(a->run)) {
		free(a);
		return -EIO;
	}
	pthread_mutex_init(&a->lock, NULL);
	stub_aside_name(stub_volume_info(m->volume)->uuid, a->name);
	*out = a;
	return 0;
}

void aside_destroy(struct aside *a)
{
	if (!a)
		return;
	round_end(a->m, a->round);
	there_free(&a->listed);
	marks_clear(&a->wanted);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

bool aside_is(const struct aside *a, const char *name)
{
	return !strcmp(name, a->name);
}

uint64_t aside_count(struct aside *a, bool *known)
{
	*known = atomic_load(&a->known);
	return atomic_load(&a->count);
}

/* ---- the directory ---- */

/* The mirror's root changes by it: its times are not ours any more.  Before, for who dies in between,
 * and after, for it may have been compared in between. */
static int owe_root(struct aside *a)
{
	return mirror_owe_one(a->m, stub_volume_root(a->m->volume), STUB_OWED_ATTRS);
}

static int look_up(struct aside *a, const struct stub_origin *root)
{
	struct stub_attr attr;
	int r = source_lookup(a->m->target, SOURCE_BACKGROUND, root, NULL, a->name, strlen(a->name),
			      &a->dir, &attr);

	if (r == 0 && !S_ISDIR(attr.mode))
		r = -ENOTDIR;
	if (r < 0)
		a->dir.len = 0;
	return r;
}

static int make(struct aside *a, const struct stub_origin *root)
{
	struct stub_attr attr = { .mode = S_IFDIR | 0700 }, made;
	int r = owe_root(a);

	clock_gettime(CLOCK_REALTIME, &attr.mtime);
	attr.atime = attr.mtime;
	if (r == 0)
		r = target_make(a->m->target, root, a->name, &attr, NULL, &a->dir, &made);
	if (r == -EEXIST)
		return look_up(a, root);
	if (r < 0)
		a->dir.len = 0;
	return r < 0 ? r : owe_root(a);
}

/* It is there.  With the lock held. */
static int directory(struct aside *a)
{
	struct stub_origin root;
	int r;

	if (a->dir.len)
		return 0;
	r = mirror_root(a->m, &root);
	if (r != EQUAL)
		return r < 0 ? r : -ENOMEDIUM;
	r = look_up(a, &root);
	return r == -ENOENT ? make(a, &root) : r;
}

int aside_take(struct aside *a, const struct stub_origin *dir, const char *name)
{
	char as[64];
	int r;

	pthread_mutex_lock(&a->lock);
	a->left = false;
	for (int tries = 0;; tries++) {
		r = directory(a);
		if (r < 0)
			break;
		snprintf(as, sizeof(as), "%" PRIx64 "-%" PRIx64, a->run, ++a->serial);
		r = target_rename(a->m->target, dir, name, &a->dir, as);
		if (r != -ESTALE || tries == 1)
			break;
		a->dir.len = 0; /* which of the two directories is stale? */
	}
	if (r == 0) {
		a->taken++;
		atomic_fetch_add(&a->count, 1);
	}
	pthread_mutex_unlock(&a->lock);
	return r == -ENOENT ? 0 : r;
}

static struct mark mark(const struct aside *a, const struct stub_origin *o)
{
	size_t len;
	const uint8_t *inode = source_inode(a->m->target, o, &len);

	return mark_of(inode, len, 0);
}

void aside_want(struct aside *a, const struct stub_origin *o)
{
	struct mark m = mark(a, o);

	pthread_mutex_lock(&a->lock);
	a->want_all = marks_add(&a->wanted, m) < 0 || a->want_all;
	pthread_mutex_unlock(&a->lock);
}

static bool is_wanted(struct aside *a, const struct stub_origin *o)
{
	struct mark m = mark(a, o);
	bool wanted;

	pthread_mutex_lock(&a->lock);
	wanted = a->want_all || marks_has(&a->wanted, m);
	pthread_mutex_unlock(&a->lock);
	return wanted;
}

static int want_handle(struct aside *a, const struct stub_handle *h)
{
	int r, fd = stub_handle_open_at(stub_volume_fd(a->m->volume), h, O_PATH | O_CLOEXEC);
	struct stub_origin place;
	struct stat st;

	if (fd < 0)
		return fd == -ESTALE ? 0 : fd; /* it is gone */
	r = fstat(fd, &st) < 0 ? -errno : !st.st_nlink ? -ENOENT : 0;
	if (r == 0)
		r = stub_place_get(a->m->volume, st.st_ino, h, &place);
	close(fd);
	if (r == 0)
		aside_want(a, &place);
	return r == -ENOENT ? 0 : r;
}

static int want_owed(struct aside *a)
{
	struct stub_owed *o = malloc(READ * sizeof(*o));
	uint64_t after = 0;
	int n = o ? 1 : -ENOMEM, r = 0;

	while (n > 0 && r == 0) {
		n = stub_ledger_next(a->m->ledger, after, o, READ);
		for (int i = 0; i < n && r == 0; i++)
			r = want_handle(a, &o[i].h);
		after = n > 0 ? o[n - 1].turn : after;
	}
	free(o);
	return r < 0 ? r : n;
}

/* ---- removal ---- */

static int remove_name(struct aside *a, const struct stub_origin *dir, const struct there_name *n,
		       unsigned int depth);

static int remove_below(struct aside *a, const struct stub_origin *dir, unsigned int depth)
{
	struct there t;
	int one, r = depth > DEPTH_MAX ? -ELOOP : there_list(a->m, dir, &t);

	if (r < 0)
		return r;
	for (size_t i = 0; i < t.n && r >= 0 && !atomic_load(&a->m->stopping); i++) {
		one = remove_name(a, dir, t.by[i], depth);
		r = one < 0 ? one : r | one;
	}
	there_free(&t);
	return r;
}

/* 1: it stays, for it, or something below, is wanted. */
static int remove_name(struct aside *a, const struct stub_origin *dir, const struct there_name *n,
		       unsigned int depth)
{
	struct mirror *m = a->m;
	struct stub_origin o;
	int r;

	there_origin(n, &o);
	if (n->told && is_wanted(a, &o))
		return 1;
	if (!n->told || n->type != S_IFDIR) {
		r = target_remove(m->target, dir, n->name);
		return r == -ENOENT ? 0 : r;
	}
	r = remove_below(a, &o, depth + 1);
	if (r == 0)
		r = target_rmdir(m->target, dir, n->name);
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}

/* Those of @now that were listed before the round. */
static int remove_these(struct aside *a, const struct stub_origin *dir, const struct there *now)
{
	int r = 0, failed = 0;
	bool kept = false;

	for (size_t i = 0; i < now->n && !atomic_load(&a->m->stopping); i++) {
		if (!there_find(&a->listed, now->by[i]->name))
			continue;
		r = remove_name(a, dir, now->by[i], 0);
		kept = kept || r == 1;
		if (r >= 0)
			continue;
		failed = r;
		if (mirror_verdict(a->m, r) == AWAY)
			break;
		mirror_log(a->m, STUB_LOG_WARN, "the mirror does not remove what is gone here, in %s: %s",
			   a->name, strerror(-r));
	}
	a->not_before_ms = stub_now_ms() + (failed ? REFUSED_MS : kept ? WANTED_MS : 0);
	return failed;
}

static int remove_listed(struct aside *a, const struct stub_origin *dir)
{
	struct there now;
	int r = want_owed(a);

	if (r == 0 && !mirror_has_all(a->m) && syncfs(stub_volume_fd(a->m->volume)) < 0)
		r = -errno;
	if (r < 0)
		return r;
	r = there_list(a->m, dir, &now);
	if (r == 0)
		r = remove_these(a, dir, &now);
	there_free(&now);
	return r;
}

/* What it says is as old as the listing, and what came since. */
static int list(struct aside *a, const struct stub_origin *dir)
{
	uint64_t before;
	int r;

	pthread_mutex_lock(&a->lock);
	before = a->taken;
	pthread_mutex_unlock(&a->lock);
	r = there_list(a->m, dir, &a->listed);
	if (r < 0) {
		there_free(&a->listed);
		return r;
	}
	pthread_mutex_lock(&a->lock);
	atomic_store(&a->count, a->listed.n + a->taken - before);
	atomic_store(&a->known, true);
	pthread_mutex_unlock(&a->lock);
	return 0;
}

/*
 * On the way back an object over there may have the only bytes that there are, and a rename from one
 * owed directory into another in the middle of a round is not seen: that waits for the end of the
 * migration, or of the changes.
 */
static bool may_remove(const struct aside *a)
{
	return !stub_ledger_unknown(a->m->ledger) &&
	       (mirror_has_all(a->m) || stub_ledger_frozen(a->m->volume));
}

/* Listed before the round: what is aside, and why, is older than what the round looks for. */
static int begin(struct aside *a, const struct stub_origin *dir)
{
	int r = list(a, dir);

	pthread_mutex_lock(&a->lock);
	marks_clear(&a->wanted);
	a->want_all = false;
	pthread_mutex_unlock(&a->lock);
	if (r == 0 && a->listed.n && may_remove(a))
		r = round_begin(a->m, true, &a->round);
	if (!a->round)
		there_free(&a->listed);
	return r;
}

static void end(struct aside *a)
{
	round_end(a->m, a->round);
	a->round = NULL;
	there_free(&a->listed);
}

int aside_work(struct aside *a)
{
	struct stub_origin dir;
	bool left;
	int r;

	pthread_mutex_lock(&a->lock);
	left = a->left;
	r = left ? 0 : directory(a);
	dir = a->dir;
	pthread_mutex_unlock(&a->lock);
	if (r < 0 || left)
		return r;
	if (!a->round) {
		if ((!atomic_load(&a->known) || atomic_load(&a->count)) &&
		    stub_now_ms() >= a->not_before_ms)
			r = begin(a, &dir);
	} else if (!may_remove(a)) {
		end(a);
	} else if (round_over(a->m, a->round)) {
		r = remove_listed(a, &dir);
		end(a);
		if (r == 0)
			r = list(a, &dir);
		there_free(&a->listed);
	}
	if (r == -ESTALE) {
		pthread_mutex_lock(&a->lock);
		a->dir.len = 0;
		pthread_mutex_unlock(&a->lock);
	}
	return r;
}

int aside_leave(struct aside *a)
{
	struct stub_origin root;
	int r;

	pthread_mutex_lock(&a->lock);
	r = mirror_root(a->m, &root) == EQUAL ? owe_root(a) : -ENOMEDIUM;
	if (r == 0)
		r = target_rmdir(a->m->target, &root, a->name);
	if (r == 0 || r == -ENOENT) {
		a->dir.len = 0;
		a->left = true;
		r = owe_root(a);
	}
	pthread_mutex_unlock(&a->lock);
	return r == -EEXIST ? -ENOTEMPTY : r;
}
