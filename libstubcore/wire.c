/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * wire.c - messages to bytes and back.  The layout is in wire.h.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "wire.h"

/* The results that may cross the wire; the index is what is sent. */
static const int results[] = { 0,	 -EAGAIN, -ENOENT, -EREMOTEIO, -ENOSPC,
			       -ESTALE, -EINVAL, -EDQUOT, -EROFS,     -EIO };

#define RESULT_REMOTEIO 3

#define MAPPED "::ffff:" /* an IPv4 client on an IPv6 socket, as Ganesha's are */

static bool has_range(enum stub_ask_kind kind)
{
	return kind == STUB_ASK_DATA || kind == STUB_ASK_PASS;
}

/* May these bytes be shown to an administrator as they are? */
static bool is_plain(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] < 0x20 || p[i] > 0x7e)
			return false;
	return true;
}

STUB_PUBLIC void stub_who(char who[STUB_WHO_MAX + 1], const char *user, uint32_t uid,
			  const char *address)
{
	size_t n = user ? strlen(user) : 0, room = STUB_WHO_MAX - strlen("@");
	bool plain = strlen(address) < room && is_plain(address, strlen(address));

	if (!plain)
		address = "?";
	if (!strncmp(address, MAPPED, strlen(MAPPED)) && strchr(address, '.'))
		address += strlen(MAPPED);
	if (n > 0 && n <= room - strlen(address) && user[0] != '#' && is_plain(user, n))
		snprintf(who, STUB_WHO_MAX + 1, "%s@%s", user, address);
	else
		snprintf(who, STUB_WHO_MAX + 1, "#%u@%s", uid, address);
}

int stub_wire_check_ask(const struct stub_ask *a)
{
	size_t who_len = strnlen(a->who, STUB_WHO_MAX + 1);

	if (who_len > STUB_WHO_MAX || !is_plain(a->who, who_len))
		return -EINVAL;
	if ((unsigned int)a->kind < STUB_ASK_LOOKUP || (unsigned int)a->kind > STUB_ASK_LEAVE)
		return -EINVAL;
	if (a->h.len < 1 || a->h.len > STUB_HANDLE_MAX)
		return -EINVAL;
	if (a->kind == STUB_ASK_LOOKUP && (!a->name || stub_name_check(a->name, a->name_len) < 0))
		return -EINVAL;
	if (has_range(a->kind) &&
	    (a->length == 0 || a->offset > INT64_MAX || a->length > INT64_MAX - a->offset))
		return -EINVAL;
	if (a->kind == STUB_ASK_PASS && a->length > STUB_PASS_MAX)
		return -EINVAL;
	return 0;
}

static size_t put_header(uint8_t *buf, enum stub_wire_type type, uint32_t id, size_t len)
{
	stub_put_le(buf, STUB_WIRE_MAGIC, 4);
	stub_put_le(buf + 4, STUB_WIRE_VERSION, 2);
	stub_put_le(buf + 6, type, 2);
	stub_put_le(buf + 8, id, 4);
	stub_put_le(buf + 12, len, 4);
	return len;
}

size_t stub_wire_put_ask(uint8_t *buf, uint32_t id, const struct stub_ask *a)
{
	size_t name_len = a->kind == STUB_ASK_LOOKUP ? a->name_len : 0;
	size_t who_len = strnlen(a->who, STUB_WHO_MAX), at = STUB_WIRE_ASK;
	bool data = has_range(a->kind);

	stub_put_le(buf + 16, data ? a->offset : 0, 8);
	stub_put_le(buf + 24, data ? a->length : 0, 8);
	stub_put_le(buf + 32, (uint32_t)a->h.type, 4);
	stub_put_le(buf + 36, a->kind, 1);
	stub_put_le(buf + 37, a->h.len, 1);
	stub_put_le(buf + 38, name_len, 1);
	stub_put_le(buf + 39, who_len, 1);
	memcpy(buf + at, a->h.bytes, a->h.len);
	at += a->h.len;
	if (name_len)
		memcpy(buf + at, a->name, name_len);
	at += name_len;
	memcpy(buf + at, a->who, who_len);
	return put_header(buf, STUB_WIRE_IS_ASK, id, at + who_len);
}

size_t stub_wire_put_answer(uint8_t *buf, uint32_t id, int result)
{
	uint32_t code = RESULT_REMOTEIO;

	for (uint32_t i = 0; i < ARRAY_LEN(results); i++)
		if (results[i] == result)
			code = i;
	stub_put_le(buf + STUB_WIRE_HEADER, code, 4);
	return put_header(buf, STUB_WIRE_IS_ANSWER, id, STUB_WIRE_HEADER + 4);
}

size_t stub_wire_put_error(uint8_t *buf, uint32_t id, int error, const char *text)
{
	size_t n = strnlen(text, STUB_WIRE_TEXT);

	stub_put_le(buf + STUB_WIRE_HEADER, (uint32_t)error, 4);
	memcpy(buf + STUB_WIRE_HEADER + 4, text, n);
	return put_header(buf, STUB_WIRE_IS_ERROR, id, STUB_WIRE_HEADER + 4 + n);
}

static int parse_ask(const uint8_t *buf, size_t len, struct stub_wire_message *m)
{
	struct stub_ask *a = &m->ask;
	const char *who;
	uint8_t kind, who_len;

	if (len < STUB_WIRE_ASK)
		return -EBADMSG;
	a->offset = stub_get_le(buf + 16, 8);
	a->length = stub_get_le(buf + 24, 8);
	a->h.type = (int32_t)stub_get_le(buf + 32, 4);
	kind = buf[36];
	a->h.len = buf[37];
	a->name_len = buf[38];
	who_len = buf[39];
	if (kind < STUB_ASK_LOOKUP || kind > STUB_ASK_LEAVE)
		return -EBADMSG;
	a->kind = (enum stub_ask_kind)kind;
	if (a->h.len < 1 || a->h.len > STUB_HANDLE_MAX || who_len > STUB_WHO_MAX)
		return -EBADMSG;
	if (len != STUB_WIRE_ASK + a->h.len + a->name_len + who_len)
		return -EBADMSG;
	if (a->kind != STUB_ASK_LOOKUP && a->name_len)
		return -EBADMSG;
	if (!has_range(a->kind) && (a->offset || a->length))
		return -EBADMSG;
	memcpy(a->h.bytes, buf + STUB_WIRE_ASK, a->h.len);
	a->name = (const char *)buf + STUB_WIRE_ASK + a->h.len;
	who = a->name + a->name_len;
	if (!is_plain(who, who_len))
		return -EBADMSG;
	memcpy(a->who, who, who_len); /* the rest is zero */
	return 0;
}

static int parse_answer(const uint8_t *buf, size_t len, struct stub_wire_message *m)
{
	uint64_t code;

	if (len != STUB_WIRE_HEADER + 4)
		return -EBADMSG;
	code = stub_get_le(buf + STUB_WIRE_HEADER, 4);
	if (code >= ARRAY_LEN(results))
		return -EBADMSG;
	m->result = results[code];
	return 0;
}

static int parse_error(const uint8_t *buf, size_t len, struct stub_wire_message *m)
{
	size_t n = len - STUB_WIRE_HEADER - 4;

	if (len < STUB_WIRE_HEADER + 4 || n > STUB_WIRE_TEXT)
		return -EBADMSG;
	m->error = (int)(stub_get_le(buf + STUB_WIRE_HEADER, 4) & 0xfff);
	for (size_t i = 0; i < n; i++) {
		uint8_t c = buf[STUB_WIRE_HEADER + 4 + i];

		m->text[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
	}
	return 0;
}

int stub_wire_parse(const uint8_t *buf, size_t len, struct stub_wire_message *out)
{
	memset(out, 0, sizeof(*out));
	if (len < STUB_WIRE_HEADER || len > STUB_WIRE_MAX || stub_get_le(buf, 4) != STUB_WIRE_MAGIC)
		return -EBADMSG;
	out->id = (uint32_t)stub_get_le(buf + 8, 4);
	out->version = (unsigned int)stub_get_le(buf + 4, 2);
	if (out->version != STUB_WIRE_VERSION)
		return -EPROTO;
	if (stub_get_le(buf + 12, 4) != len)
		return -EBADMSG;
	out->type = (enum stub_wire_type)stub_get_le(buf + 6, 2);
	switch (out->type) {
	case STUB_WIRE_IS_ASK:
		return parse_ask(buf, len, out);
	case STUB_WIRE_IS_ANSWER:
		return parse_answer(buf, len, out);
	case STUB_WIRE_IS_ERROR:
		return parse_error(buf, len, out);
	}
	return -EBADMSG;
}

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(sizeof(int))];
};

int stub_wire_send_fd(int fd, const uint8_t *buf, size_t len, int pass)
{
	struct iovec iov = { (void *)buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control;
	ssize_t n;

	if (pass >= 0) {
		memset(&control, 0, sizeof(control));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &pass, sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	do
		n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0; /* a packet goes whole */
	/* too many descriptors on their way: as if the socket were full */
	return errno == EAGAIN || errno == ETOOMANYREFS ? -EAGAIN : -ECONNRESET;
}

int stub_wire_send(int fd, const uint8_t *buf, size_t len)
{
	return stub_wire_send_fd(fd, buf, len, -1);
}

ssize_t stub_wire_receive_fd(int fd, uint8_t buf[STUB_WIRE_MAX], int *passed)
{
	struct iovec iov = { buf, STUB_WIRE_MAX };
	union control control = { .space = { 0 } }; /* room for one; the kernel closes more */
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;
	ssize_t n;

	*passed = -1;
	do
		n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		c = CMSG_FIRSTHDR(&msg);
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(passed, CMSG_DATA(c), sizeof(int));
		return n;
	}
	return n < 0 && errno == EAGAIN ? -EAGAIN : -ECONNRESET;
}

ssize_t stub_wire_receive(int fd, uint8_t buf[STUB_WIRE_MAX])
{
	ssize_t n;

	/* no room for ancillary data: descriptors that somebody sends are closed */
	do
		n = recv(fd, buf, STUB_WIRE_MAX, MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	/* 0: closed, or an empty packet, which nobody of ours sends */
	return n < 0 && errno == EAGAIN ? -EAGAIN : -ECONNRESET;
}
