/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * rehearse_inside.h - what the files of this folder share; nobody else includes it.
 *
 * Locking: struct run.lock guards all that changes, also in struct rehearse; but what a worker has
 * taken from a pool is its own.  Nothing asks the old server with the lock held.
 */
#ifndef REHEARSE_INSIDE_H
#define REHEARSE_INSIDE_H

#include <pthread.h>

#include "source/pace.h"
#include "rehearse/rehearse.h"

/* ---- rehearse_pool.c ---- */

struct thing { /* a directory, or a file with data */
	struct thing *next; /* small files of one directory, read one after the other */
	uint64_t size, at; /* at: read up to there */
	uint32_t depth;
	bool meta; /* source_meta() brings more */
	uint16_t origin_len;
	uint8_t origin[];
};

/* Things of one kind.  When it is full each one that comes has the same chance to be in it. */
struct pool {
	struct thing **thing;
	size_t n, room;
	uint64_t seen;
	size_t *bytes, most; /* that it may have, with others that share them */
};

struct thing *thing_create(const struct stub_entry *e, unsigned int depth, bool meta);
void thing_destroy(struct thing *t); /* and all that follow */
void thing_origin(const struct thing *t, struct stub_origin *out);

/* @t is the pool's.  Returns how many things were dropped. */
uint64_t pool_add(struct pool *p, struct thing *t, uint64_t *random);
struct thing *pool_take(struct pool *p, uint64_t *random); /* any; NULL: it is empty */
void pool_finish(struct pool *p);
uint64_t random_below(uint64_t *random, uint64_t n); /* n > 0 */

/* ---- rehearse_machine.c ---- */

struct machine {
	uint64_t cpu_busy, cpu_all, own_us;
};
void machine_look(struct machine *m);

/* ---- rehearse_disk.c ---- */

struct disk;
int disk_create(int dir, struct disk **out); /* -errno: no unnamed file can be made there */
void disk_stop(struct disk *d); /* nobody waits any more */
void disk_destroy(struct disk *d);
int disk_file(struct disk *d); /* a descriptor, or -errno */
/* @fd, with so many bytes, is the disk's; waits while there is much that is not durable. */
int disk_give(struct disk *d, int fd, uint64_t bytes);

/* ---- rehearse_run.c ---- */

#define RING_MOST 2048

struct ring { /* what was read last */
	struct thing *thing[RING_MOST];
	unsigned int n, at, most;
};

struct run {
	struct rehearse *r;
	struct source *s;
	uint32_t block; /* bytes of a read */
	struct disk *disk; /* NULL: none */
	pthread_mutex_t lock;
	pthread_cond_t idle; /* workers without a place, or without anything to do */
	pthread_cond_t room; /* those that wait for r->buffer */
	enum rehearse_work work; /* REHEARSE_WORKS: nothing new is begun */
	bool stop;
	int error;
	unsigned int busy; /* workers with something to do */
	unsigned int waiting; /* for room */
	uint64_t asked; /* bytes under way */
	uint64_t random;
	struct pace pace[REHEARSE_LARGES + 1];
	struct pool dirs[TREE_DEPTHS], small, large;
	size_t dirs_bytes, files_bytes; /* in them */
	struct thing *batch; /* small files that are next */
	struct ring small_ring, large_ring;
};

/* ---- rehearse_task.c ---- */

void task_list(struct run *k, enum rehearse_work work, struct thing *dir);
/* Reads @t until its end, @k->work is no longer @work, or a limit; @t->at says how far.  False: it
 * cannot be read. */
bool task_read(struct run *k, enum rehearse_work work, struct thing *t);
#define TASK_READ_MOST (64u << 20) /* bytes of a file */

#endif
