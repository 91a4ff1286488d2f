/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_blame.c - is an error of the old server the object's own?
 *
 * An export that is away for a while answers like one in which every object is broken:
 * handles are stale, everything is denied.  So before an object is blamed the root is asked
 * (source_verify()); if that is not as it was, the source is lost, and the object waits like
 * all others.  If the root was not known to be right before the work began, the error may be
 * of an outage that is just over: then the object is asked for again.  So an object is only
 * blamed if the root was right both before the work began and after it failed.
 *
 * An object that is stale though the root is right may have got another handle (on servers
 * whose handles do not survive a restart): it is looked up by its path, and if that leads to
 * the very same object its record gets the new handle.  Calls by path are for nothing else.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "jobs/jobs_internal.h"
#include "journald.h"

#define CHAIN_MS   60000 /* the root, right at two looks not further apart, was so in between */
#define LOST_MS    30000 /* so long the source counts as lost: who waits asks again before */
#define PER_MINUTE 20 /* lines about objects; the others are in the journal */

/* When the job of this worker began. */
static __thread uint64_t began_ms;

void jobs_began(void)
{
	began_ms = stub_now_ms();
}

/* ---- blame ---- */

bool jobs_doubted(struct jobs *j, int error)
{
	struct blame *b = &j->blame;
	uint64_t now;
	bool blame;
	int r;

	if (error != -ESTALE && error != -EACCES && error != -EIO)
		return false;
	r = source_verify(j->c.source);
	now = stub_now_ms();
	pthread_mutex_lock(&b->lock);
	if (r < 0)
		b->good_since_ms = 0;
	else if (!b->good_since_ms || now - b->good_ms > CHAIN_MS)
		b->good_since_ms = now;
	b->good_ms = now;
	b->lost_ms = r < 0 ? now : 0;
	blame = r == 0 && began_ms >= b->good_since_ms;
	pthread_mutex_unlock(&b->lock);
	return !blame;
}

bool jobs_source_lost(struct jobs *j)
{
	struct blame *b = &j->blame;
	bool lost;

	pthread_mutex_lock(&b->lock);
	lost = b->lost_ms && stub_now_ms() - b->lost_ms < LOST_MS;
	pthread_mutex_unlock(&b->lock);
	return lost;
}

/* ---- where it is ---- */

int jobs_path(struct jobs *j, const struct stub_handle *h, char *out, size_t size)
{
	int fd, root_fd = stub_volume_fd(j->c.volume);
	char link[64], root[PATH_MAX], path[PATH_MAX];
	ssize_t n, m;

	fd = stub_handle_open_at(root_fd, h, O_PATH);
	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	close(fd);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", root_fd);
	m = readlink(link, root, sizeof(root) - 1);
	if (n < 0 || m < 0)
		return -errno;
	path[n] = root[m] = '\0';
	if (m == 1)
		m = 0; /* "/" */
	if (strncmp(path, root, (size_t)m) || (path[m] && path[m] != '/'))
		return -ENOENT; /* the kernel does not know, or it has no name */
	n = snprintf(out, size, "%s", path[m] ? path + m + 1 : ".");
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* The origin of what is called @path over there. */
static int find(struct jobs *j, char *path, struct stub_origin *out, struct stub_attr *attr)
{
	struct stub_origin dir;
	int r = source_root(j->c.source, out, attr);
	char *name, *at = path;

	while (r == 0 && (name = strsep(&at, "/"))) {
		if (!*name || !strcmp(name, "."))
			continue;
		dir = *out;
		r = source_lookup(j->c.source, SOURCE_DEMAND, &dir, NULL, name, strlen(name), out,
				  attr);
	}
	return r;
}

bool jobs_repaired(struct jobs *j, const struct stub_handle *h)
{
	struct stub_origin origin;
	struct stub_attr attr;
	struct stub_object o;
	char path[PATH_MAX], why[STUB_REASON_MAX + 1];
	bool repaired = false;

	if (jobs_path(j, h, path, sizeof(path)) < 0 || stub_object_open(j->c.volume, h, &o) < 0)
		return false;
	/* not for a file with several names: another name may bring the new handle */
	if ((o.type == S_IFDIR || o.nlink < 2) && find(j, path, &origin, &attr) == 0 &&
	    attr.fsid == o.fsid &&
	    (origin.len != o.origin.len || memcmp(origin.bytes, o.origin.bytes, origin.len)) &&
	    (attr.mode & S_IFMT) == o.type && attr.fileid == o.fileid &&
	    (o.type == S_IFDIR || !jobs_changed(&o, &attr, why, sizeof(why))))
		repaired = stub_object_move(j->c.volume, &o, &origin) == 0;
	stub_object_close(&o);
	return repaired;
}

/* ---- telling ---- */

void jobs_tell(struct jobs *j, enum stub_log_level level, const struct stub_handle *h,
	       const char *what, const char *then)
{
	struct blame *b = &j->blame;
	char path[PATH_MAX], shown[256];
	uint64_t now = stub_now_ms();
	unsigned int n;
	bool known;

	pthread_mutex_lock(&b->lock);
	if (now - b->minute_ms > 60000) {
		b->minute_ms = now;
		memset(b->told, 0, sizeof(b->told));
	}
	n = ++b->told[level];
	pthread_mutex_unlock(&b->lock);
	if (n > PER_MINUTE + 1)
		return;
	if (n == PER_MINUTE + 1) {
		jobs_log(j, level,
			 "more objects failed: for a minute they are not told one by one, see `postcopy parked`");
		return;
	}
	known = jobs_path(j, h, path, sizeof(path)) == 0;
	if (!known)
		strcpy(path, "?");
	stub_printable(path, strlen(path), shown, sizeof(shown));
	journald_about(known ? path : NULL, what);
	jobs_log(j, level, "\"%s\": %s%s", shown, what, then);
	journald_about(NULL, NULL);
}
