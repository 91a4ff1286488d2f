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
	N(give_up_after, 0, 0, UINT_MAX / 1000), /* milliseconds, later */
	N(max_tries, 5, 1, 1000),
	N(throttle, 0, 0, 1 << 30),
#undef N
};
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static const char *const levels[] = { "error", "warn", "info", "debug" };

static int check_numbers(cfg_t *cfg, const char *path, struct config *out)
{
	for (size_t i = 0; i < N_NUMBERS; i++) {
		long x = cfg_getint(cfg, numbers[i].name);

		if (x < numbers[i].min || x > numbers[i].max) {
			fprintf(stderr,
				"postcopy-retriever: %s: %s = %ld: must be between %ld and %ld\n",
				path, numbers[i].name, x, numbers[i].min, numbers[i].max);
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
	fprintf(stderr, "postcopy-retriever: %s: log_level = %s: must be error, warn, info or debug\n",
		path, s);
	return -EINVAL;
}

static void report(cfg_t *cfg, const char *fmt, va_list ap)
{
	fprintf(stderr, "postcopy-retriever: %s line %d: ", cfg->filename ? cfg->filename : "?",
		cfg->line);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

int config_read(const char *path, struct config *out)
{
	const char *file = path ? path : CONFIG_DEFAULT_PATH;
	cfg_opt_t opts[N_NUMBERS + 2];
	cfg_t *cfg;
	int r;

	memset(opts, 0, sizeof(opts));
	for (size_t i = 0; i < N_NUMBERS; i++)
		opts[i] = (cfg_opt_t)CFG_INT(numbers[i].name, numbers[i].def, CFGF_NONE);
	opts[N_NUMBERS] = (cfg_opt_t)CFG_STR("log_level", "info", CFGF_NONE);
	opts[N_NUMBERS + 1] = (cfg_opt_t)CFG_END();
	cfg = cfg_init(opts, CFGF_NONE);
	if (!cfg)
		return -ENOMEM;
	cfg_set_error_function(cfg, report);
	r = path || access(file, F_OK) == 0 ? cfg_parse(cfg, file) : CFG_SUCCESS;
	if (r == CFG_FILE_ERROR) {
		fprintf(stderr, "postcopy-retriever: cannot read %s: %s\n", file, strerror(errno));
		r = -ENOENT;
	} else if (r == CFG_PARSE_ERROR) {
		r = -EINVAL;
	} else {
		r = check_numbers(cfg, file, out);
		if (r == 0)
			r = check_level(cfg, file, out);
	}
	cfg_free(cfg);
	return r;
}
