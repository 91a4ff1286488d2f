/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * mirror_conf.c - .postcopy/mirror/conf: which mirror a volume has, and what clients wait for.
 */
#include <fcntl.h>
#include <stdio.h>

#include "mirror_conf.h"

#define CONF	 "conf"
#define CONF_MAX (2 * STUB_URI_MAX + 256)
#define KEYS	 3

/* The lines of conf, in their order; then lag=SECONDS, if it is not 0, alone=yes, if it is, smb=..., if there is
 * one, uri=..., and END: what has none was cut off. */
static const struct {
	const char *key;
	const char *words[4]; /* of the numbers from 1 on */
} keys[KEYS] = {
	{ "kind", { NULL, "way-back", "backup" } },
	{ "mode", { NULL, "async", "partly-async", "sync" } },
	{ "gone", { NULL, "continue", "refuse" } },
};
#define END "end"

STUB_PUBLIC const char *stub_mirror_kind_word(enum stub_mirror_kind kind)
{
	return keys[0].words[kind];
}

STUB_PUBLIC const char *stub_mirror_mode_word(enum stub_mirror_mode mode)
{
	return keys[1].words[mode];
}

STUB_PUBLIC const char *stub_mirror_gone_word(enum stub_mirror_gone gone)
{
	return keys[2].words[gone];
}

/* ---- conf ---- */

int stub_mirror_open(int dir_fd)
{
	int fd = openat(dir_fd, STUB_MIRROR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

/* What stands behind "@key=" in *@text, which moves on to the next line; NULL: another line. */
static char *value_of(char **text, const char *key)
{
	size_t n = strlen(key);
	char *line = *text, *end = strchr(line, '\n');

	if (!end || strncmp(line, key, n) || line[n] != '=')
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line + n + 1;
}

static unsigned int word_of(size_t key, const char *word)
{
	for (unsigned int i = 1; word && i < ARRAY_LEN(keys[key].words) && keys[key].words[i]; i++)
		if (!strcmp(word, keys[key].words[i]))
			return i;
	return 0;
}

static bool uri_ok(const char *uri)
{
	size_t n = strnlen(uri, STUB_URI_MAX + 1);

	if (n == 0 || n > STUB_URI_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)uri[i] <= ' ' || uri[i] == 0x7f)
			return false;
	return true;
}

static bool parse_lag(const char *text, uint32_t *out)
{
	unsigned long n;
	char *end;

	*out = 0;
	if (!text)
		return true;
	n = strtoul(text, &end, 10);
	*out = (uint32_t)n;
	return *text >= '1' && *text <= '9' && !*end && n <= STUB_MIRROR_LAG_MAX;
}

static bool parse(char *text, struct stub_mirror_conf *out)
{
	unsigned int n[KEYS];
	char *uri, *alone, *smb;

	for (size_t i = 0; i < KEYS; i++) {
		n[i] = word_of(i, value_of(&text, keys[i].key));
		if (n[i] == 0)
			return false;
	}
	if (!parse_lag(value_of(&text, "lag"), &out->lag_s))
		return false;
	alone = value_of(&text, "alone");
	smb = value_of(&text, "smb");
	uri = value_of(&text, "uri");
	if (!uri || !uri_ok(uri) || strcmp(text, END "\n") || (smb && !uri_ok(smb)) ||
	    (alone && strcmp(alone, "yes")) || ((alone || smb) && n[0] != STUB_MIRROR_BACKUP))
		return false;
	out->alone = alone != NULL;
	out->kind = n[0];
	out->mode = n[1];
	out->gone = n[2];
	strcpy(out->uri, uri);
	strcpy(out->smb, smb ? smb : "");
	return true;
}

int stub_mirror_conf_get(const struct stub_volume *v, struct stub_mirror_conf *out)
{
	int r, dir CLEANUP_CLOSE = -1;
	char text[CONF_MAX + 1];

	memset(out, 0, sizeof(*out));
	dir = stub_mirror_open(v->dir_fd);
	if (dir < 0)
		return dir;
	r = stub_io_read_file(dir, CONF, text, CONF_MAX);
	if (r == -ENOENT || r == -EFBIG ||
	    (r >= 0 && (strlen(text) != (size_t)r || !parse(text, out)))) {
		stub_log(&v->log, STUB_LOG_ERROR, STUB_DIR "/" STUB_MIRROR "/" CONF ": it is damaged");
		return -EBADMSG;
	}
	return r < 0 ? r : 0;
}

int stub_mirror_conf_put(int dir, const struct stub_mirror_conf *c)
{
	const unsigned int n[KEYS] = { c->kind, c->mode, c->gone };
	char text[CONF_MAX + 1];
	int r, at = 0;

	if (!uri_ok(c->uri) || (c->smb[0] && !uri_ok(c->smb)) || c->lag_s > STUB_MIRROR_LAG_MAX ||
	    ((c->alone || c->smb[0]) && c->kind != STUB_MIRROR_BACKUP))
		return -EINVAL;
	for (size_t i = 0; i < KEYS; i++) {
		if (n[i] == 0 || n[i] >= ARRAY_LEN(keys[i].words) || !keys[i].words[n[i]])
			return -EINVAL;
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s=%s\n", keys[i].key,
			       keys[i].words[n[i]]);
	}
	if (c->lag_s)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "lag=%u\n", c->lag_s);
	if (c->alone)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "alone=yes\n");
	if (c->smb[0])
		at += snprintf(text + at, sizeof(text) - (size_t)at, "smb=%s\n", c->smb);
	snprintf(text + at, sizeof(text) - (size_t)at, "uri=%s\n" END "\n", c->uri);
	r = stub_io_write_file(dir, CONF ".new", text);
	if (r == 0 && renameat(dir, CONF ".new", dir, CONF) < 0)
		r = -errno;
	return r == 0 && fsync(dir) < 0 ? -errno : r;
}
