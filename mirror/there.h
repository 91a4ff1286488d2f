/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * there.h - the names of one directory of the mirror, by name.
 */
#ifndef MIRROR_THERE_H
#define MIRROR_THERE_H

#include "mirror.h"

#define THERE_ORIGIN 64 /* bytes of an NFSv3 handle */

struct there_name {
	struct there_name *next; /* of the same sum */
	char *name;		 /* terminated */
	mode_t type;
	bool told; /* the server tells what it is */
	bool done; /* it is right, or it has gone from there */
	uint8_t len, origin[THERE_ORIGIN];
};

struct there {
	struct there_name **at, **by; /* those of a sum; all, in the server's order */
	size_t n, room, sums;
};

/* -errno of source_list(); free it also after a failure. */
int there_list(struct mirror *m, const struct stub_origin *dir, struct there *out);
/* None of its names yet. */
int there_begin(struct there *out);
/* Also these, @n of them: -errno of source_lookup(), but a name that is not there is none. */
int there_look(struct mirror *m, const struct stub_origin *dir, const char *const *name, unsigned int n,
	       struct there *io);
void there_free(struct there *t);
struct there_name *there_find(const struct there *t, const char *name);
/* One that is the inode @o, and is not done. */
struct there_name *there_inode(const struct mirror *m, const struct there *t,
			       const struct stub_origin *o);
void there_origin(const struct there_name *n, struct stub_origin *out);

#endif
