/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_read.c - may every file be read?  Neither names nor modes tell: a server's ACLs,
 * its locks and its broken disks do not show in a listing.  So one byte of each is read.
 *
 * A bounded number of reads is under way.  In the source's queues they go before the
 * listings (SOURCE_DEMAND), so that a worker that waits for them in the middle of a listing
 * does not wait for another listing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/check_visit.h"

#define READS_MOST 256

struct reading {
	struct walker *k;
	char path[]; /* terminated */
};

/* What to report of the file; NULL: nothing, the error is the connection's, or it was removed. */
static const char *reason(int64_t result)
{
	switch (result) {
	case -ECANCELED:
	case -ETIMEDOUT:
	case -ENOENT:
	case -ESTALE: /* removed meanwhile */
		return NULL;
	default:
		return result < 0 ? strerror((int)-result) : NULL;
	}
}

static void on_read(void *arg, const struct source_read *r)
{
	struct reading *one = arg;
	struct walker *k = one->k;
	struct check_found f = { .kind = CHECK_UNREADABLE, .path = one->path,
				 .why = reason(r->result) };

	pthread_mutex_lock(&k->lock);
	if (f.why) {
		k->w->count[f.kind]++;
		k->w->found(k->w->arg, &f);
	}
	if (r->result == -ETIMEDOUT && !k->error)
		k->error = -ETIMEDOUT;
	k->w->read++;
	k->reading--;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
	free(one);
}

/* Wait until one more read may be under way.  False: stop. */
static bool take_place(struct walker *k)
{
	bool mine;

	pthread_mutex_lock(&k->lock);
	while (k->reading >= READS_MOST && !k->stop)
		pthread_cond_wait(&k->changed, &k->lock);
	mine = !k->stop;
	k->reading += mine;
	pthread_mutex_unlock(&k->lock);
	return mine;
}

static void give_place(struct walker *k)
{
	pthread_mutex_lock(&k->lock);
	k->reading--;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

int check_read(struct walker *k, const char *path, const struct stub_entry *e)
{
	struct reading *one;
	struct stub_origin o;
	int r;

	if (!take_place(k))
		return -ECANCELED;
	one = malloc(sizeof(*one) + strlen(path) + 1);
	if (one) {
		one->k = k;
		strcpy(one->path, path);
		o.len = (typeof(o.len))e->origin_len;
		memcpy(o.bytes, e->origin, e->origin_len);
		r = source_read(k->s, SOURCE_DEMAND, &o, 0, 1, on_read, one);
	} else {
		r = -ENOMEM;
	}
	if (r < 0) {
		free(one);
		give_place(k);
	}
	return r;
}

void check_read_wait(struct walker *k)
{
	pthread_mutex_lock(&k->lock);
	while (k->reading)
		pthread_cond_wait(&k->changed, &k->lock);
	pthread_mutex_unlock(&k->lock);
}
