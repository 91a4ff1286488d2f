/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * share.h - a backup that is also shared over SMB gets what only SMB carries: DOS attributes, creation times,
 * streams, extended attributes, descriptors of Windows (docs/decisions/0098).
 */
#ifndef MIRROR_SHARE_H
#define MIRROR_SHARE_H

#include "mirror.h"

struct share_counts {
	uint64_t left_out; /* comparisons of objects to which SMB has no path, since the start */
	char path[4096]; /* of the last one; "" */
};

/* @config: of an smb:// source.  Errors of source_create(). */
int share_create(struct mirror *m, const struct source_config *config, struct share **out);
void share_stop(struct share *s); /* all calls end; NULL: nothing */
void share_destroy(struct share *s);

/* Of the mirror: it is connected only if its share is, too. */
void share_state(struct mirror *m, struct source_state *out);
void share_reload(struct share *s); /* as source_reload() */
void share_counts(struct share *s, struct share_counts *out);

/* What a look has found. */
struct shared {
	bool asked; /* the share has the object */
	bool differs;
	bool in_force; /* a descriptor of Windows says here who may do what, and not the mode */
	bool holds; /* and the share has the same one */
};

/*
 * Of an object whose file id over there is @fileid: is it the same over SMB?  EQUAL also without a share, of what is
 * no file or directory, and if it is not to be asked now: then the task stays owed.  Other verdicts, and errors with t->what.
 */
int share_look(struct task *t, uint64_t fileid, struct shared *out);
/* Make it the same. */
int share_make(struct task *t, uint64_t fileid);

#endif
