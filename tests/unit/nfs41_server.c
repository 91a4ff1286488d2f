// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs41_server.c - see nfs41_server.h: each connection is one thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs41_server.h"

#define CONNECTIONS  16
#define GARBAGE_ARGS 4 /* of RPC */

struct peer { /* a connection, and its session */
	struct nfs41_server *s;
	int fd;
	pthread_t thread;
	uint32_t client; /* 0: none yet */
	uint32_t session; /* 0: none */
	uint32_t next[NFS41_SLOTS_MAX]; /* of each slot */
	enum { ROOT, FILE_WITH, FILE_PLAIN } at; /* the current handle's */
	bool silent; /* it says nothing any more */
	unsigned int nth; /* READ of this compound, from 1 */
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
		return p->at == ROOT ? NF3DIR : NF3REG;
	case FATTR4_SIZE:
		return p->at == FILE_WITH ? p->s->size : 0;
	case FATTR4_FILEID:
		return 2 + p->at;
	case FATTR4_LEASE_TIME:
		return p->s->lease_s;
	case FATTR4_MODE:
		return 0755;
	case FATTR4_FH_EXPIRE_TYPE:
	case FATTR4_RDATTR_ERROR:
		return 0;
	default: /* links, file system, time */
		return 1;
	}
}

static const char *const handles[] = { "root", "file", "none" };

static void put_attrs(const struct peer *p, struct nfs4_out *o, uint64_t asked, uint32_t third)
{
	bool born = p->s->born.tv_sec || p->s->born.tv_nsec;
	struct nfs4_out v = { .len = 0 };
	uint64_t have = asked & (NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_FH_EXPIRE_TYPE) |
				 NFS4_BIT(FATTR4_SIZE) | NFS4_BIT(FATTR4_FSID) |
				 NFS4_BIT(FATTR4_LEASE_TIME) | NFS4_BIT(FATTR4_FILEID) |
				 NFS4_BIT(FATTR4_MODE) | NFS4_BIT(FATTR4_NUMLINKS) |
				 NFS4_BIT(FATTR4_OWNER) | NFS4_BIT(FATTR4_OWNER_GROUP) |
				 NFS4_BIT(FATTR4_RDATTR_ERROR) | NFS4_BIT(FATTR4_FILEHANDLE) |
				 (born ? NFS4_BIT(FATTR4_TIME_CREATE) : 0) |
				 NFS4_BIT(FATTR4_TIME_MODIFY));

	for (unsigned int i = 0; i < 64; i++) {
		if (!(have & NFS4_BIT(i)))
			continue;
		if (i == FATTR4_OWNER || i == FATTR4_OWNER_GROUP)
			nfs4_put_opaque(&v, "0", 1);
		else if (i == FATTR4_FILEHANDLE)
			nfs4_put_opaque(&v, handles[p->at], 4);
		else if (i == FATTR4_TIME_CREATE)
			nfs4_put64(&v, (uint64_t)p->s->born.tv_sec);
		else if (i == FATTR4_SIZE || i == FATTR4_FSID || i == FATTR4_TIME_MODIFY ||
			 i == FATTR4_FILEID)
			nfs4_put64(&v, value(p, i));
		else
			nfs4_put32(&v, (uint32_t)value(p, i));
		if (i == FATTR4_FSID)
			nfs4_put64(&v, 0);
		else if (i == FATTR4_TIME_MODIFY)
			nfs4_put32(&v, 0);
		else if (i == FATTR4_TIME_CREATE)
			nfs4_put32(&v, (uint32_t)p->s->born.tv_nsec);
	}
	third &= NFS4_THIRD(FATTR4_XATTR_SUPPORT);
	if (third)
		nfs4_put32(&v, !p->s->no_support);
	nfs4_put_bitmap3(o, have, third);
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
	if (high || low || what > 1 || p->at != FILE_WITH)
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
	uint32_t count = nfs4_get32(in), status = 0;

	atomic_fetch_add(&p->s->reads, 1);
	if (++p->nth > atomic_load(&p->s->together))
		atomic_store(&p->s->together, p->nth);
	if (p->s->read_status)
		status = p->s->read_status(p->s, p->nth, p->at == FILE_PLAIN);
	if (status) {
		put_result(o, NFS4_READ, status);
		return status;
	}
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

/* ---- extended attributes ---- */

static uint32_t list(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	const struct nfs41_server *s = p->s;
	uint64_t from = nfs4_get64(in), cookie;
	unsigned int all = p->at == FILE_WITH ? s->n_xattrs : 0, n;

	nfs4_get32(in);
	atomic_fetch_add(&p->s->lists, 1);
	/* an operation that is not known has another number */
	put_result(o, s->list_status == NFS4_OP_ILLEGAL ? NFS4_ILLEGAL : NFS4_LISTXATTRS,
		   s->list_status);
	if (s->list_status)
		return s->list_status;
	n = from > all ? 0 : all - (unsigned int)from;
	if (s->page && n > s->page)
		n = s->page;
	cookie = s->stuck ? from : from + n;
	if (s->endless) {
		n = 500;
		cookie = from + n;
	}
	nfs4_put64(o, cookie);
	nfs4_put32(o, n);
	memcpy(p->big + p->len, o->bytes, o->len);
	p->len += o->len;
	for (unsigned int i = 0; i < n; i++) {
		char made[300];

		*o = (struct nfs4_out){ .len = 0 };
		snprintf(made, sizeof(made), "%08u%0250u", (unsigned int)from + i, i);
		if (s->endless)
			nfs4_put_opaque(o, made, s->too_long ? 251 : 8);
		else
			nfs4_put_opaque(o, s->xattrs[from + i].name, s->xattrs[from + i].name_len);
		memcpy(p->big + p->len, o->bytes, o->len);
		p->len += o->len;
	}
	*o = (struct nfs4_out){ .len = 0 };
	nfs4_put32(o, !s->endless && !s->stuck && from + n >= all);
	return 0;
}

static uint32_t get(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	const struct nfs41_server *s = p->s;
	uint32_t len, status = s->get_status ? s->get_status : NFS4_NOXATTR;
	const uint8_t *name = nfs4_get_opaque(in, 255, &len);
	unsigned int i = 0;

	while (i < s->n_xattrs && (s->xattrs[i].name_len != len || !name ||
				   memcmp(s->xattrs[i].name, name, len)))
		i++;
	if (i < s->n_xattrs && s->xattrs[i].value && !s->get_status)
		status = 0;
	put_result(o, NFS4_GETXATTR, status);
	if (!status)
		nfs4_put_opaque(o, s->xattrs[i].value, s->xattrs[i].len);
	return status;
}

/* ---- the directory ---- */

static void entries(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	static const char *const names[] = { "", "with", "plain" };
	uint64_t attributes;
	uint32_t third;

	nfs4_get64(in);
	nfs4_get64(in);
	nfs4_get32(in);
	nfs4_get32(in);
	attributes = nfs4_get_bitmap3(in, true, &third);
	nfs4_put64(o, 1);
	for (p->at = FILE_WITH; p->at <= FILE_PLAIN; p->at++) {
		nfs4_put32(o, 1);
		nfs4_put64(o, 10 + p->at);
		nfs4_put_opaque(o, names[p->at], strlen(names[p->at]));
		put_attrs(p, o, attributes, third);
	}
	p->at = ROOT;
	nfs4_put32(o, 0);
	nfs4_put32(o, 1);
}

static void enter(struct peer *p, uint32_t op, struct nfs4_in *in)
{
	uint32_t len;
	const uint8_t *text = nfs4_get_opaque(in, 4096, &len);

	if (op == NFS4_PUTFH)
		p->at = !text || len != 4	     ? ROOT :
			!memcmp(text, "file", 4) ? FILE_WITH :
			!memcmp(text, "none", 4) ? FILE_PLAIN :
						   ROOT;
	else
		p->at = text && len == 4 ? FILE_WITH : text && len == 5 ? FILE_PLAIN : ROOT;
}

static uint32_t operation(struct peer *p, uint32_t op, struct nfs4_in *in, struct nfs4_out *o)
{
	uint64_t attributes;
	uint32_t third;

	switch (op) {
	case NFS4_LISTXATTRS:
		return list(p, in, o);
	case NFS4_GETXATTR:
		return get(p, in, o);
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
		p->silent = atomic_load(&p->s->mute);
		break;
	case NFS4_DESTROY_CLIENTID:
		atomic_fetch_add(&p->s->clients_destroyed, 1);
		break;
	case NFS4_RECLAIM_COMPLETE:
		nfs4_get32(in);
		break;
	case NFS4_PUTFH:
	case NFS4_LOOKUP:
		enter(p, op, in);
		break;
	case NFS4_PUTROOTFH:
		p->at = ROOT;
		break;
	default:
		break;
	}
	put_result(o, op, 0);
	if (op == NFS4_GETFH)
		nfs4_put_opaque(o, handles[p->at], 4);
	else if (op == NFS4_READDIR)
		entries(p, in, o);
	if (op != NFS4_GETATTR)
		return 0;
	attributes = nfs4_get_bitmap3(in, true, &third);
	put_attrs(p, o, attributes, third);
	return 0;
}

/* Results: into p->big. */
static void compound(struct peer *p, struct nfs4_in *in, struct nfs4_out *o)
{
	uint32_t len, minor, n, op = 0, done = 0, status = 0;

	nfs4_get_opaque(in, 1024, &len);
	minor = nfs4_get32(in);
	n = nfs4_get32(in);
	p->nth = 0;
	if (minor > p->s->minor) {
		status = NFS4_MINOR_VERS_MISMATCH;
		n = 0;
	}
	for (; done < n && !status; done++) {
		struct nfs4_out results = { .len = 0 };

		op = nfs4_get32(in);
		status = operation(p, op, in, &results);
		memcpy(p->big + p->len, results.bytes, results.len);
		p->len += results.len;
		if (!done && minor && op < NFS4_EXCHANGE_ID)
			atomic_fetch_add(&p->s->wrong, 1); /* no SEQUENCE */
	}
	if (p->nth)
		atomic_fetch_add(&p->s->messages, 1);
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
	bool refused;

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
	for (int i = 0; i < 3; i++)
		nfs4_put32(&o, 0);
	p->len = 0;
	refused = proc && use(&p->s->refuse);
	nfs4_put32(&o, refused ? GARBAGE_ARGS : 0);
	if (proc && !refused)
		compound(p, &in, &o);
	if (p->silent)
		return true;
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
