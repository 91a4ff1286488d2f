/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * progress.h - how the migration went so far, kept over restarts: .postcopy/progress.
 *
 * Samples of what was found and done, and what listed directories had in them (jobs/treestat.h).
 * For estimates and pictures only: nothing else relies on it.  What is damaged is left out, and a
 * file that is not ours is begun anew.
 *
 * The file has one size for ever, is made with all its blocks, and is written in place, never
 * synced: a full volume takes the samples too, and a crash costs the last ones.
 *
 *   2 x 4096  headers, written in turn; the valid one with the larger number counts:
 *               u32 magic 0x31677250   u32 version 1   u64 number
 *               64 depths: u64 directories listed, then 6 doubles as struct tree_depth has them
 *               zeros   u64 FNV-1a of all before it
 *   512 x 64  samples, in any order; a free one is no valid one:
 *               i64 seconds since 1970   u64 active ms   u64 found   u64 bytes found
 *               u64 done   u64 bytes done   u32 directories left   u32 parked
 *               u32 flags (0)   u32 FNV-1a, folded, of all before it        (little-endian)
 *
 * When all places are taken, the sample goes that is missed least: so the last minutes are known
 * in steps of seconds, and the first weeks in steps of hours.
 */
#ifndef RETRIEVER_PROGRESS_H
#define RETRIEVER_PROGRESS_H

#include "jobs/treestat.h"

#define PROGRESS_SAMPLES 512
#define PROGRESS_HEADER	 4096
#define PROGRESS_SAMPLE	 64
#define PROGRESS_BYTES	 (2 * PROGRESS_HEADER + PROGRESS_SAMPLES * PROGRESS_SAMPLE)

struct progress_sample {
	int64_t at; /* seconds since 1970 */
	uint64_t active_ms; /* so long the crawler's asks were worked on, ever */
	uint64_t found, found_bytes, done, done_bytes; /* as stub_journal_totals() has them */
	uint32_t dirs, parked;
};

/* What the file says. */
struct progress_data {
	uint64_t number; /* of the header that counts, 0: none is valid */
	struct tree_depth tree[TREE_DEPTHS];
	unsigned int n;
	struct progress_sample sample[PROGRESS_SAMPLES]; /* by time; active_ms and done never go back */
	uint16_t place[PROGRESS_SAMPLES]; /* where each of them is */
};

/* What is valid of the hostile @file. */
void progress_parse(const uint8_t file[PROGRESS_BYTES], struct progress_data *out);
void progress_pack_sample(const struct progress_sample *s, uint8_t out[PROGRESS_SAMPLE]);
void progress_pack_header(const struct tree_depth tree[TREE_DEPTHS], uint64_t number,
			  uint8_t out[PROGRESS_HEADER]);
/* Put @s behind the others of @d, in place of one if there are too many; returns its place. */
unsigned int progress_insert(struct progress_data *d, const struct progress_sample *s);

/* What there is, for who changes nothing: @root as below.  0; -ENOENT: nothing was kept yet; or
 * -errno, and @out is empty. */
int progress_load(int root, struct progress_data *out);

struct progress; /* its calls: one thread at a time */

/* Of the volume whose root is open at @root.  0, or -errno: there will be no history. */
int progress_open(int root, struct progress **out);
void progress_close(struct progress *p);
const struct progress_data *progress_data(const struct progress *p);
/* Add @s, and store @tree.  -errno: not stored, but it is in the data.  Samples of a later time (of a
 * clock that was wrong) go, and all of them if more was done then. */
int progress_add(struct progress *p, const struct progress_sample *s,
		 const struct tree_depth tree[TREE_DEPTHS]);

#endif
