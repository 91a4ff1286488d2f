/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * guard.c - stubs that are not of this export's volume, if it has one.
 *
 * An export may lie above a volume, another volume may be mounted inside of ours, a
 * snapshot or a copy may have stubs that nobody fills.  Shown as they are, these would be
 * zeros and empty directories (docs/design.md, invariant 1).  So
 *
 *   - a directory that lies in somebody else's volume is refused, with all names in it:
 *     it needs an export of its own;
 *   - elsewhere a directory with a record is refused too, since some of its names are
 *     missing; a file with one is shown, but not read nor written.
 *
 * Where an export has a volume, only objects on another file system are looked at (a volume
 * never spans two).  Where it has none, a directory is looked at once a second, and a file
 * when it is first read or written.
 */
#include "config.h"
#include "fsal.h"
#include "FSAL/fsal_localfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "stub_glue.h"

#define FRESH_MS 1000 /* so long a directory that was all right is not looked at again */
#define TELL_MS	 10000 /* between two lines of the log */

static void tell(struct stubfs_export *x, const char *path, const char *what)
{
	int64_t now = (int64_t)stub_now_ms(), last = atomic_load(&x->told);

	if ((last && now - last < TELL_MS) ||
	    !atomic_compare_exchange_strong(&x->told, &last, now))
		return;
	LogCrit(COMPONENT_FSAL, "Export %d (%s): FSAL STUB: access refused: %s %s",
		op_ctx->ctx_export->export_id, CTX_FULLPATH(op_ctx), path, what);
}

/* An O_PATH descriptor, or -errno; -EINVAL: the object has no handle of its own. */
static int object_open(struct stubfs_obj *o)
{
	struct gsh_buffdesc key = { NULL, 0 };
	struct stub_handle h;
	int fd, mount;

	below(o->below->obj_ops->handle_to_key(o->below, &key));
	if (glue_handle_of_key(&key, &h) < 0)
		return -EINVAL;
	mount = open(o->handle.fs->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount < 0)
		return -errno;
	fd = stub_handle_open_at(mount, &h, O_PATH);
	close(mount);
	return fd;
}

static int directory_look(struct stubfs_export *x, int fd)
{
	char path[PATH_MAX];
	int r = stub_dir_foreign(x->gate.volume, fd, path, sizeof(path));

	if (r <= 0)
		return r;
	tell(x, path, r == STUB_FOREIGN_VOLUME ?
			      "is a volume of postcopy, give it an export of its own" :
			      "is an unfinished directory whose volume is not here");
	return -EACCES;
}

static int look(struct stubfs_export *x, struct stubfs_obj *o)
{
	int r, fd = object_open(o);

	if (fd < 0)
		return fd == -EINVAL ? 0 : fd;
	r = o->handle.type == DIRECTORY ? directory_look(x, fd) : stub_marked(fd) ? -EIO : 0;
	close(fd);
	return r;
}

static fsal_status_t refusal(int r)
{
	return r == -EACCES ? fsalstat(ERR_FSAL_ACCESS, EACCES) : glue_status(r);
}

fsal_status_t stubfs_refuses(struct stubfs_obj *o)
{
	struct stubfs_export *x = stubfs_export();
	int64_t now, fine;
	int r;

	if ((x->gate.volume && o->handle.fs == x->fs) ||
	    (o->handle.type != DIRECTORY && o->handle.type != REGULAR_FILE))
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	fine = atomic_load(&o->fine);
	now = (int64_t)stub_now_ms();
	if (fine && (o->handle.type == REGULAR_FILE || now - fine < FRESH_MS))
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	r = look(x, o);
	if (r == 0)
		atomic_store(&o->fine, now);
	return refusal(r);
}
