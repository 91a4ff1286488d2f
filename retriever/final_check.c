/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * final_check.c - the walk before the end, in a thread of its own: it may take long, and
 * clients are served meanwhile.
 *
 * What the walk finds, people have to remove.  Some of it is remembered by handle and looked
 * at now and then; when all of that is gone, the walk is done again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "final_check.h"

#define LOOK_MS	  5000 /* between two looks at what was found */
#define FAILED_MS 30000 /* after a walk that broke off */
#define AGAIN_MS  600000 /* after a walk that has left nothing to look at by handle */

struct final_check {
	struct control_config c;
	pthread_t thread;
	bool joinable;
	_Atomic bool stop;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	uint64_t began_ms, look_ms; /* look_ms: not before */
	struct final_found found;
	struct stub_handle at[FINAL_PATHS]; /* of found.path */
};

#define say(f, level, ...) stub_log_to((f)->c.log, (f)->c.log_arg, level, __VA_ARGS__)

/* The path of @fd below the volume, or what the kernel calls it. */
static void path_of(struct final_check *f, int fd, char out[PATH_MAX])
{
	char link[32], root[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", stub_volume_fd(f->c.volume));
	n = readlink(link, root, sizeof(root) - 1);
	root[n < 0 ? 0 : n] = '\0';
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	out[n < 0 ? 0 : n] = '\0';
	n = (ssize_t)strlen(root);
	if (n > 0 && !strncmp(out, root, (size_t)n) && out[n] == '/')
		memmove(out, out + n + 1, strlen(out + n + 1) + 1);
}

static bool go_on(void *arg, const struct stub_scan *s)
{
	(void)s;
	return !atomic_load(&((struct final_check *)arg)->stop);
}

static void note(void *arg, int fd, const struct stub_handle *h, bool foreign)
{
	struct final_check *f = arg;
	unsigned int i;

	(void)foreign;
	pthread_mutex_lock(&f->lock);
	i = f->found.n;
	if (i < FINAL_PATHS) {
		path_of(f, fd, f->found.path[i]);
		f->at[i] = *h;
		f->found.n++;
	}
	pthread_mutex_unlock(&f->lock);
	if (i >= FINAL_PATHS)
		return;
	say(f, STUB_LOG_WARN, "%s: %s; remove it", f->found.path[i],
	    foreign ? "the copy of a stub, whose content is not here" :
		      "its stub record is damaged");
}

static enum final_state judge(struct final_check *f, int r, const struct stub_scan *s)
{
	if (r == -ECANCELED)
		return FINAL_DUE;
	if (r < 0) {
		say(f, STUB_LOG_WARN, "the check before the end broke off: %s", strerror(-r));
		return FINAL_FAILED;
	}
	if (stub_scan_whole(s))
		return FINAL_WHOLE;
	say(f, STUB_LOG_WARN,
	    "counter is 0, but the volume is not complete: %llu copies of stubs, %llu damaged "
	    "records, %llu stubs that are not in the journal; see \"blocked\" in postcopy(8)",
	    (unsigned long long)s->foreign, (unsigned long long)s->corrupt,
	    (unsigned long long)(s->stubs + s->unlisted));
	return FINAL_FOUND;
}

static void *check_thread(void *arg)
{
	struct final_check *f = arg;
	struct stub_scan_calls calls = {
		.journal = f->c.journal, .progress = go_on, .found = note, .arg = f
	};
	struct stub_scan s;
	enum final_state state;

	state = judge(f, stub_scan_calling(f->c.volume, &calls, &s), &s);
	pthread_mutex_lock(&f->lock);
	f->found.state = state;
	f->found.copies = s.foreign;
	f->found.damaged = s.corrupt;
	f->found.stubs = s.stubs + s.unlisted;
	f->look_ms = stub_now_ms() + (state == FINAL_FAILED ? FAILED_MS :
				      f->found.n	    ? LOOK_MS :
							      AGAIN_MS);
	pthread_cond_broadcast(&f->ended);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* With the lock. */
static void begin(struct final_check *f)
{
	if (f->joinable) /* it has ended, or is about to return */
		pthread_join(f->thread, NULL);
	memset(&f->found, 0, sizeof(f->found));
	f->began_ms = stub_now_ms();
	f->joinable = pthread_create(&f->thread, NULL, check_thread, f) == 0;
	f->found.state = f->joinable ? FINAL_RUNNING : FINAL_DUE;
}

enum final_state final_check_run(struct final_check *f)
{
	enum final_state state;

	pthread_mutex_lock(&f->lock);
	if (f->found.state == FINAL_DUE && !atomic_load(&f->stop))
		begin(f);
	state = f->found.state;
	pthread_mutex_unlock(&f->lock);
	return state;
}

static bool is_gone(struct final_check *f, const struct stub_handle *h)
{
	int fd = stub_handle_open_at(stub_volume_fd(f->c.volume), h, O_PATH | O_CLOEXEC);
	struct stat st;
	bool gone;

	if (fd < 0)
		return fd == -ESTALE;
	gone = stub_marked(fd) == 0 || (fstat(fd, &st) == 0 && st.st_nlink == 0);
	close(fd);
	return gone;
}

void final_check_tick(struct final_check *f)
{
	bool due = true;

	pthread_mutex_lock(&f->lock);
	if ((f->found.state == FINAL_FOUND || f->found.state == FINAL_FAILED) &&
	    stub_now_ms() >= f->look_ms) {
		for (unsigned int i = 0; due && i < f->found.n; i++)
			due = is_gone(f, &f->at[i]);
		if (due)
			f->found.state = FINAL_DUE;
		else
			f->look_ms = stub_now_ms() + LOOK_MS;
	}
	pthread_mutex_unlock(&f->lock);
}

void final_check_again(struct final_check *f)
{
	pthread_mutex_lock(&f->lock);
	if (f->found.state == FINAL_FOUND || f->found.state == FINAL_FAILED)
		f->found.state = FINAL_DUE;
	pthread_mutex_unlock(&f->lock);
}

bool final_check_wait(struct final_check *f, unsigned int ms)
{
	bool ran;

	pthread_mutex_lock(&f->lock);
	ran = f->found.state == FINAL_RUNNING;
	while (f->found.state == FINAL_RUNNING &&
	       stub_cond_wait_until(&f->ended, &f->lock, f->began_ms + ms) == 0)
		;
	ran = ran && f->found.state != FINAL_RUNNING;
	pthread_mutex_unlock(&f->lock);
	return ran;
}

void final_check_found(struct final_check *f, struct final_found *out)
{
	pthread_mutex_lock(&f->lock);
	*out = f->found;
	pthread_mutex_unlock(&f->lock);
}

int final_check_create(const struct control_config *c, struct final_check **out)
{
	struct final_check *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->c = *c;
	pthread_mutex_init(&f->lock, NULL);
	stub_cond_init(&f->ended);
	*out = f;
	return 0;
}

void final_check_destroy(struct final_check *f)
{
	if (!f)
		return;
	atomic_store(&f->stop, true);
	if (f->joinable)
		pthread_join(f->thread, NULL);
	pthread_cond_destroy(&f->ended);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
