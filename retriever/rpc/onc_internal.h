/* SPDX-License-Identifier: GPL-3.0-or-later */
/* onc_internal.h - what the files of this folder share; tests and fuzz targets look in, too. */
#ifndef ONC_INTERNAL_H
#define ONC_INTERNAL_H

#include <sys/queue.h>

#include "rpc/onc.h"

/* ---- onc_wire.c ---- */

struct onc_out { /* bytes that grow */
	uint8_t *data;
	size_t len, size;
	bool failed; /* there was no memory */
};

void onc_out_free(struct onc_out *o);
void onc_put32(struct onc_out *o, uint32_t n);
void onc_put_raw(struct onc_out *o, const void *p, size_t len); /* padded to four bytes */
void onc_put_opaque(struct onc_out *o, const void *p, size_t len);

struct onc_in {
	const uint8_t *p;
	size_t left;
	bool bad; /* it ended too early; all that comes then is 0 */
};

uint32_t onc_get32(struct onc_in *in);
struct onc_bytes onc_get_opaque(struct onc_in *in, size_t max);

#define ONC_AUTH_MAX 400 /* bytes of credentials or of a verifier: RFC 5531, 8.2 */

enum { ONC_CALL = 0, ONC_REPLY = 1, ONC_RPC_VERSION = 2 };

enum onc_accepted { /* RFC 5531, 9 */
	ONC_SUCCESS = 0,
	ONC_PROG_UNAVAIL = 1,
	ONC_PROG_MISMATCH = 2,
	ONC_PROC_UNAVAIL = 3,
	ONC_GARBAGE_ARGS = 4,
	ONC_SYSTEM_ERR = 5,
};

enum onc_auth_stat {
	ONC_AUTH_TOOWEAK = 5,
	ONC_CREDPROBLEM = 13,
	ONC_CTXPROBLEM = 14,
};

struct onc_reply {
	uint32_t xid;
	bool denied;
	uint32_t stat; /* accepted: enum onc_accepted */
	bool mismatch; /* denied: of RPC's version */
	uint32_t auth; /* denied for another reason: enum onc_auth_stat */
	uint32_t flavor; /* of the verifier */
	struct onc_bytes verifier, results; /* in the record */
};

/* A record as a reply: 0, or -EBADMSG. */
int onc_reply_parse(const struct onc_bytes *record, struct onc_reply *out);

/* What a reply that brings no results ends its call with, and what to say of it. */
int onc_reply_error(const struct onc_reply *r, const char **why);

/* All of a call before its credentials, from the XID on. */
void onc_put_call(struct onc_out *o, const struct onc_config *c, uint32_t xid, uint32_t procedure);
void onc_put_auth_none(struct onc_out *o);
void onc_put_auth_sys(struct onc_out *o, uint32_t uid, uint32_t gid);

/* ---- onc_record.c ---- */

#define ONC_FRAGMENTS_MAX 4096 /* of one record */

struct onc_record {
	uint32_t max;
	uint8_t head[4];
	unsigned int head_len; /* of a fragment's head that has begun */
	uint32_t left; /* bytes of this fragment that are to come */
	bool last;
	unsigned int fragments;
	uint8_t *data;
	size_t len, size;
};

void onc_record_init(struct onc_record *r, uint32_t max);
void onc_record_free(struct onc_record *r);
/*
 * Take bytes of the stream; *used of them.  1: the record is whole, and lies in r->data until the
 * next call; 0: it wants more; -EBADMSG: it is longer than it may be; -ENOMEM.
 */
int onc_record_feed(struct onc_record *r, const uint8_t *p, size_t n, size_t *used);

/* ---- onc_wrap.c ---- */

#define ONC_HANDLE_MAX 256
#define ONC_TOKEN_MAX  65536
#define ONC_SEQ_MAX    0x7fffff00u /* RFC 2203, 5.3.3.1: below MAXSEQ */

struct onc_context {
	unsigned int holders; /* the connection, and each call that is in flight with it */
	gss_ctx_id_t gss;
	gss_name_t server;
	enum onc_service service;
	uint8_t handle[ONC_HANDLE_MAX];
	uint32_t handle_len;
	uint32_t window;
	uint32_t seq; /* the last one used */
	bool complete; /* on our side */
	bool worked; /* a reply with it was right */
	uint64_t begun_ms, ends_ms;
};

void onc_context_drop(struct onc_context *x); /* NULL is fine */

/* Credentials of RPCSEC_GSS; @procedure: enum below. */
enum { ONC_GSS_DATA = 0, ONC_GSS_INIT = 1, ONC_GSS_CONTINUE = 2, ONC_GSS_DESTROY = 3 };
void onc_put_cred(struct onc_out *o, uint32_t procedure, uint32_t seq, enum onc_service service,
		  const struct onc_bytes *handle);

/* Behind the call's head at @from of @o: credentials, verifier and arguments, with the number
 * @seq.  0, -ENOMEM, -EKEYEXPIRED, -EPROTO. */
int onc_seal(struct onc_context *x, struct onc_out *o, size_t from, uint32_t gss_procedure,
	     uint32_t seq, const void *args, size_t len);

/* Is @mic the server's of the number @n (a sequence number; the window)? */
bool onc_proves(struct onc_context *x, uint32_t n, const struct onc_reply *r);

/* The results of a reply whose verifier was right.  @hold: to be released by the caller
 * (gss_release_buffer()), @out may lie in it.  0 or -EBADMSG */
int onc_open(struct onc_context *x, uint32_t seq, const struct onc_bytes *results,
	     struct onc_bytes *out, gss_buffer_t hold);

/* The parts of protected results, as they lie on the wire: 0 or -EBADMSG. */
int onc_split_integrity(const struct onc_bytes *results, struct onc_bytes *body,
			struct onc_bytes *mic);
int onc_split_privacy(const struct onc_bytes *results, struct onc_bytes *wrapped);
int onc_take_seq(const struct onc_bytes *body, uint32_t seq, struct onc_bytes *out);

struct onc_init_result { /* of INIT and CONTINUE_INIT */
	struct onc_bytes handle, token;
	uint32_t major, minor, window;
};
int onc_init_parse(const struct onc_bytes *results, struct onc_init_result *out);

/* ---- onc_link.c ---- */

#define ONC_TRIES_MAX 3 /* contexts with which a call is sent */

struct onc_call {
	TAILQ_ENTRY(onc_call) link;
	uint32_t xid, procedure;
	uint8_t *args;
	size_t len;
	onc_done_fn done;
	void *arg;
	struct onc_context *context; /* in flight, with one */
	uint32_t seq;
	unsigned int tries;
};

TAILQ_HEAD(onc_calls, onc_call);

struct onc_conn {
	struct onc_config config;
	int fd;
	bool connecting;
	onc_done_fn connected;
	void *connected_arg;
	uint32_t xid; /* the last one used */
	struct onc_out out;
	size_t sent; /* of it */
	struct onc_record in;
	unsigned int strangers; /* replies to nothing, one after the other */
	struct onc_calls waiting, flight; /* not sent yet; in the order of sending */
	bool fresh; /* something may be sent that could not be before */
	int error; /* it is of no use any more */
	char why[ONC_WHY_MAX];
	/* RPCSEC_GSS */
	struct onc_context *now, *next; /* in use; to be */
	struct onc_call *init; /* under way for next; in flight */
	uint64_t retry_ms; /* now is good: no newer one before this time */
	onc_done_fn secured;
	void *secured_arg;
};

/* The connection is over; the first reason stays.  Returns it. */
int onc_break(struct onc_conn *c, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Put the record that begins at @from of c->out in flight, as that of @call. */
void onc_put_in_flight(struct onc_conn *c, struct onc_call *call, size_t from);
size_t onc_begin_record(struct onc_conn *c);
struct onc_call *onc_new_call(uint32_t procedure, const void *args, size_t len, onc_done_fn done,
			      void *arg);
void onc_free_call(struct onc_call *call);

/* ---- onc_gss.c ---- */

enum onc_gate { ONC_GO, ONC_LATER, ONC_OVER };
/* May a call be sent now, with c->now?  Begins and renews contexts as needed. */
enum onc_gate onc_gss_gate(struct onc_conn *c);
int onc_gss_send(struct onc_conn *c, struct onc_call *call);
/* The reply to c->init. */
void onc_gss_take_init(struct onc_conn *c, const struct onc_reply *r);
/* The server has denied @call, which is in no list, and whose context was @x.  True: it may be
 * sent again. */
bool onc_gss_denied(struct onc_conn *c, struct onc_call *call, struct onc_context *x,
		    const struct onc_reply *r);
/* Tell the server, as far as that needs no waiting, that the contexts are not used any more. */
void onc_gss_end(struct onc_conn *c);

/* One line of what GSSAPI says; never of a ticket or key. */
void onc_gss_text(OM_uint32 major, OM_uint32 minor, char *out, size_t size);

#endif
