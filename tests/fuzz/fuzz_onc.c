/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_onc.c - what a server sends on a connection of retriever/rpc.
 *
 * The first byte says which credentials there are; the others are the stream that comes back,
 * which meets a NULL and two calls with the XIDs 1, 2, 3 (with RPCSEC_GSS both calls wait for a
 * context, and 2 is its INIT).  Every call must end exactly once, whatever comes.  Then the bytes
 * are a reply, and the parts of one, by themselves.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "rpc/onc_internal.h"

#define CALLS	  3
#define REPLY_MAX 4096

struct got {
	unsigned int times;
	bool over; /* the connection is */
};

static void check_text(const char *text)
{
	CHECK(*text && strlen(text) < ONC_WHY_MAX);
	for (; *text; text++)
		CHECK(*text >= 0x20 && *text < 0x7f);
}

static void on_done(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	struct got *g = arg;
	uint32_t sum = 0;

	CHECK(!g->times++ && error <= 0);
	CHECK((error == -ECANCELED) == g->over);
	CHECK(!error == (results != NULL));
	if (error)
		check_text(why);
	for (size_t i = 0; results && i < results->len; i++)
		sum += results->data[i]; /* all of them are there */
	CHECK(!results || (results->len < REPLY_MAX && sum <= 255 * results->len));
}

/* Nobody's context: what can be done with one is a unit test. */
static int on_begin(void *arg, struct onc_begun *out, char *why, size_t size)
{
	snprintf(why, size, "nothing");
	return *(const uint8_t *)arg & 4 ? -EACCES : 0;
}

static void try_stream(uint8_t how, const uint8_t *data, size_t size)
{
	const struct onc_config config = {
		.program = 100003, .version = 4, .reply_max = REPLY_MAX,
		.flavor = how & 1 ? ONC_GSS : ONC_SYS, .service = ONC_AUTHENTIC + how / 8 % 3,
		.begin = on_begin, .arg = &how,
	};
	struct got g[CALLS] = { 0 };
	struct onc_conn *c;
	int fd[2], e = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
	CHECK(onc_create(&config, &c) == 0);
	onc_attach(c, fd[0]);
	c->xid = 0;
	for (uint32_t i = 0; i < CALLS; i++)
		CHECK(onc_call(c, i, "args", i ? 4 : 0, on_done, &g[i]) == 0);
	e = onc_service(c, POLLOUT);
	CHECK(send(fd[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size);
	if (how & 2)
		CHECK(shutdown(fd[1], SHUT_WR) == 0);
	for (int i = 0; i < 4 && !e; i++)
		e = onc_service(c, POLLIN | POLLOUT);
	CHECK(e <= 0);
	if (e)
		check_text(onc_why(c));
	for (unsigned int i = 0; i < CALLS; i++)
		g[i].over = true;
	onc_destroy(c);
	for (unsigned int i = 0; i < CALLS; i++)
		CHECK(g[i].times == 1);
	close(fd[1]);
}

static void within(const struct onc_bytes *part, const uint8_t *data, size_t size)
{
	CHECK(!part->len || (part->data >= data && part->data + part->len <= data + size));
}

static void try_parts(const uint8_t *data, size_t size)
{
	const struct onc_bytes all = { data, size };
	struct onc_init_result init;
	struct onc_bytes a, b;
	struct onc_reply r;
	const char *why;

	if (!onc_reply_parse(&all, &r)) {
		within(&r.verifier, data, size);
		within(&r.results, data, size);
		CHECK(r.verifier.len <= ONC_AUTH_MAX);
		CHECK((onc_reply_error(&r, &why) == 0) == (!r.denied && r.stat == ONC_SUCCESS));
	}
	if (!onc_init_parse(&all, &init)) {
		within(&init.handle, data, size);
		within(&init.token, data, size);
		CHECK(init.handle.len <= ONC_HANDLE_MAX);
	}
	if (!onc_split_integrity(&all, &a, &b)) {
		within(&a, data, size);
		within(&b, data, size);
	}
	if (!onc_split_privacy(&all, &a))
		within(&a, data, size);
	if (!onc_take_seq(&all, 7, &a))
		CHECK(a.len == size - 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	try_stream(data[0], data + 1, size - 1);
	try_parts(data + 1, size - 1);
	return 0;
}
