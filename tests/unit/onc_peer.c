// SPDX-License-Identifier: GPL-3.0-or-later
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <krb5.h>

#include "onc_peer.h"

#define PATIENCE_MS 60000

/* libkrb5's, for KDCs; not in its headers */
krb5_error_code krb5_encrypt_tkt_part(krb5_context k, const krb5_keyblock *key, krb5_ticket *t);
krb5_error_code encode_krb5_ticket(const krb5_ticket *t, krb5_data **out);

/* ---- the wire ---- */

static void read_all(int fd, void *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		n = read(fd, (char *)to + at, len - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
}

bool peer_is_quiet(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

void peer_read(int fd, struct peer_call *p)
{
	struct onc_in in, cred;
	uint32_t mark;

	memset(p, 0, sizeof(*p));
	read_all(fd, &mark, 4);
	mark = ntohl(mark);
	assert_true(mark & 0x80000000u);
	p->len = mark & 0x7fffffff;
	p->record = malloc(p->len);
	read_all(fd, p->record, p->len);
	in = (struct onc_in){ p->record, p->len, false };
	p->xid = onc_get32(&in);
	assert_int_equal(onc_get32(&in), ONC_CALL);
	assert_int_equal(onc_get32(&in), ONC_RPC_VERSION);
	p->program = onc_get32(&in);
	p->version = onc_get32(&in);
	p->procedure = onc_get32(&in);
	p->flavor = onc_get32(&in);
	p->cred = onc_get_opaque(&in, ONC_AUTH_MAX);
	p->head = (struct onc_bytes){ p->record, p->len - in.left };
	p->verf_flavor = onc_get32(&in);
	p->verf = onc_get_opaque(&in, ONC_AUTH_MAX);
	assert_false(in.bad);
	p->args = (struct onc_bytes){ in.p, in.left };
	if (p->flavor != ONC_GSS)
		return;
	cred = (struct onc_in){ p->cred.data, p->cred.len, false };
	assert_int_equal(onc_get32(&cred), 1);
	p->gss_procedure = onc_get32(&cred);
	p->seq = onc_get32(&cred);
	p->service = onc_get32(&cred);
	p->handle = onc_get_opaque(&cred, ONC_HANDLE_MAX);
	assert_false(cred.bad || cred.left);
}

void peer_free(struct peer_call *p)
{
	free(p->record);
	p->record = NULL;
}

void peer_send(int fd, const void *p, size_t len)
{
	ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

	/* who has asked may be gone */
	assert_true(n == (ssize_t)len || errno == EPIPE || errno == ECONNRESET);
}

void peer_send_record(int fd, const struct onc_out *o)
{
	uint32_t mark = htonl(0x80000000u | (uint32_t)o->len);

	assert_false(o->failed);
	peer_send(fd, &mark, 4);
	peer_send(fd, o->data, o->len);
}

void peer_put_accepted(struct onc_out *o, uint32_t xid, uint32_t stat)
{
	onc_put32(o, xid);
	onc_put32(o, ONC_REPLY);
	onc_put32(o, 0);
	onc_put_auth_none(o);
	onc_put32(o, stat);
}

void peer_put_denied(struct onc_out *o, uint32_t xid, uint32_t auth_stat)
{
	onc_put32(o, xid);
	onc_put32(o, ONC_REPLY);
	onc_put32(o, 1);
	onc_put32(o, 1);
	onc_put32(o, auth_stat);
}

/* ---- a realm ---- */

static krb5_creds ticket(krb5_context k, const krb5_keyblock *key, int life_s)
{
	krb5_keyblock session;
	krb5_enc_tkt_part part = { .flags = TKT_FLG_INITIAL, .session = &session };
	krb5_ticket t = { .enc_part2 = &part };
	krb5_creds creds = { 0 };
	krb5_data *bytes;
	time_t now = time(NULL);

	assert_int_equal(krb5_c_make_random_key(k, ENCTYPE_AES256_CTS_HMAC_SHA1_96, &session), 0);
	assert_int_equal(krb5_parse_name(k, "root@" PEER_REALM, &part.client), 0);
	assert_int_equal(krb5_parse_name(k, "nfs/" PEER_HOST "@" PEER_REALM, &t.server), 0);
	part.transited.tr_type = KRB5_DOMAIN_X500_COMPRESS;
	part.times = (krb5_ticket_times){ .authtime = (krb5_timestamp)now,
					  .starttime = (krb5_timestamp)now,
					  .endtime = (krb5_timestamp)(now + life_s) };
	assert_int_equal(krb5_encrypt_tkt_part(k, key, &t), 0);
	assert_int_equal(encode_krb5_ticket(&t, &bytes), 0);
	creds.client = part.client;
	creds.server = t.server;
	creds.keyblock = session;
	creds.times = part.times;
	creds.ticket_flags = part.flags;
	creds.ticket = *bytes;
	free(bytes);
	krb5_free_data_contents(k, &t.enc_part.ciphertext);
	return creds;
}

static char conf[] = "/tmp/onc-peer-XXXXXX";
static pid_t conf_of;

static void remove_conf(void)
{
	if (getpid() == conf_of)
		unlink(conf);
}

/* libkrb5 wants to be told that there is nothing to ask. */
static void write_conf(void)
{
	static const char text[] = "[libdefaults]\ndefault_realm = " PEER_REALM "\n"
				   "dns_lookup_kdc = false\ndns_lookup_realm = false\n"
				   "dns_canonicalize_hostname = false\nrdns = false\n"
				   "[domain_realm]\n" PEER_HOST " = " PEER_REALM "\n";
	static bool written;
	int fd;

	if (written)
		return; /* for another realm */
	written = true;
	fd = mkstemp(conf);
	assert_true(fd >= 0);
	conf_of = getpid();
	atexit(remove_conf);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("KRB5_CONFIG", conf, 1);
	setenv("KRB5RCACHENAME", "none:", 1);
}

void peer_realm_make(struct peer_realm *r, int life_s)
{
	static unsigned int made;
	char keytab[64];
	gss_key_value_element_desc store = { "keytab", keytab };
	gss_key_value_set_desc stores = { 1, &store };
	krb5_keytab_entry entry = { 0 };
	krb5_context k;
	krb5_keytab kt;
	OM_uint32 minor;

	write_conf();
	snprintf(keytab, sizeof(keytab), "MEMORY:peer-%u", made);
	snprintf(r->cache, sizeof(r->cache), "MEMORY:peer-%u", made++);
	assert_int_equal(krb5_init_context(&k), 0);
	assert_int_equal(krb5_c_make_random_key(k, ENCTYPE_AES256_CTS_HMAC_SHA1_96, &r->key), 0);
	peer_realm_renew(r, life_s);
	assert_int_equal(krb5_kt_resolve(k, keytab, &kt), 0);
	assert_int_equal(krb5_parse_name(k, "nfs/" PEER_HOST "@" PEER_REALM, &entry.principal), 0);
	entry.key = r->key;
	assert_int_equal(krb5_kt_add_entry(k, kt, &entry), 0);
	assert_int_equal(gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE,
					       gss_mech_set_krb5, GSS_C_ACCEPT, &stores, &r->server,
					       NULL, NULL),
			 GSS_S_COMPLETE);
	krb5_kt_close(k, kt); /* the credential holds it */
	krb5_free_principal(k, entry.principal);
	krb5_free_context(k);
}

void peer_realm_renew(struct peer_realm *r, int life_s)
{
	krb5_context k;
	krb5_creds creds;
	krb5_ccache cache;

	assert_int_equal(krb5_init_context(&k), 0);
	creds = ticket(k, &r->key, life_s);
	assert_int_equal(krb5_cc_resolve(k, r->cache, &cache), 0);
	assert_int_equal(krb5_cc_initialize(k, cache, creds.client), 0);
	assert_int_equal(krb5_cc_store_cred(k, cache, &creds), 0);
	krb5_cc_close(k, cache);
	krb5_free_cred_contents(k, &creds);
	krb5_free_context(k);
}

void peer_realm_save(const struct peer_realm *r, const char *path)
{
	krb5_context k;
	krb5_ccache from, to;
	krb5_principal who;
	char name[128];

	snprintf(name, sizeof(name), "FILE:%s", path);
	assert_int_equal(krb5_init_context(&k), 0);
	assert_int_equal(krb5_cc_resolve(k, r->cache, &from), 0);
	assert_int_equal(krb5_cc_resolve(k, name, &to), 0);
	assert_int_equal(krb5_cc_get_principal(k, from, &who), 0);
	assert_int_equal(krb5_cc_initialize(k, to, who), 0);
	assert_int_equal(krb5_cc_copy_creds(k, from, to), 0);
	krb5_free_principal(k, who);
	krb5_cc_close(k, from);
	krb5_cc_close(k, to);
	krb5_free_context(k);
}

void peer_realm_free(struct peer_realm *r)
{
	krb5_context k;
	krb5_ccache cache;
	OM_uint32 minor;

	gss_release_cred(&minor, &r->server);
	assert_int_equal(krb5_init_context(&k), 0);
	assert_int_equal(krb5_cc_resolve(k, r->cache, &cache), 0);
	krb5_cc_destroy(k, cache);
	krb5_free_keyblock_contents(k, &r->key);
	krb5_free_context(k);
}

int peer_begin(void *arg, struct onc_begun *out, char *why, size_t size)
{
	struct peer_realm *r = arg;
	gss_buffer_desc name = { strlen(PEER_SERVICE), PEER_SERVICE };
	gss_key_value_element_desc store = { "ccache", r->cache };
	gss_key_value_set_desc stores = { 1, &store };
	gss_cred_id_t cred;
	OM_uint32 major, minor, ignored;

	major = gss_import_name(&minor, &name, GSS_C_NT_HOSTBASED_SERVICE, &out->server);
	assert_int_equal(major, GSS_S_COMPLETE);
	major = gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE, gss_mech_set_krb5,
				      GSS_C_INITIATE, &stores, &cred, NULL, NULL);
	if (!GSS_ERROR(major)) {
		major = gss_init_sec_context(&minor, cred, &out->context, out->server,
					     gss_mech_krb5, GSS_C_MUTUAL_FLAG, 0,
					     GSS_C_NO_CHANNEL_BINDINGS, GSS_C_NO_BUFFER, NULL,
					     &out->token, NULL, NULL);
		gss_release_cred(&ignored, &cred);
	}
	if (GSS_ERROR(major))
		onc_gss_text(major, minor, why, size);
	return GSS_ERROR(major) ? -1 : 0;
}

/* ---- a server ---- */

static void put_mic(struct peer_server *s, struct onc_out *o, const void *p, size_t len)
{
	gss_buffer_desc in = { len, (void *)p }, mic;
	OM_uint32 minor;

	assert_int_equal(gss_get_mic(&minor, s->context, GSS_C_QOP_DEFAULT, &in, &mic), 0);
	onc_put_opaque(o, mic.value, mic.length);
	gss_release_buffer(&minor, &mic);
}

static void check_mic(struct peer_server *s, const struct onc_bytes *of,
		      const struct onc_bytes *mic)
{
	gss_buffer_desc in = { of->len, (void *)of->data }, m = { mic->len, (void *)mic->data };
	OM_uint32 minor;

	assert_int_equal(gss_verify_mic(&minor, s->context, &in, &m, NULL), GSS_S_COMPLETE);
}

/* An accepted reply whose verifier is of @n. */
static void put_proven(struct peer_server *s, struct onc_out *o, uint32_t xid, uint32_t n)
{
	n = htonl(n);
	onc_put32(o, xid);
	onc_put32(o, ONC_REPLY);
	onc_put32(o, 0);
	onc_put32(o, ONC_GSS);
	put_mic(s, o, &n, 4);
	onc_put32(o, ONC_SUCCESS);
}

static void answer_init(struct peer_server *s, struct peer_call *p)
{
	struct onc_in in = { p->args.data, p->args.len, false };
	struct onc_bytes token = onc_get_opaque(&in, ONC_TOKEN_MAX);
	gss_buffer_desc ours = { token.len, (void *)token.data }, theirs = GSS_C_EMPTY_BUFFER;
	struct onc_out o = { 0 };
	OM_uint32 minor, major;

	assert_int_equal(p->gss_procedure, ONC_GSS_INIT);
	assert_int_equal(p->procedure, 0);
	s->inits++;
	s->last_seq = 0;
	gss_delete_sec_context(&minor, &s->context, GSS_C_NO_BUFFER);
	major = gss_accept_sec_context(&minor, &s->context, s->realm->server, &ours,
				       GSS_C_NO_CHANNEL_BINDINGS, NULL, NULL, &theirs, NULL, NULL,
				       NULL);
	if (major == GSS_S_COMPLETE)
		put_proven(s, &o, p->xid, s->window + s->forge_init);
	else
		peer_put_accepted(&o, p->xid, ONC_SUCCESS);
	onc_put_opaque(&o, "handle", major == GSS_S_COMPLETE ? 6 : 0);
	onc_put32(&o, major);
	onc_put32(&o, minor);
	onc_put32(&o, s->window);
	onc_put_opaque(&o, theirs.value, theirs.length);
	peer_send_record(s->fd, &o);
	gss_release_buffer(&minor, &theirs);
	onc_out_free(&o);
}

/* The arguments as they were given to onc_call(), in @hold or the record. */
static struct onc_bytes open_args(struct peer_server *s, struct peer_call *p, gss_buffer_t hold)
{
	struct onc_bytes body, mic, out = p->args;
	gss_buffer_desc in;
	OM_uint32 minor;
	int encrypted;

	if (p->service == ONC_INTEGRITY) {
		assert_int_equal(onc_split_integrity(&p->args, &body, &mic), 0);
		check_mic(s, &body, &mic);
	} else if (p->service == ONC_PRIVACY) {
		assert_int_equal(onc_split_privacy(&p->args, &body), 0);
		in = (gss_buffer_desc){ body.len, (void *)body.data };
		assert_int_equal(gss_unwrap(&minor, s->context, &in, hold, &encrypted, NULL), 0);
		assert_true(encrypted);
		body = (struct onc_bytes){ hold->value, hold->length };
	} else {
		return out;
	}
	assert_int_equal(onc_take_seq(&body, p->seq, &out), 0);
	return out;
}

static void put_results(struct peer_server *s, struct onc_out *o, struct peer_call *p,
			const struct onc_out *results)
{
	struct onc_out body = { 0 };
	gss_buffer_desc in, wrapped;
	OM_uint32 minor;

	if (p->service == ONC_AUTHENTIC) {
		onc_put_raw(o, results->data, results->len);
		return;
	}
	onc_put32(&body, p->seq + s->wrong_seq);
	onc_put_raw(&body, results->data, results->len);
	if (p->service == ONC_INTEGRITY) {
		onc_put_opaque(o, body.data, body.len);
		body.data[4] ^= s->forge_body;
		put_mic(s, o, body.data, body.len);
	} else {
		in = (gss_buffer_desc){ body.len, body.data };
		assert_int_equal(gss_wrap(&minor, s->context, !s->not_encrypted, GSS_C_QOP_DEFAULT,
					  &in, NULL, &wrapped), 0);
		((uint8_t *)wrapped.value)[wrapped.length - 1] ^= s->forge_body;
		onc_put_opaque(o, wrapped.value, wrapped.length);
		gss_release_buffer(&minor, &wrapped);
	}
	onc_out_free(&body);
}

static void answer_data(struct peer_server *s, struct peer_call *p)
{
	gss_buffer_desc hold = GSS_C_EMPTY_BUFFER;
	struct onc_out o = { 0 }, results = { 0 };
	struct onc_bytes args = open_args(s, p, &hold);
	OM_uint32 minor;

	s->datas++;
	assert_true(p->seq > s->last_seq); /* one stream: in the order of sending */
	s->last_seq = p->seq;
	if (s->results)
		s->results(s->arg, &args, &results);
	else
		onc_put_raw(&results, args.data, args.len);
	for (size_t i = 0; !s->results && i < results.len; i++)
		results.data[i]++;
	put_proven(s, &o, p->xid, p->seq + s->forge_verifier);
	put_results(s, &o, p, &results);
	peer_send_record(s->fd, &o);
	gss_release_buffer(&minor, &hold);
	onc_out_free(&results);
	onc_out_free(&o);
}

void peer_answer(struct peer_server *s, struct peer_call *p)
{
	struct onc_out o = { 0 };

	if (p->flavor != ONC_GSS) {
		assert_int_equal(p->flavor, ONC_NONE);
		assert_int_equal(p->procedure, 0);
		peer_put_accepted(&o, p->xid, ONC_SUCCESS);
		peer_send_record(s->fd, &o);
	} else if (p->gss_procedure == ONC_GSS_INIT) {
		answer_init(s, p);
	} else if (p->gss_procedure == ONC_GSS_DATA && s->denials) {
		s->denials--;
		peer_put_denied(&o, p->xid, s->deny);
		peer_send_record(s->fd, &o);
	} else {
		assert_int_equal(p->handle.len, 6);
		assert_memory_equal(p->handle.data, "handle", 6);
		assert_int_equal(p->verf_flavor, ONC_GSS);
		check_mic(s, &p->head, &p->verf);
		if (p->gss_procedure == ONC_GSS_DATA)
			answer_data(s, p);
		else
			s->destroys += p->gss_procedure == ONC_GSS_DESTROY;
	}
	onc_out_free(&o);
	peer_free(p);
}

void peer_serve(struct peer_server *s)
{
	struct peer_call p;

	peer_read(s->fd, &p);
	peer_answer(s, &p);
}

void peer_server_free(struct peer_server *s)
{
	OM_uint32 minor;

	gss_delete_sec_context(&minor, &s->context, GSS_C_NO_BUFFER);
}
