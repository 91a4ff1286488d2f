/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "jobs/treestat.h"

#include <string.h>

void treestat_init(struct treestat *t)
{
	memset(t, 0, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
}

void treestat_finish(struct treestat *t)
{
	pthread_mutex_destroy(&t->lock);
}

static void add(double *sum, double *squares, double x)
{
	*sum += x;
	*squares += x * x;
}

void treestat_note(struct treestat *t, unsigned int depth, const struct tree_content *c)
{
	struct tree_depth *d = &t->at[depth < TREE_DEPTHS ? depth : TREE_DEPTHS - 1];

	pthread_mutex_lock(&t->lock);
	d->listed++;
	add(&d->dirs, &d->dirs2, c->dirs);
	add(&d->files, &d->files2, c->files);
	add(&d->bytes, &d->bytes2, c->bytes);
	pthread_mutex_unlock(&t->lock);
}

void treestat_load(struct treestat *t, const struct tree_depth at[TREE_DEPTHS])
{
	pthread_mutex_lock(&t->lock);
	for (unsigned int i = 0; i < TREE_DEPTHS; i++) {
		t->at[i].listed += at[i].listed;
		t->at[i].dirs += at[i].dirs;
		t->at[i].dirs2 += at[i].dirs2;
		t->at[i].files += at[i].files;
		t->at[i].files2 += at[i].files2;
		t->at[i].bytes += at[i].bytes;
		t->at[i].bytes2 += at[i].bytes2;
	}
	pthread_mutex_unlock(&t->lock);
}

void treestat_get(struct treestat *t, struct tree_depth out[TREE_DEPTHS])
{
	pthread_mutex_lock(&t->lock);
	memcpy(out, t->at, sizeof(t->at));
	pthread_mutex_unlock(&t->lock);
}
