// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * onc_gss.c - the life of a security context on a connection (RFC 2203, 5.2).
 *
 *      begin()  --INIT-->  server  --CONTINUE_INIT, if it wants more-->  ...  in use
 *
 * A newer one is made while the one in use is good still: at half of its life, and when its
 * numbers run out.  If that fails it is tried again later.  A server that was restarted, or has no
 * room, has forgotten a context, and says so: then calls wait for the next one and are sent again.
 * A context that is refused before anything was done with it means that the server takes none of
 * ours.
 *
 * Numbers: a server drops what is older than its newest number less the window, without a word.  So
 * no call is sent before all within the window of its own number are answered.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gssapi/gssapi_krb5.h>

#include "rpc/onc_internal.h"
#include "stubcore.h"

#define RENEW_MS 10000 /* between attempts to get a newer context */

void onc_gss_text(OM_uint32 major, OM_uint32 minor, char *out, size_t size)
{
	gss_buffer_desc text = GSS_C_EMPTY_BUFFER;
	OM_uint32 ignored, more = 0;
	/* the mechanism knows better than "unspecified failure" */
	bool mech = minor != 0;

	gss_display_status(&ignored, mech ? minor : major, mech ? GSS_C_MECH_CODE : GSS_C_GSS_CODE,
			   GSS_C_NO_OID, &more, &text);
	snprintf(out, size, "%.*s", text.length > 120 ? 120 : (int)text.length,
		 text.length ? (const char *)text.value : "unknown error");
	gss_release_buffer(&ignored, &text);
}

/* ---- making one ---- */

static int init_failed(struct onc_conn *c, int error, const char *why)
{
	onc_context_drop(c->next);
	c->next = NULL;
	c->retry_ms = stub_now_ms() + RENEW_MS;
	if (c->now && c->now->ends_ms > stub_now_ms())
		return 0; /* it is used on */
	return onc_break(c, error, "%s", why);
}

static void on_init(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	(void)arg; /* onc_gss_take_init() does it; with onc_destroy() nothing is left to do */
	(void)error;
	(void)results;
	(void)why;
}

static int send_init(struct onc_conn *c, uint32_t gss_procedure, const gss_buffer_desc *token)
{
	const struct onc_bytes handle = { c->next->handle, c->next->handle_len };
	struct onc_call *call = onc_new_call(0, NULL, 0, on_init, c);
	size_t from = onc_begin_record(c);

	if (!call)
		return onc_break(c, -ENOMEM, "out of memory");
	call->xid = ++c->xid;
	onc_put_call(&c->out, &c->config, call->xid, 0);
	onc_put_cred(&c->out, gss_procedure, 0, c->next->service, &handle);
	onc_put_auth_none(&c->out);
	onc_put_opaque(&c->out, token->value, token->length);
	c->init = call;
	onc_put_in_flight(c, call, from);
	return c->error;
}

static int begin(struct onc_conn *c)
{
	struct onc_begun b = { GSS_C_NO_CONTEXT, GSS_C_NO_NAME, GSS_C_EMPTY_BUFFER };
	char why[ONC_WHY_MAX] = "no credentials";
	OM_uint32 ignored;
	int r;

	c->next = calloc(1, sizeof(*c->next));
	if (!c->next)
		return onc_break(c, -ENOMEM, "out of memory");
	c->next->holders = 1;
	c->next->service = c->config.service;
	c->next->begun_ms = stub_now_ms();
	r = c->config.begin(c->config.arg, &b, why, sizeof(why));
	c->next->gss = b.context;
	c->next->server = b.server;
	r = r ? init_failed(c, r, why) : send_init(c, ONC_GSS_INIT, &b.token);
	gss_release_buffer(&ignored, &b.token);
	return r;
}

/* The answer's token is taken; *again: what to send then. */
static OM_uint32 step(struct onc_context *x, const struct onc_init_result *res,
		      gss_buffer_t again, OM_uint32 *minor)
{
	static const OM_uint32 needed[] = {
		[ONC_AUTHENTIC] = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG,
		[ONC_INTEGRITY] = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG,
		[ONC_PRIVACY] = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG,
	};
	gss_buffer_desc token = { res->token.len, (void *)res->token.data };
	OM_uint32 major, flags = 0, left = 0;

	major = gss_init_sec_context(minor, GSS_C_NO_CREDENTIAL, &x->gss, x->server,
				     gss_mech_krb5, GSS_C_MUTUAL_FLAG, 0,
				     GSS_C_NO_CHANNEL_BINDINGS, &token, NULL, again, &flags, &left);
	if (major != GSS_S_COMPLETE)
		return major;
	if (!left)
		return GSS_S_CREDENTIALS_EXPIRED;
	x->complete = (flags & needed[x->service]) == needed[x->service];
	x->ends_ms = left == GSS_C_INDEFINITE ? UINT64_MAX : stub_now_ms() + (uint64_t)left * 1000;
	return x->complete ? major : GSS_S_UNAVAILABLE;
}

/* Both sides have what they want: it is the one in use. */
static void use(struct onc_conn *c)
{
	onc_done_fn secured = c->secured;

	onc_context_drop(c->now);
	c->now = c->next;
	c->next = NULL;
	c->retry_ms = stub_now_ms() + RENEW_MS;
	c->secured = NULL;
	if (secured)
		secured(c->secured_arg, 0, NULL, NULL);
}

static void refused(struct onc_conn *c, const struct onc_init_result *res, OM_uint32 major,
		    OM_uint32 minor)
{
	char text[ONC_WHY_MAX / 2], why[ONC_WHY_MAX];

	if (major == GSS_S_COMPLETE || major == GSS_S_CONTINUE_NEEDED) {
		/* Numbers of its mechanism's, which may be ours. */
		major = res->major;
		minor = res->minor;
	}
	onc_gss_text(major, minor, text, sizeof(text));
	snprintf(why, sizeof(why), "the server refuses the Kerberos ticket: %s", text);
	init_failed(c, -EKEYREJECTED, why);
}

static void take_result(struct onc_conn *c, const struct onc_reply *r,
			const struct onc_init_result *res)
{
	bool more = res->major == GSS_S_CONTINUE_NEEDED, done = res->major == GSS_S_COMPLETE;
	gss_buffer_desc again = GSS_C_EMPTY_BUFFER;
	OM_uint32 major = GSS_S_COMPLETE, minor = 0, ignored;
	struct onc_context *x = c->next;

	/* also the token of a refusal is looked at: it says why */
	if (res->token.len && !x->complete)
		major = step(x, res, &again, &minor);
	if ((!more && !done) || GSS_ERROR(major)) {
		refused(c, res, major, minor);
	} else if (more && again.length && res->handle.len) {
		x->handle_len = (uint32_t)res->handle.len;
		memcpy(x->handle, res->handle.data, res->handle.len);
		send_init(c, ONC_GSS_CONTINUE, &again);
	} else if (done && x->complete && !again.length && res->window &&
		   onc_proves(x, res->window, r)) {
		x->handle_len = (uint32_t)res->handle.len;
		memcpy(x->handle, res->handle.data, res->handle.len);
		x->window = res->window;
		use(c);
	} else {
		init_failed(c, -EKEYREJECTED,
			    "the server has not proven who it is (RPCSEC_GSS): is it the right one?");
	}
	gss_release_buffer(&ignored, &again);
}

void onc_gss_take_init(struct onc_conn *c, const struct onc_reply *r)
{
	struct onc_init_result res;
	char text[ONC_WHY_MAX];
	const char *why;

	c->init = NULL;
	if (r->denied && !r->mismatch) {
		snprintf(text, sizeof(text),
			 "the server takes no Kerberos ticket (RPC authentication error %" PRIu32
			 "): has it a key of nfs/HOST, and the right time?",
			 r->auth);
		init_failed(c, -EKEYREJECTED, text);
	} else if (onc_reply_error(r, &why)) {
		init_failed(c, -EKEYREJECTED, why);
	} else if (onc_init_parse(&r->results, &res)) {
		init_failed(c, -EBADMSG, "impossible answer to RPCSEC_GSS_INIT");
	} else {
		take_result(c, r, &res);
	}
}

/* ---- using it ---- */

static bool is_half_over(const struct onc_context *x, uint64_t now)
{
	return x->seq >= ONC_SEQ_MAX / 2 ||
	       (x->ends_ms != UINT64_MAX && now >= x->begun_ms &&
		(x->ends_ms <= x->begun_ms || now - x->begun_ms >= (x->ends_ms - x->begun_ms) / 2));
}

/* The number of the oldest call that is not answered yet; 0: all are. */
static uint32_t oldest(const struct onc_conn *c)
{
	const struct onc_call *call;

	TAILQ_FOREACH(call, &c->flight, link)
		if (call->context == c->now)
			return call->seq;
	return 0;
}

enum onc_gate onc_gss_gate(struct onc_conn *c)
{
	uint64_t now = stub_now_ms();
	uint32_t first;

	if (c->now && (c->now->ends_ms <= now || c->now->seq >= ONC_SEQ_MAX)) {
		onc_context_drop(c->now);
		c->now = NULL;
	}
	if (!c->next && (!c->now || (now >= c->retry_ms && is_half_over(c->now, now))) && begin(c))
		return ONC_OVER;
	if (!c->now)
		return ONC_LATER;
	first = oldest(c);
	return !first || c->now->seq + 1 - first < c->now->window ? ONC_GO : ONC_LATER;
}

int onc_gss_send(struct onc_conn *c, struct onc_call *call)
{
	size_t from = onc_begin_record(c);
	int r;

	call->xid = ++c->xid;
	call->context = c->now;
	call->seq = ++c->now->seq;
	call->tries++;
	c->now->holders++;
	onc_put_call(&c->out, &c->config, call->xid, call->procedure);
	r = onc_seal(c->now, &c->out, from + 4, ONC_GSS_DATA, call->seq, call->args, call->len);
	if (r)
		onc_break(c, r == -EKEYEXPIRED ? -ECONNRESET : r, "%s",
			  r == -ENOMEM ? "out of memory" : "the Kerberos context is of no use");
	onc_put_in_flight(c, call, from);
	return c->error;
}

bool onc_gss_denied(struct onc_conn *c, struct onc_call *call, struct onc_context *x,
		    const struct onc_reply *r)
{
	if (!x || r->mismatch || (r->auth != ONC_CREDPROBLEM && r->auth != ONC_CTXPROBLEM))
		return false;
	if (x == c->now) {
		if (!x->worked) {
			onc_break(c, -EKEYREJECTED,
				  "the server takes no Kerberos context (RPC authentication error "
				  "%" PRIu32 ")",
				  r->auth);
			return true;
		}
		onc_context_drop(c->now);
		c->now = NULL;
	}
	return call->tries < ONC_TRIES_MAX;
}

void onc_gss_end(struct onc_conn *c)
{
	size_t from;

	if (c->now && !c->error && !c->connecting && !c->out.failed) {
		from = onc_begin_record(c);
		onc_put_call(&c->out, &c->config, ++c->xid, 0);
		if (onc_seal(c->now, &c->out, from + 4, ONC_GSS_DESTROY, ++c->now->seq, NULL, 0))
			c->out.len = from;
		else
			onc_put_in_flight(c, NULL, from);
	}
	onc_context_drop(c->now);
	onc_context_drop(c->next);
	c->now = c->next = NULL;
}
