// SPDX-License-Identifier: GPL-3.0-or-later
/* onc_wire.c - XDR; how a call begins, and what a reply says (RFC 5531). */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/onc_internal.h"

#define ROOM_MIN 4096

static size_t padded(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

/* ---- out ---- */

static uint8_t *room(struct onc_out *o, size_t len)
{
	uint8_t *at;

	if (!o->failed && len > o->size - o->len) {
		size_t size = o->size ? o->size : ROOM_MIN;

		while (size - o->len < len)
			size *= 2;
		at = realloc(o->data, size);
		if (at) {
			o->data = at;
			o->size = size;
		}
		o->failed = !at;
	}
	if (o->failed)
		return NULL;
	at = o->data + o->len;
	o->len += len;
	return at;
}

void onc_out_free(struct onc_out *o)
{
	free(o->data);
	memset(o, 0, sizeof(*o));
}

void onc_put32(struct onc_out *o, uint32_t n)
{
	uint8_t *at = room(o, 4);

	n = htobe32(n);
	if (at)
		memcpy(at, &n, 4);
}

void onc_put_raw(struct onc_out *o, const void *p, size_t len)
{
	uint8_t *at = room(o, padded(len));

	if (!at || !len)
		return;
	memset(at + padded(len) - 4, 0, 4);
	memcpy(at, p, len);
}

void onc_put_opaque(struct onc_out *o, const void *p, size_t len)
{
	onc_put32(o, (uint32_t)len);
	onc_put_raw(o, p, len);
}

void onc_put_call(struct onc_out *o, const struct onc_config *c, uint32_t xid, uint32_t procedure)
{
	onc_put32(o, xid);
	onc_put32(o, ONC_CALL);
	onc_put32(o, ONC_RPC_VERSION);
	onc_put32(o, c->program);
	onc_put32(o, c->version);
	onc_put32(o, procedure);
}

void onc_put_auth_none(struct onc_out *o)
{
	onc_put32(o, ONC_NONE);
	onc_put32(o, 0);
}

void onc_put_auth_sys(struct onc_out *o, uint32_t uid, uint32_t gid)
{
	static const char machine[] = "postcopy";
	const uint32_t len = 4 + 4 + sizeof(machine) - 1 + 4 + 4 + 4;

	onc_put32(o, ONC_SYS);
	onc_put32(o, len);
	onc_put32(o, 0); /* a stamp */
	onc_put_opaque(o, machine, sizeof(machine) - 1);
	onc_put32(o, uid);
	onc_put32(o, gid);
	onc_put32(o, 0); /* further groups */
}

/* ---- in ---- */

static const uint8_t *take(struct onc_in *in, size_t len)
{
	const uint8_t *at = in->p;

	if (in->bad || len > in->left || padded(len) > in->left) {
		in->bad = true;
		return NULL;
	}
	in->p += padded(len);
	in->left -= padded(len);
	return at;
}

uint32_t onc_get32(struct onc_in *in)
{
	const uint8_t *at = take(in, 4);
	uint32_t n = 0;

	if (at)
		memcpy(&n, at, 4);
	return be32toh(n);
}

struct onc_bytes onc_get_opaque(struct onc_in *in, size_t max)
{
	uint32_t len = onc_get32(in);
	const uint8_t *at;

	if (len > max)
		in->bad = true;
	at = take(in, len);
	return (struct onc_bytes){ at, at ? len : 0 };
}

/* ---- a reply ---- */

static int parse_denied(struct onc_in *in, struct onc_reply *out)
{
	uint32_t why = onc_get32(in);

	out->denied = true;
	out->mismatch = why == 0;
	if (out->mismatch)
		onc_get32(in); /* the lowest version; the highest comes as auth */
	out->auth = onc_get32(in);
	return in->bad || why > 1 ? -EBADMSG : 0;
}

int onc_reply_parse(const struct onc_bytes *record, struct onc_reply *out)
{
	struct onc_in in = { record->data, record->len, record->len % 4 != 0 };
	uint32_t what;

	memset(out, 0, sizeof(*out));
	out->xid = onc_get32(&in);
	if (onc_get32(&in) != ONC_REPLY || in.bad)
		return -EBADMSG;
	what = onc_get32(&in);
	if (in.bad || what > 1)
		return -EBADMSG;
	if (what == 1)
		return parse_denied(&in, out);
	out->flavor = onc_get32(&in);
	out->verifier = onc_get_opaque(&in, ONC_AUTH_MAX);
	out->stat = onc_get32(&in);
	if (in.bad)
		return -EBADMSG;
	out->results = (struct onc_bytes){ in.p, in.left };
	return 0;
}

int onc_reply_error(const struct onc_reply *r, const char **why)
{
	/* the words that libnfs has for it, by which nfs_call.c judges */
	static const struct {
		int error;
		const char *why;
	} known[] = {
		[ONC_SUCCESS] = { 0, "" },
		[ONC_PROG_UNAVAIL] = { -EOPNOTSUPP, "Server responded: Program not available" },
		[ONC_PROG_MISMATCH] = { -EOPNOTSUPP, "Server responded: Program version mismatch" },
		[ONC_PROC_UNAVAIL] = { -EOPNOTSUPP, "Server responded: Procedure not available" },
		[ONC_GARBAGE_ARGS] = { -EBADMSG, "Server responded: Garbage arguments" },
		[ONC_SYSTEM_ERR] = { -EIO, "Server responded: System Error" },
	};

	if (r->denied) {
		*why = "RPC Packet not accepted by the server";
		return -EACCES;
	}
	if (r->stat < sizeof(known) / sizeof(known[0])) {
		*why = known[r->stat].why;
		return known[r->stat].error;
	}
	*why = "Unknown rpc response from server";
	return -EBADMSG;
}
