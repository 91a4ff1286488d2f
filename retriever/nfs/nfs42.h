/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs42.h - what NFSv4.2 (RFC 7862, RFC 8276) tells more than 4.1.
 *
 *   nfs42_call.c   bytes of extended attributes
 *   nfs42_ask.c    one call that a thread waits for
 *   nfs42_holes.c  where a file has no data: SEEK
 *   nfs42_xattr.c  users' extended attributes; and creation times, of all versions of NFSv4
 *
 * A server of 4.2 need not have any of it: what it does not know is as in 4.1.
 */
#ifndef NFS42_H
#define NFS42_H

#include "nfs/nfs4.h"

#define NFS42_SEEK_DATA 0u
#define NFS42_SEEK_HOLE 1u
#define NFS42_LOOK_BYTES 1024u /* of a list of names: are there any? */

/* ---- nfs42_call.c ---- */

void nfs42_put_list(struct nfs4_out *o, uint64_t cookie, uint32_t bytes);
/* What LISTXATTRS, or GETXATTR, says: 0, -EBADMSG, or as nfs4_errno(). */
int nfs42_take_list(struct nfs4_reply *r, struct nfs_answer *a);
int nfs42_take_value(struct nfs4_reply *r, struct nfs_answer *a);
/* What it says behind the attributes of what was looked up, into a->attr.more: 0, -EBADMSG,
 * -EAGAIN. */
int nfs42_look_behind(struct nfs4_reply *r, struct nfs_answer *a);
/* LISTXATTRS has ended with @err and @a (NULL: none came): is there more to be had of the object? */
void nfs42_met(int err, const struct nfs_answer *a, struct stub_attr *attr);

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

/* Blocks.  0, or as source.h says; of an error k->a.said only counts.  -EOPNOTSUPP: before 4.2, for
 * what is new there; nothing was sent. */
int nfs42_ask(struct nfs_source *s, struct nfs42_call *k, enum nfs_op op, enum source_priority p,
	      const struct stub_origin *o);

/* ---- nfs42_holes.c ---- */

/* source_holes().  -EOPNOTSUPP also: before 4.2 */
int nfs42_holes(struct source *s, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, struct source_holes *out);

/* ---- nfs42_xattr.c ---- */

/* Are there any?  Sets attr->more.  Blocks.  0, -ECANCELED, -ETIMEDOUT */
int nfs42_look(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
	       struct stub_attr *attr);
/* Extended attributes (@xattrs: there may be some), and when it was made (@born; NULL: that is not
 * kept), behind what @out has already; out->attr is the object's.  Blocks.  0, or as source_meta(). */
int nfs42_extras(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
		 bool xattrs, const struct timespec *born, struct source_meta *out);

#endif
