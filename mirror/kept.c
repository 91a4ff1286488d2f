/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kept.h"

#include <stdlib.h>

#include "marks.h"

#define MOST (1u << 20) /* 32 MiB at most: then all are forgotten */

struct kept {
	pthread_mutex_t lock;
	struct marks files;
};

int kept_create(struct kept **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

void kept_destroy(struct kept *k)
{
	if (!k)
		return;
	marks_clear(&k->files);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

bool kept_take(struct kept *k, const struct stub_handle *h)
{
	bool was;

	pthread_mutex_lock(&k->lock);
	was = marks_has(&k->files, mark_of_handle(h));
	marks_drop(&k->files, mark_of_handle(h));
	pthread_mutex_unlock(&k->lock);
	return was;
}

void kept_put(struct kept *k, const struct stub_handle *h)
{
	pthread_mutex_lock(&k->lock);
	if (k->files.n >= MOST)
		marks_clear(&k->files);
	marks_add(&k->files, mark_of_handle(h));
	pthread_mutex_unlock(&k->lock);
}
