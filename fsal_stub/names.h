/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * names.h - finding out about a name before something is made of it.
 */
#ifndef FSAL_STUB_NAMES_H
#define FSAL_STUB_NAMES_H

#include "stub_glue.h"

/* The local object of that name, for a look at it; to be destroyed by the caller. */
fsal_status_t names_find(struct stubfs_obj *dir, const char *name, struct stubfs_obj **out);

/*
 * May @name be made in @dir?  Afterwards nothing of the old server can come into
 * the way.  *found is the object that has the name already, or NULL; it is only
 * looked for while there is something to migrate.  To be destroyed by the caller,
 * after an error too.
 */
fsal_status_t names_may_come(struct stubfs_obj *dir, struct stub_wait *w, const char *name,
			     struct stubfs_obj **found);

#endif
