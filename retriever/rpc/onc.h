/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * onc.h - ONC RPC (RFC 5531) over TCP with RPCSEC_GSS (RFC 2203): what libnfs has not.
 *
 *   onc_wire.c    XDR; how a call begins, and what a reply says
 *   onc_record.c  records out of fragments
 *   onc_gss.c     the life of a security context on a connection
 *   onc_wrap.c    what a context does to calls and replies
 *   onc_link.c    breaking a connection, its calls
 *   onc_conn.c    one connection: connect, send, receive, whose reply it is
 *
 * Arguments and results are bytes; what they mean is the caller's.  No file here knows of NFS.
 * A connection belongs to one thread, which polls and calls onc_service().
 *
 * All that comes in is hostile until the server has proven that it is its own: lengths are
 * bounded, and a reply without the right verifier is no answer.
 */
#ifndef ONC_H
#define ONC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <gssapi/gssapi.h>

#define ONC_WHY_MAX 256

struct onc_bytes {
	const uint8_t *data;
	size_t len;
};

enum onc_flavor { ONC_NONE = 0, ONC_SYS = 1, ONC_GSS = 6 };

enum onc_service { /* of RPCSEC_GSS: what is protected beside who it is */
	ONC_AUTHENTIC = 1, /* nothing: krb5 */
	ONC_INTEGRITY = 2, /* krb5i */
	ONC_PRIVACY = 3,   /* krb5p */
};

/* A security context whose first token waits to be sent. */
struct onc_begun {
	gss_ctx_id_t context;
	gss_name_t server;
	gss_buffer_desc token;
};

struct onc_config {
	uint32_t program, version;
	uint32_t reply_max; /* bytes of a record */
	enum onc_flavor flavor; /* of all calls but NULL, which has none */
	uint32_t uid, gid; /* ONC_SYS */
	/* ONC_GSS */
	enum onc_service service;
	/* Begin a context.  What @out has is the connection's then.  It must not wait for long: calls
	 * of the connection stand still.  0, or an error with one line in @why. */
	int (*begin)(void *arg, struct onc_begun *out, char *why, size_t size);
	void *arg;
};

struct onc_conn;

/*
 * The end of a call: exactly once, never inside of onc_call() or onc_connect().
 *   0            @results, valid until it returns
 *   -EACCES      the server does not accept the credentials
 *   -EBADMSG     the server sent what is no answer, or could not read the arguments
 *   -EOPNOTSUPP  it has no such program, version or procedure
 *   -EIO         it has failed
 *   -ECANCELED   onc_destroy(): nobody knows
 * With an error @why has one line.  It may not call onc_destroy(), and onc_call() only if nobody
 * has called that.
 */
typedef void (*onc_done_fn)(void *arg, int error, const struct onc_bytes *results,
			    const char *why);

int onc_create(const struct onc_config *c, struct onc_conn **out); /* 0, -ENOMEM */
/* Calls that have not ended end with -ECANCELED.  NULL is fine. */
void onc_destroy(struct onc_conn *c);

/*
 * Begin to connect.  @done is called with 0, or -errno as of connect().  From a reserved port, if
 * this process may have one, as old servers want it.  0, or -errno: @done is not called.
 */
int onc_connect(struct onc_conn *c, const struct sockaddr *to, socklen_t len, onc_done_fn done,
		void *arg);
void onc_attach(struct onc_conn *c, int fd); /* instead: a socket that is connected */

int onc_fd(const struct onc_conn *c);
short onc_events(const struct onc_conn *c); /* what to poll() for */

/*
 * @revents are there: send and receive.  0, or why the connection is of no use any more; then only
 * onc_destroy() is left.
 *   -ECONNRESET, -EPIPE ...  it was closed, or as of read() and write()
 *   -EBADMSG       what comes are no replies
 *   -EKEYREJECTED  the server takes no context of ours
 *   -ENOMEM, and what begin() says
 */
int onc_service(struct onc_conn *c, short revents);
const char *onc_why(const struct onc_conn *c); /* one line, after an error of onc_service() */

/* Queue a call.  Procedure 0 needs no context.  0, -ENOMEM. */
int onc_call(struct onc_conn *c, uint32_t procedure, const void *args, size_t len,
	     onc_done_fn done, void *arg);

/* Is a context in use? */
bool onc_is_secure(const struct onc_conn *c);
/* Begin one before there is a call that needs it; @done is called when it is in use. */
void onc_secure(struct onc_conn *c, onc_done_fn done, void *arg);

#endif
