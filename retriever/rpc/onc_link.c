// SPDX-License-Identifier: GPL-3.0-or-later
/* onc_link.c - breaking a connection, its calls, and where their records begin. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/onc_internal.h"

#define MARK_LAST 0x80000000u

int onc_break(struct onc_conn *c, int error, const char *fmt, ...)
{
	va_list ap;

	if (!c->error) {
		c->error = error;
		va_start(ap, fmt);
		vsnprintf(c->why, sizeof(c->why), fmt, ap);
		va_end(ap);
	}
	return c->error;
}

struct onc_call *onc_new_call(uint32_t procedure, const void *args, size_t len, onc_done_fn done,
			      void *arg)
{
	struct onc_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->args = malloc(len ? len : 1);
	if (!call->args) {
		free(call);
		return NULL;
	}
	if (len)
		memcpy(call->args, args, len);
	call->len = len;
	call->procedure = procedure;
	call->done = done;
	call->arg = arg;
	return call;
}

void onc_free_call(struct onc_call *call)
{
	onc_context_drop(call->context);
	free(call->args);
	free(call);
}

size_t onc_begin_record(struct onc_conn *c)
{
	size_t from = c->out.len;

	onc_put32(&c->out, 0); /* how long it is: onc_put_in_flight() */
	return from;
}

void onc_put_in_flight(struct onc_conn *c, struct onc_call *call, size_t from)
{
	if (call)
		TAILQ_INSERT_TAIL(&c->flight, call, link);
	if (c->out.failed) {
		onc_break(c, -ENOMEM, "out of memory");
	} else {
		uint32_t mark = htonl(MARK_LAST | (uint32_t)(c->out.len - from - 4));

		memcpy(c->out.data + from, &mark, 4);
	}
}
