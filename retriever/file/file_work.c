// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_work.c - what is done on the source's threads for each kind of call.
 *
 * All is read with O_NOATIME: nothing changes over there, but for the access times of symbolic
 * links, which the kernel sets on what is mounted without ro or noatime.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file/file.h"

#define READING (O_RDONLY | O_NONBLOCK | O_NOATIME)

static bool is(const struct source_id *as, const struct stub_attr *a)
{
	return as->fsid == a->fsid && as->fileid == a->fileid;
}

/* Attributes of the object behind @fd, which may be O_PATH. */
static int attr_of(const struct file_mount *m, int fd, struct stub_attr *a)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return file_errno(errno);
	if (st.st_dev != m->dev)
		return -EXDEV;
	file_attr(&st, m->fsid, a);
	return 0;
}

int file_work_dir(struct file_call *c, const struct file_mount *m)
{
	int fd = file_open(m, &c->origin, READING | O_DIRECTORY), r;
	struct stub_attr a;
	struct stat st;

	if (fd < 0)
		return fd;
	r = attr_of(m, fd, &a);
	if (r == 0 && c->has_as && !is(&c->as, &a))
		r = -ENOMEDIUM;
	/* data of a volume's stubs lies elsewhere, and the volume itself may be ours */
	if (r == 0 && a.fileid != m->attr.fileid &&
	    fstatat(fd, STUB_DIR "/volume.conf", &st, AT_SYMLINK_NOFOLLOW) == 0) {
		file_log(
			c->s, STUB_LOG_ERROR,
			"source %s: inode %llu there is a volume of postcopy, which no source may have "
			"in it: finish or move that one",
			c->s->uri.path, (unsigned long long)a.fileid);
		r = -EIO;
	}
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int file_work_entry(const struct file_mount *m, int dir_fd, const char *name, struct stub_attr *a)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how)), r;

	if (fd < 0)
		return file_errno(errno);
	r = attr_of(m, fd, a);
	if (r == 0)
		r = file_xattr_look(fd, a);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int file_work_lookup(struct file_call *c, const struct file_mount *m, void *buf)
{
	int dir = file_work_dir(c, m), fd, r;

	(void)buf;
	if (dir < 0)
		return dir;
	fd = file_work_entry(m, dir, c->name, &c->attr);
	close(dir);
	if (fd < 0)
		return fd;
	r = file_origin(fd, &c->found);
	close(fd);
	return r < 0 ? file_errno(-r) : 0;
}

int file_work_getattr(struct file_call *c, const struct file_mount *m, void *buf)
{
	int fd = file_open(m, &c->origin, O_PATH), r;

	(void)buf;
	if (fd < 0)
		return fd;
	r = attr_of(m, fd, &c->attr);
	close(fd);
	return r;
}

int file_work_meta(struct file_call *c, const struct file_mount *m, void *buf)
{
	int fd = file_open(m, &c->origin, READING), r;

	(void)buf;
	if (fd < 0)
		return fd;
	r = attr_of(m, fd, &c->meta.attr);
	if (r == 0 && (S_ISREG(c->meta.attr.mode) || S_ISDIR(c->meta.attr.mode)))
		r = file_xattr_meta(fd, &c->s->config.smb, &c->meta);
	close(fd);
	return r;
}

int file_work_target(int fd, char **out, size_t *len)
{
	char target[STUB_TARGET_MAX + 1];
	ssize_t n = readlinkat(fd, "", target, sizeof(target));

	if (n < 0)
		return file_errno(errno);
	if (n > STUB_TARGET_MAX)
		return -ENAMETOOLONG;
	*out = malloc((size_t)n + 1);
	if (!*out)
		return -ENOMEM;
	memcpy(*out, target, (size_t)n);
	*len = (size_t)n;
	return 0;
}

int file_work_readlink(struct file_call *c, const struct file_mount *m, void *buf)
{
	int fd = file_open(m, &c->origin, O_PATH), r;

	(void)buf;
	if (fd < 0)
		return fd;
	r = file_work_target(fd, &c->target, &c->target_len);
	close(fd);
	return r;
}

/* Open the file of @c for reading its bytes. */
static int open_file(struct file_call *c, const struct file_mount *m)
{
	int fd = file_open(m, &c->origin, READING), r;

	if (fd < 0)
		return fd;
	r = attr_of(m, fd, &c->attr);
	if (r == 0 && !S_ISREG(c->attr.mode))
		r = -ESTALE;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int file_work_open(struct file_call *c, const struct file_mount *m, void *buf)
{
	(void)buf;
	c->fd = open_file(c, m);
	return c->fd < 0 ? c->fd : 0;
}

/* The holes of a file from @at on, as far as the list goes. */
static int find_holes(int fd, uint64_t at, uint64_t size, struct source_holes *out)
{
	unsigned int steps = 0; /* small holes are passed over, and there may be millions */

	while (at < size && out->n < FILE_HOLES_MAX && steps++ < FILE_HOLE_STEPS) {
		off_t hole = lseek(fd, (off_t)at, SEEK_HOLE), data;

		if (hole < 0 && errno != ENXIO)
			return file_errno(errno);
		if (hole < 0 || (uint64_t)hole >= size) {
			at = size;
			break;
		}
		data = lseek(fd, hole, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return file_errno(errno);
		at = data < 0 || (uint64_t)data > size ? size : (uint64_t)data;
		if (at - (uint64_t)hole >= FILE_HOLE_MIN)
			out->hole[out->n++] = (struct stub_range){ (uint64_t)hole, at };
	}
	out->end = at;
	return 0;
}

int file_work_holes(struct file_call *c, const struct file_mount *m, void *buf)
{
	int fd, r;

	(void)buf;
	free(c->holes.hole);
	c->holes = (struct source_holes){ .hole = calloc(FILE_HOLES_MAX, sizeof(struct stub_range)) };
	if (!c->holes.hole)
		return -ENOMEM;
	fd = open_file(c, m);
	if (fd < 0)
		return fd;
	r = find_holes(fd, c->offset, c->attr.size, &c->holes);
	if (r == 0)
		r = attr_of(m, fd, &c->holes.attr);
	close(fd);
	return r;
}

int file_work_read(struct file_call *c, const struct file_mount *m, void *buf)
{
	int fd = open_file(c, m), r = fd < 0 ? fd : 0;
	uint32_t done = 0;
	ssize_t n = 1;

	while (r == 0 && done < c->length && n > 0) {
		n = pread(fd, (char *)buf + done, c->length - done, (off_t)(c->offset + done));
		if (n < 0)
			r = file_errno(errno);
		else
			done += (uint32_t)n;
	}
	/* attributes after the bytes: what was written before is seen in them */
	if (r == 0)
		r = attr_of(m, fd, &c->attr);
	if (fd >= 0)
		close(fd);
	c->data = buf;
	c->got = done;
	return r;
}
