/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * create.c - make a volume.
 *
 * Order of making: parts, journal entry of the root, record of the root,
 * volume.conf.  Only the last makes it a volume; whatever a crash leaves before
 * is removed by the next try.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "volume.h"

/* Nothing but perhaps a half-made .postcopy. */
static int check_empty(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	struct stat st;
	DIR *dir;
	int r = 0;

	if (copy < 0)
		return -errno;
	if (fstatat(fd, STUB_DIR "/" STUB_CONF, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		close(copy);
		return -EEXIST;
	}
	dir = fdopendir(copy);
	if (!dir) {
		close(copy);
		return -errno;
	}
	while ((d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..") && strcmp(d->d_name, STUB_DIR))
			r = -ENOTEMPTY;
	closedir(dir);
	return r;
}

/* Handles, trusted xattrs on an unnamed inode: all we need from the file system. */
static int check_file_system(int fd, const struct stub_log *log)
{
	struct stub_handle h;
	int r, tmp CLEANUP_CLOSE = stub_scratch(fd);
	char value[STUB_RECORD_INLINE];
	const char *what = "unnamed files (O_TMPFILE)";

	memset(value, 0, sizeof(value));
	r = tmp < 0 ? tmp : 0;
	if (r == 0) {
		what = "file handles";
		r = stub_handle_of_fd(tmp, &h);
	}
	if (r == 0) {
		what = "trusted extended attributes";
		if (fsetxattr(tmp, STUB_XATTR, value, sizeof(value), 0) < 0)
			r = -errno;
	}
	if (r < 0)
		stub_log(log, STUB_LOG_ERROR, "the file system lacks %s: %s", what, strerror(-r));
	return r == -ENOSPC || r == -EPERM || r == -EROFS || r == -EIO || r == 0 ? r : -EOPNOTSUPP;
}

static int make_state(int dirfd, uint32_t version)
{
	struct stub_state_page page = { .magic = STUB_STATE_MAGIC, .version = version };
	char block[4096] = { 0 };
	int fd CLEANUP_CLOSE = openat(dirfd, STUB_STATE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	memcpy(block, &page, sizeof(page));
	r = stub_io_pwrite(fd, block, sizeof(block), 0);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int make_journal(const char *dir, int root_fd, const struct stub_attr *attr,
			const struct stub_log *log)
{
	struct stub_journal_entry e = { .kind = STUB_JOURNAL_DIR, .mtime = attr->mtime.tv_sec };
	struct stub_journal *j;
	char *path CLEANUP_FREE = NULL;
	int r;

	if (asprintf(&path, "%s/" STUB_DIR "/" STUB_JOURNAL, dir) < 0)
		return -ENOMEM;
	r = stub_handle_of_fd(root_fd, &e.h);
	if (r == 0)
		r = stub_journal_open(path, 0, log->fn, log->arg, &j);
	if (r < 0)
		return r;
	r = stub_journal_add(j, &e, 1);
	stub_journal_close(j);
	return r;
}

static int mark_root(int fd, uint16_t source_id, const struct stub_origin *origin,
		     const struct stub_attr *attr, bool dummy)
{
	struct timespec times[2] = { attr->atime, attr->mtime };
	struct stub_record *rec CLEANUP_FREE = calloc(1, sizeof(*rec));
	struct stub_handle h;
	struct stat st;
	int r;

	if (!rec)
		return -ENOMEM;
	if (fchown(fd, attr->uid, attr->gid) < 0 || fchmod(fd, attr->mode & 07777) < 0 ||
	    fstat(fd, &st) < 0)
		return -errno;
	r = stub_handle_of_fd(fd, &h);
	if (r < 0)
		return r;
	rec->flags = STUB_FLAG_UNLISTED | (dummy ? STUB_FLAG_DUMMY : 0);
	rec->source_id = source_id;
	rec->ino = st.st_ino;
	rec->handle_sum = stub_handle_sum(&h);
	rec->boot = stub_boot_id();
	rec->origin = *origin;
	rec->src_mtime = rec->mtime = attr->mtime;
	rec->src_ctime = rec->ctime = attr->ctime;
	rec->fsid = attr->fsid;
	rec->fileid = attr->fileid;
	rec->nlink = rec->nlink_shown = attr->nlink;
	rec->size = stub_size_kept(attr);
	r = stub_record_store(NULL, fd, rec);
	if (r == 0 && futimens(fd, times) < 0)
		r = -errno;
	return r;
}

static int make_parts(int fd, int *dirfd)
{
	static const char *const dirs[] = { STUB_JOURNAL, STUB_STAGING, STUB_PROVISIONAL,
					    STUB_LAGGING };
	int r = stub_remove_tree(fd, STUB_DIR);

	if (r < 0)
		return r;
	if (mkdirat(fd, STUB_DIR, 0700) < 0)
		return -errno;
	*dirfd = openat(fd, STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (*dirfd < 0)
		return -errno;
	r = stub_project_none(*dirfd); /* it counts for no project's quota */
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(*dirfd, dirs[i], 0700) < 0)
			return -errno;
	r = stub_io_write_file(*dirfd, STUB_LOCK, "");
	if (r == 0)
		r = stub_io_write_file(*dirfd, STUB_RESOLVED, "");
	if (r == 0)
		r = stub_io_write_file(*dirfd, STUB_SETTINGS, "");
	if (r == 0)
		r = stub_io_write_file(*dirfd, STUB_LIMITS, "");
	if (r == 0)
		r = stub_finished_create(*dirfd);
	return r;
}

static int make_way_back(int fd, int dirfd, const struct stub_mirror_conf *c,
			 const struct stub_origin *root)
{
	struct stub_handle h;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : stub_handle_of_fd(fd, &h);

	return r < 0 ? r : stub_way_back_parts(dirfd, c, st.st_ino, &h, root);
}

STUB_PUBLIC int stub_volume_create(const char *dir, const struct stub_volume_info *info,
				   const struct stub_origin *root, const struct stub_attr *attr,
				   bool dummy, const struct stub_mirror_conf *way_back,
				   stub_log_fn log_fn, void *log_arg)
{
	struct stub_log log = { log_fn, log_arg };
	int fd CLEANUP_CLOSE = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int dirfd CLEANUP_CLOSE = -1;
	struct stub_volume_info here = *info;
	int r;

	if (fd < 0)
		return -errno;
	if (!S_ISDIR(attr->mode))
		return -ENOTDIR;
	here.root_known = true;
	here.root_fsid = attr->fsid;
	here.root_fileid = attr->fileid;
	r = check_empty(fd);
	if (r == 0)
		r = check_file_system(fd, &log);
	if (r == 0)
		r = make_parts(fd, &dirfd);
	if (r == 0 && way_back)
		r = make_way_back(fd, dirfd, way_back, root);
	if (r == 0)
		r = make_state(dirfd, way_back ? STUB_STATE_MIRRORED : STUB_STATE_VERSION);
	if (r == 0)
		r = make_journal(dir, fd, attr, &log);
	if (r == 0)
		r = mark_root(fd, info->source_id, root, attr, dummy);
	if (r == 0)
		r = stub_home_of(fd, here.home);
	if (r == 0)
		r = stub_active_learn(fd, &here);
	if (r >= 0)
		r = stub_conf_write(fd, dirfd, &here);
	return r;
}
