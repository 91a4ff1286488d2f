/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_smb_wire.c - messages between the retriever and its SMB workers, on both sides.
 *
 * The input is a sequence of messages (type, 1 byte; length, 2 bytes; bytes).  Each is
 * read as a request and as an answer; what is taken must be whole, keep its promises,
 * and come out the same when it is written again.  Then all of them are what a worker
 * sends to a call of the real connection code.  And the bytes are what a server answers
 * to the question where a file has data.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "smb/smb.h"
#include "smb/smb_ranges.h"

#define MESSAGES_MAX 16
#define BYTES_MAX    4096

struct message {
	enum smb_wire_type type;
	const uint8_t *p;
	size_t len;
};

static void check_text(const struct smb_text *t)
{
	CHECK(t->len <= SMB_WIRE_TEXT);
	CHECK(!t->len || !memchr(t->p, '\0', t->len));
}

static void check_attr(const struct stub_attr *a)
{
	CHECK(S_ISREG(a->mode) || S_ISDIR(a->mode));
	CHECK(a->size <= INT64_MAX && a->uid != UINT32_MAX && a->gid != UINT32_MAX);
	CHECK(a->atime.tv_nsec <= 999999999 && a->mtime.tv_nsec <= 999999999 &&
	      a->ctime.tv_nsec <= 999999999);
}

/* ---- parsing ---- */

/* What came of PUT, as it was to be sent. */
static struct stub_xattr *put_list(struct smb_request *r)
{
	struct stub_xattr *x = calloc(r->count + 1, sizeof(*x));
	struct smb_request walk = *r;
	struct smb_text name;
	const uint8_t *value;

	CHECK(x);
	while (smb_wire_put_xattr(&walk, &name, &value, &x[r->n_x].len)) {
		CHECK(r->n_x < r->count && smb_wire_xattr_name(&name));
		x[r->n_x].name = strndup(name.p, name.len);
		x[r->n_x++].value = value;
	}
	CHECK(r->n_x == r->count);
	r->x = x;
	return x;
}

static void put_list_free(struct smb_request *r, struct stub_xattr *x)
{
	for (size_t i = 0; i < r->n_x; i++)
		free((char *)x[i].name);
	free(x);
}

static void try_request(const struct message *m)
{
	struct stub_xattr *x;
	struct smb_out o = { 0 };
	struct smb_request r;
	int e = smb_wire_request(m->type, m->p, m->len, &r);

	CHECK(e == 0 || e == -EBADMSG);
	if (e < 0)
		return;
	check_text(&r.path);
	check_text(&r.name);
	check_text(&r.start.password);
	CHECK(r.length <= SMB_WIRE_READ && r.offset <= INT64_MAX);
	x = put_list(&r);
	smb_out_request(&o, &r);
	put_list_free(&r, x);
	CHECK(smb_out_end(&o) == 0 && o.len == SMB_WIRE_HEADER + m->len);
	CHECK(!memcmp(o.p + SMB_WIRE_HEADER, m->p, m->len));
	smb_out_free(&o);
}

static void try_answer(const struct message *m)
{
	const uint8_t *value;
	struct stub_attr attr;
	struct smb_answer a;
	struct smb_text name;
	struct smb_told told;
	uint32_t n = 0;
	uint64_t size;
	size_t len;
	int e = smb_wire_answer(m->type, m->p, m->len, &a);

	CHECK(e == 0 || e == -EBADMSG);
	if (e < 0)
		return;
	check_text(&a.name);
	check_text(&a.why);
	CHECK(a.type != SMB_WIRE_FAIL || a.error < 0);
	if (a.type == SMB_WIRE_ENTRIES) {
		while (smb_wire_entry(&a, &attr, &name, &told)) {
			check_attr(&attr);
			check_text(&name);
			CHECK(!told.len || (told.p >= m->p && told.p + told.len <= m->p + m->len));
			n++;
		}
		CHECK(n == a.count && n <= SMB_WIRE_COUNT);
	}
	if (a.type == SMB_WIRE_HOLES) {
		struct stub_range hole, last = { 0, 0 };

		for (; smb_wire_hole(&a, &hole); last = hole, n++)
			CHECK(hole.start < hole.end && hole.end <= a.end && (!n || hole.start > last.end));
		CHECK(n == a.count && a.end <= a.attr.size);
	}
	if (a.type == SMB_WIRE_META) {
		while (smb_wire_xattr(&a, &name, &value, &len)) {
			check_text(&name);
			CHECK(smb_wire_xattr_name(&name));
			CHECK(name.len < 8 || memcmp(name.p, "trusted.", 8));
			CHECK(value >= m->p && value + len <= m->p + m->len);
			n++;
		}
		CHECK(n == a.count && n <= SMB_WIRE_XATTRS);
		while (smb_wire_stream(&a, &name, &size)) {
			check_text(&name);
			CHECK(name.len <= 255 && !memchr(name.p, '/', name.len) && size <= INT64_MAX);
		}
	}
}

/* ---- a server's ranges ---- */

static void check_holes(const struct stub_range *hole, uint32_t n, uint64_t from, uint64_t end)
{
	for (uint32_t i = 0; i < n; i++) {
		CHECK(hole[i].start >= from && hole[i].start < hole[i].end && hole[i].end <= end);
		from = hole[i].end + 1;
	}
}

static void try_ranges(const uint8_t *data, size_t size)
{
	struct stub_range hole[4];
	uint64_t known = 0;
	int n = smb_ranges_holes(data, size, 65536, 1u << 24, 4096, hole, 4, &known);

	CHECK(n == -EBADMSG || (n >= 0 && n <= 4));
	if (n < 0)
		return;
	CHECK(known <= 1u << 24 && (known == 1u << 24 || n == 4));
	check_holes(hole, (uint32_t)n, 65536, known);
}

/* ---- a call whose worker sends all this ---- */

struct calling {
	struct smb_call call;
	unsigned int done;
	bool over;
};

static void on_part(struct smb_call *c, struct smb_answer *a)
{
	CHECK(a->type == SMB_WIRE_ENTRIES && c->request.type == SMB_WIRE_LIST);
	CHECK(!((struct calling *)c)->over);
}

static void on_done(struct smb_call *c, int err, struct smb_answer *a)
{
	struct calling *k = (struct calling *)c;

	CHECK(!k->over && (err < 0 || a));
	k->over = true;
	if (err || c->request.type == SMB_WIRE_LIST)
		return;
	if (c->request.type == SMB_WIRE_READ_)
		CHECK(a->rest_len <= c->request.length);
	if (c->request.type != SMB_WIRE_PUTMETA)
		check_attr(&a->attr);
}

static void send_all(int fd, const struct message *m, unsigned int n)
{
	struct smb_out o = { 0 };

	for (unsigned int i = 0; i < n; i++) {
		o.tag = m[i].len % 16 == 15 ? 7 : 1; /* the call's is 1 */
		smb_out_begin(&o, m[i].type);
		smb_out_bytes(&o, m[i].p, m[i].len);
		CHECK(smb_out_end(&o) == 0);
		if (send(fd, o.p, o.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
	}
	smb_out_free(&o);
}

static void try_call(const struct message *m, unsigned int n, enum smb_wire_type type)
{
	static struct smb_source s = { .config.call_timeout_ms = 1000, .uri.host = "host" };
	struct smb_conn c = { .s = &s };
	struct calling k = {
		.call.request = { .type = type, .path = { "a/b", 3 }, .name = { "n", 1 },
				  .length = 100 },
		.call.part = type == SMB_WIRE_LIST ? on_part : NULL,
		.call.done = on_done,
	};
	uint64_t silent_ms;
	int pair[2], r;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	s.wake = eventfd(0, EFD_CLOEXEC);
	c.fd = pair[0];
	send_all(pair[1], m, n);
	CHECK(shutdown(pair[1], SHUT_WR) == 0);
	r = smb_conn_call(&c, &k.call, &silent_ms);
	CHECK(r == SMB_LOST ? !k.over && c.why[0] : k.over);
	for (const char *p = c.why; *p; p++)
		CHECK(*p >= 0x20 && *p < 0x7f);
	close(pair[0]);
	close(pair[1]);
	close(s.wake);
	smb_out_free(&c.out);
	free(c.in);
}

/* ---- the URI ---- */

static void try_uri(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), why[64] = "";
	struct smb_uri u;

	if (smb_uri_parse(text, &u, why, sizeof(why)) < 0) {
		CHECK(why[0]);
	} else {
		CHECK(u.host[0] && u.share[0] && strlen(u.root) <= STUB_ORIGIN_MAX);
		CHECK(!strchr(u.share, '/') && !strchr(u.root, '\\') && u.root[0] != '/');
		CHECK(!u.root[0] || u.root[strlen(u.root) - 1] != '/');
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum smb_wire_type calls[] = { SMB_WIRE_START,  SMB_WIRE_GETATTR,
						    SMB_WIRE_LOOKUP, SMB_WIRE_LIST,
						    SMB_WIRE_READ_,  SMB_WIRE_GETMETA,
						    SMB_WIRE_GETHOLES, SMB_WIRE_PUTMETA };
	struct fuzz_in in = { data, size };
	struct message m[MESSAGES_MAX];
	unsigned int n = 0;

	try_uri(data, size);
	try_ranges(data, size);
	while (in.left && n < MESSAGES_MAX) {
		m[n].type = (enum smb_wire_type)fuzz_take(&in, 1);
		m[n].p = fuzz_bytes(&in, fuzz_take(&in, 2) % BYTES_MAX, &m[n].len);
		try_request(&m[n]);
		try_answer(&m[n++]);
	}
	for (size_t i = 0; n && i < sizeof(calls) / sizeof(calls[0]); i++)
		try_call(m, n, calls[i]);
	return 0;
}
