/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_many.h - what the server knows of several objects, and their bytes, asked for at once on one
 * connection (docs/decisions/0091).
 *
 * Only what goes without anything else: each object of which the server says something that wants
 * another question, or an error, is to be asked alone (exact_about()), when nothing is under way.
 */
#ifndef SMB_MANY_H
#define SMB_MANY_H

#include "smb_worker/smb_about.h"

struct many;

struct many_one {
	struct many_one *next;
	uint32_t tag;
	bool has_numbers;
	uint32_t uid, gid, bits;
	char *path;
	uint32_t want;	     /* bytes of data that are wanted */
	uint64_t stream_max; /* as exact_about() */
	/* what came of it */
	int result; /* 0; -EAGAIN: ask alone; -ENOMEM */
	struct exact_about about;
	const char *data; /* @want bytes, all of the file's, of the version in @about; or NULL */
	struct many_inside *inside;
};

/* On the connection of @w's context.  NULL: no memory. */
struct many *many_create(struct worker *w, int requests);
/* Can several be under way on this connection?  Not below a DFS, where each path is looked up. */
bool many_can(struct many *m);
/* @o->tag to @o->stream_max are filled in; @path is malloc()ed; all of it is many's, until it comes
 * back. */
void many_add(struct many *m, struct many_one *o);
/*
 * The next one that is over, to be freed with many_free().  NULL: nothing is under way any more, or,
 * with @until_request, something can be read from the descriptor @requests before.  One to be asked
 * alone comes when nothing is under way.
 */
struct many_one *many_next(struct many *m, bool until_request);
void many_free(struct many_one *o);
bool many_busy(const struct many *m); /* is anything under way? */

#endif
