/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * settings.h - what commands have set, kept for the next start: .postcopy/settings.
 */
#ifndef RETRIEVER_SETTINGS_H
#define RETRIEVER_SETTINGS_H

#include "stubcore.h"

struct settings {
	bool paused;
	bool throttled; /* throttle was set by a command: it counts, not the configured rate */
	uint64_t throttle; /* bytes per second, 0: no limit */
};

/* Of the volume whose root is open at @root.  All zero if nothing was ever set.  -EBADMSG: not
 * what settings_store() writes; other -errno. */
int settings_load(int root, struct settings *out);
int settings_store(const struct stub_volume *v, const struct settings *s);

#endif
