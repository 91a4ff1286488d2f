// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfscopy URL DIR - copy an NFS export into an empty directory: a plain client, one
 * file after the other and one call at a time, as smbclient's mget is for SMB.
 *
 * libnfs by path, a LOOKUP for each component; regular files and directories only.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nfsc/libnfs.h>

#define BLOCK (1u << 20) /* what a server takes at once */

static char block[BLOCK];

static void die(const char *what, const char *path, const char *why)
{
	fprintf(stderr, "nfscopy: %s \"%s\": %s\n", what, path, why);
	exit(1);
}

static void write_all(int fd, const char *p, size_t n, const char *name)
{
	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0)
			die("writing", name, strerror(errno));
		p += w;
		n -= (size_t)w;
	}
}

static void copy_file(struct nfs_context *nfs, const char *path, int dir, const char *name)
{
	int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644), n;
	struct nfsfh *f;

	if (fd < 0)
		die("creating", name, strerror(errno));
	if (nfs_open(nfs, path, O_RDONLY, &f) < 0)
		die("opening", path, nfs_get_error(nfs));
	while ((n = nfs_read(nfs, f, BLOCK, block)) > 0)
		write_all(fd, block, (size_t)n, name);
	if (n < 0)
		die("reading", path, nfs_get_error(nfs));
	nfs_close(nfs, f);
	if (close(fd) < 0)
		die("closing", name, strerror(errno));
}

static void copy_dir(struct nfs_context *nfs, const char *path, int into)
{
	struct nfsdirent *e;
	struct nfsdir *d;
	char below[PATH_MAX];

	if (nfs_opendir(nfs, path, &d) < 0)
		die("listing", path, nfs_get_error(nfs));
	while ((e = nfs_readdir(nfs, d))) {
		if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
			continue;
		if (snprintf(below, sizeof(below), "%s/%s", *path == '/' && !path[1] ? "" : path,
			     e->name) >= (int)sizeof(below))
			die("path", path, "too long");
		if (S_ISDIR(e->mode)) {
			int fd;

			if (mkdirat(into, e->name, 0755) < 0)
				die("creating", e->name, strerror(errno));
			fd = openat(into, e->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (fd < 0)
				die("opening", e->name, strerror(errno));
			copy_dir(nfs, below, fd);
			close(fd);
		} else if (S_ISREG(e->mode)) {
			copy_file(nfs, below, into, e->name);
		}
	}
	nfs_closedir(nfs, d);
}

int main(int argc, char **argv)
{
	struct nfs_context *nfs = nfs_init_context();
	struct nfs_url *url;
	int into;

	if (argc != 3 || !nfs) {
		fputs("usage: nfscopy nfs://HOST/EXPORT[?nfsport=N&mountport=N&version=3] DIR\n",
		      stderr);
		return 64;
	}
	url = nfs_parse_url_dir(nfs, argv[1]);
	if (!url || nfs_mount(nfs, url->server, url->path) < 0)
		die("mounting", argv[1], nfs_get_error(nfs));
	into = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (into < 0)
		die("opening", argv[2], strerror(errno));
	copy_dir(nfs, "/", into);
	close(into);
	nfs_destroy_url(url);
	nfs_destroy_context(nfs);
	return 0;
}
