/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * history.h - the watch's memory of how it went: samples of the totals, every ten seconds in which
 * something has changed, kept in .postcopy/progress.  For estimates only.
 */
#ifndef RETRIEVER_HISTORY_H
#define RETRIEVER_HISTORY_H

#include <json-c/json.h>

#include "control.h"

struct history;

/* Never fails for want of a file: then there is none, and it is tried again now and then. */
int history_create(const struct control_config *c, struct history **out);
void history_destroy(struct history *h);
/* From one thread, at least every second. */
void history_tick(struct history *h);
/* Into @o, from any thread: "samples", "tree", see control.h. */
void history_json(struct history *h, struct json_object *o);

#endif
