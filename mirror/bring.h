/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * bring.h - a name that is missing in a directory over there.
 */
#ifndef MIRROR_BRING_H
#define MIRROR_BRING_H

#include "here.h"
#include "there.h"

/* The directory that is compared. */
struct bring_to {
	struct task *t;
	struct there *there; /* what it has over there; what goes from it is `done` */
};

/* @name is missing: @o is linked, or renamed, from where it is.
 *   1        it is not known over there: it is to be made
 *   -EAGAIN  (of a directory) it is above that directory there: others must be compared before
 *   -EEXIST, -ENOENT  it has just changed over there: look again
 *   others   of target.h */
int bring_known(const struct bring_to *b, const char *name, const struct here_object *o);
/* It is made, and its place noted; it is owed already.  Errors as above; -ENOENT also: on the way back, what it
 * still misses is gone over there */
int bring_new(const struct bring_to *b, const char *name, const struct here_object *o);

#endif
