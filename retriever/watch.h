/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * watch.h - the retriever's watch: rates over time, and the end of the migration.
 */
#ifndef RETRIEVER_WATCH_H
#define RETRIEVER_WATCH_H

#include "final_check.h"

struct again;
struct json_object;

struct watch;

struct watch_rates {
	double files;  /* objects finished per second, over the last ten seconds */
	double bytes;  /* file data stored per second, likewise */
	double uptime; /* seconds */
};

int watch_create(const struct control_config *c, struct watch **out);
void watch_destroy(struct watch *w);
/* Look now whether the migration is over, as the watch does by itself twice a second.
 * Thread-safe; no file system call unless it is over. Waits some seconds for the final
 * check: that of a small volume ends in that time, and its result can be told. */
void watch_look(struct watch *w);
/* Is all that is left, @n, waiting for a person?  So are links whose names may come out of a parked
 * directory. As of the last look. */
bool watch_only_parked(struct watch *w, const struct stub_journal_counts *n);
/* The final check: what it has found, and its state. */
void watch_found(struct watch *w, struct final_found *out);
/* Into @o: see history.h. */
void watch_history(struct watch *w, struct json_object *o);
/* Have the final check done again. */
void watch_check_again(struct watch *w);
/* What was un-parked, and is asked for again (again.h). */
struct again *watch_again(struct watch *w);
void watch_rates(struct watch *w, struct watch_rates *out);

#endif
