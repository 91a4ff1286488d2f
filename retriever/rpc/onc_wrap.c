// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * onc_wrap.c - what a security context does to calls and replies (RFC 2203, 5.3).
 *
 *   krb5   the call's head has a checksum, and its reply's verifier is one of the call's number
 *   krb5i  besides, arguments and results have one, with the number in front of them
 *   krb5p  besides, they are encrypted
 *
 * The number of a reply is never taken from the reply: it is that of the call with its XID.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/onc_internal.h"

#define GSS_VERSION 1

void onc_context_drop(struct onc_context *x)
{
	OM_uint32 minor;

	if (!x || --x->holders)
		return;
	if (x->gss != GSS_C_NO_CONTEXT)
		gss_delete_sec_context(&minor, &x->gss, GSS_C_NO_BUFFER);
	if (x->server != GSS_C_NO_NAME)
		gss_release_name(&minor, &x->server);
	free(x);
}

/* ---- calls ---- */

void onc_put_cred(struct onc_out *o, uint32_t procedure, uint32_t seq, enum onc_service service,
		  const struct onc_bytes *handle)
{
	onc_put32(o, ONC_GSS);
	onc_put32(o, (uint32_t)(5 * 4 + ((handle->len + 3) & ~(size_t)3)));
	onc_put32(o, GSS_VERSION);
	onc_put32(o, procedure);
	onc_put32(o, seq);
	onc_put32(o, service);
	onc_put_opaque(o, handle->data, handle->len);
}

static int sealed(OM_uint32 major)
{
	if (!GSS_ERROR(major))
		return 0;
	return GSS_ROUTINE_ERROR(major) == GSS_S_CONTEXT_EXPIRED ? -EKEYEXPIRED : -EPROTO;
}

/* A checksum of @what, as an opaque. */
static int put_mic(struct onc_context *x, struct onc_out *o, const void *what, size_t len)
{
	gss_buffer_desc in = { len, (void *)what }, mic = GSS_C_EMPTY_BUFFER;
	OM_uint32 minor, major;

	if (o->failed)
		return -ENOMEM;
	major = gss_get_mic(&minor, x->gss, GSS_C_QOP_DEFAULT, &in, &mic);
	if (!GSS_ERROR(major))
		onc_put_opaque(o, mic.value, mic.length);
	gss_release_buffer(&minor, &mic);
	return sealed(major);
}

/* As an opaque, encrypted. */
static int put_wrapped(struct onc_context *x, struct onc_out *o, const struct onc_out *body)
{
	gss_buffer_desc in = { body->len, body->data }, wrapped = GSS_C_EMPTY_BUFFER;
	OM_uint32 minor, major;
	int encrypted = 0;

	major = gss_wrap(&minor, x->gss, 1, GSS_C_QOP_DEFAULT, &in, &encrypted, &wrapped);
	if (!GSS_ERROR(major) && encrypted)
		onc_put_opaque(o, wrapped.value, wrapped.length);
	gss_release_buffer(&minor, &wrapped);
	return GSS_ERROR(major) ? sealed(major) : encrypted ? 0 : -EPROTO;
}

static int put_args(struct onc_context *x, struct onc_out *o, uint32_t seq, const void *args,
		    size_t len)
{
	struct onc_out body = { 0 };
	int r;

	if (x->service == ONC_AUTHENTIC) {
		onc_put_raw(o, args, len);
		return 0;
	}
	onc_put32(&body, seq);
	onc_put_raw(&body, args, len);
	if (body.failed) {
		r = -ENOMEM;
	} else if (x->service == ONC_INTEGRITY) {
		onc_put_opaque(o, body.data, body.len);
		r = put_mic(x, o, body.data, body.len);
	} else {
		r = put_wrapped(x, o, &body);
	}
	onc_out_free(&body);
	return r;
}

int onc_seal(struct onc_context *x, struct onc_out *o, size_t from, uint32_t gss_procedure,
	     uint32_t seq, const void *args, size_t len)
{
	const struct onc_bytes handle = { x->handle, x->handle_len };
	size_t to;
	int r;

	onc_put_cred(o, gss_procedure, seq, x->service, &handle);
	to = o->len;
	onc_put32(o, ONC_GSS);
	if (o->failed)
		return -ENOMEM;
	r = put_mic(x, o, o->data + from, to - from);
	if (!r)
		r = put_args(x, o, seq, args, len);
	return r ? r : o->failed ? -ENOMEM : 0;
}

/* ---- replies ---- */

static bool mic_is_right(struct onc_context *x, const void *what, size_t len,
			 const struct onc_bytes *mic)
{
	gss_buffer_desc in = { len, (void *)what }, m = { mic->len, (void *)mic->data };
	OM_uint32 minor, major;

	if (!mic->len)
		return false;
	major = gss_verify_mic(&minor, x->gss, &in, &m, NULL);
	/* one that has expired has not become another's: the reply was under way */
	return !GSS_ERROR(major) || GSS_ROUTINE_ERROR(major) == GSS_S_CONTEXT_EXPIRED;
}

bool onc_proves(struct onc_context *x, uint32_t n, const struct onc_reply *r)
{
	n = htobe32(n);
	return r->flavor == ONC_GSS && mic_is_right(x, &n, 4, &r->verifier);
}

int onc_split_integrity(const struct onc_bytes *results, struct onc_bytes *body,
			struct onc_bytes *mic)
{
	struct onc_in in = { results->data, results->len, false };

	*body = onc_get_opaque(&in, SIZE_MAX);
	*mic = onc_get_opaque(&in, ONC_TOKEN_MAX);
	return in.bad || in.left ? -EBADMSG : 0;
}

int onc_split_privacy(const struct onc_bytes *results, struct onc_bytes *wrapped)
{
	struct onc_in in = { results->data, results->len, false };

	*wrapped = onc_get_opaque(&in, SIZE_MAX);
	return in.bad || in.left || !wrapped->len ? -EBADMSG : 0;
}

int onc_take_seq(const struct onc_bytes *body, uint32_t seq, struct onc_bytes *out)
{
	struct onc_in in = { body->data, body->len, body->len % 4 != 0 };

	if (onc_get32(&in) != seq || in.bad)
		return -EBADMSG;
	*out = (struct onc_bytes){ in.p, in.left };
	return 0;
}

static int unwrap(struct onc_context *x, const struct onc_bytes *results, gss_buffer_t hold)
{
	struct onc_bytes wrapped;
	gss_buffer_desc in;
	OM_uint32 minor, major;
	int encrypted = 0;

	if (onc_split_privacy(results, &wrapped))
		return -EBADMSG;
	in = (gss_buffer_desc){ wrapped.len, (void *)wrapped.data };
	major = gss_unwrap(&minor, x->gss, &in, hold, &encrypted, NULL);
	/* what was not encrypted is not what was asked for, whoever has sent it */
	return GSS_ERROR(major) || !encrypted ? -EBADMSG : 0;
}

int onc_open(struct onc_context *x, uint32_t seq, const struct onc_bytes *results,
	     struct onc_bytes *out, gss_buffer_t hold)
{
	struct onc_bytes body, mic;

	*hold = (gss_buffer_desc)GSS_C_EMPTY_BUFFER;
	switch (x->service) {
	case ONC_AUTHENTIC:
		*out = *results;
		return 0;
	case ONC_INTEGRITY:
		if (onc_split_integrity(results, &body, &mic) ||
		    !mic_is_right(x, body.data, body.len, &mic))
			return -EBADMSG;
		return onc_take_seq(&body, seq, out);
	case ONC_PRIVACY:
		if (unwrap(x, results, hold))
			return -EBADMSG;
		body = (struct onc_bytes){ hold->value, hold->length };
		return onc_take_seq(&body, seq, out);
	}
	return -EBADMSG;
}

int onc_init_parse(const struct onc_bytes *results, struct onc_init_result *out)
{
	struct onc_in in = { results->data, results->len, false };

	out->handle = onc_get_opaque(&in, ONC_HANDLE_MAX);
	out->major = onc_get32(&in);
	out->minor = onc_get32(&in);
	out->window = onc_get32(&in);
	out->token = onc_get_opaque(&in, ONC_TOKEN_MAX);
	return in.bad || in.left ? -EBADMSG : 0;
}
