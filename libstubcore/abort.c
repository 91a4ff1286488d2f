/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * abort.c - give a migration up, and leave what is there as it is (docs/decisions/0026).
 *
 * Nobody else has the volume open.  What still misses something must never look whole
 * afterwards, so it goes aside, in its directory, under a name that says so, without
 * rights, before it loses its record:
 *
 *   1. .postcopy/aborted, a symbolic link to the list of what is missing, which is on the
 *      disk by then: from here on nobody but abort opens the volume;
 *   2. walk: every incomplete object that is no directory goes aside; sync;
 *   3. walk: all records go, sync;
 *   4. volume.conf goes, then the rest of .postcopy, the link last.
 *
 * Each step can be repeated: what is aside already is left, what has no record too.
 * Directories stay, with the names that they have; nobody but root enters one whose
 * attributes never came.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "ledger.h"

#define SUFFIX	  ".postcopy-incomplete"
#define NAMELESS  "nameless" SUFFIX
#define TRIES_MAX 1000

enum step { STEP_TELL, STEP_ASIDE, STEP_DROP };

struct walk {
	struct stub_volume *v;
	enum step step;
	stub_lack_fn tell;
	void *arg;
	struct stub_handle *todo; /* directories */
	size_t n, cap;
	struct stub_record rec;
	struct stub_lack lack;
	char dir[PATH_MAX]; /* below the root, with a slash behind it; "" for the root */
	char path[PATH_MAX + NAME_MAX + 1];
};

static int push(struct walk *w, const struct stub_handle *h)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 1024;
		struct stub_handle *t = realloc(w->todo, cap * sizeof(*t));

		if (!t)
			return -ENOMEM;
		w->todo = t;
		w->cap = cap;
	}
	w->todo[w->n++] = *h;
	return 0;
}

/* What the inode behind @fd lacks, into w->lack.  1: it has a record; 0; -errno. */
static int lack_of(struct walk *w, int fd)
{
	struct stub_lack *l = &w->lack;
	struct stub_handle h;
	int r = stub_handle_of_fd(fd, &h);

	memset(l, 0, sizeof(*l));
	if (r == 0)
		r = stub_record_load(w->v, fd, &h, &l->st, &w->rec);
	if (r == -ENOENT)
		return 0;
	if (r == -EBADMSG) { /* it is not known what it misses */
		l->unknown = true;
		l->foreign = w->rec.foreign;
		l->needs = STUB_NEEDS_ATTRS;
		return 1;
	}
	if (r < 0)
		return r;
	l->needs = stub_record_needs(&w->rec);
	if (w->rec.flags & STUB_FLAG_DUMMY && S_ISREG(l->st.st_mode))
		stub_map_init(&w->rec.now, (uint64_t)l->st.st_size);
	if (w->rec.now.n)
		l->needs |= STUB_NEEDS_DATA;
	l->changed = stub_time_cmp(w->rec.ctime, w->rec.src_ctime) != 0;
	l->missing = &w->rec.now;
	l->refused = &w->rec.refused;
	l->origin = &w->rec.origin;
	return 1;
}

static bool goes_aside(const struct stub_lack *l)
{
	return !S_ISDIR(l->st.st_mode) && l->needs & (STUB_NEEDS_ATTRS | STUB_NEEDS_DATA);
}

static bool is_aside(const char *name, const struct stat *st)
{
	size_t n = strlen(name), s = strlen(SUFFIX);

	return n > s && !strcmp(name + n - s, SUFFIX) && st->st_uid == 0 &&
	       (S_ISLNK(st->st_mode) || (st->st_mode & 07777) == 0);
}

/* Give the object to root, with @mode. */
static int take_rights(int fd, mode_t type, mode_t mode)
{
	char at[32];

	if (fchownat(fd, "", 0, 0, AT_EMPTY_PATH) < 0)
		return -errno;
	snprintf(at, sizeof(at), "/proc/self/fd/%d", fd); /* fchmod() takes no O_PATH */
	return !S_ISLNK(type) && chmod(at, mode) < 0 ? -errno : 0;
}

/* The name that @name gets; other ones, with the inode's number, if that is too long or taken. */
static void aside_name(const char *name, uint64_t ino, unsigned int attempt, char out[NAME_MAX + 1])
{
	char tail[80];
	int keep;

	if (attempt == 0 && strlen(name) + strlen(SUFFIX) <= NAME_MAX)
		snprintf(tail, sizeof(tail), SUFFIX);
	else if (attempt <= 1)
		snprintf(tail, sizeof(tail), ".%llu" SUFFIX, (unsigned long long)ino);
	else
		snprintf(tail, sizeof(tail), ".%llu-%u" SUFFIX, (unsigned long long)ino, attempt);
	keep = NAME_MAX - (int)strlen(tail);
	/* do not cut a UTF-8 character in two */
	if ((size_t)keep < strlen(name))
		while (keep > 1 && ((unsigned char)name[keep] & 0xc0) == 0x80)
			keep--;
	snprintf(out, NAME_MAX + 1, "%.*s%s", keep, name, tail);
}

static int set_aside(struct walk *w, int from, int to, const char *name, int fd)
{
	char aside[NAME_MAX + 1];
	int r = take_rights(fd, w->lack.st.st_mode, 0);

	if (r < 0)
		return r;
	for (unsigned int i = 0; i < TRIES_MAX; i++) {
		aside_name(name, w->lack.st.st_ino, i, aside);
		r = stub_rename_new(from, name, to, aside, w->v->only_named);
		if (r != -EEXIST)
			return r < 0 ? r : 1;
	}
	return -EEXIST;
}

static int tell(struct walk *w, const char *name)
{
	snprintf(w->path, sizeof(w->path), "%s%s", w->dir, name);
	w->lack.path = w->path;
	return w->tell(w->arg, &w->lack);
}

static int drop(int fd)
{
	int r = stub_record_drop(fd);

	return r == -ENOENT ? 0 : r;
}

/* Do the present step for one name of an object that is no directory.  1: it has another name
 * now. */
static int look_name(struct walk *w, int dir_fd, const char *name, int fd)
{
	int r = lack_of(w, fd);

	if (r <= 0)
		return r;
	switch (w->step) {
	case STEP_TELL:
		return w->lack.needs == STUB_NEEDS_FINISH ? 0 : tell(w, name);
	case STEP_ASIDE:
		return !goes_aside(&w->lack) || is_aside(name, &w->lack.st) ?
			       0 :
			       set_aside(w, dir_fd, dir_fd, name, fd);
	case STEP_DROP: /* not aside: somebody came around the servers; the next try moves it */
		return goes_aside(&w->lack) && !is_aside(name, &w->lack.st) ? -EAGAIN : drop(fd);
	}
	return -EINVAL;
}

static int look_dir(struct walk *w, int fd)
{
	int r = lack_of(w, fd);

	if (r <= 0)
		return r;
	switch (w->step) {
	case STEP_TELL:
		if (w->dir[0])
			w->dir[strlen(w->dir) - 1] = '\0';
		r = w->lack.needs == STUB_NEEDS_FINISH ? 0 : tell(w, w->dir[0] ? "" : ".");
		if (w->dir[0])
			strcat(w->dir, "/");
		return r;
	case STEP_ASIDE: /* rights that never came are not guessed */
		return w->lack.needs & STUB_NEEDS_ATTRS ? take_rights(fd, S_IFDIR, 0700) : 0;
	case STEP_DROP:
		return drop(fd);
	}
	return -EINVAL;
}

static int walk_name(struct walk *w, int dir_fd, const char *name)
{
	int fd CLEANUP_CLOSE = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stub_handle h;
	struct stat st;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (stub_volume_hides(w->v, st.st_ino) || st.st_dev != w->v->dev)
		return 0;
	if (!S_ISDIR(st.st_mode)) {
		r = look_name(w, dir_fd, name, fd);
		if (r < 0)
			stub_log(&w->v->log, STUB_LOG_ERROR, "%s%s: %s", w->dir, name,
				 strerror(-r));
		return r;
	}
	r = stub_handle_of_fd(fd, &h);
	return r < 0 ? r : push(w, &h);
}

/* Call @one for all names of the directory behind @fd.  1: some have changed; 0; -errno. */
static int walk_names(struct walk *w, int fd, int (*one)(struct walk *w, int dir_fd, const char *name))
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC), r = 0, moved = 0;
	struct dirent *d;
	DIR *dir;

	if (copy < 0)
		return -errno;
	dir = fdopendir(copy);
	if (!dir) {
		close(copy);
		return -ENOMEM;
	}
	while (r >= 0 && (errno = 0, d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		r = one(w, dirfd(dir), d->d_name);
		moved |= r > 0;
	}
	if (r >= 0 && !d && errno)
		r = -errno;
	closedir(dir);
	return r < 0 ? r : moved;
}

/* Where it is below the root, for the list and the log; "?/" if that is too long to say. */
static void name_dir(struct walk *w, int fd)
{
	char link[32], root[PATH_MAX], path[PATH_MAX];
	ssize_t n, len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", w->v->fd);
	len = readlink(link, root, sizeof(root) - 1);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 2);
	strcpy(w->dir, "?/");
	if (len <= 0 || n < len || n >= (ssize_t)sizeof(path) - 2 || memcmp(root, path, (size_t)len))
		return;
	path[n] = '\0';
	len += path[len] == '/';
	snprintf(w->dir, sizeof(w->dir), "%s%s", path + len, n > len ? "/" : "");
}

static int walk_dir(struct walk *w, const struct stub_handle *h)
{
	int r, fd CLEANUP_CLOSE = stub_handle_open(w->v, h, O_RDONLY | O_DIRECTORY | O_NOATIME);
	struct timespec times[2];
	struct stat st;

	if (fd < 0)
		return fd == -ESTALE ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	name_dir(w, fd);
	r = look_dir(w, fd);
	if (r < 0) {
		stub_log(&w->v->log, STUB_LOG_ERROR, "%s: %s", w->dir, strerror(-r));
		return r;
	}
	r = walk_names(w, fd, walk_name);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (r > 0 && futimens(fd, times) < 0)
		r = -errno;
	return r < 0 ? r : 0;
}

/* A directory in the root that takes an inode of any project (staging.c). */
static int open_nameless(struct walk *w)
{
	struct timespec times[2];
	struct stat st;
	int fd, r;

	if (fstat(w->v->fd, &st) < 0)
		return -errno;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (mkdirat(w->v->fd, NAMELESS, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(w->v->fd, NAMELESS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		stub_cleanup_close(&fd);
		return r;
	}
	r = st.st_uid != 0 || st.st_mode & 077 ? -EEXIST : stub_project_none(fd);
	if (r == 0 && futimens(w->v->fd, times) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	close(fd);
	stub_log(&w->v->log, STUB_LOG_ERROR, NAMELESS ": %s", strerror(-r));
	return r;
}

static int nameless_aside(struct walk *w, int dir_fd, const char *name, int fd)
{
	int to CLEANUP_CLOSE = open_nameless(w);

	return to < 0 ? to : set_aside(w, dir_fd, to, name, fd);
}

/* A hard-linked inode whose only name is its provisional file: clients removed the names that
 * had come, and may have written into it before. */
static int walk_nameless(struct walk *w, int dir_fd, const char *name)
{
	int r, fd CLEANUP_CLOSE = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = lack_of(w, fd);
	if (r <= 0 || w->lack.st.st_nlink > 1)
		return r < 0 ? r : 0;
	w->lack.needs |= STUB_NEEDS_NAMES;
	switch (w->step) {
	case STEP_TELL:
		strcpy(w->dir, STUB_DIR "/" STUB_PROVISIONAL "/");
		return tell(w, name);
	case STEP_ASIDE:
		return nameless_aside(w, dir_fd, name, fd);
	case STEP_DROP:
		return -EAGAIN;
	}
	return -EINVAL;
}

static int walk(struct stub_volume *v, enum step step, stub_lack_fn fn, void *arg)
{
	struct walk *w CLEANUP_FREE = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	*w = (struct walk){ .v = v, .step = step, .tell = fn, .arg = arg };
	r = walk_names(w, v->provisional_fd, walk_nameless);
	if (r >= 0)
		r = push(w, &v->root);
	while (r >= 0 && w->n > 0) {
		struct stub_handle h = w->todo[--w->n];

		r = walk_dir(w, &h);
	}
	free(w->todo);
	return r < 0 ? r : 0;
}

STUB_PUBLIC int stub_abort_list(struct stub_volume *v, stub_lack_fn fn, void *arg)
{
	return walk(v, STEP_TELL, fn, arg);
}

STUB_PUBLIC int stub_abort_begun(const struct stub_volume *v, char *list, size_t size)
{
	ssize_t n = readlinkat(v->dir_fd, STUB_ABORTED, list, size - 1);

	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	list[n] = '\0';
	return (size_t)n < size - 1 ? 1 : -ENAMETOOLONG;
}

static int begin(struct stub_volume *v, const char *list)
{
	if (symlinkat(list, v->dir_fd, STUB_ABORTED) < 0 && errno != EEXIST)
		return -errno;
	return fsync(v->dir_fd) < 0 ? -errno : 0;
}

static int synced(const struct stub_volume *v, int r)
{
	return r == 0 && syncfs(v->fd) < 0 ? -errno : r;
}

STUB_PUBLIC int stub_abort(struct stub_volume *v, const char *list)
{
	int r = stub_volume_alone(v);

	if (r == 0)
		r = begin(v, list);
	if (r == 0)
		r = synced(v, walk(v, STEP_ASIDE, NULL, NULL));
	if (r == 0)
		r = synced(v, walk(v, STEP_DROP, NULL, NULL));
	if (r == 0 && unlinkat(v->dir_fd, STUB_CONF, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0 && fsync(v->dir_fd) < 0)
		r = -errno;
	if (r == 0 && stub_ledger_is(v))
		stub_map_remove(v);
	return r < 0 ? r : stub_parts_remove(v->fd, STUB_ABORTED);
}

STUB_PUBLIC int stub_abort_rest(const char *dir)
{
	int fd CLEANUP_CLOSE = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int parts CLEANUP_CLOSE = fd < 0 ? -1 : stub_dir_open(fd);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (parts < 0)
		return parts;
	if (fstatat(parts, STUB_CONF, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return -EBUSY;
	if (fstatat(parts, STUB_ABORTED, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return stub_parts_remove(fd, STUB_ABORTED);
	/* all but the directory itself has gone */
	return unlinkat(fd, STUB_DIR, AT_REMOVEDIR) < 0 ? -ENOENT : 0;
}
