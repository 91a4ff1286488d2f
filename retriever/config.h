/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * config.h - the retriever's settings: /etc/postcopy/postcopy.conf (libconfuse).
 */
#ifndef RETRIEVER_CONFIG_H
#define RETRIEVER_CONFIG_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#include "source/source.h"

#define CONFIG_DEFAULT_PATH "/etc/postcopy/postcopy.conf"

#define CONFIG_TEXT_MAX 1023 /* bytes of a path */
#define CONFIG_KEYS_MAX 48

/* Which file was read; a later look tells whether it has changed. */
struct config_file {
	char path[PATH_MAX];
	bool there;
	uint64_t ino;
	int64_t size;
	struct timespec mtime;
};

struct config {
	unsigned int connections;    /* to the old server, 1..16 */
	unsigned int inflight;	     /* calls per connection, 1..256 */
	unsigned int background_calls; /* of the background on all of them, 0..4096; 0: found by measuring */
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
	unsigned int small_file;     /* bytes, 0..1 MiB, 0 = none */
	unsigned int digests;	     /* 0, 1 */
	unsigned int nfs4_ntacl;     /* 0, 1 */
	unsigned int creation_times; /* 0, 1 */
	unsigned int throttle;	     /* KiB/s for the crawler, 0 = no limit */
	unsigned int throttle_requests; /* of the background per second, 0..1000000, 0 = no limit */
	unsigned int throttle_latency; /* milliseconds, 0..60000, 0 = it is not looked at */
	unsigned int recall_files_per_minute; /* of each client, 0..1000000, 0 = no limit */
	unsigned int recall_burst;   /* files, 1..1000000 */
	enum stub_log_level log_level;
	/* nfs:// sources, see struct source_nfs */
	char nfs_kerberos_keytab[CONFIG_TEXT_MAX + 1], nfs_kerberos_principal[CONFIG_TEXT_MAX + 1],
		nfs_kerberos_cache[CONFIG_TEXT_MAX + 1];
	/* smb:// sources, see struct source_smb */
	unsigned int smb_read_size; /* bytes, 64 KiB..16 MiB */
	unsigned int smb_uid, smb_gid, smb_file_mode, smb_dir_mode;
	unsigned int smb_strict_delete, smb_traverse; /* 0, 1 */
	bool smb_signing, smb_encryption; /* required? */
	char smb_credentials[CONFIG_TEXT_MAX + 1], smb_kerberos_cache[CONFIG_TEXT_MAX + 1],
		smb_kerberos_keytab[CONFIG_TEXT_MAX + 1],
		smb_kerberos_principal[CONFIG_TEXT_MAX + 1],
		smb_idmap[CONFIG_TEXT_MAX + 1], smb_worker[CONFIG_TEXT_MAX + 1];
	unsigned int line[CONFIG_KEYS_MAX]; /* where each is set, see config_each() */
	struct config_file file;
};

struct config_problem {
	const char *file;
	unsigned int line; /* from 1; 0: of the file as a whole */
	const char *key;   /* printable; "": none */
	bool harmless;	   /* everything goes on */
	const char *text;  /* one line, that says what is allowed */
};
typedef void (*config_tell_fn)(void *arg, const struct config_problem *p);

/* Read @path; NULL means CONFIG_DEFAULT_PATH, which may be absent.  All that is wrong is told, to
 * stderr or to @fn.  -ENOENT: it cannot be read, -EINVAL, -ENOMEM */
int config_read(const char *path, struct config *out);
int config_read_telling(const char *path, config_tell_fn fn, void *arg, struct config *out);

/* As an empty file would. */
void config_defaults(struct config *out);

/* Is the file another one now than the one that was read? */
bool config_changed(const struct config *c);

struct config_value {
	const char *key;
	bool is_number;
	long number, def, min, max;	/* of numbers */
	char text[CONFIG_TEXT_MAX + 1]; /* as the file has it, without quotes */
	char def_text[32];
	unsigned int line; /* where it is set; 0: that is the default */
};

/* All keys, in the order of the example file. */
void config_each(const struct config *c, void (*fn)(void *arg, const struct config_value *v),
		 void *arg);

/* What @c says of a source, all but the URI and the log.  Points into @c. */
void config_source(const struct config *c, struct source_config *out);

#endif
