/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * meet.c - two requests at one name.
 *
 * MDCACHE enters a new name into its list of the directory after the FSAL has made it, and
 * holds no lock meanwhile.  What another request does to the name between the two is undone in
 * that list: a name that was removed is shown again, and one that was renamed over stands for
 * the object before (stock Ganesha, too, but our brackets take their time there).  MDCACHE
 * never looks again, since it takes the directory's attributes anew when it has entered the name.
 *
 * So requests of different kinds do not meet at a name: whoever comes second is answered DELAY,
 * before anything is done.  Waiting for the first one would not do, as a RENAME has the
 * directories' content locks, which the first one needs for its entry.  Requests of one kind may
 * meet: of those that make a name all but one find what is there, and RENAMEs exclude each other.
 *
 * Left is the moment between our answer and MDCACHE's entry; and when nothing is left to
 * migrate and there is no mirror, all of it, as it is without us.
 */
#include "config.h"
#include "fsal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "meet.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* nothing is called with it held */
static struct stubfs_meeting *all; /* as many as there are such requests */

static bool same_place(const struct stubfs_meeting *a, const struct stubfs_meeting *b)
{
	const struct fsal_obj_handle *x = &a->dir->handle, *y = &b->dir->handle;

	return x->fileid == y->fileid && x->fsid.major == y->fsid.major &&
	       x->fsid.minor == y->fsid.minor && strcmp(a->name, b->name) == 0;
}

fsal_status_t stubfs_meet(struct stubfs_meeting *m, const struct stubfs_obj *dir, const char *name,
			  enum stubfs_doing doing)
{
	const struct stubfs_meeting *one;

	*m = (struct stubfs_meeting){ .dir = NULL };
	if (!glue_heeds_changes())
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	*m = (struct stubfs_meeting){ .dir = dir, .name = name, .doing = doing };
	pthread_mutex_lock(&lock);
	for (one = all; one; one = one->next)
		if (one->doing != doing && same_place(one, m))
			break;
	if (!one) {
		m->next = all;
		all = m;
	}
	pthread_mutex_unlock(&lock);
	if (!one)
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	m->dir = NULL;
	return glue_status(-EAGAIN);
}

void stubfs_part(struct stubfs_meeting *m)
{
	struct stubfs_meeting **at;

	if (!m->dir)
		return;
	pthread_mutex_lock(&lock);
	for (at = &all; *at != m; at = &(*at)->next)
		;
	*at = m->next;
	pthread_mutex_unlock(&lock);
	m->dir = NULL;
}
