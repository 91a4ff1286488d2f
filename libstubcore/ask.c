/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ask.c - the asking side of the wire protocol.
 *
 * stub_ask() takes an idle connection from the volume's pool, or makes one, sends,
 * and waits for the answer with its id.  One ask at a time uses a connection.  When
 * the wait ends first, the connection goes back to the pool with an answer still
 * on its way; whoever takes it next discards what has another id.  One with many
 * such answers is closed instead.
 *
 * No retriever is not an error here: it is looked for every RETRY_MS until the
 * deadline.  The same after an answer AGAIN (the retriever is stopping), and when
 * the connection breaks: asks are idempotent, so they are sent again.  The retriever
 * closes connections that were idle for some seconds (serve.c): one from the pool that
 * proves closed is no failure, the next one is tried at once.  One of another release is
 * none: it is asked again after OTHER_MS, and the log says what is to be restarted.
 *
 * Ids come from one counter of the volume, which begins anywhere: so the id of an ask is its
 * name in the logs of both sides.  An ask that is sent again has the same one.  An answer to
 * the first sending then counts for the second: they ask the same, and are answered alike.
 *
 * Fork: the child must not use the parent's connections (both would read the same
 * answers).  The pool notices by the process id and starts empty.  A link is the
 * business of the thread that made it.
 *
 * Lock order: the pool's lock is a leaf and is not held in any I/O.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "wire.h"

#define IDLE_MAX      64
#define LATE_MAX      32 /* answers a pooled connection may still get */
#define RETRY_MS      50
#define LINK_STUCK_MS 5000 /* a retriever that takes no asks for so long has gone */
#define OTHER_MS      1000 /* a retriever of another release is left alone for so long */
#define OTHER_SAY_MS  600000

struct connection {
	int fd;
	unsigned int late;
};

struct stub_ask_pool {
	pthread_mutex_t lock;
	_Atomic pid_t pid; /* whose connections these are; 0: being emptied after a fork */
	atomic_uint next_id;
	_Atomic uint64_t other_until_ms, other_said_ms; /* a retriever of another release */
	unsigned int n;
	struct connection idle[IDLE_MAX]; /* the last one was used last */
};

struct stub_link {
	int fd;
	struct stub_volume *v;
};

/* ---- waiting and connecting ---- */

/* Wait for @events on @fd; false at the deadline. */
static bool wait_for(int fd, short events, uint64_t deadline_ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = stub_now_ms();
		uint64_t left = now < deadline_ms ? deadline_ms - now : 0;
		int n = poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left);

		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
		if (n == 0 && left <= INT_MAX)
			return false;
	}
}

/* Sleep RETRY_MS, or until the deadline if that is earlier; false: it is over. */
static bool pause_until(uint64_t deadline_ms)
{
	uint64_t now = stub_now_ms(), left;

	if (now >= deadline_ms)
		return false;
	left = deadline_ms - now;
	poll(NULL, 0, left < RETRY_MS ? (int)left : RETRY_MS);
	return true;
}

/* The retriever speaks version @theirs: nothing is asked of it for a while. */
static void other_release(struct stub_volume *v, unsigned int theirs)
{
	struct stub_ask_pool *p = stub_volume_pool(v);
	uint64_t now = stub_now_ms(), said = atomic_load(&p->other_said_ms);
	char line[512];

	atomic_store(&p->other_until_ms, now + OTHER_MS);
	if ((said && now - said < OTHER_SAY_MS) ||
	    !atomic_compare_exchange_strong(&p->other_said_ms, &said, now))
		return;
	stub_release_of_retriever(stub_volume_info(v)->socket, theirs, line, sizeof(line));
	stub_log(&v->log, STUB_LOG_WARN, "%s", line);
}

/* A descriptor, or -EAGAIN: no retriever, none that root runs, or one of another release. */
static int connect_retriever(struct stub_volume *v)
{
	const char *path = stub_volume_info(v)->socket;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd CLEANUP_CLOSE = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path) ||
	    stub_now_ms() < atomic_load(&stub_volume_pool(v)->other_until_ms))
		return -EAGAIN;
	strcpy(addr.sun_path, path);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -EAGAIN;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != 0)
		return -EAGAIN;
	if (v->info.home[0] && !stub_home_served(v)) { /* another copy's, or just ending */
		if (!atomic_exchange(&v->elsewhere, true))
			stub_log(&v->log, STUB_LOG_WARN,
				 "the retriever at %s does not serve this volume, but perhaps another copy "
				 "of its file system: only one of them can be used", path);
		return -EAGAIN;
	}
	return stub_steal_fd(&fd);
}

/* ---- the pool ---- */

/* Processes, and volumes of one, shall not begin alike. */
static uint32_t first_id(const struct stub_ask_pool *p)
{
	const uint64_t from[] = { (uint64_t)getpid(), stub_now_us(), (uintptr_t)p };
	uint64_t sum = stub_fnv(STUB_FNV, from, sizeof(from));

	return (uint32_t)(sum ^ sum >> 32);
}

STUB_PUBLIC uint32_t stub_ask_id(struct stub_volume *v)
{
	struct stub_ask_pool *p = stub_volume_pool(v);
	uint32_t id = atomic_fetch_add(&p->next_id, 1);

	return id ? id : atomic_fetch_add(&p->next_id, 1);
}

int stub_ask_pool_create(struct stub_volume *v, struct stub_ask_pool **out)
{
	struct stub_ask_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	atomic_init(&p->pid, getpid());
	atomic_init(&p->next_id, first_id(p));
	*out = p;
	return 0;
}

static void close_idle(struct stub_ask_pool *p)
{
	while (p->n > 0)
		close(p->idle[--p->n].fd);
}

void stub_ask_pool_destroy(struct stub_ask_pool *p)
{
	if (!p)
		return;
	close_idle(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/*
 * The first thread that comes here in a forked child empties the pool, the others
 * wait for it.  The lock is made anew: another thread of the parent may have held
 * it at the fork.
 */
static void after_fork(struct stub_ask_pool *p)
{
	pid_t me = getpid(), seen = atomic_load(&p->pid);

	while (seen != me) {
		if (seen != 0 && atomic_compare_exchange_strong(&p->pid, &seen, 0)) {
			pthread_mutex_init(&p->lock, NULL);
			close_idle(p);
			atomic_store(&p->pid, me);
			return;
		}
		poll(NULL, 0, 1);
		seen = atomic_load(&p->pid);
	}
}

/* An idle connection, true; or a new one (@c->fd may be -EAGAIN), false. */
static bool pool_take(struct stub_volume *v, struct stub_ask_pool *p, struct connection *c)
{
	bool idle;

	after_fork(p);
	pthread_mutex_lock(&p->lock);
	idle = p->n > 0;
	if (idle)
		*c = p->idle[--p->n];
	pthread_mutex_unlock(&p->lock);
	if (!idle)
		*c = (struct connection){ .fd = connect_retriever(v) };
	return idle;
}

static void pool_give(struct stub_ask_pool *p, const struct connection *c)
{
	bool kept = false;

	pthread_mutex_lock(&p->lock);
	if (p->n < IDLE_MAX && c->late <= LATE_MAX) {
		p->idle[p->n++] = *c;
		kept = true;
	}
	pthread_mutex_unlock(&p->lock);
	if (!kept)
		close(c->fd);
}

/* An ANSWER: 0.  Else the connection is of no use: -EAGAIN. */
static int parse(struct stub_volume *v, const uint8_t *buf, size_t len,
		 struct stub_wire_message *m)
{
	int r = stub_wire_parse(buf, len, m);

	if (r == -EPROTO)
		other_release(v, m->version);
	return r < 0 || m->type != STUB_WIRE_IS_ANSWER ? -EAGAIN : 0;
}

/*
 * The connection is broken.  One of another release says why before it closes; that comes after
 * the error, where it has left asks of ours unread.
 */
static int last_words(struct stub_volume *v, int fd, int error)
{
	uint8_t buf[STUB_WIRE_MAX];
	struct stub_wire_message m;

	for (int i = 0; i < LATE_MAX; i++) {
		ssize_t n = stub_wire_receive(fd, buf);

		if (n > 0)
			(void)parse(v, buf, (size_t)n, &m);
		else if (i > 0)
			break;
	}
	return error;
}

/* ---- stub_ask ---- */

/* Read until the answer @id comes.  1, *result and *passed, 0 deadline, -ECONNRESET. */
static int await(struct stub_volume *v, struct connection *c, uint32_t id, uint64_t deadline_ms,
		 int *result, int *passed)
{
	uint8_t buf[STUB_WIRE_MAX];
	struct stub_wire_message m;

	while (wait_for(c->fd, POLLIN, deadline_ms)) {
		int fd CLEANUP_CLOSE = -1;
		ssize_t n = stub_wire_receive_fd(c->fd, buf, &fd);

		if (n == -EAGAIN)
			continue;
		if (n < 0 || parse(v, buf, (size_t)n, &m) < 0)
			return -ECONNRESET;
		if (m.id == id) {
			*result = m.result;
			*passed = stub_steal_fd(&fd);
			return 1;
		}
		if (c->late > 0) /* of an ask whose wait ended before */
			c->late--;
	}
	return 0;
}

static int exchange(struct stub_volume *v, struct connection *c, uint32_t id,
		    const struct stub_ask *ask, uint64_t deadline_ms, int *result, int *passed)
{
	uint8_t buf[STUB_WIRE_MAX];
	size_t len = stub_wire_put_ask(buf, id, ask);
	int r;

	while ((r = stub_wire_send(c->fd, buf, len)) == -EAGAIN)
		if (!wait_for(c->fd, POLLOUT, deadline_ms))
			return 0;
	if (r < 0)
		return last_words(v, c->fd, r);
	r = await(v, c, id, deadline_ms, result, passed);
	if (r == 0)
		c->late++;
	return r;
}

/* *passed: what came with the answer, the caller's. */
static int ask_for(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms,
		   int *passed)
{
	struct stub_ask_pool *p = stub_volume_pool(v);
	uint64_t deadline_ms = stub_now_ms() + wait_ms;
	uint32_t id = ask->id ? ask->id : stub_ask_id(v);

	if (stub_wire_check_ask(ask) < 0)
		return -EINVAL;
	for (;;) {
		struct connection c;
		bool idle = pool_take(v, p, &c);
		int result = -EAGAIN, r = 0;

		if (c.fd >= 0) {
			r = exchange(v, &c, id, ask, deadline_ms, &result, passed);
			/* a late answer to a PASS would keep its memory in the pool */
			if (r < 0 || (r == 0 && ask->kind == STUB_ASK_PASS))
				close(c.fd);
			else
				pool_give(p, &c);
		}
		if (r > 0 && result != -EAGAIN)
			return result;
		if (r < 0 && idle)
			continue; /* left over from an earlier retriever: try the next at once */
		if (!pause_until(deadline_ms))
			return -EAGAIN;
	}
}

STUB_PUBLIC int stub_ask(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms)
{
	int passed CLEANUP_CLOSE = -1;

	return ask->kind == STUB_ASK_PASS ? -EINVAL : ask_for(v, ask, wait_ms, &passed);
}

STUB_PUBLIC int stub_pass(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms,
			  int *fd)
{
	const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	int passed CLEANUP_CLOSE = -1;
	struct stat st;
	int r = ask->kind == STUB_ASK_PASS ? ask_for(v, ask, wait_ms, &passed) : -EINVAL;

	if (r < 0)
		return r;
	if (passed < 0) /* no descriptor left for it */
		return -EAGAIN;
	r = fcntl(passed, F_GET_SEALS);
	if (r < 0 || (r & sealed) != sealed || fstat(passed, &st) < 0 ||
	    (uint64_t)st.st_size != ask->length)
		return -EREMOTEIO;
	*fd = stub_steal_fd(&passed);
	return 0;
}

/* ---- links ---- */

STUB_PUBLIC int stub_link_create(struct stub_volume *v, struct stub_link **out)
{
	int fd CLEANUP_CLOSE = connect_retriever(v);
	struct stub_link *l;

	if (fd < 0)
		return fd;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->fd = stub_steal_fd(&fd);
	l->v = v;
	*out = l;
	return 0;
}

STUB_PUBLIC void stub_link_destroy(struct stub_link *l)
{
	if (!l)
		return;
	close(l->fd);
	free(l);
}

STUB_PUBLIC int stub_link_fd(const struct stub_link *l)
{
	return l->fd;
}

STUB_PUBLIC int stub_link_send(struct stub_link *l, const struct stub_ask *ask, uint32_t *id)
{
	uint64_t deadline_ms = stub_now_ms() + LINK_STUCK_MS;
	uint32_t name = ask->id ? ask->id : stub_ask_id(l->v);
	uint8_t buf[STUB_WIRE_MAX];
	size_t len;
	int r;

	if (stub_wire_check_ask(ask) < 0)
		return -EINVAL;
	len = stub_wire_put_ask(buf, name, ask);
	while ((r = stub_wire_send(l->fd, buf, len)) == -EAGAIN)
		if (!wait_for(l->fd, POLLOUT, deadline_ms))
			return -EAGAIN;
	if (r < 0)
		return last_words(l->v, l->fd, -EAGAIN);
	*id = name;
	return 0;
}

STUB_PUBLIC int stub_link_receive(struct stub_link *l, unsigned int wait_ms, uint32_t *id,
				  int *result)
{
	uint64_t deadline_ms = stub_now_ms() + wait_ms;
	uint8_t buf[STUB_WIRE_MAX];
	struct stub_wire_message m;
	ssize_t n;

	do {
		if (!wait_for(l->fd, POLLIN, deadline_ms))
			return 0;
		n = stub_wire_receive(l->fd, buf);
	} while (n == -EAGAIN);
	if (n < 0)
		return last_words(l->v, l->fd, -EAGAIN);
	if (parse(l->v, buf, (size_t)n, &m) < 0)
		return -EAGAIN;
	*id = m.id;
	*result = m.result;
	return 1;
}
