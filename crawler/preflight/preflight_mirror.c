/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight_mirror.c - may postcopy-mirror do over there what it will have to?  Tried with one
 * directory, that is removed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "preflight/preflight.h"
#include "preflight/preflight_mirror.h"
#include "source/target.h"

#define SOMEBODY 1 /* a user that is not root */

int mirror_trial_fail(struct verdict *v, const struct mirror_trial *t, const char *what, int error)
{
	bool denied = error == -EACCES || error == -EPERM || error == -EROFS;

	return verdict_fail(v, denied ? FAIL_DENIED : FAIL_MIRROR, "%s %s: %s: %s%s", t->who, t->uri, what,
			    strerror(-error),
			    denied ? "; export it to this machine alone, read-write and without squashing "
				     "root (rw,no_root_squash)" :
				     "");
}

/* A directory that is made over there, and is seen in the volume, says that they are the same. */
static int check_other(struct verdict *v, const struct mirror_trial *t)
{
	struct stat st;

	if (t->volume_fd < 0 || (fstatat(t->volume_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT))
		return 0;
	return verdict_fail(v, FAIL_MIRROR, "%s %s is the volume itself: name another server", t->who, t->uri);
}

static int give_away(const struct mirror_trial *t, const struct stub_origin *o, struct stub_attr *made)
{
	struct stub_attr attr = { .uid = SOMEBODY, .gid = SOMEBODY };
	int r = target_setattr(t->target, o, TARGET_OWNER, &attr);

	/* a server may say yes, and make it nobody's */
	if (r == 0)
		r = source_getattr(t->target, SOURCE_DEMAND, o, made);
	return r < 0 ? r : made->uid == SOMEBODY && made->gid == SOMEBODY ? 0 : -EPERM;
}

int mirror_trial(struct verdict *v, const struct mirror_trial *t)
{
	struct stub_attr attr = { .mode = S_IFDIR | 0700 }, made;
	struct stub_origin o;
	int again, r, e = 0;

	r = target_make(t->target, t->root, t->name, &attr, NULL, &o, &made);
	if (r < 0)
		return mirror_trial_fail(v, t, "nothing can be made in it", r);
	if (check_other(v, t) < 0)
		e = -1;
	r = e ? 0 : give_away(t, &o, &made);
	if (e == 0 && r == 0 && t->share && share_trial(v, t, &made) < 0)
		e = -1;
	again = target_rmdir(t->target, t->root, t->name);
	if (e == 0 && again == 0 && t->attr) /* as if nothing had been there */
		again = target_setattr(t->target, t->root, TARGET_TIMES, t->attr);
	if (e < 0)
		return -1;
	if (r < 0)
		return mirror_trial_fail(v, t, "nothing can be given to other users in it", r);
	return again < 0 ? mirror_trial_fail(v, t, "nothing can be removed from it", again) : 0;
}
