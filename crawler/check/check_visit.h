/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_visit.h - what check_walk.c and check_visit.c share; nobody else includes it.
 *
 * Locking: struct walker.lock guards the stack, the counts and the references of
 * nodes, and serialises found(). A node's other fields never change while it is
 * shared. Nothing asks the old server with the lock held.
 */
#ifndef CHECK_VISIT_H
#define CHECK_VISIT_H

#include <pthread.h>

#include "check/check.h"

#define TWINS_MOST (24u << 20) /* bytes of names, for each worker */

struct node {
	struct node *below; /* on the stack */
	struct node *parent; /* NULL: the root */
	unsigned int refs; /* of its children, and of whoever holds it */
	unsigned int depth;
	uint64_t fsid, fileid;
	uint64_t handle; /* a number made of the NFS file handle; 0: there is none */
	uint64_t skip; /* so many subdirectories were taken from earlier listings */
	size_t path_len;
	size_t origin_len, name_len;
	char bytes[]; /* the origin, then the name */
};

#define BTRFS_ROOT 256 /* file id of the root of each subvolume */
#define FIRST_ROOTS 8

struct walker {
	struct check_walk *w;
	struct source *s;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct node *top;
	size_t nodes;
	unsigned int busy; /* workers with a directory */
	unsigned int running; /* workers */
	unsigned int reading; /* files */
	bool stop;
	int error;
	/* of each fsid, the first directory met with the file id of a subvolume's root */
	struct {
		uint64_t fsid, handle;
	} roots[FIRST_ROOTS];
	unsigned int n_roots;
};

/* The listing of one directory, on a worker's stack. */
struct visit {
	struct walker *k;
	struct node *dir;
	struct check_twins *twins; /* NULL: case does not matter */
	enum { ALL, MORE_DIRS, ONLY_TWINS } want;
	uint64_t index; /* entries of this listing so far */
	uint64_t bytes; /* of their names */
	bool full; /* not all names did fit into twins */
	uint64_t told; /* twins among the first so many entries are reported */
	uint64_t dirs; /* subdirectories so far */
	uint64_t chunk; /* how many are taken now */
	bool more; /* there are others */
	struct node *children;
	uint64_t n_children;
};

/* ---- check_read.c ---- */

/* Begin to read a byte of file @e, which is told as @path if that fails; waits while many
 * reads are under way.  -ECANCELED: stop; -ENOMEM */
int check_read(struct walker *k, const char *path, const struct stub_entry *e);
void check_read_wait(struct walker *k); /* until all that were begun are over */

/* ---- check_visit.c ---- */

/* A directory with one reference, of its maker. NULL: out of memory. The reference to
 * its parent is the caller's to count. */
struct node *node_create(struct node *parent, const char *name, size_t len,
			 const uint8_t *origin, size_t origin_len, const struct stub_attr *a);

/* A number for struct node.handle. @inode NULL: 0. */
uint64_t check_handle(const uint8_t *inode, size_t len);

/* Under the lock: is this the root of a subvolume (with that file id, in an fsid in which
 * another directory has it)? */
bool check_subvolume(struct walker *k, uint64_t fsid, uint64_t fileid, uint64_t handle);

/* List v->dir, report what is found, collect v->children. Set: k, dir, twins, chunk.
 * Returns 0, or what must end the walk: -ECANCELED, -ETIMEDOUT, -ENOMEM. */
int check_visit(struct visit *v);

#endif
