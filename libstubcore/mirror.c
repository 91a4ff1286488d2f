/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * mirror.c - a volume gets a mirror, and loses it: .postcopy/mirror/ (docs/decisions/0092).
 *
 * Order of making: conf, places, the ledger, and with it the version of `state`, which alone says
 * that there is a mirror.  Whatever a crash leaves before is removed by the next try.  It is taken
 * away in the other order.
 */
#include <fcntl.h>
#include <stdio.h>

#include "ledger.h"

#define CONF	 "conf"
#define CONF_MAX (STUB_URI_MAX + 256)
#define KEYS	 3

/* The lines of conf, in their order; then uri=..., then END: what has none was cut off. */
static const struct {
	const char *key;
	const char *words[4]; /* of the numbers from 1 on */
} keys[KEYS] = {
	{ "kind", { NULL, "way-back", "backup" } },
	{ "mode", { NULL, "async", "partly-async", "sync" } },
	{ "gone", { NULL, "continue", "refuse" } },
};
#define END "end"

STUB_PUBLIC void stub_aside_name(const char *uuid, char out[STUB_ASIDE_NAME])
{
	snprintf(out, STUB_ASIDE_NAME, STUB_DIR "-aside-%.36s", uuid);
}

STUB_PUBLIC int stub_mirror_control(const struct stub_volume_info *info, char out[STUB_PATH_MAX + 1])
{
	int n = snprintf(out, STUB_PATH_MAX + 1, "%s.mirror", info->control);

	return n < 0 || n > STUB_PATH_MAX ? -ENAMETOOLONG : 0;
}

STUB_PUBLIC const char *stub_mirror_kind_word(enum stub_mirror_kind kind)
{
	return keys[0].words[kind];
}

STUB_PUBLIC const char *stub_mirror_mode_word(enum stub_mirror_mode mode)
{
	return keys[1].words[mode];
}

/* ---- conf ---- */

static int open_mirror(int dir_fd)
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

static bool parse(char *text, struct stub_mirror_conf *out)
{
	unsigned int n[KEYS];
	char *uri;

	for (size_t i = 0; i < KEYS; i++) {
		n[i] = word_of(i, value_of(&text, keys[i].key));
		if (n[i] == 0)
			return false;
	}
	uri = value_of(&text, "uri");
	if (!uri || !uri_ok(uri) || strcmp(text, END "\n"))
		return false;
	out->kind = n[0];
	out->mode = n[1];
	out->gone = n[2];
	strcpy(out->uri, uri);
	return true;
}

STUB_PUBLIC int stub_mirror_conf_read(const struct stub_volume *v, struct stub_mirror_conf *out)
{
	int r, dir CLEANUP_CLOSE = -1;
	char text[CONF_MAX + 1];

	memset(out, 0, sizeof(*out));
	if (!stub_ledger_is(v))
		return -ENOENT;
	dir = open_mirror(v->dir_fd);
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

static int conf_write(int dir, const struct stub_mirror_conf *c)
{
	const unsigned int n[KEYS] = { c->kind, c->mode, c->gone };
	char text[CONF_MAX + 1];
	int r, at = 0;

	if (!uri_ok(c->uri))
		return -EINVAL;
	for (size_t i = 0; i < KEYS; i++) {
		if (n[i] == 0 || n[i] >= ARRAY_LEN(keys[i].words) || !keys[i].words[n[i]])
			return -EINVAL;
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s=%s\n", keys[i].key,
			       keys[i].words[n[i]]);
	}
	snprintf(text + at, sizeof(text) - (size_t)at, "uri=%s\n" END "\n", c->uri);
	r = stub_io_write_file(dir, CONF ".new", text);
	if (r == 0 && renameat(dir, CONF ".new", dir, CONF) < 0)
		r = -errno;
	return r == 0 && fsync(dir) < 0 ? -errno : r;
}

STUB_PUBLIC int stub_mirror_conf_write(struct stub_volume *v, const struct stub_mirror_conf *c)
{
	int dir CLEANUP_CLOSE = -1;

	if (!stub_ledger_is(v))
		return -ENOENT;
	dir = open_mirror(v->dir_fd);
	return dir < 0 ? dir : conf_write(dir, c);
}

/* ---- a volume gets one ---- */

/* conf and places, in .postcopy (@dir_fd): the directory, with its name not durable yet. */
static int make_parts(int dir_fd, const struct stub_mirror_conf *c)
{
	int r, dir CLEANUP_CLOSE = -1;

	if (mkdirat(dir_fd, STUB_MIRROR, 0700) < 0)
		return -errno;
	dir = open_mirror(dir_fd);
	r = dir < 0 ? dir : stub_places_make(dir);
	return r < 0 ? r : conf_write(dir, c);
}

int stub_way_back_parts(int dir_fd, const struct stub_mirror_conf *c, uint64_t ino,
			const struct stub_handle *h, const struct stub_origin *root)
{
	int r = make_parts(dir_fd, c), places CLEANUP_CLOSE = -1;

	if (r == 0)
		r = places = stub_places_open(dir_fd);
	if (r >= 0)
		r = stub_places_put(places, ino, h, root->bytes, root->len);
	if (r == 0 && fsync(places) < 0)
		r = -errno;
	return r < 0 ? r : stub_ledger_parts(dir_fd, false, true);
}

/* The root was made before there were places. */
static int note_root(struct stub_volume *v)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;
	int r = rec ? stub_record_load(v, v->fd, &v->root, &st, rec) : -ENOMEM;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = stub_place_put(v, st.st_ino, &v->root, rec->origin.bytes, rec->origin.len);
	return r < 0 ? r : stub_place_sync(v);
}

STUB_PUBLIC int stub_mirror_create(struct stub_volume *v, const struct stub_mirror_conf *c, bool all)
{
	int r;

	if (stub_ledger_is(v))
		return -EEXIST;
	r = stub_volume_alone(v);
	if (r == 0)
		r = stub_remove_tree(v->dir_fd, STUB_MIRROR); /* of one that was made half */
	if (r < 0)
		return r;
	stub_cleanup_close(&v->places_fd); /* of a try that failed */
	r = make_parts(v->dir_fd, c);
	if (r == 0)
		r = v->places_fd = stub_places_open(v->dir_fd);
	if (r >= 0 && c->kind == STUB_MIRROR_WAY_BACK)
		r = note_root(v);
	/* which syncs the directory above too */
	return r < 0 ? r : stub_ledger_begin_with(v, all, c->kind == STUB_MIRROR_WAY_BACK);
}

STUB_PUBLIC int stub_mirror_remove(struct stub_volume *v)
{
	int r = stub_ledger_end(v);

	return r < 0 ? r : stub_remove_tree(v->dir_fd, STUB_MIRROR);
}

/* ---- who opens the volume ---- */

void stub_mirror_learn(struct stub_volume *v)
{
	struct stub_mirror_conf c;
	int dir CLEANUP_CLOSE = stub_ledger_is(v) ? open_mirror(v->dir_fd) : -ENOENT;

	if (dir == -ENOENT) /* nor has it one with a ledger alone */
		return;
	v->places_fd = stub_places_open(v->dir_fd);
	if (v->places_fd < 0)
		stub_log(&v->log, STUB_LOG_ERROR,
			 STUB_DIR "/" STUB_MIRROR "/places: %s: where objects are at the mirror is "
			 "not known", strerror(-v->places_fd));
	v->way_back = stub_mirror_conf_read(v, &c) == 0 && c.kind == STUB_MIRROR_WAY_BACK;
}
