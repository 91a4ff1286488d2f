/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb.h - what the rooms of the SMB source share; nobody else includes it.
 *
 *   smb_uri.c     smb://... into its parts
 *   smb_password.c  the file with user and password
 *   smb_login.c   the way to log in: password or Kerberos
 *   smb_krb5.c    Kerberos tickets for workers (krb5/tickets.h gets them)
 *   smb_source.c  life, state and the calls: the backend's table
 *   smb_take.c    answers, copied for who has asked
 *   smb_pace.c    which connection may log on, and when
 *   smb_queue.c   which call is next; losses, back-off, giving up
 *   smb_conn.c    one thread and one worker process per connection
 *   smb_wire.c    the protocol with the worker (smb_wire.h)
 *
 * Life of a call: queue[priority] -> its connection's thread -> done(), or back to the
 * front of its queue when the connection was lost under it.  done() is called exactly
 * once, without any lock held, with the call in no list.
 *
 * Locking: smb_source.lock guards what its comment claims; nothing is called back and
 * nothing is sent or received with it held.
 */
#ifndef SMB_H
#define SMB_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "smb/smb_krb5.h"
#include "smb/smb_wire.h"
#include "source/pool.h"
#include "source/source_ops.h"
#include "source/trace.h"
#include "source/uri.h"

#define SMB_CONNECTIONS_MAX 16
#define SMB_BACKOFF_MIN_MS  100
#define SMB_BACKOFF_MAX_MS  5000
#define SMB_LOSSES_MAX	    3 /* connections lost under a call until it fails, each newer */
#define SMB_PING_MS	    15000 /* an idle connection is tried so often */
#define SMB_WHY_MAX	    SOURCE_WHY_MAX

/* ---- smb_uri.c ---- */

struct smb_uri {
	char host[SOURCE_HOST_MAX]; /* as it is shown: IPv6 addresses in brackets */
	char node[SOURCE_HOST_MAX]; /* as resolvers take it: without */
	char share[256];
	char root[STUB_ORIGIN_MAX + 1]; /* below the share, '/' between names; "" */
	uint16_t port;			/* 0: the usual one */
};

/* smb://host[:port]/share[/dir...]: 0, or -EINVAL with one line in @why. */
int smb_uri_parse(const char *uri, struct smb_uri *out, char *why, size_t why_size);

/* ---- smb_password.c ---- */

struct smb_login {
	char user[256], domain[256], password[256];
};

/*
 * username = ..., password = ..., domain = ... (one a line) of the regular file @path,
 * which nobody but its owner, root or us, may read.
 *   -EACCES, -ENOENT, -EINVAL ...  with one line in @why
 */
int smb_login_read(const char *path, struct smb_login *out, char *why, size_t why_size);

/* ---- smb_login.c ---- */

struct smb_source;

/*
 * The one way to log in that @o has: s->login, or s->ticket is begun.
 *   -EACCES, -ENOENT, -EINVAL ...  with one line in @why
 */
int smb_login_prepare(struct smb_source *s, const struct source_smb *o, char *why,
		      size_t why_size);

/* ---- calls ---- */

struct smb_call {
	TAILQ_ENTRY(smb_call) link;
	uint64_t trace, begun_us; /* what it is for, and since when; 0: it is not told of */
	enum source_priority prio;
	/* its texts stay the caller's; alone: a connection was lost under it and others */
	struct smb_request request;
	unsigned int losses; /* connections lost under it since the source was lost as a whole */
	uint64_t epoch; /* of smb_source.epoch, at the last of these losses */
	uint64_t made; /* of smb_source.made, likewise */
	bool begun; /* a part of the answer has been handed on */
	unsigned int flight; /* it is under way, and counts by the limiter; else 0 */
	/* A part, ENTRIES: on the connection's thread; it may wait. */
	void (*part)(struct smb_call *c, struct smb_answer *a);
	/* @a is the answer, valid during the call; NULL if @err. */
	void (*done)(struct smb_call *c, int err, struct smb_answer *a);
};

TAILQ_HEAD(smb_calls, smb_call);

struct smb_under { /* a call that is under way */
	struct smb_call *call;
	uint32_t tag;
	uint64_t since_us;
};

struct smb_conn {
	struct smb_source *s;
	unsigned int index;
	pthread_t thread;
	bool usable;  /* guarded by smb_source.pool.lock */
	uint64_t number; /* likewise: smb_source.made when it was made */
	unsigned int working; /* likewise: calls that it has, or has just had */
	/* the thread's own */
	pid_t pid; /* the worker, 0: none */
	int fd;
	char home[512]; /* the worker's */
	int home_fd; /* of smb_home_make() */
	struct smb_under under[SMB_WIRE_MANY];
	unsigned int n_under;
	uint32_t tag; /* of the last request */
	int more; /* eventfd: there may be one more call; constant */
	atomic_uint_fast64_t waits_us; /* for an answer, since then; 0: it does not */
	uint64_t ticket; /* serial of the tickets with which it was connected */
	struct smb_out out;
	uint8_t *in; /* the message that came in */
	size_t in_size;
	uint32_t backoff_ms;
	bool ever;
	char why[SMB_WHY_MAX];
};

struct smb_pace { /* see smb_pace.c */
	char *path; /* constant: the file with the password; NULL: Kerberos */
	bool dialing; /* some connection has the turn */
	struct stat file; /* as it was when login was read; belongs to who has the turn */
	bool refused; /* the last logon was, and nothing else has gone wrong since */
	bool hurry; /* the next logon need not wait */
	uint32_t backoff_ms; /* after the last refusal; 0: a logon was good since */
	uint64_t next_ms; /* refused: no logon before this time */
	uint64_t serial; /* refused: of the tickets that were used */
	char why[SMB_WHY_MAX];
};

struct smb_source {
	struct source base;
	/* constant after creation */
	struct smb_uri uri;
	struct source_config config;
	struct smb_login login; /* not constant: belongs to who has the turn of pace */
	char *worker, *idmap;
	struct tickets *ticket; /* NULL: not Kerberos */
	int wake; /* eventfd, readable after stop */

	struct source_pool pool; /* known: the root is */
	/* guarded by pool.lock */
	pthread_cond_t work; /* something to do, or stop */
	unsigned int n; /* connections that have a thread; it never shrinks */
	unsigned int wanted; /* those with a lower index are used */
	struct stub_attr root;
	uint64_t epoch; /* how many connections could not be made so far */
	uint64_t made; /* how many were made so far */
	uint64_t broke_made; /* of these, when what goes together was lost the last time */
	atomic_uint broke; /* so often in a row */
	uint64_t alone_until_ms; /* until then nothing goes together */
	struct smb_calls queue[2];
	struct smb_pace pace;
	uint64_t mangled; /* names listed that may be made up */

	struct smb_conn conn[SMB_CONNECTIONS_MAX];
};

#define smb_log(s, level, ...) \
	stub_log_to((s)->config.log, (s)->config.log_arg, level, __VA_ARGS__)

/* ---- smb_queue.c ---- */

bool smb_ticket_is_old(const struct smb_conn *c); /* there are newer tickets than its own */
bool smb_conn_wanted(const struct smb_conn *c); /* or fewer are: it is to be closed */
bool smb_wait_wanted(struct smb_conn *c); /* until it is.  False: stop */
int smb_submit(struct smb_source *s, struct smb_call *c); /* 0, -ECANCELED: no done() */
/* Calls for @trace that wait in the background go as demand. */
void smb_hurry(struct smb_source *s, uint64_t trace);
/* The next call for this connection; waits.  NULL: stop, or *ping: nothing for SMB_PING_MS,
 * or newer tickets, or it is not wanted any more. */
struct smb_call *smb_next(struct smb_conn *c, bool *ping);
/* One more for this connection, beside those under way; NULL: none that may go with them, or for
 * which no other connection rests. */
struct smb_call *smb_more(struct smb_conn *c);
bool smb_goes_with_others(const struct smb_call *c);
/* done(), which is told of at level debug; @on: who had it, NULL: nobody. */
void smb_call_over(struct smb_call *c, const struct smb_conn *on, int err, struct smb_answer *a);
/* @conn was lost under @c: queue it again, or end it (-EIO after too many losses).  @together:
 * there were others, so it need not have been this one's fault. */
void smb_lost(struct smb_conn *conn, struct smb_call *c, bool together);
void smb_conn_up(struct smb_conn *c, const struct stub_attr *root);
void smb_conn_down(struct smb_conn *c, uint64_t silent_ms);
/* No connection could be made: log why, once; wait before the next try.  False: stop. */
bool smb_conn_wait(struct smb_conn *c);
void smb_end_all(struct smb_source *s, int err); /* all calls that are queued */
/* With the lock: wait for something to do, or @until_ms; ends calls that waited too long. */
void smb_wait_work(struct smb_source *s, uint64_t until_ms);
int smb_wait_known(struct smb_source *s, struct stub_attr *root); /* 0, -ECANCELED, -ETIMEDOUT */

/* ---- smb_pace.c ---- */

/* Read s->login from this file.  -EACCES, -ENOENT, -EINVAL ...  with one line in @why */
int smb_pace_prepare(struct smb_source *s, const char *credentials, char *why, size_t size);
/* Wait for the turn to make a connection, and read the login again.  False: stop; or not
 * @patient, and no logon may be tried now. */
bool smb_pace_begin(struct smb_source *s, bool patient);
/* The turn is over: smb_conn_dial() has given @result and @why, with tickets @serial. */
void smb_pace_end(struct smb_source *s, int result, const char *why, uint64_t serial);
void smb_pace_hurry(struct smb_source *s); /* read the login and try again, at once */
/* With the lock: add to @out what is refused; its trouble is filled in already. */
void smb_pace_state(struct smb_source *s, struct source_state *out);

/* ---- smb_take.c ---- */

/* All that META, or HOLES, has brought but for META's attr; *out is empty before, and has to be freed after an
 * error, too.  -ENOMEM */
int smb_take_meta(struct source_meta *out, struct smb_answer *a);
int smb_take_holes(struct source_holes *out, struct smb_answer *a);

/* ---- smb_conn.c ---- */

int smb_conn_start(struct smb_source *s, unsigned int index);
void smb_conn_join(struct smb_conn *c);
/* Start a worker and connect it; the caller has the turn: 0, or -errno with c->why.
 * -EKEYREJECTED: the server does not let us in. */
int smb_conn_dial(struct smb_conn *c, struct stub_attr *root);
#define SMB_LOST 1
/* Do one call on the connection, calling its part() and done(): 0, or SMB_LOST with c->why, and
 * in *silent_ms for how long nothing was heard. */
int smb_conn_call(struct smb_conn *c, struct smb_call *call, uint64_t *silent_ms);
/* The same, and with it others from the queue, for as long as there are some that go with it.  After
 * SMB_LOST those of c->under are the caller's. */
int smb_conn_work(struct smb_conn *c, struct smb_call *call, uint64_t *silent_ms);
void smb_conn_hangup(struct smb_conn *c);

#endif
