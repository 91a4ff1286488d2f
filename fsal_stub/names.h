/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * names.h - what a name stands for, before an operation on it.
 */
#ifndef FSAL_STUB_NAMES_H
#define FSAL_STUB_NAMES_H

#include "stub_glue.h"

/* What the directory owes a mirror when a name is made in it, for glue_begin(). */
extern const unsigned int names_dir_owes[1];

/* The object that @name stands for here; the old server is not asked.  The caller destroys it. */
fsal_status_t names_find(struct stubfs_obj *dir, const char *name, struct stubfs_obj **out);

/*
 * May @name be made in @dir?  If the old server has the name it is here afterwards.
 * *found is the object that has the name already, or NULL; it is only looked for while
 * there is something to migrate, or a mirror.  The caller destroys it, after an error too.
 */
fsal_status_t names_may_come(struct stubfs_obj *dir, struct stub_wait *w, const char *name,
			     struct stubfs_obj **found);

#endif
