/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs42.h - what NFSv4.2 (RFC 7862, RFC 8276) tells more than 4.1.
 *
 *   nfs42_ask.c    one call that a thread waits for
 *   nfs42_holes.c  where a file has no data: SEEK
 *
 * A server of 4.2 need not have any of it: what it does not know is as in 4.1.
 */
#ifndef NFS42_H
#define NFS42_H

#include "nfs/nfs4.h"

#define NFS42_SEEK_DATA 0u
#define NFS42_SEEK_HOLE 1u

/* ---- nfs42_ask.c ---- */

struct nfs42_call {
	struct nfs_call call; /* op, offset, count, name are the caller's */
	struct nfs_wait wait;
	/* what the answer says, if err is 0; data is gone */
	struct nfs_answer a;
	int err;
	/* looks at the data of the answer while it is there; 0, or what the call ends with; NULL */
	int (*take)(void *arg, const struct nfs_answer *a);
	void *arg;
};

/* Blocks.  0, or as source.h says; of an error k->a.said only counts. */
int nfs42_ask(struct nfs_source *s, struct nfs42_call *k, enum nfs_op op, enum source_priority p,
	      const struct stub_origin *o);

/* ---- nfs42_holes.c ---- */

/* source_holes().  -EOPNOTSUPP also: before 4.2 */
int nfs42_holes(struct source *s, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, struct source_holes *out);

#endif
