/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * door.h - the part of a plugin that every version of its server can load.
 *
 * A plugin fits the server that it was built for.  After an update of the server the dynamic
 * linker refuses it, in words that name a library or a symbol: nothing of ours could say more.
 * So what the server loads is a door, which needs nothing of the server; it loads the plugin
 * proper, which lies beside it, and says what to install if that cannot be.
 *
 * It is a library of its own, without libstubcore.
 */
#ifndef STUBDOOR_H
#define STUBDOOR_H

#include <stdbool.h>
#include <stddef.h>

struct stub_door {
	const char *plugin; /* as the server's configuration has it */
	const char *file; /* of the plugin proper */
	const char *server, *version; /* that it was built for */
	const char *package; /* of the plugin */
	/* Into the server's log, if it can be found; it may be another server's.  False: it
	 * could not be. */
	bool (*log)(const char *line);
};

#define STUB_DOOR_LINE 1024

/* Load the plugin proper; NULL: stub_door_refused() has been called. */
void *stub_door_open(const struct stub_door *d, int flags);
/* Say, in the server's log, the system's and on stderr, that it was refused, and what to do. */
void stub_door_refused(const struct stub_door *d, const char *why);

#endif
