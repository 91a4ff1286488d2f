/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * settings.h - what commands have set, kept for the next start: .postcopy/settings, and
 * .postcopy/limits, which earlier releases do not know.
 */
#ifndef RETRIEVER_SETTINGS_H
#define RETRIEVER_SETTINGS_H

#include "config.h"
#include "source/limiter.h"
#include "stubcore.h"

struct setting {
	bool set; /* by a command: it counts, not what is configured */
	uint32_t value;
};

struct settings {
	bool paused;
	bool throttled; /* throttle was set by a command: it counts, not the configured rate */
	uint64_t throttle; /* bytes per second, 0: no limit */
	struct setting requests, latency_ms; /* struct limiter_rules */
	struct setting connections; /* 1..16 */
};

/* Of the volume whose root is open at @root.  All zero if nothing was ever set.  -EBADMSG: one of the files
 * is not what settings_store() writes, and what the other one says is in *out; other -errno. */
int settings_load(int root, struct settings *out);
int settings_store(const struct stub_volume *v, const struct settings *s);

static inline uint32_t setting_value(const struct setting *s, uint32_t configured)
{
	return s->set ? s->value : configured;
}

static inline struct limiter_rules settings_rules(const struct settings *s, const struct config *c)
{
	return (struct limiter_rules){ setting_value(&s->requests, c->throttle_requests),
				       setting_value(&s->latency_ms, c->throttle_latency), c->background_calls };
}

/* Bytes per second for the crawler, 0: no limit. */
static inline uint64_t settings_rate(const struct settings *s, const struct config *c)
{
	return s->throttled ? s->throttle : (uint64_t)c->throttle * 1024;
}

#endif
