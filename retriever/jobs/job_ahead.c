/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_ahead.c - attributes that a client is about to ask for.
 *
 * SMB servers and NFS's READDIRPLUS look at each entry of a directory in turn. Where each
 * costs a round trip of its own (entries of an SMB source begin as dummies), they would
 * wait for 100 000 of them one after another. So when a client asks for the attributes of one
 * entry after another, in the order in which the volume's file system lists them, those of
 * the next ones are fetched ahead: a window that doubles each time it was too small.
 *
 * A thread of its own keeps the directories and the places in them. Its jobs are in the
 * background, behind what clients ask for, and at most DEPTH at a time.
 *
 * Locking: ahead.lock is a leaf; the directories are the thread's own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs/jobs_internal.h"

#define DEPTH	    16 /* jobs at a time */
#define DIRS	    8 /* directories remembered */
#define LOOKS	    32 /* asks that wait for the thread; more are forgotten */
#define NEAR	    128 /* entries within which the next ask is one in order ... */
#define NEAR_FIRST  8 /* ... and the first one after another */
#define STRAYS	    16 /* asks out of order after which its place is looked for again */
#define WINDOW_LEAST 8
#define WINDOW_MOST 1024

struct place { /* in a directory that is being looked through */
	DIR *dir; /* NULL: free */
	dev_t dev;
	ino_t ino;
	uint64_t used; /* when it was asked for, in asks */
	unsigned int window, left, strays;
	ino_t begun[NEAR]; /* the last ones that were begun */
	unsigned int n_begun;
};

struct look { /* of a client, at an entry */
	int fd; /* the directory, the thread's to close */
	ino_t entry;
};

struct ahead {
	struct jobs *j;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* guarded by lock */
	bool stop;
	unsigned int running; /* jobs */
	struct look looks[LOOKS];
	unsigned int n_looks;
	/* the thread's own */
	struct place places[DIRS];
	uint64_t asks;
};

/* ---- where is it? ---- */

/* Its path may change meanwhile: nothing but the volume is opened. */
int jobs_open_parent(const struct jobs *j, int fd)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_XDEV };
	char link[2][64], path[2][PATH_MAX], *slash;
	int fds[2] = { stub_volume_fd(j->c.volume), fd };
	size_t root;

	for (unsigned int i = 0; i < 2; i++) {
		ssize_t n;

		snprintf(link[i], sizeof(link[i]), "/proc/self/fd/%d", fds[i]);
		n = readlink(link[i], path[i], sizeof(path[i]) - 1);
		if (n < 0)
			return -errno;
		path[i][n] = '\0';
	}
	root = strlen(path[0]);
	if (root == 1)
		root = 0; /* "/" */
	slash = strrchr(path[1], '/');
	if (strncmp(path[0], path[1], root) || !slash || path[1][root] != '/')
		return -ENOENT;
	*slash = '\0';
	fd = (int)syscall(SYS_openat2, fds[0], slash > path[1] + root ? path[1] + root + 1 : ".",
			  &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static void place_close(struct place *p)
{
	if (p->dir)
		closedir(p->dir);
	*p = (struct place){ 0 };
}

/* The place in the directory @fd, which is taken over. NULL: it cannot be read. */
static struct place *place_of(struct ahead *a, int fd)
{
	struct place *oldest = &a->places[0];
	struct stat st;

	if (fstat(fd, &st) < 0) {
		close(fd);
		return NULL;
	}
	for (struct place *p = a->places; p < a->places + DIRS; p++) {
		if (p->dir && p->ino == st.st_ino && p->dev == st.st_dev) {
			close(fd);
			return p;
		}
		if (p->used < oldest->used)
			oldest = p;
	}
	place_close(oldest);
	oldest->dir = fdopendir(fd);
	if (!oldest->dir) {
		close(fd);
		return NULL;
	}
	oldest->dev = st.st_dev;
	oldest->ino = st.st_ino;
	oldest->strays = STRAYS; /* so that the place is looked for with the first ask */
	return oldest;
}

/* Move the place behind @entry, if that is among the next @most entries; else leave it. */
static bool go_behind(struct place *p, ino_t entry, unsigned long most)
{
	long at = telldir(p->dir);
	struct dirent *d;

	while (most-- && (d = readdir(p->dir))) {
		if (d->d_ino == entry)
			return true;
	}
	seekdir(p->dir, at);
	return false;
}

static bool was_begun(const struct place *p, ino_t entry)
{
	for (unsigned int i = 0; i < NEAR; i++) {
		if (p->begun[i] == entry)
			return true;
	}
	return false;
}

static void take_look(struct ahead *a, const struct look *n)
{
	struct place *p = place_of(a, n->fd);

	if (!p)
		return;
	p->used = ++a->asks;
	if (was_begun(p, n->entry) ||
	    (p->strays < STRAYS && go_behind(p, n->entry, p->window ? NEAR : NEAR_FIRST))) {
		p->strays = 0;
		p->window = p->window ? p->window * 2 : WINDOW_LEAST;
		if (p->window > WINDOW_MOST)
			p->window = WINDOW_MOST;
		if (p->left < p->window)
			p->left = p->window;
		return;
	}
	if (++p->strays < STRAYS)
		return;
	p->strays = p->window = p->left = 0;
	rewinddir(p->dir);
	go_behind(p, n->entry, ULONG_MAX);
}

/* ---- on ---- */

/* Has the entry no attributes yet?  Then its handle. */
static bool is_dummy(struct jobs *j, int dir, const char *name, struct stub_handle *h)
{
	int r, fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stub_view view;

	if (fd < 0)
		return false;
	r = stub_handle_of_fd(fd, h);
	if (r == 0)
		r = stub_view_fd(j->c.volume, fd, &view);
	close(fd);
	return r == 0 && view.needs & STUB_NEEDS_ATTRS;
}

void jobs_ahead_done(struct jobs *j)
{
	struct ahead *a = j->ahead;

	pthread_mutex_lock(&a->lock);
	a->running--;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

/* The next entry of @p. */
static void step(struct ahead *a, struct place *p)
{
	struct dirent *d = readdir(p->dir);
	struct stub_handle h;

	if (!d) {
		place_close(p);
		return;
	}
	if (d->d_name[0] == '.' && (!d->d_name[1] || !strcmp(d->d_name, "..") ||
				    !strcmp(d->d_name, STUB_DIR)))
		return;
	if (!is_dummy(a->j, dirfd(p->dir), d->d_name, &h))
		return;
	p->begun[p->n_begun++ % NEAR] = d->d_ino;
	p->left--;
	pthread_mutex_lock(&a->lock);
	a->running++;
	pthread_mutex_unlock(&a->lock);
	if (!jobs_attr_ahead(a->j, &h))
		jobs_ahead_done(a->j);
}

static struct place *next_place(struct ahead *a)
{
	struct place *next = NULL;

	for (struct place *p = a->places; p < a->places + DIRS; p++) {
		if (p->dir && p->left && (!next || p->used > next->used))
			next = p;
	}
	return next;
}

static void *ahead_thread(void *arg)
{
	struct ahead *a = arg;
	struct place *p;

	pthread_mutex_lock(&a->lock);
	while (!a->stop) {
		if (a->n_looks) {
			struct look n = a->looks[0];

			memmove(a->looks, a->looks + 1, --a->n_looks * sizeof(n));
			pthread_mutex_unlock(&a->lock);
			take_look(a, &n);
		} else if (a->running < DEPTH && (p = next_place(a))) {
			pthread_mutex_unlock(&a->lock);
			step(a, p);
		} else {
			pthread_cond_wait(&a->wake, &a->lock);
			continue;
		}
		pthread_mutex_lock(&a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

void jobs_ahead_asked(struct jobs *j, const struct stub_object *o)
{
	struct ahead *a = j->ahead;
	struct stat st;
	int fd;

	if (fstat(o->fd, &st) < 0 || (fd = jobs_open_parent(j, o->fd)) < 0)
		return;
	pthread_mutex_lock(&a->lock);
	if (!a->stop && a->n_looks < LOOKS) {
		a->looks[a->n_looks++] = (struct look){ fd, st.st_ino };
		fd = -1;
		pthread_cond_signal(&a->wake);
	}
	pthread_mutex_unlock(&a->lock);
	if (fd >= 0)
		close(fd);
}

/* ---- life ---- */

int jobs_ahead_start(struct jobs *j)
{
	struct ahead *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	a->j = j;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	j->ahead = a;
	r = -pthread_create(&a->thread, NULL, ahead_thread, a);
	if (r < 0)
		a->stop = true; /* there is nothing to wait for */
	return r;
}

void jobs_ahead_stop(struct jobs *j)
{
	struct ahead *a = j->ahead;
	bool stopped;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	stopped = a->stop;
	a->stop = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	if (!stopped)
		pthread_join(a->thread, NULL);
	for (unsigned int i = 0; i < a->n_looks; i++)
		close(a->looks[i].fd);
	a->n_looks = 0;
	for (struct place *p = a->places; p < a->places + DIRS; p++)
		place_close(p);
}

void jobs_ahead_destroy(struct jobs *j)
{
	if (!j->ahead)
		return;
	pthread_cond_destroy(&j->ahead->wake);
	pthread_mutex_destroy(&j->ahead->lock);
	free(j->ahead);
}
