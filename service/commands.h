/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * commands.h - a daemon's control socket: one JSON object per line, each way; only root is heard.
 *
 *   {"cmd":"NAME", ...}   answered by {"ok":true, ...} or {"ok":false,"error":"one line"}
 */
#ifndef SERVICE_COMMANDS_H
#define SERVICE_COMMANDS_H

#include <json-c/json.h>

struct commands;

/* What is answered (answer.h); NULL: there is no such command.  On a thread of that client: it may
 * take its time, and all clients are waited for at the end. */
typedef struct json_object *(*commands_fn)(void *arg, const char *name, struct json_object *in);

/* Listens at @path, in the place of whoever did before: the caller is the only one of its kind
 * there.  -ENAMETOOLONG, -errno */
int commands_create(const char *path, commands_fn fn, void *arg, struct commands **out);
void commands_destroy(struct commands *c);

#endif
