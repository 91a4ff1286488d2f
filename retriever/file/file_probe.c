// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_probe.c - one try, and what the file system says of itself.
 *
 * The try is made by a thread of its own: a disk that hangs must not hang init.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "file/file.h"

struct probe {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int refs;
	bool over;
	int r;
	struct file_uri uri;
	struct source_traits traits;
	char why[FILE_WHY_MAX];
};

static void put(struct probe *p)
{
	bool last;

	pthread_mutex_lock(&p->lock);
	last = --p->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (!last)
		return;
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* A source inside of a volume would be asked for what it is itself asked for. */
static int check_outside(struct probe *p, int fd)
{
	char path[PATH_MAX] = "";
	int r = stub_dir_foreign(NULL, fd, path, sizeof(path));

	if (r == 0 || r == -ENOENT)
		return 0;
	snprintf(p->why, sizeof(p->why),
		 "%.80s lies in %.80s, which is or was a volume of postcopy and "
		 "is not complete",
		 p->uri.path, path);
	return -EPROTO;
}

static void take_traits(int fd, struct source_traits *t)
{
	struct statvfs fs;
	long links = fpathconf(fd, _PC_LINK_MAX);

	t->have_info = true;
	t->hard_links = t->symlinks = true;
	t->max_file_size = INT64_MAX;
	t->have_acl = true;
	t->acl = fgetxattr(fd, "system.posix_acl_access", NULL, 0) >= 0 || errno != EOPNOTSUPP;
	if (fstatvfs(fd, &fs) < 0)
		return;
	t->read_only = fs.f_flag & ST_RDONLY;
	t->have_names = t->chown_restricted = t->case_preserving = true;
	t->link_max = links > 0 ? (uint32_t)links : 0;
	t->name_max = (uint32_t)fs.f_namemax;
	t->have_space = true;
	t->bytes_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	t->bytes_free = (uint64_t)fs.f_bfree * fs.f_frsize;
	t->files_total = fs.f_files;
	t->files_free = fs.f_ffree;
}

static void *run(void *arg)
{
	struct probe *p = arg;
	struct file_mount *m = NULL;
	int r = file_mount_open(p->uri.path, NULL, &m, p->why, sizeof(p->why));

	if (r == 0)
		r = check_outside(p, m->fd);
	if (r == 0)
		take_traits(m->fd, &p->traits);
	file_mount_close(m);
	pthread_mutex_lock(&p->lock);
	p->r = r;
	p->over = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	put(p);
	return NULL;
}

static int start(struct probe *p)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	p->refs++;
	r = pthread_create(&thread, &attr, run, p);
	if (r)
		p->refs--;
	pthread_attr_destroy(&attr);
	return -r;
}

int file_source_traits(const struct source_config *c, unsigned int timeout_ms,
		       struct source_traits *out, char *why, size_t size)
{
	struct probe *p = calloc(1, sizeof(*p));
	uint64_t end = stub_now_ms() + timeout_ms;
	char text[FILE_WHY_MAX - 16];
	int r;

	if (!p)
		return -EPROTO;
	pthread_mutex_init(&p->lock, NULL);
	stub_cond_init(&p->changed);
	p->refs = 1;
	r = file_uri_parse(c->uri, &p->uri, text, sizeof(text));
	if (r < 0)
		snprintf(why, size, "source URI %s", text);
	else
		r = start(p);
	pthread_mutex_lock(&p->lock);
	while (r == 0 && !p->over && stub_now_ms() < end)
		stub_cond_wait_until(&p->changed, &p->lock, end);
	if (r == 0 && !p->over) {
		r = -ETIMEDOUT;
		snprintf(why, size, "%.100s: the file system does not answer", p->uri.path);
	} else if (r == 0) {
		r = p->r;
		snprintf(why, size, "%s", p->why);
		*out = p->traits;
	}
	pthread_mutex_unlock(&p->lock);
	put(p);
	return r == -ENOENT || r == -EACCES || r == -ETIMEDOUT || r == 0 ? r : -EPROTO;
}

int file_source_probe(const struct source_config *c, unsigned int timeout_ms, char *why,
		      size_t size)
{
	struct source_traits traits;

	return file_source_traits(c, timeout_ms, &traits, why, size);
}
