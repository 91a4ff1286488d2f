/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * config.h - the retriever's settings: /etc/postcopy/postcopy.conf (libconfuse).
 */
#ifndef RETRIEVER_CONFIG_H
#define RETRIEVER_CONFIG_H

#include <stdint.h>

#include "source/source.h"

#define CONFIG_DEFAULT_PATH "/etc/postcopy/postcopy.conf"

#define CONFIG_TEXT_MAX 1023 /* bytes of a path */

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
	unsigned int finish_delay;   /* seconds after a client's last ask, 0..86400 */
	unsigned int throttle;	     /* KiB/s for the crawler, 0 = no limit */
	unsigned int recall_files_per_minute; /* of each client, 0..1000000, 0 = no limit */
	unsigned int recall_burst;   /* files, 1..1000000 */
	enum stub_log_level log_level;
	/* smb:// sources, see struct source_smb */
	unsigned int smb_read_size; /* bytes, 64 KiB..16 MiB */
	unsigned int smb_uid, smb_gid, smb_file_mode, smb_dir_mode;
	unsigned int smb_strict_delete, smb_traverse; /* 0, 1 */
	bool smb_sign, smb_encrypt;
	char smb_credentials[CONFIG_TEXT_MAX + 1], smb_kerberos_cache[CONFIG_TEXT_MAX + 1],
		smb_kerberos_keytab[CONFIG_TEXT_MAX + 1],
		smb_kerberos_principal[CONFIG_TEXT_MAX + 1],
		smb_idmap[CONFIG_TEXT_MAX + 1], smb_worker[CONFIG_TEXT_MAX + 1];
};

/* Read @path; NULL means CONFIG_DEFAULT_PATH, which may be absent.  Messages go to
 * stderr.  -ENOENT, -EINVAL */
int config_read(const char *path, struct config *out);

/* What @c says of a source, all but the URI and the log.  Points into @c. */
void config_source(const struct config *c, struct source_config *out);

#endif
