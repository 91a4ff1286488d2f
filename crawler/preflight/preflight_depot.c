/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preflight_depot.c - where alternate data streams go, made beside the volume. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "depot/depot.h"
#include "preflight/preflight.h"

/* The real path of @dir, or if it does not exist yet, of the directory in which it will be. */
static int real_place(const char *dir, char out[PATH_MAX])
{
	char above[STUB_DEPOT_MAX + 1];
	char *slash;

	if (realpath(dir, out))
		return 0;
	if (errno != ENOENT)
		return -errno;
	snprintf(above, sizeof(above), "%s", dir);
	slash = strrchr(above, '/');
	slash[slash == above] = '\0'; /* of "/x": "/" */
	return realpath(above, out) ? 0 : -errno;
}

static bool is_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

int preflight_depot(struct verdict *v, const struct target *t, const char *depot,
		    struct stub_volume_info *info)
{
	char place[PATH_MAX];
	int r;

	if (!depot)
		return 0;
	r = real_place(depot, place);
	if (r < 0)
		return verdict_fail(v, FAIL_TARGET, "--streams %s: %s", depot, strerror(-r));
	/* clients of NFS would see the streams as files */
	if (is_in(place, t->path) || is_in(t->path, depot))
		return verdict_fail(v, FAIL_TARGET,
				    "--streams %s: it must lie beside the volume, not in it, and not "
				    "hold it",
				    depot);
	snprintf(info->depot, sizeof(info->depot), "%s", depot);
	r = depot_fsname(t->fd, &info->depot_id);
	if (r < 0)
		return verdict_fail(v, FAIL_TARGET, r == -ENOENT ?
				    "--streams %s: the volume's file system is not mounted by itself, so "
				    "that smbd has no lasting name for it" :
				    "--streams %s: cannot read /etc/mtab",
				    depot);
	r = depot_make(depot);
	if (r < 0)
		return verdict_fail(v, r == -ENOSPC || r == -EDQUOT ? FAIL_TARGET_FULL : FAIL_TARGET,
				    "--streams %s: cannot make its directories: %s", depot,
				    strerror(-r));
	return 0;
}
