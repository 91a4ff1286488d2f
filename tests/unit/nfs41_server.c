// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs41_server.c - see nfs41_server.h: each connection is one thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs41_server.h"

#define CONNECTIONS 16

struct peer { /* a connection, and its session */
	struct nfs41_server *s;
	int fd;
	pthread_t thread;
	uint32_t client; /* 0: none yet */
	uint32_t session; /* 0: none */
	uint32_t next[NFS41_SLOTS_MAX]; /* of each slot */
	bool file; /* the current handle is that */
	uint8_t *big; /* the results so far */
	uint32_t len;
};

static bool use(atomic_uint *n)
{
	unsigned int now = atomic_load(n);

	while (now && !atomic_compare_exchange_weak(n, &now, now - 1))
		;
	return now;
}

static bool all(int fd, void *buf, size_t len, bool out)
{
	char *p = buf;

	while (len) {
		ssize_t n = out ? send(fd, p, len, MSG_NOSIGNAL) : recv(fd, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* ---- results ---- */

static void put_result(struct nfs4_out *o, uint32_t op, uint32_t status)
{
	nfs4_put32(o, op);
	nfs4_put32(o, status);
}

static uint64_t value(const struct peer *p, unsigned int attribute)
{
	switch (attribute) {
	case FATTR4_TYPE:
		return p->file ? NF3REG : NF3DIR;
	case FATTR4_SIZE:
		return p->file ? p->s->size : 1;
	case FATTR4_FILEID:
		return p->file ? 3 : 2;
	case FATTR4_LEASE_TIME:
		return p->s->lease_s;
	case FATTR4_MODE:
		return 0755;
	case FATTR4_FH_EXPIRE_TYPE:
		return 0;
	default: /* links, file system, time */
		return 1;
	}
}

static void put_attrs(const struct peer *p, struct nfs4_out *o, uint64_t asked)
{
	struct nfs4_out v = { .len = 0 };
	uint64_t have = asked & (NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_FH_EXPIRE_TYPE) |
				 NFS4_BIT(FATTR4_SIZE) | NFS4_BIT(FATTR4_FSID) |
				 NFS4_BIT(FATTR4_LEASE_TIME) | NFS4_BIT(FATTR4_FILEID) |
				 NFS4_BIT(FATTR4_MODE) | NFS4_BIT(FATTR4_NUMLINKS) |
				 NFS4_BIT(FATTR4_OWNER) | NFS4_BIT(FATTR4_OWNER_GROUP) |
				 NFS4_BIT(FATTR4_TIME_MODIFY));

	for (unsigned int i = 0; i < 64; i++) {
		if (!(have & NFS4_BIT(i)))
			continue;
		if (i == FATTR4_OWNER || i == FATTR4_OWNER_GROUP)
			nfs4_put_opaque(&v, "0", 1);
		else if (i == FATTR4_SIZE || i == FATTR4_FSID || i == FATTR4_TIME_MODIFY ||
			 i == FATTR4_FILEID)
			nfs4_put64(&v, value(p, i));
		else
			nfs4_put32(&v, (uint32_t)value(p, i));
		if (i == FATTR4_FSID)
			nfs4_put64(&v, 0);
		else if (i == FATTR4_TIME_MODIFY)
			nfs4_put32(&v, 0);
	}
	nfs4_put_bitmap(o, have);
	nfs4_put_opaque(o, v.bytes, v.len);
}

static void put_channel(const struct peer *p, struct nfs4_out *o)
{
	uint32_t values[] = { 0, 8192, p->s->reply_max, 0, p->s->ops_max, p->s->slots, 0 };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		nfs4_put32(o, values[i]);
}

static void put_id(const struct peer *p, struct nfs4_out *o)
{
	uint8_t id[16] = { 's' };

	memcpy(id + 4, &p->session, 4);
	nfs4_put_fixed(o, id, sizeof(id));
}

/* ---- operations: 0, or the status with which the compound ends ---- */

static uint32_t exchange(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	uint32_t len;

	nfs4_get64(in);
	nfs4_get_opaque(in, 1024, &len);
	if (!len || nfs4_get32(in) > 3 || nfs4_get32(in) || nfs4_get32(in))
		atomic_fetch_add(&p->s->wrong, 1);
	p->client = 1 + atomic_load(&p->s->sessions);
	put_result(o, NFS4_EXCHANGE_ID, 0);
	nfs4_put64(o, p->client);
	nfs4_put32(o, 7); /* of the session to be made */
	nfs4_put32(o, 0x20000);
	nfs4_put32(o, 0);
	nfs4_put64(o, 0);
	nfs4_put_opaque(o, "server", 6);
	nfs4_put_opaque(o, "scope", 5);
	nfs4_put32(o, 0);
	return 0;
}

static uint32_t create(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	if (nfs4_get64(in) != p->client || !p->client || nfs4_get32(in) != 7 || nfs4_get32(in))
		atomic_fetch_add(&p->s->wrong, 1);
	in->left = 0; /* nothing that matters comes behind */
	p->session = 1 + atomic_fetch_add(&p->s->sessions, 1);
	for (unsigned int i = 0; i < NFS41_SLOTS_MAX; i++)
		p->next[i] = 1;
	put_result(o, NFS4_CREATE_SESSION, 0);
	put_id(p, o);
	nfs4_put32(o, 7);
	nfs4_put32(o, 0);
	put_channel(p, o);
	put_channel(p, o);
	return 0;
}

static uint32_t sequence(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	uint8_t id[16], ours[16] = { 's' };
	uint32_t number, slot, highest, kept, status = 0;

	memcpy(ours + 4, &p->session, 4);
	nfs4_get_fixed(in, id, sizeof(id));
	number = nfs4_get32(in);
	slot = nfs4_get32(in);
	highest = nfs4_get32(in);
	kept = nfs4_get32(in);
	atomic_fetch_add(&p->s->sequences, 1);
	if (slot + 1 > atomic_load(&p->s->most))
		atomic_store(&p->s->most, slot + 1);
	if (memcmp(id, ours, 16) || slot >= p->s->slots || highest < slot ||
	    highest >= p->s->slots || kept || number != p->next[slot])
		atomic_fetch_add(&p->s->wrong, 1);
	if (use(&p->s->lose))
		status = NFS4_BADSESSION;
	else if (use(&p->s->later))
		status = NFS4_DELAY;
	put_result(o, NFS4_SEQUENCE, status);
	if (status)
		return status;
	p->next[slot]++;
	put_id(p, o);
	nfs4_put32(o, number);
	nfs4_put32(o, slot + use(&p->s->garble));
	nfs4_put32(o, p->s->slots - 1);
	nfs4_put32(o, p->s->slots - 1);
	nfs4_put32(o, atomic_load(&p->s->flags));
	return 0;
}

/* ---- content ---- */

static bool is_data(const struct nfs41_server *s, uint64_t at)
{
	for (unsigned int i = 0; i < s->n_data; i++)
		if (s->data[i].start <= at && at < s->data[i].end)
			return true;
	return s->liar;
}

/* Where the next data, or hole, from @at on begins; UINT64_MAX: there is none. */
static uint64_t next(const struct nfs41_server *s, uint64_t at, bool hole)
{
	for (unsigned int i = 0; i < s->n_data; i++) {
		const struct stub_range *r = &s->data[i];

		if (at < r->start)
			return hole ? at : r->start;
		if (at < r->end && !hole)
			return at;
		if (at < r->end)
			at = r->end;
	}
	return hole ? at : UINT64_MAX;
}

static uint32_t seek(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	uint64_t high = nfs4_get64(in), low = nfs4_get64(in), from = nfs4_get64(in), at;
	uint32_t what = nfs4_get32(in), status = p->s->seek_status;

	atomic_fetch_add(&p->s->seeks, 1);
	if (high || low || what > 1 || !p->file)
		atomic_fetch_add(&p->s->wrong, 1);
	at = next(p->s, from, what);
	if (p->s->both && what == 0)
		at = from;
	if (!status && (from >= p->s->size || (at == UINT64_MAX && !p->s->no_end)))
		status = NFS4_NXIO;
	put_result(o, NFS4_SEEK, status);
	if (status)
		return status;
	nfs4_put32(o, at >= p->s->size);
	nfs4_put64(o, at == UINT64_MAX ? 0 : p->s->back ? from - 1 : at);
	return 0;
}

/* The bytes go behind the other results at once. */
static uint32_t read_file(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	uint64_t high = nfs4_get64(in), low = nfs4_get64(in), from = nfs4_get64(in);
	uint32_t count = nfs4_get32(in);

	atomic_fetch_add(&p->s->reads, 1);
	if (high || low || count > 65536 || count % 4)
		atomic_fetch_add(&p->s->wrong, 1);
	if (from >= p->s->size)
		count = 0;
	else if (count > p->s->size - from)
		count = (uint32_t)(p->s->size - from);
	put_result(o, NFS4_READ, 0);
	nfs4_put32(o, from + count >= p->s->size);
	nfs4_put32(o, count);
	memcpy(p->big + p->len, o->bytes, o->len);
	p->len += o->len;
	o->len = 0;
	for (uint32_t i = 0; i < count; i++)
		p->big[p->len++] = is_data(p->s, from + i);
	return 0;
}

static uint32_t operation(struct peer *p, uint32_t op, struct nfs4_in *in, struct nfs4_out *o)
{
	const uint8_t *fh;
	uint32_t len;

	switch (op) {
	case NFS4_SEEK:
		return seek(p, in, o);
	case NFS4_READ:
		return read_file(p, in, o);
	case NFS4_EXCHANGE_ID:
		return exchange(p, in, o);
	case NFS4_CREATE_SESSION:
		return create(p, in, o);
	case NFS4_SEQUENCE:
		return sequence(p, in, o);
	case NFS4_DESTROY_SESSION:
		atomic_fetch_add(&p->s->destroyed, 1);
		break;
	case NFS4_DESTROY_CLIENTID:
		atomic_fetch_add(&p->s->clients_destroyed, 1);
		break;
	case NFS4_RECLAIM_COMPLETE:
		nfs4_get32(in);
		break;
	case NFS4_PUTFH:
		fh = nfs4_get_opaque(in, 4096, &len);
		p->file = fh && len == 4 && !memcmp(fh, "file", 4);
		break;
	case NFS4_PUTROOTFH:
		p->file = false;
		break;
	case NFS4_LOOKUP:
		nfs4_get_opaque(in, 4096, &len);
		break;
	default:
		break;
	}
	put_result(o, op, 0);
	if (op == NFS4_GETFH)
		nfs4_put_opaque(o, "root", 4);
	else if (op == NFS4_GETATTR)
		put_attrs(p, o, nfs4_get_bitmap(in, true));
	return 0;
}

/* Results: into p->big. */
static void compound(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	uint32_t len, minor, n, op = 0, done = 0, status = 0;

	nfs4_get_opaque(in, 1024, &len);
	minor = nfs4_get32(in);
	n = nfs4_get32(in);
	if (!minor || minor > p->s->minor) {
		status = NFS4_MINOR_VERS_MISMATCH;
		n = 0;
	}
	for (; done < n && !status; done++) {
		struct nfs4_out results = { .len = 0 };

		op = nfs4_get32(in);
		status = operation(p, op, in, &results);
		memcpy(p->big + p->len, results.bytes, results.len);
		p->len += results.len;
		if (!done && op < NFS4_EXCHANGE_ID)
			atomic_fetch_add(&p->s->wrong, 1); /* no SEQUENCE */
	}
	if (n == 1 && op == NFS4_SEQUENCE)
		atomic_fetch_add(&p->s->alone, 1);
	nfs4_put32(o, status);
	nfs4_put32(o, 0);
	nfs4_put32(o, done);
}

/* ---- connections ---- */

/* One call with AUTH_SYS: false, the connection ends. */
static bool answer(struct peer *p)
{
	uint8_t call[8192];
	struct nfs4_out o = { .len = 0 };
	uint32_t mark, len, proc, xid;
	struct nfs4_in in;

	if (!all(p->fd, &mark, 4, false))
		return false;
	len = ntohl(mark) & 0x7fffffff;
	if (len > sizeof(call) || !all(p->fd, call, len, false))
		return false;
	if (use(&p->s->hang_up))
		return false;
	in = (struct nfs4_in){ call, len, false };
	xid = nfs4_get32(&in);
	for (int i = 0; i < 4; i++)
		nfs4_get32(&in);
	proc = nfs4_get32(&in);
	for (int i = 0; i < 2; i++) { /* credentials, verifier */
		nfs4_get32(&in);
		nfs4_get_opaque(&in, 400, &len);
	}
	nfs4_put32(&o, 0); /* the mark */
	nfs4_put32(&o, xid);
	nfs4_put32(&o, 1);
	for (int i = 0; i < 4; i++)
		nfs4_put32(&o, 0);
	p->len = 0;
	if (proc)
		compound(p, &in, &o);
	mark = htonl(0x80000000u | (o.len - 4 + p->len));
	memcpy(o.bytes, &mark, 4);
	return all(p->fd, o.bytes, o.len, true) && all(p->fd, p->big, p->len, true);
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;

	p->big = malloc(1 << 18);
	while (p->big && answer(p))
		;
	free(p->big);
	shutdown(p->fd, SHUT_RDWR);
	return NULL;
}

/* Those that are over stay until the end: there are few. */
static void *server_main(void *arg)
{
	struct nfs41_server *s = arg;
	struct peer *peers = calloc(CONNECTIONS, sizeof(*peers));
	unsigned int n = 0;

	while (!atomic_load(&s->stop) && n < CONNECTIONS) {
		int fd = accept(s->fd, NULL, NULL);

		if (fd < 0)
			break;
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

void nfs41_server_start(struct nfs41_server *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->fd, CONNECTIONS), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

void nfs41_server_stop(struct nfs41_server *s)
{
	atomic_store(&s->stop, true);
	shutdown(s->fd, SHUT_RDWR); /* accept() ends */
	pthread_join(s->thread, NULL);
	close(s->fd);
}
