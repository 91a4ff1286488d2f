/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>
#include <time.h>

#include "jobs/absent.h"

#define KEEP_MS 30000 /* NFS clients come back after 15 s at the latest */

void absent_init(struct absent *a)
{
	memset(a, 0, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
}

void absent_finish(struct absent *a)
{
	pthread_mutex_destroy(&a->lock);
}

unsigned int absent_count(struct absent *a)
{
	uint64_t now = stub_now_ms();
	unsigned int n = 0;

	pthread_mutex_lock(&a->lock);
	for (unsigned int i = 0; i < ABSENT_SLOTS; i++)
		n += a->slot[i].until_ms > now;
	pthread_mutex_unlock(&a->lock);
	return n;
}

void absent_forget(struct absent *a)
{
	pthread_mutex_lock(&a->lock);
	for (unsigned int i = 0; i < ABSENT_SLOTS; i++)
		a->slot[i].until_ms = 0;
	pthread_mutex_unlock(&a->lock);
}

void absent_remember(struct absent *a, uint32_t hash, const struct stub_handle *dir,
		     const char *name, size_t name_len)
{
	struct absent_name *s = &a->slot[hash % ABSENT_SLOTS];

	if (name_len > STUB_NAME_MAX)
		return;
	pthread_mutex_lock(&a->lock);
	s->until_ms = stub_now_ms() + KEEP_MS;
	s->dir = *dir;
	s->name_len = (uint8_t)name_len;
	memcpy(s->name, name, name_len);
	pthread_mutex_unlock(&a->lock);
}

bool absent_known(struct absent *a, uint32_t hash, const struct stub_handle *dir, const char *name,
		  size_t name_len)
{
	struct absent_name *s = &a->slot[hash % ABSENT_SLOTS];
	bool known;

	pthread_mutex_lock(&a->lock);
	known = s->until_ms > stub_now_ms() && s->name_len == name_len &&
		stub_handle_equal(&s->dir, dir) && !memcmp(s->name, name, name_len);
	pthread_mutex_unlock(&a->lock);
	return known;
}
