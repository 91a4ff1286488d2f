/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * config_json.h - the settings as JSON, and what is wrong with them: for 'postcopy config'.
 *
 *   "file":PATH, "exists":BOOL      what was read
 *   "settings":[{"key":NAME, "value":N or "TEXT", "text":"as the file would have it",
 *                "default":"TEXT", "from":"default", "file", "command" or "option",
 *                "line":N (file), "bytes_per_s":N (throttle, command)}, ...]
 *   "paused":BOOL
 */
#ifndef RETRIEVER_CONFIG_JSON_H
#define RETRIEVER_CONFIG_JSON_H

#include <json-c/json.h>

#include "config.h"
#include "settings.h"

/* What counts more than the file. */
struct config_over {
	const struct settings *settings; /* by command, kept for the next start; may be NULL */
	bool debug, debug_option;	 /* is it at level debug; was it started with --debug */
};

/* Add all that to @o. */
void config_json(struct json_object *o, const struct config *c, const struct config_over *over);

/*
 * postcopy-retriever --check-config: print one JSON object, as above, and
 *   "ok":BOOL, "problems":[{"file":PATH, "line":N, "key":NAME, "harmless":BOOL, "message":"TEXT"}]
 * of @file (NULL: the default one) and, unless NULL, of the volume at @dir, which is not opened.
 * Returns the exit status: 0, or 1 if a retriever would not start with it.
 */
int config_check(const char *file, const char *dir);

#endif
