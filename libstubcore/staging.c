/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * staging.c - the directories in which inodes are made that get their names later, and elsewhere.
 *
 *   staging/.a5       in one of the parts that the file system puts inodes and their data into
 *   staging/.p7/.a5   likewise, and hands on project 7
 *
 * Parts: XFS has allocation groups, ext4 block groups; a new file goes to that of the directory that
 * it is made in.  Were all made in one directory, all would lie in one part, and threads would wait
 * for its lock.  Both file systems spread new directories over the parts, and inode numbers go from
 * part to part: so of some directories that with the nearest number is taken.
 *
 * Projects (XFS, ext4), by which directory trees have quotas: what is made in a directory that hands
 * its project on (chattr +P) belongs to that project, and so do directories made in there.  linkat()
 * and rename() into such a directory take nothing of another project: EXDEV.  So it is made below a
 * directory that hands on the same one.  That works for every type, and gives what would be there if
 * the inode had been made in its directory.  What hands nothing on takes whatever comes, so provisional
 * must not, nor what is for directories that do not, or their project would stay on what is moved out.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "internal.h"

/* ---- projects ---- */

/* 1: the directory hands a project on, which is in *id; 0: not; -errno. */
static int handed_on(int fd, uint32_t *id)
{
	struct fsxattr x;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return errno == ENOTTY || errno == EOPNOTSUPP || errno == EINVAL ? 0 : -errno;
	*id = x.fsx_projid;
	return (x.fsx_xflags & FS_XFLAG_PROJINHERIT) != 0;
}

static int set(int fd, uint32_t id, bool inherit)
{
	struct fsxattr x;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return -errno;
	x.fsx_projid = id;
	x.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
	x.fsx_xflags |= inherit ? FS_XFLAG_PROJINHERIT : 0;
	return ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0 ? -errno : 0;
}

int stub_project_none(int fd)
{
	uint32_t id = 0;
	int r = handed_on(fd, &id);

	return r > 0 ? set(fd, 0, false) : r;
}

/* The directory of a project.  It gets its name when it hands that on. */
static int make(struct stub_volume *v, uint32_t id, const char *name)
{
	char new[32];
	int r, fd CLEANUP_CLOSE = -1;

	/* whoever set a project for the whole volume: nothing of another one could be renamed in staging */
	r = stub_project_none(v->staging_fd);
	if (r < 0)
		return r;
	snprintf(new, sizeof(new), ".n%" PRIu64, (uint64_t)atomic_fetch_add(&v->staged, 1));
	if (mkdirat(v->staging_fd, new, 0700) < 0)
		return -errno;
	fd = openat(v->staging_fd, new, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = fd < 0 ? -errno : set(fd, id, true);
	if (r == 0 && renameat2(v->staging_fd, new, v->staging_fd, name, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(v->staging_fd, new, AT_REMOVEDIR);
	return r == -EEXIST ? 0 : r;
}

static int make_if_missing(struct stub_volume *v, uint32_t id, const char *name)
{
	struct stat st;

	if (fstatat(v->staging_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return errno == ENOENT ? make(v, id, name) : -errno;
}

/* ---- parts ---- */

/* Where the directories of @top are; those for which there is no room are nowhere. */
static int spread(struct stub_volume *v, const char *top, struct stub_spread *s)
{
	char name[STUB_STAGING_NAME];
	struct stat st;

	for (unsigned int i = 0; i < STUB_SPREAD; i++) {
		s->ino[i] = 0;
		snprintf(name, sizeof(name), "%s/.a%u", top, i);
		if (mkdirat(v->staging_fd, name, 0700) < 0 && errno != EEXIST) {
			if (errno == ENOSPC || errno == EDQUOT)
				continue;
			return -errno;
		}
		if (fstatat(v->staging_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		s->ino[i] = st.st_ino;
	}
	return 0;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The directory of @top that is nearest to @ino; @top itself if there is none. */
static int nearest(struct stub_volume *v, const char *top, uint64_t ino, char out[STUB_STAGING_NAME])
{
	struct stub_spread *s = &v->spread;
	int best = -1, r = 0;

	pthread_mutex_lock(&s->lock);
	if (strcmp(s->top, top) != 0) {
		r = spread(v, top, s);
		snprintf(s->top, sizeof(s->top), "%s", r == 0 ? top : "");
	}
	for (int i = 0; i < STUB_SPREAD && r == 0; i++)
		if (s->ino[i] && (best < 0 || distance(s->ino[i], ino) < distance(s->ino[best], ino)))
			best = i;
	pthread_mutex_unlock(&s->lock);
	if (best < 0)
		snprintf(out, STUB_STAGING_NAME, "%s", top);
	else
		snprintf(out, STUB_STAGING_NAME, "%s/.a%d", top, best);
	return r;
}

static void forget(struct stub_volume *v)
{
	pthread_mutex_lock(&v->spread.lock);
	v->spread.top[0] = '\0';
	pthread_mutex_unlock(&v->spread.lock);
}

static int open_nearest(struct stub_volume *v, const char *top, uint64_t ino, struct stub_staging *out)
{
	int r = nearest(v, top, ino, out->name);

	if (r < 0)
		return r;
	out->fd = openat(v->staging_fd, out->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return out->fd < 0 ? -errno : 0;
}

/* ---- both ---- */

int stub_staging_open(struct stub_volume *v, const struct stub_object *dir, struct stub_staging *out)
{
	char top[STUB_STAGING_TOP] = ".";
	uint32_t id = 0, is = 0;
	bool project;
	int r;

	if (out->fd >= 0)
		return 0;
	r = handed_on(dir->fd, &id);
	if (r < 0)
		return r;
	project = r > 0;
	if (project)
		snprintf(top, sizeof(top), ".p%" PRIu32, id);
	for (int tries = 0; tries < 2; tries++) {
		r = project ? make_if_missing(v, id, top) : 0;
		if (r == 0)
			r = open_nearest(v, top, dir->ino, out);
		if (r != -ENOENT)
			break;
		forget(v); /* somebody has emptied staging */
	}
	if (r < 0)
		return r;
	/* somebody may have set it for the whole volume */
	r = handed_on(out->fd, &is);
	if (r >= 0 && ((r > 0) != project || (project && is != id)))
		r = set(out->fd, project ? id : 0, project);
	if (r < 0)
		stub_staging_close(out);
	return r < 0 ? r : 0;
}

void stub_staging_close(struct stub_staging *s)
{
	stub_cleanup_close(&s->fd);
	s->fd = -1;
}

/* ---- what was left ---- */

/* The directory @fd, which is the stream's then; after an error it is closed. */
static int read_from(int fd, DIR **out)
{
	int r;

	*out = fdopendir(fd);
	if (*out)
		return 0;
	r = -errno;
	close(fd);
	return r;
}

/* In the directory @fd, which is closed, and in ours there. */
static int count(int fd, uint64_t *n)
{
	struct dirent *d;
	int r, sub;
	DIR *dir;

	r = read_from(fd, &dir);
	if (r < 0)
		return r;
	while (r == 0 && (d = readdir(dir))) {
		if (d->d_name[0] != '.') {
			++*n;
		} else if (d->d_name[1] && d->d_name[1] != '.') {
			sub = openat(fd, d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
			r = sub >= 0 ? count(sub, n) : errno == ENOENT ? 0 : -errno;
		}
	}
	closedir(dir);
	return r;
}

static int open_top(const struct stub_volume *v)
{
	int fd = openat(v->staging_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int stub_staging_left(struct stub_volume *v, uint64_t *n)
{
	int fd = open_top(v);

	return fd < 0 ? fd : count(fd, n);
}

/* Remove all that is in the directory @fd, which is closed. */
static int clean(int fd)
{
	struct dirent *d;
	int r, sub;
	DIR *dir;

	r = read_from(fd, &dir);
	if (r < 0)
		return r;
	while ((d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (unlinkat(fd, d->d_name, d->d_type == DT_DIR ? AT_REMOVEDIR : 0) == 0)
			continue;
		if (errno != ENOTEMPTY) {
			r = -errno;
			continue;
		}
		/* one of ours; a directory that was being made is empty */
		sub = openat(fd, d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (sub < 0 || clean(sub) < 0 || unlinkat(fd, d->d_name, AT_REMOVEDIR) < 0)
			r = -errno;
	}
	closedir(dir);
	return r;
}

STUB_PUBLIC int stub_staging_clean(struct stub_volume *v)
{
	int fd = open_top(v);

	forget(v);
	return fd < 0 ? fd : clean(fd);
}
