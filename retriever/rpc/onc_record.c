// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * onc_record.c - records out of the fragments of a stream (RFC 5531, 11).
 *
 * A fragment's head says how long it will be; memory is taken for what has come, never for what
 * was said, and no record may be longer than its reader has asked for.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/onc_internal.h"

#define LAST	 0x80000000u
#define ROOM_MIN 4096

void onc_record_init(struct onc_record *r, uint32_t max)
{
	memset(r, 0, sizeof(*r));
	r->max = max;
}

void onc_record_free(struct onc_record *r)
{
	free(r->data);
	r->data = NULL;
}

static int grow(struct onc_record *r, size_t more)
{
	size_t size = r->size ? r->size : ROOM_MIN;
	uint8_t *data;

	if (more <= r->size - r->len)
		return 0;
	while (size - r->len < more)
		size *= 2;
	data = realloc(r->data, size);
	if (!data)
		return -ENOMEM;
	r->data = data;
	r->size = size;
	return 0;
}

/* A fragment's head is whole. */
static int begin_fragment(struct onc_record *r)
{
	uint32_t head;

	memcpy(&head, r->head, 4);
	head = be32toh(head);
	r->head_len = 0;
	if (r->last || !r->fragments) { /* another record */
		r->len = 0;
		r->fragments = 0;
	}
	r->last = head & LAST;
	r->left = head & ~LAST;
	if (++r->fragments > ONC_FRAGMENTS_MAX || r->left > r->max - r->len)
		return -EBADMSG;
	return 0;
}

int onc_record_feed(struct onc_record *r, const uint8_t *p, size_t n, size_t *used)
{
	size_t at = 0;

	*used = 0;
	while (at < n) {
		size_t part;
		int e;

		if (!r->left) {
			r->head[r->head_len++] = p[at++];
			e = r->head_len == 4 ? begin_fragment(r) : 0;
			if (e)
				return e;
			if (r->head_len || r->left || !r->last)
				continue;
			*used = at;
			return 1; /* it has ended with an empty fragment */
		}
		part = n - at < r->left ? n - at : r->left;
		e = grow(r, part);
		if (e)
			return e;
		memcpy(r->data + r->len, p + at, part);
		r->len += part;
		r->left -= (uint32_t)part;
		at += part;
		if (!r->left && r->last) {
			*used = at;
			return 1;
		}
	}
	*used = at;
	return 0;
}
