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
#include "mirror_conf.h"

STUB_PUBLIC void stub_aside_name(const char *uuid, char out[STUB_ASIDE_NAME])
{
	snprintf(out, STUB_ASIDE_NAME, STUB_DIR "-aside-%.36s", uuid);
}

STUB_PUBLIC int stub_mirror_control(const struct stub_volume_info *info, char out[STUB_PATH_MAX + 1])
{
	int n = snprintf(out, STUB_PATH_MAX + 1, "%s.mirror", info->control);

	return n < 0 || n > STUB_PATH_MAX ? -ENAMETOOLONG : 0;
}

STUB_PUBLIC int stub_mirror_conf_read(const struct stub_volume *v, struct stub_mirror_conf *out)
{
	memset(out, 0, sizeof(*out));
	return stub_ledger_is(v) ? stub_mirror_conf_get(v, out) : -ENOENT;
}

static int rewrite(struct stub_volume *v, const struct stub_mirror_conf *c)
{
	int dir CLEANUP_CLOSE = stub_mirror_open(v->dir_fd);

	return dir < 0 ? dir : stub_mirror_conf_put(dir, c);
}

STUB_PUBLIC int stub_mirror_conf_write(struct stub_volume *v, const struct stub_mirror_conf *c)
{
	return stub_ledger_is(v) ? stub_map_rule(v, c, rewrite) : -ENOENT;
}

/* ---- a volume gets one ---- */

/* conf and places, in .postcopy (@dir_fd): the directory, with its name not durable yet. */
static int make_parts(int dir_fd, const struct stub_mirror_conf *c)
{
	int r, dir CLEANUP_CLOSE = -1;

	if (mkdirat(dir_fd, STUB_MIRROR, 0700) < 0)
		return -errno;
	dir = stub_mirror_open(dir_fd);
	r = dir < 0 ? dir : stub_places_make(dir);
	return r < 0 ? r : stub_mirror_conf_put(dir, c);
}

int stub_way_back_parts(int dir_fd, const struct stub_mirror_conf *c, uint64_t ino,
			const struct stub_handle *h, const struct stub_origin *root)
{
	int r = make_parts(dir_fd, c), places CLEANUP_CLOSE = -1;
	bool only_named = false;

	if (r == 0)
		r = stub_only_named(dir_fd, &only_named);
	if (r == 0)
		r = places = stub_places_open(dir_fd);
	if (r >= 0)
		r = stub_places_put(places, stub_slot(only_named, ino), h, root->bytes, root->len);
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
	int dir CLEANUP_CLOSE = stub_ledger_is(v) ? stub_mirror_open(v->dir_fd) : -ENOENT;

	if (dir == -ENOENT) /* nor has it one with a ledger alone */
		return;
	v->places_fd = stub_places_open(v->dir_fd);
	if (v->places_fd < 0)
		stub_log(&v->log, STUB_LOG_ERROR,
			 STUB_DIR "/" STUB_MIRROR "/places: %s: where objects are at the mirror is "
			 "not known", strerror(-v->places_fd));
	v->way_back = stub_mirror_conf_read(v, &c) == 0 && c.kind == STUB_MIRROR_WAY_BACK;
}
