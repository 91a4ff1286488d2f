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
 * A request that has come meanwhile, and gets here after the first one has parted, may have taken the content
 * locks before: it looks the names up under them, which takes its time where something must be fetched, and
 * the first one enters its name behind it.  So it is answered DELAY, too, if it began before that one parted; RENAME
 * itself enters all before it gives its locks back.
 *
 * Left is who begins in the moment between our answer and MDCACHE's entry; and when nothing is left to
 * migrate and there is no mirror, all of it, as it is without us.
 */
#include "config.h"
#include "fsal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "bytes.h"
#include "meet.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* nothing is called with it held */
static struct stubfs_meeting *all; /* as many as there are such requests */

/* Who was at a name last, and may not have entered it yet. */
#define PARTED_PLACES 1024
#define PARTED_MS     60000 /* no request takes so long; and a clock that is set back holds nobody up for longer */

static struct parted {
	uint64_t place; /* hash of directory and name; 0: free */
	enum stubfs_doing doing;
	pthread_t thread;
	struct timespec at; /* of the clock by which requests say when they began */
	uint64_t at_ms;
} parted[PARTED_PLACES];

static uint64_t place_of(const struct stubfs_meeting *m)
{
	const struct fsal_obj_handle *h = &m->dir->handle;
	uint64_t sum = stub_fnv(STUB_FNV, &h->fileid, sizeof(h->fileid));

	sum = stub_fnv(sum, &h->fsid, sizeof(h->fsid));
	return stub_fnv(sum, m->name, strlen(m->name)) | 1;
}

/* With the lock.  Has this request begun before another one parted from the name? */
static bool overlaps(const struct stubfs_meeting *m)
{
	uint64_t place = place_of(m);
	const struct parted *p = &parted[place / 2 % PARTED_PLACES];
	const struct timespec *begun = &op_ctx->start_time;

	if (p->place != place || p->doing == m->doing || pthread_equal(p->thread, pthread_self()) || !begun->tv_sec ||
	    stub_now_ms() - p->at_ms > PARTED_MS)
		return false;
	return begun->tv_sec < p->at.tv_sec || (begun->tv_sec == p->at.tv_sec && begun->tv_nsec < p->at.tv_nsec);
}

/* With the lock. */
static void note_parting(const struct stubfs_meeting *m)
{
	uint64_t place = place_of(m);
	struct parted *p = &parted[place / 2 % PARTED_PLACES];

	if (m->doing == NAME_MOVES) {
		if (p->place == place)
			p->place = 0;
		return;
	}
	*p = (struct parted){ .place = place, .doing = m->doing, .thread = pthread_self(), .at_ms = stub_now_ms() };
	clock_gettime(CLOCK_REALTIME, &p->at);
}

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
	bool late;

	*m = (struct stubfs_meeting){ .dir = NULL };
	if (!glue_heeds_changes())
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	*m = (struct stubfs_meeting){ .dir = dir, .name = name, .doing = doing };
	pthread_mutex_lock(&lock);
	for (one = all; one; one = one->next)
		if (one->doing != doing && same_place(one, m))
			break;
	late = !one && overlaps(m);
	if (!one && !late) {
		m->next = all;
		all = m;
	}
	pthread_mutex_unlock(&lock);
	if (!one && !late)
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
	note_parting(m);
	pthread_mutex_unlock(&lock);
	m->dir = NULL;
}
