/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * lagging.c - lists of the records that lag, for other processes to find.
 *
 * A process that folds (fold.c) knows in memory which records it has to fold.  When it is
 * killed that is gone; so each also keeps a list in a file, .postcopy/lagging/PID-N,
 * from the first lagging record of a round to the end of that round.  The file is locked
 * (an OFD lock) as long as its owner lives.  One that is not locked is a dead process's, and
 * the next process that looks adopts it: sync, fold, remove.  A file is locked before it is
 * visible, so that no new one is taken for a dead process's.
 *
 * The file need not be durable: after another boot, and in another era, the durable map is
 * the truth for all records, and there is nothing to fold.  Folding what does not lag does
 * no harm, so it may name too much; naming too little is forbidden, and therefore the note
 * comes before the record, and who cannot write it syncs instead.
 *
 *   8 bytes magic  u64 boot id  u64 mount    each entry: u32 type  u8 len  handle, padded
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "lagging.h"
#include "volume.h"

#define MAGIC	   0x31676c6350u /* "Pclg1" */
#define HEADER	   24
#define ENTRY	   136
#define SLICE	   1024 /* records folded by one sync */

/* ---- a live one ---- */

/*
 * What tells one mount of the file system from the next, in this boot: the number of its
 * directory in sysfs, which is made by the mount and never given again.  0: not known.
 */
static uint64_t mount_number(const struct stub_volume *v)
{
	static const char *const types[] = { "xfs", "ext4" };
	char path[64], link[512], *name;
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(v->dev), minor(v->dev));
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return 0;
	link[n] = '\0';
	name = strrchr(link, '/');
	for (size_t i = 0; name && strlen(name) < 40 && i < ARRAY_LEN(types); i++) {
		snprintf(path, sizeof(path), "/sys/fs/%s%s", types[i], name);
		if (stat(path, &st) == 0)
			return st.st_ino;
	}
	return 0;
}

static int lock(int fd)
{
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &f) < 0 ? -errno : 0;
}

static int open_dir(const struct stub_volume *v, bool make)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	int fd = openat(v->dir_fd, STUB_LAGGING, flags);

	if (fd < 0 && errno == ENOENT && make &&
	    (mkdirat(v->dir_fd, STUB_LAGGING, 0700) == 0 || errno == EEXIST))
		fd = openat(v->dir_fd, STUB_LAGGING, flags);
	return fd < 0 ? -errno : fd;
}

static int put_header(const struct stub_volume *v, int fd)
{
	uint8_t b[HEADER];

	stub_put_le(b, MAGIC, 8);
	stub_put_le(b + 8, v->boot, 8);
	stub_put_le(b + 16, mount_number(v), 8);
	return stub_io_pwrite(fd, b, sizeof(b), 0);
}

static int begin(const struct stub_volume *v, struct stub_lagging *l)
{
	int r, dir_fd CLEANUP_CLOSE = open_dir(v, true);
	struct stub_unnamed u;

	if (dir_fd < 0)
		return dir_fd;
	l->n = 0;
	r = stub_unnamed_open(v, dir_fd, &u);
	if (r < 0)
		return r;
	r = put_header(v, u.fd);
	if (r == 0)
		r = lock(u.fd);
	if (r == 0)
		r = stub_unnamed_number(v, &u, dir_fd, l->name, sizeof(l->name));
	if (r == 0)
		l->fd = stub_steal_fd(&u.fd);
	stub_unnamed_drop(v, &u);
	return r;
}

int stub_lagging_add(const struct stub_volume *v, struct stub_lagging *l,
		     const struct stub_handle *h)
{
	uint8_t b[ENTRY] = { 0 };
	int r = l->fd < 0 ? begin(v, l) : 0;

	if (r < 0)
		return r;
	stub_put_le(b, (uint32_t)h->type, 4);
	b[4] = h->len;
	memcpy(b + 5, h->bytes, h->len);
	r = stub_io_pwrite(l->fd, b, sizeof(b), HEADER + l->n * ENTRY);
	if (r == 0)
		l->n++;
	return r;
}

void stub_lagging_end(const struct stub_volume *v, struct stub_lagging *l)
{
	int dir_fd CLEANUP_CLOSE = -1;

	if (l->fd < 0)
		return;
	dir_fd = open_dir(v, false);
	if (dir_fd >= 0)
		unlinkat(dir_fd, l->name, 0);
	close(stub_steal_fd(&l->fd));
}

void stub_lagging_leave(struct stub_lagging *l)
{
	stub_cleanup_close(&l->fd);
	l->fd = -1;
}

/* ---- folding ---- */

/* Is there nothing more to do after this result of a fold? */
static bool settled(int r)
{
	return r == 0 || r == -EAGAIN /* another era: nothing lags */ || r == -ESTALE ||
	       r == -EBADMSG || r == -EINVAL /* no handle */;
}

static int fold_slice(struct stub_volume *v, const struct stub_handle *h, size_t n, bool *again)
{
	struct stub_commit *c CLEANUP_FREE = calloc(n, sizeof(*c));
	size_t left = 0;
	int r;

	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		r = stub_commit_prepare_quiet(v, &h[i], &c[i]);
		again[i] = !settled(r);
		left += again[i];
	}
	if (left < n && syncfs(v->fd) < 0) {
		stub_log(&v->log, STUB_LOG_ERROR, "sync of the volume: %s", strerror(errno));
		stub_volume_new_era(v);
	}
	for (size_t i = 0; i < n; i++) {
		/* it folds nothing if the era has changed since it was prepared */
		if (c[i].stub)
			again[i] = !settled(stub_commit_fold(&c[i]));
	}
	return 0;
}

size_t stub_lagging_fold(struct stub_volume *v, struct stub_handle *h, size_t n)
{
	bool again[SLICE];
	size_t kept = 0;

	for (size_t at = 0; at < n; at += SLICE) {
		size_t part = n - at < SLICE ? n - at : SLICE;
		bool failed = fold_slice(v, h + at, part, again) < 0;

		for (size_t i = 0; i < part; i++)
			if (failed || again[i])
				h[kept++] = h[at + i];
	}
	return kept;
}

/* ---- a dead one's ---- */

static bool entry_get(const uint8_t *b, struct stub_handle *h)
{
	*h = (struct stub_handle){ .type = (int32_t)stub_get_le(b, 4), .len = b[4] };
	if (h->len == 0 || h->len > STUB_HANDLE_MAX)
		return false;
	memcpy(h->bytes, b + 5, h->len);
	return true;
}

/* Was it made in this very mount of the file system? */
static bool of_this_mount(const struct stub_volume *v, int fd)
{
	uint64_t mount = mount_number(v);
	uint8_t b[HEADER];

	return pread(fd, b, sizeof(b), 0) == sizeof(b) && stub_get_le(b, 8) == MAGIC &&
	       stub_get_le(b + 8, 8) == v->boot && mount && stub_get_le(b + 16, 8) == mount;
}

/* What is in it.  How many, or -errno. */
static ssize_t load(int fd, struct stub_handle **out)
{
	struct stub_handle *h;
	uint8_t b[ENTRY];
	struct stat st;
	size_t n = 0, max;

	*out = NULL;
	if (fstat(fd, &st) < 0)
		return -errno;
	max = st.st_size > HEADER ? (size_t)(st.st_size - HEADER) / ENTRY : 0;
	h = calloc(max + 1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	for (size_t i = 0; i < max; i++) {
		ssize_t got = pread(fd, b, sizeof(b), (off_t)(HEADER + i * ENTRY));

		if (got < 0) {
			int r = -errno;

			free(h);
			return r;
		}
		if (got == sizeof(b) && entry_get(b, &h[n]))
			n++;
	}
	*out = h;
	return (ssize_t)n;
}

static void adopt_one(struct stub_volume *v, int dir_fd, const char *name, bool alone)
{
	int fd CLEANUP_CLOSE = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stub_handle *h CLEANUP_FREE = NULL;
	struct stat st;
	ssize_t n;
	size_t left;

	if (fd < 0 || lock(fd) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0)
		return; /* its owner lives, or somebody else was first */
	if (alone && !of_this_mount(v, fd)) {
		unlinkat(dir_fd, name, 0);
		return;
	}
	n = load(fd, &h);
	left = n > 0 ? stub_lagging_fold(v, h, (size_t)n) : 0;
	if (n < 0 || left > 0) { /* the list stays, for the next look */
		stub_log(&v->log, STUB_LOG_WARN,
			 "what a process that died wrote last cannot be made durable yet: %s",
			 n < 0 ? strerror((int)-n) : "its records cannot be stored");
		return;
	}
	unlinkat(dir_fd, name, 0);
	if (n > 0)
		stub_log(&v->log, STUB_LOG_INFO,
			 "what a process that died wrote last is durable: %zd objects", n);
}

void stub_lagging_adopt(struct stub_volume *v, bool alone)
{
	int fd = open_dir(v, false);
	struct dirent *d;
	DIR *dir;

	if (fd < 0)
		return;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_name[0] != '.')
			adopt_one(v, fd, d->d_name, alone);
	closedir(dir);
}
