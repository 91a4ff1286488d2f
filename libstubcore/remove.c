/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * remove.c - the end of a volume: nothing is missing any more, and .postcopy goes.
 *
 * volume.conf goes first: from then on the directory is no volume.  If we are killed then, the
 * file that is removed last tells what the rest is: `aborted`, of an abort (abort.c); or, here,
 * a `state` that says complete, in a root that says which volume ended in it.  An init that
 * broke off leaves neither.
 *
 * A volume with a mirror stays one: what is changed is owed to it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/xattr.h>

#include "volume.h"

STUB_PUBLIC int stub_volume_set_complete(struct stub_volume *v)
{
	struct stub_view root;
	int r = stub_view(v, &v->root, &root);
	int fd CLEANUP_CLOSE = openat(v->dir_fd, STUB_STATE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (r < 0 || root.needs) /* whatever the journal says: this is not the end */
		return r < 0 ? r : -EBUSY;
	atomic_store_explicit(&v->state->complete, 1, memory_order_release);
	stub_news_wake(v); /* nobody has to wait any more */
	stub_ring_remove(v);
	return fsync(fd) < 0 ? -errno : 0;
}

int stub_remove_tree(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct dirent *d;
	DIR *dir;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -errno;
	}
	while (r == 0 && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (d->d_type == DT_DIR)
			r = stub_remove_tree(fd, d->d_name);
		else if (unlinkat(fd, d->d_name, 0) < 0)
			r = -errno;
	}
	closedir(dir);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

/* @last after all others: it tells the next try what is left to do. */
int stub_parts_remove(int root_fd, const char *last)
{
	int r, fd = stub_dir_open(root_fd);
	struct timespec times[2];
	struct dirent *d;
	struct stat st;
	DIR *dir;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	r = fstat(root_fd, &st) < 0 ? -errno : 0;
	while (r == 0 && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") || !strcmp(d->d_name, last))
			continue;
		r = stub_remove_tree(fd, d->d_name);
		if (r == -ENOTDIR || r == -ELOOP)
			r = unlinkat(fd, d->d_name, 0) < 0 ? -errno : 0;
	}
	closedir(dir);
	if (r == 0)
		r = stub_remove_tree(root_fd, STUB_DIR);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (r == 0 && (futimens(root_fd, times) < 0 || fsync(root_fd) < 0))
		r = -errno;
	return r;
}

STUB_PUBLIC int stub_volume_remove(struct stub_volume *v)
{
	struct stub_scan s;
	int r;

	if (stub_ledger_is(v))
		return -EEXIST;
	r = stub_scan(v, NULL, NULL, &s);
	if (r < 0)
		return r;
	if (!stub_scan_whole(&s) || s.journal || s.leftovers)
		return -EBUSY;
	r = stub_volume_set_complete(v); /* for those who have it open */
	if (r < 0)
		return r;
	/* servers that may show this volume only (stub_volume_expect) look for it from now on */
	if (fsetxattr(v->fd, STUB_XATTR_DONE, v->info.uuid, strlen(v->info.uuid), 0) < 0)
		return -errno;
	if (unlinkat(v->dir_fd, STUB_CONF, 0) < 0 && errno != ENOENT)
		return -errno;
	return stub_parts_remove(v->fd, STUB_STATE);
}

/* Does the state in .postcopy say complete?  -ENOENT: there is none. */
static int says_complete(int parts)
{
	int fd CLEANUP_CLOSE = openat(parts, STUB_STATE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stub_state_page page;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = pread(fd, &page, sizeof(page), 0);
	if (n < 0)
		return -errno;
	return n == sizeof(page) && page.magic == STUB_STATE_MAGIC && page.complete == 1;
}

/* Remove an empty .postcopy.  -ENOENT: it is not empty. */
static int remove_empty(int root_fd)
{
	struct timespec times[2];
	struct stat st;

	if (fstat(root_fd, &st) < 0)
		return -errno;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (unlinkat(root_fd, STUB_DIR, AT_REMOVEDIR) < 0)
		return errno == ENOTEMPTY || errno == EEXIST ? -ENOENT : -errno;
	return futimens(root_fd, times) < 0 ? -errno : 0;
}

STUB_PUBLIC int stub_volume_remove_rest(const char *dir)
{
	int fd CLEANUP_CLOSE = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r, parts CLEANUP_CLOSE = fd < 0 ? -1 : stub_dir_open(fd);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fgetxattr(fd, STUB_XATTR_DONE, NULL, 0) < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? -ENOENT : -errno;
	if (parts < 0)
		return parts == -ENOENT ? 0 : parts;
	if (fstatat(parts, STUB_CONF, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return -EBUSY;
	r = says_complete(parts);
	if (r == -ENOENT)
		return remove_empty(fd);
	return r == 1 ? stub_parts_remove(fd, STUB_STATE) : r < 0 ? r : -ENOENT;
}
