/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight.h - everything that is checked before a directory becomes a volume.
 *
 * All functions return 0, or -1 with the verdict set. The source is only read;
 * the target is left as it was.
 */
#ifndef PREFLIGHT_H
#define PREFLIGHT_H

#include <limits.h>
#include <sys/stat.h>

#include "source.h"
#include "verdict.h"

#define PREFLIGHT_SAMPLE     2000 /* entries looked at in search of proof */
#define PREFLIGHT_SAMPLE_MS  20000 /* ... and for how long */
#define PREFLIGHT_TIMEOUT_MS 15000 /* a source that does not answer is given up */

struct target {
	int fd; /* O_RDONLY, -1 if not open */
	char path[PATH_MAX]; /* real path */
	struct stat st;
	const char *fstype;
	uint32_t inode_size; /* bytes, 0: unknown */
	uint64_t free_bytes, free_inodes;
};

struct source_facts {
	const char *uri;
	char host[256];
	char path[STUB_URI_MAX + 1]; /* of the export, begins with '/' */
	bool local; /* the host is this machine */
	struct stub_origin root;
	struct stub_attr attr;
	bool root_proven; /* uid 0 is not squashed, for certain */
	unsigned int sampled; /* entries looked at */
};

/* ---- preflight_target.c: existence, kind, abilities, room; then emptiness ---- */

int preflight_target(struct verdict *v, const char *dir, struct target *out);
int preflight_target_empty(struct verdict *v, const struct target *t);
void target_close(struct target *t);

/* ---- preflight_uri.c: the URI is one, and its host is known ---- */

int preflight_uri(struct verdict *v, const char *uri, struct source_facts *out);

/* ---- preflight_source.c: reachable, an export, readable, nothing reserved in it ---- */

/* @facts has gone through preflight_uri(). @out stays open for the calls below. */
int preflight_source(struct verdict *v, struct source_facts *facts, struct source **out);

/* Is neither the target inside the source, nor the source inside the target? */
int preflight_overlap(struct verdict *v, const struct target *t, struct source *s,
		      const struct source_facts *facts);

/* ---- preflight_root.c: is uid 0 root over there? ---- */

int preflight_root(struct verdict *v, struct source *s, struct source_facts *facts);

#endif
