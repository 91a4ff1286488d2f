/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * aside.c - hold aside, and remove what is gone.
 *
 * Who renames something here has entered both directories before.  What was held aside because a
 * directory has it no more is either gone, or the other directory was owed at that time.  So:
 *
 *   1. list what is aside
 *   2. a round (rounds.h) over the directories that are owed
 *   3. the round is over: none of them has taken any of it; remove what was listed
 *
 * Names in there are never used twice, so step 3 removes nothing that came later.  Where the ledger
 * does not know what is owed (or did not, at any moment of the round), nothing is removed.
 */
#include "aside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rounds.h"
#include "there.h"

#define DEPTH_MAX STUB_DEPTH_MAX

struct aside {
	struct mirror *m;
	char name[STUB_ASIDE_NAME];
	pthread_mutex_t lock;
	struct stub_origin dir; /* under lock; len 0: it is not known */
	bool none; /* there is no such directory; under lock */
	_Atomic uint64_t count;
	atomic_bool known;
	uint64_t serial; /* of names; under lock */
	time_t started;
	/* the working thread's */
	struct round *round;
	struct there listed;
};

int aside_create(struct mirror *m, struct aside **out)
{
	struct aside *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->m = m;
	a->started = time(NULL);
	pthread_mutex_init(&a->lock, NULL);
	stub_aside_name(m->volume, a->name);
	*out = a;
	return 0;
}

void aside_destroy(struct aside *a)
{
	if (!a)
		return;
	round_end(a->m, a->round);
	there_free(&a->listed);
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

/* 0, -ENOENT. */
static int look_up(struct aside *a, const struct stub_origin *root)
{
	struct stub_attr attr;
	int r = source_lookup(a->m->target, SOURCE_BACKGROUND, root, NULL, a->name, strlen(a->name),
			      &a->dir, &attr);

	if (r == 0 && !S_ISDIR(attr.mode))
		r = -ENOTDIR;
	if (r < 0)
		a->dir.len = 0;
	a->none = r == -ENOENT;
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
	a->none = r < 0;
	return r < 0 ? r : owe_root(a);
}

/* With the lock held.  @making: it is to be there. */
static int directory(struct aside *a, bool making)
{
	struct stub_origin root;
	int r = 0;

	if (a->dir.len)
		return 0;
	if (a->none && !making)
		return -ENOENT;
	r = mirror_root(a->m, &root);
	if (r != EQUAL)
		return r < 0 ? r : -ENOMEDIUM;
	r = a->none ? -ENOENT : look_up(a, &root);
	return r == -ENOENT && making ? make(a, &root) : r;
}

int aside_take(struct aside *a, const struct stub_origin *dir, const char *name)
{
	char as[64];
	int r;

	pthread_mutex_lock(&a->lock);
	for (int tries = 0;; tries++) {
		r = directory(a, true);
		if (r < 0)
			break;
		snprintf(as, sizeof(as), "%" PRIx64 "-%" PRIx64, (uint64_t)a->started, ++a->serial);
		r = target_rename(a->m->target, dir, name, &a->dir, as);
		if (r != -ESTALE || tries == 1)
			break;
		/* which of the two directories is stale? */
		a->dir.len = 0;
		a->none = false;
	}
	if (r == 0)
		atomic_fetch_add(&a->count, 1);
	pthread_mutex_unlock(&a->lock);
	return r == -ENOENT ? 0 : r;
}

/* ---- removal ---- */

static int remove_name(struct mirror *m, const struct stub_origin *dir, const struct there_name *n,
		       unsigned int depth);

static int remove_below(struct mirror *m, const struct stub_origin *dir, unsigned int depth)
{
	struct there t;
	int r = depth > DEPTH_MAX ? -ELOOP : there_list(m, dir, &t);

	if (depth > DEPTH_MAX)
		return r;
	for (size_t i = 0; i < t.n && r == 0 && !atomic_load(&m->stopping); i++)
		r = remove_name(m, dir, t.by[i], depth);
	there_free(&t);
	return r;
}

static int remove_name(struct mirror *m, const struct stub_origin *dir, const struct there_name *n,
		       unsigned int depth)
{
	struct stub_origin o;
	int r;

	if (!n->told || n->type != S_IFDIR) {
		r = target_remove(m->target, dir, n->name);
		return r == -ENOENT ? 0 : r;
	}
	there_origin(n, &o);
	r = remove_below(m, &o, depth + 1);
	if (r == 0)
		r = target_rmdir(m->target, dir, n->name);
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}

/* Nothing is in it: it goes, too.  Not empty: something was held aside again. */
static int remove_directory(struct aside *a)
{
	struct stub_origin root;
	int r;

	pthread_mutex_lock(&a->lock);
	r = mirror_root(a->m, &root) == EQUAL ? owe_root(a) : -ENOMEDIUM;
	if (r == 0)
		r = target_rmdir(a->m->target, &root, a->name);
	if (r == 0 || r == -ENOENT) {
		a->dir.len = 0;
		a->none = true;
		atomic_store(&a->count, 0);
		r = owe_root(a);
	}
	pthread_mutex_unlock(&a->lock);
	return r == -ENOTEMPTY || r == -EEXIST ? 0 : r;
}

static int remove_listed(struct aside *a, const struct stub_origin *dir)
{
	int r = 0, failed = 0;

	for (size_t i = 0; i < a->listed.n && !atomic_load(&a->m->stopping); i++) {
		r = remove_name(a->m, dir, a->listed.by[i], 0);
		if (r == 0) {
			atomic_fetch_sub(&a->count, 1);
			continue;
		}
		failed = r;
		if (mirror_verdict(a->m, r) == AWAY)
			break;
		mirror_log(a->m, STUB_LOG_WARN, "the mirror does not remove what is gone here, in %s: %s",
			   a->name, strerror(-r));
	}
	return failed;
}

/* ---- steps ---- */

static int begin(struct aside *a, const struct stub_origin *dir)
{
	int r = there_list(a->m, dir, &a->listed);

	/* before the round: what is aside, and why, is older than what it looks for */
	if (r == 0) {
		atomic_store(&a->count, a->listed.n);
		atomic_store(&a->known, true);
		if (!a->listed.n)
			return remove_directory(a);
		r = stub_ledger_unknown(a->m->ledger) ? 0 : round_begin(a->m, true, &a->round);
	}
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
	int r;

	pthread_mutex_lock(&a->lock);
	r = directory(a, false);
	dir = a->dir;
	if (r == -ENOENT)
		atomic_store(&a->known, true);
	pthread_mutex_unlock(&a->lock);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!a->round) {
		r = begin(a, &dir);
	} else if (stub_ledger_unknown(a->m->ledger)) {
		end(a);
	} else if (round_over(a->m, a->round)) {
		r = remove_listed(a, &dir);
		end(a);
		if (r == 0)
			r = begin(a, &dir); /* nothing left: the directory goes */
	}
	if (r == -ESTALE) {
		pthread_mutex_lock(&a->lock);
		a->dir.len = 0;
		a->none = false;
		pthread_mutex_unlock(&a->lock);
	}
	return r;
}
