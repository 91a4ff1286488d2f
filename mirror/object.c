/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mirror.h"

/* How it is now, after begin(). */
static int look(struct task *t)
{
	int r;

	if (fstat(t->fd, &t->st) < 0)
		return -errno;
	r = stub_view(t->m->volume, &t->o.h, &t->view);
	if (r < 0)
		return r;
	if (t->view.needs & STUB_NEEDS_FOREIGN)
		return -EBADMSG;
	return t->st.st_nlink ? EQUAL : -ESTALE;
}

/* What failed here is the object's own, or goes over. */
static int own(struct task *t, int r)
{
	if (r == -ESTALE) { /* its last name is gone, and with it what was owed */
		task_close(t);
		return EQUAL;
	}
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EAGAIN ? AGAIN : r;
}

int task_look(struct task *t)
{
	int r;

	t->what = "this side";
	t->fd = stub_handle_open_at(stub_volume_fd(t->m->volume), &t->o.h, O_PATH | O_CLOEXEC);
	if (t->fd < 0) {
		r = t->fd;
		t->fd = -1;
		return own(t, r);
	}
	r = look(t);
	if (r < 0)
		return own(t, r);
	if (stub_volume_hides(t->m->volume, t->st.st_ino)) {
		task_close(t);
		return EQUAL;
	}
	t->root = t->st.st_ino == stub_volume_root_ino(t->m->volume);
	if (t->root)
		return mirror_root(t->m, &t->place);
	r = stub_place_get(t->m->volume, t->st.st_ino, &t->o.h, &t->place);
	return r == -ENOENT ? UNPLACED : r;
}

bool task_waits(const struct task *t)
{
	unsigned int needs = STUB_NEEDS_ATTRS | STUB_NEEDS_DATA;

	if (t->m->conf.kind == STUB_MIRROR_WAY_BACK)
		needs |= STUB_NEEDS_NAMES;
	return t->view.needs & needs;
}

/* A record under which data are durable says so, before they are mirrored. */
static int commit(struct task *t)
{
	struct stub_commit c;
	int synced, r = stub_commit_prepare(t->m->volume, &t->o.h, &c);

	if (r < 0)
		return r;
	synced = fsync(t->fd) < 0 ? -errno : 0;
	r = stub_commit_finish(&c, synced);
	return synced < 0 ? synced : r;
}

int task_open(struct task *t)
{
	int type = S_ISDIR(t->st.st_mode) ? O_DIRECTORY : O_NONBLOCK;
	int r, fd = stub_handle_open_at(stub_volume_fd(t->m->volume), &t->o.h,
					O_RDONLY | O_NOATIME | O_CLOEXEC | type);

	t->what = "this side";
	if (fd < 0)
		return own(t, fd);
	close(t->fd);
	t->fd = fd;
	if (t->look)
		r = 0;
	else
		r = S_ISREG(t->st.st_mode) ? commit(t) : fsync(fd) < 0 ? -errno : 0;
	if (r == 0)
		r = look(t);
	return own(t, r);
}

void task_close(struct task *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

void attr_of(const struct stat *st, const struct stub_view *view, struct stub_attr *out)
{
	*out = (struct stub_attr){
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.rdev_major = major(st->st_rdev),
		.rdev_minor = minor(st->st_rdev),
		.atime = st->st_atim,
		.mtime = view && view->needs ? view->mtime : st->st_mtim,
	};
}

int task_owe_parent(struct task *t)
{
	struct stub_owed up;
	int fd, r;

	if (t->root)
		return -EINVAL;
	fd = openat(t->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = stub_handle_of_fd(fd, &up.h);
	close(fd);
	if (r < 0)
		return r;
	r = stub_ledger_begin(t->m->ledger, &up); /* often it is: no sync for each that is in it */
	if (r == 0 && up.what & STUB_OWED_NAMES)
		return 0;
	return r < 0 && r != -ENOENT ? r : mirror_owe_one(t->m, &up.h, STUB_OWED_NAMES);
}

int task_xattr(const struct task *t, const char *name, struct stub_xattr *out)
{
	ssize_t n = fgetxattr(t->fd, name, NULL, 0);
	void *value = NULL;
	int error;

	*out = (struct stub_xattr){ .name = name };
	if (n > 0) {
		value = malloc((size_t)n);
		if (!value)
			return -ENOMEM;
		n = fgetxattr(t->fd, name, value, (size_t)n);
	}
	error = n < 0 ? errno : 0;
	if (n <= 0) {
		free(value);
		return error == ENODATA || error == EOPNOTSUPP ? 0 : error == ERANGE ? -EAGAIN : -error;
	}
	out->value = value;
	out->len = (size_t)n;
	return 0;
}

void task_path(const struct task *t, char *out, size_t size)
{
	char link[32], root[4200], path[4200];
	ssize_t n, len;

	out[0] = '\0';
	if (t->fd < 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", stub_volume_fd(t->m->volume));
	len = readlink(link, root, sizeof(root) - 1);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", t->fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (len <= 0 || n < len || memcmp(root, path, (size_t)len))
		return;
	path[n] = '\0';
	if (n == len)
		snprintf(out, size, ".");
	else if (path[len] == '/')
		snprintf(out, size, "%.*s", (int)(size - 1), path + len + 1);
}
