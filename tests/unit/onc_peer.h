/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * onc_peer.h - the other end of a connection of retriever/rpc: a server that reads calls and says
 * what a test wants, and security contexts by the real GSSAPI.
 *
 * There is no KDC: a service ticket is sealed here with the service's key, as a KDC would do it,
 * and lies in a credential cache in memory; the key is in a keytab in memory.
 */
#ifndef ONC_PEER_H
#define ONC_PEER_H

#include <krb5.h>

#include "rpc/onc_internal.h"

#define PEER_REALM   "POSTCOPY.TEST"
#define PEER_HOST    "127.1" /* a name to Kerberos, an address to getaddrinfo() */
#define PEER_SERVICE "nfs@" PEER_HOST

struct peer_call {
	uint8_t *record;
	size_t len;
	uint32_t xid, program, version, procedure;
	uint32_t flavor;
	struct onc_bytes cred;	   /* its body */
	struct onc_bytes head;	   /* from the XID to the end of the credentials */
	uint32_t verf_flavor;
	struct onc_bytes verf, args;
	/* of RPCSEC_GSS */
	uint32_t gss_procedure, seq, service;
	struct onc_bytes handle;
};

/* Wait for the next call; *p is freed by peer_free(). */
void peer_read(int fd, struct peer_call *p);
void peer_free(struct peer_call *p);
/* Is there none, now? */
bool peer_is_quiet(int fd);
void peer_send(int fd, const void *p, size_t len);
/* As one record of one fragment. */
void peer_send_record(int fd, const struct onc_out *o);
/* A reply of MSG_ACCEPTED with no verifier, up to and with its status. */
void peer_put_accepted(struct onc_out *o, uint32_t xid, uint32_t stat);
void peer_put_denied(struct onc_out *o, uint32_t xid, uint32_t auth_stat);

/* ---- Kerberos ---- */

struct peer_realm {
	gss_cred_id_t server; /* to accept with */
	char cache[64]; /* name of the credential cache with the ticket */
	krb5_keyblock key; /* the service's */
};

/* A realm of its own; the ticket lasts @life_s. */
void peer_realm_make(struct peer_realm *r, int life_s);
/* Another ticket instead. */
void peer_realm_renew(struct peer_realm *r, int life_s);
/* The cache as a file, as kinit makes it. */
void peer_realm_save(const struct peer_realm *r, const char *path);
void peer_realm_free(struct peer_realm *r);
/* begin() of struct onc_config; @arg: the realm. */
int peer_begin(void *arg, struct onc_begun *out, char *why, size_t size);

struct peer_server {
	int fd;
	struct peer_realm *realm;
	uint32_t window; /* as it is told */
	/* what it does wrong */
	bool forge_verifier, forge_init, wrong_seq, not_encrypted, forge_body;
	uint32_t deny; /* DATA calls are denied with this, so many times */
	unsigned int denials;
	/* the results of a call; NULL: its arguments, with each byte plus one */
	void (*results)(void *arg, const struct onc_bytes *args, struct onc_out *out);
	void *arg;
	/* how it went */
	gss_ctx_id_t context;
	unsigned int inits, datas, destroys;
	uint32_t last_seq;
};

void peer_server_free(struct peer_server *s);
/* Take one call and answer it. */
void peer_serve(struct peer_server *s);
/* The halves of it: the answer to a call that was read. */
void peer_answer(struct peer_server *s, struct peer_call *p);

#endif
