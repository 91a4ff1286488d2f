/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * crawler.h - asks the retriever for everything nobody has asked for yet.
 *
 * One thread, one link to the retriever, as many asks in flight as are useful. The
 * crawler holds no state that matters: killed at any time, the next one begins
 * with the journal as it is.
 */
#ifndef CRAWLER_H
#define CRAWLER_H

#include "stubcore.h"

#define CRAWL_WORKERS_MAX 1024

struct crawl_stats {
	uint64_t asked; /* asks sent */
	uint64_t done; /* answered: nothing is left to bring over */
	uint64_t again; /* not done yet: asked again later */
	uint64_t trouble; /* the source failed for this object */
	uint64_t full; /* the new volume takes no data */
	uint64_t stale; /* gone meanwhile */
	uint64_t lost; /* times the retriever went away */
	uint64_t passes; /* walks through the journal */
	unsigned int inflight;
	bool connected;
	bool closed; /* outside of the windows: nothing is asked for */
	struct stub_journal_counts left; /* of the journal, when it was last asked */
};

struct crawl_config {
	struct stub_volume *volume;
	const char *journal; /* its directory */
	unsigned int workers; /* asks in flight, 1..CRAWL_WORKERS_MAX: at most so many ... */
	unsigned int workers_min; /* ... and as many as are useful from here on, see source/pace.h */
	bool once; /* one pass, then end */
	bool debug; /* each ask and its answer are told at level debug */
	bool leave_parked; /* end also when only parked entries are left */
	int stop_fd; /* readable: end at once */
	unsigned int report_ms; /* how often @report is called, 0: never */
	void (*report)(void *arg, const struct crawl_stats *s);
	void *report_arg;
	stub_log_fn log;
	void *log_arg;
};

enum crawl_end {
	CRAWL_NOTHING_LEFT, /* no entry; with leave_parked: none that is not parked */
	CRAWL_ONCE, /* the one pass is over */
	CRAWL_STOPPED, /* stop_fd */
	CRAWL_REMOVED, /* the journal is gone: the volume was finished */
};

/* Runs until there is an enum crawl_end to return, or -errno of the journal.
 * @out is filled in every case. */
int crawl(const struct crawl_config *c, struct crawl_stats *out);

#endif
