// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>

#include "krb5/tickets_gss.h"

struct kept {
	char *cache; /* as GSSAPI takes it: MEMORY:name */
	gss_name_t server;
};

/* ---- what is kept ---- */

static krb5_error_code copy(krb5_context k, krb5_ccache from, char **name)
{
	krb5_ccache to;
	krb5_error_code e = krb5_cc_new_unique(k, "MEMORY", NULL, &to);

	if (e)
		return e;
	e = tickets_copy(k, from, to);
	if (!e)
		e = krb5_cc_get_full_name(k, to, name);
	if (e)
		krb5_cc_destroy(k, to);
	else
		krb5_cc_close(k, to); /* it stays, under its name */
	return e;
}

static void drop(void *arg)
{
	struct kept *kept = arg;
	krb5_ccache cache;
	krb5_context k;
	OM_uint32 minor;

	gss_release_name(&minor, &kept->server);
	if (kept->cache && !krb5_init_context(&k)) {
		if (!krb5_cc_resolve(k, kept->cache, &cache))
			krb5_cc_destroy(k, cache);
		krb5_free_context(k);
	}
	free(kept->cache);
	free(kept);
}

static void say(OM_uint32 major, OM_uint32 minor, char *why, size_t size)
{
	gss_buffer_desc text = GSS_C_EMPTY_BUFFER;
	OM_uint32 ignored, more = 0;

	gss_display_status(&ignored, minor ? minor : major,
			   minor ? GSS_C_MECH_CODE : GSS_C_GSS_CODE, gss_mech_krb5, &more, &text);
	snprintf(why, size, "logon failure: Kerberos: %.*s", text.length > 160 ? 160 : (int)text.length,
		 text.length ? (const char *)text.value : "unknown error");
	gss_release_buffer(&ignored, &text);
}

static int import(const struct tickets_from *from, gss_name_t *out, char *why, size_t size)
{
	char text[512];
	gss_buffer_desc name = { 0, text };
	OM_uint32 major, minor;

	name.length = (size_t)snprintf(text, sizeof(text), "%.16s@%.400s", from->service,
				       from->host);
	major = gss_import_name(&minor, &name, GSS_C_NT_HOSTBASED_SERVICE, out);
	if (!GSS_ERROR(major))
		return 0;
	say(major, minor, why, size);
	return -EACCES;
}

static int make(const struct tickets_from *from, krb5_context k, krb5_ccache cache, void **out,
		char *why, size_t size)
{
	struct kept *kept = calloc(1, sizeof(*kept));
	krb5_error_code e;
	char *name = NULL;
	int r;

	if (!kept) {
		snprintf(why, size, "out of memory");
		return -ENOMEM;
	}
	kept->server = GSS_C_NO_NAME;
	r = import(from, &kept->server, why, size);
	e = r ? 0 : copy(k, cache, &name);
	if (e) {
		snprintf(why, size, "Kerberos: no cache in memory (error %d)", (int)e);
		r = -EPROTO;
	}
	if (name) {
		kept->cache = strdup(name);
		krb5_free_string(k, name);
	}
	if (!r && !kept->cache)
		r = -ENOMEM;
	if (r)
		drop(kept);
	else
		*out = kept;
	return r;
}

const struct tickets_keep tickets_gss_keep = { make, drop };

/* ---- contexts ---- */

/* The ticket for the server is in the cache, under the name that GSSAPI makes of the host's
 * (struct tickets_from, hostbased): nobody is asked here. */
static int begin(void *arg, const struct tickets_now *now, char *why, size_t size)
{
	const struct kept *kept = now->kept;
	gss_key_value_element_desc cache = { "ccache", kept->cache };
	const gss_key_value_set_desc store = { 1, &cache };
	struct onc_begun *out = arg;
	gss_cred_id_t cred = GSS_C_NO_CREDENTIAL;
	OM_uint32 major, minor, ignored;

	major = gss_duplicate_name(&minor, kept->server, &out->server);
	if (!GSS_ERROR(major))
		major = gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE,
					      gss_mech_set_krb5, GSS_C_INITIATE, &store, &cred,
					      NULL, NULL);
	if (!GSS_ERROR(major))
		major = gss_init_sec_context(&minor, cred, &out->context, out->server,
					     gss_mech_krb5, GSS_C_MUTUAL_FLAG, 0,
					     GSS_C_NO_CHANNEL_BINDINGS, GSS_C_NO_BUFFER, NULL,
					     &out->token, NULL, NULL);
	if (cred != GSS_C_NO_CREDENTIAL)
		gss_release_cred(&ignored, &cred);
	if (!GSS_ERROR(major))
		return 0;
	say(major, minor, why, size);
	return -EACCES;
}

int tickets_gss_begin(struct tickets *t, unsigned int wait_ms, struct onc_begun *out, char *why,
		      size_t size)
{
	return tickets_use(t, wait_ms, begin, out, why, size);
}

static int note_serial(void *arg, const struct tickets_now *now, char *why, size_t size)
{
	(void)why;
	(void)size;
	*(uint64_t *)arg = now->serial;
	return 0;
}

int tickets_wait(struct tickets *t, unsigned int wait_ms, uint64_t *serial, char *why, size_t size)
{
	return tickets_use(t, wait_ms, note_serial, serial, why, size);
}
