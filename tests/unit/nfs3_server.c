// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs3_server.c - see nfs3_server.h: each connection is one thread. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs3_server.h"

#define CONNECTIONS  64
#define PIECE	     65536
#define SLOW_FROM    262144 /* bytes of a call */
#define PROG_UNAVAIL 1 /* of RPC */

struct peer {
	struct nfs3_server *s;
	int fd;
	pthread_t thread;
	uint8_t *bytes;
};

static bool take(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

static bool give(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool take_call(struct peer *p, uint32_t *len)
{
	uint32_t mark, piece;

	if (!take(p->fd, &mark, 4))
		return false;
	*len = ntohl(mark) & 0x7fffffff;
	if (*len > NFS3_SERVER_CALL)
		return false;
	if (!p->s->slow || *len < SLOW_FROM)
		return take(p->fd, p->bytes, *len);
	for (uint32_t at = 0; at < *len; at += piece) {
		piece = *len - at < PIECE ? *len - at : PIECE;
		if (!take(p->fd, p->bytes + at, piece))
			return false;
		poll(NULL, 0, (int)p->s->piece_ms);
	}
	return true;
}

/* ---- results ---- */

void nfs3_put_attr(struct nfs4_out *o, uint32_t ftype, uint32_t mode, uint64_t fileid)
{
	nfs4_put32(o, ftype);
	nfs4_put32(o, mode);
	for (int i = 0; i < 3; i++) /* links, owner, group */
		nfs4_put32(o, 1);
	for (int i = 0; i < 3; i++) /* size, used, device */
		nfs4_put64(o, 0);
	nfs4_put64(o, 7);
	nfs4_put64(o, fileid);
	for (int i = 0; i < 6; i++)
		nfs4_put32(o, 1);
}

void nfs3_put_no_wcc(struct nfs4_out *o)
{
	nfs4_put32(o, 0);
	nfs4_put32(o, 0);
}

static void put_fsinfo(const struct nfs3_server *s, struct nfs4_out *o)
{
	uint32_t sizes[] = { 65536, 65536, 4096, s->wtmax, s->wtpref, 4096, 65536 };

	nfs4_put32(o, 0);
	nfs4_put32(o, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		nfs4_put32(o, sizes[i]);
	nfs4_put64(o, INT64_MAX);
	for (int i = 0; i < 3; i++) /* time_delta, properties */
		nfs4_put32(o, 1);
}

/* One entry for each of owner, group and others. */
static void put_acl(struct nfs4_out *o)
{
	static const uint32_t tags[] = { 1, 4, 0x20 };

	nfs4_put32(o, 0);
	nfs4_put32(o, 0); /* no attributes */
	nfs4_put32(o, 3); /* their mask */
	nfs4_put32(o, 3);
	nfs4_put32(o, 3);
	for (int i = 0; i < 3; i++) {
		nfs4_put32(o, tags[i]);
		nfs4_put32(o, 0);
		nfs4_put32(o, 7);
	}
	nfs4_put32(o, 0);
	nfs4_put32(o, 0);
}

static void put_mount(struct nfs4_out *o)
{
	nfs4_put32(o, 0);
	nfs4_put_opaque(o, "root", 4);
	nfs4_put32(o, 1);
	nfs4_put32(o, 1); /* AUTH_SYS */
}

/* Is it what every source asks?  Then it is answered. */
static bool usual(struct nfs3_server *s, struct nfs3_call *c)
{
	if (c->procedure == 0)
		return true;
	if (c->program == MOUNT_PROGRAM)
		put_mount(&c->out);
	else if (c->program == NFS_PROGRAM && c->procedure == NFS3_FSINFO)
		put_fsinfo(s, &c->out);
	else if (c->program == NFSACL_PROGRAM && c->procedure == NFSACL3_GETACL)
		put_acl(&c->out);
	else if (c->program == NFS_PROGRAM && c->procedure == NFS3_GETATTR) {
		nfs4_put32(&c->out, 0);
		nfs3_put_attr(&c->out, NF3DIR, 0755, 2);
	} else
		return false;
	return true;
}

/* One call: false, the connection ends. */
static bool answer(struct peer *p)
{
	uint32_t len, xid, head[7] = { 0 };
	struct nfs3_call c = { 0 };
	bool unknown;

	if (!take_call(p, &len))
		return false;
	c.args = (struct nfs4_in){ p->bytes, len, false };
	xid = nfs4_get32(&c.args);
	nfs4_get32(&c.args); /* CALL, RPC's version */
	nfs4_get32(&c.args);
	c.program = nfs4_get32(&c.args);
	nfs4_get32(&c.args);
	c.procedure = nfs4_get32(&c.args);
	for (int i = 0; i < 2; i++) { /* credentials, verifier */
		nfs4_get32(&c.args);
		nfs4_get_opaque(&c.args, 400, &len);
	}
	unknown = c.program == NFSACL_PROGRAM && !p->s->acl;
	if (!unknown && !usual(p->s, &c))
		p->s->answer(p->s->arg, &c);
	if (c.hang_up || c.out.full)
		return false;
	head[0] = htonl(0x80000000u | (24 + c.out.len));
	head[1] = htonl(xid);
	head[2] = htonl(1); /* REPLY */
	head[6] = htonl(unknown ? PROG_UNAVAIL : 0);
	return give(p->fd, head, sizeof(head)) && give(p->fd, c.out.bytes, c.out.len);
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;

	p->bytes = malloc(NFS3_SERVER_CALL);
	while (p->bytes && answer(p))
		;
	free(p->bytes);
	shutdown(p->fd, SHUT_RDWR);
	return NULL;
}

/* Those that are over stay until the end: there are few. */
static void *server_main(void *arg)
{
	struct nfs3_server *s = arg;
	struct peer *peers = calloc(CONNECTIONS, sizeof(*peers));
	unsigned int n = 0;

	while (!atomic_load(&s->stop) && n < CONNECTIONS) {
		int fd = accept(s->fd, NULL, NULL);

		if (fd < 0)
			break;
		atomic_fetch_add(&s->connections, 1);
		peers[n] = (struct peer){ .s = s, .fd = fd };
		if (pthread_create(&peers[n].thread, NULL, peer_main, &peers[n]))
			abort();
		n++;
	}
	while (n--) {
		shutdown(peers[n].fd, SHUT_RDWR);
		pthread_join(peers[n].thread, NULL);
		close(peers[n].fd);
	}
	free(peers);
	return NULL;
}

void nfs3_server_start(struct nfs3_server *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int small = PIECE;

	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (s->slow)
		assert_int_equal(setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->fd, CONNECTIONS), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

void nfs3_server_stop(struct nfs3_server *s)
{
	atomic_store(&s->stop, true);
	shutdown(s->fd, SHUT_RDWR); /* accept() ends */
	pthread_join(s->thread, NULL);
	close(s->fd);
}
