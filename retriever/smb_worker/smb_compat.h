/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_compat.h - what differs between the Sambas whose libsmb the worker is built with: 4.17
 * (Debian 12) and 4.22 (Debian 13).  POSTCOPY_SAMBA_VFS is the number of the VFS interface, by
 * which vfs_stub/compat.h tells them apart, too.
 *
 * All other files are written for the newer one.
 */
#ifndef SMB_COMPAT_H
#define SMB_COMPAT_H

#include "lib/util/idtree.h"

/*
 * What libsmb keeps of an open file, by number, begins with two numbers, in both
 * (cli_smb2_fnum.c); would they be others, the server had no such file open.
 */
static inline const uint64_t *file_id(struct cli_state *cli, uint16_t file)
{
	return cli->smb2.open_handles ? idr_find(cli->smb2.open_handles, file) : NULL;
}

/* The next entries of an open directory, FileIdBothDirectoryInformation. */
static inline NTSTATUS compat_entries(struct cli_state *cli, uint16_t dir, uint32_t most,
				      TALLOC_CTX *mem, DATA_BLOB *out)
{
	const uint64_t *id = file_id(cli, dir);
	uint32_t len = 0;
	NTSTATUS status;

	if (!id)
		return NT_STATUS_INVALID_HANDLE;
	status = smb2cli_query_directory(cli->conn, (uint32_t)cli->timeout, cli->smb2.session,
					 cli->smb2.tcon, SMB2_FIND_ID_BOTH_DIRECTORY_INFO, 0, 0,
					 id[0], id[1], "*", most, mem, &out->data, &len);
	out->length = NT_STATUS_IS_OK(status) ? len : 0;
	return status;
}

#if POSTCOPY_SAMBA_VFS == 47

static inline struct tevent_req *compat_close_send(TALLOC_CTX *mem, struct tevent_context *ev,
						   struct cli_state *cli, uint16_t file)
{
	return cli_close_send(mem, ev, cli, file);
}

static inline NTSTATUS compat_connect(const char *host, uint16_t port, const char *name,
				      struct cli_state **out)
{
	return cli_connect_nb(host, NULL, port, 0x20, name, SMB_SIGNING_IF_REQUIRED, 0, out);
}

static inline NTSTATUS compat_negotiate(struct cli_state *cli, enum protocol_types min,
					enum protocol_types max)
{
	return smbXcli_negprot(cli->conn, cli->timeout, min, max);
}

static inline NTSTATUS compat_stat(struct cli_state *cli, const char *path, struct timespec *b,
				   struct timespec *a, struct timespec *m, struct timespec *c,
				   off_t *size, uint32_t *attributes, SMB_INO_T *ino)
{
	return cli_qpathinfo2(cli, path, b, a, m, c, size, attributes, ino);
}

/* 4.17 has no call for this. */
static inline NTSTATUS compat_fsctl(struct cli_state *cli, uint16_t file, uint32_t code,
				    const DATA_BLOB *in, uint32_t most, TALLOC_CTX *mem,
				    DATA_BLOB *out)
{
	const uint64_t *id = file_id(cli, file);

	if (!id)
		return NT_STATUS_INVALID_HANDLE;
	return smb2cli_ioctl(cli->conn, (uint32_t)cli->timeout, cli->smb2.session, cli->smb2.tcon,
			     id[0], id[1], code, 0, in, most, NULL, SMB2_IOCTL_FLAG_IS_FSCTL, mem,
			     NULL, out);
}

#elif POSTCOPY_SAMBA_VFS == 50

#include "lib/util/tevent_ntstatus.h"
#include "libsmb/cli_smb2_fnum.h"

static inline struct tevent_req *compat_close_send(TALLOC_CTX *mem, struct tevent_context *ev,
						   struct cli_state *cli, uint16_t file)
{
	return cli_close_send(mem, ev, cli, file, 0);
}

static inline NTSTATUS compat_connect(const char *host, uint16_t port, const char *name,
				      struct cli_state **out)
{
	return cli_connect_nb(NULL, host, NULL, port, 0x20, name, SMB_SIGNING_IF_REQUIRED, 0,
			      out);
}

/* No contexts of our own: the POSIX extensions are not asked for. */
static inline NTSTATUS compat_negotiate(struct cli_state *cli, enum protocol_types min,
					enum protocol_types max)
{
	return smbXcli_negprot(cli->conn, cli->timeout, min, max, NULL, NULL, NULL);
}

static inline NTSTATUS compat_stat(struct cli_state *cli, const char *path, struct timespec *b,
				   struct timespec *a, struct timespec *m, struct timespec *c,
				   off_t *size, uint32_t *attributes, SMB_INO_T *ino)
{
	return cli_qpathinfo2(cli, path, b, a, m, c, size, attributes, ino, NULL);
}

static inline NTSTATUS compat_fsctl(struct cli_state *cli, uint16_t file, uint32_t code,
				    const DATA_BLOB *in, uint32_t most, TALLOC_CTX *mem,
				    DATA_BLOB *out)
{
	struct tevent_context *ev = tevent_context_init(mem);
	struct tevent_req *req = NULL;
	NTSTATUS status = NT_STATUS_NO_MEMORY;

	if (ev)
		req = cli_smb2_fsctl_send(mem, ev, cli, file, code, in, most);
	if (req && tevent_req_poll_ntstatus(req, ev, &status))
		status = cli_smb2_fsctl_recv(req, mem, out);
	return status;
}

#else
#error "this Samba is unknown: the worker is for 4.17 and 4.22"
#endif

#endif
