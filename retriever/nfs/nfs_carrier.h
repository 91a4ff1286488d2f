/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs_carrier.h - what carries the calls of one connection: libnfs, or rpc/onc.h where calls have
 * Kerberos.
 *
 * Who queues a call has its callback called as libnfs does it (nfs.h): exactly once, never while
 * it is queued, with RPC_STATUS_CANCEL when the carrier is destroyed.  The callback's first
 * argument says nothing.
 */
#ifndef NFS_CARRIER_H
#define NFS_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>

struct onc_conn; /* rpc/onc.h */

struct nfs_carrier { /* one of the two */
	struct rpc_context *libnfs;
	struct onc_conn *own;
};

/* Over one of them, which is the carrier's then, also after a failure (NULL). */
struct nfs_carrier *nfs_carrier_make(struct rpc_context *libnfs, struct onc_conn *own);
void nfs_carrier_destroy(struct nfs_carrier *c);

int nfs_carrier_fd(const struct nfs_carrier *c);
short nfs_carrier_events(const struct nfs_carrier *c);
/* < 0: it is of no use any more; of rpc/onc.h the errors of onc_service(). */
int nfs_carrier_service(struct nfs_carrier *c, short revents);
const char *nfs_carrier_error(const struct nfs_carrier *c); /* why; NULL: not known */

/* Is there something that the other side has not taken yet?  *taken: the bytes that it has. */
bool nfs_carrier_sending(const struct nfs_carrier *c, uint64_t *taken);

/* Queue a call of what is carried by us: 0 or -ENOMEM.  The callback gets a struct nfs4_bytes. */
int nfs_carrier_call(struct nfs_carrier *c, uint32_t procedure, const void *args, size_t len,
		     rpc_cb cb, void *arg);

#endif
