// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_pulse.c - one call of libsmbclient may take minutes: a directory of a million
 * entries, 16 MiB over a slow line.  Is it dead, or at work?
 *
 * A thread watches how many bytes TCP has received on this process's connections and
 * says ALIVE when there are more: a server that sends is not given up.  When the
 * retriever goes away, it ends the process, even in the middle of a call.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "smb/smb_home.h"
#include "smb_worker/smb_worker.h"

#define PULSE_MS 250
#define FDS_MAX	 64 /* where libsmbclient's few sockets are found */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one message at a time */
static atomic_bool busy;

static uint64_t bytes_received(void)
{
	uint64_t sum = 0;

	for (int fd = 0; fd < FDS_MAX; fd++) {
		struct tcp_info info = { 0 };
		socklen_t len = sizeof(info);

		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0)
			sum += info.tcpi_bytes_received;
	}
	return sum;
}

static int send_all(int fd, const struct smb_out *o)
{
	int r;

	pthread_mutex_lock(&lock);
	r = smb_wire_send(fd, o, UINT32_MAX, -1);
	pthread_mutex_unlock(&lock);
	return r;
}

int worker_send(struct worker *w)
{
	if (smb_out_end(&w->out) < 0) {
		snprintf(w->why, sizeof(w->why), "an answer that is too long");
		return -EBADMSG;
	}
	return send_all(w->fd, &w->out) < 0 ? WORKER_LOST : 0;
}

/* Send ALIVE, unless an answer is being sent, which tells as much. */
static void say_alive(int fd, struct smb_out *o)
{
	if (pthread_mutex_trylock(&lock))
		return;
	smb_out_begin(o, SMB_WIRE_ALIVE);
	if (smb_out_end(o) == 0)
		smb_wire_send(fd, o, PULSE_MS, -1);
	pthread_mutex_unlock(&lock);
}

/*
 * The other thread may be in the middle of a call that makes files in the home, or makes the
 * home again: so a child process waits until no thread is left, and removes the home.
 */
void worker_leave(const struct worker *w)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	int alive[2];
	char c;

	pthread_mutex_lock(&once);
	if (pipe2(alive, O_CLOEXEC) == 0 && fork() == 0) {
		close(alive[1]);
		while (read(alive[0], &c, 1) < 0 && errno == EINTR)
			;
		smb_home_remove(w->home);
	}
	_exit(0);
}

static void *pulse(void *arg)
{
	struct worker *w = arg;
	struct smb_out o = { 0 };
	uint64_t last = 0;

	for (;;) {
		struct pollfd p = { .fd = w->fd, .events = POLLRDHUP };
		uint64_t now;

		if (poll(&p, 1, PULSE_MS) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR))
			worker_leave(w);
		now = bytes_received();
		if (now != last && atomic_load(&busy))
			say_alive(w->fd, &o);
		last = now;
	}
	return NULL;
}

void pulse_busy(bool b)
{
	atomic_store(&busy, b);
}

int pulse_start(struct worker *w)
{
	pthread_t t;

	return -pthread_create(&t, NULL, pulse, w);
}
