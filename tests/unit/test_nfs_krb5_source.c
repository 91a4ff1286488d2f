// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_nfs_krb5_source.c - an NFS source with Kerberos as a whole: connections, queue, reconnects,
 * refusals, against a small NFSv4 server in threads of this process, with the real GSSAPI
 * (onc_peer.h).  There is no KDC: tickets are in a credential cache.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs/nfs41.h"
#include "onc_peer.h"

#define CONNECTIONS_MAX 256
#define FILE_BYTES	1000

static struct peer_realm realm, wrong;
static char dir[] = "/tmp/test-nfs-krb5-source-XXXXXX", cache[64];

/* ---- the server ---- */

static struct {
	int listening;
	uint16_t port;
	pthread_t thread, each[CONNECTIONS_MAX];
	_Atomic int fd[CONNECTIONS_MAX]; /* -1: over */
	_Atomic unsigned int n;
	_Atomic unsigned int denials, inits, datas, destroys;
	_Atomic bool other_key, wrong_sec;
	_Atomic uint32_t deny; /* what it denies with */
	_Atomic uint32_t minor; /* the highest version that it has */
	_Atomic unsigned int sessions, ended;
} server;

/* ---- the server's file system: a root, /export, /export/file ---- */

static const char *name_of(char object)
{
	return object == 'E' ? "export" : "file";
}

static void put_attr(struct nfs4_out *v, unsigned int number, char object)
{
	bool file = object == 'F';

	switch (number) {
	case FATTR4_TYPE:
		nfs4_put32(v, file ? NF3REG : NF3DIR);
		break;
	case FATTR4_FH_EXPIRE_TYPE:
		nfs4_put32(v, 0);
		break;
	case FATTR4_SIZE:
	case FATTR4_SPACE_USED:
		nfs4_put64(v, FILE_BYTES);
		break;
	case FATTR4_FSID:
		nfs4_put64(v, 1);
		nfs4_put64(v, 2);
		break;
	case FATTR4_FILEID:
		nfs4_put64(v, (uint64_t)object);
		break;
	case FATTR4_MAXREAD:
		nfs4_put64(v, 65536);
		break;
	case FATTR4_MODE:
		nfs4_put32(v, file ? 0600 : 0700);
		break;
	case FATTR4_NUMLINKS:
		nfs4_put32(v, 1);
		break;
	case FATTR4_OWNER:
	case FATTR4_OWNER_GROUP:
		nfs4_put_opaque(v, "0", 1);
		break;
	default: /* times */
		nfs4_put64(v, 1700000000);
		nfs4_put32(v, 5);
	}
}

static void put_attrs(struct nfs4_out *o, uint64_t asked, char object)
{
	const uint64_t have =
		asked & (NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_FH_EXPIRE_TYPE) |
			 NFS4_BIT(FATTR4_SIZE) | NFS4_BIT(FATTR4_FSID) | NFS4_BIT(FATTR4_FILEID) |
			 NFS4_BIT(FATTR4_MAXREAD) | NFS4_BIT(FATTR4_MODE) |
			 NFS4_BIT(FATTR4_NUMLINKS) | NFS4_BIT(FATTR4_OWNER) |
			 NFS4_BIT(FATTR4_OWNER_GROUP) | NFS4_BIT(FATTR4_SPACE_USED) |
			 NFS4_BIT(FATTR4_TIME_ACCESS) | NFS4_BIT(FATTR4_TIME_METADATA) |
			 NFS4_BIT(FATTR4_TIME_MODIFY));
	struct nfs4_out v = { .len = 0 };

	for (unsigned int i = 0; i < 64; i++)
		if (have & NFS4_BIT(i))
			put_attr(&v, i, object);
	nfs4_put_bitmap(o, have);
	nfs4_put_opaque(o, v.bytes, v.len);
}

static void put_data(struct nfs4_in *in, struct nfs4_out *o)
{
	uint8_t bytes[FILE_BYTES];
	uint64_t offset;
	uint32_t count;

	for (int i = 0; i < 4; i++)
		nfs4_get32(in); /* the stateid */
	offset = nfs4_get64(in);
	count = nfs4_get32(in);
	memset(bytes, 'x', sizeof(bytes));
	assert_true(offset < FILE_BYTES);
	count = count < FILE_BYTES - offset ? count : (uint32_t)(FILE_BYTES - offset);
	nfs4_put32(o, offset + count == FILE_BYTES);
	nfs4_put_opaque(o, bytes, count);
}

/* ---- sessions: what is asked for is given, whose they are is not looked at ---- */

static void pass(struct nfs4_in *in, unsigned int words)
{
	while (words--)
		nfs4_get32(in);
}

static void put_exchange(struct nfs4_in *in, struct nfs4_out *o)
{
	uint32_t len;

	pass(in, 2); /* the verifier */
	nfs4_get_opaque(in, 1024, &len);
	pass(in, 1);
	assert_int_equal(nfs4_get32(in), 0); /* SP4_NONE: Kerberos is the RPC's */
	pass(in, 1);
	nfs4_put64(o, 77);
	nfs4_put32(o, 1);
	nfs4_put32(o, 0);
	nfs4_put32(o, 0);
	nfs4_put64(o, 0);
	nfs4_put_opaque(o, "server", 6);
	nfs4_put_opaque(o, "scope", 5);
	nfs4_put32(o, 0);
}

static void put_create(struct nfs4_in *in, struct nfs4_out *o)
{
	uint8_t id[16] = { 's' };

	assert_int_equal(nfs4_get64(in), 77);
	pass(in, 2 + 2 * 7 + 3);
	nfs4_put_fixed(o, id, sizeof(id));
	nfs4_put32(o, 1);
	nfs4_put32(o, 0);
	for (unsigned int i = 0; i < 2; i++) { /* the two ways */
		nfs4_put32(o, 0);
		nfs4_put32(o, 65536);
		nfs4_put32(o, 1 << 20);
		nfs4_put32(o, 0);
		nfs4_put32(o, 16);
		nfs4_put32(o, 16);
		nfs4_put32(o, 0);
	}
	server.sessions++;
}

static void put_sequence(struct nfs4_in *in, struct nfs4_out *o)
{
	uint8_t id[16];

	nfs4_get_fixed(in, id, sizeof(id));
	assert_int_equal(id[0], 's');
	nfs4_put_fixed(o, id, sizeof(id));
	nfs4_put32(o, nfs4_get32(in));
	nfs4_put32(o, nfs4_get32(in));
	pass(in, 2);
	nfs4_put32(o, 15);
	nfs4_put32(o, 15);
	nfs4_put32(o, 0);
}

/* Of an operation on sessions: true. */
static bool put_session(uint32_t op, struct nfs4_in *in, struct nfs4_out *o)
{
	switch (op) {
	case NFS4_EXCHANGE_ID:
		put_exchange(in, o);
		return true;
	case NFS4_CREATE_SESSION:
		put_create(in, o);
		return true;
	case NFS4_SEQUENCE:
		put_sequence(in, o);
		return true;
	case NFS4_RECLAIM_COMPLETE:
		pass(in, 1);
		return true;
	case NFS4_DESTROY_SESSION:
		pass(in, 4);
		server.ended++;
		return true;
	case NFS4_DESTROY_CLIENTID:
		pass(in, 2);
		return true;
	default:
		return false;
	}
}

/* One operation; its results follow a status of 0. */
static uint32_t operate(uint32_t op, struct nfs4_in *in, struct nfs4_out *o, char *object)
{
	const uint8_t *p;
	uint32_t len;

	switch (op) {
	case NFS4_PUTROOTFH:
		*object = 'R';
		break;
	case NFS4_PUTFH:
		p = nfs4_get_opaque(in, 128, &len);
		*object = (char)*p;
		break;
	case NFS4_LOOKUP:
		p = nfs4_get_opaque(in, 255, &len);
		*object = *object == 'R' ? 'E' : 'F';
		if (server.wrong_sec)
			return NFS4_WRONGSEC;
		return len == strlen(name_of(*object)) && !memcmp(p, name_of(*object), len) ?
			       0 :
			       NFS4_NOENT;
	case NFS4_LISTXATTRS: /* the last one: its arguments stay */
		return NFS4_NOTSUPP;
	default:
		break;
	}
	return 0;
}

static void put_results(uint32_t op, struct nfs4_in *in, struct nfs4_out *o, char object)
{
	uint32_t want, third;

	if (put_session(op, in, o)) {
		return;
	} else if (op == NFS4_GETFH) {
		nfs4_put_opaque(o, &object, 1);
	} else if (op == NFS4_GETATTR) {
		put_attrs(o, nfs4_get_bitmap3(in, false, &third), object);
	} else if (op == NFS4_READ) {
		put_data(in, o);
	} else if (op == NFS4_ACCESS) {
		want = nfs4_get32(in);
		nfs4_put32(o, want);
		nfs4_put32(o, want);
	}
}

static void compound(void *arg, const struct onc_bytes *args, struct onc_out *out)
{
	struct nfs4_in in = { args->data, args->len, false };
	struct nfs4_out o = { .len = 0 };
	uint32_t n, done = 0, status = 0, op, len, minor;
	char object = 0;

	nfs4_get_opaque(&in, 1024, &len);
	minor = nfs4_get32(&in);
	n = nfs4_get32(&in);
	if (minor > server.minor)
		status = NFS4_MINOR_VERS_MISMATCH;
	while (done < n && !status) {
		op = nfs4_get32(&in);
		assert_true(!minor || done || op >= NFS4_EXCHANGE_ID);
		done++;
		status = operate(op, &in, &o, &object);
		nfs4_put32(&o, op);
		nfs4_put32(&o, status);
		if (!status)
			put_results(op, &in, &o, object);
	}
	assert_false(in.bad || o.full);
	onc_put32(out, status);
	onc_put32(out, 0);
	onc_put32(out, done);
	onc_put_raw(out, o.bytes, o.len);
}

/* ---- its threads ---- */

static void *serve_one(void *arg)
{
	const int number = (int)(intptr_t)arg;
	struct peer_server s = { .fd = server.fd[number], .realm = &realm, .window = 8,
				 .results = compound };
	struct peer_call call;
	uint8_t byte;

	while (recv(s.fd, &byte, 1, MSG_PEEK) == 1) {
		unsigned int inits = s.inits, datas = s.datas, destroys = s.destroys;

		s.realm = server.other_key ? &wrong : &realm;
		peer_read(s.fd, &call);
		s.deny = server.deny;
		/* one that has worked is forgotten; for another reason each is denied */
		if (s.deny != ONC_CTXPROBLEM)
			s.denials = 1;
		else if (s.datas && call.gss_procedure == ONC_GSS_DATA)
			s.denials = atomic_exchange(&server.denials, 0);
		peer_answer(&s, &call);
		server.inits += s.inits - inits;
		server.datas += s.datas - datas;
		server.destroys += s.destroys - destroys;
	}
	server.fd[number] = -1;
	close(s.fd);
	peer_server_free(&s);
	return NULL;
}

static void *serve(void *arg)
{
	int fd;

	while ((fd = accept(server.listening, NULL, NULL)) >= 0 && server.n < CONNECTIONS_MAX) {
		server.fd[server.n] = fd;
		pthread_create(&server.each[server.n], NULL, serve_one,
			       (void *)(intptr_t)server.n);
		server.n++;
	}
	return NULL;
}

static void cut_all(void)
{
	for (unsigned int i = 0; i < CONNECTIONS_MAX; i++)
		if (server.fd[i] >= 0)
			shutdown(server.fd[i], SHUT_RDWR);
}

static void start(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	memset(&server, 0, sizeof(server));
	server.deny = ONC_CTXPROBLEM;
	server.minor = 2;
	for (unsigned int i = 0; i < CONNECTIONS_MAX; i++)
		server.fd[i] = -1;
	server.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server.listening, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(server.listening, 64), 0);
	assert_int_equal(getsockname(server.listening, (struct sockaddr *)&at, &len), 0);
	server.port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void finish(void)
{
	shutdown(server.listening, SHUT_RDWR);
	pthread_join(server.thread, NULL);
	for (unsigned int i = 0; i < server.n; i++)
		pthread_join(server.each[i], NULL);
	close(server.listening);
}

/* ---- the source ---- */

static void on_log(void *arg, enum stub_log_level level, const char *line)
{
}

static struct source *source(const char *sec, const char *version)
{
	char uri[200];
	const struct source_config c = {
		.uri = uri, .connections = 2, .readdir_bytes = 65536, .read_bytes = 65536,
		.call_timeout_ms = 60000, .inflight = 16, .log = on_log,
		.nfs.kerberos_cache = cache,
	};
	struct source *s;

	snprintf(uri, sizeof(uri), "nfs://%s:%u/export?version=%s&sec=%s", PEER_HOST, server.port,
		 version, sec);
	assert_int_equal(source_create(&c, &s), 0);
	return s;
}

struct reading {
	sem_t over;
	int64_t result;
	char bytes[FILE_BYTES];
};

static void on_data(void *arg, const struct source_read *r)
{
	struct reading *x = arg;

	x->result = r->result;
	if (r->result > 0)
		memcpy(x->bytes, r->data, (size_t)r->result);
	sem_post(&x->over);
}

static void read_all(struct source *s, const struct stub_origin *file)
{
	struct reading x = { .result = 0 };
	char want[FILE_BYTES];

	memset(want, 'x', sizeof(want));
	sem_init(&x.over, 0, 0);
	assert_int_equal(source_read(s, SOURCE_DEMAND, file, 0, FILE_BYTES, on_data, &x), 0);
	sem_wait(&x.over);
	assert_int_equal(x.result, FILE_BYTES);
	assert_memory_equal(x.bytes, want, FILE_BYTES);
	sem_destroy(&x.over);
}

static void get(struct source *s, unsigned int times)
{
	struct stub_origin root;
	struct stub_attr a;

	for (unsigned int i = 0; i < times; i++) {
		assert_int_equal(source_root(s, &root, &a), 0);
		assert_int_equal(a.fileid, 'E');
	}
}

static void reads(const char *sec, const char *version)
{
	struct stub_origin root, file;
	struct source_state state;
	struct stub_attr a;
	struct source *s;
	uint32_t granted;

	start();
	s = source(sec, version);
	assert_int_equal(source_root(s, &root, &a), 0);
	assert_true(S_ISDIR(a.mode));
	assert_int_equal(source_lookup(s, SOURCE_DEMAND, &root, NULL, "file", 4, &file, &a), 0);
	assert_int_equal(a.size, FILE_BYTES);
	read_all(s, &file);
	assert_int_equal(source_lookup(s, SOURCE_DEMAND, &root, NULL, "none", 4, &file, &a),
			 -ENOENT);
	assert_int_equal(source_access(s, &root, 0, 5, &granted), 0);
	assert_int_equal(granted, 5);
	assert_int_equal(source_access(s, &root, 65534, 5, &granted), -EOPNOTSUPP);
	source_state(s, &state);
	assert_true(state.connected && !state.refused);
	source_destroy(s);
	finish();
	assert_true(server.datas >= 5);
	assert_in_range(server.destroys, 1, server.inits); /* contexts are given back */
	/* of a connection that was not used, the session is given back if it was there */
	assert_true(version[2] == '0' ? !server.sessions : server.ended >= 1);
	assert_true(server.ended <= server.sessions);
}

static void reads_with_each(void **state)
{
	static const char *const versions[] = { "4.0", "4.1", "4.2" };

	for (unsigned int i = 0; i < 3; i++) {
		reads("krb5", versions[i]);
		reads("krb5i", versions[i]);
		reads("krb5p", versions[i]);
	}
}

/* Nobody notices: neither that the server has forgotten contexts, nor that connections break. */
static void goes_on_by(const char *version)
{
	struct source_state now;
	struct source *s;
	unsigned int inits;

	start();
	s = source("krb5i", version);
	get(s, 3);
	inits = server.inits;
	server.denials = 1;
	get(s, 20);
	assert_int_equal(server.denials, 0);
	assert_true(server.inits > inits);
	source_state(s, &now);
	assert_int_equal(now.reconnects, 0);
	cut_all();
	get(s, 20);
	source_state(s, &now);
	assert_true(now.connected);
	assert_true(now.reconnects > 0);
	source_destroy(s);
	finish();
}

static void goes_on(void **state)
{
	goes_on_by("4.0");
	goes_on_by("4.1");
}

/* A session stays while contexts end.  Tickets of a few seconds, which somebody keeps renewed: contexts end, and others come. */
static void moves_on_to_newer_tickets(void **state)
{
	const struct timespec moment = { .tv_nsec = 200000000 };
	struct source *s;
	unsigned int inits;

	peer_realm_renew(&realm, 4);
	peer_realm_save(&realm, cache);
	start();
	s = source("krb5i", "4.1");
	get(s, 1);
	inits = server.inits;
	while (server.inits < inits + 4) {
		peer_realm_renew(&realm, 4);
		peer_realm_save(&realm, cache);
		get(s, 1);
		nanosleep(&moment, NULL);
	}
	peer_realm_renew(&realm, 3600);
	peer_realm_save(&realm, cache);
	get(s, 3);
	source_destroy(s);
	finish();
}

static void wait_for(struct source *s, bool refused, struct source_state *now)
{
	const struct timespec moment = { .tv_nsec = 10000000 };

	do {
		nanosleep(&moment, NULL);
		source_state(s, now);
	} while (now->refused != refused);
}

static void refused_and_let_in_again(void **state)
{
	struct source_state now;
	struct source *s;
	unsigned int inits;

	start();
	s = source("krb5p", "4.0");
	get(s, 1);
	server.other_key = true;
	cut_all();
	wait_for(s, true, &now);
	assert_false(now.connected);
	assert_non_null(strstr(now.trouble, "the server refuses the Kerberos ticket"));
	assert_non_null(strstr(now.trouble, "mend "));
	assert_in_range(now.next_try_ms, 1, 60000);
	/* nobody is asked again and again: without a pace it would be six times */
	inits = server.inits;
	nanosleep(&(struct timespec){ .tv_sec = 3 }, NULL);
	assert_true(server.inits <= inits + 2);
	server.other_key = false;
	source_reload(s);
	get(s, 3);
	source_state(s, &now);
	assert_true(now.connected && !now.refused);
	source_destroy(s);
	finish();
}

/* stop() and destroy() wait for nobody, wherever the connections are. */
static void ends_at_once(void **state)
{
	struct source *s;
	struct stub_origin root;
	struct stub_attr a;

	start();
	server.other_key = true;
	s = source("krb5", "4.0");
	wait_for(s, true, &(struct source_state){ 0 });
	source_stop(s);
	assert_int_equal(source_root(s, &root, &a), -ECANCELED);
	source_destroy(s);
	finish();
	/* and without a ticket */
	assert_int_equal(rename(cache, "/tmp/test-nfs-krb5-source-away"), 0);
	start();
	s = source("krb5", "4.0");
	wait_for(s, true, &(struct source_state){ 0 });
	source_destroy(s);
	assert_int_equal(server.n, 0); /* nobody was asked anything */
	finish();
	assert_int_equal(rename("/tmp/test-nfs-krb5-source-away", cache), 0);
}

static void probes(void **state)
{
	char uri[200], why[SOURCE_WHY_MAX];
	struct source_config c = { .uri = uri, .nfs.kerberos_cache = cache };
	struct source_traits traits;

	start();
	snprintf(uri, sizeof(uri), "nfs://%s:%u/export?version=4&sec=krb5p", PEER_HOST,
		 server.port);
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), 0);
	assert_int_equal(source_traits(&c, 60000, &traits, why, sizeof(why)), 0);
	assert_string_equal(traits.security, "krb5p");
	server.wrong_sec = true;
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "/export cannot be had with sec=krb5p: try sec=sys, krb5, "));
	server.wrong_sec = false;
	server.deny = ONC_AUTH_TOOWEAK;
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "does not let us in with sec=krb5p"));
	server.deny = ONC_CTXPROBLEM;
	server.other_key = true;
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "the server refuses the Kerberos ticket"));
	c.nfs.kerberos_cache = "/nowhere/krb5cc";
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "there is no ticket"));
	c.nfs.kerberos_cache = NULL;
	assert_int_equal(source_probe(&c, 60000, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "none is set"));
	finish();
}

/* "version=4" becomes the highest that the server has. */
static void settles(void **state)
{
	static const char *const becomes[] = { "4.0", "4.1", "4.2" };
	char uri[200], want[200], got[200];
	struct source_config c = { .uri = uri, .nfs.kerberos_cache = cache };

	for (uint32_t minor = 0; minor < 3; minor++) {
		start();
		server.minor = minor;
		snprintf(uri, sizeof(uri), "nfs://%s:%u/export?version=4&sec=krb5i", PEER_HOST,
			 server.port);
		snprintf(want, sizeof(want), "nfs://%s:%u/export?version=%s&sec=krb5i", PEER_HOST,
			 server.port, becomes[minor]);
		assert_int_equal(source_settle(&c, 60000, got, sizeof(got)), 0);
		assert_string_equal(got, want);
		finish();
	}
}

static int begin(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(cache, sizeof(cache), "%s/krb5cc", dir);
	peer_realm_make(&realm, 3600);
	peer_realm_make(&wrong, 3600);
	peer_realm_save(&realm, cache);
	return 0;
}

static int end(void **state)
{
	unlink(cache);
	rmdir(dir);
	peer_realm_free(&realm);
	peer_realm_free(&wrong);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_with_each),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(moves_on_to_newer_tickets),
		cmocka_unit_test(refused_and_let_in_again),
		cmocka_unit_test(ends_at_once),
		cmocka_unit_test(probes),
		cmocka_unit_test(settles),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
