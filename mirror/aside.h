/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * aside.h - what has no name here, or another one, is held aside over there until it is certain
 * that it is gone: in one directory at the mirror's root.
 */
#ifndef MIRROR_ASIDE_H
#define MIRROR_ASIDE_H

#include "mirror.h"

int aside_create(struct mirror *m, struct aside **out);
void aside_destroy(struct aside *a);

/* Is @name, in the mirror's root, that directory? */
bool aside_is(const struct aside *a, const char *name);
/* @name in @dir over there is held aside.  0, also if it is not there any more; -errno of target.h */
int aside_take(struct aside *a, const struct stub_origin *dir, const char *name);
/* Something here is @o over there, and has a name that it could not be given, or may have been renamed
 * since a directory was compared: if it is aside, it stays. */
void aside_want(struct aside *a, const struct stub_origin *o);
/* From time to time, by one thread: the directory is there, and what is certain to be gone is removed.
 * -errno */
int aside_work(struct aside *a);
/* The mirror ends: the directory goes, until something is held aside again.
 *   -ENOTEMPTY  something is
 *   -ENOMEDIUM  the mirror is away, or its root is another one */
int aside_leave(struct aside *a);
/* How many names are in it, as far as is known; *known: it was looked at. */
uint64_t aside_count(struct aside *a, bool *known);

#endif
