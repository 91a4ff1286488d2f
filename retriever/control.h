/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * control.h - the control socket: one JSON object per line, each way.
 *
 *   {"cmd":"status"}                  numbers, see postcopy(8)
 *   {"cmd":"retry","what":"errors"}   or "conflicts", "all": un-park; says whether a crawler runs,
 *                                     and how many are asked for if not (again.h)
 *   {"cmd":"unpark","objects":[       these alone; a "type" and a "handle" each
 *    {"type":T,"handle":"HEX"},...]}
 *   {"cmd":"resolve","how":"theirs",  or "ours", "lost": settle one parked object,
 *    "type":T,"handle":"HEX",         named by its handle; "path" is for the list only
 *    "path":"..."}
 *   {"cmd":"pause"} {"cmd":"resume"}  the crawler's work
 *   {"cmd":"throttle", "bytes_per_s":N the crawler's data, 0 = no limit
 *    "requests_per_s":N, "latency_ms":N, of the background: source/limiter.h
 *    "connections":N}                 each may be left out; answers with what is in force then
 *   {"cmd":"debug","on":true}         or false: level debug, until the retriever ends
 *   {"cmd":"history"}                 "samples": lists of time, active seconds, found objects and
 *                                     bytes, done objects and bytes, directories left, parked;
 *                                     "now": the same, of the last ten seconds, if anything is known;
 *                                     "tree": for each depth: directories listed, then sums and
 *                                     sums of squares of their directories, other names, bytes
 *   {"cmd":"config"}                  the settings in force, see postcopy(8)
 *   {"cmd":"drain"}                   answers when all finished objects are durable
 *   {"cmd":"stop"}                    end the retriever
 *
 * Answers: {"ok":true, ...} or {"ok":false,"error":"one line"}.
 */
#ifndef RETRIEVER_CONTROL_H
#define RETRIEVER_CONTROL_H

#include "config.h"
#include "jobs/jobs.h"
#include "settings.h"
#include "source/limiter.h"

struct control_config {
	struct stub_volume *volume;
	struct stub_journal *journal;
	struct stub_finisher *finisher;
	struct source *source;
	struct limiter *limiter; /* the source's */
	struct jobs *jobs;
	const struct config *config; /* what was read at the start */
	bool debug_option; /* level debug was asked for on the command line */
	/* end the process in good order; @gone: the volume has been removed while we served it */
	void (*stop)(void *arg, bool gone);
	void *stop_arg;
	void (*debug)(void *arg, bool on); /* say what is done for each ask, or stop it */
	void *debug_arg;
	struct settings settings; /* those in force at the start */
	stub_log_fn log;
	void *log_arg;
};

struct control;

/* Starts a thread for the socket, and one that keeps rates and notices the end
 * (counter 0, or only link names left).  -EADDRINUSE */
int control_create(const struct control_config *c, struct control **out);
void control_destroy(struct control *c);

#endif
