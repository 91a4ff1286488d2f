// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_dial.c - the way to a usable connection.
 *
 * Resolve the name, ask the portmapper unless the URI has the port, connect,
 * and let the NFS service answer NULL (nfs_secure.c): only then the service is running.  A stopped
 * server's kernel accepts connections too.  What is asked then depends on the version.
 *
 * The caller's thread waits here, step by step, with one deadline for all.
 * Each step's carrier is destroyed in the function that made it, so that no
 * callback outlives its struct nfs_dial.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nfs/nfs.h"

#include <nfsc/libnfs-raw-portmap.h>

#define PORTMAPPER 111

/* libnfs 4.0.0 makes contexts and picks local ports with statics and getservbyport(). */
static pthread_mutex_t libnfs_statics = PTHREAD_MUTEX_INITIALIZER;

int nfs_dial_fail(struct nfs_dial *d, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
	return error;
}

int nfs_dial_resolve(struct nfs_dial *d, struct nfs_addresses *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct addrinfo *list, *a;
	int r;

	out->n = 0;
	/* AI_ADDRCONFIG ignores loopback addresses: try again without it for these. */
	r = getaddrinfo(d->uri->node, NULL, &hints, &list);
	if (r) {
		hints.ai_flags = 0;
		r = getaddrinfo(d->uri->node, NULL, &hints, &list);
	}
	if (r)
		return nfs_dial_fail(d, -EHOSTUNREACH, "unknown host %s: %s", d->uri->host,
			    r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	for (a = list; a && out->n < NFS_ADDRESSES_MAX; a = a->ai_next)
		if (!getnameinfo(a->ai_addr, a->ai_addrlen, out->text[out->n], sizeof(out->text[0]),
				 NULL, 0, NI_NUMERICHOST))
			out->n++;
	freeaddrinfo(list);
	return out->n ? 0 : nfs_dial_fail(d, -EHOSTUNREACH, "host %s has no address", d->uri->host);
}

static bool is_stopped(struct nfs_dial *d)
{
	eventfd_t n;

	eventfd_read(d->wake, &n);
	return d->stopped && d->stopped(d->arg);
}

int nfs_dial_run(struct nfs_dial *d, struct nfs_carrier *rpc, const char *what)
{
	while (!d->fired) {
		struct pollfd p[2] = {
			{ .fd = nfs_carrier_fd(rpc), .events = nfs_carrier_events(rpc) },
			{ .fd = d->wake, .events = POLLIN },
		};
		uint64_t now = stub_now_ms();
		int r;

		if (now >= d->deadline_ms)
			return nfs_dial_fail(d, -ETIMEDOUT, "no answer from %s of %s", what,
					     d->uri->host);
		r = poll(p, 2, (int)(d->deadline_ms - now));
		if (r < 0 && errno != EINTR)
			return nfs_dial_fail(d, -EPROTO, "poll: %s", strerror(errno));
		if (r <= 0)
			continue;
		if (p[1].revents && is_stopped(d))
			return nfs_dial_fail(d, -ECANCELED, "stopped");
		if (rpc->libnfs && p[0].revents & (POLLERR | POLLHUP) && !d->error) {
			socklen_t len = sizeof(d->error);

			/* before libnfs takes it away */
			getsockopt(p[0].fd, SOL_SOCKET, SO_ERROR, &d->error, &len);
		}
		r = p[0].revents ? nfs_carrier_service(rpc, p[0].revents) : 0;
		if (r < 0 && !d->fired) {
			d->status = RPC_STATUS_ERROR;
			d->broken = rpc->own ? r : 0;
			d->fired = true;
		}
	}
	return 0;
}

void nfs_dial_on_step(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct nfs_dial *d = arg;

	(void)rpc;
	if (d->fired)
		return;
	d->fired = true;
	d->status = status;
	if (status == RPC_STATUS_SUCCESS) {
		if (d->take)
			d->take(d, data);
	} else if (status == RPC_STATUS_ERROR && data) {
		snprintf(d->why, sizeof(d->why), "%s", (const char *)data);
	}
}

void nfs_dial_begin(struct nfs_dial *d, void (*take)(struct nfs_dial *, void *), void *out)
{
	d->fired = false;
	d->status = RPC_STATUS_CANCEL;
	d->error = d->broken = 0;
	d->why[0] = '\0';
	d->take = take;
	d->out = out;
}

/* A connection of rpc/onc.h is over: of which errors our callers know. */
static int broken(struct nfs_dial *d, const struct nfs_carrier *rpc, const char *what)
{
	switch (d->broken) {
	case -EKEYREJECTED:
	case -EACCES:
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
	case -ECANCELED:
	case -ENOMEM:
		return nfs_dial_fail(d, d->broken, "%s of %s: %.160s", what, d->uri->host,
				     nfs_carrier_error(rpc));
	default:
		return nfs_dial_fail(d, -EPROTO, "%s of %s: %.160s", what, d->uri->host,
				     nfs_carrier_error(rpc));
	}
}

/* One call, queued with the result @queued: its outcome. */
int nfs_dial_finish(struct nfs_dial *d, struct nfs_carrier *rpc, int queued, const char *what)
{
	char said[NFS_WHY_MAX / 2];
	int r;

	if (queued)
		return nfs_dial_fail(d, -ENOMEM, "out of memory");
	r = nfs_dial_run(d, rpc, what);
	if (r)
		return r;
	if (d->status == RPC_STATUS_SUCCESS)
		return 0;
	if (d->broken)
		return broken(d, rpc, what);
	snprintf(said, sizeof(said), "%.120s", d->why[0] ? d->why : "connection closed");
	if (strstr(said, "not accepted") && d->uri->sec)
		return nfs_dial_fail(d, -EACCES, "%s of %s does not let us in with sec=%s", what,
				     d->uri->host, nfs_security_name(d->uri->sec));
	if (strstr(said, "not accepted"))
		return nfs_dial_fail(d, -EACCES,
				     "%s of %s rejects AUTH_SYS credentials: if it wants Kerberos, add "
				     "version=4&sec=krb5 (or krb5i, krb5p) to the URI",
				     what, d->uri->host);
	return nfs_dial_fail(d, -EPROTO, "%s of %s: %s", what, d->uri->host, said);
}

int nfs_dial_connect_error(struct nfs_dial *d, int error, const char *what, const char *address,
			   int port)
{
	switch (error) {
	case ECONNREFUSED:
		return nfs_dial_fail(d, -ECONNREFUSED, "connection refused by %s (%s) port %d (%s)",
			    d->uri->host, address, port, what);
	case ETIMEDOUT:
		return nfs_dial_fail(d, -ETIMEDOUT, "no answer from %s (%s) port %d (%s)",
				     d->uri->host, address, port, what);
	case 0:
		return nfs_dial_fail(d, -EPROTO, "cannot connect to %s (%s) port %d (%s)",
				     d->uri->host, address, port, what);
	default:
		return nfs_dial_fail(d, -EHOSTUNREACH, "cannot connect to %s (%s) port %d (%s): %s",
			    d->uri->host, address, port, what, strerror(error));
	}
}

/* A connected carrier with the credentials of root. */
static int dial(struct nfs_dial *d, const char *address, int port, const char *what,
		struct nfs_carrier **out)
{
	struct nfs_carrier *carrier;
	struct rpc_context *rpc;
	int r, one = 1;

	if (!nfs_zdr_guard())
		return nfs_dial_fail(d, -EPROTO, "this libnfs is not the one we know");
	nfs_dial_begin(d, NULL, NULL);
	pthread_mutex_lock(&libnfs_statics);
	rpc = rpc_init_context();
	if (rpc) {
		rpc_set_auth(rpc, libnfs_authunix_create("postcopy", 0, 0, 0, NULL));
		errno = 0;
		r = rpc_connect_async(rpc, address, port, nfs_dial_on_step, d);
		d->error = r ? errno : 0;
	}
	pthread_mutex_unlock(&libnfs_statics);
	carrier = rpc ? nfs_carrier_make(rpc, NULL) : NULL;
	if (!carrier)
		return nfs_dial_fail(d, -ENOMEM, "out of memory");
	if (r) {
		r = nfs_dial_connect_error(d, d->error, what, address, port);
	} else {
		r = nfs_dial_run(d, carrier, what);
		if (!r && d->status != RPC_STATUS_SUCCESS)
			r = nfs_dial_connect_error(d, d->error, what, address, port);
	}
	if (r) {
		nfs_carrier_destroy(carrier);
		return r;
	}
	/* libnfs leaves Nagle's algorithm on: 40 ms for a small call behind another */
	setsockopt(nfs_carrier_fd(carrier), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*out = carrier;
	return 0;
}

static void take_port(struct nfs_dial *d, void *data)
{
	*(uint32_t *)d->out = *(uint32_t *)data;
}

/* One to three digits after the dot at @dot, then @after: a byte, or 256. */
static unsigned int byte_behind(const char *dot, char after)
{
	size_t n = strspn(dot + 1, "0123456789");
	unsigned int x = 0;

	if (n < 1 || n > 3 || dot[1 + n] != after)
		return 256;
	for (size_t i = 1; i <= n; i++)
		x = x * 10 + (unsigned int)(dot[i] - '0');
	return x < 256 ? x : 256;
}

/* Universal address: the address, and two bytes of the port in decimal, with dots between them. */
static void take_universal(struct nfs_dial *d, void *data)
{
	const char *s = ((struct pmap3_string_result *)data)->addr;
	const char *lo = s ? strrchr(s, '.') : NULL;
	const char *hi = lo && lo > s ? memrchr(s, '.', (size_t)(lo - s)) : NULL;

	if (hi && byte_behind(hi, '.') < 256 && byte_behind(lo, '\0') < 256)
		*(uint32_t *)d->out = byte_behind(hi, '.') << 8 | byte_behind(lo, '\0');
}

/* Version 2 knows nothing of IPv6: it tells ports of IPv4, if it answers there at all. */
static int ask_port(struct nfs_dial *d, struct nfs_carrier *rpc, uint32_t program, uint32_t version,
		    bool v6)
{
	struct pmap3_mapping m = {
		.prog = program, .vers = version, .netid = "tcp6", .addr = "", .owner = ""
	};

	return v6 ? rpc_pmap3_getaddr_async(rpc->libnfs, &m, nfs_dial_on_step, d) :
		    rpc_pmap2_getport_async(rpc->libnfs, (int)program, (int)version, IPPROTO_TCP,
					     nfs_dial_on_step, d);
}

static int find_port(struct nfs_dial *d, const char *address, uint32_t program, uint32_t version,
		     const char *what, uint32_t *out)
{
	bool v6 = strchr(address, ':');
	struct nfs_carrier *rpc;
	int r = dial(d, address, PORTMAPPER, "portmapper", &rpc);

	if (r)
		return r;
	*out = 0;
	nfs_dial_begin(d, v6 ? take_universal : take_port, out);
	r = nfs_dial_finish(d, rpc, ask_port(d, rpc, program, version, v6), "portmapper");
	nfs_carrier_destroy(rpc);
	if (!r && (*out < 1 || *out > 65535))
		return nfs_dial_fail(d, -EPROTO, "the portmapper of %s knows no %s version %u over TCP",
				     d->uri->host, what, version);
	return r;
}

int nfs_dial_program(struct nfs_dial *d, const char *address, uint16_t given, uint32_t program,
		     uint32_t version, const char *what, struct nfs_carrier **out)
{
	uint32_t port = given;
	int r = given ? 0 : find_port(d, address, program, version, what, &port);

	return r ? r : dial(d, address, (int)port, what, out);
}

void nfs_dial_close(struct nfs_dial *d, struct nfs_carrier *rpc)
{
	char why[NFS_WHY_MAX];

	memcpy(why, d->why, sizeof(why));
	if (d->session && d->uri->version->part)
		d->uri->version->part(d, rpc);
	memcpy(d->why, why, sizeof(why));
	nfs_carrier_destroy(rpc);
}
