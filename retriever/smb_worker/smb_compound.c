// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_compound.c - one object, one message (MS-SMB2 3.2.4.1.4, related requests):
 *
 *   CREATE                  of what follows
 *   QUERY_INFO              descriptor
 *   QUERY_INFO              streams
 *   READ                    if bytes are wanted
 *   QUERY_INFO              FileAllInformation, after the READ
 *   CLOSE
 *
 * libsmb's calls keep books of open files, which are not wanted here: what is open is closed in the same
 * message.  The requests are made as MS-SMB2 2.2.13, 2.2.37, 2.2.19 and 2.2.15 have them.
 */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "../libcli/smb/smbXcli_base.h"
#include "lib/util/tevent_ntstatus.h"

#undef free /* Samba's headers forbid it */

#include "smb_worker/smb_compound.h"

enum { CREATE, SECURITY, STREAMS, READ, ALL, CLOSE, MEMBERS };

#define FIXED_MAX 56
#define RELATED	  UINT64_MAX /* both halves of a file id: what the CREATE before has opened */

struct member {
	struct state *state;
	unsigned int which;
	uint8_t fixed[FIXED_MAX];
};

struct state {
	struct tevent_req *req;
	struct compound *c;
	struct tevent_context *ev;
	uint8_t pad[1]; /* a body has a byte behind its fixed part, at least */
	struct utf16 {
		uint8_t *p;
		size_t len;
	} name;
	unsigned int waits;
	struct member member[MEMBERS];
};

static const struct {
	uint16_t command, size, fixed, answer; /* sizes as in StructureSize; of the body that is sent */
} what[MEMBERS] = {
	[CREATE] = { SMB2_OP_CREATE, 57, 56, 0x59 },	[SECURITY] = { SMB2_OP_GETINFO, 41, 40, 0x09 },
	[STREAMS] = { SMB2_OP_GETINFO, 41, 40, 0x09 },	[READ] = { SMB2_OP_READ, 49, 48, 0x11 },
	[ALL] = { SMB2_OP_GETINFO, 41, 40, 0x09 },	[CLOSE] = { SMB2_OP_CLOSE, 24, 24, 0x3c },
};

static bool is_asked(const struct compound *c, unsigned int which)
{
	return which != READ || c->want;
}

unsigned int compound_credits(const struct compound *c)
{
	return c->want ? MEMBERS : MEMBERS - 1;
}

/* ---- requests ---- */

static void put_create(const struct state *s, uint8_t *p)
{
	SIVAL(p, 4, 2); /* impersonation */
	SIVAL(p, 24, s->c->access);
	SIVAL(p, 32, SHARE_ALL);
	SIVAL(p, 36, FILE_OPEN);
	SIVAL(p, 40, s->c->options);
	SSVAL(p, 44, SMB2_HDR_BODY + what[CREATE].fixed);
	SSVAL(p, 46, (uint16_t)s->name.len);
}

static void put_query(const struct state *s, uint8_t type, uint8_t class, uint32_t parts, uint8_t *p)
{
	SCVAL(p, 2, type);
	SCVAL(p, 3, class);
	SIVAL(p, 4, s->c->most);
	SIVAL(p, 16, parts);
	SBVAL(p, 24, RELATED);
	SBVAL(p, 32, RELATED);
}

static void put(struct state *s, unsigned int which)
{
	uint8_t *p = s->member[which].fixed;

	SSVAL(p, 0, what[which].size);
	switch (which) {
	case CREATE:
		put_create(s, p);
		break;
	case SECURITY:
		put_query(s, INFO_SECURITY, 0, s->c->parts, p);
		break;
	case STREAMS:
		put_query(s, INFO_FILE, CLASS_STREAMS, 0, p);
		break;
	case ALL:
		put_query(s, INFO_FILE, CLASS_ALL, 0, p);
		break;
	case READ:
		SCVAL(p, 2, SMB2_HDR_BODY + 16); /* where the data are wanted */
		SIVAL(p, 4, s->c->want);
		SBVAL(p, 16, RELATED);
		SBVAL(p, 24, RELATED);
		break;
	default:
		SBVAL(p, 8, RELATED);
		SBVAL(p, 16, RELATED);
	}
}

/* How many bytes its answer may have. */
static uint32_t room(const struct compound *c, unsigned int which)
{
	return which == READ ? c->want : which == CREATE || which == CLOSE ? 0 : c->most;
}

static struct tevent_req *member_req(struct state *s, unsigned int which)
{
	const struct cli_state *cli = s->c->cli;
	const struct utf16 pad = { s->pad, sizeof(s->pad) }, none = { NULL, 0 };
	struct utf16 behind = which == CREATE ? s->name : which == CLOSE ? none : pad;

	if (which == CREATE && !behind.len)
		behind = pad;
	put(s, which);
	return smb2cli_req_create(s, s->ev, cli->conn, what[which].command,
				  which == CREATE ? 0 : SMB2_HDR_FLAG_CHAINED, 0, (uint32_t)cli->timeout,
				  cli->smb2.tcon, cli->smb2.session, s->member[which].fixed,
				  what[which].fixed, behind.p, (uint32_t)behind.len, room(s->c, which));
}

/* ---- answers ---- */

/* @data of @len bytes, which begin @at bytes from the header, are in the answer's rest. */
static bool take(TALLOC_CTX *mem, const struct iovec *rest, size_t before, size_t at, size_t len, DATA_BLOB *out)
{
	*out = (DATA_BLOB){ 0 };
	if (!len)
		return true;
	if (at < before || at - before > rest->iov_len || len > rest->iov_len - (at - before))
		return false;
	*out = data_blob_talloc(mem, (const uint8_t *)rest->iov_base + (at - before), len);
	return out->data != NULL;
}

static void take_opened(struct compound *c, const uint8_t *body)
{
	c->accessed = BVAL(body, 16);
	c->written = BVAL(body, 24);
	c->size = BVAL(body, 48);
}

static NTSTATUS take_answer(struct compound *c, unsigned int which, const struct iovec *iov, DATA_BLOB *out)
{
	const uint8_t *body = iov[1].iov_base;
	size_t fixed = what[which].answer - 1u, before = SMB2_HDR_BODY + fixed;
	bool ok = true;

	if (iov[1].iov_len < fixed)
		return NT_STATUS_INVALID_NETWORK_RESPONSE;
	if (which == CREATE)
		take_opened(c, body);
	else if (which == READ)
		ok = take(c->memory, &iov[2], before, CVAL(body, 2), IVAL(body, 4), out);
	else if (which != CLOSE)
		ok = take(c->memory, &iov[2], before, SVAL(body, 2), IVAL(body, 4), out);
	return ok ? NT_STATUS_OK : NT_STATUS_INVALID_NETWORK_RESPONSE;
}

static void keep(struct compound *c, unsigned int which, NTSTATUS status, DATA_BLOB b)
{
	static const unsigned int question[MEMBERS] = { [SECURITY] = Q_SECURITY, [STREAMS] = Q_STREAMS, [ALL] = Q_ALL };

	switch (which) {
	case CREATE:
		c->opened = status;
		break;
	case READ:
		c->read = status;
		c->bytes = b;
		break;
	case CLOSE:
		break;
	default:
		c->answers[question[which]] = (struct about_answer){ status, b };
	}
}

static void on_answer(struct tevent_req *sub)
{
	struct member *m = tevent_req_callback_data_void(sub);
	struct state *s = m->state;
	const struct smb2cli_req_expected_response expected[] = { { NT_STATUS_OK, what[m->which].answer } };
	struct iovec *iov = NULL;
	DATA_BLOB b = { 0 };
	NTSTATUS status = smb2cli_req_recv(sub, s, &iov, expected, 1);

	if (NT_STATUS_IS_OK(status))
		status = take_answer(s->c, m->which, iov, &b);
	keep(s->c, m->which, status, b);
	TALLOC_FREE(sub);
	if (--s->waits == 0)
		tevent_req_done(s->req);
}

void compound_recv(struct tevent_req *req)
{
	tevent_req_received(req);
}

/* ---- */

static bool prepare(struct state *s)
{
	const char *name = s->c->there;
	struct utf16 *out = &s->name;

	while (*name == '\\')
		name++;
	if (!*name)
		return true;
	return convert_string_talloc(s, CH_UNIX, CH_UTF16, name, strlen(name), &out->p, &out->len) &&
	       out->len <= UINT16_MAX;
}

static bool submit(struct state *s)
{
	struct tevent_req *all[MEMBERS];
	int n = 0;

	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct member *m = &s->member[i];

		m->state = s;
		m->which = i;
		if (!is_asked(s->c, i))
			continue;
		all[n] = member_req(s, i);
		if (!all[n])
			return false;
		tevent_req_set_callback(all[n++], on_answer, m);
	}
	s->waits = (unsigned int)n;
	return NT_STATUS_IS_OK(smb2cli_req_compound_submit(all, n));
}

struct tevent_req *compound_send(TALLOC_CTX *mem, struct tevent_context *ev, struct compound *c)
{
	struct state *s;
	struct tevent_req *req = tevent_req_create(mem, &s, struct state);

	if (!req)
		return NULL;
	s->req = req;
	s->c = c;
	s->ev = ev;
	c->opened = c->read = NT_STATUS_INTERNAL_ERROR;
	c->bytes = (DATA_BLOB){ 0 };
	if (!prepare(s) || !submit(s))
		TALLOC_FREE(req);
	return req;
}
