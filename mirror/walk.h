/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * walk.h - through the whole volume: everything is owed where the ledger does not know what is, and
 * the directories that have the names of files which are not known over there.
 */
#ifndef MIRROR_WALK_H
#define MIRROR_WALK_H

#include "mirror.h"

int walker_create(struct mirror *m, struct walker **out);
void walker_destroy(struct walker *w);

/* The file with this inode number is owed, and is not known over there. */
void walker_stray(struct walker *w, uint64_t ino);
/* No directory is owed that could still make them: the directories that have them are found, and are
 * owed then. */
void walker_find_strays(struct walker *w);
/* Compare everything. */
void walker_all(struct walker *w);
bool walker_walks(struct walker *w); /* because all is owed */

#endif
