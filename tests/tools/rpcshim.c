// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * rpcshim: lets a stock ganesha.nfsd start where no portmapper runs.
 *
 * With NFSv3 enabled Ganesha treats a failed registration at rpcbind as fatal.
 * Preloaded (LD_PRELOAD), this library answers the registration calls of
 * libntirpc with success and talks to nobody, nor does it take back what another
 * server has registered.  Clients then have to be told the ports.  For tests and the demonstration only: never ship it.
 *
 *   cc -shared -fPIC -O2 -o rpcshim.so rpcshim.c
 */
#include <stdbool.h>
#include <stdint.h>

/* The prototypes are those of libntirpc, whose opaque types we don't need. */
bool svc_reg(void *xprt, const uint32_t prog, const uint32_t vers, void (*dispatch)(void *, void *),
	     const void *nconf);
void svc_unreg(const uint32_t prog, const uint32_t vers);
bool rpcb_unset(const uint32_t prog, const uint32_t vers, const void *nconf);

__attribute__((visibility("default"))) bool svc_reg(void *xprt, const uint32_t prog,
						    const uint32_t vers,
						    void (*dispatch)(void *, void *),
						    const void *nconf)
{
	(void)xprt;
	(void)prog;
	(void)vers;
	(void)dispatch;
	(void)nconf;
	return true;
}

__attribute__((visibility("default"))) void svc_unreg(const uint32_t prog, const uint32_t vers)
{
	(void)prog;
	(void)vers;
}

__attribute__((visibility("default"))) bool rpcb_unset(const uint32_t prog, const uint32_t vers,
						       const void *nconf)
{
	(void)prog;
	(void)vers;
	(void)nconf;
	return true;
}
