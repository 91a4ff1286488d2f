/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs.h - what the rooms of the NFS source share; nobody else includes it.
 *
 *   nfs_uri.c    nfs://... into its parts
 *   nfs_handle.c what a file handle tells
 *   nfs_identity.c is it still the object that it was?
 *   nfs_acl.c    POSIX ACLs beside NFSv3, and a mode that gives no more than they do
 *   nfs_attr.c   NFS's codes and attributes into ours
 *   nfs_dial.c   the way to a usable connection: resolve, portmapper, NULL
 *   nfs_carrier.c  what carries its calls
 *   nfs_secure.c  a usable connection of NFS, by libnfs or with Kerberos
 *   nfs_krb5.c   tickets, and when to try again who was refused
 *   nfs_conn.c   one thread per connection: send, receive, watchdog, reconnect
 *   nfs_queue.c  which call goes to which connection; back-off and giving up
 *   nfs_call.c   one call, or several in one message: send, judge what comes back
 *   nfs3_call.c  NFSv3: how a call is said, and what its reply says
 *   nfs3_change.c  the same of calls that change something, which only NFSv3 has here
 *   nfs3_dial.c  NFSv3: MOUNT, and what is asked of the root
 *   nfs3_traits.c  what it says of itself
 *   nfs4_*.c     NFSv4, see nfs4.h; nfs41_*.c its sessions; nfs42_*.c what 4.2 tells more
 *   nfs_read.c   reading
 *   nfs_list.c   listing
 *   nfs_probe.c  probing
 *   nfs_settle.c which version of NFSv4 a migration begins with
 *   nfs_traits.c what the server says of itself
 *   nfs_target.c what source/target.h changes over there
 *   nfs_aces.c   POSIX ACLs as the ACL protocol takes them
 *   nfs_zdr.c    guards before libnfs's decoders, and bytes instead of them
 *   nfs_source.c life, state and the other calls: the backend's table
 *
 * Life of a call.  It is in exactly one place at any time:
 *
 *      submit -> queue[priority] -> conn.inbox -> conn.flight -> done()
 *                   ^   ^                            |   |
 *                   |   `-- connection, session lost-'   |
 *                   |       (NFSv4) nothing said of it   |
 *                   `--- delayed <---- JUKEBOX ----------'
 *
 * done() is called exactly once, without any lock held.  Before it, the call has
 * left all lists: done() may free it or submit it again.
 *
 * A call that comes back to a queue is sent again.  Of a connection that was lost nobody knows what
 * the server has done, or is still doing, with its calls: what changes something may be done
 * twice, and the second time be refused (source/target.h).
 *
 * Locking.  nfs_source.lock guards all that its comment claims, and nothing is called
 * back with it held.  A carrier belongs to the thread of its connection.
 * Contexts are made, and connects are begun, under one process-wide lock in
 * nfs_dial.c, because libnfs 4.0.0 uses statics there.
 *
 * libnfs's lifetime rules, which nfs_conn.c relies on:
 *   - every queued PDU gets its callback exactly once: with the reply, with an
 *     error when the connection breaks, or with RPC_STATUS_CANCEL from
 *     nfs_carrier_destroy();
 *   - a context is never destroyed inside a callback (the PDU is used after it);
 *   - no PDU is queued inside a callback (libnfs asserts that on errors);
 *   - a reply is valid until its callback returns;
 *   - libnfs's own timeouts and reconnects stay off.
 */
#ifndef NFS_H
#define NFS_H

#include <pthread.h>
#include <sys/queue.h>

#include <nfsc/libnfs-zdr.h>
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#include "nfs/nfs_carrier.h"
#include "source/pool.h"
#include "source/source_ops.h"
#include "source/trace.h"
#include "source/uri.h"

#define NFS_CONNECTIONS_MAX  16
#define NFS_HANDLE_MAX	     128 /* of NFSv4; NFSv3's have up to NFS3_FHSIZE */
#define NFS_READ_MAX	     (1024 * 1024) /* libnfs drops a reply that is longer */
#define NFS_WRITE_MAX	     (1024 * 1024) /* of which libnfs makes a copy for each call */
#define NFS_ACES_MAX	     1024 /* of one ACL: Linux's servers take no more */
#define NFS_READDIR_MIN	     (64 * 1024)
#define NFS_READDIR_MAX	     (256 * 1024)
#define NFS_BACKOFF_MIN_MS   100
#define NFS_BACKOFF_MAX_MS   5000
#define NFS_JUKEBOX_MIN_MS   100
#define NFS_JUKEBOX_MAX_MS   2000
#define NFS_PING_MS	     15000 /* an idle connection is tried so often */
#define NFS_GARBAGE_MAX	     3 /* undecodable replies until a call fails */
#define NFS_LOSSES_MAX	     5 /* connections lost under a call until it travels alone */
#define NFS_CONN_STACK_BYTES (16 * 1024 * 1024) /* libnfs decodes entries by recursion */
#define NFS_WHY_MAX	     SOURCE_WHY_MAX
#define NFS_ACL_TRIES	     3 /* connections on which a server may keep quiet about ACLs */
#define NFS_ASTRAY_MS	     60000 /* so long is an object in another's place news */
#define NFS_PORT	     2049
#define NFS_OWNER_MAX	     160 /* a client's name for NFSv4.1, terminated */

struct nfs_version; /* a table of calls, below */
struct nfs41_session; /* nfs41.h */
struct tickets; /* krb5/tickets.h */
struct smb_idmap; /* windows/smb_idmap.h: who NFSv4's names are */

/* ---- nfs_uri.c ---- */

enum nfs_security { NFS_SEC_SYS, NFS_SEC_KRB5, NFS_SEC_KRB5I, NFS_SEC_KRB5P };

struct nfs_uri {
	const struct nfs_version *version;
	enum nfs_security sec;
	bool sec_given;
	char host[SOURCE_HOST_MAX]; /* as it is shown: IPv6 addresses in brackets */
	char node[SOURCE_HOST_MAX]; /* as resolvers take it: without */
	char path[STUB_URI_MAX + 1]; /* of the export; starts with '/' */
	uint16_t nfsport; /* 0: ask the portmapper */
	uint16_t mountport;
};

/* 0, or -EINVAL with one line in @why. */
int nfs_uri_parse(const char *uri, struct nfs_uri *out, char *why, size_t why_size);

/* ---- nfs_handle.c ---- */

/* How many bytes of the handle, from its beginning, belong to the inode; the others belong to
 * the directory in which it was found. */
size_t nfs_handle_inode(const uint8_t *handle, size_t len);

/* ---- nfs_attr.c ---- */

int nfs_errno(uint32_t status); /* nfsstat3 to 0 or an errno of source.h; JUKEBOX: -EAGAIN */
int nfs_change_errno(uint32_t status); /* the same of what changes something: of target.h */
uint32_t nfs_type(uint32_t type); /* ftype3 or nfs_ftype4 to S_IF*; 0: neither has it */
int nfs_attr(const struct fattr3 *from, struct stub_attr *out); /* 0 or -EBADMSG */
int nfs_origin(const struct nfs_fh3 *from, struct stub_origin *out); /* 0 or -EBADMSG */

/* Post-operation attributes: *have says whether there were any.  0 or -EBADMSG. */
int nfs_post_attr(const struct post_op_attr *from, bool *have, struct stub_attr *out);

/* ---- calls ---- */

enum nfs_op {
	NFS_OP_GETATTR,
	NFS_OP_LOOKUP,
	NFS_OP_READLINK,
	NFS_OP_ACCESS,
	NFS_OP_READ,
	NFS_OP_READDIRPLUS,
	NFS_OP_READDIR,
	NFS_OP_GETACL, /* of the ACL protocol, on the same connection */
	NFS_OP_SEEK, /* NFSv4.2, as the next two */
	NFS_OP_LISTXATTRS,
	NFS_OP_GETXATTR,
	NFS_OP_SETATTR, /* NFSv3 alone, as all below: they change something */
	NFS_OP_WRITE,
	NFS_OP_COMMIT,
	NFS_OP_CREATE,
	NFS_OP_MKDIR,
	NFS_OP_SYMLINK,
	NFS_OP_MKNOD,
	NFS_OP_REMOVE,
	NFS_OP_RMDIR,
	NFS_OP_RENAME,
	NFS_OP_LINK,
	NFS_OP_SETACL, /* of the ACL protocol */
};

enum nfs_said { /* what an error says besides */
	NFS_SAID_NOTHING,
	NFS_SAID_TOOSMALL,
	NFS_SAID_NOTSUPP,
	NFS_SAID_COOKIE, /* the directory was changed, and a cookie of it is known no more */
	NFS_SAID_NOXATTR, /* there is no attribute of that name */
};

/* What is wrong beyond the call: the connection is made again, and the call asked again. */
enum nfs_fault {
	NFS_FAULT_NONE,
	NFS_FAULT_SESSION, /* the server knows the session no more, which is no call's doing */
	NFS_FAULT_GARBAGE, /* it answers something else than what was asked */
};

/* What a reply says, in no version's words; what it points at is valid as long as the reply. */
struct nfs_answer {
	int error; /* 0, an errno of source.h, or -EAGAIN: the server says "later" */
	enum nfs_said said;
	/* of the object that the call is about, or that LOOKUP has found; and of the directory in
	 * which it was looked up, or which is listed.  Both may come with an error. */
	bool have_attr, have_dir;
	struct stub_attr attr, dir;
	struct stub_origin origin; /* LOOKUP; of what was made, or there is none */
	bool have_born; /* of GETATTR, where creation times are kept */
	struct timespec born;
	bool xattrs; /* GETATTR, LOOKUP: its file system has extended attributes */
	/* READ, GETXATTR; READLINK: without a zero byte; LISTXATTRS: the names, as they came */
	const char *data;
	uint32_t len; /* WRITE: written */
	uint64_t verf; /* WRITE, COMMIT */
	bool stable; /* WRITE: no COMMIT is needed */
	bool eof; /* READ, SEEK, LISTXATTRS */
	uint64_t at; /* SEEK; UINT64_MAX: there is none; LISTXATTRS: the next cookie */
	uint32_t granted; /* ACCESS; LISTXATTRS: names */
	const void *reply; /* as libnfs has decoded it */
	enum nfs_fault fault; /* not NONE: nothing else counts but why, one line */
	char why[80];
};

struct nfs_aces { /* an ACL as the ACL protocol has it */
	unsigned int n;
	nfsacl_ace *e;
};

/* What only calls have that change something; it stays the caller's. */
struct nfs_change {
	const struct stub_attr *attr; /* SETATTR, and all that makes objects */
	unsigned int what; /* of it: TARGET_* of source/target.h */
	const struct stub_origin *dir; /* LINK, RENAME: where to, ... */
	const char *to; /* ... and the name there; SYMLINK: the target.  Terminated */
	const void *data; /* WRITE */
	bool keep; /* WRITE: it is to be durable when it is answered */
	struct nfs_aces access, def; /* SETACL */
};

struct nfs_call {
	TAILQ_ENTRY(nfs_call) link;
	struct nfs_conn *conn; /* on which it is sent; NULL in queues */

	enum nfs_op op;
	enum source_priority prio;
	struct stub_origin fh;
	/* LOOKUP, GETXATTR, what makes or removes names: terminated, stays the caller's */
	const char *name;
	const struct nfs_change *change; /* from SETATTR on; else NULL */
	uint64_t offset; /* READ, SEEK, WRITE; the cookie of READDIR*, LISTXATTRS */
	/* READ, READDIR*, *XATTR*, WRITE: bytes; ACCESS: the wanted bits; SEEK: what */
	uint32_t count;
	uint32_t uid; /* ACCESS */
	char verf[NFS3_COOKIEVERFSIZE];

	unsigned int garbage; /* undecodable replies so far */
	unsigned int losses; /* connections lost while it was in flight */
	bool suspect; /* may have broken a connection: is sent alone on one */
	bool alone; /* goes with no others in one message */
	unsigned int flight; /* on a connection, if it counts there by the limiter; else 0 */
	struct nfs_call *with; /* in flight: the next one in the same message */
	uint32_t backoff_ms;
	uint64_t due_ms; /* delayed: not before */
	uint64_t sent_us; /* in flight: since */
	uint32_t slot; /* of its connection's session, counted from 1; 0: it goes by none */
	uint64_t trace, begun_us; /* what it is for, and since when; 0: it is not told of */

	/* @a is what the reply says, valid during the call; with an error it may be NULL: there was
	 * none. */
	void (*done)(struct nfs_call *c, int err, const struct nfs_answer *a);
};

TAILQ_HEAD(nfs_calls, nfs_call);

struct nfs_conn {
	struct nfs_source *s;
	unsigned int index;
	pthread_t thread;
	int wake; /* eventfd: the inbox has something, or stop */

	/* guarded by nfs_source.lock */
	bool usable;
	bool solo; /* has a suspect, and takes no other call */
	unsigned int inflight; /* calls in inbox and flight */
	unsigned int window; /* so many at most */
	uint64_t load; /* bytes that these may bring or carry */
	struct nfs_calls inbox; /* for the thread to send */

	/* the thread's own */
	struct nfs_carrier *rpc;
	struct nfs41_session *session; /* NFSv4.1 and later */
	char owner[NFS_OWNER_MAX]; /* by which the server knows that it is the same client */
	struct nfs_calls flight; /* sent, oldest first */
	/* last reply, or when the wait for one began, or when the server took more of what is sent */
	uint64_t heard_ms;
	uint64_t taken; /* bytes it had taken then */
	bool pinging;
	bool replied; /* since the connection was made */
	bool ever; /* was connected before */
	char broken[NFS_WHY_MAX]; /* why the connection must be closed; "": it need not */
	bool framing; /* ... because replies could not be told apart */
	bool blameless; /* ... by no call's doing */
	bool each_alone; /* the server does not take several calls in one message */
	bool leaves; /* it is closed since fewer connections are wanted */
};

struct nfs_pace { /* see nfs_krb5.c */
	bool refused; /* the server takes no ticket of ours */
	uint64_t backoff_ms, next_ms; /* not before this time */
	uint64_t serial; /* of the tickets that were refused */
	char why[NFS_WHY_MAX];
	char mend[256]; /* constant: the keytab or the cache */
};

struct nfs_source {
	struct source base;
	/* constant after creation */
	struct nfs_uri uri;
	struct source_config config;
	uint64_t silence_ms; /* without an answer a connection is given up */
	struct smb_idmap *ids; /* NFSv4; NULL: nobody */
	struct tickets *tickets; /* NULL: sec=sys */

	struct source_pool pool; /* known: root and limits are */
	/* guarded by pool.lock */
	pthread_cond_t schedule; /* wakes the timer thread */
	unsigned int n; /* connections that have a thread; it never shrinks */
	unsigned int wanted; /* those with a lower index are used */
	uint64_t held_ms; /* the limiter held a call, and is to be asked again then; 0: it did not */
	bool acl; /* the server has the ACL protocol; constant once known */
	bool no_holes; /* what the server says of holes is not to be believed */
	bool wrong_root; /* the root is not the one that the migration began with */
	uint64_t astray_ms; /* when another object was met in the place of one; 0: never */
	/* when somebody without a number was told of; 0: never */
	uint64_t nameless_ms[3]; /* by enum nfs4_nameless */
	char astray[NFS_WHY_MAX];
	struct stub_origin root;
	struct source_limits limits;
	struct nfs_pace pace;
	struct nfs_calls queue[2]; /* by priority */
	struct nfs_calls delayed;

	pthread_t timer;
	struct nfs_conn conn[NFS_CONNECTIONS_MAX];
};

/* ---- nfs_dial.c ---- */

/* The making of a connection; the caller's thread waits inside. */
struct nfs_dial {
	const struct nfs_uri *uri;
	const struct smb_idmap *ids;
	struct tickets *tickets; /* with Kerberos */
	uint64_t serial; /* of those with which the last connection was begun */
	uint64_t deadline_ms; /* CLOCK_MONOTONIC */
	int wake; /* poll this too; -1: none */
	bool (*stopped)(void *arg); /* asked when wake is readable; may be NULL */
	void *arg;
	const char *owner; /* NFSv4.1: who we are; NULL: somebody new */
	unsigned int slots; /* NFSv4.1: calls that may be in flight; 0: one */
	/* NFSv4.1: of the connection that nfs_dial_nfs() made last, and goes with it: taken out of
	 * here by who keeps that, or ended by nfs_dial_close() */
	struct nfs41_session *session;
	bool minor_refused; /* the server has no such minor version */
	char why[NFS_WHY_MAX]; /* set on failure */
	/* nfs_dial.c's own */
	bool fired;
	int status;
	int error; /* of connect(), positive */
	int broken; /* of a connection of rpc/onc.h */
	void (*take)(struct nfs_dial *d, void *data);
	void *out;
};

/* All: 0, or -EHOSTUNREACH, -ECONNREFUSED, -ENOENT, -EACCES, -ETIMEDOUT, -EPROTO,
 * -ECANCELED, -ENOMEM, -EKEYREJECTED (the server takes no Kerberos ticket), with one line in
 * d->why. */

#define NFS_ADDRESSES_MAX 8
struct nfs_addresses {
	unsigned int n;
	char text[NFS_ADDRESSES_MAX][64]; /* numeric */
};
int nfs_dial_resolve(struct nfs_dial *d, struct nfs_addresses *out);
/* End a connection of nfs_dial_nfs(), and the session in d->session.  d->why stays. */
void nfs_dial_close(struct nfs_dial *d, struct nfs_carrier *rpc);
/* To @program of @version at port @given (0: the portmapper is asked); @what is its name. */
int nfs_dial_program(struct nfs_dial *d, const char *address, uint16_t given, uint32_t program,
		     uint32_t version, const char *what, struct nfs_carrier **out);
/* Serve @rpc until the step's callback came. */
int nfs_dial_run(struct nfs_dial *d, struct nfs_carrier *rpc, const char *what);
int nfs_dial_connect_error(struct nfs_dial *d, int error, const char *what, const char *address,
			   int port);
/* Write d->why; returns @error. */
int nfs_dial_fail(struct nfs_dial *d, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* One step of a connection made by the calls above: begin, queue the call with
 * nfs_dial_on_step() and @d as its callback, finish.  @take gets the reply and d->out. */
void nfs_dial_begin(struct nfs_dial *d, void (*take)(struct nfs_dial *, void *), void *out);
void nfs_dial_on_step(struct rpc_context *rpc, int status, void *data, void *arg);
/* @queued: what queueing the call returned; @what: the service it was sent to. */
int nfs_dial_finish(struct nfs_dial *d, struct nfs_carrier *rpc, int queued, const char *what);

/* ---- nfs_secure.c ---- */

/* A connection whose server has answered NULL, and with Kerberos knows who we are; NFSv4.1: with a
 * session, in d->session. */
int nfs_dial_nfs(struct nfs_dial *d, const char *address, struct nfs_carrier **out);

/* ---- a version of the protocol ---- */

struct nfs_page;

struct nfs_version {
	const char *name; /* for people */
	const char *option; /* version=... */
	uint32_t number; /* for the portmapper */
	uint32_t minor; /* NFSv4.N */
	uint16_t port; /* of a server of which the URI tells none; 0: the portmapper is asked */

	/* for libnfs, on the thread of the connection: 0, or there is no memory */
	int (*null)(struct nfs_carrier *rpc, rpc_cb cb, void *arg);
	/* a call that says nothing but "still there"; what its reply @reply says: NULL, or why the
	 * connection must be made again.  NULL: null() */
	int (*ping)(struct nfs_conn *c, rpc_cb cb, void *arg);
	const char *(*pinged)(struct nfs_conn *c, const void *reply);
	/* 0; -EOPNOTSUPP: it cannot be said; anything else is lack of memory */
	int (*send)(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb);
	/* libnfs's result of @c; @out is set as a whole */
	void (*answer)(struct nfs_source *s, const struct nfs_call *c, const void *reply,
		       struct nfs_answer *out);
	/* Several calls in one message, which begins with @first, and goes on by nfs_call.with; its
	 * callback is the first one's.  NULL: there is no such thing.
	 * May @next be the next one of them? */
	bool (*joins)(const struct nfs_conn *conn, const struct nfs_call *first,
		      const struct nfs_call *next);
	/* What the reply says: @take is called for each, without an answer for those of which it says
	 * nothing.  Is a->fault not NONE, it was no reply to them, and @take is not called. */
	void (*answers)(struct nfs_source *s, struct nfs_call *first, const void *reply,
			struct nfs_answer *a,
			void (*take)(struct nfs_call *c, const struct nfs_answer *a));
	/* The entries of an answer to READDIR*.  0, -ENOMEM, or -EBADMSG with a reason in *why. */
	int (*page)(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
		    struct nfs_page *out, const char **why);

	/* All that is kept of the object, from an answer to GETATTR: 0, -ENOMEM, -EBADMSG.  NULL:
	 * it takes calls of its own (nfs_acl.c). */
	int (*meta)(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
		    struct source_meta *out);

	/* errors as of nfs_dial_*() */
	/* what belongs to a connection, into d->session, and its orderly end; NULL: nothing */
	int (*greet)(struct nfs_dial *d, struct nfs_carrier *rpc);
	void (*part)(struct nfs_dial *d, struct nfs_carrier *rpc);
	/* the root of the export, over connections of its own */
	int (*root)(struct nfs_dial *d, const char *address, struct stub_origin *root);
	/* limits of what @root belongs to, clipped by @config */
	int (*limits)(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *root,
		      const struct source_config *config, struct source_limits *out);
	int (*getattr)(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *o,
		       struct stub_attr *out);
	/* What the server says of itself, of what is behind @root, into @out, which is empty;
	 * only that it cannot be reached is an error. */
	int (*traits)(struct nfs_dial *d, const char *address, const struct stub_origin *root,
		      struct source_traits *out);
	bool acl_beside; /* ACLs are told by the protocol of nfs_acl.c */
};

/* nfs4_version: NFSv4.0 */
extern const struct nfs_version nfs3_version, nfs4_version, nfs41_version, nfs42_version;

/* ---- nfs3_call.c ---- */

int nfs3_null(struct nfs_carrier *rpc, rpc_cb cb, void *arg);
int nfs3_send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb);
void nfs3_answer(struct nfs_source *s, const struct nfs_call *c, const void *reply,
		 struct nfs_answer *out);
int nfs3_page(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
	      struct nfs_page *out, const char **why);

/* ---- nfs3_change.c ---- */

/* nfs3_send(), nfs3_answer() of these calls; -EOPNOTSUPP, -EBADMSG: it is none of them. */
int nfs3_change_send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb);
int nfs3_change_answer(const struct nfs_call *c, const void *reply, struct nfs_answer *out);

/* ---- nfs3_traits.c ---- */

int nfs3_traits(struct nfs_dial *d, const char *address, const struct stub_origin *root,
		struct source_traits *out);

/* ---- nfs_link.c ---- */

void nfs_conn_wake(struct nfs_conn *c);
/* For nfs_call.c, on the connection's thread: close the connection, when rpc_service() has
 * returned. */
void nfs_conn_break(struct nfs_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* done(), which is told of at level debug; @on: whose flight it was in, NULL: nobody's. */
void nfs_call_over(struct nfs_call *c, const struct nfs_conn *on, int err,
		   const struct nfs_answer *a);
uint32_t nfs_call_load(const struct nfs_call *c); /* bytes its reply may bring, or it carries */
const char *nfs_op_name(enum nfs_op op);

/* ---- nfs_limits.c ---- */

/* The table of who NFSv4's names are, as configured; of NFSv3 NULL.  0, or the errors of
 * smb_idmap_read() with one line in @why. */
int nfs_ids(const struct source_config *c, const struct nfs_uri *uri, struct smb_idmap **out,
	    char *why, size_t size);

/* The configuration, with numbers beyond their limits set to these. */
struct source_config nfs_config(const struct source_config *c);
int nfs_source_limits(struct source *s, struct source_limits *out);

/* ---- nfs_krb5.c ---- */

const char *nfs_security_name(enum nfs_security sec); /* "sys", "krb5" ... */

struct nfs_krb5_told { /* as in struct tickets_config */
	void (*changed)(void *arg);
	void (*tell)(void *arg, enum stub_log_level level, const char *line);
	void *arg;
};
/* Begin to get the tickets that @uri needs; *out NULL: none.  0, or the errors of tickets_create()
 * with one line in @why. */
int nfs_krb5_tickets(const struct source_config *c, const struct nfs_uri *uri,
		     const struct nfs_krb5_told *told, struct tickets **out, char *why,
		     size_t size);
int nfs_krb5_prepare(struct nfs_source *s, const struct source_config *c, char *why, size_t size);
uint64_t nfs_pace_left(struct nfs_source *s); /* milliseconds until a connection may be tried */
/* One was tried with tickets @serial. */
void nfs_pace_end(struct nfs_source *s, int result, uint64_t serial, const char *why);
void nfs_pace_hurry(struct nfs_source *s); /* get tickets and try again, at once */
/* With the lock: add to @out what is refused; its trouble is filled in already. */
void nfs_pace_state(struct nfs_source *s, struct source_state *out);

/* ---- nfs_identity.c ---- */

/* Are @a the attributes of @as?  @as NULL: true. */
bool nfs_is(const struct source_id *as, const struct stub_attr *a);
/* Over a connection that is being made: is the root the right one?  0, the errors of
 * nfs_version.getattr, or -ENOENT with d->why. */
int nfs_root_check(struct nfs_source *s, struct nfs_dial *d, struct nfs_carrier *rpc,
		   const struct stub_origin *root);
int nfs_source_verify(struct source *base);
/* An answer came from the object @now instead of @as: log it.  Returns -ENOMEDIUM. */
int nfs_astray(struct nfs_source *s, const struct source_id *as, const struct stub_attr *now);
/* Did an answer come from @as (NULL: any will do)?  @now: the attributes that came with it;
 * NULL: there were none, and they are asked for.  Blocks.  0, -ENOMEDIUM, or why the attributes
 * could not be had. */
int nfs_confirm(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
		const struct source_id *as, const struct stub_attr *now);

/* ---- nfs_acl.c ---- */

/* Must the object's ACL be asked for, before its mode may be used? */
bool nfs_acl_wanted(struct nfs_source *s, const struct stub_attr *a);
uint32_t nfs_acl_mask(const struct stub_attr *a); /* what is asked for */
/* Does the new file system keep ACLs?  Constant. */
bool nfs_acl_kept(const struct nfs_source *s);
/* GETACL has ended with @err and the GETACL3res @reply (NULL: none came): narrow @a's mode.
 * @kept: say whether there is more to be had (a->more); else, and of others than files and
 * directories, the ACL is lost (a->acl). */
void nfs_acl_met(int err, const void *reply, bool kept, struct stub_attr *a);
/* The same, of the object with the attributes out->attr: its ACLs into @out (@kept), or narrow the
 * mode.  0, -ENOMEM, or what @err ends the whole with: -ECANCELED, -ETIMEDOUT, -EINPROGRESS,
 * -ESTALE, -ENOMEDIUM (they are another object's). */
int nfs_acl_meta(int err, const void *reply, bool kept, struct source_meta *out);
/* Ask over @rpc.  *there: the server shows ACLs; *known: that is certain.  0, or why not. */
int nfs_acl_ask(struct nfs_dial *d, struct nfs_carrier *rpc, const struct stub_origin *root,
		bool *known, bool *there);
/* Find that out for the source, once, on a connection of its own. */
int nfs_acl_learn(struct nfs_source *s, struct nfs_dial *d, const char *address,
		  const struct stub_origin *root, unsigned int attempt);

/* ---- nfs_aces.c ---- */

/* The ACL @x (NULL, or empty: of access what a->mode says, as default none), of an object of @a's
 * owner and group; freed by free(out->e).  0, -ENOMEM, or -EINVAL: it is none, or too long. */
int nfs_aces_access(const struct stub_xattr *x, const struct stub_attr *a, struct nfs_aces *out);
int nfs_aces_default(const struct stub_xattr *x, const struct stub_attr *a, struct nfs_aces *out);

/* ---- nfs_settle.c, nfs_probe.c ---- */

/* source_settle() */
int nfs_source_settle(const struct source_config *c, unsigned int timeout_ms, char *uri,
		      size_t size);

/* Call @try with the addresses of the source one after another, until one works or fails in a
 * way that another address would not mend.  The errors of source_probe(), with @why. */
typedef int (*nfs_try_fn)(struct nfs_dial *d, const char *address, void *arg);
int nfs_probe_addresses(const struct source_config *c, unsigned int timeout_ms, nfs_try_fn try,
			void *arg, char *why, size_t why_size);

/* ---- nfs_conn.c ---- */

int nfs_conn_start(struct nfs_source *s, unsigned int index);
void nfs_conn_join(struct nfs_conn *c);

/* ---- nfs_queue.c ---- */

int nfs_queue_start(struct nfs_source *s); /* the timer thread */
/* Take @c over.  0, or -ECANCELED: then done() is not called. */
int nfs_submit(struct nfs_source *s, struct nfs_call *c);
/* Calls for @trace that wait in the background go as demand. */
void nfs_hurry(struct nfs_source *s, uint64_t trace);
/* Give connections with room their next calls.  With nfs_source.lock held. */
void nfs_pump(struct nfs_source *s);
/* A connection is usable now, or not any more (silent for @silent_ms). */
void nfs_conn_up(struct nfs_conn *c);
void nfs_conn_down(struct nfs_conn *c, uint64_t silent_ms);
/* Calls come back unanswered from a connection that is down. */
void nfs_give_back(struct nfs_conn *c);
/* @call, of @c's flight, got its reply: take it out of all lists.  It is the caller's then. */
void nfs_settle(struct nfs_conn *c, struct nfs_call *call);
/* @call, of @c's flight, is sent again, though the connection is as it should be. */
void nfs_again(struct nfs_conn *c, struct nfs_call *call);
/* Again, after a back-off: JUKEBOX. */
void nfs_delay(struct nfs_source *s, struct nfs_call *call);
/* Wait until root and limits are known: 0, -ECANCELED, -ETIMEDOUT. */
int nfs_wait_known(struct nfs_source *s);

/* ---- nfs_call.c ---- */

/* Encode and queue @c on its connection's context: 0 or -ENOMEM.  What the version of the protocol
 * cannot say ends here, with -EOPNOTSUPP. */
int nfs_call_send(struct nfs_call *c);

/* One call that a thread waits for: submit, then wait for done(). */
struct nfs_wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int pending;
};
void nfs_wait_init(struct nfs_wait *w);
void nfs_wait_finish(struct nfs_wait *w); /* nothing is pending */
void nfs_wait_add(struct nfs_wait *w);
void nfs_wait_done(struct nfs_wait *w);
void nfs_wait_below(struct nfs_wait *w, unsigned int n); /* until fewer than n are pending */

/* ---- nfs_zdr.c ---- */

/* Are the guards before libnfs's decoders in place?  Called, so that the linker takes them from
 * the static library. */
bool nfs_zdr_guard(void);
/* Does libnfs make room in its calls as we say? */
bool nfs_zdr_room(void);
/* Is it our code that libnfs calls for the bytes of compounds? */
bool nfs_zdr_compounds(void);

/* ---- nfs_source.c and the rooms of its calls ---- */

static inline struct nfs_source *nfs_of(struct source *s)
{
	return (struct nfs_source *)s; /* base is its first member */
}

int nfs_source_probe(const struct source_config *c, unsigned int timeout_ms, char *why, size_t why_size);
int nfs_source_traits(const struct source_config *c, unsigned int timeout_ms,
		      struct source_traits *out, char *why, size_t why_size);
int nfs_source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
	     const struct source_id *as, source_entries_fn fn, void *arg);
int nfs_source_read(struct source *s, enum source_priority p, const struct stub_origin *o,
	     uint64_t offset, uint32_t length, source_read_fn fn, void *arg);

/* ---- nfs_target.c ---- */

extern const struct target_ops nfs_target_ops;

#define nfs_log(s, level, ...) \
	stub_log_to((s)->config.log, (s)->config.log_arg, level, __VA_ARGS__)

#endif
