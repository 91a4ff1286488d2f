/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * rehearse.h - `postcopy-volume rehearse`: lists and reads from an old server for a while, into
 * nothing, as a migration would, and tells what it saw.  Nothing is written there; here unnamed
 * files, if a directory of the new file system is given.
 *
 *   volume_rehearse.c  the command line, and the answer as JSON
 *   rehearse_run.c     the slices of time, and who works in them
 *   rehearse_task.c    one directory is listed, one file read
 *   rehearse_disk.c    what was read is written to the new file system, if there is one
 *   rehearse_pool.c    what was found and may be taken: a bounded, random part
 *   rehearse_machine.c how busy this machine was
 *
 * What is predicted of it is crawler/admin/postcopy_rehearse.py's (docs/decisions/0070).
 */
#ifndef REHEARSE_H
#define REHEARSE_H

#include "jobs/treestat.h"
#include "source/source.h"

#define REHEARSE_LARGE_BYTES (1u << 20) /* as the crawler tells small files from large ones */
#define REHEARSE_SAMPLES 1024

/* One kind at a time: so each has a rate of its own. */
enum rehearse_work {
	REHEARSE_LIST, /* directories */
	REHEARSE_SMALL, /* whole files */
	REHEARSE_LARGES, /* the first 64 MiB of files */
	/* what was just read, once more: the old server has it in its memory now */
	REHEARSE_SMALL_AGAIN,
	REHEARSE_LARGES_AGAIN,
	/* one at a time: how long does it take if nothing else is under way? */
	REHEARSE_LIST_ALONE,
	REHEARSE_SMALL_ALONE,
	REHEARSE_WORKS,
};
extern const char *const rehearse_work_names[REHEARSE_WORKS];

struct rehearse_phase { /* of all slices with one kind of work, together */
	uint64_t us; /* while the old server was there */
	uint64_t ops; /* directories, files */
	double objects; /* REHEARSE_LIST: what was in these directories */
	uint64_t bytes, calls;
	uint64_t inflight, looks; /* calls that were in flight, summed up over so many looks */
	uint64_t cpu_busy, cpu_all; /* of this machine; any unit */
	uint64_t own_us; /* processor time of this process */
	uint64_t busy_us, here_us; /* of all workers together; of it, with the new file system */
	unsigned int window; /* so many ops are under way, as found by measuring */
};

/* Sums of REHEARSE_LIST, REHEARSE_SMALL and REHEARSE_LARGES: what took so long. */
struct rehearse_sample {
	uint64_t active_us;
	double found, found_bytes; /* objects, and the sizes of files */
	double done, done_bytes; /* files with data that were read, or as much of them as is */
};

struct rehearse {
	/* set by the caller */
	uint64_t ms; /* so long */
	unsigned int workers; /* at most, 1..256 */
	uint64_t buffer; /* bytes that were asked for and are not here yet, at most */
	int dir; /* a directory of the new file system, -1: none */
	void (*progress)(void *arg, const struct rehearse *r); /* every second */
	void *arg;
	/* what was seen; a file with n names is 1/n of a file for each name */
	uint64_t took_ms, lost_ms; /* lost: the old server was away */
	struct rehearse_sample now;
	double found, found_bytes; /* while listing alone, too */
	double small, small_bytes, large, large_bytes; /* files found, of those with data */
	uint64_t directories, listed, unlistable; /* found; of them; gave an error */
	uint64_t unreadable, denied; /* files that could not be read; of them, EACCES */
	uint64_t bad_names; /* entries that cannot be made, or of which it tells nothing */
	uint64_t dropped; /* found, and not kept in mind for want of memory */
	uint64_t bytes; /* read, all in all */
	struct treestat tree;
	struct rehearse_phase phase[REHEARSE_WORKS];
	struct rehearse_sample sample[REHEARSE_SAMPLES];
	unsigned int samples;
	bool complete; /* all was listed, and of each file something read */
	bool stopped; /* by SIGINT or SIGTERM */
	int here; /* -errno: the new file system took no more */
};

/* Returns 0 (also if it was stopped), or with what was seen until then
 *   -ETIMEDOUT  the old server does not answer any more
 *   -EIO  r->here says why
 *   -ENOMEM, or what it said of its root */
int rehearse(struct rehearse *r, struct source *s);

#endif
