/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * enter.c - who has the volume open: servers, daemons and tools; the crawlers among them.
 *
 * Locks on bytes of .postcopy/lock, which end with their holder.
 */
#include <fcntl.h>

#include "lagging.h"
#include "volume.h"

/* Bytes of .postcopy/lock */
#define OPEN_LOCK  INT64_MAX	   /* shared by all that have it open */
#define ENTER_LOCK (INT64_MAX - 1) /* held while one looks whether there is anybody */
#define CRAWL_LOCK (INT64_MAX - 2) /* shared by the crawlers */
/* INT64_MAX - 3 is home.c's */

static int lock_byte(const struct stub_volume *v, off_t byte, int cmd, short type)
{
	struct flock f = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = byte,
		.l_len = 1,
	};

	while (fcntl(v->lock_fd, cmd, &f) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* One process at a time (ENTER_LOCK), so that who finds OPEN_LOCK taken knows that its holder
 * has begun a new era, and did not die before that. */
int stub_volume_enter(struct stub_volume *v)
{
	uint32_t era;
	int r = lock_byte(v, ENTER_LOCK, F_OFD_SETLKW, F_WRLCK);

	if (r < 0)
		return r;
	if (lock_byte(v, OPEN_LOCK, F_OFD_SETLK, F_WRLCK) == 0) {
		stub_lagging_adopt(v, true); /* before the era ends in which it was written */
		r = stub_era_draw(v, &era);
	}
	if (r == 0) { /* only stub_volume_alone() can be in the way: other openers wait above */
		r = lock_byte(v, OPEN_LOCK, F_OFD_SETLK, F_RDLCK);
		if (r == -EAGAIN || r == -EACCES)
			r = -EBUSY;
	}
	(void)lock_byte(v, ENTER_LOCK, F_OFD_SETLK, F_UNLCK);
	return r;
}

STUB_PUBLIC int stub_volume_alone(struct stub_volume *v)
{
	uint32_t era;
	int r = lock_byte(v, ENTER_LOCK, F_OFD_SETLKW, F_WRLCK);

	if (r < 0)
		return r;
	r = lock_byte(v, OPEN_LOCK, F_OFD_SETLK, F_WRLCK);
	if (r == 0) { /* a process that had it open beside us may have died since */
		stub_lagging_adopt(v, true);
		r = stub_era_draw(v, &era);
	}
	(void)lock_byte(v, ENTER_LOCK, F_OFD_SETLK, F_UNLCK);
	return r == -EAGAIN || r == -EACCES ? -EBUSY : r;
}

/* ---- crawlers ---- */

STUB_PUBLIC int stub_crawler_enter(struct stub_volume *v)
{
	return lock_byte(v, CRAWL_LOCK, F_OFD_SETLK, F_RDLCK);
}

STUB_PUBLIC bool stub_crawler_runs(const struct stub_volume *v)
{
	struct flock f = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = CRAWL_LOCK,
		.l_len = 1,
	};

	return fcntl(v->lock_fd, F_OFD_GETLK, &f) == 0 && f.l_type != F_UNLCK;
}
