/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_nfs_reply.c - what the retriever makes of a hostile old server.
 *
 * Everything is real but the server (nfs_server.h): source_create() and its
 * threads, libnfs, TCP over loopback; so dialling, framing, libnfs's decoders with
 * our guards before them, retries and resets are all under test.  The first two
 * bytes say how to connect and what to call, the rest is the server's.
 *
 * Time passes a thousand times faster for the source (the linker puts the
 * functions below before libc's): a back-off of 5 s costs 5 ms.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "nfs_calls.h"
#include "nfs_server.h"

#define FASTER 1000

/* ---- time ---- */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

static uint64_t start_ns;

static uint64_t real_ns(void)
{
	struct timespec t;

	__real_clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t ns;

	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, t);
	ns = start_ns + (real_ns() - start_ns) * FASTER;
	t->tv_sec = (time_t)(ns / 1000000000);
	t->tv_nsec = (long)(ns % 1000000000);
	return 0;
}

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	return __real_poll(p, n, ms > 0 ? (ms + FASTER - 1) / FASTER : ms);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
	uint64_t ns = (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
	struct timespec real;

	ns = start_ns + (ns > start_ns ? (ns - start_ns) / FASTER : 0);
	real.tv_sec = (time_t)(ns / 1000000000);
	real.tv_nsec = (long)(ns % 1000000000);
	return __real_pthread_cond_timedwait(c, m, &real);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int r = __real_getsockopt(fd, level, name, value, len);

	if (r == 0 && level == IPPROTO_TCP && name == TCP_INFO)
		((struct tcp_info *)value)->tcpi_last_data_recv *= FASTER;
	return r;
}

/* ---- calls ---- */

static void probe(const struct source_config *c)
{
	char why[200];
	int r = source_probe(c, 50000, why, sizeof(why));

	CHECK(strnlen(why, sizeof(why)) < sizeof(why) && !!r == !!why[0]);
	for (const char *p = why; *p; p++)
		CHECK(*p != '\n');
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	start_ns = real_ns();
	nfs_server_start();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size }, none = { NULL, 0 };
	unsigned int how = (unsigned int)fuzz_take(&in, 1), what = (unsigned int)fuzz_take(&in, 1);
	struct source_config c = {
		.uri = how & 2 ? "nfs://127.0.0.1/x" :
				 "nfs://127.0.0.1/x?nfsport=2049&mountport=2049",
		.connections = 1,
		.readdir_bytes = 64 << 10,
		.call_timeout_ms = 50000,
		.inflight = 8,
	};
	struct source *s;

	nfs_server_input(&in, how & NFS_SERVER_SETUP);
	if (how & 4) {
		probe(&c);
	} else {
		CHECK(source_create(&c, &s) == 0);
		nfs_server_client(s);
		nfs_calls_make(s, what & 7);
		nfs_calls_make(s, what >> 3 & 7);
		nfs_server_client(NULL);
		source_destroy(s);
	}
	nfs_server_input(&none, 0); /* it may be answering still */
	return 0;
}
