/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preflight_file.c - a file:// source: is it mounted, and can nobody change it? */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "file/file.h"
#include "preflight/preflight.h"

int preflight_file_uri(struct verdict *v, struct source_facts *facts)
{
	struct file_uri parts;
	char why[128];

	if (file_uri_parse(facts->uri, &parts, why, sizeof(why)) < 0)
		return verdict_fail(v, FAIL_URI, "source '%s': %s; want file:///path", facts->uri,
				    why);
	facts->file = facts->local = facts->root_proven = true;
	snprintf(facts->path, sizeof(facts->path), "%s", parts.path);
	return 0;
}

static bool is_empty(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;
	bool empty = dir;

	while (empty && (d = readdir(dir)))
		empty = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
	if (dir)
		closedir(dir);
	else if (copy >= 0)
		close(copy);
	return empty;
}

/* Does a file system begin at @fd? */
static bool is_mounted(int fd)
{
	struct statx here, up;

	return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID | STATX_INO, &here) == 0 &&
	       statx(fd, "..", 0, STATX_MNT_ID | STATX_INO, &up) == 0 &&
	       (here.stx_mnt_id != up.stx_mnt_id || here.stx_ino == up.stx_ino);
}

int preflight_file(struct verdict *v, struct source_facts *facts)
{
	int fd = open(facts->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME), r = 0;
	struct statvfs fs;
	struct stat st;

	if (fd < 0)
		return verdict_fail(v, FAIL_SOURCE, "source %s: %s", facts->uri, strerror(errno));
	if (fstat(fd, &st) == 0)
		facts->dev = st.st_dev;
	if (is_empty(fd) && !is_mounted(fd))
		r = verdict_fail(
			v, FAIL_NOT_EXPORT,
			"source %s: %s is empty, and nothing is mounted there: mount the old "
			"file system first",
			facts->uri, facts->path);
	else if (fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_RDONLY))
		verdict_warn(v, "source-not-frozen",
			     "%s is mounted for writing: whatever changes there from now on is not "
			     "migrated but parked as a conflict; mount it with 'ro'",
			     facts->path);
	close(fd);
	return r;
}
