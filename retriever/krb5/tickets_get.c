// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * tickets_get.c - tickets out of libkrb5, into a credential cache in memory.
 *
 * What is made of the cache is the caller's: bytes for a worker that is linked with another
 * Kerberos, or contexts of GSSAPI.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "krb5/private_file.h"
#include "krb5/tickets_get.h"

#define CLOCKS "logon failure: the clock here and the KDC's differ: set both by NTP"

struct exchange {
	krb5_context k;
	const char *from; /* the keytab or the cache, for people */
	char principal[256]; /* whose tickets, for people; "": not known yet */
	const char *service; /* "": none yet */
	char *why;
	size_t why_size;
};

static const struct {
	krb5_error_code code;
	int err;
	const char *why;
} reasons[] = {
	{ KRB5_KDC_UNREACH, -EHOSTUNREACH, "no KDC of the realm answers" },
	{ KRB5_REALM_CANT_RESOLVE, -EHOSTUNREACH, "no KDC of the realm can be found" },
	{ KRB5_REALM_UNKNOWN, -EHOSTUNREACH, "no KDC of the realm is known: see krb5.conf" },
	{ KRB5_CONFIG_NODEFREALM, -EACCES, "no realm is given, here or in krb5.conf" },
	{ KRB5KRB_AP_ERR_SKEW, -EACCES, CLOCKS },
	{ KRB5_KDCREP_SKEW, -EACCES, CLOCKS },
	{ KRB5KDC_ERR_PREAUTH_FAILED, -EACCES, "logon failure: the KDC refuses the key" },
	{ KRB5KRB_AP_ERR_BAD_INTEGRITY, -EACCES, "logon failure: the KDC refuses the key" },
	{ KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN, -EACCES, "logon failure: the KDC knows no such principal" },
	{ KRB5KDC_ERR_CLIENT_REVOKED, -EACCES, "logon failure: the KDC has it locked or disabled" },
	{ KRB5KDC_ERR_NAME_EXP, -EACCES, "logon failure: the principal has expired" },
	{ KRB5KDC_ERR_KEY_EXP, -EACCES, "logon failure: the principal's key has expired" },
	{ KRB5KDC_ERR_ETYPE_NOSUPP, -EACCES, "logon failure: no key of a type that the KDC takes" },
	{ KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN, -EACCES,
	  "logon failure: the KDC knows no %s/... of this server" },
	{ KRB5_KT_NOTFOUND, -EACCES, "there is no key of it" },
	{ KRB5_KT_END, -EACCES, "there is no key" },
	{ KRB5_KEYTAB_BADVNO, -EACCES, "it is no keytab" },
	{ KRB5_KT_FORMAT, -EACCES, "it is damaged" },
	{ KRB5_FCC_NOFILE, -EACCES, "there is no ticket" },
	{ KRB5_CC_NOTFOUND, -EACCES, "there is no ticket" },
	{ KRB5_CC_BADNAME, -EACCES, "it is no credential cache" },
	{ KRB5_CCACHE_BADVNO, -EACCES, "it is no credential cache" },
	{ KRB5_CC_FORMAT, -EACCES, "it is no credential cache" },
	{ KRB5_CC_UNKNOWN_TYPE, -EACCES, "no such type of credential cache" },
};

static int failed(struct exchange *x, krb5_error_code e)
{
	const char *text = NULL, *why = NULL;
	char said[160];
	int r = -EPROTO;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && !why; i++)
		if (reasons[i].code == e) {
			why = reasons[i].why;
			r = reasons[i].err;
		}
	if (!why)
		why = text = krb5_get_error_message(x->k, e);
	if (e == KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN)
		snprintf(said, sizeof(said), why, x->service);
	else
		snprintf(said, sizeof(said), "%s", why);
	snprintf(x->why, x->why_size, "Kerberos, %.120s%s%.80s: %s", x->from,
		 x->principal[0] ? " of " : "", x->principal, said);
	if (text)
		krb5_free_error_message(x->k, text);
	return r;
}

static int begin(struct exchange *x, const char *from, char *why, size_t why_size)
{
	krb5_error_code e;

	*x = (struct exchange){ .from = from, .service = "", .why = why, .why_size = why_size };
	e = krb5_init_context(&x->k);
	if (!e)
		return 0;
	x->k = NULL;
	return failed(x, e); /* krb5.conf is wrong: libkrb5 says where */
}

static void end(struct exchange *x)
{
	if (x->k)
		krb5_free_context(x->k);
}

static void name_it(struct exchange *x, krb5_const_principal p)
{
	char *name;

	if (krb5_unparse_name(x->k, p, &name))
		return;
	snprintf(x->principal, sizeof(x->principal), "%s", name);
	krb5_free_unparsed_name(x->k, name);
}

/* ---- where they come from ---- */

static krb5_error_code first_of(struct exchange *x, krb5_keytab keytab, krb5_principal *out)
{
	krb5_keytab_entry entry;
	krb5_kt_cursor cursor;
	krb5_error_code e = krb5_kt_start_seq_get(x->k, keytab, &cursor);

	if (e)
		return e;
	e = krb5_kt_next_entry(x->k, keytab, &entry, &cursor);
	if (!e) {
		e = krb5_copy_principal(x->k, entry.principal, out);
		krb5_free_keytab_entry_contents(x->k, &entry);
	}
	krb5_kt_end_seq_get(x->k, keytab, &cursor);
	return e;
}

/* Open the keytab, and find whose key to use: @principal's, which must be in it, or the first. */
static int open_keytab(struct exchange *x, const char *path, const char *principal,
		       krb5_keytab *keytab, krb5_principal *who)
{
	krb5_keytab_entry entry;
	krb5_error_code e;
	char *name;
	int r = private_file(path, x->why, x->why_size);

	*keytab = NULL;
	*who = NULL;
	if (r < 0)
		return r;
	if (asprintf(&name, "FILE:%s", path) < 0)
		return -ENOMEM;
	e = krb5_kt_resolve(x->k, name, keytab);
	free(name);
	if (e)
		*keytab = NULL;
	else if (*principal)
		e = krb5_parse_name(x->k, principal, who);
	else
		e = first_of(x, *keytab, who);
	if (*who)
		name_it(x, *who);
	else
		snprintf(x->principal, sizeof(x->principal), "%s", principal);
	if (!e) {
		e = krb5_kt_get_entry(x->k, *keytab, *who, 0, 0, &entry);
		if (!e)
			krb5_free_keytab_entry_contents(x->k, &entry);
	}
	return e ? failed(x, e) : 0;
}

static void close_keytab(struct exchange *x, krb5_keytab keytab, krb5_principal who)
{
	krb5_free_principal(x->k, who);
	if (keytab)
		krb5_kt_close(x->k, keytab);
}

static krb5_error_code ask_kdc(struct exchange *x, krb5_keytab keytab, krb5_principal who,
			       krb5_ccache to, uint32_t *ends)
{
	krb5_get_init_creds_opt *options;
	krb5_creds creds;
	krb5_error_code e = krb5_get_init_creds_opt_alloc(x->k, &options);

	if (e)
		return e;
	krb5_get_init_creds_opt_set_forwardable(options, 0);
	krb5_get_init_creds_opt_set_proxiable(options, 0);
	memset(&creds, 0, sizeof(creds));
	e = krb5_get_init_creds_keytab(x->k, &creds, who, keytab, 0, NULL, options);
	krb5_get_init_creds_opt_free(x->k, options);
	if (e)
		return e;
	e = krb5_cc_initialize(x->k, to, creds.client);
	if (!e)
		e = krb5_cc_store_cred(x->k, to, &creds);
	*ends = (uint32_t)creds.times.endtime;
	krb5_free_cred_contents(x->k, &creds);
	return e;
}

static int from_keytab(struct exchange *x, const char *path, const char *principal,
		       krb5_ccache to, uint32_t *ends)
{
	krb5_keytab keytab;
	krb5_principal who;
	krb5_error_code e;
	int r = open_keytab(x, path, principal, &keytab, &who);

	if (r == 0) {
		e = ask_kdc(x, keytab, who, to, ends);
		r = e ? failed(x, e) : 0;
	}
	close_keytab(x, keytab, who);
	return r;
}

static bool is_granting(krb5_context k, const krb5_creds *creds)
{
	const krb5_data *d = creds->server->length ? &creds->server->data[0] : NULL;

	return (d && d->length == strlen(KRB5_TGS_NAME) &&
		!memcmp(d->data, KRB5_TGS_NAME, d->length)) ||
	       krb5_is_config_principal(k, creds->server);
}

/* Copy ticket-granting tickets and the cache's own entries; with @all also other tickets, which
 * may be older.  *ends: when the last of them ends. */
static krb5_error_code copy(struct exchange *x, krb5_ccache from, bool all, krb5_ccache to,
			    uint32_t *ends)
{
	krb5_cc_cursor cursor;
	krb5_creds creds;
	krb5_error_code e = krb5_cc_start_seq_get(x->k, from, &cursor), end = e;

	while (!e && !(end = krb5_cc_next_cred(x->k, from, &cursor, &creds))) {
		if (all || is_granting(x->k, &creds))
			e = krb5_cc_store_cred(x->k, to, &creds);
		if ((all || is_granting(x->k, &creds)) && (uint32_t)creds.times.endtime > *ends)
			*ends = (uint32_t)creds.times.endtime;
		krb5_free_cred_contents(x->k, &creds);
	}
	if (end != KRB5_CC_END && !e)
		return end;
	krb5_cc_end_seq_get(x->k, from, &cursor);
	return e;
}

static int from_cache(struct exchange *x, const char *name, krb5_ccache to, uint32_t *ends)
{
	const char *path = !strncmp(name, "FILE:", 5) ? name + 5 : strchr(name, ':') ? NULL : name;
	krb5_principal who = NULL;
	krb5_ccache from;
	krb5_error_code e;
	int r = path ? private_file(path, x->why, x->why_size) : 0;

	if (r < 0 && r != -ENOENT) /* of ENOENT libkrb5 has the better message */
		return r;
	e = krb5_cc_resolve(x->k, name, &from);
	if (e)
		return failed(x, e);
	e = krb5_cc_get_principal(x->k, from, &who);
	if (!e) {
		name_it(x, who);
		e = krb5_cc_initialize(x->k, to, who);
	}
	if (!e)
		e = copy(x, from, false, to, ends);
	if (!e && !*ends)
		e = copy(x, from, true, to, ends);
	r = e ? failed(x, e) : 0;
	krb5_free_principal(x->k, who);
	krb5_cc_close(x->k, from);
	return r;
}

/* ---- what they are for us ---- */

static int how_long(struct exchange *x, uint32_t ends, int64_t *left_s)
{
	krb5_timestamp now = 0;
	krb5_error_code e = krb5_timeofday(x->k, &now); /* the KDC's, if it is known */

	if (e)
		return failed(x, e);
	*left_s = (int64_t)ends - (uint32_t)now;
	if (*left_s > 0)
		return 0;
	snprintf(x->why, x->why_size, "logon failure: Kerberos, %.120s of %.80s: the ticket has expired",
		 x->from, x->principal);
	return -EACCES;
}

/* The name under which the KDC knows the file server. */
static krb5_error_code name_server(struct exchange *x, const struct tickets_from *from,
				   krb5_principal *out)
{
	char **realm = NULL; /* as krb5.conf has it, or "": as the KDC has it */
	krb5_error_code e;

	if (from->hostbased)
		return krb5_sname_to_principal(x->k, from->host, from->service, KRB5_NT_SRV_HST,
					       out);
	e = krb5_get_host_realm(x->k, from->host, &realm);
	if (!e)
		e = krb5_build_principal(x->k, out, (unsigned int)strlen(realm[0]), realm[0],
					 from->service, from->host, NULL);
	if (realm)
		krb5_free_host_realm(x->k, realm);
	return e;
}

/* Get the ticket for the file server: with that in the cache nobody has to ask a KDC for it, and we
 * know if there is none, why, and when the session will end. */
static int for_server(struct exchange *x, const struct tickets_from *from, krb5_ccache cache,
		      uint32_t *ends)
{
	krb5_creds want = { 0 }, *got = NULL;
	krb5_error_code e = krb5_cc_get_principal(x->k, cache, &want.client);

	if (!e)
		e = name_server(x, from, &want.server);
	if (!e)
		e = krb5_get_credentials(x->k, 0, cache, &want, &got);
	if (!e && (uint32_t)got->times.endtime < *ends)
		*ends = (uint32_t)got->times.endtime;
	if (got)
		krb5_free_creds(x->k, got);
	krb5_free_cred_contents(x->k, &want);
	return e ? failed(x, e) : 0;
}

static int get(struct exchange *x, const struct tickets_from *from,
	       const struct tickets_keep *keep, struct tickets_got *out)
{
	krb5_ccache cache;
	uint32_t ends = 0;
	krb5_error_code e = krb5_cc_new_unique(x->k, "MEMORY", NULL, &cache);
	int r;

	if (e)
		return failed(x, e);
	r = *from->keytab ? from_keytab(x, from->keytab, from->principal, cache, &ends) :
			    from_cache(x, from->cache, cache, &ends);
	if (r == 0)
		r = how_long(x, ends, &out->left_s); /* tickets out of a cache may have ended */
	if (r == 0)
		r = for_server(x, from, cache, &ends);
	if (r == 0)
		r = how_long(x, ends, &out->left_s);
	if (r == 0)
		r = keep->make(from, x->k, cache, &out->kept, x->why, x->why_size);
	if (r == 0)
		snprintf(out->principal, sizeof(out->principal), "%s", x->principal);
	krb5_cc_destroy(x->k, cache);
	return r;
}

int tickets_get(const struct tickets_from *from, const struct tickets_keep *keep,
		struct tickets_got *out, char *why, size_t why_size)
{
	struct exchange x;
	int r;

	memset(out, 0, sizeof(*out));
	r = begin(&x, *from->keytab ? from->keytab : from->cache, why, why_size);
	x.service = from->service;
	if (r == 0)
		r = get(&x, from, keep, out);
	end(&x);
	return r;
}

int tickets_check(const char *path, const char *principal, char *why, size_t why_size)
{
	krb5_keytab keytab = NULL;
	krb5_principal who = NULL;
	struct exchange x;
	int r = begin(&x, path, why, why_size);

	if (r == 0) {
		r = open_keytab(&x, path, principal, &keytab, &who);
		close_keytab(&x, keytab, who);
	}
	end(&x);
	return r == -EPROTO ? -EACCES : r;
}

krb5_error_code tickets_copy(krb5_context k, krb5_ccache from, krb5_ccache to)
{
	krb5_principal who = NULL;
	krb5_error_code e = krb5_cc_get_principal(k, from, &who);

	if (!e)
		e = krb5_cc_initialize(k, to, who);
	if (!e)
		e = krb5_cc_copy_creds(k, from, to);
	krb5_free_principal(k, who);
	return e;
}
