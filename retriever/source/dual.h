/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * dual.h - one tree that the old server exports over NFS and shares over SMB.
 *
 *   dual_source.c  NFS is the source: names, types, numbers, times, data, links
 *   dual_join.c    what Windows knows of files and directories is asked of the share,
 *                  under the same path, when a dummy is filled
 *   dual_origin.c  file handle and path, in one origin
 */
#ifndef DUAL_H
#define DUAL_H

#include <pthread.h>

#include "source/dual_origin.h"
#include "source/source_ops.h"

struct dual_source {
	struct source base;
	struct source *nfs, *smb;
	stub_log_fn log;
	void *log_arg;
	pthread_mutex_t lock; /* of all below; a leaf */
	bool known; /* same_ids and smb_root are; they do not change any more */
	bool same_ids; /* file ids of the two servers are the same numbers */
	struct stub_origin smb_root;
	uint64_t mismatches;
	char mismatch[sizeof(((struct source_state *)0)->mismatch)];
};

static inline struct dual_source *dual_of(struct source *s)
{
	return (struct dual_source *)s; /* base is its first member */
}

/* meta of struct source_ops */
int dual_meta(struct source *base, enum source_priority p, const struct stub_origin *o,
	      const struct stub_attr *as, struct source_meta *out);
/* stream */
int64_t dual_stream(struct source *base, enum source_priority p, const struct stub_origin *o,
		    const char *name, uint64_t offset, void *buf, uint32_t length, uint64_t *size);

#endif
