// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_put.c - what differs at the server is set there: see smb_put.h.
 *
 * One handle, opened with all the rights that are needed, has everything but streams, which are files of
 * their own.  Attributes come last, for a file that is READONLY cannot be written any more; then a FLUSH,
 * by which all of it is durable.  What the server has made of it is looked at once more.
 */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "libsmb_internal.h"
#include "../libcli/smb/smbXcli_base.h"
#include "libsmb/cli_smb2_fnum.h"

#undef free /* Samba's headers forbid it */

#include "smb_worker/smb_compat.h"
#include "smb_worker/smb_exact_internal.h"
#include "smb_worker/smb_failed.h"
#include "smb_worker/smb_put.h"

#define BASIC_SIZE 40 /* MS-FSCC 2.4.7: four times, attributes, nothing */
#define EA_HEAD	   8 /* MS-FSCC 2.4.15: u32 next, u8 flags, u8 length of the name, u16 of the value */

struct putting {
	struct worker *w;
	const char *path;
	const struct put_want *want;
	struct exact_about is;
	struct cli_state *cli;
	char *there;
	uint16_t file;
	TALLOC_CTX *mem;
};

/* The server's word on the object; unless the connection is lost, or the object is not there. */
static int refused(struct putting *k, NTSTATUS status, const char *what)
{
	if (!smbXcli_conn_is_connected(k->cli->conn) || NT_STATUS_EQUAL(status, NT_STATUS_IO_TIMEOUT))
		return worker_lost(k->w, nt_errstr(status), what, k->path);
	if (NT_STATUS_EQUAL(status, NT_STATUS_OBJECT_NAME_NOT_FOUND) ||
	    NT_STATUS_EQUAL(status, NT_STATUS_OBJECT_PATH_NOT_FOUND))
		return exact_failed(k->w, status, what, k->path);
	worker_refused(k->w, nt_errstr(status), what, k->path);
	if (NT_STATUS_EQUAL(status, NT_STATUS_DISK_FULL) || NT_STATUS_EQUAL(status, NT_STATUS_QUOTA_EXCEEDED))
		return -ENOSPC;
	return NT_STATUS_EQUAL(status, NT_STATUS_ACCESS_DENIED) ||
			       NT_STATUS_EQUAL(status, NT_STATUS_PRIVILEGE_NOT_HELD) ?
		       -EACCES :
		       -EIO;
}

/* ---- what differs ---- */

/* A Samba shows names that begin with a dot as hidden, whatever is stored. */
static uint32_t compared(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return name[0] == '.' ? SMB_ATTR_STORED & ~(uint32_t)FILE_ATTRIBUTE_HIDDEN : SMB_ATTR_STORED;
}

/* MS-FSCC 2.6: a file without any is NORMAL, which is none. */
static bool other_attributes(const char *path, const struct put_want *want, const struct smb_meta_in *is)
{
	if (!want->has_attributes)
		return false;
	return (want->attributes ^ is->attributes) & compared(path) ||
	       (want->create_time && want->create_time != is->create_time);
}

static bool is_data(const struct smb_stream *s)
{
	return !strncmp(s->name, "::", 2);
}

static const struct smb_stream *stream_of(const struct smb_stream *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strequal(list[i].name, name))
			return &list[i];
	return NULL;
}

static bool same_stream(const struct smb_stream *a, const struct smb_stream *b)
{
	return b && a->size == b->size && (!a->size || (b->data && !memcmp(a->data, b->data, (size_t)a->size)));
}

static bool other_streams(const struct put_want *want, const struct smb_meta_in *is)
{
	for (size_t i = 0; i < want->n_streams; i++)
		if (!same_stream(&want->streams[i], stream_of(is->streams, is->n_streams, want->streams[i].name)))
			return true;
	for (size_t i = 0; i < is->n_streams; i++)
		if (!is_data(&is->streams[i]) && !stream_of(want->streams, want->n_streams, is->streams[i].name))
			return true;
	return false;
}

static const struct smb_ea *ea_of(const struct smb_ea *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].len && strequal(list[i].name, name))
			return &list[i];
	return NULL;
}

static bool same_ea(const struct smb_ea *a, const struct smb_ea *b)
{
	return b && a->len == b->len && !memcmp(a->value, b->value, a->len);
}

static bool other_eas(const struct put_want *want, const struct smb_meta_in *is)
{
	for (size_t i = 0; i < want->n_eas; i++)
		if (!same_ea(&want->eas[i], ea_of(is->eas, is->n_eas, want->eas[i].name)))
			return true;
	for (size_t i = 0; i < is->n_eas; i++)
		if (is->eas[i].len && !ea_of(want->eas, want->n_eas, is->eas[i].name))
			return true;
	return false;
}

static bool other_descriptor(const struct put_want *want, const struct exact_about *is)
{
	return want->sd &&
	       (!is->in.sd || !smb_ndr_sd_same(want->sd, want->sd_len, is->in.sd, is->in.sd_len, !is->no_sacl));
}

static uint32_t differences(const char *path, const struct put_want *want, const struct exact_about *is)
{
	return (other_attributes(path, want, &is->in) ? TARGET_ATTRIBUTES : 0) |
	       (other_streams(want, &is->in) ? TARGET_STREAMS : 0) | (other_eas(want, &is->in) ? TARGET_EAS : 0) |
	       (other_descriptor(want, is) ? TARGET_DESCRIPTOR : 0);
}

/* ---- setting it ---- */

static NTSTATUS open_it(struct putting *k, const char *name, uint32_t access, uint32_t disposition, uint32_t how,
			uint16_t *file)
{
	char *whole = talloc_asprintf(k->mem, "%s%s", k->there, name);

	return !whole ? NT_STATUS_NO_MEMORY :
			cli_ntcreate(k->cli, whole, 0, access, 0, SHARE_ALL, disposition, how, 0, file, NULL);
}

/* With the right to restore, an account may set what it is denied. */
static NTSTATUS open_backup(struct putting *k, uint32_t access, uint16_t *file)
{
	return open_it(k, "", access, FILE_OPEN, FILE_OPEN_FOR_BACKUP_INTENT, file);
}

static NTSTATUS set(struct putting *k, uint16_t file, uint8_t type, uint8_t class, const DATA_BLOB *b, uint32_t parts)
{
	return cli_smb2_set_info_fnum(k->cli, file, type, class, b, parts);
}

/* @attributes: as they are to be, none: NORMAL.  Times that are 0 stay. */
static NTSTATUS set_basic(struct putting *k, uint16_t file, uint32_t attributes, uint64_t create_time)
{
	uint8_t bytes[BASIC_SIZE] = { 0 };
	const DATA_BLOB b = { bytes, sizeof(bytes) };

	if (k->want->dir)
		attributes |= FILE_ATTRIBUTE_DIRECTORY;
	SBVAL(bytes, 0, create_time);
	SIVAL(bytes, 32, attributes ? attributes : FILE_ATTRIBUTE_NORMAL);
	return set(k, file, INFO_FILE, CLASS_BASIC, &b, 0);
}

/* A file that cannot be written, as it is. */
static int make_writable(struct putting *k)
{
	uint32_t is = k->is.in.attributes & SMB_ATTR_STORED;
	uint16_t file;
	NTSTATUS status;

	if (k->want->dir || !(is & FILE_ATTRIBUTE_READONLY))
		return 0;
	status = open_backup(k, SEC_FILE_WRITE_ATTRIBUTE, &file);
	if (NT_STATUS_IS_OK(status)) {
		status = set_basic(k, file, is & ~FILE_ATTRIBUTE_READONLY, 0);
		cli_close(k->cli, file);
	}
	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "writing");
}

static int open_object(struct putting *k, uint32_t differs)
{
	uint32_t access = SEC_FILE_WRITE_ATTRIBUTE | SEC_FILE_WRITE_DATA; /* the latter for FLUSH */
	NTSTATUS status;

	if (differs & TARGET_EAS)
		access |= SEC_FILE_WRITE_EA;
	if (differs & TARGET_DESCRIPTOR)
		access |= SEC_STD_WRITE_DAC | SEC_STD_WRITE_OWNER |
			  (k->is.no_sacl ? 0 : SEC_FLAG_SYSTEM_SECURITY);
	status = open_backup(k, access, &k->file);
	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "opening for writing");
}

static int write_stream(struct putting *k, const struct smb_stream *s)
{
	uint16_t file;
	NTSTATUS status = open_it(k, s->name, SEC_FILE_WRITE_DATA, FILE_OVERWRITE_IF, 0, &file);

	if (NT_STATUS_IS_OK(status)) {
		if (s->size)
			status = cli_writeall(k->cli, file, 0, s->data, 0, (size_t)s->size, NULL);
		cli_close(k->cli, file);
	}
	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "writing a stream");
}

static int remove_stream(struct putting *k, const struct smb_stream *s)
{
	uint16_t file;
	NTSTATUS status = open_it(k, s->name, SEC_STD_DELETE, FILE_OPEN, FILE_DELETE_ON_CLOSE, &file);

	if (NT_STATUS_EQUAL(status, NT_STATUS_OBJECT_NAME_NOT_FOUND))
		return 0;
	if (NT_STATUS_IS_OK(status))
		status = cli_close(k->cli, file);
	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "removing a stream");
}

static int put_streams(struct putting *k)
{
	const struct put_want *want = k->want;
	const struct smb_meta_in *is = &k->is.in;
	int r = 0;

	for (size_t i = 0; i < is->n_streams && r == 0; i++)
		if (!is_data(&is->streams[i]) && !stream_of(want->streams, want->n_streams, is->streams[i].name))
			r = remove_stream(k, &is->streams[i]);
	for (size_t i = 0; i < want->n_streams && r == 0; i++) {
		const struct smb_stream *s = &want->streams[i];

		if (!same_stream(s, stream_of(is->streams, is->n_streams, s->name)))
			r = write_stream(k, s);
	}
	return r;
}

/* One at a time; without a value it is removed. */
static int put_ea(struct putting *k, const char *name, const void *value, size_t len)
{
	size_t n = strlen(name);
	DATA_BLOB b = data_blob_talloc_zero(k->mem, EA_HEAD + n + 1 + len);
	NTSTATUS status = NT_STATUS_NO_MEMORY;

	if (n > UINT8_MAX || len > UINT16_MAX)
		return worker_refused(k->w, "it is too long", "an extended attribute", k->path);
	if (b.data) {
		SCVAL(b.data, 5, n);
		SSVAL(b.data, 6, len);
		memcpy(b.data + EA_HEAD, name, n);
		if (len)
			memcpy(b.data + EA_HEAD + n + 1, value, len);
		status = set(k, k->file, INFO_FILE, CLASS_EA, &b, 0);
	}
	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "setting an extended attribute");
}

static int put_eas(struct putting *k)
{
	const struct put_want *want = k->want;
	const struct smb_meta_in *is = &k->is.in;
	int r = 0;

	for (size_t i = 0; i < is->n_eas && r == 0; i++)
		if (is->eas[i].len && !ea_of(want->eas, want->n_eas, is->eas[i].name))
			r = put_ea(k, is->eas[i].name, NULL, 0);
	for (size_t i = 0; i < want->n_eas && r == 0; i++) {
		const struct smb_ea *e = &want->eas[i];

		if (!same_ea(e, ea_of(is->eas, is->n_eas, e->name)))
			r = put_ea(k, e->name, e->value, e->len);
	}
	return r;
}

static int put_descriptor(struct putting *k)
{
	uint32_t parts = SECINFO_OWNER | SECINFO_GROUP | SECINFO_DACL | (k->is.no_sacl ? 0 : SECINFO_SACL);
	DATA_BLOB b = { NULL, 0 };
	void *bytes;
	NTSTATUS status;
	int r = smb_ndr_sd_to_send(k->want->sd, k->want->sd_len, !k->is.no_sacl, &bytes, &b.length);

	if (r < 0)
		return r;
	b.data = bytes;
	status = set(k, k->file, INFO_SECURITY, 0, &b, parts);
	free(bytes);
	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "setting the descriptor");
}

/* Those that are not known here stay as they were, READONLY too. */
static int put_attributes(struct putting *k)
{
	const struct put_want *want = k->want;
	uint32_t attributes = want->has_attributes ? want->attributes : k->is.in.attributes & SMB_ATTR_STORED;
	NTSTATUS status = set_basic(k, k->file, attributes, want->has_attributes ? want->create_time : 0);

	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "setting attributes");
}

static int make_durable(struct putting *k)
{
	const uint64_t *id = file_id(k->cli, k->file); /* cli_flush() speaks SMB1 only */
	NTSTATUS status = !id ? NT_STATUS_INVALID_HANDLE :
				smb2cli_flush(k->cli->conn, (uint32_t)k->cli->timeout, k->cli->smb2.session,
					      k->cli->smb2.tcon, id[0], id[1]);

	return NT_STATUS_IS_OK(status) ? 0 : refused(k, status, "flushing");
}

static int put_all(struct putting *k, uint32_t differs)
{
	int r = make_writable(k);

	if (r == 0)
		r = open_object(k, differs);
	if (r != 0)
		return r;
	if (differs & TARGET_STREAMS)
		r = put_streams(k);
	if (r == 0 && differs & TARGET_EAS)
		r = put_eas(k);
	if (r == 0 && differs & TARGET_DESCRIPTOR)
		r = put_descriptor(k);
	if (r == 0)
		r = put_attributes(k);
	if (r == 0)
		r = make_durable(k);
	cli_close(k->cli, k->file);
	return r;
}

/* ---- both ---- */

static int look(struct putting *k)
{
	int r = exact_about(k->w, k->path, SMB_XATTR_MAX, &k->is);

	if (r != 0)
		return r;
	if (k->is.info.fileid == k->want->fileid && k->is.info.dir == k->want->dir)
		return 0;
	exact_about_free(&k->is);
	worker_lost(k->w, "another object has the path", "attributes", k->path);
	return -ESTALE;
}

static int make_equal(struct putting *k, uint32_t *differs)
{
	NTSTATUS status = exact_resolve(k->w, k->mem, k->path, "", &k->cli, &k->there);
	int r = NT_STATUS_IS_OK(status) ? put_all(k, *differs) : exact_failed(k->w, status, "opening", k->path);

	exact_about_free(&k->is);
	if (r == 0)
		r = look(k);
	if (r == 0)
		*differs = differences(k->path, k->want, &k->is);
	return r;
}

int exact_put(struct worker *w, const char *path, const struct put_want *want, bool only_look,
	      struct target_put *out)
{
	TALLOC_CTX *frame = talloc_stackframe();
	struct putting k = { .w = w, .path = path, .want = want, .mem = frame };
	int r = look(&k);

	if (r == 0)
		*out = (struct target_put){ differences(path, want, &k.is), want->sd != NULL };
	if (r == 0 && out->differs && !only_look)
		r = make_equal(&k, &out->differs);
	exact_about_free(&k.is);
	TALLOC_FREE(frame);
	return r;
}
