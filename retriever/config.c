/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <confuse.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static const struct {
	const char *name;
	size_t offset;
	long def, min, max;
} numbers[] = {
#define N(name, def, min, max) { #name, offsetof(struct config, name), def, min, max }
	N(connections, 4, 1, 16),
	N(inflight, 32, 1, 256),
	N(read_size, 1 << 20, 4096, 1 << 20),
	N(readdir_size, 128 << 10, 8 << 10, 256 << 10),
	N(block_size, 10 << 20, 64 << 10, 256 << 20),
	N(buffer, 48 << 20, 4 << 20, 1 << 30),
	N(demand_workers, 32, 1, 256),
	N(fill_workers, 32, 1, 256),
	N(call_timeout, 15000, 1000, 600000),
	N(give_up_after, 0, 0, UINT_MAX / 1000), /* so that milliseconds fit, too */
	N(max_tries, 5, 1, 1000),
	N(finish_delay, 60, 0, 86400),
	N(throttle, 0, 0, 1 << 30),
	N(recall_files_per_minute, 0, 0, 1000000),
	N(recall_burst, 100, 1, 1000000),
	N(smb_read_size, 4 << 20, 64 << 10, 16 << 20),
	N(smb_uid, 0, 0, UINT_MAX - 1),
	N(smb_gid, 0, 0, UINT_MAX - 1),
	N(smb_file_mode, 0600, 0, 07777),
	N(smb_dir_mode, 0700, 0, 07777),
	N(smb_strict_delete, 0, 0, 1),
	N(smb_traverse, 0, 0, 1),
#undef N
};
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static const struct {
	const char *name;
	size_t offset;
} texts[] = {
#define T(name) { #name, offsetof(struct config, name) }
	T(smb_credentials),
	T(smb_kerberos_cache),
	T(smb_kerberos_keytab),
	T(smb_kerberos_principal),
	T(smb_idmap),
	T(smb_worker),
#undef T
};
#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

/* Protections of the SMB connection: used if the server can, or required. */
static const struct {
	const char *name, *def;
	size_t offset;
} demands[] = {
	{ "smb_signing", "required", offsetof(struct config, smb_sign) },
	{ "smb_encryption", "desired", offsetof(struct config, smb_encrypt) },
};
#define N_DEMANDS (sizeof(demands) / sizeof(demands[0]))

static const char *const levels[] = { "error", "warn", "info", "debug" };

static int check_numbers(cfg_t *cfg, const char *path, struct config *out)
{
	for (size_t i = 0; i < N_NUMBERS; i++) {
		long x = cfg_getint(cfg, numbers[i].name);

		if (x < numbers[i].min || x > numbers[i].max) {
			fprintf(stderr,
				"%s: %s: %s = %ld: must be between %ld and %ld\n",
				program_invocation_short_name, path, numbers[i].name, x, numbers[i].min, numbers[i].max);
			return -EINVAL;
		}
		*(unsigned int *)((char *)out + numbers[i].offset) = (unsigned int)x;
	}
	return 0;
}

static int check_level(cfg_t *cfg, const char *path, struct config *out)
{
	const char *s = cfg_getstr(cfg, "log_level");

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (!strcmp(s, levels[i])) {
			out->log_level = (enum stub_log_level)i;
			return 0;
		}
	}
	fprintf(stderr, "%s: %s: log_level = %s: must be error, warn, info or debug\n",
		program_invocation_short_name, path, s);
	return -EINVAL;
}

static int check_texts(cfg_t *cfg, const char *path, struct config *out)
{
	for (size_t i = 0; i < N_TEXTS; i++) {
		const char *s = cfg_getstr(cfg, texts[i].name);

		if (strlen(s) > CONFIG_TEXT_MAX) {
			fprintf(stderr, "%s: %s: %s is too long\n", program_invocation_short_name,
				path, texts[i].name);
			return -EINVAL;
		}
		strcpy((char *)out + texts[i].offset, s);
	}
	for (size_t i = 0; i < N_DEMANDS; i++) {
		const char *s = cfg_getstr(cfg, demands[i].name);
		bool required = !strcmp(s, "required");

		if (!required && strcmp(s, "desired")) {
			fprintf(stderr, "%s: %s: %s = %s: must be required or desired\n",
				program_invocation_short_name, path, demands[i].name, s);
			return -EINVAL;
		}
		*(bool *)((char *)out + demands[i].offset) = required;
	}
	return 0;
}

static void report(cfg_t *cfg, const char *fmt, va_list ap)
{
	fprintf(stderr, "%s: %s line %d: ", program_invocation_short_name,
		cfg->filename ? cfg->filename : "?", cfg->line);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

int config_read(const char *path, struct config *out)
{
	const char *file = path ? path : CONFIG_DEFAULT_PATH;
	cfg_opt_t opts[N_NUMBERS + N_TEXTS + N_DEMANDS + 2], *o = opts;
	cfg_t *cfg;
	int r;

	memset(opts, 0, sizeof(opts));
	for (size_t i = 0; i < N_NUMBERS; i++)
		*o++ = (cfg_opt_t)CFG_INT(numbers[i].name, numbers[i].def, CFGF_NONE);
	for (size_t i = 0; i < N_TEXTS; i++)
		*o++ = (cfg_opt_t)CFG_STR(texts[i].name, "", CFGF_NONE);
	for (size_t i = 0; i < N_DEMANDS; i++)
		*o++ = (cfg_opt_t)CFG_STR(demands[i].name, demands[i].def, CFGF_NONE);
	*o++ = (cfg_opt_t)CFG_STR("log_level", "info", CFGF_NONE);
	*o = (cfg_opt_t)CFG_END();
	cfg = cfg_init(opts, CFGF_NONE);
	if (!cfg)
		return -ENOMEM;
	cfg_set_error_function(cfg, report);
	r = path || access(file, F_OK) == 0 ? cfg_parse(cfg, file) : CFG_SUCCESS;
	if (r == CFG_FILE_ERROR) {
		fprintf(stderr, "%s: cannot read %s: %s\n", program_invocation_short_name, file, strerror(errno));
		r = -ENOENT;
	} else if (r == CFG_PARSE_ERROR) {
		r = -EINVAL;
	} else {
		r = check_numbers(cfg, file, out);
		if (r == 0)
			r = check_level(cfg, file, out);
		if (r == 0)
			r = check_texts(cfg, file, out);
	}
	cfg_free(cfg);
	return r;
}

void config_source(const struct config *c, struct source_config *out)
{
	*out = (struct source_config){
		.connections = c->connections,
		.readdir_bytes = c->readdir_size,
		.read_bytes = c->read_size,
		.call_timeout_ms = c->call_timeout,
		.jukebox_ms = 500, /* then others have their turn, see job_held.c */
		.give_up_ms = c->give_up_after * 1000,
		.inflight = c->inflight,
		.smb = {
			.worker = c->smb_worker[0] ? c->smb_worker : NULL,
			.credentials = c->smb_credentials,
			.kerberos_cache = c->smb_kerberos_cache,
			.kerberos_keytab = c->smb_kerberos_keytab,
			.kerberos_principal = c->smb_kerberos_principal,
			.sign = c->smb_sign,
			.encrypt = c->smb_encrypt,
			/* the memory for clients' reads must hold one at least */
			.read_bytes = c->smb_read_size < c->buffer / 3 ? c->smb_read_size :
									 c->buffer / 3,
			.uid = c->smb_uid,
			.gid = c->smb_gid,
			.file_mode = c->smb_file_mode,
			.dir_mode = c->smb_dir_mode,
			.idmap = c->smb_idmap,
			.strict_delete = c->smb_strict_delete,
			.traverse = c->smb_traverse,
		},
	};
}
