/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * serve_socket.c - the name under which the retriever listens.
 *
 * Only root may connect: the name has mode 0600 from its first moment on.  The
 * name of a retriever that died is taken over, that of a living one never (a
 * connect tells); two that start at once are kept apart by a lock on the
 * directory, which must exist.
 */
#include <fcntl.h>
#include <libgen.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "wire.h"

#define BACKLOG 4096 /* a file server's sessions may all come at once, after a restart */

/* Does anybody listen at @addr? */
static bool alive(const struct sockaddr_un *addr)
{
	int fd CLEANUP_CLOSE = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return true; /* cannot tell: keep off */
	return connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ||
	       errno != ECONNREFUSED;
}

/* Take the name of a dead retriever's socket away. */
static int remove_stale(const struct sockaddr_un *addr, const struct stub_log *log)
{
	struct stat st;

	if (lstat(addr->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode) || alive(addr)) {
		stub_log(log, STUB_LOG_ERROR, "asks: %s is in use", addr->sun_path);
		return -EADDRINUSE;
	}
	return unlink(addr->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

/* With the directory locked against others who start. */
static int bind_locked(struct stub_serve_socket *s, const struct sockaddr_un *addr,
		       const struct stub_log *log)
{
	struct stat st;
	int r = remove_stale(addr, log);

	if (r < 0)
		return r;
	/* the mode that the name gets; umask could only be changed for all threads */
	if (fchmod(s->fd, 0600) < 0)
		return -errno;
	if (bind(s->fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0)
		return -errno;
	if (lstat(addr->sun_path, &st) < 0)
		return -errno;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	if ((st.st_mode & 07777) != 0600 && chmod(addr->sun_path, 0600) < 0)
		return -errno;
	return listen(s->fd, BACKLOG) < 0 ? -errno : 0;
}

static int open_socket(struct stub_serve_socket *s, const char *path, const struct stub_log *log)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char dir[STUB_PATH_MAX + 1];
	int dir_fd CLEANUP_CLOSE = -1;
	int r;

	if (!path[0] || strlen(path) > STUB_PATH_MAX)
		return -EINVAL;
	strcpy(addr.sun_path, path);
	strcpy(s->path, path);
	strcpy(dir, path);
	dir_fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	r = stub_io_flock(dir_fd);
	if (r < 0)
		return r;
	r = bind_locked(s, &addr, log);
	flock(dir_fd, LOCK_UN);
	return r;
}

int stub_serve_socket_open(const char *path, const struct stub_log *log,
			   struct stub_serve_socket *out)
{
	int r;

	memset(out, 0, sizeof(*out));
	out->fd = -1;
	r = open_socket(out, path, log);
	if (r < 0)
		stub_serve_socket_close(out);
	return r;
}

void stub_serve_socket_close(struct stub_serve_socket *s)
{
	struct stat st;

	if (s->ino && lstat(s->path, &st) == 0 && st.st_ino == s->ino && st.st_dev == s->dev)
		unlink(s->path);
	s->ino = 0;
	if (s->fd >= 0)
		shutdown(s->fd, SHUT_RDWR); /* also for copies in forked children */
	stub_cleanup_close(&s->fd);
	s->fd = -1;
}
