/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * jobs.h - what the retriever does with an ask.
 *
 * An ask becomes a job, or joins the job that is doing the same already (one
 * fetch, many waiters).  Jobs for waiting clients (LOOKUP, LIST, ATTR, DATA) and
 * jobs for the crawler (FILL) have worker threads of their own, so that a client
 * never waits behind the crawler.
 */
#ifndef JOBS_H
#define JOBS_H

#include "depot/depot.h"
#include "jobs/recall.h"
#include "jobs/treestat.h"
#include "source/source.h"
#include "stubcore.h"

struct jobs;

struct jobs_config {
	struct stub_volume *volume;
	struct stub_journal *journal;
	struct stub_finisher *finisher;
	struct stub_syncer *syncer; /* NULL: nothing is made whole */
	struct source *source;
	struct limiter *limiter; /* the source's; NULL: none */
	struct depot *depot; /* of streams; NULL: they are attributes */
	unsigned int demand_workers; /* threads for waiting clients */
	unsigned int fill_workers;   /* threads for the crawler */
	uint32_t block_bytes;	     /* unit and alignment of data fetches */
	uint32_t small_file; /* bytes of the largest file that is made whole; 0: none is */
	bool digests;	     /* of what comes are kept (docs/decisions/0074) */
	unsigned int patience_ms; /* so long their listing waits without an answer */
	uint64_t buffer_bytes;	     /* most memory for data on its way to the disk */
	unsigned int max_tries;	     /* failures until an object is parked */
	unsigned int recall_files_per_minute, recall_burst; /* see recall.h */
	stub_log_fn log;
	void *log_arg;
};

int jobs_create(const struct jobs_config *c, struct jobs **out);
/* Take @r over; it is answered when its work is done.  Never blocks. */
void jobs_submit(struct jobs *j, struct stub_request *r);
/* What a crawler asks for @h, for nobody in particular. */
void jobs_fill(struct jobs *j, const struct stub_handle *h);
/* After source_stop(): ends all work; open and later requests are answered -EAGAIN. */
void jobs_stop(struct jobs *j);
void jobs_destroy(struct jobs *j); /* after jobs_stop() and the server's end */

void jobs_retry(struct jobs *j); /* what was un-parked may be tried at once */
void jobs_pause(struct jobs *j, bool paused);		     /* FILL waits; clients are served */
void jobs_throttle(struct jobs *j, uint64_t bytes_per_second); /* FILL only; 0: no limit */

/* A version was given up (stub_resolve_theirs()): forget all bytes kept to be passed on. */
void jobs_forget_passed(struct jobs *j);

/* For a watchdog, again and again: see job_table_moves(). */
bool jobs_move(struct jobs *j);

struct jobs_stats {
	uint64_t fills, lookups, lists, attrs, data; /* jobs done, by kind; fills: begun */
	uint64_t joined;			     /* asks that found their job under way */
	uint64_t bytes;				     /* file data stored */
	uint64_t whole; /* files made whole: they never were in the journal */
	uint64_t entries;			     /* names materialised */
	uint64_t errors, conflicts;		     /* failures met, conflicts found */
	uint64_t touched; /* transfers of files whose attributes alone had changed over there */
	uint32_t active, queued;
	uint32_t filling; /* jobs of the crawler that workers have */
	bool paused;
	uint64_t throttle;
	int store_error; /* errno with which the volume refuses data now, 0: it takes it */
	uint64_t store_error_ms; /* for how long */
	uint64_t holes; /* bytes that were not read, since the old server has none there */
	uint64_t passed; /* bytes passed on without being stored */
	uint64_t lost;	 /* streams, attributes ... that could not be kept; told in the log */
	uint64_t acls;	 /* objects that came without their ACL, with a mode that gives no more */
	uint64_t near;	 /* objects whose ACL came as one that is only near, and gives no more */
	uint64_t times; /* objects with a time that the old server may mean otherwise */
	bool source_lost; /* the source answers, but its root is not what it was */
	uint32_t later; /* objects of which the old server says "later", about */
	uint32_t held;	 /* fetches that wait for their client's budget, not in queued */
};
void jobs_stats(struct jobs *j, struct jobs_stats *out);
/* What listed directories had in them; begin with what an earlier process found. */
void jobs_tree(struct jobs *j, struct tree_depth out[TREE_DEPTHS]);
void jobs_tree_load(struct jobs *j, const struct tree_depth at[TREE_DEPTHS]);
/* Bytes that are here of large files that are not complete, and not parked. */
uint64_t jobs_partly(struct jobs *j);
/* Recalls by client, most files first; returns how many clients. */
unsigned int jobs_recalls(struct jobs *j, struct recall_client out[RECALL_CLIENTS]);

#endif
