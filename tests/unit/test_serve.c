/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_serve.c - asking and serving over real sockets: late answers, dead clients
 * and retrievers, garbage, a client that does not read, another user.
 *
 * The retriever of these tests keeps what it is asked in a list, or answers at
 * once by the first byte of the handle.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "wire.h"

#define KEPT_MAX 20000

static char dir[64];
static struct stub_volume volume; /* only what asking and serving look at */
static struct stub_server *server;
static atomic_uint log_lines;
static char last_line[STUB_LOG_MAX + 1]; /* complete once log_lines has counted it */

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stub_request *kept[KEPT_MAX];
static size_t n_kept;

static void count_log(void *arg, enum stub_log_level level, const char *msg)
{
	snprintf(last_line, sizeof(last_line), "%s", msg);
	atomic_fetch_add(&log_lines, 1);
	if (getenv("TEST_LOG"))
		fprintf(stderr, "log: %s\n", msg);
}

/* ---- the retriever ---- */

/* first byte of the handle; another is the errno to answer */
enum { KEEP = 200, PASS = 201 };

/* A memory file of @len bytes that says where it begins. */
static int memory_file(uint64_t offset, size_t len, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(pwrite(fd, &offset, 8, 0), 8);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define SEALED (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The second byte of the handle says what is wrong with it. */
static void pass(struct stub_request *r)
{
	enum { GOOD, UNSEALED, SHORT, NONE };
	int how = r->ask.h.bytes[1];
	int fd = memory_file(r->ask.offset, r->ask.length - (how == SHORT),
			     how == UNSEALED ? 0 : SEALED);

	if (how == NONE)
		stub_request_answer(r, 0);
	else
		stub_request_pass(r, fd);
	close(fd);
}

static void retrieve(void *arg, struct stub_request *r)
{
	int code = r->ask.h.bytes[0];

	if (code == PASS) {
		pass(r);
		return;
	}
	if (code != KEEP) {
		stub_request_answer(r, -code);
		return;
	}
	pthread_mutex_lock(&kept_lock);
	kept[n_kept++] = r;
	pthread_mutex_unlock(&kept_lock);
}

static size_t kept_count(void)
{
	size_t n;

	pthread_mutex_lock(&kept_lock);
	n = n_kept;
	pthread_mutex_unlock(&kept_lock);
	return n;
}

static void wait_kept(size_t n)
{
	for (int i = 0; i < 5000 && kept_count() < n; i++)
		usleep(1000);
	assert_int_equal(kept_count(), n);
}

static void answer_kept(int result)
{
	pthread_mutex_lock(&kept_lock);
	for (size_t i = 0; i < n_kept; i++)
		stub_request_answer(kept[i], result);
	n_kept = 0;
	pthread_mutex_unlock(&kept_lock);
}

static int serve(void)
{
	return stub_server_create(&volume, retrieve, NULL, count_log, NULL, &server);
}

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_serve.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	memset(&volume, 0, sizeof(volume));
	snprintf(volume.info.socket, sizeof(volume.info.socket), "%s/asks", dir);
	server = NULL;
	n_kept = 0;
	atomic_store(&log_lines, 0);
	return stub_ask_pool_create(&volume, &volume.pool);
}

static int setup_serving(void **state)
{
	return setup(state) || serve();
}

static int teardown(void **state)
{
	char cmd[128];

	stub_server_destroy(server);
	stub_ask_pool_destroy(volume.pool);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static struct stub_ask ask_of(int code)
{
	return (struct stub_ask){ .kind = STUB_ASK_LIST,
				  .h = { .type = 1, .len = 1, .bytes = { (uint8_t)code } } };
}

static int ask(int code, unsigned int wait_ms)
{
	struct stub_ask a = ask_of(code);

	return stub_ask(&volume, &a, wait_ms);
}

/* A client that speaks by hand. */
static int raw_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, volume.info.socket);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		close(fd);
		return -errno;
	}
	return fd;
}

static void raw_ask(int fd, uint32_t id, int code)
{
	struct stub_ask a = ask_of(code);
	uint8_t buf[STUB_WIRE_MAX];
	size_t n = stub_wire_put_ask(buf, id, &a);

	assert_int_equal(send(fd, buf, n, MSG_NOSIGNAL), n);
}

/* Is the connection closed by the server within 5 s?  *m: the last message. */
static bool raw_closed(int fd, struct stub_wire_message *m)
{
	uint8_t buf[STUB_WIRE_MAX];
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, 5000) == 1) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n <= 0)
			return true;
		assert_int_equal(stub_wire_parse(buf, (size_t)n, m), 0);
	}
	return false;
}

/* ---- asking ---- */

static void results_come_through(void **state)
{
	static const int codes[] = { 0,	ENOENT, EREMOTEIO, ENOSPC, ESTALE,
				    EINVAL, EDQUOT, EROFS,     EIO };
	struct stub_ask a;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		if (codes[i] != 0)
			assert_true(codes[i] < KEEP);
		assert_int_equal(ask(codes[i], 5000), -codes[i]);
	}
	assert_int_equal(ask(EPERM, 5000), -EREMOTEIO); /* no other errno comes out */
	a = ask_of(0);
	a.kind = STUB_ASK_LOOKUP;
	a.name = "..";
	a.name_len = 2;
	assert_int_equal(stub_ask(&volume, &a, 5000), -EINVAL);
}

static int ask_pass(int how, uint64_t offset, size_t len, int *fd)
{
	struct stub_ask a = { .kind = STUB_ASK_PASS,
			      .h = { .type = 1, .len = 2, .bytes = { PASS, (uint8_t)how } },
			      .offset = offset,
			      .length = len };

	return stub_pass(&volume, &a, 1000, fd);
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The server's thread closes what it has answered with. */
static void wait_open_files(unsigned int n)
{
	for (int i = 0; i < 5000 && open_files() > n; i++)
		usleep(1000);
	assert_int_equal(open_files(), n);
}

static void data_is_passed_on(void **state)
{
	uint64_t says = 0;
	unsigned int before;
	struct stub_ask a = ask_of(PASS);
	int fd = -1;

	assert_int_equal(ask(0, 1000), 0); /* the connection */
	before = open_files();
	assert_int_equal(ask_pass(0, 12345678, STUB_PASS_MAX, &fd), 0);
	assert_int_equal(pread(fd, &says, 8, 0), 8);
	assert_int_equal(says, 12345678);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_int_equal(ask_pass(0, 0, STUB_PASS_MAX + 1, &fd), -EINVAL);
	a.kind = STUB_ASK_DATA;
	a.length = 8;
	assert_int_equal(stub_pass(&volume, &a, 1000, &fd), -EINVAL);
	a.kind = STUB_ASK_PASS;
	assert_int_equal(stub_ask(&volume, &a, 1000), -EINVAL);
	wait_open_files(before);
}

/* Not what was promised: never used, never kept. */
static void bad_data_is_not_taken(void **state)
{
	unsigned int before;
	int fd = -1;

	assert_int_equal(ask(0, 1000), 0);
	before = open_files();
	assert_int_equal(ask_pass(1, 0, 4096, &fd), -EREMOTEIO);
	assert_int_equal(ask_pass(2, 0, 4096, &fd), -EREMOTEIO);
	assert_int_equal(ask_pass(3, 0, 4096, &fd), -EAGAIN);
	assert_int_equal(fd, -1);
	wait_open_files(before);
}

/* An answer that nobody takes closes its descriptor, in the queue of the server too. */
static void data_for_nobody_is_closed(void **state)
{
	enum { N = 600 };
	unsigned int before = open_files();
	int fd = raw_connect(), data = memory_file(0, 4096, SEALED);

	for (uint32_t i = 0; i < N; i++)
		raw_ask(fd, i, KEEP);
	wait_kept(N);
	pthread_mutex_lock(&kept_lock);
	for (size_t i = 0; i < n_kept; i++)
		stub_request_pass(kept[i], data);
	n_kept = 0;
	pthread_mutex_unlock(&kept_lock);
	close(data);
	close(fd);
	wait_open_files(before);
}

/* An ask that is sent again keeps its name, and what comes late for it is no other's. */
static void sent_again_it_keeps_its_name(void **state)
{
	struct stub_ask a = ask_of(KEEP);

	a.id = stub_ask_id(&volume);
	assert_int_not_equal(a.id, 0);
	assert_int_equal(stub_ask(&volume, &a, 0), -EAGAIN);
	wait_kept(1);
	assert_int_equal(stub_ask(&volume, &a, 0), -EAGAIN);
	wait_kept(2);
	assert_int_equal(kept[0]->ask.id, a.id);
	assert_int_equal(kept[1]->ask.id, a.id);
	assert_int_equal(kept[0]->pid, getpid());
	answer_kept(-ENOENT);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
	assert_int_equal(ask(KEEP, 0), -EAGAIN);
	wait_kept(1);
	assert_int_not_equal(kept[0]->ask.id, a.id);
	answer_kept(0);
}

/* An earlier release begins to count at 0, which would be no name. */
static void each_has_a_name(void **state)
{
	int fd = raw_connect();
	uint8_t buf[STUB_WIRE_MAX];
	struct stub_wire_message m;
	ssize_t n;

	raw_ask(fd, 0, KEEP);
	wait_kept(1);
	assert_int_equal(kept[0]->ask.id, 1);
	answer_kept(0);
	n = recv(fd, buf, sizeof(buf), 0);
	assert_true(n > 0);
	assert_int_equal(stub_wire_parse(buf, (size_t)n, &m), 0);
	assert_int_equal(m.id, 0); /* its answer is as it was asked */
	close(fd);
}

static void request_is_what_was_asked(void **state)
{
	struct stub_ask a = { .kind = STUB_ASK_LOOKUP, .name = "x\xffy", .name_len = 3 };
	uint64_t before = stub_now_ms();

	a.h = ask_of(KEEP).h;
	assert_int_equal(stub_ask(&volume, &a, 0), -EAGAIN);
	a.kind = STUB_ASK_DATA;
	a.offset = 1ull << 33;
	a.length = 12345;
	wait_kept(1);
	assert_int_equal(stub_ask(&volume, &a, 0), -EAGAIN);
	wait_kept(2);
	assert_int_equal(kept[0]->ask.kind, STUB_ASK_LOOKUP);
	assert_int_equal(kept[0]->ask.name_len, 3);
	assert_memory_equal(kept[0]->ask.name, "x\xffy", 3);
	assert_true(stub_handle_equal(&kept[0]->ask.h, &a.h));
	assert_true(kept[0]->since_ms >= before && kept[0]->since_ms <= stub_now_ms());
	assert_int_equal(kept[1]->ask.offset, a.offset);
	assert_int_equal(kept[1]->ask.length, a.length);
	answer_kept(0);
}

static void wait_ends_at_the_deadline(void **state)
{
	uint64_t start = stub_now_ms();

	assert_int_equal(ask(KEEP, 100), -EAGAIN);
	assert_true(stub_now_ms() - start >= 100);
	assert_true(stub_now_ms() - start < 2000);
	answer_kept(0);
}

static void late_answers_are_discarded(void **state)
{
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ask(KEEP, 0), -EAGAIN);
		if (i % 10 == 9) {
			wait_kept(10);
			answer_kept(-ENOENT);
		}
		assert_int_equal(ask(ESTALE, 5000), -ESTALE);
	}
}

static void *answer_soon(void *arg)
{
	wait_kept(1);
	usleep(50000);
	answer_kept(-ENOSPC);
	return NULL;
}

static void answer_from_another_thread(void **state)
{
	pthread_t t;

	pthread_create(&t, NULL, answer_soon, NULL);
	assert_int_equal(ask(KEEP, 5000), -ENOSPC);
	pthread_join(t, NULL);
}

static void no_retriever(void **state)
{
	uint64_t start = stub_now_ms();
	struct stub_link *l;

	assert_int_equal(ask(0, 0), -EAGAIN);
	assert_int_equal(ask(0, 120), -EAGAIN);
	assert_true(stub_now_ms() - start >= 120);
	assert_int_equal(stub_link_create(&volume, &l), -EAGAIN);
}

static void *serve_soon(void *arg)
{
	usleep(150000);
	assert_int_equal(serve(), 0);
	return NULL;
}

static void retriever_comes_while_waiting(void **state)
{
	pthread_t t;

	pthread_create(&t, NULL, serve_soon, NULL);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
	pthread_join(t, NULL);
}

static void *restart_soon(void *arg)
{
	wait_kept(1);
	stub_server_destroy(server); /* answers EAGAIN: the asker tries again */
	usleep(100000);
	answer_kept(0); /* to nobody */
	assert_int_equal(serve(), 0);
	wait_kept(1);
	answer_kept(-ENOENT);
	return NULL;
}

static void retriever_restarts_while_waiting(void **state)
{
	pthread_t t;

	for (int i = 0; i < 5; i++) /* connections that the restart will break */
		assert_int_equal(ask(KEEP, 0), -EAGAIN);
	wait_kept(5);
	answer_kept(0);
	pthread_create(&t, NULL, restart_soon, NULL);
	assert_int_equal(ask(KEEP, 8000), -ENOENT);
	pthread_join(t, NULL);
}

static int ask_in_child(void)
{
	return ask(ESTALE, 5000) == -ESTALE ? 0 : 1;
}

/* Parent and child use connections of their own. */
static void fork_is_noticed(void **state)
{
	assert_int_equal(ask(ESTALE, 5000), -ESTALE); /* one idle connection */
	for (int i = 0; i < 20; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(ask_in_child());
		assert_int_equal(ask(ENOENT, 5000), -ENOENT);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

#define ASKERS 16

static void *ask_much(void *arg)
{
	for (int i = 0; i < 200; i++) {
		int code = i % 2 ? ESTALE : ENOENT;

		if (ask(code, 20000) != -code)
			return (void *)1;
	}
	return NULL;
}

static void many_threads_ask(void **state)
{
	pthread_t t[ASKERS];
	void *failed;

	for (int i = 0; i < ASKERS; i++)
		pthread_create(&t[i], NULL, ask_much, NULL);
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
}

/* ---- links ---- */

static void link_has_many_in_flight(void **state)
{
	struct stub_ask a = ask_of(KEEP);
	struct stub_link *l;
	uint32_t id, first = 0;
	int result;

	assert_int_equal(stub_link_create(&volume, &l), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(stub_link_send(l, &a, &id), 0);
		first = i ? first : id;
		assert_int_equal(id, first + i);
	}
	wait_kept(1000);
	assert_int_equal(stub_link_receive(l, 0, &id, &result), 0);
	pthread_mutex_lock(&kept_lock); /* the last one first */
	stub_request_answer(kept[--n_kept], -ENOENT);
	pthread_mutex_unlock(&kept_lock);
	assert_int_equal(stub_link_receive(l, 5000, &id, &result), 1);
	assert_int_equal(id, first + 999);
	assert_int_equal(result, -ENOENT);
	answer_kept(0); /* more than the socket takes: the rest queues in the server */
	for (int i = 0; i < 999; i++)
		assert_int_equal(stub_link_receive(l, 5000, &id, &result), 1);
	assert_int_equal(stub_link_receive(l, 0, &id, &result), 0);
	stub_server_destroy(server);
	server = NULL;
	assert_int_equal(stub_link_receive(l, 1000, &id, &result), -EAGAIN);
	assert_int_equal(stub_link_send(l, &a, &id), -EAGAIN);
	stub_link_destroy(l);
	stub_link_destroy(NULL);
}

/* An asker that sends more than the server takes on gets them all answered. */
static void *receive_all(void *arg)
{
	struct stub_link *l = arg;
	uint32_t id;
	int result;

	for (int got = 0; got < 6000; got++)
		if (stub_link_receive(l, 20000, &id, &result) != 1)
			return (void *)1;
	return NULL;
}

static void more_than_may_be_in_flight(void **state)
{
	struct stub_link *l;
	struct stub_ask a = ask_of(KEEP);
	pthread_t t;
	void *failed;
	uint32_t id;

	assert_int_equal(stub_link_create(&volume, &l), 0);
	for (int i = 0; i < STUB_WIRE_IN_FLIGHT + 50; i++)
		assert_int_equal(stub_link_send(l, &a, &id), 0);
	wait_kept(STUB_WIRE_IN_FLIGHT);
	usleep(50000);
	assert_int_equal(kept_count(), STUB_WIRE_IN_FLIGHT); /* the others wait outside */
	assert_int_equal(ask(ESTALE, 5000), -ESTALE); /* nobody else does */
	answer_kept(0);
	wait_kept(50);
	answer_kept(0);
	a = ask_of(0);
	pthread_create(&t, NULL, receive_all, l); /* a link's two ends do not meet */
	for (int i = STUB_WIRE_IN_FLIGHT + 50; i < 6000; i++)
		assert_int_equal(stub_link_send(l, &a, &id), 0);
	pthread_join(t, &failed);
	assert_null(failed);
	stub_link_destroy(l);
}

/* ---- clients that misbehave ---- */

static void dead_client(void **state)
{
	for (int i = 0; i < 50; i++) {
		int fd = raw_connect();

		assert_true(fd >= 0);
		raw_ask(fd, 1, KEEP);
		raw_ask(fd, 2, KEEP);
		wait_kept(2);
		close(fd);
		if (i % 2)
			usleep(2000); /* the server has seen it, or not yet */
		answer_kept(0);
	}
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
}

static void garbage(void **state)
{
	struct stub_ask a = ask_of(0);
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX], big[4096];
	size_t n;
	int fd;

	srandom(7);
	for (int i = 0; i < 200; i++) {
		n = stub_wire_put_ask(buf, 5, &a);
		fd = raw_connect();
		assert_true(fd >= 0);
		if (i < 2)
			n = (size_t)i; /* an empty packet, one byte */
		else if (i < 4)
			buf[4] = 9;
		else if (i < 100)
			buf[random() % 8] ^= 0x80;
		memset(big, 'x', sizeof(big));
		memcpy(big, buf, n);
		send(fd, big, i < 100 ? n : (size_t)(random() % 4000) + 49, MSG_NOSIGNAL);
		memset(&m, 0, sizeof(m));
		assert_true(raw_closed(fd, &m));
		if (i == 2) {
			assert_int_equal(m.type, STUB_WIRE_IS_ERROR);
			assert_int_equal(m.error, EPROTO);
			assert_int_equal(m.id, 5);
		} else if (i > 100) {
			assert_int_equal(m.error, EBADMSG);
		}
		close(fd);
	}
	assert_true(atomic_load(&log_lines) > 0);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
}

/* ---- another release ---- */

/* Give a message the version of a later release, or of an earlier one. */
static void of_version(uint8_t *buf, unsigned int version)
{
	stub_put_le(buf + 4, version, 2);
}

static void asker_of_another_release(void **state)
{
	struct stub_ask a = ask_of(0);
	uint8_t buf[STUB_WIRE_MAX];
	size_t n = stub_wire_put_ask(buf, 5, &a);

	for (unsigned int version = 0; version <= 2 * STUB_WIRE_VERSION; version++) {
		unsigned int before = atomic_load(&log_lines);

		if (version == STUB_WIRE_VERSION)
			continue;
		stub_server_destroy(server); /* else it would say that a minute later */
		assert_int_equal(serve(), 0);
		for (int i = 0; i < 5; i++) {
			struct stub_wire_message m = { .error = 0 };
			int fd = raw_connect();

			of_version(buf, version);
			assert_int_equal(send(fd, buf, n, MSG_NOSIGNAL), n);
			assert_true(raw_closed(fd, &m));
			assert_int_equal(m.error, EPROTO);
			close(fd);
		}
		assert_int_equal(atomic_load(&log_lines), before + 1);
		assert_non_null(strstr(last_line, version < STUB_WIRE_VERSION ?
					"(test_serve) is of an earlier release than this retriever" :
					"this retriever is of an earlier release than process"));
		assert_non_null(strstr(last_line, "restart"));
	}
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
}

/* A retriever that speaks another version: it reads one ask, says so, and closes. */
struct other {
	struct stub_serve_socket socket;
	unsigned int version;
	atomic_uint met;
	pthread_t thread;
};

static void *other_thread(void *arg)
{
	struct other *o = arg;
	struct pollfd p = { .fd = o->socket.fd, .events = POLLIN };
	uint8_t buf[STUB_WIRE_MAX];

	while (poll(&p, 1, -1) >= 0 && !(p.revents & POLLHUP)) {
		int fd = accept4(o->socket.fd, NULL, NULL, SOCK_CLOEXEC);
		size_t n;

		if (fd < 0)
			continue;
		(void)recv(fd, buf, sizeof(buf), 0);
		n = stub_wire_put_error(buf, 0, EPROTO, "another version");
		of_version(buf, o->version);
		send(fd, buf, n, MSG_NOSIGNAL);
		close(fd);
		atomic_fetch_add(&o->met, 1);
	}
	return NULL;
}

static void other_begin(struct other *o, unsigned int version)
{
	*o = (struct other){ .version = version };
	assert_int_equal(stub_serve_socket_open(volume.info.socket, NULL, &o->socket), 0);
	assert_int_equal(pthread_create(&o->thread, NULL, other_thread, o), 0);
}

static void other_end(struct other *o)
{
	shutdown(o->socket.fd, SHUT_RDWR);
	pthread_join(o->thread, NULL);
	stub_serve_socket_close(&o->socket);
}

/* It is waited for, seldom asked, and named once; then the right one comes. */
static void retriever_of_another_release(void **state)
{
	static const char *const said[] = { "the retriever at", "test_serve is of an earlier release" };
	struct other o;

	volume.log.fn = count_log;
	for (unsigned int i = 0; i < ARRAY_LEN(said); i++) {
		other_begin(&o, STUB_WIRE_VERSION - 1 + 2 * i);
		for (int k = 0; k < 3; k++)
			assert_int_equal(ask(0, 200), -EAGAIN);
		assert_true(atomic_load(&o.met) >= 1);
		assert_true(atomic_load(&o.met) <= 3);
		assert_int_equal(atomic_load(&log_lines), 1);
		assert_ptr_equal(strstr(last_line, said[i]), last_line);
		assert_non_null(strstr(last_line, "restart"));
		other_end(&o);
		stub_ask_pool_destroy(volume.pool);
		assert_int_equal(stub_ask_pool_create(&volume, &volume.pool), 0);
		atomic_store(&log_lines, 0);
	}
	assert_int_equal(serve(), 0);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
}

/* Of many asks it reads the first one: what it says is found behind the broken connection. */
static void link_to_another_release(void **state)
{
	struct stub_ask a = ask_of(0);
	struct stub_link *l;
	struct other o;
	int result, r = 0;
	uint32_t id;

	volume.log.fn = count_log;
	other_begin(&o, STUB_WIRE_VERSION + 1);
	assert_int_equal(stub_link_create(&volume, &l), 0);
	for (int i = 0; i < 16 && r == 0; i++)
		r = stub_link_send(l, &a, &id);
	if (r == 0)
		r = stub_link_receive(l, 5000, &id, &result);
	assert_int_equal(r, -EAGAIN);
	stub_link_destroy(l);
	assert_int_equal(atomic_load(&log_lines), 1);
	assert_int_equal(stub_link_create(&volume, &l), -EAGAIN); /* not at once again */
	other_end(&o);
}

static void senseless_ask_is_answered(void **state)
{
	struct stub_ask a = ask_of(0);
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];
	int fd = raw_connect();
	ssize_t n;

	a.kind = STUB_ASK_LOOKUP;
	a.name = "a/b";
	a.name_len = 3;
	n = (ssize_t)stub_wire_put_ask(buf, 5, &a);
	assert_int_equal(send(fd, buf, (size_t)n, 0), n);
	n = recv(fd, buf, sizeof(buf), 0);
	assert_int_equal(stub_wire_parse(buf, (size_t)n, &m), 0);
	assert_int_equal(m.result, -EINVAL);
	close(fd);
}

static void descriptors_are_not_taken(void **state)
{
	struct stub_ask a = ask_of(0);
	uint8_t buf[STUB_WIRE_MAX];
	struct iovec iov = { buf, stub_wire_put_ask(buf, 5, &a) };
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)),
		       .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &c,
			      .msg_controllen = sizeof(c) };
	int ends[2], fd = raw_connect();
	char byte;

	assert_int_equal(pipe(ends), 0);
	memcpy(CMSG_DATA(&c.h), &ends[1], sizeof(int));
	assert_int_equal(sendmsg(fd, &msg, 0), iov.iov_len);
	close(ends[1]);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), STUB_WIRE_HEADER + 4);
	assert_int_equal(read(ends[0], &byte, 1), 0); /* nobody has the other end */
	close(ends[0]);
	close(fd);
}

static void client_that_does_not_read(void **state)
{
	struct stub_wire_message m;
	int fd = raw_connect(), sent;

	stub_server_set_stall(server, 300);
	for (sent = 0; sent < 2000; sent++)
		raw_ask(fd, (uint32_t)sent, KEEP);
	wait_kept(2000);
	answer_kept(0);
	for (int i = 0; i < 20; i++) /* nobody waits for it */
		assert_int_equal(ask(ESTALE, 5000), -ESTALE);
	for (int i = 0; i < 500 && !atomic_load(&log_lines); i++)
		usleep(10000);
	assert_int_equal(atomic_load(&log_lines), 1);
	assert_true(raw_closed(fd, &m));
	close(fd);
}

static int ask_as_somebody(void)
{
	int fd;

	if (chmod(dir, 0755) < 0 || chmod(volume.info.socket, 0666) < 0 || setuid(65534) < 0)
		return 1;
	fd = raw_connect();
	if (fd < 0)
		return 2;
	/* the server may have closed already: no raw_ask(), which would fail the child */
	send(fd, "x", 1, MSG_NOSIGNAL);
	return ask(0, 200) == -EAGAIN ? 0 : 3;
}

static void another_user_is_refused(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(ask_as_somebody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(atomic_load(&log_lines) >= 1);
	assert_int_equal(kept_count(), 0);
}

static int connect_as_somebody(void)
{
	if (chmod(dir, 0755) < 0 || setuid(65534) < 0)
		return 1;
	return raw_connect() == -EACCES ? 0 : 2;
}

static void socket_is_roots(void **state)
{
	struct stat st;
	int status;
	pid_t pid;

	assert_int_equal(stat(volume.info.socket, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	pid = fork();
	if (pid == 0)
		_exit(connect_as_somebody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- life of the server ---- */

static void living_retriever_keeps_its_socket(void **state)
{
	struct stub_server *s;

	assert_int_equal(stub_server_create(&volume, retrieve, NULL, count_log, NULL, &s),
			 -EADDRINUSE);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
	stub_server_destroy(server);
	server = NULL;
	assert_int_equal(access(volume.info.socket, F_OK), -1);
}

static void dead_retrievers_socket_is_replaced(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		_exit(serve() == 0 ? 0 : 1); /* without removing it */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(access(volume.info.socket, F_OK), 0);
	assert_int_equal(serve(), 0);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE);
}

static void what_is_no_socket_stays(void **state)
{
	int fd = open(volume.info.socket, O_CREAT | O_WRONLY, 0600);

	close(fd);
	assert_int_equal(serve(), -EADDRINUSE);
	assert_int_equal(access(volume.info.socket, F_OK), 0);
	strcat(volume.info.socket, "/asks");
	assert_int_equal(serve(), -ENOTDIR);
	snprintf(volume.info.socket, sizeof(volume.info.socket), "%s/none/asks", dir);
	assert_int_equal(serve(), -ENOENT);
	volume.info.socket[0] = '\0';
	assert_int_equal(serve(), -EINVAL);
}

static void umask_does_not_matter(void **state)
{
	mode_t before = umask(0777);
	struct stat st;

	assert_int_equal(serve(), 0);
	umask(before);
	assert_int_equal(stat(volume.info.socket, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void answers_after_the_end(void **state)
{
	struct stub_link *l;
	struct stub_ask a = ask_of(KEEP);
	uint32_t id;
	int result;

	assert_int_equal(stub_link_create(&volume, &l), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(stub_link_send(l, &a, &id), 0);
	wait_kept(10);
	stub_server_destroy(server);
	server = NULL;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(stub_link_receive(l, 1000, &id, &result), 1);
		assert_int_equal(result, -EAGAIN);
	}
	answer_kept(0); /* the memory is still there, the client not */
	stub_link_destroy(l);
}

static atomic_bool answering;

static void *answer_all_the_time(void *arg)
{
	while (atomic_load(&answering)) {
		answer_kept(0);
		sched_yield();
	}
	answer_kept(0);
	return NULL;
}

static void *ask_all_the_time(void *arg)
{
	while (atomic_load(&answering))
		ask(KEEP, 20);
	return NULL;
}

/* The server ends and begins again while everybody is at it. */
static void answers_during_the_end(void **state)
{
	pthread_t answerer[2], asker[4];

	atomic_store(&answering, true);
	for (int i = 0; i < 2; i++)
		pthread_create(&answerer[i], NULL, answer_all_the_time, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&asker[i], NULL, ask_all_the_time, NULL);
	for (int i = 0; i < 20; i++) {
		usleep(20000);
		stub_server_destroy(server);
		server = NULL;
		assert_int_equal(serve(), 0);
	}
	atomic_store(&answering, false);
	for (int i = 0; i < 4; i++)
		pthread_join(asker[i], NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(answerer[i], NULL);
	stub_server_destroy(server);
	server = NULL;
	answer_kept(0);
}

/* ---- many clients ---- */

static bool raw_answered(int fd, uint32_t id)
{
	uint8_t buf[STUB_WIRE_MAX];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct stub_wire_message m;
	ssize_t n = poll(&p, 1, 5000) == 1 ? recv(fd, buf, sizeof(buf), 0) : 0;

	return n > 0 && stub_wire_parse(buf, (size_t)n, &m) == 0 &&
	       m.type == STUB_WIRE_IS_ANSWER && m.id == id;
}

/* Who waits for an answer is not idle; who is closed asks again without an error. */
static void idle_ones_are_closed(void **state)
{
	struct stub_wire_message m;
	int fd[20];

	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		fd[i] = raw_connect();
		assert_true(fd[i] >= 0);
	}
	raw_ask(fd[7], 70, KEEP);
	wait_kept(1);
	assert_int_equal(ask(ESTALE, 5000), -ESTALE); /* a connection for the pool */
	stub_server_set_idle(server, 20, 1024);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		if (i != 7)
			assert_true(raw_closed(fd[i], &m));
	answer_kept(0);
	assert_true(raw_answered(fd[7], 70));
	assert_true(raw_closed(fd[7], &m));
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ask(ESTALE, 5000), -ESTALE);
		usleep(50000); /* closed meanwhile, or not */
	}
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
	assert_int_equal(atomic_load(&log_lines), 0);
}

/* More clients than descriptors: those that wait for nothing make room. */
static void idle_ones_make_room(void **state)
{
	int fd[100];

	stub_server_set_idle(server, 3600000, 8);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		fd[i] = raw_connect();
		assert_true(fd[i] >= 0);
		raw_ask(fd[i], (uint32_t)i, 0);
		assert_true(raw_answered(fd[i], (uint32_t)i));
	}
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
	assert_int_equal(atomic_load(&log_lines), 0);
}

/* When all of them wait, the others do so outside; nobody is refused, and it is said once. */
static void busy_ones_are_waited_for(void **state)
{
	int fd[30];

	stub_server_set_idle(server, 3600000, 10);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		fd[i] = raw_connect();
		assert_true(fd[i] >= 0);
		raw_ask(fd[i], (uint32_t)i, KEEP);
	}
	for (int i = 0; i < 3; i++) {
		wait_kept(10);
		usleep(20000);
		assert_int_equal(kept_count(), 10);
		answer_kept(0);
	}
	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		assert_true(raw_answered(fd[i], (uint32_t)i));
		close(fd[i]);
	}
	assert_int_equal(atomic_load(&log_lines), 1);
}

#define serving(f) cmocka_unit_test_setup_teardown(f, setup_serving, teardown)
#define alone(f)   cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		serving(results_come_through),
		serving(data_is_passed_on),
		serving(bad_data_is_not_taken),
		serving(data_for_nobody_is_closed),
		serving(sent_again_it_keeps_its_name),
		serving(each_has_a_name),
		serving(request_is_what_was_asked),
		serving(wait_ends_at_the_deadline),
		serving(late_answers_are_discarded),
		serving(answer_from_another_thread),
		alone(no_retriever),
		alone(retriever_comes_while_waiting),
		serving(retriever_restarts_while_waiting),
		serving(fork_is_noticed),
		serving(many_threads_ask),
		serving(link_has_many_in_flight),
		serving(more_than_may_be_in_flight),
		serving(dead_client),
		serving(garbage),
		serving(asker_of_another_release),
		alone(retriever_of_another_release),
		alone(link_to_another_release),
		serving(senseless_ask_is_answered),
		serving(descriptors_are_not_taken),
		serving(client_that_does_not_read),
		serving(another_user_is_refused),
		serving(socket_is_roots),
		serving(living_retriever_keeps_its_socket),
		alone(dead_retrievers_socket_is_replaced),
		alone(what_is_no_socket_stays),
		alone(umask_does_not_matter),
		serving(idle_ones_are_closed),
		serving(idle_ones_make_room),
		serving(busy_ones_are_waited_for),
		serving(answers_after_the_end),
		serving(answers_during_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
