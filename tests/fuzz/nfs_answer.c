/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "nfs_answer.h"
#include "nfs_server.h"

#define REPLY_MAX (3u << 20)

#define PMAP  100000
#define MOUNT 100005
#define NFS   100003

static struct {
	size_t n;
	uint8_t p[REPLY_MAX];
} out; /* the server thread's */

/* ---- writing ---- */

static void put(const void *p, size_t n)
{
	if (n > REPLY_MAX - out.n)
		n = REPLY_MAX - out.n;
	if (n)
		memcpy(out.p + out.n, p, n);
	out.n += n;
}

static void put32(uint32_t x)
{
	x = htonl(x);
	put(&x, 4);
}

static void put64(uint64_t x)
{
	put32((uint32_t)(x >> 32));
	put32((uint32_t)x);
}

static void put_opaque(const void *p, uint32_t n)
{
	put32(n);
	put(p, n);
	put("\0\0\0", -n & 3);
}

uint32_t nfs_answer_get32(const uint8_t *p)
{
	uint32_t x;

	memcpy(&x, p, 4);
	return ntohl(x);
}

/* ---- honest results ---- */

static void put_attr(uint32_t type, uint64_t fileid)
{
	put32(type);
	put32(0644);
	put32(1);
	put64(0); /* uid, gid */
	put64(100000);
	put64(4096);
	put64(0); /* rdev */
	put64(7);
	put64(fileid);
	for (int i = 0; i < 3; i++)
		put64(1700000000ull << 32 | 5);
}

static void put_post_attr(uint32_t type, uint64_t fileid)
{
	put32(1);
	put_attr(type, fileid);
}

static void put_entry(bool plus, const char *name, uint64_t fileid, uint32_t type, bool fh)
{
	put32(1);
	put64(fileid);
	put_opaque(name, (uint32_t)strlen(name));
	put64(fileid); /* cookie */
	if (!plus)
		return;
	if (type)
		put_post_attr(type, fileid);
	else
		put32(0);
	put32(fh);
	if (fh)
		put_opaque(name, (uint32_t)strlen(name));
}

static void put_entries(bool plus)
{
	put_post_attr(2, 2);
	put64(0); /* verifier */
	put_entry(plus, ".", 2, 2, true);
	put_entry(plus, "..", 3, 0, false);
	put_entry(plus, "file", 4, 1, true);
	put_entry(plus, "link", 5, 5, true);
	put_entry(plus, "bare", 6, 0, false);
	put32(0);
	put32(1); /* the end */
}

static void honest_nfs(uint32_t proc, const uint8_t *args, size_t n)
{
	static const uint8_t zeros[4096];
	/* the handle's first byte says what it is: the root, a file, a link */
	uint32_t type = n < 5 || args[4] == 'r' ? 2 : args[4] == 'l' ? 5 : 1;
	uint32_t count = n >= 4 ? nfs_answer_get32(args + n - 4) : 0;

	if (proc == 0)
		return;
	put32(0);
	switch (proc) {
	case 1: /* GETATTR */
		put_attr(type, 2);
		break;
	case 3: /* LOOKUP */
		put_opaque("fh", 2);
		put_post_attr(1, 4);
		put32(0);
		break;
	case 4: /* ACCESS */
		put32(0);
		put32(0x1f);
		break;
	case 5: /* READLINK */
		put32(0);
		put_opaque("target", 6);
		break;
	case 6: /* READ */
		count = count < sizeof(zeros) ? count : sizeof(zeros);
		put_post_attr(1, 4);
		put32(count);
		put32(1);
		put_opaque(zeros, count);
		break;
	case 16: /* READDIR */
	case 17:
		put_entries(proc == 17);
		break;
	case 19: /* FSINFO */
		put32(0);
		for (int i = 0; i < 7; i++)
			put32(65536);
		put64(INT64_MAX);
		put64(1);
		put32(0x1b);
		break;
	}
}

static void honest(uint32_t program, uint32_t proc, const uint8_t *args, size_t n)
{
	if (program == NFS) {
		honest_nfs(proc, args, n);
	} else if (program == PMAP && proc) {
		put32(NFS_SERVER_PORT);
	} else if (program == MOUNT && proc == 1) {
		put32(0);
		put_opaque("root", 4);
		put32(1);
		put32(1);
	} else if (program == MOUNT && proc == 5) {
		put32(1);
		put_opaque("/x", 2);
		put64(0); /* no groups, no more */
	}
}

/* ---- answers ---- */

static void put_envelope(uint32_t xid)
{
	put32(xid);
	put32(1); /* reply, accepted, no verifier, success */
	put64(0);
	put64(0);
}

static size_t skip_auth(const uint8_t *call, size_t at, size_t n)
{
	return at + 8 <= n ? at + 8 + ((nfs_answer_get32(call + at + 4) + 3) & ~3u) : n;
}

static void put_honest(const uint8_t *call, size_t n)
{
	size_t args = skip_auth(call, skip_auth(call, 24, n), n);

	if (args > n)
		args = n;
	put_envelope(nfs_answer_get32(call));
	honest(nfs_answer_get32(call + 12), nfs_answer_get32(call + 20), call + args, n - args);
}

static void put_repeated(struct fuzz_in *in)
{
	size_t len = fuzz_take(in, 2), count = fuzz_take(in, 2), got;
	const uint8_t *unit = fuzz_bytes(in, len, &got);

	while (count-- && got && out.n < REPLY_MAX)
		put(unit, got);
}

static void change(size_t from, const uint8_t *p, size_t n)
{
	for (; n >= 3; p += 3, n -= 3) {
		size_t at = from + (p[0] | (size_t)p[1] << 8);

		if (at < out.n)
			out.p[at] = p[2];
	}
}

static bool send_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r <= 0)
			return false;
		p = (const uint8_t *)p + r;
		n -= (size_t)r;
	}
	return true;
}

/* libnfs takes records of up to 1 MiB: a longer one goes in fragments anyway. */
static bool send_record(int fd, bool split, bool ends)
{
	size_t at = 0;

	do {
		size_t most = split && at == 0 ? out.n / 2 : 1 << 20;
		size_t n = out.n - at < most ? out.n - at : most;
		uint32_t mark = htonl((uint32_t)n | (ends && at + n == out.n ? 0x80000000u : 0));

		if (!send_all(fd, &mark, 4) || !send_all(fd, out.p + at, n))
			return false;
		at += n;
	} while (at < out.n);
	return true;
}

bool nfs_answer_from(int fd, struct fuzz_in *in, const uint8_t *call, size_t n, bool *unanswered)
{
	uint32_t xid = nfs_answer_get32(call);
	uint8_t form = (uint8_t)fuzz_take(in, 1);
	size_t len = fuzz_take(in, 2), got;
	const uint8_t *p = fuzz_bytes(in, len, &got);

	out.n = 0;
	*unanswered = !(form & 32) && ((form & 7) == 3 || (form & 7) >= 6);
	switch (form & 7) {
	case 1:
	case 4:
		put_honest(call, n);
		change(24, p, (form & 7) == 1 ? got : 0);
		break;
	case 2:
		put32(xid);
		put(p, got);
		break;
	case 3:
		put(p, got);
		break;
	case 5:
		return false;
	default:
		put_envelope((form & 7) == 7 ? xid + 1 : xid);
		put(p, got);
	}
	if (form & 16)
		put_repeated(in);
	if ((form & 7) == 3)
		return send_all(fd, out.p, out.n);
	return send_record(fd, form & 8, (form & 7) != 6);
}

bool nfs_answer_honestly(int fd, const uint8_t *call, size_t n)
{
	out.n = 0;
	put_honest(call, n);
	return send_record(fd, false, true);
}

bool nfs_answer_is_setup(const uint8_t *call)
{
	uint32_t proc = nfs_answer_get32(call + 20);

	return nfs_answer_get32(call + 12) != NFS || proc == 0 || proc == 19;
}
