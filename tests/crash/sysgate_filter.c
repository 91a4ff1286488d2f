/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sysgate_filter.c - the table of calls, the seccomp program made of it, and the start.
 */
#include "sysgate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define CALL(name, object, arg, two, changes) \
	{ __NR_##name, #name, OBJECT_##object, arg, two, changes }

static const struct gated table[] = {
	CALL(write, FD, 0, false, true),
	CALL(pwrite64, FD, 0, false, true),
	CALL(writev, FD, 0, false, true),
	CALL(pwritev, FD, 0, false, true),
	CALL(pwritev2, FD, 0, false, true),
	CALL(copy_file_range, FD, 2, false, true),
	CALL(sendfile, FD, 0, false, true),
	CALL(splice, FD, 2, false, true),
	CALL(ftruncate, FD, 0, false, true),
	CALL(truncate, PATH, 0, false, true),
	CALL(fallocate, FD, 0, false, true),
	CALL(fsync, FD, 0, false, false),
	CALL(fdatasync, FD, 0, false, false),
	CALL(syncfs, FD, 0, false, false),
	CALL(sync_file_range, FD, 0, false, false),
	CALL(open, PATH, 0, false, true),
	CALL(creat, PATH, 0, false, true),
	CALL(openat, AT, 0, false, true),
	CALL(link, PATH, 0, true, true),
	CALL(linkat, AT_TWO, 0, false, true),
	CALL(unlink, PATH, 0, false, true),
	CALL(rmdir, PATH, 0, false, true),
	CALL(unlinkat, AT, 0, false, true),
	CALL(rename, PATH, 0, true, true),
	CALL(renameat, AT_TWO, 0, false, true),
	CALL(renameat2, AT_TWO, 0, false, true),
	CALL(mkdir, PATH, 0, false, true),
	CALL(mkdirat, AT, 0, false, true),
	CALL(symlink, PATH, 1, false, true),
	CALL(symlinkat, AT, 1, false, true),
	CALL(mknod, PATH, 0, false, true),
	CALL(mknodat, AT, 0, false, true),
	CALL(setxattr, PATH, 0, false, true),
	CALL(lsetxattr, PATH, 0, false, true),
	CALL(fsetxattr, FD, 0, false, true),
	CALL(removexattr, PATH, 0, false, true),
	CALL(lremovexattr, PATH, 0, false, true),
	CALL(fremovexattr, FD, 0, false, true),
	CALL(chmod, PATH, 0, false, true),
	CALL(fchmod, FD, 0, false, true),
	CALL(fchmodat, AT, 0, false, true),
	CALL(chown, PATH, 0, false, true),
	CALL(lchown, PATH, 0, false, true),
	CALL(fchown, FD, 0, false, true),
	CALL(fchownat, AT, 0, false, true),
	CALL(utimensat, AT, 0, false, true),
};

/* Of these only calls that make or empty a file: the flags' argument. */
static const struct {
	int nr;
	unsigned int flags_arg;
} opens[] = { { __NR_open, 1 }, { __NR_openat, 2 } };

#define OPEN_CHANGES (O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

const struct gated *gate_find(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].nr == nr)
			return &table[i];
	return NULL;
}

bool gate_is_write(int nr)
{
	return nr == __NR_write;
}

/* ---- the program ---- */

struct program {
	struct sock_filter f[256];
	unsigned short n;
};

static void add(struct program *p, unsigned short code, unsigned char yes, unsigned char no,
		unsigned int k)
{
	p->f[p->n++] = (struct sock_filter){ code, yes, no, k };
}

static void load(struct program *p, size_t offset)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned int)offset);
}

static void answer(struct program *p, unsigned int what)
{
	add(p, BPF_RET | BPF_K, 0, 0, what);
}

/* Skip @n steps unless the call is @nr. */
static void only(struct program *p, int nr, unsigned char n)
{
	add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, n, (unsigned int)nr);
}

static int flags_arg(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(opens); i++)
		if (opens[i].nr == nr)
			return (int)opens[i].flags_arg;
	return -1;
}

static void build(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	only(p, (int)AUDIT_ARCH_X86_64, 1);
	add(p, BPF_JMP | BPF_JA, 0, 0, 1);
	answer(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
	only(p, __NR_io_uring_setup, 1);
	answer(p, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		int arg = flags_arg(table[i].nr);

		if (arg < 0) {
			only(p, table[i].nr, 1);
			answer(p, SECCOMP_RET_USER_NOTIF);
			continue;
		}
		only(p, table[i].nr, 4);
		load(p, offsetof(struct seccomp_data, args) + 8u * (unsigned int)arg);
		add(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, OPEN_CHANGES);
		answer(p, SECCOMP_RET_ALLOW);
		answer(p, SECCOMP_RET_USER_NOTIF);
	}
	answer(p, SECCOMP_RET_ALLOW);
}

static int install(void)
{
	static struct program p;
	struct sock_fprog prog = { 0, p.f };

	build(&p);
	prog.len = p.n;
	return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER |
				    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
			    &prog);
}

/* ---- the start ---- */

/* The listener goes to the parent by a socket: sendmsg is not gated. */
static int send_fd(int sock, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	char byte = 0;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space,
			    .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(sock, &m, 0) == 1 ? 0 : -1;
}

static int receive_fd(int sock)
{
	char space[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space,
			    .msg_controllen = sizeof(space) };
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1 || !(c = CMSG_FIRSTHDR(&m)))
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

static void __attribute__((noreturn)) child_run(char **argv, int sock)
{
	int listener;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	listener = install();
	if (listener < 0 || send_fd(sock, listener) < 0) {
		perror("sysgate: seccomp");
		_exit(125);
	}
	close(listener);
	close(sock);
	execvp(argv[0], argv);
	_exit(127);
}

pid_t gate_start(char **argv, int *listener)
{
	int pair[2];
	pid_t child;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	child = fork();
	if (child == 0)
		child_run(argv, pair[1]);
	close(pair[1]);
	*listener = child < 0 ? -1 : receive_fd(pair[0]);
	close(pair[0]);
	return *listener < 0 ? -1 : child;
}

bool gate_wait(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 20) > 0 && p.revents & POLLIN;
}
