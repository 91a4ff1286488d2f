// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_failed.c - what a failed call means. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "smb_worker/smb_worker.h"

/* Errors that are the server's word on an object; any other one is the connection's. */
static const struct {
	int from, to;
} finals[] = {
	{ ENOTDIR, -ENOTDIR }, { EACCES, -EACCES },	      { EPERM, -EACCES },
	{ EISDIR, -ESTALE },   { ENAMETOOLONG, -ENAMETOOLONG }, { ENOMEM, -ENOMEM },
	{ EBUSY, -EIO }, /* a client of the old server has it open exclusively */
};

int worker_failed(struct worker *w, int e, const char *what, const char *path)
{
	snprintf(w->why, sizeof(w->why), "%s of \"%.160s\": %s", what, path, strerror(e));
	for (size_t i = 0; i < sizeof(finals) / sizeof(finals[0]); i++)
		if (finals[i].from == e)
			return finals[i].to;
	/* the object is gone only if the share still shows its root */
	if (e == ENOENT && strcmp(path, w->root) && w->root_there(w))
		return -ENOENT;
	return WORKER_LOST;
}

int worker_refused(struct worker *w, const char *why, const char *what, const char *path)
{
	worker_lost(w, why, what, path);
	return -EIO;
}

int worker_lost(struct worker *w, const char *why, const char *what, const char *path)
{
	snprintf(w->why, sizeof(w->why), "%s of \"%.160s\": %s", what, path, why);
	return WORKER_LOST;
}

int worker_absent(struct worker *w, const char *path, const char *name)
{
	snprintf(w->why, sizeof(w->why), "no \"%.80s\" in \"%.120s\"", name, path);
	return -ENOENT;
}

SMBCCTX *worker_context(struct worker *w)
{
	return w->context;
}
