/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs3_server.h - a server of NFSv3 for unit tests: threads behind a loopback socket, MOUNT and the
 * ACL protocol on the same port.
 *
 * It has one export, "/e", whose root has the handle "root".  MOUNT, NULL, FSINFO and
 * GETATTR it answers itself; all else a test answers, call by call.
 */
#ifndef NFS3_SERVER_H
#define NFS3_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "nfs/nfs4.h" /* how bytes are put and got is the same */

#define NFS3_SERVER_CALL (2u << 20) /* bytes of a call */

struct nfs3_call {
	uint32_t program, procedure;
	struct nfs4_in args; /* what is left of it */
	struct nfs4_out out; /* the results */
	bool hang_up; /* instead of an answer */
};

struct nfs3_server {
	/* set before it is started */
	uint32_t wtmax, wtpref;
	bool acl; /* it has the ACL protocol, and shows ACLs */
	bool slow; /* it takes long calls piece by piece */
	unsigned int piece_ms; /* of slow: a pause behind each */
	void (*answer)(void *arg, struct nfs3_call *c); /* on the thread of a connection */
	void *arg;

	int fd;
	uint16_t port;
	pthread_t thread;
	atomic_bool stop;
	atomic_uint connections;
};

void nfs3_server_start(struct nfs3_server *s);
void nfs3_server_stop(struct nfs3_server *s);

/* ---- parts of results ---- */

void nfs3_put_attr(struct nfs4_out *o, uint32_t ftype, uint32_t mode, uint64_t fileid);
void nfs3_put_no_wcc(struct nfs4_out *o); /* neither before nor after */

#endif
