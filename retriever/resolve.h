/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * resolve.h - what the administrator decides of a parked object.
 *
 * Each decision is a line of JSON in .postcopy/resolved before anything changes:
 *   {"time":"2026-01-31T12:00:00Z","how":"lost","kind":"file","inode":12,"path":"a/b",
 *    "reason":"read: Input/output error","missing":[[0,4096]]}
 * A line that was cut off by a kill is ended by the next one, and counts for nothing: its
 * object is parked still.
 * "missing" are the bytes that read as zeros from then on; of "theirs", those that had
 * not come.
 */
#ifndef RETRIEVER_RESOLVE_H
#define RETRIEVER_RESOLVE_H

#include <json-c/json.h>

#include "control.h"

#define RESOLVED_LIST STUB_DIR "/resolved"
#define RESOLVED_MAX  (1 << 30) /* bytes: millions of decisions */

/* The handle that "type" and "handle" of @in are; false: they are none. */
bool resolve_take_handle(struct json_object *in, struct stub_handle *h);
/* Those of the list @in, to be freed by the caller; 0: it is empty, or not a list of such. */
size_t resolve_take_handles(struct json_object *in, struct stub_handle **out);

/*
 * @how: "theirs" (the old server's present version), "ours" (what is here) or "lost" (what
 * is here, without what never came).  @path is written down if the kernel does not know the
 * object's path.  0, or -errno and @why as a line for the administrator.
 */
int resolve(const struct control_config *c, const char *how, const struct stub_handle *h,
	    const char *path, char *why, size_t size);

#endif
