/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nodes.c - see nodes.h.
 *
 *   disk "/srv/data" {
 *       device = "/dev/disk/by-id/..."
 *       lease = "/dev/disk/by-id/..."
 *       nodes = { "nas1", "nas2" }
 *       options = "noatime"
 *   }
 */
#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "nodes.h"

#define FILE_MAX_BYTES (64 << 10)

static int __attribute__((format(printf, 3, 4)))
bad(struct nodes_problem *why, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
	va_end(ap);
	return error;
}

/* What libconfuse says of the file, the first time; it gives no other place to put it. */
static _Thread_local char heard[256];

static void hear(cfg_t *cfg, const char *fmt, va_list ap)
{
	char said[128];

	if (heard[0])
		return;
	vsnprintf(said, sizeof(said), fmt, ap);
	stub_printable(said, strlen(said), heard, sizeof(heard));
}

static int read_file(const char *path, char **out)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t n;

	if (!f)
		return -errno;
	text = malloc(FILE_MAX_BYTES + 1);
	n = text ? fread(text, 1, FILE_MAX_BYTES, f) : 0;
	if (!text || ferror(f) || !feof(f) || memchr(text, 0, n)) {
		fclose(f);
		free(text);
		return !text ? -ENOMEM : -EINVAL;
	}
	fclose(f);
	text[n] = '\0';
	*out = text;
	return 0;
}

static size_t without_slashes(const char *dir)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	return n;
}

static int take_path(cfg_t *sec, const char *key, char out[PATH_MAX], struct nodes_problem *why)
{
	const char *s = cfg_getstr(sec, key);

	if (!s)
		return bad(why, -EINVAL, "disk %s: %s is missing", cfg_title(sec), key);
	if (s[0] != '/' || strlen(s) >= PATH_MAX || strpbrk(s, "\n"))
		return bad(why, -EINVAL, "disk %s: %s must be a path that begins with /", cfg_title(sec), key);
	strcpy(out, s);
	return 0;
}

static bool name_is_good(const char *s)
{
	return s[0] && s[0] != '-' && strlen(s) <= STUB_NODE_MAX &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == strlen(s);
}

static int take_names(cfg_t *sec, struct nodes *out, struct nodes_problem *why)
{
	unsigned int n = cfg_size(sec, "nodes");
	struct utsname me;

	if (n < 2 || n > NODES_MAX)
		return bad(why, -EINVAL, "disk %s: nodes wants the host names of all that can have it, 2 to %d",
			   cfg_title(sec), NODES_MAX);
	if (uname(&me) < 0)
		return bad(why, -errno, "uname: %s", strerror(errno));
	for (unsigned int i = 0; i < n; i++) {
		const char *s = cfg_getnstr(sec, "nodes", i);

		if (!name_is_good(s))
			return bad(why, -EINVAL, "disk %s: node %u has a name that no host has", cfg_title(sec), i + 1);
		for (unsigned int k = 0; k < i; k++)
			if (!strcmp(out->name[k], s))
				return bad(why, -EINVAL, "disk %s: %s is there twice", cfg_title(sec), s);
		strcpy(out->name[i], s);
		if (!strcmp(s, me.nodename))
			out->here = i + 1;
	}
	out->n = n;
	return 0;
}

static int take_disk(cfg_t *sec, struct nodes *out, struct nodes_problem *why)
{
	const char *title = cfg_title(sec), *options = cfg_getstr(sec, "options");
	int r;

	memset(out, 0, sizeof(*out));
	if (title[0] != '/' || !title[1] || strlen(title) >= PATH_MAX)
		return bad(why, -EINVAL, "disk \"%.64s\": want its mount point, from / on", title);
	strcpy(out->mount, title);
	out->mount[without_slashes(title)] = '\0';
	if (!out->mount[1])
		return bad(why, -EINVAL, "disk \"%.64s\": the root of all is no disk that moves", title);
	r = take_path(sec, "device", out->device, why);
	if (r == 0)
		r = take_path(sec, "lease", out->lease, why);
	if (r == 0 && !strcmp(out->device, out->lease))
		r = bad(why, -EINVAL, "disk %s: the lease wants a device of its own, 2 MiB or more", title);
	if (r == 0 && options && (strlen(options) >= sizeof(out->options) || options[0] == '-'))
		r = bad(why, -EINVAL, "disk %s: options are those of mount -o, at most %zu bytes", title,
			sizeof(out->options) - 1);
	if (r < 0)
		return r;
	strcpy(out->options, options ? options : "");
	return take_names(sec, out, why);
}

/* The directory itself, too. */
static bool is_below(const char *dir, const char *mount)
{
	size_t n = strlen(mount);

	return !strncmp(dir, mount, n) && (!dir[n] || dir[n] == '/');
}

static int take_all(cfg_t *cfg, const char *path, const char *dir, struct nodes *out, struct nodes_problem *why)
{
	struct nodes *one = malloc(sizeof(*one));
	bool found = false;
	int r = one ? 0 : bad(why, -ENOMEM, "%s", strerror(ENOMEM));

	for (unsigned int i = 0; r == 0 && i < cfg_size(cfg, "disk"); i++) {
		r = take_disk(cfg_getnsec(cfg, "disk", i), one, why);
		if (r == 0 && is_below(dir, one->mount) && (!found || strlen(one->mount) > strlen(out->mount))) {
			*out = *one;
			found = true;
		}
	}
	free(one);
	if (r < 0)
		return r;
	return found ? 0 : bad(why, -ENOENT, "%s: no disk in it that is mounted at %s or above", path, dir);
}

int nodes_read(const char *path, const char *dir, struct nodes *out, struct nodes_problem *why)
{
	cfg_opt_t disk[] = {
		CFG_STR("device", NULL, CFGF_NODEFAULT),
		CFG_STR("lease", NULL, CFGF_NODEFAULT),
		CFG_STR("options", NULL, CFGF_NODEFAULT),
		CFG_STR_LIST("nodes", NULL, CFGF_NODEFAULT),
		CFG_END(),
	};
	cfg_opt_t opts[] = {
		CFG_SEC("disk", disk, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
		CFG_END(),
	};
	char *text = NULL;
	cfg_t *cfg;
	int r;

	if (!path)
		path = NODES_DEFAULT_PATH;
	r = read_file(path, &text);
	if (r < 0)
		return bad(why, r, "%s: %s", path,
			   r == -ENOENT ? "no such file: it says which nodes can reach the disk (postcopy-active(8))" :
			   r == -EINVAL ? "no text of at most 64 KiB" : strerror(-r));
	heard[0] = '\0';
	cfg = cfg_init(opts, CFGF_NONE);
	if (!cfg) {
		free(text);
		return bad(why, -ENOMEM, "%s", strerror(ENOMEM));
	}
	cfg_set_error_function(cfg, hear);
	r = cfg_parse_buf(cfg, text) == CFG_SUCCESS ? take_all(cfg, path, dir, out, why) :
						      bad(why, -EINVAL, "%s: %s", path, heard);
	cfg_free(cfg);
	free(text);
	return r;
}
