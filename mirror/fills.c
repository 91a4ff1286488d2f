/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fills.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE	 64
#define AGAIN_MS 2000 /* between two asks for one object, and two looks for a retriever */
#define WAIT_MS	 200

struct ask {
	struct stub_handle h; /* len 0: free */
	uint64_t asked_ms; /* 0: not yet */
	uint32_t id;
};

struct fills {
	struct mirror *m;
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	bool stopping;
	pthread_t thread;
	struct ask at[AT_ONCE]; /* under lock; what is asked for is the thread's to free */
	struct stub_link *link; /* the thread's */
};

void fills_want(struct fills *f, const struct stub_handle *h)
{
	struct ask *place = NULL;

	pthread_mutex_lock(&f->lock);
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		if (!f->at[i].h.len) {
			place = &f->at[i];
		} else if (stub_handle_equal(&f->at[i].h, h)) {
			place = NULL;
			break;
		}
	}
	if (place) { /* else it is wanted again later */
		*place = (struct ask){ .h = *h };
		pthread_cond_signal(&f->wanted);
	}
	pthread_mutex_unlock(&f->lock);
}

/* The next one that has not been asked for: its place, or -1. */
static int next(struct fills *f, struct stub_ask *out)
{
	int found = -1;

	pthread_mutex_lock(&f->lock);
	for (int i = 0; i < AT_ONCE && found < 0; i++)
		if (f->at[i].h.len && !f->at[i].asked_ms)
			found = i;
	if (found >= 0) {
		*out = (struct stub_ask){ .kind = STUB_ASK_FILL, .h = f->at[found].h };
		f->at[found].asked_ms = stub_now_ms();
	}
	pthread_mutex_unlock(&f->lock);
	return found;
}

/* Without a retriever nothing is wanted any more: it is, when it is looked at again. */
static void forget(struct fills *f)
{
	stub_link_destroy(f->link);
	f->link = NULL;
	pthread_mutex_lock(&f->lock);
	memset(f->at, 0, sizeof(f->at));
	pthread_mutex_unlock(&f->lock);
}

static int send_all(struct fills *f)
{
	struct stub_ask ask;
	int i, r = 0;

	while (r == 0 && (i = next(f, &ask)) >= 0)
		r = stub_link_send(f->link, &ask, &f->at[i].id);
	return r == -EINVAL ? 0 : r;
}

static int receive(struct fills *f)
{
	uint32_t id;
	int result, r = stub_link_receive(f->link, WAIT_MS, &id, &result);

	if (r != 1)
		return r;
	pthread_mutex_lock(&f->lock);
	for (unsigned int i = 0; i < AT_ONCE; i++)
		if (f->at[i].h.len && f->at[i].asked_ms && f->at[i].id == id)
			f->at[i].id = 0; /* rests, see rest() */
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/* What was answered may be asked for again after a while. */
static bool rest(struct fills *f)
{
	uint64_t now = stub_now_ms();
	bool any = false;

	for (unsigned int i = 0; i < AT_ONCE; i++) {
		struct ask *a = &f->at[i];

		if (a->h.len && a->asked_ms && !a->id && now - a->asked_ms >= AGAIN_MS)
			a->h.len = 0;
		any |= a->h.len != 0;
	}
	return any;
}

static bool wait_for_more(struct fills *f)
{
	bool go_on;

	pthread_mutex_lock(&f->lock);
	while (!f->stopping && !rest(f))
		stub_cond_wait_until(&f->wanted, &f->lock, stub_now_ms() + AGAIN_MS);
	go_on = !f->stopping;
	pthread_mutex_unlock(&f->lock);
	return go_on;
}

static void pause_a_while(struct fills *f)
{
	uint64_t until = stub_now_ms() + AGAIN_MS;

	pthread_mutex_lock(&f->lock);
	while (!f->stopping && stub_cond_wait_until(&f->wanted, &f->lock, until) == 0)
		continue;
	pthread_mutex_unlock(&f->lock);
}

static void *fills_thread(void *arg)
{
	struct fills *f = arg;

	while (wait_for_more(f)) {
		int r = f->link ? 0 : stub_link_create(f->m->volume, &f->link);

		if (r < 0)
			f->link = NULL;
		if (r == 0)
			r = send_all(f);
		if (r == 0)
			r = receive(f);
		if (r < 0) {
			forget(f);
			pause_a_while(f);
		}
	}
	return NULL;
}

int fills_create(struct mirror *m, struct fills **out)
{
	struct fills *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->m = m;
	pthread_mutex_init(&f->lock, NULL);
	stub_cond_init(&f->wanted);
	r = -pthread_create(&f->thread, NULL, fills_thread, f);
	if (r < 0) {
		free(f);
		return r;
	}
	*out = f;
	return 0;
}

void fills_destroy(struct fills *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stopping = true;
	pthread_cond_broadcast(&f->wanted);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	stub_link_destroy(f->link);
	pthread_cond_destroy(&f->wanted);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
