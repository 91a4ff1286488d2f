/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "recent.h"

#include <stdlib.h>

#define PLACES	    4096
#define BELIEVED_MS 5000

struct place {
	struct stub_handle h; /* len 0: free */
	struct stub_attr a;
	uint64_t until_ms;
};

struct recent {
	pthread_mutex_t lock;
	struct place at[PLACES];
};

int recent_create(struct recent **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

void recent_destroy(struct recent *r)
{
	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static struct place *place_of(struct recent *r, const struct stub_handle *h)
{
	return &r->at[stub_handle_sum(h) % PLACES];
}

bool recent_take(struct recent *r, const struct stub_handle *h, struct stub_attr *a)
{
	struct place *p = place_of(r, h);
	bool is = false;

	pthread_mutex_lock(&r->lock);
	if (p->h.len && stub_handle_equal(&p->h, h)) {
		is = stub_now_ms() <= p->until_ms;
		*a = p->a;
		p->h.len = 0;
	}
	pthread_mutex_unlock(&r->lock);
	return is;
}

void recent_put(struct recent *r, const struct stub_handle *h, const struct stub_attr *a)
{
	struct place *p = place_of(r, h);

	pthread_mutex_lock(&r->lock);
	*p = (struct place){ *h, *a, stub_now_ms() + BELIEVED_MS };
	pthread_mutex_unlock(&r->lock);
}
