/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * recall.c - a table of clients, each with a bucket of tokens.
 *
 * A bucket is one number: the time at which it would be full again.  A recall moves it
 * on by the time that one token takes; the recall may begin as soon as the bucket is
 * full to within its size (burst).  So turns are given out in advance, in the order in
 * which they were asked for, and nothing has to run when tokens come in.  No turn is later
 * than RECALL_HOLD_MAX_US: a client that has asked for very much and gone away is not
 * punished for long, and no client waits so long that it gives up.
 *
 * Which turn a file got is remembered for each client, so that it is paid once: a hash
 * table with WAYS places for each hash, in which a new turn replaces the earliest.  If an entry
 * is replaced too early the client pays a token more, if two have one key a token less.
 *
 * The lock is a leaf.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "jobs/recall.h"

#define TURNS 4096
#define WAYS  8

struct client {
	struct recall_client c; /* who "": free */
	uint64_t full_us; /* when the bucket is full again */
	uint64_t used; /* larger: later */
};

struct turn {
	uint64_t key; /* client and file */
	uint64_t at_us;
};

struct recalls {
	pthread_mutex_t lock;
	uint64_t token_us; /* 0: no limit */
	uint64_t burst_us; /* what a full bucket is worth, less the token that is being taken */
	uint64_t clock; /* for used */
	struct client clients[RECALL_CLIENTS];
	struct turn turns[TURNS];
};

int recalls_create(unsigned int per_minute, unsigned int burst, struct recalls **out)
{
	struct recalls *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	r->token_us = per_minute ? 60000000u / per_minute : 0;
	r->burst_us = burst ? (burst - 1) * r->token_us : 0;
	*out = r;
	return 0;
}

void recalls_destroy(struct recalls *r)
{
	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* The entry of @who; a new one takes the place of the one not used for longest. */
static struct client *client_of(struct recalls *r, const char *who)
{
	struct client *oldest = &r->clients[0], *c;

	for (c = r->clients; c < r->clients + RECALL_CLIENTS; c++) {
		if (!strcmp(c->c.who, who))
			break;
		if (c->used < oldest->used)
			oldest = c;
	}
	if (c == r->clients + RECALL_CLIENTS) {
		c = oldest;
		memset(c, 0, sizeof(*c));
		strncpy(c->c.who, who, STUB_WHO_MAX);
	}
	c->used = ++r->clock;
	return c;
}

static uint64_t turn_key(const char *who, const struct stub_handle *h)
{
	uint64_t key = stub_fnv(STUB_FNV, who, strlen(who) + 1);

	key = stub_fnv(key, &h->type, sizeof(h->type));
	key = stub_fnv(key, h->bytes, h->len);
	return key ? key : 1;
}

/* The place of @key, or the one that it may take: that of the earliest turn. */
static struct turn *turn_of(struct recalls *r, uint64_t key)
{
	struct turn *set = &r->turns[(key >> 32) % (TURNS / WAYS) * WAYS], *oldest = set;

	for (struct turn *t = set; t < set + WAYS; t++) {
		if (t->key == key)
			return t;
		if (t->at_us < oldest->at_us)
			oldest = t;
	}
	return oldest;
}

static uint64_t take_token(const struct recalls *r, struct client *c, uint64_t now_us)
{
	uint64_t at, latest = now_us + RECALL_HOLD_MAX_US;

	if (c->full_us < now_us)
		c->full_us = now_us;
	at = c->full_us > now_us + r->burst_us ? c->full_us - r->burst_us : now_us;
	if (at > latest)
		return latest; /* without a token: the bucket is not emptied further */
	c->full_us += r->token_us;
	return at;
}

uint64_t recalls_take(struct recalls *r, const char *who, const struct stub_handle *h,
		      uint64_t now_us)
{
	uint64_t key = turn_key(who, h), at = now_us;
	struct turn *t;

	if (!who[0])
		return now_us;
	pthread_mutex_lock(&r->lock);
	t = turn_of(r, key);
	if (t->key != key) {
		struct client *c = client_of(r, who);

		*t = (struct turn){ key, take_token(r, c, now_us) };
		c->c.files++;
		c->c.slowed += t->at_us > now_us;
		c->c.last_us = now_us;
	}
	if (t->at_us > now_us)
		at = t->at_us;
	pthread_mutex_unlock(&r->lock);
	return at;
}

void recalls_bytes(struct recalls *r, const char *who, uint64_t bytes, uint64_t now_us)
{
	struct client *c;

	if (!who[0])
		return;
	pthread_mutex_lock(&r->lock);
	c = client_of(r, who);
	c->c.bytes += bytes;
	c->c.last_us = now_us;
	pthread_mutex_unlock(&r->lock);
}

static int more_files(const void *a, const void *b)
{
	const struct recall_client *x = a, *y = b;

	if (x->files != y->files)
		return x->files < y->files ? 1 : -1;
	return strcmp(x->who, y->who);
}

unsigned int recalls_clients(struct recalls *r, struct recall_client out[RECALL_CLIENTS])
{
	unsigned int n = 0;

	pthread_mutex_lock(&r->lock);
	for (const struct client *c = r->clients; c < r->clients + RECALL_CLIENTS; c++)
		if (c->c.who[0])
			out[n++] = c->c;
	pthread_mutex_unlock(&r->lock);
	qsort(out, n, sizeof(*out), more_files);
	return n;
}
