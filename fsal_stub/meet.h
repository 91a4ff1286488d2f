/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * meet.h - two requests at one name, see meet.c.
 */
#ifndef FSAL_STUB_MEET_H
#define FSAL_STUB_MEET_H

#include "stub_glue.h"

enum stubfs_doing { NAME_COMES, NAME_GOES, NAME_MOVES };

/* Lives on the request's stack; zero: at no name. */
struct stubfs_meeting {
	struct stubfs_meeting *next;
	const struct stubfs_obj *dir; /* NULL: at no name */
	const char *name;
	enum stubfs_doing doing;
};

/*
 * From now until stubfs_part() nobody does anything else to @name of @dir.  Before the bracket; of RENAME before all
 * that waits, for MDCACHE holds locks already, of others after it.  DELAY: somebody is doing something else to it, or
 * was when this request began.
 */
fsal_status_t stubfs_meet(struct stubfs_meeting *m, const struct stubfs_obj *dir, const char *name,
			  enum stubfs_doing doing);

/* Does nothing if @m is at no name. */
void stubfs_part(struct stubfs_meeting *m);

#endif
