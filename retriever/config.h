/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * config.h - the retriever's settings: /etc/postcopy/postcopy.conf (libconfuse).
 */
#ifndef RETRIEVER_CONFIG_H
#define RETRIEVER_CONFIG_H

#include <stdint.h>

#include "stubcore.h"

#define CONFIG_DEFAULT_PATH "/etc/postcopy/postcopy.conf"

struct config {
	unsigned int connections;    /* to the old server, 1..16 */
	unsigned int inflight;	     /* calls per connection, 1..256 */
	unsigned int read_size;	     /* bytes, 4 KiB..1 MiB */
	unsigned int readdir_size;   /* bytes, 8 KiB..256 KiB */
	unsigned int block_size;     /* bytes, 64 KiB..256 MiB */
	unsigned int buffer;	     /* bytes, 4 MiB..1 GiB */
	unsigned int demand_workers; /* 1..256 */
	unsigned int fill_workers;   /* 1..256 */
	unsigned int call_timeout;   /* milliseconds, 1000..600000 */
	unsigned int give_up_after;  /* seconds, 0..4294967; 0 = never */
	unsigned int max_tries;	     /* 1..1000 */
	unsigned int throttle;	     /* KiB/s for the crawler, 0 = no limit */
	enum stub_log_level log_level;
};

/* Read @path; NULL means CONFIG_DEFAULT_PATH, which may be absent.  Messages go to
 * stderr.  -ENOENT, -EINVAL */
int config_read(const char *path, struct config *out);

#endif
