/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs41.h - sessions of NFSv4.1 (RFC 8881).
 *
 *   nfs41_session.c  bytes of what makes, uses and ends one; its slots
 *   nfs41_dial.c     the session of a connection: made, kept alive, ended
 *
 * Each connection is a client of its own with a session of its own, of which only its thread knows
 * (docs/decisions/0077):
 *
 *   greet   EXCHANGE_ID  CREATE_SESSION, then SEQUENCE RECLAIM_COMPLETE PUTROOTFH GETATTR (lease)
 *   calls   SEQUENCE, then what NFSv4.0 would send
 *   idle    SEQUENCE, several times in each lease
 *   part    DESTROY_SESSION  DESTROY_CLIENTID
 *
 * A slot is busy from SEQUENCE until its answer, and counts up when SEQUENCE has succeeded.  A
 * session ends with its connection: no call is ever sent again on a slot, so nothing is asked of
 * the server's cache of replies.  What was in flight goes out again on another session, where it may
 * be done a second time: that changes nothing, since all calls of
 * NFSv4 only read.
 */
#ifndef NFS41_H
#define NFS41_H

#include "nfs/nfs4.h"

#define NFS41_SLOTS_MAX	   256 /* as source_config.inflight */
#define NFS41_REPLY_MAX	   (NFS_READ_MAX + 4092) /* libnfs drops a reply that is longer */
#define NFS41_REPLY_LEAST  32768 /* a session with less is of no use */
#define NFS41_CALL_LEAST   4096
#define NFS41_OPS	   24 /* in one compound; the longest of ours: LOOKUPs to the root */
#define NFS41_OPS_LEAST	   8
/* Of a reply, for headers, SEQUENCE and the attributes beside data. */
#define NFS41_BESIDE_BYTES 2048

struct nfs41_slot {
	uint32_t sequence; /* of the next call */
	bool busy;
};

struct nfs41_session {
	uint8_t id[16];
	uint64_t client;
	uint32_t slots; /* that we use of the server's table */
	uint32_t allowed; /* of these the first ones, as the server wants it now; at least 1 */
	uint32_t reply_max, ops_max; /* bytes of a whole reply; operations of a compound */
	uint32_t lease_s; /* 0: not known */
	bool begun; /* SEQUENCE has told of a restart that we know of */
	struct nfs41_slot slot[NFS41_SLOTS_MAX];
};

/* ---- nfs41_session.c ---- */

void nfs41_put_exchange(struct nfs4_out *o, const char *owner, const uint8_t verifier[8]);
/* Of the answer to that: the client's id, into @s, and the number of the session to make.  0, its
 * nfsstat4, or -EBADMSG. */
int nfs41_get_exchange(struct nfs4_reply *r, struct nfs41_session *s, uint32_t *sequence);

/* @slots: wanted. */
void nfs41_put_create(struct nfs4_out *o, const struct nfs41_session *s, uint32_t sequence,
		      uint32_t slots);
/* 0, its nfsstat4, or -EBADMSG; *why is NULL, or why the session is of no use (then the result is
 * 0). */
int nfs41_get_create(struct nfs4_reply *r, struct nfs41_session *s, uint32_t sequence,
		     uint32_t slots, const char **why);

/* Is there one that may be used? */
bool nfs41_has_slot(const struct nfs41_session *s);
/* Begin @o with SEQUENCE on a free slot, of which there is one.  Returns its number, from 1. */
uint32_t nfs41_put_sequence(struct nfs4_out *o, struct nfs41_session *s);
/* @slot was not sent, or what came of it was refused before it was looked at. */
void nfs41_unsent(struct nfs41_session *s, uint32_t slot);
/*
 * The answer to the compound on @slot: on to the result behind SEQUENCE.  Returns 0, its nfsstat4,
 * or -EBADMSG: it is not the answer to this call.
 */
int nfs41_take_sequence(struct nfs4_reply *r, struct nfs41_session *s, uint32_t slot);
/* As nfs41_take_sequence() has passed it already: once more, and without effect. */
int nfs41_pass_sequence(struct nfs4_reply *r);
/* Does SEQUENCE's @status mean that there is no such session any more? */
bool nfs41_is_lost(int status);
/* A read or page of @wanted bytes, so that its reply fits.  @s NULL: @wanted. */
uint32_t nfs41_fit(const struct nfs41_session *s, uint32_t wanted);

/* ---- nfs41_dial.c ---- */

/* A name that no other client has: of connection @index of this source. */
void nfs41_owner(char out[NFS_OWNER_MAX], unsigned int index);
int nfs41_greet(struct nfs_dial *d, struct nfs_carrier *rpc);
void nfs41_part(struct nfs_dial *d, struct nfs_carrier *rpc);
int nfs41_ping(struct nfs_conn *c, rpc_cb cb, void *arg);
const char *nfs41_pinged(struct nfs_conn *c, const void *reply);
/* How long it may be idle, in milliseconds, until it is tried; @s NULL: of NFSv4.0 and before. */
uint64_t nfs41_idle_ms(const struct nfs41_session *s);

#endif
