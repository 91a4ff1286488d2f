// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * rpcshim: lets a stock ganesha.nfsd start where no portmapper runs.
 *
 * With NFSv3 enabled Ganesha treats a failed registration at rpcbind as fatal.
 * Preloaded (LD_PRELOAD), this library answers the registration calls of
 * libntirpc with success and talks to nobody, nor does it take back what another
 * server has registered.  Clients then have to be told the ports.
 *
 * Where it crashed is in its output, as no core is kept of it.
 *
 * For tests and the demonstration only: never ship it.
 *
 *   cc -shared -fPIC -O2 -o rpcshim.so rpcshim.c
 */
#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

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

static void crashed(int sig)
{
	void *frames[64];

	backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
	raise(sig); /* by default now: SA_RESETHAND */
}

__attribute__((constructor)) static void watch(void)
{
	const int sigs[] = { SIGSEGV, SIGBUS, SIGABRT };
	struct sigaction old, new = { .sa_handler = crashed, .sa_flags = SA_RESETHAND };
	void *frame;

	backtrace(&frame, 1); /* loads what it needs, while it may */
	for (size_t i = 0; i < sizeof(sigs) / sizeof(*sigs); i++)
		if (sigaction(sigs[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(sigs[i], &new, NULL); /* a sanitizer has its own */
}
