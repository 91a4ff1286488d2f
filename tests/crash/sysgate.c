/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sysgate: stops a process tree at every system call that changes one file system.
 *
 *   sysgate -l LOG -c CONTROL -- COMMAND...
 *
 * The command, its threads and all its children run with a seccomp filter that
 * hands the calls of the table below to us before they are made.  Those on the
 * watched file system are numbered, logged, and may be acted on; one is let through
 * at a time, after what was to be done before it is done.
 *
 * Control.  CONTROL is a regular file.  Each write(2) to it by a process of the tree
 * is one command, obeyed before the write returns; it fails with EINVAL if it was
 * none.  So commands have a place in the order of calls.
 *   watch DIR          number the calls on the file system at DIR, from 1
 *   unwatch            and forget all that follows
 *   snap IMAGE DIR     before each call that changes something, and at `unwatch`,
 *                      copy IMAGE (reflink) to DIR/NUMBER.img: what SIGKILL at that
 *                      point leaves, since the page cache survives it
 *   kill N NAME        SIGKILL the process that makes the N-th call of processes
 *                      called NAME (a prefix), instead of that call
 *   killall N NAME...  at call N of all: SIGKILL every process so called
 *   fail N NAME ERROR  the N-th call fails (ENOSPC, EDQUOT, EIO)
 *   fail every CALL ERROR   every call of that name fails
 *   mark TEXT          is written to the log
 *
 * LOG has lines
 *   call NUMBER NAME K PID CALL PATH [PATH2]   K: the K-th call of that NAME
 *   snap NUMBER | killed PID NAME | failed NUMBER | mark TEXT | > COMMAND
 *
 * Not seen: writes through mmap (MS_SYNC msync is), io_uring (refused with ENOSYS).
 * Needs root.  Exit status: the command's; 125 if the gate itself fails.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sysgate.h"

#define NAMES_MAX 16
#define COMMAND_MAX 4096

struct named {
	char name[16];
	unsigned long calls;
};

struct gate {
	FILE *log;
	struct stat control;
	bool watching;
	int root; /* of the watched file system */
	dev_t dev;
	unsigned long calls;
	struct named named[NAMES_MAX]; /* whom we have met */
	char image[PATH_MAX], images[PATH_MAX]; /* empty: no snapshots */
	unsigned long kill_at, fail_at;
	char kill_name[16], fail_name[16], fail_call[32];
	char killall[COMMAND_MAX]; /* names, separated by blanks */
	int fail_error;
};

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "sysgate: %s: %s\n", what, strerror(errno));
	exit(125);
}

/* ---- acting ---- */

static void snapshot(struct gate *g)
{
	char path[PATH_ROOM];
	int from, to;

	if (!g->image[0])
		return;
	snprintf(path, sizeof(path), "%s/%06lu.img", g->images, g->calls);
	from = open(g->image, O_RDONLY | O_CLOEXEC);
	to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (from < 0 || to < 0 || syncfs(g->root) < 0 || ioctl(to, FICLONE, from) < 0)
		die("snapshot");
	close(from);
	close(to);
	fprintf(g->log, "snap %lu\n", g->calls);
	fflush(g->log);
}

static unsigned long count_named(struct gate *g, const char *name)
{
	for (int i = 0; i < NAMES_MAX; i++) {
		if (!g->named[i].name[0])
			strcpy(g->named[i].name, name);
		if (!strcmp(g->named[i].name, name))
			return ++g->named[i].calls;
	}
	errno = E2BIG;
	die("names of processes");
}

static bool is_called(const char *name, const char *prefix)
{
	return prefix[0] && !strncmp(name, prefix, strlen(prefix));
}

static void kill_one(struct gate *g, pid_t pid, const char *name)
{
	kill(pid, SIGKILL);
	fprintf(g->log, "killed %d %s\n", pid, name);
}

static bool is_below(pid_t pid)
{
	char text[1024], *at;

	for (int depth = 0; depth < 64 && pid > 1; depth++) {
		if (!proc_read(pid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')))
			return false;
		pid = atoi(at + 4);
		if (pid == getpid())
			return true;
	}
	return false;
}

/* Was @caller among them? */
static bool kill_all(struct gate *g, pid_t caller)
{
	char names[COMMAND_MAX], comm[16], *save;
	DIR *proc = opendir("/proc");
	struct dirent *e;
	bool itself = false;

	while (proc && (e = readdir(proc))) {
		pid_t pid = atoi(e->d_name);

		strcpy(names, g->killall);
		if (pid <= 1 || !proc_read(pid, "comm", comm, sizeof(comm)) || !is_below(pid))
			continue;
		comm[strcspn(comm, "\n")] = '\0';
		for (char *n = strtok_r(names, " ", &save); n; n = strtok_r(NULL, " ", &save))
			if (is_called(comm, n)) {
				kill_one(g, pid, comm);
				itself |= pid == caller;
			}
	}
	if (!proc)
		die("/proc");
	closedir(proc);
	g->killall[0] = '\0';
	return itself;
}

/* A call on the volume.  0: let it go; else the error it gets. */
static int pass(struct gate *g, struct call *c)
{
	unsigned long k;
	int error = 0;

	call_identify(c);
	g->calls++;
	k = count_named(g, c->name);
	fprintf(g->log, "call %lu %s %lu %d %s %s %s\n", g->calls, c->name, k, c->pid,
		c->what->name, c->path[0], c->path[1]);
	if (c->what->changes)
		snapshot(g);
	/* who is killed must not get as far as the call while the signal is on its way */
	if (g->killall[0] && g->calls == g->kill_at) {
		error = kill_all(g, c->pid) ? EINTR : 0;
	} else if (k == g->kill_at && is_called(c->name, g->kill_name)) {
		kill_one(g, c->pid, c->name);
		error = EINTR;
	} else if ((k == g->fail_at && is_called(c->name, g->fail_name)) ||
		   !strcmp(g->fail_call, c->what->name)) {
		fprintf(g->log, "failed %lu\n", g->calls);
		error = g->fail_error;
	}
	fflush(g->log);
	return error;
}

/* ---- commands ---- */

static int watch(struct gate *g, const char *dir)
{
	struct stat st;
	FILE *log = g->log;
	struct stat control = g->control;

	if (g->watching)
		close(g->root);
	memset(g, 0, sizeof(*g));
	g->log = log;
	g->control = control;
	g->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (g->root < 0 || fstat(g->root, &st) < 0)
		return EINVAL;
	g->dev = st.st_dev;
	g->watching = true;
	return 0;
}

static int unwatch(struct gate *g)
{
	if (!g->watching)
		return EINVAL;
	g->calls++;
	snapshot(g);
	close(g->root);
	g->watching = false;
	return 0;
}

static int error_number(const char *name)
{
	static const struct {
		const char *name;
		int error;
	} errors[] = { { "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "EIO", EIO } };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(errors[i].name, name))
			return errors[i].error;
	return 0;
}

static int obey(struct gate *g, char *text)
{
	char a[PATH_MAX], b[PATH_MAX];

	text[strcspn(text, "\n")] = '\0';
	fprintf(g->log, "%s%s\n", strncmp(text, "mark ", 5) ? "> " : "", text);
	fflush(g->log);
	if (!strncmp(text, "mark ", 5))
		return 0;
	if (sscanf(text, "watch %4095s", a) == 1)
		return watch(g, a);
	if (!strcmp(text, "unwatch"))
		return unwatch(g);
	if (sscanf(text, "snap %4095s %4095s", g->image, g->images) == 2)
		return 0;
	if (sscanf(text, "kill %lu %15s", &g->kill_at, g->kill_name) == 2)
		return 0;
	if (sscanf(text, "killall %lu %4095[^\n]", &g->kill_at, g->killall) == 2)
		return 0;
	if (sscanf(text, "fail every %31s %15s", g->fail_call, b) == 2 ||
	    sscanf(text, "fail %lu %15s %15s", &g->fail_at, g->fail_name, b) == 3) {
		g->fail_error = error_number(b);
		return g->fail_error ? 0 : EINVAL;
	}
	return EINVAL;
}

/* Was it a write to CONTROL?  Then *error is what it gets. */
static bool command(struct gate *g, struct call *c, int *error)
{
	char path[64], text[COMMAND_MAX];
	struct iovec here = { text, sizeof(text) - 1 };
	struct iovec there = { (void *)(uintptr_t)c->args[1], c->args[2] };
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->tid, (int)c->args[0]);
	if (stat(path, &st) < 0 || st.st_dev != g->control.st_dev || st.st_ino != g->control.st_ino)
		return false;
	if (there.iov_len > here.iov_len)
		there.iov_len = here.iov_len;
	n = process_vm_readv(c->tid, &here, 1, &there, 1, 0);
	text[n < 0 ? 0 : n] = '\0';
	*error = obey(g, text);
	return true;
}

/* ---- the loop ---- */

static void one(struct gate *g, int listener)
{
	static struct seccomp_notif n; /* must be all zeros */
	static struct call c;
	struct seccomp_notif_resp r = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	int error = 0;

	memset(&n, 0, sizeof(n));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return; /* it was killed meanwhile */
	r.id = n.id;
	c = (struct call){ .tid = (pid_t)n.pid, .args = (unsigned long long *)n.data.args };
	c.what = gate_find(n.data.nr);
	if (!gate_is_write(n.data.nr) || !command(g, &c, &error))
		if (g->watching && call_on_volume(&c, g->dev))
			error = pass(g, &c);
	if (error) {
		r.flags = 0;
		r.error = -error;
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static int serve(struct gate *g, int listener, pid_t child)
{
	int status;
	pid_t p;

	for (;;) {
		if (gate_wait(listener))
			one(g, listener);
		while ((p = waitpid(-1, &status, WNOHANG)) > 0)
			if (p == child)
				return WIFEXITED(status) ? WEXITSTATUS(status) :
							   128 + WTERMSIG(status);
	}
}

int main(int argc, char **argv)
{
	static struct gate g;
	const char *control = NULL;
	int c, listener;
	pid_t child;

	while ((c = getopt(argc, argv, "+l:c:")) != -1) {
		if (c == 'l')
			g.log = fopen(optarg, "we");
		else if (c == 'c')
			control = optarg;
	}
	if (!g.log || !control || optind == argc) {
		fprintf(stderr, "usage: sysgate -l LOG -c CONTROL -- COMMAND...\n");
		return 2;
	}
	c = open(control, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (c < 0 || fstat(c, &g.control) < 0)
		die(control);
	child = gate_start(argv + optind, &listener);
	if (child < 0)
		die("start");
	return serve(&g, listener, child);
}
