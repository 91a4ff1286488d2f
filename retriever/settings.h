/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * settings.h - what was said by command and outlives the retriever: .postcopy/settings.
 */
#ifndef RETRIEVER_SETTINGS_H
#define RETRIEVER_SETTINGS_H

#include "stubcore.h"

struct settings {
	bool paused;
	bool throttled; /* a rate was said: it counts, not the configured one */
	uint64_t throttle; /* bytes per second, 0: no limit */
};

/* Nothing was said: all zero.  -EBADMSG: not what settings_store() writes; other -errno. */
int settings_load(const struct stub_volume *v, struct settings *out);
int settings_store(const struct stub_volume *v, const struct settings *s);

#endif
