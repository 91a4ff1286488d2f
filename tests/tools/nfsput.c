// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfsput N URL DIR - copy the directory DIR, with its name, into an NFS export, by N connections of one call
 * each: the yardstick for how fast a mirror catches up.
 *
 * Of libnfs's file API no more than a copy needs: directories first; of each file creation, bytes, a sync, and
 * times.  Prints one line of JSON: files, bytes, seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <nfsc/libnfs.h>

#define BLOCK (1u << 20)

static struct file {
	char *path;
	struct stat st;
} *files, *dirs;
static size_t n_files, n_dirs;
static const char *url;
static size_t above; /* bytes of what stands before the name of DIR */
static atomic_size_t next;
static _Atomic uint64_t bytes;

static void die(const char *what, const char *path, const char *why)
{
	fprintf(stderr, "nfsput: %s \"%s\": %s\n", what, path, why);
	exit(1);
}

static int found(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct file **list = type == FTW_D ? &dirs : &files;
	size_t *n = type == FTW_D ? &n_dirs : &n_files;

	(void)ftw;
	if (type != FTW_D && !S_ISREG(st->st_mode))
		return 0;
	*list = reallocarray(*list, *n + 1, sizeof(**list));
	if (!*list)
		die("memory for", path, strerror(ENOMEM));
	(*list)[*n].path = strdup(path);
	(*list)[(*n)++].st = *st;
	return 0;
}

static const char *there(const struct file *f)
{
	return f->path + above;
}

static struct nfs_context *mounted(void)
{
	struct nfs_context *nfs = nfs_init_context();
	struct nfs_url *u = nfs ? nfs_parse_url_dir(nfs, url) : NULL;

	if (!u || nfs_mount(nfs, u->server, u->path))
		die("mounting", url, nfs ? nfs_get_error(nfs) : strerror(ENOMEM));
	nfs_destroy_url(u);
	return nfs;
}

static void put(struct nfs_context *nfs, const struct file *f, char *buf)
{
	struct timeval times[2] = { { f->st.st_atim.tv_sec, f->st.st_atim.tv_nsec / 1000 },
				    { f->st.st_mtim.tv_sec, f->st.st_mtim.tv_nsec / 1000 } };
	struct nfsfh *to;
	ssize_t n;
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("opening", f->path, strerror(errno));
	if (nfs_creat(nfs, there(f), f->st.st_mode & 07777, &to))
		die("creating", there(f), nfs_get_error(nfs));
	while ((n = read(fd, buf, BLOCK)) > 0) {
		if (nfs_write(nfs, to, (uint64_t)n, buf) != n)
			die("writing", there(f), nfs_get_error(nfs));
		atomic_fetch_add(&bytes, (uint64_t)n);
	}
	if (n < 0 || close(fd) < 0)
		die("reading", f->path, strerror(errno));
	if (nfs_fsync(nfs, to) || nfs_close(nfs, to) || nfs_utimes(nfs, there(f), times))
		die("ending", there(f), nfs_get_error(nfs));
}

static void *worker(void *arg)
{
	char *buf = malloc(BLOCK);
	size_t i;

	if (!buf)
		die("memory for", url, strerror(ENOMEM));
	while ((i = atomic_fetch_add(&next, 1)) < n_files)
		put(arg, &files[i], buf);
	free(buf);
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned int n = argc == 4 ? (unsigned int)atoi(argv[1]) : 0;
	struct nfs_context **nfs = calloc(n ? n : 1, sizeof(*nfs));
	pthread_t *threads = calloc(n ? n : 1, sizeof(*threads));
	const char *name = argc == 4 ? strrchr(argv[3], '/') : NULL;
	double begin;

	if (n < 1 || n > 64 || !name || !name[1] || !nfs || !threads) {
		fputs("usage: nfsput N URL /DIR\n", stderr);
		return 2;
	}
	url = argv[2];
	above = (size_t)(name - argv[3]);
	if (nftw(argv[3], found, 16, FTW_PHYS) < 0)
		die("listing", argv[3], strerror(errno));
	for (unsigned int i = 0; i < n; i++)
		nfs[i] = mounted();
	begin = now();
	for (size_t i = 0; i < n_dirs; i++)
		if (nfs_mkdir2(nfs[0], there(&dirs[i]), dirs[i].st.st_mode & 07777))
			die("creating", there(&dirs[i]), nfs_get_error(nfs[0]));
	for (unsigned int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, worker, nfs[i]))
			die("thread", url, "cannot be begun");
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("{\"files\": %zu, \"bytes\": %" PRIu64 ", \"seconds\": %.4f}\n", n_files, bytes, now() - begin);
	return 0;
}
