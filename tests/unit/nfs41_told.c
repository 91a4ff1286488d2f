// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs41_told.c - see nfs41_server.h: what a source of the server logs. */
#include <string.h>

#include "nfs41_server.h"

void nfs41_take_log(void *arg, enum stub_log_level level, const char *line)
{
	struct nfs41_told *t = arg;

	(void)level;
	pthread_mutex_lock(&t->lock);
	strncat(t->text, line, sizeof(t->text) - strlen(t->text) - 2);
	strcat(t->text, "\n");
	pthread_mutex_unlock(&t->lock);
}

bool nfs41_was_told(struct nfs41_told *t, const char *what)
{
	bool there;

	pthread_mutex_lock(&t->lock);
	there = strstr(t->text, what);
	pthread_mutex_unlock(&t->lock);
	return there;
}
