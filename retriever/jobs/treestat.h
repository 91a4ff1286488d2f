/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * treestat.h - what listed directories had in them, by depth: from that is guessed what those have
 * that are not listed yet (docs/decisions/0060).
 */
#ifndef TREESTAT_H
#define TREESTAT_H

#include <pthread.h>
#include <stdint.h>

#define TREE_DEPTHS 64 /* what is deeper counts for the last one */

/* Of the directories of one depth below the root that have been listed.  Sums, and sums of
 * squares. */
struct tree_depth {
	uint64_t listed;
	double dirs, dirs2;
	double files, files2; /* all that is no directory */
	double bytes, bytes2; /* sizes of regular files */
};

struct tree_content { /* of one directory; a name of a file with n names is 1/n of it */
	double dirs, files, bytes;
};

struct treestat {
	pthread_mutex_t lock; /* a leaf */
	struct tree_depth at[TREE_DEPTHS];
};

void treestat_init(struct treestat *t);
void treestat_finish(struct treestat *t);
void treestat_note(struct treestat *t, unsigned int depth, const struct tree_content *c);
/* Add @at, of an earlier process. */
void treestat_load(struct treestat *t, const struct tree_depth at[TREE_DEPTHS]);
void treestat_get(struct treestat *t, struct tree_depth out[TREE_DEPTHS]);

#endif
