// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_wire.c - XDR of compounds.
 *
 *   call    tag  minorversion  n  n * (op, arguments)
 *   reply   status  tag  n  n * (op, status, results if it is 0)
 *
 * A reply's results end with the first that failed, whose status is that of the whole.  What is
 * read stays in libnfs's buffer, and nothing is read beyond its end: a reader that met one
 * impossibility gives zeros from then on.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "nfs/nfs4.h"

#define TAG_MAX	     1024
#define BITMAP_WORDS 8 /* a server's; ours has two or three */

static size_t padded(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

/* ---- calls ---- */

static uint8_t *room(struct nfs4_out *o, size_t len)
{
	uint8_t *at = o->bytes + o->len;

	if (o->full || padded(len) > sizeof(o->bytes) - o->len) {
		o->full = true;
		return NULL;
	}
	o->len += (uint32_t)padded(len);
	return at;
}

void nfs4_put32(struct nfs4_out *o, uint32_t n)
{
	uint8_t *at = room(o, 4);

	n = htobe32(n);
	if (at)
		memcpy(at, &n, 4);
}

void nfs4_put64(struct nfs4_out *o, uint64_t n)
{
	nfs4_put32(o, (uint32_t)(n >> 32));
	nfs4_put32(o, (uint32_t)n);
}

void nfs4_put_fixed(struct nfs4_out *o, const void *p, size_t len)
{
	uint8_t *at = room(o, len);

	if (!at || !len)
		return;
	memset(at + padded(len) - 4, 0, 4);
	memcpy(at, p, len);
}

void nfs4_put_opaque(struct nfs4_out *o, const void *p, size_t len)
{
	nfs4_put32(o, (uint32_t)len);
	nfs4_put_fixed(o, p, len);
}

void nfs4_put_bitmap3(struct nfs4_out *o, uint64_t attributes, uint32_t third)
{
	nfs4_put32(o, third ? 3 : 2);
	nfs4_put32(o, (uint32_t)attributes);
	nfs4_put32(o, (uint32_t)(attributes >> 32));
	if (third)
		nfs4_put32(o, third);
}

void nfs4_put_bitmap(struct nfs4_out *o, uint64_t attributes)
{
	nfs4_put_bitmap3(o, attributes, 0);
}

#define COMPOUND 1 /* the procedure */
#define MINOR_AT 4 /* behind an empty tag */
#define OPS_AT	 8

void nfs4_begin(struct nfs4_out *o)
{
	o->len = o->ops = 0;
	o->full = false;
	nfs4_put32(o, 0);
	nfs4_put32(o, 0);
	nfs4_put32(o, 0);
}

void nfs4_minor(struct nfs4_out *o, uint32_t minor)
{
	minor = htobe32(minor);
	memcpy(o->bytes + MINOR_AT, &minor, 4);
}

void nfs4_put_op(struct nfs4_out *o, enum nfs4_op op)
{
	nfs4_put32(o, op);
	o->ops++;
}

int nfs4_queue(struct nfs4_out *o, struct nfs_carrier *rpc, rpc_cb cb, void *arg)
{
	struct nfs4_bytes b = { o->bytes, o->len };
	uint32_t n = htobe32(o->ops);

	if (o->full)
		return -1;
	memcpy(o->bytes + OPS_AT, &n, 4);
	if (rpc->own)
		return nfs_carrier_call(rpc, COMPOUND, o->bytes, o->len, cb, arg);
	/* encoded before it returns, by our zdr_COMPOUND4args() */
	return rpc_nfs4_compound_async(rpc->libnfs, cb, (struct COMPOUND4args *)&b, arg);
}

/* ---- replies ---- */

static const uint8_t *take(struct nfs4_in *in, size_t len)
{
	const uint8_t *at = in->p;

	if (in->bad || padded(len) > in->left) {
		in->bad = true;
		return NULL;
	}
	in->p += padded(len);
	in->left -= padded(len);
	return at;
}

uint32_t nfs4_get32(struct nfs4_in *in)
{
	const uint8_t *at = take(in, 4);
	uint32_t n = 0;

	if (at)
		memcpy(&n, at, 4);
	return be32toh(n);
}

uint64_t nfs4_get64(struct nfs4_in *in)
{
	uint64_t high = nfs4_get32(in);

	return high << 32 | nfs4_get32(in);
}

void nfs4_get_fixed(struct nfs4_in *in, void *out, size_t len)
{
	const uint8_t *at = take(in, len);

	memset(out, 0, len);
	if (at)
		memcpy(out, at, len);
}

const uint8_t *nfs4_get_opaque(struct nfs4_in *in, uint32_t max, uint32_t *len)
{
	const uint8_t *at;

	*len = nfs4_get32(in);
	if (*len > max || *len > in->left)
		in->bad = true;
	at = take(in, *len);
	if (!at)
		*len = 0;
	return at;
}

uint64_t nfs4_get_bitmap3(struct nfs4_in *in, bool any, uint32_t *third)
{
	uint32_t words = nfs4_get32(in);
	uint64_t out = 0;

	*third = 0;
	if (words > BITMAP_WORDS)
		in->bad = true;
	for (uint32_t i = 0; i < words && !in->bad; i++) {
		uint64_t word = nfs4_get32(in);

		if (i < 2)
			out |= word << 32 * i;
		else if (i == 2)
			*third = (uint32_t)word;
		else if (word && !any)
			in->bad = true;
	}
	if (in->bad)
		*third = 0;
	return in->bad ? 0 : out;
}

uint64_t nfs4_get_bitmap(struct nfs4_in *in, bool any)
{
	uint32_t third;
	uint64_t out = nfs4_get_bitmap3(in, any, &third);

	if (third && !any)
		in->bad = true;
	return in->bad ? 0 : out;
}

void nfs4_open(const struct nfs4_bytes *b, struct nfs4_reply *r)
{
	uint32_t tag;

	r->in = (struct nfs4_in){ b->data, b->len, false };
	r->status = nfs4_get32(&r->in);
	nfs4_get_opaque(&r->in, TAG_MAX, &tag);
	r->left = nfs4_get32(&r->in);
}

int nfs4_next(struct nfs4_reply *r, enum nfs4_op op)
{
	uint32_t got, status;

	if (!r->in.bad && !r->left && r->status && r->status <= INT32_MAX)
		return (int)r->status; /* it did not come so far */
	got = nfs4_get32(&r->in);
	status = nfs4_get32(&r->in);
	if (got == NFS4_ILLEGAL && status == NFS4_OP_ILLEGAL)
		got = op; /* the server does not know it */
	if (r->in.bad || !r->left || got != op || status > INT32_MAX)
		return -EBADMSG;
	r->left--;
	if (status && (r->left || status != r->status))
		return -EBADMSG;
	return (int)status;
}
