// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_nfs_krb5.c - NFS with Kerberos: retriever/krb5/tickets_gss.c, retriever/nfs/nfs_secure.c
 * and nfs_krb5.c, against a server with the real GSSAPI (onc_peer.h).  There is no KDC: tickets are
 * in a credential cache.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "krb5/tickets_gss.h"
#include "nfs/nfs4.h"
#include "onc_peer.h"

#define PATIENCE_MS 60000

static struct peer_realm realm;
static char dir[] = "/tmp/test-nfs-krb5-XXXXXX", cache[64];

/* ---- a server ---- */

struct server {
	struct peer_server peer;
	int listening, connections;
	uint16_t port;
	pthread_t thread;
};

/* Takes connections, one after the other, each until it is told that its context is over. */
static void *serve(void *arg)
{
	struct server *s = arg;

	for (int i = 0; i < s->connections; i++) {
		unsigned int destroys = s->peer.destroys;
		uint8_t byte;

		s->peer.fd = accept(s->listening, NULL, NULL);
		/* a client that is refused says nothing more */
		while (s->peer.destroys == destroys && recv(s->peer.fd, &byte, 1, MSG_PEEK) == 1)
			peer_serve(&s->peer);
		close(s->peer.fd);
	}
	return NULL;
}

static void start(struct server *s, int connections)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	s->peer.realm = &realm;
	s->peer.window = s->peer.window ? s->peer.window : 64;
	s->connections = connections;
	s->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listening, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->listening, 8), 0);
	assert_int_equal(getsockname(s->listening, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void finish(struct server *s)
{
	pthread_join(s->thread, NULL);
	close(s->listening);
	peer_server_free(&s->peer);
}

/* ---- tickets ---- */

static void on_changed(void *arg)
{
	++*(unsigned int *)arg;
}

static void on_told(void *arg, enum stub_log_level level, const char *line)
{
}

static struct nfs_uri uri_of(const char *sec, uint16_t port)
{
	char text[200], why[NFS_WHY_MAX];
	struct nfs_uri uri;

	snprintf(text, sizeof(text), "nfs://%s/export?version=4&nfsport=%u&sec=%s", PEER_HOST,
		 port ? port : NFS_PORT, sec);
	assert_int_equal(nfs_uri_parse(text, &uri, why, sizeof(why)), 0);
	return uri;
}

static int tickets(const struct source_nfs *o, const struct nfs_uri *uri, struct tickets **out,
		   char *why)
{
	static unsigned int changes;
	const struct nfs_krb5_told told = { on_changed, on_told, &changes };
	const struct source_config c = { .nfs = *o };

	return nfs_krb5_tickets(&c, uri, &told, out, why, NFS_WHY_MAX);
}

static void contexts_of_the_newest_tickets(void **state)
{
	const struct source_nfs o = { .kerberos_cache = cache };
	struct onc_begun b = { GSS_C_NO_CONTEXT, GSS_C_NO_NAME, GSS_C_EMPTY_BUFFER };
	const struct nfs_uri uri = uri_of("krb5", 0);
	gss_ctx_id_t theirs = GSS_C_NO_CONTEXT;
	gss_buffer_desc answer = GSS_C_EMPTY_BUFFER, name = GSS_C_EMPTY_BUFFER;
	OM_uint32 minor;
	gss_name_t who = GSS_C_NO_NAME;
	char why[NFS_WHY_MAX] = "";
	struct tickets *t;
	uint64_t serial = 0;

	peer_realm_save(&realm, cache);
	assert_int_equal(tickets(&o, &uri, &t, why), 0);
	assert_int_equal(tickets_wait(t, PATIENCE_MS, &serial, why, sizeof(why)), 0);
	assert_int_equal(serial, 1);
	/* what was read is kept: nobody needs the file any more */
	assert_int_equal(unlink(cache), 0);
	assert_int_equal(tickets_gss_begin(t, 0, &b, why, sizeof(why)), 0);
	assert_int_equal(gss_accept_sec_context(&minor, &theirs, realm.server, &b.token,
						GSS_C_NO_CHANNEL_BINDINGS, &who, NULL, &answer,
						NULL, NULL, NULL),
			 GSS_S_COMPLETE);
	assert_int_equal(gss_display_name(&minor, who, &name, NULL), 0);
	assert_string_equal((char *)name.value, "root@" PEER_REALM);
	gss_release_buffer(&minor, &name);
	gss_release_buffer(&minor, &answer);
	gss_release_buffer(&minor, &b.token);
	gss_release_name(&minor, &who);
	gss_release_name(&minor, &b.server);
	gss_delete_sec_context(&minor, &b.context, GSS_C_NO_BUFFER);
	gss_delete_sec_context(&minor, &theirs, GSS_C_NO_BUFFER);
	tickets_stop(t);
	assert_int_equal(tickets_gss_begin(t, PATIENCE_MS, &b, why, sizeof(why)), -ECANCELED);
	tickets_destroy(t);
}

static void no_tickets(void **state)
{
	const struct nfs_uri uri = uri_of("krb5", 0), sys = uri_of("sys", 0);
	struct source_nfs o = { .kerberos_cache = cache };
	char why[NFS_WHY_MAX] = "";
	struct onc_begun b;
	struct tickets *t;

	unlink(cache);
	assert_int_equal(tickets(&o, &sys, &t, why), 0); /* nobody wants any */
	assert_null(t);
	assert_int_equal(tickets(&o, &uri, &t, why), 0);
	assert_int_equal(tickets_gss_begin(t, PATIENCE_MS, &b, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "there is no ticket"));
	tickets_destroy(t);
	peer_realm_save(&realm, cache);
	assert_int_equal(chmod(cache, 0644), 0);
	assert_int_equal(tickets(&o, &uri, &t, why), 0);
	assert_int_equal(tickets_gss_begin(t, PATIENCE_MS, &b, why, sizeof(why)), -EACCES);
	assert_non_null(strstr(why, "can be read by others"));
	tickets_destroy(t);
}

static void one_way_to_get_them(void **state)
{
	const struct nfs_uri uri = uri_of("krb5i", 0);
	struct source_nfs o = { 0 };
	char why[NFS_WHY_MAX] = "";
	struct nfs_uri other;
	struct tickets *t;

	assert_int_equal(tickets(&o, &uri, &t, why), -EACCES);
	assert_non_null(strstr(why, "sec=krb5i needs one of nfs_kerberos_keytab and "
				    "nfs_kerberos_cache"));
	assert_null(t);
	o = (struct source_nfs){ .kerberos_cache = cache, .kerberos_keytab = "/keytab" };
	assert_int_equal(tickets(&o, &uri, &t, why), -EACCES);
	o = (struct source_nfs){ .kerberos_cache = cache, .kerberos_principal = "root" };
	assert_int_equal(tickets(&o, &uri, &t, why), -EACCES);
	assert_non_null(strstr(why, "nfs_kerberos_principal is for nfs_kerberos_keytab"));
	o = (struct source_nfs){ .kerberos_keytab = "/nowhere/keytab" };
	assert_int_equal(tickets(&o, &uri, &t, why), -ENOENT);
	o = (struct source_nfs){ .kerberos_cache = cache };
	assert_int_equal(nfs_uri_parse("nfs://[fd00::1]/a?version=4&sec=krb5", &other, why,
				       sizeof(why)), 0);
	assert_int_equal(tickets(&o, &other, &t, why), -EACCES);
	assert_non_null(strstr(why, "Kerberos wants the server's name in the URI, not [fd00::1]"));
}

/*
 * A process that ends, whatever the thread of its tickets is about: libkrb5 ends with it, and
 * aborts for one who is still in it.
 */
static void ends_like(bool waits, bool destroys)
{
	const struct source_nfs o = { .kerberos_cache = cache };
	const struct nfs_uri uri = uri_of("krb5", 0);
	char why[NFS_WHY_MAX] = "";
	struct tickets *t;
	uint64_t serial;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever is asserted */
	if (tickets(&o, &uri, &t, why) ||
	    (waits && tickets_wait(t, PATIENCE_MS, &serial, why, sizeof(why))))
		_exit(1);
	printf("said");
	if (destroys)
		tickets_destroy(t);
	exit(7);
}

static void the_process_ends(void **state)
{
	char said[8];

	peer_realm_save(&realm, cache);
	for (int i = 0; i < 400; i++) {
		int status, out[2];
		pid_t pid;

		assert_int_equal(pipe2(out, O_CLOEXEC), 0);
		fflush(NULL);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			dup2(out[1], STDOUT_FILENO);
			ends_like(i & 1, i & 2);
		}
		close(out[1]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 7);
		/* what it has said is not lost */
		assert_int_equal(read(out[0], said, sizeof(said)), 4);
		close(out[0]);
	}
}

/* ---- connections ---- */

static struct nfs_dial dial_of(const struct nfs_uri *uri, struct tickets *t)
{
	return (struct nfs_dial){ .uri = uri, .wake = -1, .tickets = t,
				  .deadline_ms = stub_now_ms() + PATIENCE_MS };
}

struct compound {
	bool over;
	int status;
	char results[64];
};

static void on_compound(struct rpc_context *rpc, int status, void *data, void *arg)
{
	const struct nfs4_bytes *b = data;
	struct compound *c = arg;

	c->over = true;
	c->status = status;
	if (status == RPC_STATUS_SUCCESS && b->len < sizeof(c->results))
		memcpy(c->results, b->data, b->len);
}

static void dials_with(const char *sec)
{
	const struct source_nfs o = { .kerberos_cache = cache };
	struct server s = { 0 };
	struct nfs_carrier *carrier;
	struct compound c = { 0 };
	char why[NFS_WHY_MAX];
	struct tickets *t;
	struct nfs_dial d;
	struct nfs_uri uri;
	struct nfs4_out out;

	start(&s, 1);
	uri = uri_of(sec, s.port);
	assert_int_equal(tickets(&o, &uri, &t, why), 0);
	d = dial_of(&uri, t);
	assert_int_equal(nfs_dial_nfs(&d, "127.0.0.1", &carrier), 0);
	assert_int_equal(d.serial, 1);
	nfs4_begin(&out);
	nfs4_put_handle(&out, &(struct stub_origin){ 7, "handle!" });
	assert_int_equal(nfs4_queue(&out, carrier, on_compound, &c), 0);
	nfs_dial_begin(&d, NULL, NULL);
	while (!c.over) {
		d.fired = false;
		d.deadline_ms = stub_now_ms() + 10;
		assert_int_equal(nfs_dial_run(&d, carrier, "service"), -ETIMEDOUT);
	}
	assert_int_equal(c.status, RPC_STATUS_SUCCESS);
	/* the peer has added one to each byte of the arguments */
	assert_memory_equal(c.results + 20, "iboemf\"", 7);
	nfs_carrier_destroy(carrier);
	finish(&s);
	assert_int_equal(s.peer.inits, 1);
	assert_int_equal(s.peer.datas, 1);
	tickets_destroy(t);
}

static void dials(void **state)
{
	peer_realm_save(&realm, cache);
	dials_with("krb5");
	dials_with("krb5i");
	dials_with("krb5p");
}

static int refused_dial(struct server *s, struct nfs_dial *d)
{
	const struct source_nfs o = { .kerberos_cache = cache };
	struct nfs_carrier *carrier;
	struct tickets *t;
	struct nfs_uri uri;
	char why[NFS_WHY_MAX];
	int r;

	start(s, 1);
	uri = uri_of("krb5p", s->port);
	assert_int_equal(tickets(&o, &uri, &t, why), 0);
	*d = dial_of(&uri, t);
	r = nfs_dial_nfs(d, "127.0.0.1", &carrier);
	finish(s);
	tickets_destroy(t);
	return r;
}

static void dials_that_fail(void **state)
{
	struct peer_realm right = realm, wrong;
	struct server s = { 0 };
	struct nfs_dial d;

	/* a server that is not the one it says: it has another key */
	peer_realm_save(&realm, cache);
	peer_realm_make(&wrong, 3600);
	realm.server = wrong.server;
	assert_int_equal(refused_dial(&s, &d), -EKEYREJECTED);
	assert_non_null(strstr(d.why, "the server refuses the Kerberos ticket"));
	realm = right;
	s = (struct server){ .peer.forge_init = true };
	assert_int_equal(refused_dial(&s, &d), -EKEYREJECTED);
	assert_non_null(strstr(d.why, "has not proven who it is"));
	/* nothing is sent to anybody without tickets */
	unlink(cache);
	s = (struct server){ 0 };
	start(&s, 0);
	{
		const struct source_nfs o = { .kerberos_cache = cache };
		struct nfs_uri uri = uri_of("krb5", s.port);
		struct nfs_carrier *carrier;
		struct tickets *t;
		char why[NFS_WHY_MAX];

		assert_int_equal(tickets(&o, &uri, &t, why), 0);
		d = dial_of(&uri, t);
		assert_int_equal(nfs_dial_nfs(&d, "127.0.0.1", &carrier), -EACCES);
		assert_non_null(strstr(d.why, "there is no ticket"));
		tickets_destroy(t);
	}
	finish(&s);
	peer_realm_free(&wrong);
}

static void a_port_without_a_server(void **state)
{
	const struct source_nfs o = { .kerberos_cache = cache };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);
	struct nfs_carrier *carrier;
	char why[NFS_WHY_MAX];
	struct tickets *t;
	struct nfs_uri uri;
	struct nfs_dial d;

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	uri = uri_of("krb5", ntohs(at.sin_port));
	peer_realm_save(&realm, cache);
	assert_int_equal(tickets(&o, &uri, &t, why), 0);
	d = dial_of(&uri, t);
	assert_int_equal(nfs_dial_nfs(&d, "127.0.0.1", &carrier), -ECONNREFUSED);
	assert_non_null(strstr(d.why, "connection refused"));
	tickets_destroy(t);
	close(fd);
}

/* ---- pace ---- */

static void refusals_get_rarer(void **state)
{
	struct nfs_source s = { 0 };
	struct source_state told = { 0 };

	source_pool_init(&s.pool, 0);
	snprintf(s.pace.mend, sizeof(s.pace.mend), "/keytab");
	assert_int_equal(nfs_pace_left(&s), 0);
	nfs_pace_end(&s, -ECONNREFUSED, 0, "nobody there");
	assert_int_equal(nfs_pace_left(&s), 0);
	nfs_pace_end(&s, -EKEYREJECTED, 0, "no, thank you");
	assert_in_range(nfs_pace_left(&s), 50000, 60000);
	/* another connection, refused with it */
	nfs_pace_end(&s, -EKEYREJECTED, 0, "no, thank you");
	assert_in_range(nfs_pace_left(&s), 50000, 60000);
	pthread_mutex_lock(&s.pool.lock);
	source_pool_state(&s.pool, &told);
	nfs_pace_state(&s, &told);
	pthread_mutex_unlock(&s.pool.lock);
	assert_true(told.refused);
	assert_in_range(told.next_try_ms, 50000, 60000);
	assert_non_null(strstr(told.trouble, "no, thank you; mend /keytab, or what the server"));
	s.pace.next_ms = 1;
	assert_int_equal(nfs_pace_left(&s), 0);
	nfs_pace_end(&s, -EKEYREJECTED, 0, "no, thank you");
	assert_in_range(nfs_pace_left(&s), 110000, 120000);
	for (int i = 0; i < 10; i++) {
		s.pace.next_ms = 1;
		nfs_pace_end(&s, -EKEYREJECTED, 0, "no, thank you");
	}
	assert_in_range(nfs_pace_left(&s), 890000, 900000);
	nfs_pace_hurry(&s);
	assert_int_equal(nfs_pace_left(&s), 0);
	nfs_pace_end(&s, 0, 0, "");
	assert_false(s.pace.refused);
	nfs_pace_end(&s, -EKEYREJECTED, 7, "with other tickets");
	assert_int_equal(nfs_pace_left(&s), 0); /* those there are newer (0) */
	source_pool_finish(&s.pool);
}

static int begin(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(cache, sizeof(cache), "%s/krb5cc", dir);
	peer_realm_make(&realm, 3600);
	return 0;
}

static int end(void **state)
{
	unlink(cache);
	rmdir(dir);
	peer_realm_free(&realm);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_process_ends), /* first: it forks */
		cmocka_unit_test(contexts_of_the_newest_tickets),
		cmocka_unit_test(no_tickets),
		cmocka_unit_test(one_way_to_get_them),
		cmocka_unit_test(dials),
		cmocka_unit_test(dials_that_fail),
		cmocka_unit_test(a_port_without_a_server),
		cmocka_unit_test(refusals_get_rarer),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
