// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_exact.c - Samba's libsmb on libsmbclient's own connection: see smb_exact.h. */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "libsmb_internal.h"
#include "../libcli/smb/smbXcli_base.h"
#include "trans2.h"

#undef free /* Samba's headers forbid it */

#include "smb_worker/smb_compat.h"
#include "smb_worker/smb_exact_internal.h"
#include "smb_worker/smb_failed.h"

#define ALL_KINDS (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_SYSTEM | FILE_ATTRIBUTE_HIDDEN)

/* Statuses that are the server's word on an object; any other one is the connection's. */
static const struct {
	NTSTATUS status;
	int error;
} finals[] = {
	{ NT_STATUS_OBJECT_NAME_NOT_FOUND, ENOENT },
	{ NT_STATUS_OBJECT_PATH_NOT_FOUND, ENOENT },
	{ NT_STATUS_NO_SUCH_FILE, ENOENT },
	{ NT_STATUS_DELETE_PENDING, ENOENT },
	{ NT_STATUS_NOT_A_DIRECTORY, ENOTDIR },
	{ NT_STATUS_FILE_IS_A_DIRECTORY, EISDIR },
	{ NT_STATUS_ACCESS_DENIED, EACCES },
	{ NT_STATUS_STOPPED_ON_SYMLINK, EACCES },
	{ NT_STATUS_SHARING_VIOLATION, EBUSY },
	{ NT_STATUS_NO_MEMORY, ENOMEM },
	{ NT_STATUS_NAME_TOO_LONG, ENAMETOOLONG },
	{ NT_STATUS_FILE_LOCK_CONFLICT, EBUSY },
	{ NT_STATUS_NOT_SUPPORTED, EIO },
	{ NT_STATUS_NOT_IMPLEMENTED, EIO },
	{ NT_STATUS_INVALID_PARAMETER, EIO },
	{ NT_STATUS_INVALID_DEVICE_REQUEST, EIO },
	{ NT_STATUS_INVALID_INFO_CLASS, EIO },
	{ NT_STATUS_IO_REPARSE_TAG_NOT_HANDLED, EIO },
	{ NT_STATUS_DATA_ERROR, EIO },
	{ NT_STATUS_CRC_ERROR, EIO },
	{ NT_STATUS_FILE_CORRUPT_ERROR, EIO },
};

int exact_failed(struct worker *w, NTSTATUS status, const char *what, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(finals); i++)
		if (NT_STATUS_EQUAL(status, finals[i].status))
			return finals[i].error == EIO ?
				       worker_refused(w, nt_errstr(status), what, path) :
				       worker_failed(w, finals[i].error, what, path);
	return worker_lost(w, nt_errstr(status), what, path);
}

static struct timespec time_of(struct timespec t)
{
	/* a mark of Samba's for "none" */
	return t.tv_nsec < 0 || t.tv_nsec > 999999999 ? (struct timespec){ 0 } : t;
}

struct timespec exact_time_of(uint64_t nttime)
{
	return time_of(nt_time_to_full_timespec(nttime));
}

struct timespec exact_time(const uint8_t *p)
{
	return exact_time_of(BVAL(p, 0));
}

static struct cli_state *connection(SMBCCTX *c)
{
	return c->internal->servers ? c->internal->servers->cli : NULL;
}

bool exact_encrypt(SMBCCTX *c)
{
	struct cli_state *cli = connection(c);

	return cli && smbXcli_conn_protocol(cli->conn) >= PROTOCOL_SMB3_00 &&
	       NT_STATUS_IS_OK(smb2cli_session_encryption_on(cli->smb2.session));
}

bool exact_is_guest(SMBCCTX *c)
{
	struct cli_state *cli = connection(c);

	return !cli || smbXcli_conn_protocol(cli->conn) < PROTOCOL_SMB2_02 ||
	       smbXcli_session_is_guest(cli->smb2.session);
}

NTSTATUS exact_resolve(struct worker *w, TALLOC_CTX *mem, const char *path, const char *name,
		       struct cli_state **cli, char **there)
{
	SMBCCTX *c = worker_context(w);
	char *p = talloc_asprintf(mem, "\\%s%s%s", path, *path && *name ? "/" : "", name);

	if (!p)
		return NT_STATUS_NO_MEMORY;
	for (char *s = p; *s; s++)
		if (*s == '/')
			*s = '\\';
	if (!connection(c))
		return NT_STATUS_CONNECTION_DISCONNECTED;
	return cli_resolve_path(mem, "", c->internal->creds, connection(c), p, cli, there);
}

/* ---- look-ups: listings with the name as their pattern ---- */

struct finding {
	const char *name;
	bool found;
	struct exact_info *out;
};

static NTSTATUS on_found(struct file_info *f, const char *mask, void *arg)
{
	struct finding *k = arg;

	if (strcmp(f->name, k->name)) /* not one that differs by case, nor by a short name */
		return NT_STATUS_OK;
	k->found = true;
	exact_fill(k->out, f->attr, (off_t)f->size, f->ino, f->btime_ts, f->atime_ts, f->mtime_ts,
		   f->ctime_ts);
	return NT_STATUS_OK;
}

static NTSTATUS find(struct worker *w, const char *path, struct finding *k)
{
	TALLOC_CTX *frame = talloc_stackframe();
	struct cli_state *cli;
	char *there;
	NTSTATUS status = exact_resolve(w, frame, path, k->name, &cli, &there);

	if (NT_STATUS_IS_OK(status))
		status = cli_list(cli, there, ALL_KINDS, on_found, k);
	TALLOC_FREE(frame);
	return status;
}

/* Does @name mean more than itself to a server: patterns, streams, other directories? */
static bool is_special(const char *name)
{
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || strchr("\\/:*?\"<>|", *p))
			return true;
	return !*name || ISDOT(name) || ISDOTDOT(name);
}

static bool is_utf8(const char *name)
{
	char *copy;
	size_t size;
	bool ok = convert_string_talloc(NULL, CH_UTF8, CH_UTF16LE, name, strlen(name), &copy, &size);

	if (ok)
		TALLOC_FREE(copy);
	return ok;
}

int exact_find(struct worker *w, const char *path, const char *name, struct exact_info *out)
{
	struct finding f = { name, false, out };
	NTSTATUS status;

	if (is_special(name) || !is_utf8(name))
		return worker_absent(w, path, name);
	status = find(w, path, &f);
	if (NT_STATUS_IS_OK(status) || NT_STATUS_EQUAL(status, NT_STATUS_NO_SUCH_FILE))
		return f.found ? 0 : worker_absent(w, path, name);
	/* Windows says this of a missing name, Samba also of a missing directory: which is it? */
	if (NT_STATUS_EQUAL(status, NT_STATUS_OBJECT_NAME_NOT_FOUND)) {
		struct exact_info dir;
		int r = exact_stat(w, path, &dir);

		return r ? (r == -ENOENT ? -ESTALE : r) : worker_absent(w, path, name);
	}
	if (NT_STATUS_EQUAL(status, NT_STATUS_OBJECT_NAME_INVALID))
		return worker_absent(w, path, name);
	return exact_failed(w, status, "look-up in", path);
}

void exact_fill(struct exact_info *out, uint32_t attr, off_t size, SMB_INO_T ino,
		struct timespec b, struct timespec a, struct timespec m, struct timespec c)
{
	*out = (struct exact_info){
		.dir = attr & FILE_ATTRIBUTE_DIRECTORY,
		.attributes = attr,
		.size = (uint64_t)size,
		.fileid = ino,
		.btime = time_of(b),
		.atime = time_of(a),
		.mtime = time_of(m),
		.ctime = time_of(c),
	};
}

int exact_stat(struct worker *w, const char *path, struct exact_info *out)
{
	TALLOC_CTX *frame = talloc_stackframe();
	struct timespec b = { 0 }, a = { 0 }, m = { 0 }, c = { 0 };
	struct cli_state *cli;
	SMB_INO_T ino = 0;
	uint32_t attr = 0;
	off_t size = 0;
	char *there;
	NTSTATUS status = exact_resolve(w, frame, path, "", &cli, &there);

	if (NT_STATUS_IS_OK(status))
		status = compat_stat(cli, there, &b, &a, &m, &c, &size, &attr, &ino);
	TALLOC_FREE(frame);
	if (!NT_STATUS_IS_OK(status))
		return exact_failed(w, status, "attributes", path);
	exact_fill(out, attr, size, ino, b, a, m, c);
	return 0;
}

int exact_fstat(struct worker *w, const char *path, SMBCFILE *f, struct exact_info *out)
{
	struct timespec b = { 0 }, a = { 0 }, m = { 0 }, c = { 0 };
	SMB_INO_T ino = 0;
	uint32_t attr = 0;
	off_t size = 0;
	NTSTATUS status = cli_qfileinfo_basic(f->targetcli, f->cli_fd, &attr, &size, &b, &a, &m,
					      &c, &ino);

	if (!NT_STATUS_IS_OK(status))
		return exact_failed(w, status, "attributes of open", path);
	exact_fill(out, attr, size, ino, b, a, m, c);
	return 0;
}

/* The answer @status to a question that the server need not know. */
static int ranges_failed(struct worker *w, NTSTATUS status, SMBCFILE *f, const char *path)
{
	if (NT_STATUS_EQUAL(status, STATUS_BUFFER_OVERFLOW) ||
	    NT_STATUS_EQUAL(status, NT_STATUS_BUFFER_TOO_SMALL))
		return -EMSGSIZE;
	worker_lost(w, nt_errstr(status), "holes", path);
	return NT_STATUS_EQUAL(status, NT_STATUS_IO_TIMEOUT) ||
			       !smbXcli_conn_is_connected(f->targetcli->conn) ?
		       WORKER_LOST :
		       -EOPNOTSUPP;
}

int exact_ranges(struct worker *w, const char *path, SMBCFILE *f, uint64_t offset, uint64_t length,
		 void *out, size_t size, size_t *len)
{
	TALLOC_CTX *frame = talloc_stackframe();
	DATA_BLOB question = data_blob_talloc(frame, NULL, 16), answer = data_blob_null;
	NTSTATUS status = NT_STATUS_NO_MEMORY;

	if (question.data) {
		SBVAL(question.data, 0, offset);
		SBVAL(question.data, 8, length);
		status = smbXcli_conn_protocol(f->targetcli->conn) < PROTOCOL_SMB2_02 ?
				 NT_STATUS_NOT_SUPPORTED :
				 compat_fsctl(f->targetcli, (uint16_t)f->cli_fd,
					      FSCTL_QUERY_ALLOCATED_RANGES, &question,
					      (uint32_t)size, frame, &answer);
	}
	*len = answer.length;
	if (NT_STATUS_IS_OK(status) && answer.length > size)
		status = STATUS_BUFFER_OVERFLOW;
	if (NT_STATUS_IS_OK(status) && answer.length)
		memcpy(out, answer.data, answer.length);
	TALLOC_FREE(frame);
	return NT_STATUS_IS_OK(status) ? 0 : ranges_failed(w, status, f, path);
}
