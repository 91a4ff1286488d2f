/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_nfs_reply.c - what the retriever makes of a hostile old server.
 *
 * Everything is real but the server (nfs_server.h): source_create() and its
 * threads, libnfs, TCP over loopback; so dialling, framing, libnfs's decoders with
 * our guards before them, retries and resets are all under test.  The first two
 * bytes say how to connect and what to call, the rest is the server's.
 *
 * Time passes a hundred times faster for the source (the linker puts the
 * functions below before libc's): a back-off of 100 ms costs 1 ms.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "nfs_server.h"

#define FASTER 100
#define ROOM   70000 /* bytes of one READ; more than the server's FSINFO says */

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

/* ---- what source.h promises ---- */

static uint8_t seen; /* every byte that came is read: the sanitizer checks them */

static void look_at(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		seen ^= ((const uint8_t *)p)[i];
}

static bool is_error(int r)
{
	static const int errors[] = { -ENOENT, -ESTALE,	   -ENOTDIR,   -EACCES,	      -EBADMSG,
				      -EIO,    -ETIMEDOUT, -ECANCELED, -ENAMETOOLONG, -ENOMEM };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i] == r)
			return true;
	return false;
}

static void check_origin(const struct stub_origin *o)
{
	CHECK(o->len >= 1 && o->len <= STUB_ORIGIN_MAX);
	look_at(o->bytes, o->len);
}

static void check_attr(const struct stub_attr *a)
{
	mode_t type = a->mode & S_IFMT;

	CHECK(S_ISREG(type) || S_ISDIR(type) || S_ISLNK(type) || S_ISCHR(type) || S_ISBLK(type) ||
	      S_ISFIFO(type) || S_ISSOCK(type));
	CHECK(!(a->mode & ~(uint32_t)(S_IFMT | 07777)));
	CHECK(a->atime.tv_nsec < 1000000000 && a->mtime.tv_nsec < 1000000000 &&
	      a->ctime.tv_nsec < 1000000000);
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	(void)arg;
	CHECK(n > 0);
	for (size_t i = 0; i < n; i++) {
		check_origin(&e[i].origin);
		check_attr(&e[i].attr);
		look_at(e[i].name, e[i].name_len);
		CHECK(!memchr(e[i].name, '\0', e[i].name_len));
		CHECK(!(e[i].name_len == 1 && e[i].name[0] == '.'));
		CHECK(!!e[i].target == S_ISLNK(e[i].attr.mode));
		CHECK(!e[i].target || e[i].target_len <= STUB_TARGET_MAX);
		look_at(e[i].target, e[i].target ? e[i].target_len : 0);
	}
	return 0;
}

struct reading {
	pthread_mutex_t lock;
	pthread_cond_t done;
	uint32_t length;
	unsigned int calls;
};

static void on_read(void *arg, const struct source_read *r)
{
	struct reading *d = arg;

	CHECK(r->result <= (int64_t)d->length);
	if (r->result < 0)
		CHECK(is_error((int)r->result));
	else
		look_at(r->data, (size_t)r->result);
	if (r->result >= 0 && r->have_attr)
		check_attr(&r->attr);
	pthread_mutex_lock(&d->lock);
	d->calls++;
	pthread_cond_signal(&d->done);
	pthread_mutex_unlock(&d->lock);
}

static int read_range(struct source *s, const struct stub_origin *o)
{
	struct reading d = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, ROOM, 0 };
	int r = source_read(s, SOURCE_BACKGROUND, o, 1000, ROOM, on_read, &d);

	pthread_mutex_lock(&d.lock);
	while (r == 0 && !d.calls)
		pthread_cond_wait(&d.done, &d.lock);
	pthread_mutex_unlock(&d.lock);
	CHECK(d.calls == (r == 0));
	return r;
}

/* ---- calls ---- */

static void call(struct source *s, unsigned int what)
{
	struct stub_origin o = { 4, "file" }, root = { 4, "root" }, got = { 0 };
	char target[STUB_TARGET_MAX];
	struct stub_attr attr;
	uint32_t granted;
	size_t len;
	int r = 0;

	switch (what) {
	case 0:
		r = source_root(s, &got, &attr);
		break;
	case 1:
		r = source_lookup(s, SOURCE_DEMAND, &root, "name", 4, &got, &attr);
		break;
	case 2:
		r = source_getattr(s, SOURCE_DEMAND, &o, &attr);
		break;
	case 3:
		r = source_readlink(s, SOURCE_DEMAND, &o, target, sizeof(target), &len);
		break;
	case 4:
		r = source_access(s, &o, 1000, 0x3f, &granted);
		break;
	case 5:
		r = source_list(s, SOURCE_BACKGROUND, &root, on_entries, NULL);
		break;
	case 6:
		r = read_range(s, &o);
		break;
	}
	CHECK(r == 0 || is_error(r) || (what == 5 && r == -EAGAIN));
	if (r == 0 && what < 2)
		check_origin(&got);
	if (r == 0 && what < 3)
		check_attr(&attr);
	if (r == 0 && what == 3) {
		CHECK(len <= STUB_TARGET_MAX);
		look_at(target, len);
	}
}

static void probe(const struct source_config *c)
{
	char why[200];
	int r = source_probe(c, 5000, why, sizeof(why));

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
	struct fuzz_in in = { data, size };
	unsigned int how = (unsigned int)fuzz_take(&in, 1), what = (unsigned int)fuzz_take(&in, 1);
	struct source_config c = {
		.uri = how & 2 ? "nfs://127.0.0.1/x" :
				 "nfs://127.0.0.1/x?nfsport=2049&mountport=2049",
		.connections = 1,
		.readdir_bytes = 64 << 10,
		.call_timeout_ms = 10000,
		.inflight = 8,
	};
	struct source *s;

	nfs_server_input(&in, how & NFS_SERVER_SETUP);
	if (how & 4) {
		probe(&c);
		return 0;
	}
	CHECK(source_create(&c, &s) == 0);
	nfs_server_client(s);
	call(s, what & 7);
	call(s, what >> 3 & 7);
	nfs_server_client(NULL);
	source_destroy(s);
	return 0;
}
