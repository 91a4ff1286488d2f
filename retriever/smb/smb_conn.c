// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_conn.c - one connection: a worker process, and the thread that talks with it.
 *
 * Whatever is wrong with a worker - silent for call_timeout_ms, dead, sending what
 * makes no sense, or saying itself that its connection is of no use - the answer is the
 * same: kill it, start another.  Only a worker that says "final" is believed that the
 * server itself refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "smb/smb.h"
#include "smb/smb_home.h"
#include "source/background.h"
#include "source/called.h"

extern char **environ;

static int lost(struct smb_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int lost(struct smb_conn *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	return SMB_LOST;
}

/* A text of the worker's, as it may be shown, in JSON too. */
static void show(const struct smb_text *t, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < t->len && n + 1 < size; i++)
		out[n++] = t->p[i] >= 0x20 && t->p[i] < 0x7f ? t->p[i] : '?';
	out[n] = '\0';
}

/* ---- the process ---- */

static int spawn(struct smb_conn *c)
{
	const char *path = c->s->worker;
	/* it gets the home's path here, to remove the home even if START never comes */
	char *argv[] = { (char *)"postcopy-smb-worker", c->home, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, defaults;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pair[1], SMB_WIRE_FD);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = -posix_spawn(&c->pid, path, &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	close(pair[1]);
	c->fd = pair[0];
	if (r < 0) {
		c->pid = 0;
		close(c->fd);
	}
	return r;
}

static void leave_home(struct smb_conn *c)
{
	smb_home_remove(c->home);
	close(c->home_fd);
}

/* A worker with its home, and its tickets in there.  On failure nothing is left. */
static int make_worker(struct smb_conn *c, struct smb_krb5_written *tickets)
{
	const struct smb_source *s = c->s;
	char path[sizeof(c->home) + sizeof(SMB_HOME_TICKETS)];
	int r = 0;

	c->home_fd = smb_home_make(c->home, sizeof(c->home));
	if (c->home_fd < 0) {
		lost(c, "cannot make %.150s: %s", c->home, strerror(-c->home_fd));
		return c->home_fd;
	}
	snprintf(path, sizeof(path), "%s/" SMB_HOME_TICKETS, c->home);
	if (s->ticket)
		r = smb_krb5_write(s->ticket, path, s->config.call_timeout_ms, tickets, c->why,
				     sizeof(c->why));
	c->ticket = tickets->serial;
	if (r == 0) {
		r = spawn(c);
		if (r < 0) {
			lost(c, "cannot start %.150s: %s", s->worker, strerror(-r));
			r = -EPROTO;
		}
	}
	if (r < 0)
		leave_home(c);
	return r;
}

void smb_conn_hangup(struct smb_conn *c)
{
	if (!c->pid)
		return;
	close(c->fd);
	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	leave_home(c);
	smb_out_free(&c->out);
	free(c->in);
	c->in = NULL;
	c->in_size = 0;
}

/* ---- messages ---- */

static int broken(struct smb_conn *c, int r, uint64_t *silent_ms)
{
	*silent_ms = 0;
	if (r == -ECANCELED)
		return lost(c, "stopping");
	if (r == -ETIMEDOUT) {
		*silent_ms = c->s->config.call_timeout_ms;
		return lost(c, "no answer for %u ms", c->s->config.call_timeout_ms);
	}
	return lost(c, r == -ECONNRESET ? "the worker has ended" : "worker: %s", strerror(-r));
}

static int nonsense(struct smb_conn *c)
{
	smb_log(c->s, STUB_LOG_ERROR, "source %s: impossible message from a worker",
		c->s->uri.host);
	return lost(c, "impossible message from a worker");
}

static int receive(struct smb_conn *c, struct smb_answer *a, uint32_t *tag, uint64_t *silent_ms)
{
	unsigned int wait_ms = c->s->config.call_timeout_ms;
	uint8_t header[SMB_WIRE_HEADER];
	enum smb_wire_type type;
	uint32_t len;
	int r = smb_wire_receive(c->fd, header, sizeof(header), wait_ms, c->s->wake);

	if (r < 0)
		return broken(c, r, silent_ms);
	r = smb_wire_header(header, &type, &len, tag);
	if (r == -EPROTO) /* an update has put another worker there while we ran */
		return lost(c, "%.100s is of another build than this retriever: restart "
			    "'postcopy-retriever@*'", c->s->worker);
	if (r < 0)
		return nonsense(c);
	if (len > c->in_size) {
		uint8_t *p = realloc(c->in, len);

		if (!p)
			return lost(c, "out of memory");
		c->in = p;
		c->in_size = len;
	}
	r = smb_wire_receive(c->fd, c->in, len, wait_ms, c->s->wake);
	if (r < 0)
		return broken(c, r, silent_ms);
	return smb_wire_answer(type, c->in, len, a) < 0 ? nonsense(c) : 0;
}

/* The answer to each request, but for FAIL. */
static const enum smb_wire_type answers[] = {
	[SMB_WIRE_START] = SMB_WIRE_READY,    [SMB_WIRE_GETATTR] = SMB_WIRE_ATTRS,
	[SMB_WIRE_LOOKUP] = SMB_WIRE_OBJECT,  [SMB_WIRE_LIST] = SMB_WIRE_END,
	[SMB_WIRE_READ_] = SMB_WIRE_DATA,     [SMB_WIRE_GETMETA] = SMB_WIRE_META,
	[SMB_WIRE_STREAM] = SMB_WIRE_DATA,    [SMB_WIRE_GETHOLES] = SMB_WIRE_HOLES,
	[SMB_WIRE_PUTMETA] = SMB_WIRE_PUT,
};

/* The call is over: not under way any more. */
static void forget(struct smb_conn *c, struct smb_under *u)
{
	*u = c->under[--c->n_under];
}

static int fail(struct smb_conn *c, struct smb_under *u, const struct smb_answer *a)
{
	struct smb_call *call = u ? u->call : NULL;
	int err = a->error;
	bool told;

	show(&a->why, c->why, sizeof(c->why));
	if (!c->why[0])
		lost(c, "no reason is given");
	if (!a->final)
		return SMB_LOST;
	if (!call)
		return nonsense(c);
	forget(c, u);
	if (err == -ENOENT && call->request.type != SMB_WIRE_LOOKUP &&
	    call->request.type != SMB_WIRE_START)
		err = -ESTALE; /* the object was there when it was listed */
	/* these park the object: log the worker's line, which has its path over there */
	told = err == -EBADMSG ||
	       ((err == -EACCES || err == -EIO) && (call->request.type == SMB_WIRE_GETMETA ||
				   call->request.type == SMB_WIRE_STREAM ||
				   call->request.type == SMB_WIRE_PUTMETA));
	smb_log(c->s, told ? STUB_LOG_WARN : STUB_LOG_DEBUG, "source %s: %s", c->s->uri.host, c->why);
	smb_call_over(call, c, err, NULL);
	return 0;
}

static enum called kind_of(enum smb_wire_type type)
{
	switch (type) {
	case SMB_WIRE_LOOKUP:
		return CALLED_LOOKUP;
	case SMB_WIRE_LIST:
		return CALLED_LISTING;
	case SMB_WIRE_GETATTR:
	case SMB_WIRE_GETMETA:
		return CALLED_ATTRIBUTES;
	case SMB_WIRE_READ_:
	case SMB_WIRE_STREAM:
		return CALLED_READ;
	default:
		return CALLED_OTHER;
	}
}

static int send_call(struct smb_conn *c, struct smb_call *call, uint64_t *silent_ms)
{
	struct smb_under *u = &c->under[c->n_under];
	int r;

	c->out.tag = ++c->tag;
	smb_out_request(&c->out, &call->request);
	r = smb_out_end(&c->out);
	if (r < 0) {
		smb_call_over(call, c, r == -ENOMEM ? r : -ENAMETOOLONG, NULL);
		return 0;
	}
	*u = (struct smb_under){ call, c->tag, stub_now_us() };
	c->n_under++;
	r = smb_wire_send(c->fd, &c->out, c->s->config.call_timeout_ms, c->s->wake);
	return r < 0 ? broken(c, r, silent_ms) : 0;
}

static struct smb_under *under_of(struct smb_conn *c, uint32_t tag)
{
	for (unsigned int i = 0; i < c->n_under; i++)
		if (c->under[i].tag == tag)
			return &c->under[i];
	return NULL;
}

/* Until there is a message (*message), or perhaps one more call. */
static int wait_message(struct smb_conn *c, bool *message, uint64_t *silent_ms)
{
	struct pollfd p[] = { { .fd = c->fd, .events = POLLIN },
			      { .fd = c->s->wake, .events = POLLIN },
			      { .fd = c->more, .events = POLLIN } };
	uint64_t n;
	int r;

	atomic_store(&c->waits_us, stub_now_us());
	do
		r = poll(p, 3, (int)c->s->config.call_timeout_ms);
	while (r < 0 && errno == EINTR);
	atomic_store(&c->waits_us, 0);
	if (r > 0 && p[2].revents && read(c->more, &n, sizeof(n)) < 0)
		r = -EIO;
	if (r <= 0 || p[1].revents)
		return broken(c, r < 0 ? -EIO : r ? -ECANCELED : -ETIMEDOUT, silent_ms);
	*message = p[0].revents;
	return 0;
}

/* How long the answer took. */
static void note(const struct smb_conn *c, const struct smb_call *call, uint64_t since_us,
		 const struct smb_answer *a)
{
	enum called kind = kind_of(call->request.type);

	called(kind, since_us);
	if (kind != CALLED_LISTING)
		limiter_answered(c->s->pool.limiter, c->s->pool.lane, since_us,
				 a->type == SMB_WIRE_DATA ? a->rest_len :
				 a->type == SMB_WIRE_META ? a->data_len :
							    0);
}

/* One message: a call may be over. */
static int take_message(struct smb_conn *c, uint64_t *silent_ms)
{
	struct smb_under *u;
	struct smb_answer a;
	struct smb_call *call;
	uint64_t came_us;
	uint32_t tag;
	int r = receive(c, &a, &tag, silent_ms);

	if (r)
		return r;
	limiter_heard(c->s->pool.limiter, c->s->pool.lane);
	if (a.type == SMB_WIRE_ALIVE)
		return 0;
	u = under_of(c, tag);
	if (a.type == SMB_WIRE_FAIL)
		return fail(c, u, &a);
	if (!u)
		return nonsense(c);
	call = u->call;
	if (a.type == SMB_WIRE_ENTRIES && call->part) {
		call->begun = true;
		if (limiter_counts(c->s->pool.limiter, call->prio == SOURCE_BACKGROUND))
			limiter_another(c->s->pool.limiter);
		came_us = stub_now_us();
		call->part(call, &a);
		u->since_us += stub_now_us() - came_us; /* ours */
		return 0;
	}
	if (a.type != answers[call->request.type] ||
	    (a.type == SMB_WIRE_DATA && a.rest_len > call->request.length) ||
	    (a.type == SMB_WIRE_META && a.data_len > call->request.want))
		return nonsense(c);
	note(c, call, u->since_us, &a);
	forget(c, u);
	smb_call_over(call, c, 0, &a);
	return 0;
}

/* May another call go with those under way?  Not where one of them is without an answer for long:
 * when the others are over, silence will tell. */
static bool room_for_more(const struct smb_conn *c)
{
	uint64_t now_us = stub_now_us();

	for (unsigned int i = 0; i < c->n_under; i++)
		if (now_us - c->under[i].since_us > c->s->config.call_timeout_ms * 1000ull)
			return false;
	return true;
}

int smb_conn_work(struct smb_conn *c, struct smb_call *call, uint64_t *silent_ms)
{
	bool with_others = smb_goes_with_others(call), message = true;
	int r;

	*silent_ms = 0;
	do {
		r = send_call(c, call, silent_ms);
		call = NULL;
		while (r == 0 && c->n_under) {
			if (with_others && room_for_more(c) && (call = smb_more(c)))
				break;
			if (with_others)
				r = wait_message(c, &message, silent_ms);
			if (r == 0 && message)
				r = take_message(c, silent_ms);
		}
	} while (r == 0 && call);
	return r;
}

int smb_conn_call(struct smb_conn *c, struct smb_call *call, uint64_t *silent_ms)
{
	int r;

	*silent_ms = 0;
	r = send_call(c, call, silent_ms);
	while (r == 0 && c->n_under)
		r = take_message(c, silent_ms);
	c->n_under = 0;
	return r;
}

/* ---- connecting ---- */

struct starting {
	struct smb_call call;
	int err;
	struct stub_attr root;
};

static void on_started(struct smb_call *call, int err, struct smb_answer *a)
{
	struct starting *t = (struct starting *)call;

	t->err = err;
	if (!err)
		t->root = a->attr;
}

static struct smb_text text(const char *s)
{
	return (struct smb_text){ s, strlen(s) };
}

/* Is the share's root still the same object? */
static int check_root(struct smb_conn *c, const struct stub_attr *root)
{
	struct smb_source *s = c->s;
	uint64_t want = s->config.smb.root_fileid;

	pthread_mutex_lock(&s->pool.lock);
	if (s->pool.known)
		want = s->root.fileid;
	pthread_mutex_unlock(&s->pool.lock);
	if (!want || want == root->fileid)
		return 0;
	lost(c, "the share shows another directory than before");
	return -ENOENT;
}

int smb_conn_dial(struct smb_conn *c, struct stub_attr *root)
{
	const struct smb_source *s = c->s;
	const struct source_smb *o = &s->config.smb;
	struct starting t = {
		.call.done = on_started,
		.call.request.type = SMB_WIRE_START,
	};
	uint64_t silent_ms;
	struct smb_krb5_written tickets = { 0 };
	int r = make_worker(c, &tickets);

	if (r < 0)
		return r;
	t.call.request.start = (struct smb_start){
		.flags = (o->sign ? SMB_WIRE_SIGN : 0) | (o->encrypt ? SMB_WIRE_ENCRYPT : 0) |
			 (s->ticket ? SMB_WIRE_KERBEROS : 0) |
			 (o->strict_delete ? SMB_WIRE_STRICT : 0) |
			 (o->traverse ? SMB_WIRE_TRAVERSE : 0) | (o->depot ? SMB_WIRE_DEPOT : 0),
		.port = s->uri.port,
		.uid = o->uid,
		.gid = o->gid,
		.file_mode = o->file_mode,
		.dir_mode = o->dir_mode,
		.xattr_value = o->xattr_value,
		.xattr_all = o->xattr_all,
		.host = text(s->uri.node),
		.share = text(s->uri.share),
		.root = text(s->uri.root),
		.user = text(s->ticket ? tickets.user : s->login.user),
		.domain = text(s->login.domain),
		.password = text(s->login.password),
		.idmap = text(s->idmap),
	};
	r = smb_conn_call(c, &t.call, &silent_ms);
	if (r == 0)
		r = t.err;
	else
		r = silent_ms ? -ETIMEDOUT : -EPROTO;
	if (c->out.p) /* START, with the password, was in this buffer */
		explicit_bzero(c->out.p, c->out.size);
	if (r == 0)
		r = check_root(c, &t.root);
	if (r == 0)
		*root = t.root;
	else
		smb_conn_hangup(c);
	return r;
}

/* ---- the thread ---- */

static void on_pong(struct smb_call *call, int err, struct smb_answer *a)
{
	(void)call;
	(void)err;
	(void)a;
}

static int ping(struct smb_conn *c, uint64_t *silent_ms)
{
	struct smb_call call = {
		.request = { .type = SMB_WIRE_GETATTR, .path = text(c->s->uri.root) },
		.done = on_pong,
	};

	return smb_conn_call(c, &call, silent_ms);
}

/* The turn is over: tell smb_pace.c what came of it. */
static int dial_over(struct smb_conn *c, int r)
{
	smb_pace_end(c->s, r, c->why, c->ticket);
	return r;
}

/*
 * There are newer tickets, and the server ends our session when the old ones end: connect
 * another worker with the new ones, then end this one.  If that fails now, this one stays.
 */
static void renew(struct smb_conn *c)
{
	struct smb_conn fresh = { .s = c->s, .index = c->index };
	struct stub_attr root;

	c->ticket = tickets_serial(c->s->ticket);
	if (!smb_pace_begin(c->s, false))
		return;
	if (dial_over(&fresh, smb_conn_dial(&fresh, &root)) < 0) {
		smb_log(c->s, STUB_LOG_INFO, "source %s: connection %u, new tickets: %s",
			c->s->uri.host, c->index, fresh.why);
		return;
	}
	smb_conn_hangup(c);
	c->pid = fresh.pid;
	c->fd = fresh.fd;
	memcpy(c->home, fresh.home, sizeof(c->home));
	c->home_fd = fresh.home_fd;
	c->ticket = fresh.ticket;
	c->out = fresh.out;
	c->in = fresh.in;
	c->in_size = fresh.in_size;
	pthread_mutex_lock(&c->s->pool.lock);
	c->number = ++c->s->made;
	pthread_mutex_unlock(&c->s->pool.lock);
}

/* The connection was lost under them.  The first one will be the first again.  One that could go with others
 * is asked in another way when it goes alone. */
static void lose_calls(struct smb_conn *c)
{
	bool together = c->n_under > 1 || (c->n_under && smb_goes_with_others(c->under[0].call));

	while (c->n_under)
		smb_lost(c, c->under[--c->n_under].call, together);
}

/* Fewer connections are wanted. */
static void leave(struct smb_conn *c)
{
	smb_log(c->s, STUB_LOG_INFO, "source %s: connection %u closed: fewer are wanted", c->s->uri.host,
		c->index);
	smb_conn_down(c, 0);
	smb_conn_hangup(c);
	c->ever = false; /* what comes then is no reconnect */
}

static void *conn_main(void *arg)
{
	struct smb_conn *c = arg;
	struct smb_source *s = c->s;
	struct smb_call *call;
	struct stub_attr root;
	uint64_t silent_ms;
	bool idle;
	int r;

	if (c->index) /* the first is for demand, see smb_queue.c; its worker likewise */
		background_thread();
	for (;;) {
		if (c->pid && !smb_conn_wanted(c))
			leave(c);
		if (!c->pid) {
			if (!smb_wait_wanted(c) || !smb_pace_begin(s, true))
				break;
			if (dial_over(c, smb_conn_dial(c, &root)) < 0) {
				if (!smb_conn_wait(c))
					break;
				continue;
			}
			smb_log(s, STUB_LOG_DEBUG, "source %s: connection %u is up", s->uri.host,
				c->index);
			smb_conn_up(c, &root);
		}
		if (smb_ticket_is_old(c))
			renew(c);
		call = smb_next(c, &idle);
		if (!call && !idle)
			break;
		if (!call && (smb_ticket_is_old(c) || !smb_conn_wanted(c)))
			continue;
		r = call ? smb_conn_work(c, call, &silent_ms) : ping(c, &silent_ms);
		if (r != SMB_LOST)
			continue;
		smb_log(s, STUB_LOG_INFO, "source %s: connection %u lost: %s", s->uri.host, c->index,
			c->why);
		smb_conn_down(c, silent_ms);
		smb_conn_hangup(c);
		lose_calls(c);
	}
	smb_conn_hangup(c);
	smb_end_all(s, -ECANCELED);
	return NULL;
}

int smb_conn_start(struct smb_source *s, unsigned int index)
{
	struct smb_conn *c = &s->conn[index];
	int r;

	c->s = s;
	c->index = index;
	c->more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->more < 0)
		return -errno;
	r = -pthread_create(&c->thread, NULL, conn_main, c);
	if (r < 0)
		close(c->more);
	return r;
}

void smb_conn_join(struct smb_conn *c)
{
	pthread_join(c->thread, NULL);
	close(c->more);
}
