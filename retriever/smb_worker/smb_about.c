// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_about.c - what the server knows of one object: see smb_about.h.
 *
 * One open, then FileAllInformation, the descriptor and streams, asked for at once, and
 * extended attributes.  Answers are taken as they came: libsmb's own parsers drop what they
 * do not know.
 */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "libsmb_internal.h"
#include "../libcli/smb/smbXcli_base.h"
#include "libsmb/cli_smb2_fnum.h"
#include "lib/util/tevent_ntstatus.h"

#undef free /* Samba's headers forbid it */

#include "smb_worker/smb_about.h"
#include "smb_worker/smb_exact_internal.h"
#include "smb_worker/smb_failed.h"

#define ANSWER_MAX (128 * 1024) /* more than a descriptor can have */
#define LIST_MAX   4096 /* streams, extended attributes */
#define DATA_MAX   (16u << 20) /* of all streams: one answer to the retriever holds no more */

/* Does the server have no descriptors, streams or extended attributes (for this object)? */
static bool has_none(NTSTATUS s)
{
	return NT_STATUS_EQUAL(s, NT_STATUS_NOT_SUPPORTED) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_NOT_IMPLEMENTED) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_INVALID_DEVICE_REQUEST) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_INVALID_INFO_CLASS) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_INVALID_PARAMETER) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_EAS_NOT_SUPPORTED) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_NO_EAS_ON_FILE) ||
	       NT_STATUS_EQUAL(s, NT_STATUS_NONEXISTENT_EA_ENTRY);
}

static int failed(const struct asking *k, NTSTATUS status, const char *what)
{
	if (k->plain)
		return -EAGAIN;
	return exact_failed(k->w, status, what, k->path);
}

/* A server that sends nonsense: not the object's fault, but no reconnect helps. */
static int nonsense(const struct asking *k, const char *what)
{
	if (k->plain)
		return -EAGAIN;
	worker_lost(k->w, "the server's answer makes no sense", what, k->path);
	return -EBADMSG;
}

static uint32_t most(const struct asking *k)
{
	return MIN(smb2cli_conn_max_trans_size(k->cli->conn), ANSWER_MAX);
}

static NTSTATUS query(const struct asking *k, uint8_t type, uint8_t class, uint32_t parts,
		      DATA_BLOB *out)
{
	return cli_smb2_query_info_fnum(k->cli, k->file, type, class, most(k), NULL, parts, 0,
					k->out->memory, out);
}

static NTSTATUS open_plainly(struct asking *k, const char *there, uint32_t access, uint32_t how,
			     uint16_t *file)
{
	return cli_ntcreate(k->cli, there, 0, access, 0, SHARE_ALL, FILE_OPEN, how, 0, file, NULL);
}

/* With backup intent: an account with the right to make backups may read what it is denied. */
static NTSTATUS open_as(struct asking *k, const char *there, uint32_t access, uint16_t *file)
{
	return open_plainly(k, there, access, FILE_OPEN_FOR_BACKUP_INTENT, file);
}

/* With backup intent only after a denial: Samba 4.22 refuses to open streams that way. */
static NTSTATUS open_stream(struct asking *k, const char *there, uint16_t *file)
{
	const uint32_t access = SEC_FILE_READ_DATA | SEC_FILE_READ_ATTRIBUTE;
	NTSTATUS status = open_plainly(k, there, access, 0, file), again;

	if (!NT_STATUS_EQUAL(status, NT_STATUS_ACCESS_DENIED))
		return status;
	again = open_as(k, there, access, file);
	return has_none(again) ? status : again;
}

/* Open the object, so that its auditing entries can be read if we have the right to that. */
static int open_object(struct asking *k)
{
	NTSTATUS status = exact_resolve(k->w, k->out->memory, k->path, "", &k->cli, &k->there);

	if (!NT_STATUS_IS_OK(status))
		return failed(k, status, "opening");
	status = open_as(k, k->there, ABOUT_LOOK | SEC_FLAG_SYSTEM_SECURITY, &k->file);
	if (NT_STATUS_EQUAL(status, NT_STATUS_PRIVILEGE_NOT_HELD) ||
	    NT_STATUS_EQUAL(status, NT_STATUS_ACCESS_DENIED)) {
		k->out->no_sacl = true;
		status = open_as(k, k->there, ABOUT_LOOK, &k->file);
	}
	return NT_STATUS_IS_OK(status) ? 0 : failed(k, status, "opening the descriptor");
}

/* May so many questions be under way at once?  Each costs a credit for every 64 KiB that
 * its answer may have; a call without credits fails. */
static bool may_ask(const struct asking *k, unsigned int n)
{
	return smb2cli_conn_get_cur_credits(k->cli->conn) >= n * ((most(k) + 65535) / 65536);
}

/*
 * All questions are sent before the first answer is waited for: one round trip instead
 * of three.  Every answer is waited for, even if another one was an error: libsmb gives up a
 * connection on which an answer comes that no request waits for.
 */
static int ask_at_once(struct asking *k)
{
	const struct {
		uint8_t type, class;
		uint32_t parts;
	} questions[Q_AT_ONCE] = {
		[Q_ALL] = { INFO_FILE, CLASS_ALL, 0 },
		[Q_SECURITY] = { INFO_SECURITY, 0,
				 SECINFO_OWNER | SECINFO_GROUP | SECINFO_DACL |
					 (k->out->no_sacl ? 0 : SECINFO_SACL) },
		[Q_STREAMS] = { INFO_FILE, CLASS_STREAMS, 0 },
	};
	TALLOC_CTX *frame = talloc_stackframe();
	struct tevent_context *ev = tevent_context_init(frame);
	struct tevent_req *req[Q_AT_ONCE] = { NULL };
	bool at_once = may_ask(k, Q_AT_ONCE);
	unsigned int sent = 0, n;
	int r = ev ? 0 : -ENOMEM;

	for (n = 0; n < Q_AT_ONCE && r == 0; n++) {
		struct about_answer *a = &k->answers[n];

		for (; sent < Q_AT_ONCE && (at_once || sent == n) && r == 0; sent++) {
			req[sent] = cli_smb2_query_info_fnum_send(
				frame, ev, k->cli, k->file, questions[sent].type,
				questions[sent].class, most(k), NULL, questions[sent].parts, 0);
			r = req[sent] ? 0 : -ENOMEM;
		}
		if (req[n] && tevent_req_poll_ntstatus(req[n], ev, &a->status))
			a->status = cli_smb2_query_info_fnum_recv(req[n], k->out->memory, &a->b);
	}
	TALLOC_FREE(frame);
	return r;
}

int about_all(struct asking *k, bool *eas)
{
	struct smb_meta_in *in = &k->out->in;
	NTSTATUS status = k->answers[Q_ALL].status;
	DATA_BLOB b = k->answers[Q_ALL].b;

	if (!NT_STATUS_IS_OK(status))
		return failed(k, status, "attributes");
	if (b.length < 76)
		return nonsense(k, "attributes");
	in->create_time = BVAL(b.data, 0);
	in->access_time = BVAL(b.data, 8);
	in->write_time = BVAL(b.data, 16);
	in->change_time = BVAL(b.data, 24);
	in->attributes = IVAL(b.data, 32);
	exact_fill(&k->out->info, in->attributes, (off_t)BVAL(b.data, 48), BVAL(b.data, 64),
		   exact_time(b.data), exact_time(b.data + 8), exact_time(b.data + 16),
		   exact_time(b.data + 24));
	*eas = IVAL(b.data, 72) != 0;
	return 0;
}

/* Neither whose it is, nor who may do what?  Taken as it stands, everybody might do everything. */
static bool says_nothing(const DATA_BLOB *b)
{
	return b->length >= 20 && !IVAL(b->data, 4) && !IVAL(b->data, 8) &&
	       !(SVAL(b->data, 2) & SEC_DESC_DACL_PRESENT);
}

/* ksmbd leaves out all the rest, too, if auditing entries are asked for, and calls it an answer. */
int about_descriptor(struct asking *k)
{
	NTSTATUS status = k->answers[Q_SECURITY].status;
	DATA_BLOB b = k->answers[Q_SECURITY].b;

	if (NT_STATUS_IS_OK(status) && !k->out->no_sacl && says_nothing(&b)) {
		if (k->plain)
			return -EAGAIN;
		k->out->no_sacl = true;
		status = query(k, INFO_SECURITY, 0, SECINFO_OWNER | SECINFO_GROUP | SECINFO_DACL,
			       &b);
	}
	if (has_none(status))
		return 0;
	if (!NT_STATUS_IS_OK(status))
		return failed(k, status, "the descriptor");
	if (!b.length || says_nothing(&b))
		return nonsense(k, "the descriptor");
	k->out->in.sd = b.data;
	k->out->in.sd_len = b.length;
	return 0;
}

int exact_chained(const DATA_BLOB *b, size_t fixed, size_t *at, const uint8_t **entry,
		  size_t *room)
{
	size_t left = b->length - *at, next;

	if (!left)
		return 0;
	if (left < fixed)
		return -1;
	*entry = b->data + *at;
	*room = left - fixed;
	next = IVAL(*entry, 0);
	if (next && (next < fixed || next > left))
		return -1;
	*at = next ? *at + next : b->length;
	return 1;
}

char *exact_name(TALLOC_CTX *mem, const uint8_t *p, size_t len)
{
	char *name = NULL, *whole;
	size_t size = 0;

	if (!convert_string_talloc(mem, CH_UTF16LE, CH_UTF8, p, len, &name, &size))
		return NULL;
	whole = talloc_strndup(mem, name, size);
	TALLOC_FREE(name);
	if (whole && strlen(whole) != size) { /* there is a NUL in it */
		while (size && !whole[size - 1])
			size--;
		return strlen(whole) == size ? whole : NULL;
	}
	return whole;
}

/* Fewer bytes than @length only at the end.  @size: all of it, NULL: nobody asks. */
static int read_bytes(struct asking *k, const char *name, uint64_t offset, char *buf,
		      size_t length, size_t *done, uint64_t *size)
{
	char *there = talloc_asprintf(k->out->memory, "%s%s", k->there, name);
	NTSTATUS status;
	uint16_t file;
	off_t end = 0;
	size_t n;

	*done = 0;
	if (!there)
		return -ENOMEM;
	status = open_stream(k, there, &file);
	TALLOC_FREE(there);
	if (!NT_STATUS_IS_OK(status))
		return failed(k, status, "opening a stream");
	do {
		n = 0;
		if (*done < length)
			status = cli_read(k->cli, file, buf + *done, (off_t)(offset + *done),
					  length - *done, &n);
		*done += NT_STATUS_IS_OK(status) ? n : 0;
	} while (NT_STATUS_IS_OK(status) && n);
	if (NT_STATUS_EQUAL(status, NT_STATUS_END_OF_FILE))
		status = NT_STATUS_OK;
	if (NT_STATUS_IS_OK(status) && size)
		status = cli_qfileinfo_basic(k->cli, file, NULL, &end, NULL, NULL, NULL, NULL,
					     NULL);
	cli_close(k->cli, file);
	if (size)
		*size = (uint64_t)end;
	return NT_STATUS_IS_OK(status) ? 0 : failed(k, status, "reading a stream");
}

static int read_stream(struct asking *k, struct smb_stream *s)
{
	size_t size = (size_t)s->size, done;
	char *data = talloc_array(k->out->memory, char, size + 1);
	int r = data ? read_bytes(k, s->name, 0, data, size, &done, NULL) : -ENOMEM;

	if (r == 0 && done < size) {
		worker_lost(k->w, "it is shorter than it was", "a stream", k->path);
		r = -EIO;
	}
	s->data = data;
	return r;
}

/* u32 next, u32 length of the name, u64 size, u64 allocated, name */
int about_streams(struct asking *k, bool *by_path)
{
	struct smb_meta_in *in = &k->out->in;
	struct smb_stream *list = NULL;
	uint64_t all = 0;
	const uint8_t *e;
	size_t at = 0, room;
	NTSTATUS status = k->answers[Q_STREAMS].status;
	DATA_BLOB b = k->answers[Q_STREAMS].b;
	int r;

	if (has_none(status))
		return 0;
	if (!NT_STATUS_IS_OK(status))
		return failed(k, status, "streams");
	while ((r = exact_chained(&b, 24, &at, &e, &room)) > 0) {
		struct smb_stream *s;

		if (IVAL(e, 4) > room || in->n_streams == LIST_MAX)
			return nonsense(k, "streams");
		list = talloc_realloc(k->out->memory, list, struct smb_stream, in->n_streams + 1);
		if (!list)
			return -ENOMEM;
		in->streams = list;
		s = &list[in->n_streams++];
		*s = (struct smb_stream){ exact_name(k->out->memory, e + 24, IVAL(e, 4)), BVAL(e, 8),
					  NULL };
		if (!s->name)
			return nonsense(k, "streams");
	}
	if (r < 0)
		return nonsense(k, "streams");
	for (size_t i = 0; i < in->n_streams; i++) {
		if (!strncmp(list[i].name, "::", 2) || !k->stream_max ||
		    list[i].size > k->stream_max)
			continue;
		all += list[i].size;
		if (all > DATA_MAX) {
			worker_lost(k->w, "more than 16 MiB of them", "streams", k->path);
			return -EBADMSG;
		}
		*by_path = true;
		if (k->plain)
			return -EAGAIN;
		r = read_stream(k, &list[i]);
		if (r != 0)
			return r;
	}
	return 0;
}

/* Streams are opened by path, all else was asked of one open object: is that still at the path? */
static int look_again(const struct asking *k)
{
	const struct exact_info *was = &k->out->info;
	struct exact_info is;
	int r = exact_stat(k->w, k->path, &is);

	if (r != 0)
		return r == -ENOENT ? -ESTALE : r;
	if (is.fileid == was->fileid && is.dir == was->dir && is.size == was->size &&
	    timespec_compare(&is.mtime, &was->mtime) == 0 &&
	    timespec_compare(&is.ctime, &was->ctime) == 0)
		return 0;
	worker_lost(k->w, "another object, or another version", "streams", k->path);
	return -ESTALE;
}

/* u32 next, u8 flags, u8 length of the name, u16 length of the value, name, NUL, value */
int about_eas(struct asking *k)
{
	struct smb_meta_in *in = &k->out->in;
	struct smb_ea *list = NULL;
	const uint8_t *e;
	NTSTATUS status = k->answers[Q_EAS].status;
	DATA_BLOB b = k->answers[Q_EAS].b;
	size_t at = 0, room;
	int r;

	if (has_none(status))
		return 0;
	if (!NT_STATUS_IS_OK(status))
		return failed(k, status, "extended attributes");
	while ((r = exact_chained(&b, 8, &at, &e, &room)) > 0) {
		size_t name = CVAL(e, 5), value = SVAL(e, 6);

		if (name + 1 + value > room || e[8 + name] || memchr(e + 8, 0, name) ||
		    in->n_eas == LIST_MAX)
			return nonsense(k, "extended attributes");
		list = talloc_realloc(k->out->memory, list, struct smb_ea, in->n_eas + 1);
		if (!list)
			return -ENOMEM;
		in->eas = list;
		list[in->n_eas++] = (struct smb_ea){ (const char *)e + 8, e + 8 + name + 1, value };
	}
	return r < 0 ? nonsense(k, "extended attributes") : 0;
}

int exact_about(struct worker *w, const char *path, uint64_t stream_max, struct exact_about *out)
{
	struct asking k = { .w = w, .path = path, .stream_max = stream_max, .out = out };
	TALLOC_CTX *frame = talloc_stackframe();
	bool eas = false, by_path = false;
	int r;

	memset(out, 0, sizeof(*out));
	out->memory = talloc_new(NULL);
	r = out->memory ? open_object(&k) : -ENOMEM;
	if (r == 0) {
		r = ask_at_once(&k);
		if (r == 0)
			r = about_all(&k, &eas);
		if (r == 0)
			r = about_descriptor(&k);
		if (r == 0)
			r = about_streams(&k, &by_path);
		if (r == 0 && eas) {
			k.answers[Q_EAS].status = query(&k, INFO_FILE, CLASS_EA, 0, &k.answers[Q_EAS].b);
			r = about_eas(&k);
		}
		if (r == 0 && by_path)
			r = look_again(&k);
		cli_close(k.cli, k.file);
	}
	TALLOC_FREE(frame);
	if (r != 0)
		exact_about_free(out);
	return r;
}

int exact_stream(struct worker *w, const char *path, const char *name, uint64_t offset, void *buf,
		 size_t length, size_t *done, uint64_t *size)
{
	struct exact_about out = { .memory = talloc_new(NULL) };
	struct asking k = { .w = w, .path = path, .out = &out };
	TALLOC_CTX *frame = talloc_stackframe();
	NTSTATUS status = NT_STATUS_NO_MEMORY;
	int r;

	if (out.memory)
		status = exact_resolve(w, out.memory, path, "", &k.cli, &k.there);
	r = NT_STATUS_IS_OK(status) ? read_bytes(&k, name, offset, buf, length, done, size) :
				      failed(&k, status, "opening");
	TALLOC_FREE(frame);
	exact_about_free(&out);
	return r;
}

void exact_about_free(struct exact_about *a)
{
	talloc_free(a->memory);
	memset(a, 0, sizeof(*a));
}
