// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "nfs/nfs4.h"
#include "rpc/onc.h"

struct nfs_carrier *nfs_carrier_make(struct rpc_context *libnfs, struct onc_conn *own)
{
	struct nfs_carrier *c = calloc(1, sizeof(*c));

	if (c) {
		c->libnfs = libnfs;
		c->own = own;
	} else if (libnfs) {
		rpc_destroy_context(libnfs);
	} else {
		onc_destroy(own);
	}
	return c;
}

void nfs_carrier_destroy(struct nfs_carrier *c)
{
	if (c->libnfs)
		rpc_destroy_context(c->libnfs);
	onc_destroy(c->own);
	free(c);
}

int nfs_carrier_fd(const struct nfs_carrier *c)
{
	return c->own ? onc_fd(c->own) : rpc_get_fd(c->libnfs);
}

short nfs_carrier_events(const struct nfs_carrier *c)
{
	return c->own ? onc_events(c->own) : (short)rpc_which_events(c->libnfs);
}

int nfs_carrier_service(struct nfs_carrier *c, short revents)
{
	return c->own ? onc_service(c->own, revents) : rpc_service(c->libnfs, revents);
}

const char *nfs_carrier_error(const struct nfs_carrier *c)
{
	return c->own ? onc_why(c->own) : rpc_get_error(c->libnfs);
}

bool nfs_carrier_sending(const struct nfs_carrier *c, uint64_t *taken)
{
	int fd = nfs_carrier_fd(c), queued = 0;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (ioctl(fd, SIOCOUTQ, &queued) || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	*taken = info.tcpi_bytes_acked;
	return queued > 0;
}

struct carried {
	rpc_cb cb;
	void *arg;
};

static void on_done(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	struct carried *k = arg;
	struct nfs4_bytes b;

	if (!error) {
		b = (struct nfs4_bytes){ results->data, (uint32_t)results->len };
		k->cb(NULL, RPC_STATUS_SUCCESS, &b, k->arg);
	} else if (error == -ECANCELED) {
		k->cb(NULL, RPC_STATUS_CANCEL, NULL, k->arg);
	} else {
		k->cb(NULL, RPC_STATUS_ERROR, (void *)why, k->arg);
	}
	free(k);
}

int nfs_carrier_call(struct nfs_carrier *c, uint32_t procedure, const void *args, size_t len,
		     rpc_cb cb, void *arg)
{
	struct carried *k = malloc(sizeof(*k));
	int r = -ENOMEM;

	if (!k)
		return r;
	*k = (struct carried){ cb, arg };
	r = onc_call(c->own, procedure, args, len, on_done, k);
	if (r)
		free(k);
	return r;
}
